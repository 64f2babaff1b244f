//! The tree from which `/sys`, `/proc` and `/etc` are read: of the running machine, or a
//! recorded one (`--sysroot`).
//!
//! A tree is not trusted. All symbolic links, including absolute ones, are resolved
//! inside the tree; link loops end with an error; only regular files are opened, never a
//! device or a pipe; reads are limited in size.

use super::record::SysrootRecorder;
use crate::sys::beneath::ResolvedObject;
use crate::sys::mount_check;
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, StatxFlags, openat, readlinkat, statx,
};
use rustix::io::Errno;
use std::cell::Cell;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

const LINKS_MAX: usize = 40;
const COMPONENTS_MAX: usize = 256;
/// Maximum size of an attribute. Sysfs returns at most a page.
const ATTRIBUTE_BYTES_MAX: u64 = 64 << 10;
/// Maximum size of a table such as mountinfo.
pub const TABLE_BYTES_MAX: u64 = 16 << 20;
const ENTRIES_MAX: usize = 65_536;

thread_local! {
    /// Recording is paused for reads of this thread.
    static PAUSED: Cell<bool> = const { Cell::new(false) };
}

/// A tree to read from.
#[derive(Debug)]
pub struct Root {
    directory: OwnedFd,
    live: bool,
    is_machine: bool,
    recorder: Option<Mutex<SysrootRecorder>>,
}

/// The server of a FUSE filesystem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FuseServer {
    /// It answers.
    Answers,
    /// It has ended; every request fails.
    Ended,
    /// It does not answer in time.
    Silent,
}

/// A resolved name: the object, its type and permissions, and its path in the tree
/// without links.
struct ResolvedPath {
    object: OwnedFd,
    mode: u32,
    path: PathBuf,
}

impl ResolvedPath {
    fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.mode)
    }
}

impl Root {
    /// The running machine.
    pub fn live() -> std::io::Result<Self> {
        let directory = open_root(Path::new("/"))?;
        Ok(Self { directory, live: true, is_machine: true, recorder: None })
    }

    /// A recorded tree.
    pub fn recorded(path: &Path) -> std::io::Result<Self> {
        Ok(Self { directory: open_root(path)?, live: false, is_machine: false, recorder: None })
    }

    /// The root directory, opened with `O_PATH`.
    pub fn directory(&self) -> std::io::Result<OwnedFd> {
        self.directory.try_clone()
    }

    /// The running machine, read through files only, like a recorded tree; keeps
    /// everything read for [`recording`](Self::recording).
    pub fn recording_live() -> std::io::Result<Self> {
        Ok(Self { is_machine: true, ..Self::recording_of(Path::new("/"))? })
    }

    /// A recorded tree whose reads are kept.
    pub fn recording_of(path: &Path) -> std::io::Result<Self> {
        Ok(Self { recorder: Some(Mutex::default()), ..Self::recorded(path)? })
    }

    /// Everything read so far; `None` if reads are not kept.
    pub fn recording(&self) -> Option<SysrootRecorder> {
        Some(
            self.recorder
                .as_ref()?
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner)
                .clone(),
        )
    }

    /// The tree is the running machine, read through files only or not.
    pub fn is_this_machine(&self) -> bool {
        self.is_machine
    }

    /// Records bytes that come from no file as the file `path` of the recorded tree.
    pub fn keep(&self, path: &Path, bytes: &[u8]) {
        self.record(|recorder| recorder.file(path, bytes));
    }

    /// Runs `read` without recording. For files that are recorded only if they turn out
    /// to matter: units and scripts may hold secrets.
    pub fn unrecorded<T>(&self, read: impl FnOnce() -> T) -> T {
        let before = PAUSED.replace(true);
        let value = read();
        PAUSED.set(before);
        value
    }

    fn record(&self, what: impl FnOnce(&mut SysrootRecorder)) {
        if PAUSED.get() {
            return;
        }
        if let Some(recorder) = &self.recorder {
            what(&mut recorder.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
        }
    }

    /// The tree is the running machine and system calls may be used in addition to files.
    pub fn is_live(&self) -> bool {
        self.live
    }

    /// The path without links, inside the tree; `None` if the object does not exist.
    pub fn canonical(&self, path: impl AsRef<Path>) -> Option<PathBuf> {
        self.find(path.as_ref()).ok().map(|found| found.path)
    }

    /// The state of the server of the FUSE filesystem mounted at `path`. Waits at most
    /// [`mount_check::PATIENCE`].
    pub fn fuse_server(&self, path: &Path) -> FuseServer {
        if self.live && !mount_check::silent(&[path]).is_empty() {
            return FuseServer::Silent;
        }
        match self.find(path).and_then(|found| rustix::fs::fstatvfs(&found.object)) {
            Err(Errno::NOTCONN) => FuseServer::Ended,
            _ => FuseServer::Answers,
        }
    }

    /// The object exists (links are followed).
    pub fn exists(&self, path: impl AsRef<Path>) -> bool {
        self.find(path.as_ref()).is_ok()
    }

    /// The object is a directory (links are followed); `None` if it does not exist.
    pub fn is_directory(&self, path: impl AsRef<Path>) -> Option<bool> {
        self.find(path.as_ref()).ok().map(|found| found.kind() == FileType::Directory)
    }

    /// The text of an attribute, trimmed, at most 64 KiB. Invalid UTF-8 and control
    /// characters other than line ends and tabs are replaced, so that the text can be
    /// shown.
    pub fn read(&self, path: impl AsRef<Path>) -> Option<String> {
        self.read_bytes(path.as_ref(), ATTRIBUTE_BYTES_MAX).ok().map(|bytes| printable(&bytes))
    }

    /// The attribute as an unsigned number.
    pub fn read_u64(&self, path: impl AsRef<Path>) -> Option<u64> {
        self.read(path)?.parse().ok()
    }

    /// The attribute as a signed number.
    pub fn read_i64(&self, path: impl AsRef<Path>) -> Option<i64> {
        self.read(path)?.parse().ok()
    }

    /// The first `limit` bytes of a regular file.
    pub fn read_bytes(&self, path: &Path, limit: u64) -> std::io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let (file, canonical) = self.open_found(path)?;
        file.take(limit).read_to_end(&mut bytes)?;
        self.record(|recorder| recorder.file(&canonical, &bytes));
        Ok(bytes)
    }

    /// A regular file, open for reading.
    pub fn open(&self, path: &Path) -> std::io::Result<File> {
        self.open_found(path).map(|(file, _)| file)
    }

    fn open_found(&self, path: &Path) -> std::io::Result<(File, PathBuf)> {
        let found = self.find(path)?;
        if found.kind() != FileType::RegularFile {
            return Err(std::io::Error::new(
                std::io::ErrorKind::InvalidInput,
                "not a regular file",
            ));
        }
        Ok((File::from(reopen(&found.object, OFlags::RDONLY | OFlags::NONBLOCK)?), found.path))
    }

    /// The names in a directory, sorted; empty if it does not exist.
    pub fn list(&self, path: impl AsRef<Path>) -> Vec<String> {
        self.try_list(path.as_ref()).unwrap_or_default()
    }

    /// The target of a link.
    pub fn link(&self, path: impl AsRef<Path>) -> Option<PathBuf> {
        let path = path.as_ref();
        let parent = self.find(path.parent()?).ok()?;
        let text = readlinkat(&parent.object, path.file_name()?, Vec::new()).ok()?;
        let target = PathBuf::from(OsString::from_vec(text.into_bytes()));
        self.record(|recorder| {
            recorder.link(&parent.path.join(path.file_name().unwrap_or_default()), &target)
        });
        Some(target)
    }

    fn try_list(&self, path: &Path) -> std::io::Result<Vec<String>> {
        let found = self.find(path)?;
        if found.kind() != FileType::Directory {
            return Ok(Vec::new());
        }
        let directory = openat(
            &found.object,
            c".",
            OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        let mut names = Vec::new();
        for entry in Dir::new(directory)?.take(ENTRIES_MAX) {
            // Sysfs creates no names that are not UTF-8.
            if let Ok(name) = entry?.file_name().to_str()
                && name != "."
                && name != ".."
            {
                names.push(name.to_owned());
            }
        }
        names.sort_unstable();
        if self.recorder.is_some() && found.path.starts_with("/sys") {
            // Records that each entry exists.
            names.iter().for_each(|name| {
                drop((self.link(found.path.join(name)), self.find(&found.path.join(name))))
            });
        }
        Ok(names)
    }

    /// Walks `path` one component at a time below the root and holds a descriptor of each
    /// directory, so that neither links nor concurrent renames lead outside.
    fn find(&self, path: &Path) -> Result<ResolvedPath, Errno> {
        let mut todo: Vec<OsString> = components_reversed(path);
        let mut above: Vec<(OwnedFd, OsString, u32)> = Vec::new();
        let mut links = 0;
        while let Some(name) = todo.pop() {
            if name == ".." {
                above.pop();
                continue;
            }
            let parent: BorrowedFd<'_> =
                above.last().map_or(self.directory.as_fd(), |(fd, ..)| fd.as_fd());
            let object = openat(
                parent,
                &name,
                OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
                Mode::empty(),
            )?;
            let mode = mode_of(&object)?;
            if FileType::from_raw_mode(mode) == FileType::Symlink {
                links += 1;
                let target = readlinkat(&object, c"", Vec::new())?;
                let target = Path::new(OsStr::from_bytes(target.as_bytes()));
                self.record(|recorder| recorder.link(&joined(&above).join(&name), target));
                if target.is_absolute() {
                    above.clear();
                }
                todo.extend(components_reversed(target));
            } else {
                above.push((object, name, mode));
            }
            if links > LINKS_MAX || above.len() + todo.len() > COMPONENTS_MAX {
                return Err(Errno::LOOP);
            }
        }
        let path = joined(&above);
        let mode = above.last().map_or(FileType::Directory.as_raw_mode(), |(.., mode)| *mode);
        self.record(|recorder| {
            recorder.found(&path, FileType::from_raw_mode(mode) == FileType::Directory)
        });
        match above.pop() {
            Some((object, ..)) => Ok(ResolvedPath { object, mode, path }),
            None => {
                let object =
                    openat(&self.directory, c".", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
                Ok(ResolvedPath { object, mode, path })
            }
        }
    }
}

/// Asks nothing of a server that may hang: the walk has found the type.
fn mode_of(object: &OwnedFd) -> Result<u32, Errno> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    Ok(statx(object, c"", flags, StatxFlags::TYPE | StatxFlags::MODE)?.stx_mode.into())
}

fn joined(above: &[(OwnedFd, OsString, u32)]) -> PathBuf {
    above.iter().fold(PathBuf::from("/"), |path, (_, name, _)| path.join(name))
}

fn open_root(path: &Path) -> std::io::Result<OwnedFd> {
    let named = ResolvedObject::look_up(path)?;
    match named.kind() {
        FileType::Directory => Ok(named.into_object()),
        _ => Err(Errno::NOTDIR.into()),
    }
}

/// Opens the object of an `O_PATH` descriptor for reading.
fn reopen(object: &OwnedFd, flags: OFlags) -> Result<OwnedFd, Errno> {
    use std::os::fd::AsRawFd as _;
    let path = format!("/proc/self/fd/{}", object.as_raw_fd());
    openat(CWD, path, flags | OFlags::CLOEXEC | OFlags::NOCTTY, Mode::empty())
}

/// The components of `path`, last first, without a leading `/` and without `.`: every
/// path starts at the root or at the link's directory.
fn components_reversed(path: &Path) -> Vec<OsString> {
    path.as_os_str()
        .as_bytes()
        .split(|&b| b == b'/')
        .filter(|c| !c.is_empty() && *c != b".")
        .rev()
        .map(|c| OsString::from_vec(c.to_vec()))
        .collect()
}

/// Makes text safe to show: trims it and replaces everything that could control a
/// terminal.
pub fn printable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    crate::output::plain(text.trim_matches(|c: char| c.is_whitespace() || c == '\0')).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn tree() -> (tempfile::TempDir, Root) {
        let directory = tempfile::tempdir().unwrap();
        let root = Root::recorded(directory.path()).unwrap();
        (directory, root)
    }

    #[test]
    fn root_resolves_links_inside_the_tree() {
        let (directory, root) = tree();
        let at = |p: &str| directory.path().join(p);
        fs::create_dir_all(at("sys/devices/a/queue")).unwrap();
        fs::create_dir_all(at("sys/block")).unwrap();
        fs::write(at("sys/devices/a/queue/rotational"), "0\n").unwrap();
        symlink("../devices/a", at("sys/block/a")).unwrap();
        symlink("/sys/devices/a", at("sys/block/absolute")).unwrap();
        symlink("../../../../../../../../sys/devices/a", at("sys/block/up")).unwrap();
        for name in ["a", "absolute", "up"] {
            assert_eq!(
                root.read(format!("/sys/block/{name}/queue/rotational")).as_deref(),
                Some("0"),
                "{name}"
            );
            assert_eq!(
                root.canonical(format!("/sys/block/{name}/")),
                Some(PathBuf::from("/sys/devices/a")),
                "{name}"
            );
        }
        assert_eq!(root.list("/sys/block"), ["a", "absolute", "up"]);
        assert_eq!(root.link("/sys/block/a"), Some(PathBuf::from("../devices/a")));
        assert_eq!(root.canonical("/"), Some(PathBuf::from("/")));
    }

    #[test]
    fn root_never_reads_outside_the_tree() {
        let (directory, root) = tree();
        let outside = tempfile::tempdir().unwrap();
        let secret = outside.path().join("secret");
        fs::write(&secret, "secret").unwrap();
        symlink(&secret, directory.path().join("absolute")).unwrap();
        let up = "../".repeat(30) + secret.to_str().unwrap();
        symlink(&up, directory.path().join("up")).unwrap();
        symlink(outside.path(), directory.path().join("dir")).unwrap();
        for name in ["absolute", "up", "dir/secret", &up] {
            assert_eq!(root.read(name), None, "{name}");
        }
    }

    #[test]
    fn root_refuses_loops_pipes_devices_and_long_paths() {
        let (directory, root) = tree();
        let at = |p: &str| directory.path().join(p);
        symlink("b", at("a")).unwrap();
        symlink("a", at("b")).unwrap();
        symlink(".", at("here")).unwrap();
        symlink("x/".repeat(2000), at("long")).unwrap();
        rustix::fs::mknodat(CWD, at("pipe"), FileType::Fifo, Mode::RUSR, 0).unwrap();
        for name in ["a", "pipe", "long"] {
            assert_eq!(root.read(name), None, "{name}");
        }
        assert!(!root.exists("here/".repeat(60)), "more links than the kernel would follow");
        assert!(root.list("a").is_empty());
    }

    #[test]
    fn root_read_is_limited_and_printable() {
        let (directory, root) = tree();
        let huge = File::create(directory.path().join("huge")).unwrap();
        huge.set_len(1 << 40).unwrap();
        assert!(root.read("huge").unwrap().len() <= 3 * ATTRIBUTE_BYTES_MAX as usize);
        fs::write(directory.path().join("junk"), b" \x1b[2Jname\xff\n").unwrap();
        assert_eq!(root.read("junk").as_deref(), Some("\u{fffd}[2Jname\u{fffd}"));
    }
}
