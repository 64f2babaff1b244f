//! Removing a directory and all that is in it, and nothing else: no link is followed, no mount is entered.

use crate::sys::interrupt;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, StatxFlags};
use rustix::io::Errno;
use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Deeper than anything that this program makes; each level keeps a descriptor open meanwhile.
const DEPTH_MAX: u32 = 512;
/// Names taken from a directory at a time, so that one with millions needs no memory for all.
const BATCH: usize = 4096;

/// How long removal waits for entries that do not go away: a FUSE server removes a renamed open file a moment after it is closed.
const PATIENCE: Duration = Duration::from_secs(2);
/// Pause between two passes that removed nothing for good.
const PAUSE: Duration = Duration::from_millis(10);
/// After a signal, removal continues until this long after it ...
const AFTER_SIGNAL: Duration = Duration::from_secs(1);
/// ... and at least this long, for a removal that begins late.
const AFTER_SIGNAL_MIN: Duration = Duration::from_millis(500);
/// How many entries a message names.
const NAMED_MAX: usize = 3;

/// Whether a filesystem gives this name to an open file that is removed: FUSE servers (libfuse) and NFS clients rename it until it is closed.
#[must_use]
pub fn is_renamed_open_file(name: &[u8]) -> bool {
    [&b".fuse_hidden"[..], b".nfs"].iter().any(|prefix| {
        let number = name.strip_prefix(*prefix);
        number.is_some_and(|number| number.len() >= 8 && number.iter().all(u8::is_ascii_hexdigit))
    })
}

/// Removes what is in `dir`, but not `dir`. Ends with `ResourceBusy` when entries stay although they were removed (open files on FUSE and NFS),
/// and with `Interrupted` some time after a signal.
pub fn contents(dir: &OwnedFd) -> io::Result<()> {
    Removing { began: Instant::now() }.contents(dir, Path::new(""), 0)
}

/// One removal of a tree.
struct Removing {
    began: Instant,
}

impl Removing {
    /// `at`: where `dir` is below the first directory, for messages.
    fn contents(&self, dir: &OwnedFd, at: &Path, depth: u32) -> io::Result<()> {
        if depth > DEPTH_MAX {
            return Err(Errno::NAMETOOLONG.into());
        }
        let mut least = usize::MAX;
        let mut progress = Instant::now();
        loop {
            let batch = names(dir)?;
            if batch.is_empty() {
                return Ok(());
            }
            // A full batch may leave as many behind it.
            let more = batch.len() == BATCH && batch.iter().any(|(name, _)| !is_renamed_open_file(name.to_bytes()));
            if more || batch.len() < least {
                (least, progress) = (batch.len(), Instant::now());
            } else if progress.elapsed() > PATIENCE {
                return Err(busy(at, &batch));
            } else {
                std::thread::sleep(PAUSE);
            }
            for (name, kind) in batch {
                self.check_signal()?;
                self.entry(dir, at, &name, kind, depth)?;
            }
        }
    }

    /// Removes one entry, or leaves it for the next pass if it is in use.
    fn entry(&self, dir: &OwnedFd, at: &Path, name: &CStr, kind: FileType, depth: u32) -> io::Result<()> {
        let is_dir = match kind {
            FileType::Directory => true,
            // Some filesystems do not tell in the listing.
            FileType::Unknown => match rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => FileType::from_raw_mode(stat.st_mode) == FileType::Directory,
                Err(Errno::NOENT) => return Ok(()),
                Err(errno) => return Err(errno.into()),
            },
            _ => false,
        };
        if !is_dir {
            return match rustix::fs::unlinkat(dir, name, AtFlags::empty()) {
                Err(Errno::BUSY) if is_renamed_open_file(name.to_bytes()) => Ok(()),
                removed => Ok(gone(removed)?),
            };
        }
        match open_inside(dir.as_fd(), name) {
            Ok(inner) => self.contents(&inner, &at.join(OsStr::from_bytes(name.to_bytes())), depth + 1)?,
            Err(Errno::NOENT) => return Ok(()),
            Err(errno) => return Err(errno.into()),
        }
        match rustix::fs::unlinkat(dir, name, AtFlags::REMOVEDIR) {
            Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(()),
            removed => Ok(gone(removed)?),
        }
    }

    fn check_signal(&self) -> io::Result<()> {
        let over = interrupt::requested_for().is_some_and(|since| since > AFTER_SIGNAL) && self.began.elapsed() > AFTER_SIGNAL_MIN;
        if over { Err(io::Error::new(io::ErrorKind::Interrupted, "interrupted")) } else { Ok(()) }
    }
}

/// The error for entries that stay.
fn busy(at: &Path, batch: &[(CString, FileType)]) -> io::Error {
    let named: Vec<String> =
        batch.iter().take(NAMED_MAX).map(|(name, _)| at.join(OsStr::from_bytes(name.to_bytes())).display().to_string()).collect();
    let more = batch.len().saturating_sub(NAMED_MAX);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    io::Error::new(io::ErrorKind::ResourceBusy, format!("still in use: {}{more}", named.join(", ")))
}

/// Removes of what is in `dir` the files and directories whose names `is_ours` knows by their depth: nothing else, and no directory that holds anything
/// else. Gives the paths of what stays, from `dir` on.
pub fn known(dir: &OwnedFd, depth: u32, is_ours: &dyn Fn(&OsStr, u32) -> bool) -> Result<Vec<PathBuf>, Errno> {
    if depth > DEPTH_MAX {
        return Err(Errno::NAMETOOLONG);
    }
    let mut all = Vec::new();
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        if entry.file_name() != c"." && entry.file_name() != c".." {
            all.push(entry.file_name().to_owned());
        }
    }
    let mut stay = Vec::new();
    for name in all {
        let shown = PathBuf::from(OsStr::from_bytes(name.to_bytes()));
        let kind = match rustix::fs::statat(dir, &name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => FileType::from_raw_mode(stat.st_mode),
            Err(Errno::NOENT) => continue,
            Err(errno) => return Err(errno),
        };
        if !is_ours(shown.as_os_str(), depth) || !matches!(kind, FileType::RegularFile | FileType::Directory | FileType::Symlink) {
            stay.push(shown);
        } else if kind != FileType::Directory {
            gone(rustix::fs::unlinkat(dir, &name, AtFlags::empty()))?;
        } else {
            let inner = open_inside(dir.as_fd(), &name)?;
            let inside = known(&inner, depth + 1, is_ours)?;
            if inside.is_empty() {
                gone(rustix::fs::unlinkat(dir, &name, AtFlags::REMOVEDIR))?;
            }
            stay.extend(inside.into_iter().map(|path| shown.join(path)));
        }
    }
    Ok(stay)
}

fn names(dir: &OwnedFd) -> Result<Vec<(CString, FileType)>, Errno> {
    let mut batch = Vec::new();
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        if entry.file_name() != c"." && entry.file_name() != c".." {
            batch.push((entry.file_name().to_owned(), entry.file_type()));
        }
        if batch.len() == BATCH {
            break;
        }
    }
    Ok(batch)
}

/// `EXDEV` if a directory is not on the mount that another is on: of another filesystem, or of another part of the same one, as a bind mount is.
pub fn require_same_mount(parent: BorrowedFd<'_>, dir: BorrowedFd<'_>) -> Result<(), Errno> {
    let mount = |fd: BorrowedFd<'_>| {
        let seen = rustix::fs::statx(fd, c"", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID)?;
        // Before Linux 5.8 there is only the device.
        let known = StatxFlags::from_bits_retain(seen.stx_mask).contains(StatxFlags::MNT_ID);
        Ok::<_, Errno>((known.then_some(seen.stx_mnt_id), seen.stx_dev_major, seen.stx_dev_minor))
    };
    if mount(parent)? == mount(dir)? { Ok(()) } else { Err(Errno::XDEV) }
}

/// Opens a directory, but neither through a link nor across a mount.
fn open_inside<P: rustix::path::Arg + Copy>(parent: BorrowedFd<'_>, name: P) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_XDEV | ResolveFlags::NO_SYMLINKS | ResolveFlags::BENEATH;
    match rustix::fs::openat2(parent, name, flags, Mode::empty(), resolve) {
        // Before Linux 5.6, or where a sandbox does not know the call.
        Err(Errno::NOSYS | Errno::PERM) => {
            let dir = rustix::fs::openat(parent, name, flags, Mode::empty())?;
            require_same_mount(parent, dir.as_fd())?;
            Ok(dir)
        }
        result => result,
    }
}

fn gone(result: Result<(), Errno>) -> Result<(), Errno> {
    match result {
        Err(Errno::NOENT) => Ok(()),
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    /// Removes the directory `name` in `parent`. One that is not there any more counts as removed.
    fn tree(parent: BorrowedFd<'_>, name: &str) -> io::Result<()> {
        match open_inside(parent, name) {
            Ok(dir) => contents(&dir)?,
            Err(Errno::NOENT) => return Ok(()),
            Err(errno) => return Err(errno.into()),
        }
        Ok(gone(rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR))?)
    }

    fn open(path: &std::path::Path) -> OwnedFd {
        rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap()
    }

    #[test]
    fn everything_inside_goes_and_nothing_behind_a_link() {
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("precious"), b"x").unwrap();
        let parent = tempfile::tempdir().unwrap();
        let work = parent.path().join("work");
        fs::create_dir_all(work.join("a/b/c")).unwrap();
        for i in 0..5000 {
            fs::write(work.join(format!("a/b/{i}")), b"").unwrap();
        }
        symlink(outside.path(), work.join("a/link")).unwrap();
        symlink(outside.path().join("precious"), work.join("file-link")).unwrap();
        tree(open(parent.path()).as_fd(), "work").unwrap();
        assert!(!work.exists());
        assert!(outside.path().join("precious").exists());
        tree(open(parent.path()).as_fd(), "work").unwrap();
    }

    #[test]
    fn a_link_in_place_of_the_directory_is_refused() {
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("precious"), b"x").unwrap();
        let parent = tempfile::tempdir().unwrap();
        symlink(outside.path(), parent.path().join("work")).unwrap();
        assert!(tree(open(parent.path()).as_fd(), "work").is_err());
        assert!(outside.path().join("precious").exists());
    }
}
