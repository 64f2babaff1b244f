//! The undo journal. Before a change outside this program's own files, its record is
//! written durably and locked. The record is removed once the change is undone.
//!
//! ```text
//!     /run/trimtab/journal/NAME.json             one temporary change
//!     /var/lib/trimtab/journal/apply-0001.json   lasting changes, undone on request, the
//!     /var/lib/trimtab/journal/doctor-0001.json  last of each kind first
//!     /var/lib/trimtab/journal/log               one line per lasting change and undo
//! ```
//!
//! The lock of a record lasts as long as its process: an unlocked record of an unfinished
//! change was left by a killed process. Records are replaced atomically, under a lock on
//! the directory. Other users cannot open the directory or a record: they could hold a
//! lock, and the change of a killed process would never be undone.
//!
//! Temporary changes ([`temporary`]) end with the boot, and so do their records.

mod change;
mod mount_option;
mod mounted;
mod temporary;

pub use change::{Change, UndoResult};
pub use mounted::MountScope;
pub use temporary::{
    TemporaryChange, TemporaryJournal, at_start, changed_now, found, found_at_start, is_denied,
};

use crate::sys::beneath::{Dir, ObjectIdentity, PRIVATE_FILE};
use crate::sys::interrupt::TemporaryChangeGuard;
use rustix::fs::{FlockOperation, flock};
use rustix::io::{Errno, FdFlags};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};

/// Suffix of record files.
const SUFFIX: &str = ".json";
const LOG: &str = "log";
/// Version of the record format.
const VERSION: u32 = 1;
/// Maximum size of a record, in bytes.
const BYTES_MAX: u64 = 8 << 20;

/// The journal in one directory, locked. Its records contain values of any type.
#[derive(Debug)]
pub struct Journal(Dir);

/// A record that this process holds locked.
#[derive(Debug)]
pub struct Entry {
    directory: Dir,
    name: String,
    file: File,
    _unfinished: TemporaryChangeGuard,
}

/// A record as read.
#[derive(Debug)]
pub struct Stored<T> {
    /// Name of the record.
    pub name: String,
    /// Its process lives, or a program that it has started.
    pub alive: bool,
    /// The content, or the reason why this version cannot use it.
    pub content: Result<T, String>,
    file: File,
}

/// Result of settling a change that a killed process left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeSettlement {
    /// Result of the undo.
    pub undone: UndoResult,
    /// Description for the user.
    pub text: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Versioned<T> {
    version: u32,
    change: T,
}

impl Journal {
    /// Path of the journal in a state or run-time directory. Links in its path are
    /// resolved now; later links are not followed.
    pub fn place(directory: &Path) -> PathBuf {
        let real = directory.canonicalize().or_else(|_| std::path::absolute(directory));
        real.unwrap_or_else(|_| directory.to_owned()).join("journal")
    }

    /// Opens and locks the journal at a path. `None` if it is missing, unless `make` is
    /// set.
    pub fn open(place: &Path, make: bool) -> io::Result<Option<Self>> {
        let directory = match Dir::guarded(place, make) {
            Err(error) if !make && error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        directory.require_private()?;
        Self::lock(directory).map(Some)
    }

    /// Locks the journal in an open directory.
    pub fn lock(directory: Dir) -> io::Result<Self> {
        flock(&directory, FlockOperation::LockExclusive)?;
        Ok(Self(directory))
    }

    /// Path of a record.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(format!("{name}{SUFFIX}"))
    }

    /// The records whose names begin with `kind`, in order of their numbers.
    pub fn records<T: DeserializeOwned>(&self, kind: &str) -> io::Result<Vec<Stored<T>>> {
        let mut names = Vec::new();
        for name in self.0.names()? {
            match name.to_str() {
                // A killed process left an incomplete record.
                Some(name) if name.starts_with('.') => self.0.remove_ours(name)?,
                Some(name) if name.starts_with(kind) => {
                    names.extend(name.strip_suffix(SUFFIX).map(str::to_owned))
                }
                _ => {}
            }
        }
        names.sort_by_key(|name| (name.len(), name.clone()));
        names.iter().filter_map(|name| self.read(name).transpose()).collect()
    }

    /// The name of the next record of a kind, with a number.
    pub fn next_name(&self, kind: &str) -> io::Result<String> {
        let number = |name: String| name.strip_prefix(kind)?.strip_prefix('-')?.parse().ok();
        let all = self.records::<serde::de::IgnoredAny>(kind)?;
        let last: u32 = all.into_iter().filter_map(|one| number(one.name)).max().unwrap_or(0);
        Ok(format!("{kind}-{:04}", last + 1))
    }

    /// Reads a record; `None` if it does not exist.
    pub fn read<T: DeserializeOwned>(&self, name: &str) -> io::Result<Option<Stored<T>>> {
        let path = self.path(name);
        let file = match self.0.open_read(format!("{name}{SUFFIX}")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file.map_err(|error| {
                io::Error::new(error.kind(), format!("{}: {error}", path.display()))
            })?,
        };
        if !Dir::is_trusted_file(&file)? {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                format!("{} cannot be trusted: others may have written it", path.display()),
            ));
        }
        let alive = match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => false,
            Err(Errno::WOULDBLOCK) => true,
            Err(errno) => return Err(errno.into()),
        };
        let mut text = Vec::new();
        (&file).take(BYTES_MAX).read_to_end(&mut text)?;
        let content = match serde_json::from_slice(&text) {
            Ok(Versioned { version: VERSION, change }) => Ok(change),
            Ok(Versioned { version, .. }) => Err(format!("version {version}")),
            Err(error) => Err(error.to_string()),
        };
        let content = content.map_err(|why| {
            format!(
                "{} is damaged or of another version of trimtab: {why}; to continue without it, \
                 move it to another directory",
                path.display()
            )
        });
        Ok(Some(Stored { name: name.to_owned(), alive, content, file }))
    }

    /// Writes the record of a change that is about to be made.
    pub fn create(&self, name: &str, change: &impl Serialize) -> io::Result<Entry> {
        let file = self.write(name, change)?;
        self.entry(name.to_owned(), file)
    }

    /// Takes a record over from a process that has ended. Fails if this version cannot
    /// use its content.
    pub fn resume<T>(&self, stored: Stored<T>) -> io::Result<(Entry, T)> {
        let unusable = |why| io::Error::new(io::ErrorKind::InvalidData, why);
        let content = stored.content.map_err(unusable)?;
        Ok((self.entry(stored.name, stored.file)?, content))
    }

    fn entry(&self, name: String, file: File) -> io::Result<Entry> {
        let directory = self.0.reopen()?;
        Ok(Entry { directory, name, file, _unfinished: TemporaryChangeGuard::begin() })
    }

    /// Writes the new record durably; it is locked before it is visible.
    fn write(&self, name: &str, change: &impl Serialize) -> io::Result<File> {
        let mut text = serde_json::to_vec_pretty(&Versioned { version: VERSION, change })?;
        text.push(b'\n');
        let mut written = None;
        self.0.write_atomically(format!("{name}{SUFFIX}"), PRIVATE_FILE, |file| {
            flock(&*file, FlockOperation::NonBlockingLockExclusive)?;
            written = Some(file.try_clone()?);
            file.write_all(&text)
        })?;
        written.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Replaces the content of a record. Fails if another process has settled it.
    pub fn update(&self, entry: &mut Entry, change: &impl Serialize) -> io::Result<()> {
        if !entry.is_there() {
            let text =
                format!("{} was removed by another process", self.path(&entry.name).display());
            return Err(io::Error::new(io::ErrorKind::NotFound, text));
        }
        entry.file = self.write(&entry.name, change)?;
        Ok(())
    }

    /// Removes the record of a change that is undone.
    pub fn remove(&self, entry: &Entry) -> io::Result<()> {
        self.remove_record(&entry.name, &entry.file)
    }

    fn remove_record(&self, name: &str, file: &File) -> io::Result<()> {
        self.0.remove_file(format!("{name}{SUFFIX}"), file).map(drop)
    }

    /// Adds a line to the log.
    pub fn log(&self, event: &impl Serialize) -> io::Result<()> {
        let (mut file, _) = self.0.open_or_create(LOG, PRIVATE_FILE)?;
        file.seek(io::SeekFrom::End(0))?;
        // A killed process may have left half a line.
        file.write_all(&[b"\n", &serde_json::to_vec(event)?[..], b"\n"].concat())?;
        file.sync_all()
    }

    /// The lines of the log, oldest first. Malformed ones are skipped.
    pub fn logged<T: DeserializeOwned>(&self) -> io::Result<Vec<T>> {
        let mut text = String::new();
        match self.0.open_read(LOG) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            file => drop(file?.take(BYTES_MAX).read_to_string(&mut text)?),
        }
        Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
    }
}

impl Entry {
    /// Locks the journal.
    pub fn journal(&self) -> io::Result<Journal> {
        Journal::lock(self.directory.reopen()?)
    }

    /// Replaces the content. Call before a change that the record does not contain.
    pub fn update(&mut self, change: &impl Serialize) -> io::Result<()> {
        self.journal()?.update(self, change)
    }

    /// True if the record still exists; another process may have settled it.
    pub fn is_there(&self) -> bool {
        let named = self.directory.look(format!("{}{SUFFIX}", self.name));
        let held = ObjectIdentity::of(&self.file);
        matches!((named, held), (Ok(Some(stat)), Ok(held)) if ObjectIdentity::from(&stat) == held)
    }

    /// Lets programs that this process starts hold the lock, too: one that waits for a
    /// passphrase may outlive its killed parent and still change something.
    pub fn share_lock(&self) -> io::Result<()> {
        Ok(rustix::io::fcntl_setfd(&self.file, FdFlags::empty())?)
    }
}

#[cfg(test)]
mod tests;
