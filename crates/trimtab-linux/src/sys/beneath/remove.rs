//! Removes directory trees without following links or entering mounts.

use crate::sys::interrupt;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Dir, DirEntry, FileType, Mode, OFlags, ResolveFlags, StatxFlags};
use rustix::io::Errno;
use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Maximum depth, larger than any tree that this program makes. Each level keeps a
/// descriptor open during the removal.
const DEPTH_MAX: u32 = 512;
/// Names read from a directory at a time, to bound the memory for directories with
/// millions of entries.
const BATCH: usize = 4096;

/// Maximum wait for removed entries to disappear: a FUSE server removes a renamed open
/// file shortly after it is closed.
const PATIENCE: Duration = Duration::from_secs(2);
/// Pause between two passes without progress.
const PAUSE: Duration = Duration::from_millis(10);
/// After a signal, removal continues for this long. A second signal ends it at once
/// ([`interrupt`]) …
const AFTER_SIGNAL: Duration = Duration::from_secs(10);
/// … but at least this long if the removal itself starts later.
const AFTER_SIGNAL_MIN: Duration = Duration::from_millis(500);
/// Maximum number of entries that a message names.
const NAMED_MAX: usize = 3;

/// True if a filesystem gives such names to removed open files. FUSE servers (libfuse)
/// and NFS clients rename these files until they are closed.
pub fn is_renamed_open_file(name: &[u8]) -> bool {
    [&b".fuse_hidden"[..], b".nfs"].iter().any(|prefix| {
        let number = name.strip_prefix(*prefix);
        number.is_some_and(|number| number.len() >= 8 && number.iter().all(u8::is_ascii_hexdigit))
    })
}

/// Removes the content of `dir`, but not `dir` itself. Fails with `ResourceBusy` if
/// removed entries persist (open files on FUSE and NFS), and with `Interrupted` some time
/// after a signal.
pub fn contents(dir: &OwnedFd) -> io::Result<()> {
    TreeRemoval { began: Instant::now() }.contents(dir, Path::new(""), 0)
}

/// A tree removal in progress.
struct TreeRemoval {
    began: Instant,
}

impl TreeRemoval {
    /// `at` is the path of `dir` relative to the first directory, for messages.
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
            // A full batch may be followed by another full one.
            let more = batch.len() == BATCH
                && batch.iter().any(|(name, _)| !is_renamed_open_file(name.to_bytes()));
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

    /// Removes an entry, or leaves it to the next pass if it is in use.
    fn entry(
        &self,
        dir: &OwnedFd,
        at: &Path,
        name: &CStr,
        kind: FileType,
        depth: u32,
    ) -> io::Result<()> {
        let is_dir = match kind {
            FileType::Directory => true,
            // Some filesystems do not report the type in the listing.
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
            Ok(inner) => {
                self.contents(&inner, &at.join(OsStr::from_bytes(name.to_bytes())), depth + 1)?
            }
            Err(Errno::NOENT) => return Ok(()),
            Err(errno) => return Err(errno.into()),
        }
        match rustix::fs::unlinkat(dir, name, AtFlags::REMOVEDIR) {
            Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(()),
            removed => Ok(gone(removed)?),
        }
    }

    fn check_signal(&self) -> io::Result<()> {
        if is_over(interrupt::requested_for(), self.began.elapsed()) {
            Err(io::Error::new(io::ErrorKind::Interrupted, "interrupted"))
        } else {
            Ok(())
        }
    }
}

/// True if a removal that has taken `elapsed` must end, `since` the first signal.
fn is_over(since: Option<Duration>, elapsed: Duration) -> bool {
    since.is_some_and(|since| since > AFTER_SIGNAL) && elapsed > AFTER_SIGNAL_MIN
}

/// Returns the error for entries that persist.
fn busy(at: &Path, batch: &[(CString, FileType)]) -> io::Error {
    let named: Vec<String> = batch
        .iter()
        .take(NAMED_MAX)
        .map(|(name, _)| at.join(OsStr::from_bytes(name.to_bytes())).display().to_string())
        .collect();
    let more = batch.len().saturating_sub(NAMED_MAX);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    io::Error::new(io::ErrorKind::ResourceBusy, format!("still in use: {}{more}", named.join(", ")))
}

/// Removes the files and directories in `dir` that `is_ours` accepts by name and depth.
/// Keeps all other entries, and the directories that contain them. Returns the remaining
/// paths, relative to `dir`.
pub fn known(
    dir: &OwnedFd,
    depth: u32,
    is_ours: &dyn Fn(&OsStr, u32) -> bool,
) -> Result<Vec<PathBuf>, Errno> {
    if depth > DEPTH_MAX {
        return Err(Errno::NAMETOOLONG);
    }
    let all: Vec<CString> = entries(dir)?
        .map(|entry| Ok(entry?.file_name().to_owned()))
        .collect::<Result<_, Errno>>()?;
    let mut stay = Vec::new();
    for name in all {
        let shown = PathBuf::from(OsStr::from_bytes(name.to_bytes()));
        let kind = match rustix::fs::statat(dir, &name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => FileType::from_raw_mode(stat.st_mode),
            Err(Errno::NOENT) => continue,
            Err(errno) => return Err(errno),
        };
        if !is_ours(shown.as_os_str(), depth)
            || !matches!(kind, FileType::RegularFile | FileType::Directory | FileType::Symlink)
        {
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
    let found = |entry: DirEntry| (entry.file_name().to_owned(), entry.file_type());
    entries(dir)?.take(BATCH).map(|entry| entry.map(found)).collect()
}

/// The entries of a directory, without `.` and `..`.
pub fn entries(dir: &OwnedFd) -> Result<impl Iterator<Item = Result<DirEntry, Errno>>, Errno> {
    let is_dots = |entry: &DirEntry| matches!(name_of(entry), b"." | b"..");
    Ok(Dir::read_from(dir)?.filter(move |entry| !entry.as_ref().is_ok_and(is_dots)))
}

/// The name of an entry.
pub fn name_of(entry: &DirEntry) -> &[u8] {
    entry.file_name().to_bytes()
}

/// Fails with `EXDEV` unless both directories are on the same mount. A bind mount of the
/// same filesystem counts as another mount.
pub fn require_same_mount(parent: BorrowedFd<'_>, dir: BorrowedFd<'_>) -> Result<(), Errno> {
    let mount = |fd: BorrowedFd<'_>| {
        let seen = rustix::fs::statx(fd, c"", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID)?;
        // Before Linux 5.8 only the device number is available.
        let known = StatxFlags::from_bits_retain(seen.stx_mask).contains(StatxFlags::MNT_ID);
        Ok::<_, Errno>((known.then_some(seen.stx_mnt_id), seen.stx_dev_major, seen.stx_dev_minor))
    };
    if mount(parent)? == mount(dir)? { Ok(()) } else { Err(Errno::XDEV) }
}

/// Opens a directory without following a link or crossing a mount.
fn open_inside<P: rustix::path::Arg + Copy>(
    parent: BorrowedFd<'_>,
    name: P,
) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_XDEV | ResolveFlags::NO_SYMLINKS | ResolveFlags::BENEATH;
    match rustix::fs::openat2(parent, name, flags, Mode::empty(), resolve) {
        // Before Linux 5.6, or in a sandbox that does not know the call.
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

    /// Removes the directory `name` in `parent`. A missing directory is not an error.
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

    /// Once, one signal left 15,000 files: their removal takes longer than a second.
    #[test]
    fn removal_continues_for_seconds_after_a_signal() {
        let over = |since: Option<u64>, elapsed| {
            is_over(since.map(Duration::from_secs), Duration::from_millis(elapsed))
        };
        assert_eq!(
            [None, Some(9), Some(11)].map(|since| over(since, 60_000)),
            [false, false, true]
        );
        assert!(!over(Some(60), 400), "it began long after the signal");
    }

    #[test]
    fn remove_tree_does_not_follow_links() {
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
    fn remove_tree_refuses_a_link() {
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("precious"), b"x").unwrap();
        let parent = tempfile::tempdir().unwrap();
        symlink(outside.path(), parent.path().join("work")).unwrap();
        assert!(tree(open(parent.path()).as_fd(), "work").is_err());
        assert!(outside.path().join("precious").exists());
    }
}
