//! One trim per physical drive: a lock file for each, shared by all trimtab processes.

use crate::host::block::{Layer, Stack, sysfs_name};
use crate::host::processes::command_line;
use crate::sys::beneath::{Dir, PRIVATE_FILE};
use crate::sys::interrupt;
use anyhow::Context as _;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::Path;
use std::time::{Duration, Instant};

/// The locks of all drives below a filesystem. Released on drop or exit.
#[derive(Debug)]
pub struct DriveLocks {
    _files: Vec<File>,
}

impl DriveLocks {
    /// Takes the locks. Fails with [`DriveBusyError`] if another process holds one.
    pub fn take(stack: &Stack, directory: &Path) -> anyhow::Result<Self> {
        let held = directory_of_locks(directory)?;
        // Always in the same order, so that two processes cannot deadlock.
        let mut names: Vec<String> = stack.drives().map(Layer::shown_name).collect();
        if names.is_empty() {
            names = stack.top_layers().map(Layer::shown_name).collect();
        }
        names.sort();
        names.dedup();
        let files =
            names.iter().map(|name| lock(&held, &format!("lock-{}", sysfs_name(name)), name));
        Ok(Self { _files: files.collect::<anyhow::Result<_>>()? })
    }
}

const RETRY: Duration = Duration::from_millis(50);

impl DriveLocks {
    /// Takes the locks, waiting up to `patience` for holders. Calls `waiting` once before
    /// that. Fails with [`Interrupted`](crate::sys::interrupt::Interrupted).
    pub fn wait(
        stack: &Stack,
        directory: &Path,
        patience: Duration,
        waiting: impl FnOnce(&DriveBusyError),
    ) -> anyhow::Result<Self> {
        let began = Instant::now();
        let mut waiting = Some(waiting);
        loop {
            let error = match Self::take(stack, directory) {
                Ok(locks) => return Ok(locks),
                Err(error) => error,
            };
            let Some(busy) =
                error.downcast_ref::<DriveBusyError>().filter(|_| began.elapsed() < patience)
            else {
                return Err(error);
            };
            if let Some(waiting) = waiting.take() {
                waiting(busy);
            }
            interrupt::check()?;
            std::thread::sleep(RETRY.min(patience));
        }
    }
}

/// Another process is trimming the drive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DriveBusyError {
    /// The drive.
    pub drive: String,
    /// The process that holds the lock, if it is recorded.
    pub process: Option<u32>,
}

impl std::fmt::Display for DriveBusyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.process {
            Some(process) => match command_line(process) {
                Some(command) => write!(
                    f,
                    "{} is already being trimmed by process {process} ({command})",
                    self.drive
                ),
                None => write!(f, "{} is already being trimmed by process {process}", self.drive),
            },
            None => write!(f, "{} is already being trimmed", self.drive),
        }
    }
}

impl std::error::Error for DriveBusyError {}

/// The directory for locks and notes. It is owned by this user and not writable by
/// others, so its contents come from this program.
pub fn directory_of_locks(directory: &Path) -> anyhow::Result<Dir> {
    let path = std::path::absolute(directory)
        .with_context(|| format!("cannot find {}", directory.display()))?;
    Dir::guarded(&path, true).with_context(|| format!("cannot use {}", directory.display()))
}

fn lock(directory: &Dir, name: &str, drive: &str) -> anyhow::Result<File> {
    let locked = lock_file(directory, name)
        .with_context(|| format!("cannot lock {}", directory.path().join(name).display()))?;
    Ok(locked.map_err(|process| DriveBusyError { drive: drive.to_owned(), process })?)
}

/// Locks a file until the process ends. The inner error is the process that holds the
/// lock, if it is recorded.
pub fn lock_file(directory: &Dir, name: &str) -> io::Result<Result<File, Option<u32>>> {
    let (mut file, _) = directory.open_or_create(name, PRIVATE_FILE)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => {
            let mut text = String::new();
            let _ = (&mut file).take(20).read_to_string(&mut text);
            return Ok(Err(text.trim().parse().ok()));
        }
        Err(errno) => return Err(errno.into()),
    }
    // Only for messages; the lock itself is on the file.
    let _ = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
    Ok(Ok(file))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::block::{Bus, Layer, LayerKind};
    use crate::host::mountinfo::DevNumber;
    use std::path::PathBuf;
    use trimtab_drive::units::Bytes;

    fn stack(names: &[&str]) -> Stack {
        let layer = |name: &&str| Layer {
            name: (*name).to_owned(),
            label: None,
            kind: LayerKind::Drive(Bus::Other),
            sys: PathBuf::new(),
            dev: DevNumber { major: 0, minor: 0 },
            size: Bytes::ZERO,
            below: Vec::new(),
        };
        Stack { layers: names.iter().map(layer).collect(), tops: vec![0], ..Stack::default() }
    }

    #[test]
    fn take_locks_a_drive_once() {
        let directory = tempfile::tempdir().unwrap();
        let locks = DriveLocks::take(&stack(&["sda", "sdb"]), directory.path()).unwrap();
        let busy = DriveLocks::take(&stack(&["sdb", "sdc"]), directory.path()).unwrap_err();
        assert_eq!(
            busy.downcast_ref::<DriveBusyError>(),
            Some(&DriveBusyError { drive: "sdb".into(), process: Some(std::process::id()) })
        );
        DriveLocks::take(&stack(&["sdd"]), directory.path()).unwrap();
        drop(locks);
        DriveLocks::take(&stack(&["sdb"]), directory.path()).unwrap();
    }

    #[test]
    fn wait_takes_lock_when_released() {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path();
        let locks = DriveLocks::take(&stack(&["sda"]), at).unwrap();
        let mut said = None;
        let began = Instant::now();
        let error = DriveLocks::wait(&stack(&["sda"]), at, Duration::from_millis(200), |busy| {
            said = Some(busy.to_string())
        })
        .unwrap_err();
        assert!(error.is::<DriveBusyError>() && began.elapsed() >= Duration::from_millis(200));
        assert!(said.unwrap().contains(&format!("by process {}", std::process::id())));
        let error =
            DriveLocks::wait(&stack(&["sda"]), at, Duration::ZERO, |_| panic!("it does not wait"))
                .unwrap_err();
        assert!(error.is::<DriveBusyError>());
        std::thread::scope(|scope| {
            scope.spawn(move || {
                std::thread::sleep(Duration::from_millis(150));
                drop(locks);
            });
            DriveLocks::wait(&stack(&["sda"]), at, Duration::from_secs(30), |_| ()).unwrap();
        });
    }

    #[test]
    fn take_does_not_follow_a_link() {
        let directory = tempfile::tempdir().unwrap();
        let victim = directory.path().join("victim");
        std::fs::write(&victim, "precious").unwrap();
        std::os::unix::fs::symlink(&victim, directory.path().join("lock-sda")).unwrap();
        assert!(DriveLocks::take(&stack(&["sda"]), directory.path()).is_err());
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "precious");
    }
}
