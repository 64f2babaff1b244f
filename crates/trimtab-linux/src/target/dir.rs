//! A directory on a mounted filesystem: file operations through plain system calls
//! relative to open directories.
//!
//! Only new files are created, no link is followed, and subdirectories are held open
//! ([`open_directories`]): other users of the same directory can make an operation fail,
//! but cannot redirect it to other files.

mod nfs;
mod open_directories;

use self::open_directories::OpenDirectories;
use crate::sys::descriptor::close;
use crate::sys::interrupt;
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags, SeekFrom};
use rustix::io::Errno;
use std::path::{Path, PathBuf};
use std::time::Instant;
use trimtab_drive::rng::Stream;
use trimtab_drive::units::Nanos;
use trimtab_sim::op::{FileOp, Payload};
use trimtab_sim::target::{Clock, FileTarget, TargetError, TargetResult};

/// The C library's buffer on Linux filesystems; determines [`Calls::Stdio`].
const STDIO_BUFFER: usize = 4096;
/// Bytes between two checks for an interrupt inside one operation.
const INTERRUPT_EVERY: u64 = 64 << 20;

/// The system calls used for contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Calls {
    /// One call per block, and one for the remainder.
    Blocks {
        /// Issue the last call even without a remainder, as PostMark does.
        empty_remainder: bool,
    },
    /// Like a program that writes its blocks to C's buffered streams: combined into calls
    /// of 4096 bytes, or of multiples of that for larger blocks.
    Stdio,
}

/// When written files are made durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Fsync {
    /// Left to the filesystem.
    #[default]
    Never,
    /// `fsync` before closing each written file.
    Close,
}

/// Options for a directory target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirOptions {
    /// Bytes per write call, or per block given to [`Calls::Stdio`].
    pub write_block: u32,
    /// Bytes per read call, or per block given to [`Calls::Stdio`].
    pub read_block: u32,
    /// The system calls used for contents.
    pub calls: Calls,
    /// Durability of single files.
    pub fsync: Fsync,
    /// Seed of the generated data.
    pub seed: u64,
}

impl Default for DirOptions {
    fn default() -> Self {
        Self {
            write_block: 128 << 10,
            read_block: 128 << 10,
            calls: Calls::Blocks { empty_remainder: false },
            fsync: Fsync::Never,
            seed: 0,
        }
    }
}

/// A directory as a target. All paths are relative to it, and nothing outside is touched.
#[derive(Debug)]
pub struct DirTarget {
    dirs: OpenDirectories,
    path: PathBuf,
    options: DirOptions,
    epoch: Instant,
    data: Stream,
    buffer: Vec<u8>,
    /// Buffer for reads.
    read: Vec<u8>,
}

impl DirTarget {
    /// A target for the open directory `dir`, which errors call `path`.
    pub fn new(dir: OwnedFd, path: &Path, options: DirOptions) -> Self {
        let buffer =
            (options.write_block.max(options.read_block).max(1) as usize).max(STDIO_BUFFER);
        Self {
            dirs: OpenDirectories::new(dir),
            path: path.to_owned(),
            read: vec![0; buffer],
            options,
            epoch: Instant::now(),
            data: Stream::new(options.seed, "file-data"),
            buffer: Vec::new(),
        }
    }

    /// Uses a clock that started at `epoch`, for targets that share one.
    #[must_use]
    pub fn with_epoch(self, epoch: Instant) -> Self {
        Self { epoch, ..self }
    }

    /// The open directory.
    pub fn dir(&self) -> BorrowedFd<'_> {
        self.dirs.root()
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    #[cold]
    fn error(&self, action: &'static str, path: &str, errno: Errno) -> TargetError {
        error(action, &self.path, path, errno)
    }

    /// One `openat` with only the flags of the operation, through no link. Without
    /// `O_CLOEXEC`: no process is started while a file is open.
    #[inline]
    fn open(
        &mut self,
        action: &'static str,
        path: &str,
        flags: OFlags,
        mode: u32,
    ) -> TargetResult<OwnedFd> {
        let opened = self.at(path, |dir, name| {
            rustix::fs::openat(dir, name, flags | OFlags::NOFOLLOW, Mode::from_raw_mode(mode))
        });
        opened.map_err(|errno| self.error(action, path, errno))
    }

    /// Runs `operation` on the last component of `path` in its parent directory.
    #[inline]
    fn at<T>(
        &mut self,
        path: &str,
        operation: impl FnOnce(BorrowedFd<'_>, &str) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let (dir, name) = self.dirs.locate(path)?;
        operation(dir, name)
    }

    #[inline]
    fn write(
        &mut self,
        action: &'static str,
        path: &str,
        flags: OFlags,
        mode: u32,
        payload: &Payload<'_>,
    ) -> TargetResult {
        let file = self.open(action, path, flags, mode)?;
        if !flags.contains(OFlags::EXCL) {
            self.dirs.check_file(&file).map_err(|errno| self.error(action, path, errno))?;
        }
        let written = match self.options.calls {
            Calls::Blocks { empty_remainder } => self.write_blocks(&file, payload, empty_remainder),
            Calls::Stdio => {
                self.append_check(&file, flags).and_then(|()| self.write_stdio(&file, payload))
            }
        };
        written.map_err(|errno| self.error("write", path, errno))?;
        if self.options.fsync == Fsync::Close {
            rustix::fs::fsync(&file).map_err(|errno| self.error("fsync", path, errno))?;
        }
        close(file).map_err(|errno| self.error("close", path, errno))
    }

    /// The C library's seek to the end before appending. An empty file counts as newly
    /// created.
    fn append_check(&self, file: &OwnedFd, flags: OFlags) -> Result<(), Errno> {
        if flags.contains(OFlags::APPEND) && rustix::fs::seek(file, SeekFrom::End(0))? == 0 {
            return Err(Errno::NOENT);
        }
        Ok(())
    }

    fn write_blocks(
        &mut self,
        file: &OwnedFd,
        payload: &Payload<'_>,
        empty_remainder: bool,
    ) -> Result<(), Errno> {
        let block = u64::from(self.options.write_block.max(1));
        let mut at = 0;
        let mut looked = 0;
        while at + block <= payload.len() {
            write_all(file, piece(payload, at, block, &mut self.data, &mut self.buffer))?;
            at += block;
            if at - looked >= INTERRUPT_EVERY {
                looked = at;
                check_interrupt()?;
            }
        }
        let rest = payload.len() - at;
        if rest > 0 {
            write_all(file, piece(payload, at, rest, &mut self.data, &mut self.buffer))?;
        } else if empty_remainder {
            rustix::io::write(file, &[])?;
        }
        Ok(())
    }

    /// The calls that the C library makes for one `fwrite` per block: data collects in
    /// the buffer; when the buffer is full and more arrives, it is flushed, whole
    /// multiples of its size are written directly, and the rest collects again.
    fn write_stdio(&mut self, file: &OwnedFd, payload: &Payload<'_>) -> Result<(), Errno> {
        let block = u64::from(self.options.write_block.max(1));
        let whole = STDIO_BUFFER as u64;
        let len = payload.len();
        // Bytes handed over, bytes waiting in the buffer, and whether the buffer is
        // allocated.
        let (mut handed, mut waiting, mut allocated) = (0, 0, false);
        while handed < len {
            let mut want = block.min(len - handed);
            let room = if allocated { whole - waiting } else { 0 };
            let gathered = room.min(want);
            waiting += gathered;
            want -= gathered;
            handed += gathered;
            if want > 0 {
                allocated = true;
                let direct = want - want % whole;
                self.write_pieces(file, payload, handed - waiting, waiting)?;
                self.write_pieces(file, payload, handed, direct)?;
                waiting = want - direct;
                handed += want;
            }
        }
        self.write_pieces(file, payload, len - waiting, waiting)
    }

    /// One call for `len` bytes of the payload from `at`; no call for zero bytes.
    fn write_pieces(
        &mut self,
        file: &OwnedFd,
        payload: &Payload<'_>,
        at: u64,
        len: u64,
    ) -> Result<(), Errno> {
        if len == 0 {
            return Ok(());
        }
        write_all(file, piece(payload, at, len, &mut self.data, &mut self.buffer))
    }

    fn read_file(&mut self, file: &OwnedFd, len: u64) -> Result<(), ReadError> {
        let block = u64::from(self.options.read_block.max(1));
        let whole = STDIO_BUFFER as u64;
        let mut at = 0;
        let mut ready = 0;
        let mut looked = 0;
        while at < len {
            let mut want = block.min(len - at);
            at += want;
            match self.options.calls {
                Calls::Blocks { .. } => read_exact(file, &mut self.read[..want as usize])?,
                Calls::Stdio => loop {
                    let taken = want.min(ready);
                    ready -= taken;
                    want -= taken;
                    if want == 0 {
                        break;
                    }
                    if want >= whole {
                        let direct = want - want % whole;
                        read_exact(file, &mut self.read[..direct as usize])?;
                        want -= direct;
                    } else {
                        ready = read_some(file, &mut self.read[..STDIO_BUFFER])? as u64;
                    }
                },
            }
            if at - looked >= INTERRUPT_EVERY {
                looked = at;
                check_interrupt()?;
            }
        }
        if let Calls::Blocks { empty_remainder: true } = self.options.calls
            && len.is_multiple_of(block)
        {
            rustix::io::read(file, &mut [0_u8; 0][..])?;
        }
        Ok(())
    }
}

impl Clock for DirTarget {
    fn now(&mut self) -> Nanos {
        super::null::since(self.epoch)
    }

    fn idle_until(&mut self, instant: Nanos) {
        super::null::sleep_until(self.epoch, instant);
    }
}

impl FileTarget for DirTarget {
    #[inline]
    fn execute(&mut self, op: &FileOp<'_>) -> TargetResult {
        match op {
            FileOp::MakeDir(path) => self.make_dir(path),
            FileOp::RemoveDir(path) => self.remove_dir(path),
            FileOp::Create(path, payload) => self.create(path, payload),
            FileOp::Append(path, payload) => self.append(path, payload),
            FileOp::Read(path, len) => self.read(path, *len),
            FileOp::Delete(path) => self.delete(path),
            FileOp::Sync => self.sync(),
        }
    }
}

// The operations.
impl DirTarget {
    fn make_dir(&mut self, path: &str) -> TargetResult {
        let made = self
            .at(path, |dir, name| rustix::fs::mkdirat(dir, name, Mode::RWXU))
            .and_then(|()| self.dirs.made(path));
        made.map_err(|errno| self.error("make directory", path, errno))
    }

    fn remove_dir(&mut self, path: &str) -> TargetResult {
        self.dirs.forget(path);
        let removed =
            self.at(path, |dir, name| rustix::fs::unlinkat(dir, name, AtFlags::REMOVEDIR));
        removed.map_err(|errno| self.error("remove directory", path, errno))
    }

    fn create(&mut self, path: &str, payload: &Payload<'_>) -> TargetResult {
        let (flags, mode) = match self.options.calls {
            Calls::Blocks { .. } => (OFlags::RDWR, 0o644),
            Calls::Stdio => (OFlags::WRONLY | OFlags::TRUNC, 0o666),
        };
        let flags = flags | OFlags::CREATE | OFlags::EXCL;
        self.write("create", path, flags, mode, payload)
    }

    fn append(&mut self, path: &str, payload: &Payload<'_>) -> TargetResult {
        let (flags, mode) = match self.options.calls {
            Calls::Blocks { .. } => (OFlags::RDWR | OFlags::APPEND, 0),
            // Does not create a missing file, unlike buffered streams.
            Calls::Stdio => (OFlags::WRONLY | OFlags::APPEND, 0),
        };
        self.write("append to", path, flags, mode, payload)
    }

    fn read(&mut self, path: &str, len: u64) -> TargetResult {
        let file = self.open("open", path, OFlags::RDONLY, 0)?;
        self.read_file(&file, len).map_err(|error| match error {
            ReadError::System(errno) => self.error("read", path, errno),
            ReadError::TooShort => {
                let reason =
                    format!("the file is shorter than the {len} bytes that were written to it");
                TargetError::new("read", self.path.join(path).display().to_string(), reason, None)
            }
        })?;
        close(file).map_err(|errno| self.error("close", path, errno))
    }

    fn delete(&mut self, path: &str) -> TargetResult {
        let deleted = self.at(path, |dir, name| rustix::fs::unlinkat(dir, name, AtFlags::empty()));
        deleted.map_err(|errno| self.error("delete", path, errno))
    }

    fn sync(&mut self) -> TargetResult {
        rustix::fs::syncfs(self.dirs.root()).map_err(|errno| self.error("sync", "", errno))
    }
}

/// The error of an operation on `path` in `dir`.
#[cold]
pub fn error(action: &'static str, dir: &Path, path: &str, errno: Errno) -> TargetError {
    let object = if path.is_empty() { dir.to_owned() } else { dir.join(path) };
    TargetError::new(
        action,
        object.display().to_string(),
        std::io::Error::from(errno).to_string(),
        Some(errno.raw_os_error()),
    )
}

#[derive(Debug)]
enum ReadError {
    System(Errno),
    TooShort,
}

impl From<Errno> for ReadError {
    fn from(errno: Errno) -> Self {
        Self::System(errno)
    }
}

/// `len` bytes of the payload from `at`: its own, or generated in `buffer`.
fn piece<'a>(
    payload: &Payload<'a>,
    at: u64,
    len: u64,
    data: &mut Stream,
    buffer: &'a mut Vec<u8>,
) -> &'a [u8] {
    match payload {
        Payload::Bytes { bytes, .. } => &bytes[at as usize..(at + len) as usize],
        Payload::Fill { class, .. } => {
            if buffer.len() < len as usize {
                buffer.resize(len as usize, 0);
            }
            let buffer = &mut buffer[..len as usize];
            class.fill(data, buffer);
            buffer
        }
    }
}

/// Writes all of `bytes`, usually in one call; after a short write the next returns the
/// error.
fn write_all(file: &OwnedFd, mut bytes: &[u8]) -> Result<(), Errno> {
    loop {
        match rustix::io::write(file, bytes) {
            Ok(n) if n == bytes.len() => return Ok(()),
            Ok(0) => return Err(Errno::NOSPC),
            Ok(n) => bytes = &bytes[n..],
            Err(Errno::INTR) => check_interrupt()?,
            Err(errno) => return Err(errno),
        }
    }
}

fn read_exact(file: &OwnedFd, buffer: &mut [u8]) -> Result<(), ReadError> {
    let mut at = 0;
    while at < buffer.len() {
        at += read_some(file, &mut buffer[at..])?;
    }
    Ok(())
}

fn read_some(file: &OwnedFd, buffer: &mut [u8]) -> Result<usize, ReadError> {
    loop {
        match rustix::io::read(file, &mut *buffer) {
            Ok(0) => return Err(ReadError::TooShort),
            Ok(n) => return Ok(n),
            Err(Errno::INTR) => check_interrupt()?,
            Err(errno) => return Err(errno.into()),
        }
    }
}

fn check_interrupt() -> Result<(), Errno> {
    if interrupt::requested() { Err(Errno::INTR) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trimtab_drive::data::DataClass;

    fn open(options: DirOptions) -> (tempfile::TempDir, DirTarget) {
        let dir = tempfile::tempdir().unwrap();
        let fd = rustix::fs::open(dir.path(), OFlags::DIRECTORY | OFlags::RDONLY, Mode::empty())
            .unwrap();
        let target = DirTarget::new(fd, dir.path(), options);
        (dir, target)
    }

    fn bytes(bytes: &[u8]) -> Payload<'_> {
        Payload::Bytes { bytes, class: DataClass::Text }
    }

    fn every_way() -> impl Iterator<Item = DirOptions> {
        let calls = [
            Calls::Blocks { empty_remainder: false },
            Calls::Blocks { empty_remainder: true },
            Calls::Stdio,
        ];
        let blocks = [1, 7, 512, 1000, 4096, 5000, 12288, 100_000];
        calls.into_iter().flat_map(move |calls| {
            blocks.into_iter().map(move |block| DirOptions {
                calls,
                write_block: block,
                read_block: block,
                ..DirOptions::default()
            })
        })
    }

    #[test]
    fn contents_do_not_depend_on_calls() {
        let content: Vec<u8> = (0..25_000_u32).map(|i| (i % 251) as u8).collect();
        for options in every_way() {
            let (dir, mut target) = open(options);
            target.make_dir("d").unwrap();
            for len in [0, 1, 999, 4096, 12_288, 20_000] {
                if len == 0 && options.calls == Calls::Stdio {
                    continue;
                }
                let name = format!("d/{len}");
                target.create(&name, &bytes(&content[..len])).unwrap();
                target.append(&name, &bytes(&content[len..len + 5000])).unwrap();
                assert_eq!(
                    std::fs::read(dir.path().join(&name)).unwrap(),
                    content[..len + 5000],
                    "{options:?} {len}"
                );
                target.read(&name, len as u64 + 5000).unwrap();
                target.delete(&name).unwrap();
            }
            target.remove_dir("d").unwrap();
            target.sync().unwrap();
            assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        }
    }

    #[test]
    fn append_with_stdio_does_not_create_a_file() {
        let (_dir, mut target) = open(DirOptions { calls: Calls::Stdio, ..DirOptions::default() });
        assert_eq!(target.append("vanished", &bytes(b"x")).unwrap_err().errno, Some(libc::ENOENT));
    }

    #[test]
    fn generated_data_has_length_and_class_and_is_fresh() {
        let (dir, mut target) = open(DirOptions { write_block: 4096, ..DirOptions::default() });
        let random = Payload::Fill { len: 10_000, class: DataClass::Random };
        target.create("a", &random).unwrap();
        target.create("b", &random).unwrap();
        let (a, b) = (
            std::fs::read(dir.path().join("a")).unwrap(),
            std::fs::read(dir.path().join("b")).unwrap(),
        );
        assert_eq!((a.len(), b.len()), (10_000, 10_000));
        assert_ne!(a, b);
        assert_ne!(a[..4096], a[4096..8192]);
    }

    #[test]
    fn errors_keep_action_path_and_errno() {
        for options in every_way() {
            let (dir, mut target) = open(options);
            let missing = target.delete("no").unwrap_err();
            assert_eq!((missing.action, missing.errno), ("delete", Some(libc::ENOENT)));
            assert_eq!(missing.object, dir.path().join("no").display().to_string());
            target.create("short", &bytes(b"12345")).unwrap();
            let short = target.read("short", 6).unwrap_err();
            assert!(short.reason.contains("shorter than the 6 bytes"), "{short}");
            assert_eq!(
                target.create("no/file", &bytes(b"1")).unwrap_err().errno,
                Some(libc::ENOENT)
            );
            target.make_dir("d").unwrap();
            assert_eq!(target.make_dir("d").unwrap_err().errno, Some(libc::EEXIST));
            drop(dir);
            assert_eq!(
                target.create("a", &bytes(b"1")).unwrap_err().errno,
                Some(libc::ENOENT),
                "the directory is gone"
            );
        }
    }

    #[test]
    fn planted_path_is_not_followed_written_or_removed() {
        use std::os::unix::fs::symlink;
        for (options, mode) in every_way().flat_map(|options| [(options, 0o700), (options, 0o777)])
        {
            let outside = tempfile::tempdir().unwrap();
            let canary = outside.path().join("f");
            std::fs::write(&canary, "precious").unwrap();
            let dir = tempfile::tempdir().unwrap();
            std::fs::set_permissions(
                dir.path(),
                std::os::unix::fs::PermissionsExt::from_mode(mode),
            )
            .unwrap();
            let fd =
                rustix::fs::open(dir.path(), OFlags::DIRECTORY | OFlags::RDONLY, Mode::empty())
                    .unwrap();
            let mut target = DirTarget::new(fd, dir.path(), options);
            symlink(&canary, dir.path().join("link")).unwrap();
            symlink(outside.path().join("new"), dir.path().join("nowhere")).unwrap();
            symlink(outside.path(), dir.path().join("d")).unwrap();
            for name in ["link", "nowhere"] {
                assert_eq!(
                    target.create(name, &bytes(b"1")).unwrap_err().errno,
                    Some(libc::EEXIST)
                );
                assert_eq!(target.append(name, &bytes(b"1")).unwrap_err().errno, Some(libc::ELOOP));
                assert_eq!(target.read(name, 1).unwrap_err().errno, Some(libc::ELOOP));
            }
            assert!(
                target.create("d/new", &bytes(b"1")).is_err()
                    && target.delete("d/f").is_err()
                    && target.make_dir("d/x").is_err()
            );
            // A directory of ours with files, replaced by a link and by another
            // directory.
            target.make_dir("s0").unwrap();
            target.create("s0/f", &bytes(b"1")).unwrap();
            std::fs::rename(dir.path().join("s0"), dir.path().join("aside")).unwrap();
            symlink(outside.path(), dir.path().join("s0")).unwrap();
            let _ = (
                target.append("s0/f", &bytes(b"1")),
                target.create("s0/g", &bytes(b"1")),
                target.delete("s0/f"),
            );
            std::fs::remove_file(dir.path().join("s0")).unwrap();
            std::fs::create_dir(dir.path().join("s0")).unwrap();
            std::fs::write(dir.path().join("s0/f"), "precious").unwrap();
            target.dirs.forget_open();
            if mode == 0o777 {
                assert_eq!(
                    target.delete("s0/f").unwrap_err().errno,
                    Some(libc::ELOOP),
                    "another directory"
                );
                std::fs::write(dir.path().join("other"), "precious").unwrap();
                std::fs::hard_link(dir.path().join("other"), dir.path().join("s")).unwrap();
                assert_eq!(
                    target.append("s", &bytes(b"1")).unwrap_err().errno,
                    Some(libc::ELOOP),
                    "a second name of something"
                );
                assert_eq!(std::fs::read(dir.path().join("s0/f")).unwrap(), b"precious");
            }
            assert_eq!(std::fs::read(&canary).unwrap(), b"precious");
            assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 1);
        }
    }

    #[test]
    fn more_directories_than_open_limit_are_usable() {
        let (_dir, mut target) = open(DirOptions::default());
        target.dirs.keep_open(3);
        for round in 0..2 {
            for i in 0..10 {
                if round == 0 {
                    target.make_dir(&format!("d{i}")).unwrap();
                }
                target.create(&format!("d{i}/f{round}"), &bytes(b"1")).unwrap();
            }
        }
        for i in 0..10 {
            target.delete(&format!("d{i}/f0")).unwrap();
            assert_eq!(
                target.remove_dir(&format!("d{i}")).unwrap_err().errno,
                Some(libc::ENOTEMPTY)
            );
            target.delete(&format!("d{i}/f1")).unwrap();
            target.remove_dir(&format!("d{i}")).unwrap();
            target.make_dir(&format!("d{i}")).unwrap();
            target.create(&format!("d{i}/f"), &bytes(b"1")).unwrap();
        }
    }

    #[test]
    fn write_to_full_device_is_an_error() {
        let full = rustix::fs::open("/dev/full", OFlags::WRONLY, Mode::empty()).unwrap();
        assert_eq!(write_all(&full, b"x"), Err(Errno::NOSPC));
    }
}
