//! The directories below a target, held open: operations reach the directories that the
//! target created, even if their names change.

use crate::sys::beneath::{self, ObjectIdentity};
use rustix::fd::{AsFd as _, BorrowedFd, OwnedFd};
use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit};
use std::collections::HashMap;
use std::path::Path;

/// Permission bits that allow group and others to change a directory.
const OTHERS_WRITE: u32 = 0o022;

/// The open directories below a root directory.
#[derive(Debug)]
pub(super) struct OpenDirectories {
    root: OwnedFd,
    /// Other users may change the root, so anything below may be replaced at any time.
    shared: bool,
    open: HashMap<String, OwnedFd>,
    open_max: usize,
    /// Identity of each directory at creation or first use; kept only if the root is
    /// shared.
    identities: HashMap<String, ObjectIdentity>,
}

impl OpenDirectories {
    pub(super) fn new(root: OwnedFd) -> Self {
        let own = rustix::process::geteuid().as_raw();
        let shared = rustix::fs::fstat(&root)
            .map_or(true, |stat| stat.st_uid != own || stat.st_mode & OTHERS_WRITE != 0);
        Self {
            root,
            shared,
            open: HashMap::new(),
            open_max: open_max(),
            identities: HashMap::new(),
        }
    }

    pub(super) fn root(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }

    /// The parent directory of `path`, and the last component of `path`.
    #[inline]
    pub(super) fn locate<'p>(&mut self, path: &'p str) -> Result<(BorrowedFd<'_>, &'p str), Errno> {
        match path.rsplit_once('/') {
            None => Ok((self.root.as_fd(), path)),
            Some((parent, name)) => Ok((self.directory(parent)?, name)),
        }
    }

    fn directory(&mut self, path: &str) -> Result<BorrowedFd<'_>, Errno> {
        if !self.open.contains_key(path) {
            if self.open.len() >= self.open_max {
                self.open.clear();
            }
            let dir = match self.open_again(path) {
                Err(Errno::MFILE) if !self.open.is_empty() => {
                    self.open.clear();
                    self.open_again(path)?
                }
                opened => opened?,
            };
            self.open.insert(path.to_owned(), dir);
        }
        Ok(self.open[path].as_fd())
    }

    fn open_again(&mut self, path: &str) -> Result<OwnedFd, Errno> {
        // `O_PATH` is enough for lookups: needs no list permission, free on network
        // filesystems.
        let dir = beneath::open_below(
            self.root.as_fd(),
            Path::new(path),
            OFlags::PATH | OFlags::DIRECTORY,
        )?;
        if self.shared {
            let identity = ObjectIdentity::from(&rustix::fs::fstat(&dir)?);
            if *self.identities.entry(path.to_owned()).or_insert(identity) != identity {
                return Err(swapped());
            }
        }
        Ok(dir)
    }

    /// Call after creating `path`: fails if another user could have replaced it.
    pub(super) fn made(&mut self, path: &str) -> Result<(), Errno> {
        if !self.shared {
            return Ok(());
        }
        let dir = self.open_again(path)?;
        if rustix::fs::fstat(&dir)?.st_uid != rustix::process::geteuid().as_raw() {
            return Err(swapped());
        }
        self.open.insert(path.to_owned(), dir);
        Ok(())
    }

    /// Call before removing `path`, so that no descriptor keeps it.
    pub(super) fn forget(&mut self, path: &str) {
        self.open.remove(path);
        self.identities.remove(path);
    }

    #[cfg(test)]
    pub(super) fn forget_open(&mut self) {
        self.open.clear();
    }

    #[cfg(test)]
    pub(super) fn keep_open(&mut self, most: usize) {
        self.open_max = most;
    }

    /// Fails if another user has replaced a file of ours that is open for writing.
    #[inline]
    pub(super) fn check_file(&self, file: &OwnedFd) -> Result<(), Errno> {
        if !self.shared {
            return Ok(());
        }
        let stat = rustix::fs::fstat(file)?;
        let ours = stat.st_uid == rustix::process::geteuid().as_raw() && stat.st_nlink == 1;
        if ours && FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile {
            Ok(())
        } else {
            Err(swapped())
        }
    }
}

/// The error for a link, the usual way to replace a path.
const fn swapped() -> Errno {
    Errno::LOOP
}

/// Maximum number of directories kept open: a share of the raised limit of open files.
fn open_max() -> usize {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let wanted = limit.maximum.unwrap_or(1 << 16).min(1 << 16);
    let raised = rustix::process::setrlimit(
        Resource::Nofile,
        Rlimit { current: Some(wanted), maximum: limit.maximum },
    );
    let current = if raised.is_ok() { wanted } else { limit.current.unwrap_or(1024) };
    usize::try_from(current / 16).unwrap_or(64).clamp(16, 4096)
}
