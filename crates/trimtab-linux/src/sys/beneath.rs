//! The only code that creates, changes and removes files. It works below an open
//! directory, follows no link, and never touches an object that another process put
//! there.
//!
//! A [`Dir`] is a descriptor. Its path serves messages only; no lookup uses it again. A
//! *name* is a single component: an empty name, `.`, `..` and names with `/` are
//! rejected. Modes are exact, whatever the umask. Before an object is removed, it is
//! moved to a place that other users cannot reach, and compared with the object that the
//! caller holds open.

pub mod named;
pub mod remove;

pub use named::ResolvedObject;

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, ResolveFlags, Stat};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use trimtab_drive::usage::quoted;

/// Mode of files that other users need not read.
pub const PRIVATE_FILE: u32 = 0o600;
/// Mode of directories that this program makes.
pub const PRIVATE_DIR: u32 = 0o700;
/// Mode of a new file that is opened for appending.
const APPENDED_FILE: u32 = 0o644;
/// Write permission for group and other users.
const OTHERS_WRITE: u32 = 0o022;
/// Any permission for group and other users.
const OTHERS_ANY: u32 = 0o077;
/// Sticky bit: users cannot remove other users' entries from the directory.
const STICKY: u32 = 0o1000;
/// Maximum number of attempts to find a free name.
const ATTEMPTS: u32 = 64;

/// Returns this process's umask, or `None` if /proc does not report it. Reading it with
/// umask(2) would change it.
pub fn umask() -> Option<u32> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    status.lines().find_map(|line| u32::from_str_radix(line.strip_prefix("Umask:")?.trim(), 8).ok())
}

/// Identity of a filesystem object, independent of its name: device and inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectIdentity {
    /// Device of the filesystem.
    pub device: u64,
    /// Inode number.
    pub inode: u64,
}

impl ObjectIdentity {
    /// Identity of an open file or directory.
    pub fn of(object: impl AsFd) -> io::Result<Self> {
        Ok(Self::from(&rustix::fs::fstat(object)?))
    }
}

impl From<&Stat> for ObjectIdentity {
    fn from(stat: &Stat) -> Self {
        Self { device: stat.st_dev, inode: stat.st_ino }
    }
}

/// Result of a removal.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Removal {
    /// The object was removed.
    Done,
    /// The name no longer exists.
    Absent,
    /// Another object has this name. It was not removed and is now at this path.
    Foreign(PathBuf),
}

/// An open directory.
#[derive(Debug)]
pub struct Dir {
    fd: OwnedFd,
    /// For messages.
    path: PathBuf,
}

impl Dir {
    /// Opens a directory that the user named. Follows only links that other users cannot
    /// have placed ([`named`]). Does not check who may write to the directory.
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::of_named(&ResolvedObject::look_up(path)?, path)
    }

    /// Opens a directory for this user's data. Creates missing directories with mode
    /// 0700.
    pub fn open_or_make(path: &Path) -> io::Result<Self> {
        Self::of_named(&ResolvedObject::make_directory(path)?, path)
    }

    /// Like [`Dir::open_or_make`], but only if other users can neither redirect the path
    /// nor remove the new directory. Otherwise creates nothing.
    pub fn make_sheltered(path: &Path) -> io::Result<Self> {
        Self::judge_place(path)?;
        Self::open_or_make(path)
    }

    fn of_named(named: &ResolvedObject, path: &Path) -> io::Result<Self> {
        let fd = named.open(OFlags::RDONLY | OFlags::DIRECTORY)?;
        Ok(Self { fd, path: path.to_owned() })
    }

    /// Returns the path of a user-named file with all links resolved, for code that must
    /// open it by name. The file need not exist. Fails unless only root and this user can
    /// place files in its directory or redirect its path.
    pub fn sheltered_file(path: &Path) -> io::Result<PathBuf> {
        let real = match ResolvedObject::look_up(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let (dir, name) = Self::of_file(path)?;
                named::real_path(&dir.fd)?.join(component(&name)?)
            }
            named => {
                let named = named?;
                match named.kind() {
                    FileType::RegularFile => {}
                    FileType::Directory => return Err(Errno::ISDIR.into()),
                    _ => {
                        return Err(io::Error::new(
                            io::ErrorKind::InvalidInput,
                            "it is not a file",
                        ));
                    }
                }
                named.real_path()?
            }
        };
        Self::sheltered(real.parent().unwrap_or(Path::new("/")))?.require_sheltered(false)?;
        Ok(real)
    }

    /// Returns the path of a user-named directory with all links resolved, for code that
    /// must access its files by name. Fails if other users can redirect the path or
    /// remove files that this program makes there.
    pub fn sheltered_directory(path: &Path) -> io::Result<PathBuf> {
        let real = ResolvedObject::look_up(path)?.real_path()?;
        Self::sheltered(&real)?.require_sheltered(true)?;
        Ok(real)
    }

    /// Fails if other users can redirect this user-named path, replace the file there, or
    /// remove what is in the directory there. If nothing is there, judges the nearest
    /// directory above it. Creates nothing. A path that only root may examine passes.
    pub fn check_sheltered(path: &Path) -> io::Result<()> {
        match Self::judge_place(path) {
            Err(error) if error.raw_os_error() == Some(Errno::ACCESS.raw_os_error()) => Ok(()),
            judged => judged,
        }
    }

    fn judge_place(path: &Path) -> io::Result<()> {
        for above in path.ancestors() {
            let above = if above.as_os_str().is_empty() { Path::new(".") } else { above };
            let named = match ResolvedObject::look_up(above) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                named => named?,
            };
            let mut real = named.real_path()?;
            if named.kind() != FileType::Directory {
                real.pop();
            }
            return Self::sheltered(&real)?.require_sheltered(true);
        }
        Ok(())
    }

    fn sheltered(real: &Path) -> io::Result<Self> {
        let mut dir = Self::open(Path::new("/"))?;
        for name in real.components().skip(1) {
            dir.require_sheltered(true)?;
            dir = dir.open_dir(name.as_os_str())?;
        }
        Ok(dir)
    }

    /// Fails if users other than root and this user may write to the directory. With
    /// `may_be_sticky`, a sticky directory is accepted if its owner is trusted.
    fn require_sheltered(&self, may_be_sticky: bool) -> io::Result<()> {
        let stat = rustix::fs::fstat(&self.fd)?;
        if !named::is_shared(&self.fd, &stat)
            || may_be_sticky && named::is_trusted(stat.st_uid) && stat.st_mode & STICKY != 0
        {
            return Ok(());
        }
        Err(if named::is_trusted(stat.st_uid) {
            self.open_to_others(&stat)
        } else {
            self.refused("it belongs to another user")
        })
    }

    fn open_to_others(&self, stat: &Stat) -> io::Error {
        let path = quoted(&self.path.to_string_lossy());
        let mode = stat.st_mode & 0o7777;
        // Every user needs a sticky directory such as /tmp.
        let remedy = if stat.st_mode & STICKY == 0 {
            format!("run 'chmod go-w {path}'")
        } else {
            "choose a directory that only you can write to".to_owned()
        };
        self.refused(&format!("others may write to it (mode {mode:o}); {remedy}"))
    }

    /// Opens the directory of a user-named file, and returns the file's name in it.
    pub fn of_file(path: &Path) -> io::Result<(Self, OsString)> {
        let name = path
            .file_name()
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the path names no file"))?;
        let parent =
            path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Ok((Self::open(parent)?, name.to_owned()))
    }

    /// Wraps an open directory.
    pub fn from_fd(fd: OwnedFd, path: &Path) -> Self {
        Self { fd, path: path.to_owned() }
    }

    /// Opens a private directory at an absolute path. Creates missing directories with
    /// mode 0700 and follows no link.
    ///
    /// Each directory on the way must belong to root or this user. Other users must not
    /// be able to write to it, unless the sticky bit protects the entries. The last
    /// directory must belong to this user and be closed to all other users.
    pub fn private(path: &Path) -> io::Result<Self> {
        let dir = Self::guarded(path, true)?;
        dir.require_private()?;
        Ok(dir)
    }

    /// Like [`Dir::private`], but other users may read the last directory. Creates
    /// missing directories only if `make`.
    pub fn guarded(path: &Path, make: bool) -> io::Result<Self> {
        if !path.is_absolute() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not an absolute path"));
        }
        let mut dir = Self::open(Path::new("/"))?;
        for component in path.components().skip(1) {
            let name = component.as_os_str();
            dir = match dir.open_dir(name) {
                Err(error) if make && error.kind() == io::ErrorKind::NotFound => {
                    match dir.mkdir(name) {
                        // Another process was faster. Its directory is checked like any
                        // other.
                        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                            dir.open_dir(name)?
                        }
                        made => made?,
                    }
                }
                opened => opened?,
            };
            dir.require_unwritable(true)?;
        }
        dir.require_unshared()?;
        Ok(dir)
    }

    /// Duplicates the descriptor.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { fd: self.fd.try_clone()?, path: self.path.clone() })
    }

    /// Opens the directory once more; a lock on it is independent of this one's.
    pub fn reopen(&self) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&self.fd, c".", flags, Mode::empty())?;
        Ok(Self { fd, path: self.path.clone() })
    }

    /// Path of the directory when it was opened; for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns a path to `name` in this directory, for system calls that take no
    /// directory descriptor. The path stays correct if the directory is renamed. It is
    /// valid only while this `Dir` is open.
    pub fn reach(&self, name: impl AsRef<OsStr>) -> PathBuf {
        Path::new("/proc/self/fd").join(self.fd.as_raw_fd().to_string()).join(name.as_ref())
    }

    /// Identity of the directory.
    pub fn identity(&self) -> io::Result<ObjectIdentity> {
        ObjectIdentity::of(&self.fd)
    }

    /// Fails unless the directory belongs to this user or root and other users cannot
    /// write to it. If it succeeds, only these two can have placed its entries.
    pub fn require_unshared(&self) -> io::Result<()> {
        self.require_unwritable(false)
    }

    /// Like [`Dir::require_unshared`]. With `may_be_sticky`, the sticky bit may protect
    /// the entries of a directory that other users can write to.
    fn require_unwritable(&self, may_be_sticky: bool) -> io::Result<()> {
        let stat = rustix::fs::fstat(&self.fd)?;
        if stat.st_uid != 0 && stat.st_uid != rustix::process::geteuid().as_raw() {
            return Err(self.refused(&format!("it belongs to another user (uid {})", stat.st_uid)));
        }
        if stat.st_mode & OTHERS_WRITE != 0 && !(may_be_sticky && stat.st_mode & STICKY != 0) {
            return Err(self.open_to_others(&stat));
        }
        Ok(())
    }

    /// Fails unless the directory belongs to this user and is closed to all other users.
    pub fn require_private(&self) -> io::Result<()> {
        let stat = rustix::fs::fstat(&self.fd)?;
        if stat.st_uid != rustix::process::geteuid().as_raw() {
            return Err(self.refused(&format!("it belongs to another user (uid {})", stat.st_uid)));
        }
        if stat.st_mode & OTHERS_ANY != 0 {
            return Err(
                self.refused(&format!("it is open to others (mode {:o})", stat.st_mode & 0o7777))
            );
        }
        Ok(())
    }

    fn refused(&self, why: &str) -> io::Error {
        io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!("{} cannot be trusted: {why}", self.path.display()),
        )
    }

    /// Creates a directory with mode 0700. Fails if the name exists.
    pub fn mkdir(&self, name: impl AsRef<OsStr>) -> io::Result<Self> {
        let name = component(name.as_ref())?;
        rustix::fs::mkdirat(&self.fd, name, Mode::from_raw_mode(PRIVATE_DIR))?;
        let dir = self.open_dir(name)?;
        dir.take_as_new()?;
        Ok(dir)
    }

    /// Checks that this directory is the one that was just created. Creating and opening
    /// are two calls. In between, a user who may write to the parent can move another
    /// directory of ours to this name, and cleanup would later empty it. This has
    /// happened: a directory of root's lost all its content.
    fn take_as_new(&self) -> io::Result<()> {
        let swapped = || self.refused("it was swapped while it was made");
        if !self.names()?.is_empty() || !self.is_owned_by_makers()? {
            return Err(swapped());
        }
        set_mode(self.fd.as_fd(), PRIVATE_DIR)?;
        // From now on other users cannot add entries.
        if self.names()?.is_empty() { Ok(()) } else { Err(swapped()) }
    }

    /// True if the directory has the owner that new files get: this user, or the user
    /// that the filesystem maps this user to (NFS, FAT, FUSE and so on).
    fn is_owned_by_makers(&self) -> io::Result<bool> {
        let owner = rustix::fs::fstat(&self.fd)?.st_uid;
        if owner == rustix::process::geteuid().as_raw() {
            return Ok(true);
        }
        let (probe, name) = self.new_temporary(OsStr::new("owner"))?;
        let maker = rustix::fs::fstat(&probe)?.st_uid;
        rustix::fs::unlinkat(&self.fd, &name, AtFlags::empty())?;
        Ok(maker == owner)
    }

    /// Creates a directory under the first free name that `name` returns for 1, 2, 3 …
    pub fn mkdir_unique(&self, name: impl Fn(u32) -> String) -> io::Result<(String, Self)> {
        for n in 1.. {
            let name = name(n);
            match self.mkdir(&name) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => return made.map(|dir| (name, dir)),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Opens the directory at `path` below this one, following no link. Creates missing
    /// directories with mode 0700.
    pub fn make_below(&self, path: &Path) -> io::Result<Self> {
        let mut dir = self.try_clone()?;
        for step in
            path.components().filter(|step| !matches!(step, Component::RootDir | Component::CurDir))
        {
            let name = step.as_os_str();
            dir = match dir.open_dir(name) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => dir.mkdir(name)?,
                opened => opened?,
            };
        }
        Ok(dir)
    }

    /// Creates a symbolic link to `target`. Fails if the name exists.
    pub fn symlink(&self, target: &Path, name: impl AsRef<OsStr>) -> io::Result<()> {
        Ok(rustix::fs::symlinkat(target, &self.fd, component(name.as_ref())?)?)
    }

    /// Opens a subdirectory, following no link.
    pub fn open_dir(&self, name: impl AsRef<OsStr>) -> io::Result<Self> {
        let fd = self.open_at(name.as_ref(), OFlags::RDONLY | OFlags::DIRECTORY)?;
        Ok(Self { fd, path: self.path.join(name.as_ref()) })
    }

    /// Creates a regular file with exactly this mode, open for reading and writing. Fails
    /// if the name exists.
    pub fn create_new(&self, name: impl AsRef<OsStr>, mode: u32) -> io::Result<File> {
        let name = component(name.as_ref())?;
        // O_EXCL follows no link, not even a dangling one.
        let flags = OFlags::RDWR
            | OFlags::CREATE
            | OFlags::EXCL
            | OFlags::NOFOLLOW
            | OFlags::NOCTTY
            | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&self.fd, name, flags, Mode::from_raw_mode(PRIVATE_FILE))?;
        set_mode(fd.as_fd(), mode)?;
        Ok(File::from(fd))
    }

    /// Opens an existing regular file for reading.
    pub fn open_read(&self, name: impl AsRef<OsStr>) -> io::Result<File> {
        self.regular(name.as_ref(), OFlags::RDONLY)
    }

    /// Opens an existing regular file for reading and writing.
    pub fn open_write(&self, name: impl AsRef<OsStr>) -> io::Result<File> {
        self.regular(name.as_ref(), OFlags::RDWR)
    }

    /// Opens a regular file for reading and writing, or creates it with exactly this
    /// mode. Returns true if it was created.
    pub fn open_or_create(&self, name: impl AsRef<OsStr>, mode: u32) -> io::Result<(File, bool)> {
        let name = name.as_ref();
        for _ in 0..ATTEMPTS {
            match self.open_write(name) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                opened => return opened.map(|file| (file, false)),
            }
            match self.create_new(name, mode) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => return made.map(|file| (file, true)),
            }
        }
        Err(io::Error::other("it comes and goes"))
    }

    /// True if only this user or root can have written the file: it is regular, belongs
    /// to one of them, is not writable for other users, and has a single name.
    pub fn is_trusted_file(file: &File) -> io::Result<bool> {
        let stat = rustix::fs::fstat(file)?;
        let owner = stat.st_uid == 0 || stat.st_uid == rustix::process::geteuid().as_raw();
        let regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        Ok(owner && regular && stat.st_mode & OTHERS_WRITE == 0 && stat.st_nlink == 1)
    }

    /// Fails unless [`Dir::is_trusted_file`]. In a directory that other users may write
    /// to, they may own the file and read or change it.
    pub fn require_trusted_file(file: &File) -> io::Result<()> {
        if Self::is_trusted_file(file)? {
            return Ok(());
        }
        let uid = rustix::fs::fstat(file)?.st_uid;
        let why = format!(
            "others may write where it is, and it is not this user's alone (owner \
                {uid}, more names, or a mode for others)"
        );
        Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
    }

    /// Atomically and durably replaces `name` with a file of this mode and the content
    /// that `write` produces. Other processes see either the old file or the complete new
    /// one. A link of that name is replaced, not followed. A crash during the write
    /// leaves nothing behind if the filesystem supports unnamed files.
    pub fn write_atomically(
        &self,
        name: impl AsRef<OsStr>,
        mode: u32,
        write: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> io::Result<()> {
        let name = component(name.as_ref())?;
        let (mut file, mut temporary) = match self.unnamed() {
            Some(file) => (file, None),
            None => self.new_temporary(name).map(|(file, name)| (file, Some(name)))?,
        };
        let put = || {
            write(&mut file)?;
            set_mode(file.as_fd(), mode)?;
            file.sync_all()?;
            let new = match temporary.take() {
                Some(new) => new,
                None => self.link_temporary(name, &file)?,
            };
            temporary = Some(new.clone());
            rustix::fs::renameat(&self.fd, &new, &self.fd, name)?;
            temporary = None;
            Ok(())
        };
        let result: io::Result<()> = put();
        if let Some(new) = temporary {
            // The first error is the one to report.
            let _ = self.remove_file(&new, &file);
        }
        result?;
        self.sync()
    }

    /// Makes all creations, renames and removals in the directory durable.
    pub fn sync(&self) -> io::Result<()> {
        match rustix::fs::fsync(&self.fd) {
            // The filesystem does not support this and has nothing to write.
            Err(Errno::INVAL | Errno::OPNOTSUPP) => Ok(()),
            result => Ok(result?),
        }
    }

    /// Creates an unnamed file; `None` if the filesystem does not support it.
    fn unnamed(&self) -> Option<File> {
        let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
        rustix::fs::openat(&self.fd, c".", flags, Mode::from_raw_mode(PRIVATE_FILE))
            .ok()
            .map(File::from)
    }

    /// Fails if no file can be created here. Leaves nothing behind.
    pub fn try_to_make(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        let name = component(name.as_ref())?;
        if self.unnamed().is_some() {
            return Ok(());
        }
        let (file, new) = self.new_temporary(name)?;
        self.remove_file(&new, &file).map(drop)
    }

    /// True if `found` is a name that [`Dir::write_atomically`] uses for its temporary
    /// file for `name`.
    pub fn is_temporary_name(found: &OsStr, name: &OsStr) -> bool {
        let random = |found: &[u8]| {
            let rest =
                found.strip_prefix(b".")?.strip_prefix(name.as_bytes())?.strip_prefix(b".")?;
            Some(rest.len() == 16 && rest.iter().all(u8::is_ascii_hexdigit))
        };
        random(found.as_bytes()) == Some(true)
    }

    fn new_temporary(&self, name: &OsStr) -> io::Result<(File, OsString)> {
        self.with_temporary_name(name, |new| self.create_new(new, PRIVATE_FILE))
    }

    fn link_temporary(&self, name: &OsStr, file: &File) -> io::Result<OsString> {
        let unnamed = format!("/proc/self/fd/{}", file.as_raw_fd());
        let link = |new: &OsStr| {
            Ok(rustix::fs::linkat(CWD, &unnamed, &self.fd, new, AtFlags::SYMLINK_FOLLOW)?)
        };
        self.with_temporary_name(name, link).map(|((), new)| new)
    }

    fn with_temporary_name<T>(
        &self,
        name: &OsStr,
        make: impl Fn(&OsStr) -> io::Result<T>,
    ) -> io::Result<(T, OsString)> {
        for _ in 0..ATTEMPTS {
            let new = temporary_name(name);
            match make(&new) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => return made.map(|made| (made, new)),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Moves `name` to the name `to` in `directory`, which may be this one. Fails if `to`
    /// exists.
    pub fn rename(
        &self,
        name: impl AsRef<OsStr>,
        directory: &Self,
        to: impl AsRef<OsStr>,
    ) -> io::Result<()> {
        let (name, to) = (component(name.as_ref())?, component(to.as_ref())?);
        Ok(rustix::fs::renameat_with(&self.fd, name, &directory.fd, to, RenameFlags::NOREPLACE)?)
    }

    /// Returns the status of `name` without following links; `None` if it does not exist.
    pub fn look(&self, name: impl AsRef<OsStr>) -> io::Result<Option<Stat>> {
        match rustix::fs::statat(&self.fd, component(name.as_ref())?, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Sets the mode of `name`. Follows a link, so the directory must be sheltered.
    pub fn set_mode_of(&self, name: impl AsRef<OsStr>, mode: u32) -> io::Result<()> {
        let (name, mode) = (component(name.as_ref())?, Mode::from_raw_mode(mode));
        Ok(rustix::fs::chmodat(&self.fd, name, mode, AtFlags::empty())?)
    }

    /// Returns the names of all entries, sorted.
    pub fn names(&self) -> io::Result<Vec<OsString>> {
        let name =
            |entry: Result<_, Errno>| Ok(OsStr::from_bytes(remove::name_of(&entry?)).to_owned());
        let mut names =
            remove::entries(&self.fd)?.map(name).collect::<io::Result<Vec<OsString>>>()?;
        names.sort();
        Ok(names)
    }

    /// Removes `name` if it is the file, socket or pipe that the caller holds open.
    pub fn remove_file(&self, name: impl AsRef<OsStr>, held: impl AsFd) -> io::Result<Removal> {
        let held = ObjectIdentity::of(held)?;
        self.remove_identified(name.as_ref(), held, AtFlags::empty())
    }

    /// Removes the file `name`, whatever its identity. A missing file is not an error.
    /// Only for names in directories of this program.
    pub fn remove_ours(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        match self.look(name.as_ref())? {
            Some(stat) => self.remove_file_of(name, ObjectIdentity::from(&stat)).map(drop),
            None => Ok(()),
        }
    }

    /// Removes `name` if it has this identity and is not a directory. For objects that
    /// cannot be held open, such as sockets.
    pub fn remove_file_of(
        &self,
        name: impl AsRef<OsStr>,
        identity: ObjectIdentity,
    ) -> io::Result<Removal> {
        self.remove_identified(name.as_ref(), identity, AtFlags::empty())
    }

    /// Removes `name` if it is the directory that the caller holds open and it is empty.
    pub fn remove_dir(&self, name: impl AsRef<OsStr>, held: &Self) -> io::Result<Removal> {
        self.remove_identified(name.as_ref(), held.identity()?, AtFlags::REMOVEDIR)
    }

    /// Removes the whole content of the directory that the caller holds open, and then
    /// `name` if it is that directory. The content must belong to this program. Follows
    /// no link and enters no mount.
    pub fn remove_tree(&self, name: impl AsRef<OsStr>, held: &Self) -> io::Result<Removal> {
        remove::require_same_mount(self.fd.as_fd(), held.fd.as_fd())?;
        remove::contents(&held.fd)?;
        self.remove_dir(name, held)
    }

    /// Removes only the entries that `is_ours` accepts by name and depth (0 for direct
    /// entries). Follows no link and enters no mount. Returns the paths that remain,
    /// relative to this directory.
    pub fn remove_known(&self, is_ours: impl Fn(&OsStr, u32) -> bool) -> io::Result<Vec<PathBuf>> {
        Ok(remove::known(&self.fd, 0, &is_ours)?)
    }

    /// Compares the identity, moves the object to a place that other users cannot reach,
    /// compares again, and only then removes it.
    fn remove_identified(
        &self,
        name: &OsStr,
        held: ObjectIdentity,
        flags: AtFlags,
    ) -> io::Result<Removal> {
        let name = component(name)?;
        match self.look(name)? {
            None => return Ok(Removal::Absent),
            Some(stat) if ObjectIdentity::from(&stat) != held => {
                return Ok(Removal::Foreign(self.path.join(name)));
            }
            Some(_) => {}
        }
        if self.require_private().is_ok() {
            // Other users cannot have swapped it.
            rustix::fs::unlinkat(&self.fd, name, flags)?;
            return Ok(Removal::Done);
        }
        let (place_name, place) = self.mkdir_unique(|_| {
            temporary_name(OsStr::new("removed")).to_string_lossy().into_owned()
        })?;
        let removal = self.remove_in(name, held, flags, &place);
        // The private directory is now empty, or it holds a foreign object and stays. If
        // it was swapped, it is not touched.
        if let Ok(Some(stat)) = self.look(&place_name)
            && place.identity().is_ok_and(|identity| identity == ObjectIdentity::from(&stat))
        {
            let _ = rustix::fs::unlinkat(&self.fd, &place_name, AtFlags::REMOVEDIR);
        }
        removal
    }

    fn remove_in(
        &self,
        name: &OsStr,
        held: ObjectIdentity,
        flags: AtFlags,
        place: &Self,
    ) -> io::Result<Removal> {
        match rustix::fs::renameat(&self.fd, name, &place.fd, name) {
            Err(Errno::NOENT) => return Ok(Removal::Absent),
            result => result?,
        }
        let Some(stat) = place.look(name)? else { return Ok(Removal::Absent) };
        if ObjectIdentity::from(&stat) == held {
            rustix::fs::unlinkat(&place.fd, name, flags)?;
            return Ok(Removal::Done);
        }
        // The object was swapped between the two comparisons. Restore it. If its name is
        // taken by now, it stays in the private directory.
        match place.rename(name, self, name) {
            Ok(()) => Ok(Removal::Foreign(self.path.join(name))),
            Err(_) => Ok(Removal::Foreign(place.path.join(name))),
        }
    }

    fn regular(&self, name: &OsStr, flags: OFlags) -> io::Result<File> {
        // Without NONBLOCK, opening a pipe would wait for its other end.
        let fd = self.open_at(name, flags | OFlags::NONBLOCK | OFlags::NOCTTY)?;
        let kind = FileType::from_raw_mode(rustix::fs::fstat(&fd)?.st_mode);
        if kind != FileType::RegularFile {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        rustix::fs::fcntl_setfl(&fd, OFlags::empty())?;
        Ok(File::from(fd))
    }

    fn open_at(&self, name: &OsStr, flags: OFlags) -> io::Result<OwnedFd> {
        Ok(open_below(self.fd.as_fd(), Path::new(component(name)?), flags)?)
    }
}

impl AsFd for Dir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl From<Dir> for OwnedFd {
    fn from(dir: Dir) -> Self {
        dir.fd
    }
}

/// Renames an unusable file to `NAME.set-aside-N`. Returns the new path.
pub fn set_aside(path: &Path) -> io::Result<PathBuf> {
    let (dir, name) = Dir::of_file(path)?;
    for number in 1..=ATTEMPTS {
        let mut aside = name.clone();
        aside.push(format!(".set-aside-{number}"));
        match dir.rename(&name, &dir, &aside) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            moved => {
                moved?;
                dir.sync()?;
                return Ok(path.with_file_name(aside));
            }
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// Opens a user-named file for appending; creates it if it does not exist. If other users
/// may write to the directory, an existing file must belong to this user alone.
pub fn open_to_append(path: &Path) -> io::Result<File> {
    if let Some(stream) = named::open_stream_to_write(path)? {
        return Ok(stream);
    }
    let (dir, name) = Dir::of_file(path)?;
    let file = match ResolvedObject::look_up(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let file = dir.create_new(&name, APPENDED_FILE)?;
            rustix::fs::fcntl_setfl(&file, OFlags::APPEND)?;
            return Ok(file);
        }
        named => File::from(named?.open(OFlags::WRONLY | OFlags::APPEND | OFlags::NONBLOCK)?),
    };
    if dir.require_unshared().is_err() {
        Dir::require_trusted_file(&file)?;
    }
    Ok(file)
}

/// Opens an existing object at `path`, which has one or more components, below `dir`.
/// Follows no link.
pub fn open_below(dir: BorrowedFd<'_>, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    match rustix::fs::openat2(dir, path, flags, Mode::empty(), resolve) {
        // Before Linux 5.6, or in a sandbox that does not know the call.
        Err(Errno::NOSYS | Errno::PERM) => walk(dir, path, flags),
        result => result,
    }
}

/// Does the work of [`open_below`] one component at a time.
fn walk(dir: BorrowedFd<'_>, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let mut names = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => names.push(name),
            Component::CurDir => {}
            _ => return Err(Errno::XDEV),
        }
    }
    let last = names.pop().ok_or(Errno::NOENT)?;
    let mut above: Option<OwnedFd> = None;
    for name in names {
        let parent = above.as_ref().map_or(dir, AsFd::as_fd);
        let inside = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        above = Some(rustix::fs::openat(parent, name, inside, Mode::empty())?);
    }
    rustix::fs::openat(above.as_ref().map_or(dir, AsFd::as_fd), last, flags, Mode::empty())
}

/// Sets the mode of a new object, because the umask may have reduced it. A filesystem
/// without modes is not an error.
fn set_mode(object: BorrowedFd<'_>, mode: u32) -> io::Result<()> {
    if rustix::fs::fstat(object)?.st_mode & 0o777 == mode {
        return Ok(());
    }
    match rustix::fs::fchmod(object, Mode::from_raw_mode(mode)) {
        Err(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        result => Ok(result?),
    }
}

/// Returns `name` if it is a single path component.
fn component(name: &OsStr) -> io::Result<&OsStr> {
    let bytes = name.as_bytes();
    if bytes.is_empty()
        || bytes == b"."
        || bytes == b".."
        || bytes.contains(&b'/')
        || bytes.contains(&0)
    {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not the name of a file"));
    }
    Ok(name)
}

/// Returns an unpredictable name derived from `name`.
fn temporary_name(name: &OsStr) -> OsString {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let random = {
        use std::hash::{BuildHasher as _, Hasher as _};
        let mut hasher = std::collections::hash_map::RandomState::new().build_hasher();
        hasher.write_u64(COUNT.fetch_add(1, Ordering::Relaxed));
        hasher.finish()
    };
    let kept = &name.as_bytes()[..name.len().min(200)];
    let mut new = OsString::from(".");
    new.push(OsStr::from_bytes(kept));
    new.push(format!(".{random:016x}"));
    new
}

/// Writes a kernel attribute (below `/sys` or `/proc`). The file must exist.
pub fn set_attribute(path: &Path, value: &str) -> io::Result<()> {
    let fd = rustix::fs::open(
        path,
        OFlags::WRONLY | OFlags::TRUNC | OFlags::NOCTTY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    io::Write::write_all(&mut File::from(fd), value.as_bytes())
}

#[cfg(test)]
mod tests;
