//! Undo notes for temporary changes outside this program's own files. Before such a
//! change, the process writes a note with the old and the new value, and locks it. An
//! unlocked note was left by a killed process.
//!
//! The next command restores the old value, unless another process has changed it since.
//! Any command restores switches of drives. Only a command that works on the filesystem
//! restores its mount options, through any mount of the same superblock. A note is
//! removed only once its change is settled.
//!
//! ```text
//!     /run/trimtab/notes/NAME.note         one change, as JSON; locked while its process lives
//! ```
//!
//! Other users cannot open the directory or a note: they could hold a lock, and the
//! change of a killed process would never be restored. Creating and removing notes is
//! atomic across processes, under a lock on the directory. Files that `apply` replaces
//! must survive a reboot; their notes are stored next to their copies ([`crate::apply`]).

mod change;
mod mount_option;
mod mounted;

pub use change::{Change, UndoResult};
pub use mounted::MountScope;

use crate::host::block::sysfs_name;
use crate::output::Context;
use crate::session::directories::run_directory;
use crate::sys::beneath::{Dir, PRIVATE_FILE};
use crate::sys::interrupt::TemporaryChangeGuard;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// Suffix of note names.
const SUFFIX: &str = ".note";
/// Maximum size of a note.
const NOTE_BYTES_MAX: u64 = 64 << 10;

/// The directory of notes.
#[derive(Clone, Debug)]
pub struct Notes(PathBuf);

/// The locked directory.
struct NotesDirectory(Dir);

/// The note of a change of this process. Dropping it does not restore the old value: see
/// [`Note::put_back`].
#[derive(Debug)]
pub struct Note {
    notes: Notes,
    name: String,
    /// The note's file, locked.
    file: File,
    change: Change,
    len: usize,
    _unfinished: TemporaryChangeGuard,
}

/// Result of settling a change that a killed process left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeSettlement {
    /// Result of the undo.
    pub undone: UndoResult,
    /// Description for the user.
    pub text: String,
}

impl Notes {
    /// The notes of this machine.
    pub fn here() -> Self {
        Self::beside(run_directory())
    }

    /// The notes in a run-time directory. Links in its path are resolved now; later links
    /// are not followed.
    pub fn beside(run_directory: PathBuf) -> Self {
        let real = run_directory.canonicalize().or_else(|_| std::path::absolute(&run_directory));
        Self(real.unwrap_or(run_directory).join("notes"))
    }

    fn open(&self, make: bool) -> io::Result<NotesDirectory> {
        let dir = Dir::guarded(&self.0, make)?;
        dir.require_private()?;
        flock(&dir, FlockOperation::LockExclusive)?;
        Ok(NotesDirectory(dir))
    }

    /// Writes the note of a change that is about to be made. Fails if a living process
    /// has made the same change, or if such a change of a killed process cannot be
    /// settled.
    pub fn leave(&self, name: &str, change: Change) -> io::Result<Note> {
        let room = self.open(true)?;
        let name = format!("{}{SUFFIX}", sysfs_name(name));
        if let Some(found) = room.read(&name)? {
            if found.alive {
                return Err(io::Error::new(
                    io::ErrorKind::ResourceBusy,
                    format!("another process of trimtab has changed {change}"),
                ));
            }
            let left = room.settle(&name, &found, &MountScope::Everything)?;
            if let Some(left) = left.filter(|left| left.undone.is_open()) {
                return Err(io::Error::new(io::ErrorKind::ResourceBusy, left.text));
            }
        }
        let file = room.0.create_new(&name, PRIVATE_FILE)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        let mut note = Note {
            notes: self.clone(),
            name,
            file,
            change,
            len: 0,
            _unfinished: TemporaryChangeGuard::begin(),
        };
        note.write()?;
        Ok(note)
    }

    /// Undoes the change of the note `name`, whichever process wrote it, and removes the
    /// note. The caller must hold a lock that keeps the other process from continuing.
    /// Returns the result, and true if the other process is gone.
    pub fn take_over(&self, name: &str) -> io::Result<Option<(ChangeSettlement, bool)>> {
        let room = match self.open(false) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            room => room?,
        };
        let name = format!("{}{SUFFIX}", sysfs_name(name));
        let Some(found) = room.read(&name)? else { return Ok(None) };
        let left = room.settle(&name, &found, &MountScope::Everything)?;
        Ok(left.map(|left| (left, !found.alive)))
    }

    /// Returns the temporary changes of living processes within `reach`.
    pub fn changed_meanwhile(&self, reach: &MountScope) -> io::Result<Vec<Change>> {
        let mut all = Vec::new();
        self.each(|_, _, found| {
            all.extend(
                found.change().filter(|change| found.alive && change.is_within(reach)).cloned(),
            );
            Ok(())
        })?;
        Ok(all)
    }

    /// Undoes the changes that killed processes left within `reach`. Changes that cannot
    /// be undone stay noted.
    pub fn put_back_left(&self, reach: &MountScope) -> io::Result<Vec<ChangeSettlement>> {
        let mut all = Vec::new();
        self.each(|room, name, found| {
            if !found.alive {
                all.extend(room.settle(name, &found, reach)?);
            }
            Ok(())
        })?;
        Ok(all)
    }

    /// Calls `look` with every note.
    fn each(
        &self,
        mut look: impl FnMut(&NotesDirectory, &str, StoredNote) -> io::Result<()>,
    ) -> io::Result<()> {
        let room = match self.open(false) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            room => room?,
        };
        for name in room.0.names()? {
            let Some(name) = name.to_str().filter(|name| name.ends_with(SUFFIX)) else { continue };
            if let Some(found) = room.read(name)? {
                look(&room, name, found)?;
            }
        }
        Ok(())
    }
}

/// A note that was read.
struct StoredNote {
    file: File,
    alive: bool,
    says: NoteContent,
}

/// Content of a note.
enum NoteContent {
    /// Empty: its process was killed before it wrote the note, and therefore before it
    /// changed anything.
    Nothing,
    This(Change),
    /// Content that this version does not understand.
    Unknown,
}

impl StoredNote {
    fn change(&self) -> Option<&Change> {
        match &self.says {
            NoteContent::This(change) => Some(change),
            NoteContent::Nothing | NoteContent::Unknown => None,
        }
    }
}

impl NotesDirectory {
    fn read(&self, name: &str) -> io::Result<Option<StoredNote>> {
        let file = match self.0.open_read(name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        if !Dir::is_trusted_file(&file)? {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                format!("{} is not to be trusted", self.0.path().join(name).display()),
            ));
        }
        let alive = match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => false,
            Err(Errno::WOULDBLOCK) => true,
            Err(errno) => return Err(errno.into()),
        };
        let mut text = String::new();
        (&file).take(NOTE_BYTES_MAX).read_to_string(&mut text)?;
        let says = match serde_json::from_str(&text) {
            Ok(change) => NoteContent::This(change),
            Err(_) if text.trim().is_empty() => NoteContent::Nothing,
            Err(_) => NoteContent::Unknown,
        };
        Ok(Some(StoredNote { alive, says, file }))
    }

    /// Undoes the change and removes the note. The note stays if the undo fails.
    fn settle(
        &self,
        name: &str,
        found: &StoredNote,
        reach: &MountScope,
    ) -> io::Result<Option<ChangeSettlement>> {
        let left = match &found.says {
            NoteContent::Nothing => None,
            NoteContent::This(change) => Some(change.undo(reach)),
            NoteContent::Unknown => {
                let note = self.0.path().join(name);
                let text = format!(
                    "{} says what a process that was killed had changed, but not so \
                        that it can be read here",
                    note.display()
                );
                Some(ChangeSettlement { undone: UndoResult::Failed, text })
            }
        };
        if !left.as_ref().is_some_and(|left| left.undone.is_open()) {
            let _ = self.0.remove_file(name, &found.file)?;
        }
        Ok(left)
    }
}

impl Note {
    /// Replaces the change in the note. Call before making that change.
    pub fn say(&mut self, change: Change) -> io::Result<()> {
        self.change = change;
        self.write()
    }

    /// True if the note still exists; another process may have taken it over.
    pub fn is_there(&self) -> bool {
        let there = || {
            let dir = Dir::guarded(&self.notes.0, false)?;
            let held = crate::sys::beneath::ObjectIdentity::of(&self.file)?;
            io::Result::Ok(
                dir.look(&self.name)?
                    .is_some_and(|stat| crate::sys::beneath::ObjectIdentity::from(&stat) == held),
            )
        };
        there().unwrap_or(false)
    }

    /// Undoes the change and removes the note, if the note still exists. If the undo
    /// fails, the note stays for later commands.
    pub fn put_back(self) -> io::Result<UndoResult> {
        let room = self.notes.open(false)?;
        if !self.is_there() {
            return Ok(UndoResult::Nothing);
        }
        let left = self.change.undo(&MountScope::Everything);
        if left.undone.is_open() {
            return Err(io::Error::other(left.text));
        }
        let _ = room.0.remove_file(&self.name, &self.file)?;
        Ok(left.undone)
    }

    /// Overwrites the note in one system call: a reader sees either the old text or the
    /// new one.
    fn write(&mut self) -> io::Result<()> {
        let mut text = serde_json::to_vec(&self.change).map_err(io::Error::other)?;
        text.push(b'\n');
        text.resize(text.len().max(self.len), b' ');
        self.len = text.len();
        self.file.write_all_at(&text, 0)
    }
}

/// Changes settled at the start of this process, for commands that report them again.
static AT_START: Mutex<Vec<ChangeSettlement>> = Mutex::new(Vec::new());

/// Undoes the changes that killed commands left within `reach`, at the start of every
/// command. Reports them unless `says_itself`, where the command does so.
pub fn at_start(context: &Context, reach: &MountScope, says_itself: bool) {
    let found = match Notes::here().put_back_left(reach) {
        Ok(found) => found,
        // A user who may not open the notes cannot restore anything either.
        Err(error) if error.raw_os_error() == Some(libc::EACCES) => return,
        Err(error) => {
            crate::output::complain(&format!(
                "cannot see what killed processes may have left: {error}"
            ));
            return;
        }
    };
    if !says_itself {
        found
            .iter()
            .filter(|left| left.undone != UndoResult::Nothing)
            .for_each(|left| context.remark(&left.text));
    }
    *AT_START.lock().unwrap_or_else(PoisonError::into_inner) = found;
}

/// Describes the mount options within `reach` that living processes have changed
/// temporarily. Empty for a user who may not read the notes.
pub fn changed_now(reach: &MountScope) -> io::Result<Vec<String>> {
    match Notes::here().changed_meanwhile(reach) {
        Ok(changes) => Ok(changes.iter().filter_map(Change::meanwhile).collect()),
        Err(error) if error.raw_os_error() == Some(libc::EACCES) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Adds another result to those found at the start.
pub fn found(left: ChangeSettlement) {
    AT_START.lock().unwrap_or_else(PoisonError::into_inner).push(left);
}

/// True if the error means that this user has no access.
pub fn is_denied(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause
            .downcast_ref::<io::Error>()
            .is_some_and(|cause| cause.raw_os_error() == Some(libc::EACCES))
    })
}

/// Returns the changes found at the start, without those that needed no undo.
pub fn found_at_start() -> Vec<ChangeSettlement> {
    AT_START
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .iter()
        .filter(|left| left.undone != UndoResult::Nothing)
        .cloned()
        .collect()
}

#[cfg(test)]
mod tests;
