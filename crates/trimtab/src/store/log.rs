//! The file of a store: a first line, then changes.
//!
//! The first line is `trimtab store VERSION BYTES`, where BYTES is the committed length of
//! the file. A change is a line with two lengths, its entries as lines of JSON, and the
//! bodies of its runs. Numbers in both kinds of lines have 16 hexadecimal digits.
//!
//! A change is written and synced beyond the committed length before the first line counts
//! it, so a killed writer leaves the store as it was.

use super::{Result, StoreError};
use rustix::io::Errno;
use std::fs::{File, TryLockError};
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use trimtab_linux::output::complain;
use trimtab_linux::sys::beneath::{Dir, PRIVATE_FILE};

/// Format version. A file of another version is rejected.
pub const VERSION: u32 = 5;

const MAGIC: &str = "trimtab store ";
const FIRST_LINE_LEN: u64 = 14 + 3 + 1 + 16 + 1;
const LENGTHS_LEN: u64 = 16 + 1 + 16 + 1;

/// Time limit for waiting on another writing process.
const BUSY_TIMEOUT: Duration = Duration::from_secs(30);

/// An open file of a store.
#[derive(Debug)]
pub struct Log {
    file: File,
    /// As the user named it; for messages.
    path: PathBuf,
    /// Without links.
    real: PathBuf,
    /// End of the changes that were read.
    read: u64,
    /// Read the changes before the end of a file that is cut off.
    may_be_cut_off: bool,
}

/// A committed change.
#[derive(Debug)]
pub struct Change {
    /// Lines of JSON.
    pub entries: Vec<u8>,
    /// Where the bodies of its runs begin.
    pub bodies_at: u64,
    /// Their length.
    pub bodies_len: u64,
}

impl Log {
    /// Opens an existing file for reading, also if its end is missing.
    pub fn open(path: &Path) -> Result<Self> {
        let log = Self::open_with(path, |dir, name| dir.open_read(name).map(|file| (file, false)))?;
        Ok(Self { may_be_cut_off: true, ..log })
    }

    /// Opens a file for reading and writing; creates an empty one that only its owner can
    /// access.
    pub fn open_or_create(path: &Path) -> Result<Self> {
        Self::open_with(path, |dir, name| dir.open_or_create(name, PRIVATE_FILE))
    }

    fn open_with(
        path: &Path,
        open: impl FnOnce(&Dir, &std::ffi::OsStr) -> io::Result<(File, bool)>,
    ) -> Result<Self> {
        let problem =
            |action| move |source| StoreError::Io { action, path: path.to_owned(), source };
        let real = Dir::sheltered_file(path).map_err(problem("use store"))?;
        let (dir, name) = Dir::of_file(&real).map_err(problem("use store"))?;
        let (file, created) = open(&dir, &name).map_err(problem("open store"))?;
        if created {
            dir.sync().map_err(problem("make store"))?;
        }
        Ok(Self { file, path: path.to_owned(), real, read: FIRST_LINE_LEN, may_be_cut_off: false })
    }

    /// The path as the user named it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the changes that were committed since the last call.
    pub fn read_new(&mut self) -> Result<Vec<Change>> {
        let committed = self.committed()?;
        let len = self.file.metadata().map_err(self.error("read"))?.len();
        let mut changes = Vec::new();
        while self.read < committed {
            let change = match self.change(self.read, committed.min(len.max(FIRST_LINE_LEN))) {
                Err(_) if committed > len && !changes.is_empty() => {
                    complain(&format!(
                        "{}; the runs before the cut are shown",
                        self.cut_off(len, committed)
                    ));
                    break;
                }
                Err(_) if committed > len => return Err(self.cut_off(len, committed)),
                change => change?,
            };
            self.read = change.bodies_at + change.bodies_len;
            changes.push(change);
        }
        Ok(changes)
    }

    /// Reads the committed length. An empty file is a store without changes.
    fn committed(&self) -> Result<u64> {
        let mut line = [0; FIRST_LINE_LEN as usize];
        let len = self.file.metadata().map_err(self.error("read"))?.len();
        if len == 0 {
            return Ok(FIRST_LINE_LEN);
        }
        let foreign = || StoreError::Foreign(self.path.clone());
        match self.file.read_exact_at(&mut line, 0) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                let begin = self.read_at(0, len.min(MAGIC.len() as u64))?;
                let is_store = MAGIC.as_bytes().starts_with(&begin);
                return Err(if is_store { self.cut_off(len, FIRST_LINE_LEN) } else { foreign() });
            }
            read => read.map_err(self.error("read"))?,
        }
        let fields = str::from_utf8(&line).ok().and_then(|line| line.strip_prefix(MAGIC));
        let (version, committed) =
            fields.and_then(|fields| fields.trim().split_once(' ')).ok_or_else(foreign)?;
        if version.parse() != Ok(VERSION) {
            return Err(StoreError::Other(format!(
                "store {} has version {}, and this trimtab reads version {VERSION}; use the \
                    trimtab that made it, or move it away and a new one is made",
                self.path.display(),
                version.escape_debug()
            )));
        }
        match u64::from_str_radix(committed, 16) {
            Ok(committed) if (FIRST_LINE_LEN..=len).contains(&committed) => Ok(committed),
            Ok(committed) if committed > len && self.may_be_cut_off => Ok(committed),
            Ok(committed) if committed > len => Err(self.cut_off(len, committed)),
            _ => Err(self.damaged("its first line has no valid length")),
        }
    }

    /// The error for a file of `len` bytes that needs at least `needed`.
    fn cut_off(&self, len: u64, needed: u64) -> StoreError {
        self.damaged(format!("it is cut off: {len} of at least {needed} bytes are there"))
    }

    fn change(&self, at: u64, committed: u64) -> Result<Change> {
        let damaged = || self.damaged(format!("no change begins at byte {at}"));
        let lengths = self.read_at(at, LENGTHS_LEN.min(committed - at))?;
        let lengths = str::from_utf8(&lengths).ok().and_then(|line| line.strip_suffix('\n'));
        let (entries, bodies) =
            lengths.and_then(|lengths| lengths.split_once(' ')).ok_or_else(damaged)?;
        let length = |digits| u64::from_str_radix(digits, 16).map_err(|_| damaged());
        let (entries_len, bodies_len) = (length(entries)?, length(bodies)?);
        let entries_at = at + LENGTHS_LEN;
        let bodies_at = entries_at.saturating_add(entries_len);
        if bodies_at.saturating_add(bodies_len) > committed {
            return Err(damaged());
        }
        Ok(Change { entries: self.read_at(entries_at, entries_len)?, bodies_at, bodies_len })
    }

    /// Reads committed bytes.
    pub fn read_at(&self, at: u64, len: u64) -> Result<Vec<u8>> {
        let mut bytes = vec![0; len as usize];
        self.file.read_exact_at(&mut bytes, at).map_err(self.error("read"))?;
        Ok(bytes)
    }

    /// Waits until no other process writes. The caller reads new changes next. Returns
    /// false if another process has replaced the file: then it must be opened again.
    pub fn lock(&self) -> Result<bool> {
        let began = Instant::now();
        while let Err(error) = self.file.try_lock() {
            match error {
                TryLockError::WouldBlock if began.elapsed() < BUSY_TIMEOUT => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                TryLockError::WouldBlock => {
                    return Err(StoreError::Other(format!(
                        "another process has been writing to store {} for {} s; try again \
                            when it has ended",
                        self.path.display(),
                        BUSY_TIMEOUT.as_secs()
                    )));
                }
                TryLockError::Error(source) => return Err(self.error("lock")(source)),
            }
        }
        let open = self.file.metadata().map_err(self.error("read"))?;
        let named = std::fs::symlink_metadata(&self.real).map_err(self.error("read"))?;
        Ok((open.dev(), open.ino()) == (named.dev(), named.ino()))
    }

    /// Ends [`Log::lock`].
    pub fn unlock(&self) -> Result<()> {
        self.file.unlock().map_err(self.error("unlock"))
    }

    /// Adds a change, durably. Needs the lock, and all changes read.
    pub fn append(&mut self, entries: &[u8], bodies: &[u8]) -> Result<()> {
        let change =
            [lengths(entries.len() as u64, bodies.len() as u64).as_bytes(), entries, bodies]
                .concat();
        let write = || {
            if self.file.metadata()?.len() == 0 {
                self.file.write_all_at(first_line(FIRST_LINE_LEN).as_bytes(), 0)?;
            }
            self.file.write_all_at(&change, self.read)?;
            self.file.sync_data()?;
            let committed = self.read + change.len() as u64;
            self.file.write_all_at(first_line(committed).as_bytes(), 0)?;
            self.file.sync_data()
        };
        let before = self.file.metadata().map_err(self.error("read"))?.len();
        write().map_err(|source: io::Error| {
            // The first error is the one to report. A new file is empty again, which is a
            // store; a file without its first line is none.
            let _ = self.file.set_len(if before == 0 { 0 } else { self.read });
            self.error("write to")(source)
        })
    }

    /// Replaces the file with one that has these changes: entries, and the place and length
    /// of the bodies in the present file. Needs the lock. The file must then be opened again.
    pub fn rewrite(&self, changes: impl Iterator<Item = (Vec<u8>, u64, u64)>) -> Result<()> {
        let (dir, name) = Dir::of_file(&self.real).map_err(self.error("write to"))?;
        let mode = self.file.metadata().map_err(self.error("read"))?.mode() & 0o777;
        let mut failed = None;
        let written = dir.write_atomically(&name, mode, |file| {
            file.seek(SeekFrom::Start(FIRST_LINE_LEN))?;
            for (entries, at, len) in changes {
                let bodies = self.read_at(at, len).map_err(|error| {
                    failed = Some(error);
                    io::Error::from(Errno::IO)
                })?;
                file.write_all(lengths(entries.len() as u64, len).as_bytes())?;
                file.write_all(&entries)?;
                file.write_all(&bodies)?;
            }
            let committed = file.stream_position()?;
            file.write_all_at(first_line(committed).as_bytes(), 0)
        });
        match failed {
            Some(error) => Err(error),
            None => written.map_err(self.error("write to")),
        }
    }

    /// Converts an error of the operating system.
    fn error(&self, action: &'static str) -> impl Fn(io::Error) -> StoreError + '_ {
        move |source| match source.kind() {
            io::ErrorKind::UnexpectedEof => self.damaged("it is cut off"),
            _ => StoreError::Io { action, path: self.path.clone(), source },
        }
    }

    /// The error for a file with wrong content.
    pub fn damaged(&self, detail: impl Into<String>) -> StoreError {
        StoreError::Damaged { path: self.path.clone(), detail: detail.into() }
    }
}

fn first_line(committed: u64) -> String {
    format!("{MAGIC}{VERSION:3} {committed:016x}\n")
}

fn lengths(entries: u64, bodies: u64) -> String {
    format!("{entries:016x} {bodies:016x}\n")
}
