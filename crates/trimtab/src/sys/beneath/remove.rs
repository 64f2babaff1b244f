//! Removing a directory and all that is in it, and nothing else: no link is followed, no mount is entered.

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, StatxFlags};
use rustix::io::Errno;
use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

/// Deeper than anything that this program makes; each level keeps a descriptor open meanwhile.
const DEPTH_MAX: u32 = 512;
/// Names taken from a directory at a time, so that one with millions needs no memory for all.
const BATCH: usize = 4096;

/// Removes what is in `dir`, but not `dir`.
pub fn contents(dir: &OwnedFd, depth: u32) -> Result<(), Errno> {
    if depth > DEPTH_MAX {
        return Err(Errno::NAMETOOLONG);
    }
    loop {
        let batch = names(dir)?;
        if batch.is_empty() {
            return Ok(());
        }
        for (name, kind) in batch {
            let is_dir = match kind {
                FileType::Directory => true,
                // Some filesystems do not tell in the listing.
                FileType::Unknown => match rustix::fs::statat(dir, &name, AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(stat) => FileType::from_raw_mode(stat.st_mode) == FileType::Directory,
                    Err(Errno::NOENT) => continue,
                    Err(errno) => return Err(errno),
                },
                _ => false,
            };
            if is_dir {
                match open_inside(dir.as_fd(), &name) {
                    Ok(inner) => contents(&inner, depth + 1)?,
                    Err(Errno::NOENT) => continue,
                    Err(errno) => return Err(errno),
                }
                gone(rustix::fs::unlinkat(dir, &name, AtFlags::REMOVEDIR))?;
            } else {
                gone(rustix::fs::unlinkat(dir, &name, AtFlags::empty()))?;
            }
        }
    }
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
    fn tree(parent: BorrowedFd<'_>, name: &str) -> Result<(), Errno> {
        match open_inside(parent, name) {
            Ok(dir) => contents(&dir, 0)?,
            Err(Errno::NOENT) => return Ok(()),
            Err(errno) => return Err(errno),
        }
        gone(rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR))
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
