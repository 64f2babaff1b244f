//! Resolves user-named paths one component at a time. A link on the way is followed only
//! if no user but root and this user can have placed or replaced it. Linux does the same
//! in `/tmp` (`fs.protected_symlinks`). This module does it always, in every directory
//! that other users may write to, for links of any owner. A link such as `/home ->
//! /usr/home` works as usual.

use rustix::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use rustix::fs::{FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

/// Maximum number of links; the kernel's own limit.
const LINKS_MAX: u32 = 40;

const LOOK: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The object that a path resolves to, and the trust in that path.
#[derive(Debug)]
pub struct ResolvedObject {
    /// The object, opened with `O_PATH`.
    object: OwnedFd,
    stat: Stat,
    /// The object is an open file of a process (`/dev/stdin`, `/dev/fd/63`), reached
    /// through no file name.
    held: bool,
    /// Only root and this user can have placed the object.
    guarded: bool,
}

/// True if `uid` is root, this user, or the user who called `sudo`.
pub fn is_trusted(uid: u32) -> bool {
    let user = rustix::process::geteuid().as_raw();
    let called_sudo = || std::env::var("SUDO_UID").ok()?.parse::<u32>().ok();
    uid == 0 || uid == user || user == 0 && called_sudo() == Some(uid)
}

/// True if users other than root and this user may add entries to this directory or write
/// to this file. A group with the user's own number is private to the user. With an
/// access list, however, the group bits are a mask, and a set write bit may mean that
/// another user may write.
pub(super) fn is_shared(object: impl AsFd, stat: &Stat) -> bool {
    let own_group = stat.st_gid != 0 && stat.st_gid == stat.st_uid;
    let group = stat.st_mode & 0o020 != 0 && (!own_group || has_access_list(object));
    !is_trusted(stat.st_uid) || group || stat.st_mode & 0o002 != 0
}

/// True if the object has a POSIX access list, which may grant more than its mode. An
/// `O_PATH` descriptor suffices.
pub(super) fn has_access_list(object: impl AsFd) -> bool {
    let path = format!("/proc/self/fd/{}", object.as_fd().as_raw_fd());
    match rustix::fs::getxattr_query(path, c"system.posix_acl_access") {
        Ok(bytes) => bytes > 0,
        Err(errno) => !matches!(errno, Errno::NODATA | Errno::OPNOTSUPP),
    }
}

/// Returns the components of a path in order.
fn steps(path: &Path) -> impl DoubleEndedIterator<Item = OsString> {
    path.components()
        .filter(|step| *step != Component::CurDir)
        .map(|step| step.as_os_str().to_owned())
}

/// State of a path resolution.
struct PathWalk {
    at: OwnedFd,
    at_stat: Stat,
    /// For messages.
    shown: PathBuf,
    todo: VecDeque<OsString>,
    links: u32,
}

impl PathWalk {
    fn new(path: &Path) -> io::Result<Self> {
        if path.as_os_str().is_empty() {
            return Err(Errno::NOENT.into());
        }
        let start = if path.is_absolute() { "/" } else { "." };
        let at = rustix::fs::open(
            start,
            OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        let at_stat = rustix::fs::fstat(&at)?;
        Ok(Self { at, at_stat, shown: PathBuf::new(), todo: steps(path).collect(), links: 0 })
    }

    fn enter(&mut self, directory: OwnedFd, name: &OsStr) -> io::Result<()> {
        self.at_stat = rustix::fs::fstat(&directory)?;
        self.at = directory;
        self.shown.push(name);
        Ok(())
    }

    /// Resolves the rest of the path. With `make`, creates missing directories with mode
    /// 0700.
    fn run(mut self, make: bool) -> io::Result<ResolvedObject> {
        while let Some(name) = self.todo.pop_front() {
            if name == "/" || name == ".." {
                let up =
                    rustix::fs::openat(&self.at, &*name, LOOK | OFlags::DIRECTORY, Mode::empty())?;
                self.enter(up, &name)?;
                continue;
            }
            // Try a directory first: this also triggers automounts.
            match rustix::fs::openat(&self.at, &*name, LOOK | OFlags::DIRECTORY, Mode::empty()) {
                Ok(directory) => self.enter(directory, &name)?,
                Err(Errno::NOENT) if make => {
                    match rustix::fs::mkdirat(
                        &self.at,
                        &*name,
                        Mode::from_raw_mode(super::PRIVATE_DIR),
                    ) {
                        Ok(()) | Err(Errno::EXIST) => {}
                        Err(errno) => return Err(errno.into()),
                    }
                    let directory = rustix::fs::openat(
                        &self.at,
                        &*name,
                        LOOK | OFlags::DIRECTORY,
                        Mode::empty(),
                    )?;
                    self.enter(directory, &name)?;
                }
                Err(Errno::NOTDIR | Errno::LOOP) => {
                    if let Some(end) = self.no_directory(&name)? {
                        return Ok(end);
                    }
                }
                Err(errno) => return Err(errno.into()),
            }
        }
        let guarded = !is_shared(&self.at, &self.at_stat);
        Ok(ResolvedObject { object: self.at, stat: self.at_stat, held: false, guarded })
    }

    /// Handles a component that is not a directory: follows a trusted link, or returns
    /// the final object.
    fn no_directory(&mut self, name: &OsStr) -> io::Result<Option<ResolvedObject>> {
        let object = rustix::fs::openat(&self.at, name, LOOK, Mode::empty())?;
        let stat = rustix::fs::fstat(&object)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::Symlink {
            if !self.todo.is_empty() {
                return Err(Errno::NOTDIR.into());
            }
            return Ok(Some(ResolvedObject {
                object,
                stat,
                held: false,
                guarded: !is_shared(&self.at, &self.at_stat),
            }));
        }
        self.links += 1;
        if self.links > LINKS_MAX {
            return Err(Errno::LOOP.into());
        }
        self.require_trusted(name, &stat)?;
        if rustix::fs::fstatfs(&self.at)?.f_type == rustix::fs::PROC_SUPER_MAGIC {
            // A link in /proc leads to an open object; its text is not a path.
            let object =
                rustix::fs::openat(&self.at, name, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
            let stat = rustix::fs::fstat(&object)?;
            if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
                self.enter(object, name)?;
                return Ok(None);
            }
            return if self.todo.is_empty() {
                Ok(Some(ResolvedObject { object, stat, held: true, guarded: true }))
            } else {
                Err(Errno::NOTDIR.into())
            };
        }
        let target = rustix::fs::readlinkat(&object, c"", Vec::new())?;
        for step in steps(Path::new(OsStr::from_bytes(target.as_bytes()))).rev() {
            self.todo.push_front(step);
        }
        Ok(None)
    }

    fn require_trusted(&self, name: &OsStr, link: &Stat) -> io::Result<()> {
        let whose = if !is_trusted(link.st_uid) {
            format!("owned by uid {}", link.st_uid)
        } else if is_shared(&self.at, &self.at_stat) {
            "in a directory that others may write to".to_owned()
        } else {
            return Ok(());
        };
        let what = format!(
            "{} is a symbolic link {whose}; name its target",
            self.shown.join(name).display()
        );
        Err(io::Error::new(io::ErrorKind::PermissionDenied, what))
    }
}

impl AsFd for ResolvedObject {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.object.as_fd()
    }
}

impl ResolvedObject {
    /// Resolves `path`.
    pub fn look_up(path: &Path) -> io::Result<Self> {
        PathWalk::new(path)?.run(false)
    }

    /// Resolves a directory path. Creates missing directories with mode 0700.
    pub fn make_directory(path: &Path) -> io::Result<Self> {
        let made = PathWalk::new(path)?.run(true)?;
        if made.kind() != FileType::Directory {
            return Err(Errno::NOTDIR.into());
        }
        Ok(made)
    }

    /// File type of the object.
    pub fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.stat.st_mode)
    }

    /// Status of the object.
    pub const fn stat(&self) -> &Stat {
        &self.stat
    }

    /// True if only root and this user can have placed the object.
    pub fn is_guarded(&self) -> bool {
        self.guarded || is_trusted(self.stat.st_uid)
    }

    /// Opens the resolved object, even if its name now refers to another one.
    pub fn open(&self, flags: OFlags) -> io::Result<OwnedFd> {
        if self.kind() == FileType::Directory {
            return Ok(rustix::fs::openat(
                &self.object,
                c".",
                flags | OFlags::CLOEXEC,
                Mode::empty(),
            )?);
        }
        let path = format!("/proc/self/fd/{}", self.object.as_raw_fd());
        let flags = flags | OFlags::NOCTTY | OFlags::CLOEXEC;
        rustix::fs::open(path, flags, Mode::empty()).map_err(|errno| match errno {
            Errno::NOENT if !Path::new("/proc/self").exists() => {
                io::Error::other("/proc is not mounted")
            }
            errno => errno.into(),
        })
    }

    /// Current path of the object, with all links resolved.
    pub fn real_path(&self) -> io::Result<PathBuf> {
        real_path(&self.object)
    }

    /// Returns the object, opened with `O_PATH`.
    pub fn into_object(self) -> OwnedFd {
        self.object
    }
}

/// Returns the current path of an open object, with all links resolved.
pub fn real_path(object: &OwnedFd) -> io::Result<PathBuf> {
    let path =
        rustix::fs::readlink(format!("/proc/self/fd/{}", object.as_fd().as_raw_fd()), Vec::new())?;
    let path = PathBuf::from(OsStr::from_bytes(path.as_bytes()));
    if path.is_absolute() { Ok(path) } else { Err(Errno::NOENT.into()) }
}

/// Readable inputs other than regular files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Streams {
    /// None, because the input is read more than once or not sequentially.
    No,
    /// Pipes that this process inherited (`/dev/stdin`, a shell's `<(...)`), read to
    /// their end, and `/dev/null` as empty input.
    Pipes,
}

/// Opens a user-named file for reading. Rejects other objects before opening them:
/// opening a pipe would block, a device could be read without end, and opening a device
/// may have side effects.
pub fn open_to_read(path: &Path, streams: Streams) -> io::Result<File> {
    let named = ResolvedObject::look_up(path)?;
    let is_null = || named.stat.st_rdev == rustix::fs::makedev(1, 3);
    let what = match named.kind() {
        FileType::RegularFile => {
            return Ok(File::from(named.open(OFlags::RDONLY | OFlags::NONBLOCK)?));
        }
        FileType::Fifo if named.held && streams == Streams::Pipes => {
            let pipe = named.open(OFlags::RDONLY | OFlags::NONBLOCK)?;
            rustix::fs::fcntl_setfl(&pipe, OFlags::empty())?;
            return Ok(File::from(pipe));
        }
        FileType::CharacterDevice if streams == Streams::Pipes && is_null() => {
            return Ok(File::from(named.open(OFlags::RDONLY)?));
        }
        FileType::Directory => return Err(Errno::ISDIR.into()),
        FileType::Fifo if streams == Streams::Pipes => "a named pipe",
        FileType::Fifo => "a pipe",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        _ => "no file",
    };
    Err(io::Error::new(
        io::ErrorKind::InvalidInput,
        format!("it is {what}, where a file is wanted"),
    ))
}

/// True if users other than root and this user may write to the open file.
pub fn is_open_to_others(file: &File) -> bool {
    rustix::fs::fstat(file).map_or(true, |stat| is_shared(file, &stat))
}

/// Reads a user-named file. Fails if it is longer than `bytes_max`.
pub fn read(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    read_all(open_to_read(path, Streams::Pipes)?, bytes_max)
}

/// Reads an open file to its end. Fails if it is longer than `bytes_max`; a regular file
/// is then not read at all.
pub fn read_all(file: File, bytes_max: u64) -> io::Result<Vec<u8>> {
    let too_long = || {
        io::Error::new(io::ErrorKind::FileTooLarge, format!("it is longer than {bytes_max} bytes"))
    };
    let expected = file
        .metadata()
        .map(|metadata| if metadata.is_file() { metadata.len() } else { bytes_max })?;
    if expected > bytes_max {
        return Err(too_long());
    }
    // A growing buffer would double and take a multiple of the memory.
    let mut bytes = Vec::with_capacity(usize::try_from(expected + 1).map_err(|_| too_long())?);
    if file.take(bytes_max + 1).read_to_end(&mut bytes)? as u64 > bytes_max {
        return Err(too_long());
    }
    Ok(bytes)
}

/// Like [`read`], for a file of this program. Fails if another user can have written it.
pub fn read_own(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let file = open_to_read(path, Streams::No)?;
    if is_open_to_others(&file) {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "it belongs to another user, or others may write to it",
        ));
    }
    read_all(file, bytes_max)
}

/// Like [`read`], as UTF-8 text.
pub fn read_text(path: &Path, bytes_max: u64) -> io::Result<String> {
    String::from_utf8(read(path, bytes_max)?)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8"))
}

/// Opens `path` for appending if it is a stream: a terminal, a pipe with a reader,
/// `/dev/null`, or an inherited file such as `/dev/stdout`. Returns `None` for a named
/// regular file, a directory or a missing path.
pub fn open_stream_to_write(path: &Path) -> io::Result<Option<File>> {
    let Some(named) = find_stream(path)? else { return Ok(None) };
    let stream = named.open(OFlags::WRONLY | OFlags::APPEND | OFlags::NONBLOCK).map_err(
        |error| match error.raw_os_error() {
            Some(libc::ENXIO) => {
                io::Error::new(error.kind(), "it is a pipe that nothing reads, or a socket")
            }
            _ => error,
        },
    )?;
    rustix::fs::fcntl_setfl(&stream, OFlags::APPEND)?;
    Ok(Some(File::from(stream)))
}

/// The stream that [`open_stream_to_write`] opens, unopened. Fails on the same links and
/// objects.
pub fn find_stream(path: &Path) -> io::Result<Option<ResolvedObject>> {
    let named = match ResolvedObject::look_up(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        named => named?,
    };
    match named.kind() {
        FileType::Directory => Ok(None),
        FileType::RegularFile if !named.held => Ok(None),
        FileType::BlockDevice => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is a block device, and output would overwrite what is on it",
        )),
        _ if !named.is_guarded() => Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "it is not a file, and others may have put it there",
        )),
        _ => Ok(Some(named)),
    }
}
