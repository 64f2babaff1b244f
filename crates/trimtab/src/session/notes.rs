//! Whatever is changed outside our own files, and only for a while, leaves a note first: what it was, and what it was made. A note is
//! locked by who left it. One that nobody holds was left by a process that was killed, and the next command puts back what
//! it says, unless somebody else has changed that since: any command what concerns a drive's switches, one that works on the filesystem how
//! that is mounted, and only if it is the very same mount.
//!
//! ```text
//!     /run/trimtab/notes/NAME.note         one change, as JSON; locked as long as its process stands by it
//! ```
//!
//! Nobody else can open the directory or a note: who could might hold a lock, and what a killed process left would never be put back.
//! What is left and taken away is one step for all processes: the directory is locked meanwhile. Files that `apply` replaces must outlive
//! the machine's next start; they have their note beside their copies ([`crate::apply`]).

mod change;
mod mounted;

pub use change::{Change, Undone};
pub use mounted::Reach;

use crate::output::Context;
use crate::session::directories::run_directory;
use crate::sys::beneath::{Dir, PRIVATE_DIR, PRIVATE_FILE};
use rustix::fs::{FlockOperation, Mode, flock};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// Names of notes end with this.
const SUFFIX: &str = ".note";
/// No note is longer.
const NOTE_BYTES_MAX: u64 = 64 << 10;

/// The place for notes.
#[derive(Clone, Debug)]
pub struct Notes(PathBuf);

/// The directory, locked.
struct Room(Dir);

/// A change of this process. What it says is not put back when it is dropped: see [`Note::put_back`].
#[derive(Debug)]
pub struct Note {
    notes: Notes,
    name: String,
    /// Locked.
    file: File,
    change: Change,
    len: usize,
}

/// What became of something that a killed process had left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    /// Put back, or not.
    pub undone: Undone,
    /// In words.
    pub text: String,
}

impl Notes {
    /// Those of this machine.
    #[must_use]
    pub fn here() -> Self {
        Self::beside(run_directory())
    }

    /// Those in a run-time directory. Links that are in its name now are the user's; later ones are not followed.
    #[must_use]
    pub fn beside(run_directory: PathBuf) -> Self {
        let real = run_directory.canonicalize().or_else(|_| std::path::absolute(&run_directory));
        Self(real.unwrap_or(run_directory).join("notes"))
    }

    fn open(&self, make: bool) -> io::Result<Room> {
        let dir = Dir::guarded(&self.0, make)?;
        // Others could see it once.
        rustix::fs::fchmod(&dir, Mode::from_raw_mode(PRIVATE_DIR))?;
        dir.require_private()?;
        flock(&dir, FlockOperation::LockExclusive)?;
        Ok(Room(dir))
    }

    /// Notes what is going to be changed. An error if a living process has changed the same.
    pub fn leave(&self, name: &str, change: Change) -> io::Result<Note> {
        let room = self.open(true)?;
        let name = format!("{}{SUFFIX}", name.replace('/', "!"));
        if let Some(found) = room.read(&name)? {
            if found.alive {
                return Err(io::Error::new(io::ErrorKind::ResourceBusy, format!("another process of trimtab has changed {change}")));
            }
            room.settle(&name, &found, &Reach::Everything)?;
        }
        let file = room.0.create_new(&name, PRIVATE_FILE)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        let mut note = Note { notes: self.clone(), name, file, change, len: 0 };
        note.write()?;
        Ok(note)
    }

    /// Puts back what the note `name` says, whoever left it, and takes it away. For who has made sure that the other one does not go
    /// on with it, by a lock of their own. Gives what became of it, and whether its process is gone.
    pub fn take_over(&self, name: &str) -> io::Result<Option<(Left, bool)>> {
        let room = match self.open(false) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            room => room?,
        };
        let name = format!("{}{SUFFIX}", name.replace('/', "!"));
        let Some(found) = room.read(&name)? else { return Ok(None) };
        let left = room.settle(&name, &found, &Reach::Everything)?;
        Ok(left.map(|left| (left, !found.alive)))
    }

    /// What living processes have changed for a while, within `reach`.
    pub fn changed_meanwhile(&self, reach: &Reach) -> io::Result<Vec<Change>> {
        let mut all = Vec::new();
        self.each(|_, _, found| {
            all.extend(found.change.filter(|change| found.alive && change.is_within(reach)));
            Ok(())
        })?;
        Ok(all)
    }

    /// Puts back what killed processes have left, within `reach`. What was not put back stays noted.
    pub fn put_back_left(&self, reach: &Reach) -> io::Result<Vec<Left>> {
        let mut all = Vec::new();
        self.each(|room, name, found| {
            if !found.alive && found.change.as_ref().is_none_or(Change::is_seen_from_here) {
                all.extend(room.settle(name, &found, reach)?);
            }
            Ok(())
        })?;
        Ok(all)
    }

    /// Looks at every note there is.
    fn each(&self, mut look: impl FnMut(&Room, &str, Found) -> io::Result<()>) -> io::Result<()> {
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

/// A note that is there.
struct Found {
    file: File,
    alive: bool,
    /// `None` if its process was killed before it had written it, and so before it changed anything.
    change: Option<Change>,
}

impl Room {
    fn read(&self, name: &str) -> io::Result<Option<Found>> {
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
        Ok(Some(Found { alive, change: serde_json::from_str(&text).ok(), file }))
    }

    /// Puts back and takes the note away, unless it could not be put back.
    fn settle(&self, name: &str, found: &Found, reach: &Reach) -> io::Result<Option<Left>> {
        let left = found.change.as_ref().map(|change| change.undo(reach));
        if !left.as_ref().is_some_and(|left| matches!(left.undone, Undone::Failed | Undone::Left)) {
            let _ = self.0.remove_file(name, &found.file)?;
        }
        Ok(left)
    }
}

impl Note {
    /// Says something else, of the same thing; before that is done.
    pub fn say(&mut self, change: Change) -> io::Result<()> {
        self.change = change;
        self.write()
    }

    /// Whether it is still there: somebody may have taken it over.
    #[must_use]
    pub fn is_there(&self) -> bool {
        let there = || {
            let dir = Dir::guarded(&self.notes.0, false)?;
            let held = crate::sys::beneath::Identity::of(&self.file)?;
            io::Result::Ok(dir.look(&self.name)?.is_some_and(|stat| crate::sys::beneath::Identity::from(&stat) == held))
        };
        there().unwrap_or(false)
    }

    /// Puts back what it says, if it is still there, and takes it away. If that fails it stays for others.
    pub fn put_back(self) -> io::Result<Undone> {
        let room = self.notes.open(false)?;
        if !self.is_there() {
            return Ok(Undone::Nothing);
        }
        let left = self.change.undo(&Reach::Everything);
        if left.undone == Undone::Failed {
            return Err(io::Error::other(left.text));
        }
        let _ = room.0.remove_file(&self.name, &self.file)?;
        Ok(left.undone)
    }

    /// In one system call, over what was there: a reader finds the old text or the new one.
    fn write(&mut self) -> io::Result<()> {
        let mut text = serde_json::to_vec(&self.change).map_err(io::Error::other)?;
        text.push(b'\n');
        text.resize(text.len().max(self.len), b' ');
        self.len = text.len();
        self.file.write_all_at(&text, 0)
    }
}

/// What was found at the start of this process, for who wants to say it again.
static AT_START: Mutex<Vec<Left>> = Mutex::new(Vec::new());

/// At the start of every command: puts back what killed ones have left, within `reach`, and says so.
pub fn at_start(context: &Context, reach: &Reach) {
    let found = match Notes::here().put_back_left(reach) {
        Ok(found) => found,
        // Who may not look there may not put anything back either.
        Err(error) if error.raw_os_error() == Some(libc::EACCES) => return,
        Err(error) => {
            crate::output::complain(&format!("cannot see what killed processes may have left: {error}"));
            return;
        }
    };
    found.iter().filter(|left| left.undone != Undone::Nothing).for_each(|left| context.remark(&left.text));
    *AT_START.lock().unwrap_or_else(PoisonError::into_inner) = found;
}

/// Something else was.
pub fn found(left: Left) {
    AT_START.lock().unwrap_or_else(PoisonError::into_inner).push(left);
}

/// Whether an error means that this user may not look.
#[must_use]
pub fn is_denied(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| cause.downcast_ref::<io::Error>().is_some_and(|cause| cause.raw_os_error() == Some(libc::EACCES)))
}

/// What was found at the start.
#[must_use]
pub fn found_at_start() -> Vec<Left> {
    AT_START.lock().unwrap_or_else(PoisonError::into_inner).iter().filter(|left| left.undone != Undone::Nothing).cloned().collect()
}

#[cfg(test)]
mod tests;
