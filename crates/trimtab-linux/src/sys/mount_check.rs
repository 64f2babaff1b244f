//! Whether a path answers. A filesystem whose server hangs keeps a process that looks at it in the kernel, where no signal reaches it. A child
//! process looks instead: it holds no file, lock or terminal of this process, so leaving it behind holds up nothing.

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use std::ffi::{CStr, CString};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long a path has to answer. A healthy one takes microseconds, over a slow network milliseconds.
pub const PATIENCE: Duration = Duration::from_secs(2);
/// Children at the same time.
const AT_ONCE: usize = 64;
/// Between two looks at the children.
const PAUSE: Duration = Duration::from_millis(1);

/// A look at a path that is under way.
#[derive(Debug)]
pub struct MountCheck {
    /// `None` once it has ended.
    child: Option<Pid>,
}

impl MountCheck {
    /// Starts to look at `path`.
    ///
    /// # Errors
    /// No process can be started.
    pub fn start(path: &Path) -> io::Result<Self> {
        let path = CString::new(std::path::absolute(path)?.as_os_str().as_bytes())?;
        // SAFETY: the child calls async-signal-safe functions only and does not return.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => look(&path),
            child => Ok(Self { child: Pid::from_raw(child) }),
        }
    }

    /// Whether the path has answered by now; an error is an answer, too.
    pub fn has_answered(&mut self) -> bool {
        if let Some(child) = self.child
            && !matches!(waitpid(Some(child), WaitOptions::NOHANG), Ok(None))
        {
            self.child = None;
        }
        self.child.is_none()
    }

    /// The same, within `patience`. A signal does not shorten it: a mount option may have to be restored on the way out.
    pub fn answers_within(&mut self, patience: Duration) -> bool {
        let until = Instant::now() + patience;
        while !self.has_answered() {
            if Instant::now() >= until {
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
            // The kernel keeps it until the filesystem answers or is gone.
            let _ = kill_process(child, Signal::KILL);
            self.has_answered();
        }
    }
}

/// The child: lets go of all that is the parent's, asks the filesystem of `path` for two things that no cache answers, and ends.
fn look(path: &CStr) -> ! {
    // SAFETY: async-signal-safe functions with valid pointers; the process ends here, so nothing is dropped twice.
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

/// Those of `paths` that do not answer within [`PATIENCE`], all asked at the same time.
#[must_use]
pub fn silent<'a>(paths: &[&'a Path]) -> Vec<&'a Path> {
    let mut silent = Vec::new();
    for some in paths.chunks(AT_ONCE) {
        let until = Instant::now() + PATIENCE;
        // What cannot be checked counts as answering: nothing speaks against it.
        let checks: Vec<(&Path, MountCheck)> = some.iter().filter_map(|path| Some((*path, MountCheck::start(path).ok()?))).collect();
        for (path, mut check) in checks {
            if !check.answers_within(until.saturating_duration_since(Instant::now())) {
                silent.push(path);
            }
        }
    }
    silent
}

/// A path that does not answer.
#[derive(Debug)]
pub struct DoesNotAnswer(pub PathBuf);

impl std::fmt::Display for DoesNotAnswer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} does not answer within {} s: the server or the drive of its filesystem hangs", self.0.display(), PATIENCE.as_secs())
    }
}

impl std::error::Error for DoesNotAnswer {}

/// An error if one of `paths` does not answer.
///
/// # Errors
/// That.
pub fn require_answers(paths: &[&Path]) -> anyhow::Result<()> {
    let silent = silent(paths);
    match silent.first() {
        Some(path) => Err(DoesNotAnswer((*path).to_owned()).into()),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_exists_or_does_not_answers() {
        let directory = tempfile::tempdir().unwrap();
        assert!(silent(&[directory.path(), Path::new("/no/such/path"), Path::new("/proc"), Path::new(".")]).is_empty());
    }

    #[test]
    fn a_check_holds_no_lock_of_this_process() {
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
