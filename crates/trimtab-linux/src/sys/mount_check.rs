//! Detects filesystems that do not respond. If the server hangs, a process that accesses
//! the filesystem blocks in the kernel, where no signal reaches it. Therefore a child
//! process makes the access. The child holds no file, lock or terminal of this process,
//! so abandoning it blocks nothing.

use super::interrupt;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use std::ffi::{CStr, CString};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

/// Time limit for a response. A healthy path takes microseconds, or milliseconds over a
/// slow network.
pub const PATIENCE: Duration = Duration::from_secs(2);
/// Maximum number of concurrent child processes.
const AT_ONCE: usize = 512;
/// Time limit of a scan of mounts and devices. The scan reads files, and some may be on a
/// mount that hangs.
const SCAN_PATIENCE: Duration = Duration::from_secs(10);
/// Time limit of a running scan after an interrupt.
const INTERRUPTED_SCAN: Duration = Duration::from_millis(500);
/// Polling interval for the children.
const PAUSE: Duration = Duration::from_millis(1);

/// A check of a path in progress.
#[derive(Debug)]
pub struct MountCheck {
    /// `None` once the child has ended.
    child: Option<Pid>,
}

impl MountCheck {
    /// Starts a check of `path`.
    ///
    /// # Errors
    /// The child process cannot be started.
    pub fn start(path: &Path) -> io::Result<Self> {
        let path = CString::new(std::path::absolute(path)?.as_os_str().as_bytes())?;
        // SAFETY: the child calls async-signal-safe functions only and does not return.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => look(&path),
            child => Ok(Self { child: Pid::from_raw(child) }),
        }
    }

    /// True if the path has responded; an error also counts as a response.
    pub fn has_answered(&mut self) -> bool {
        if let Some(child) = self.child
            && !matches!(waitpid(Some(child), WaitOptions::NOHANG), Ok(None))
        {
            self.child = None;
        }
        self.child.is_none()
    }

    /// Waits up to `patience` for a response. A signal does not shorten the wait, because
    /// a mount option may have to be restored before the process ends.
    pub fn answers_within(&mut self, patience: Duration) -> bool {
        self.answers_until(Instant::now() + patience, || false)
    }

    fn answers_until(&mut self, until: Instant, stopped: impl Fn() -> bool) -> bool {
        while !self.has_answered() {
            if Instant::now() >= until || stopped() {
                return false;
            }
            std::thread::sleep(PAUSE);
        }
        true
    }
}

impl Drop for MountCheck {
    fn drop(&mut self) {
        if let Some(child) = self.child {
            // The kernel keeps the child until the filesystem responds or is unmounted.
            let _ = kill_process(child, Signal::KILL);
            self.has_answered();
        }
    }
}

/// Body of the child: closes everything inherited from the parent, makes two requests to
/// the filesystem of `path` that no cache can answer, and exits.
fn look(path: &CStr) -> ! {
    // SAFETY: only async-signal-safe functions, with valid pointers; the process exits
    // here, so nothing is dropped twice.
    unsafe {
        libc::chdir(c"/".as_ptr());
        if libc::syscall(libc::SYS_close_range, 0_u32, u32::MAX, 0_u32) != 0 {
            (0..1024).for_each(|fd| {
                libc::close(fd);
            });
        }
        let fd = libc::open(path.as_ptr(), libc::O_PATH | libc::O_CLOEXEC);
        let mut stat = std::mem::MaybeUninit::<libc::statx>::uninit();
        let flags = libc::AT_EMPTY_PATH | libc::AT_STATX_FORCE_SYNC;
        libc::statx(fd, c"".as_ptr(), flags, libc::STATX_BASIC_STATS, stat.as_mut_ptr());
        let mut space = std::mem::MaybeUninit::<libc::statfs>::uninit();
        libc::fstatfs(fd, space.as_mut_ptr());
        libc::_exit(0)
    }
}

/// Returns the paths that do not respond within [`PATIENCE`], all checked concurrently.
/// After an interrupt, also returns the paths that have not responded yet.
pub fn silent<'a>(paths: &[&'a Path]) -> Vec<&'a Path> {
    let mut silent = Vec::new();
    for some in paths.chunks(AT_ONCE) {
        if interrupt::requested() {
            silent.extend(some);
            continue;
        }
        let until = Instant::now() + PATIENCE;
        // A path that cannot be checked counts as responding: there is no evidence of a
        // hang.
        let checks: Vec<(&Path, MountCheck)> =
            some.iter().filter_map(|path| Some((*path, MountCheck::start(path).ok()?))).collect();
        for (path, mut check) in checks {
            if !check.answers_until(until, interrupt::requested) {
                silent.push(path);
            }
        }
    }
    silent
}

/// Error for a path that does not respond.
#[derive(Debug, thiserror::Error)]
#[error(
    "{} does not answer within {} s: the server or the drive of its filesystem hangs",
    .0.display(), PATIENCE.as_secs()
)]
pub struct UnresponsivePathError(pub PathBuf);

/// Checks that all `paths` respond.
///
/// # Errors
/// [`UnresponsivePathError`] if a path does not respond; an interrupt.
pub fn require_answers(paths: &[&Path]) -> anyhow::Result<()> {
    let silent = silent(paths);
    interrupt::check()?;
    match silent.first() {
        Some(path) => Err(UnresponsivePathError((*path).to_owned()).into()),
        None => Ok(()),
    }
}

/// Runs `scan` in a separate thread and returns its result. A thread is needed because
/// the scan may read a file on a mount that hangs.
///
/// # Errors
/// The scan takes too long or fails, or an interrupt arrived. An abandoned thread ends
/// with the process.
pub fn in_time<T: Send + 'static>(scan: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    let (send, receive) = std::sync::mpsc::channel();
    std::thread::Builder::new().name("scan".into()).spawn(move || send.send(scan()))?;
    let until = Instant::now() + SCAN_PATIENCE;
    loop {
        match receive.recv_timeout(10 * PAUSE) {
            Ok(found) => return Ok(found),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(io::Error::other("the scan of mounts and devices failed"));
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        if interrupt::requested_for().is_some_and(|since| since >= INTERRUPTED_SCAN) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        if Instant::now() >= until {
            let what = format!(
                "a scan of mounts and devices takes longer than {} s: a mount hangs",
                SCAN_PATIENCE.as_secs()
            );
            return Err(io::Error::new(io::ErrorKind::TimedOut, what));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_check_answers_for_existing_and_missing_paths() {
        let directory = tempfile::tempdir().unwrap();
        assert!(
            silent(&[
                directory.path(),
                Path::new("/no/such/path"),
                Path::new("/proc"),
                Path::new(".")
            ])
            .is_empty()
        );
    }

    #[test]
    fn mount_check_inherits_no_lock() {
        use rustix::fs::{FlockOperation, flock};
        let file = tempfile::NamedTempFile::new().unwrap();
        let locked = file.reopen().unwrap();
        flock(&locked, FlockOperation::NonBlockingLockExclusive).unwrap();
        let mut check = MountCheck::start(file.path()).unwrap();
        drop(locked);
        assert!(check.answers_within(Duration::from_secs(60)));
        flock(file.as_file(), FlockOperation::NonBlockingLockExclusive).unwrap();
    }
}
