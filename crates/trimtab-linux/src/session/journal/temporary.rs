//! Temporary changes. The next command restores the value that a killed process changed,
//! unless another process has changed it since.
//!
//! Any command restores switches of drives. Only a command that works on the filesystem
//! restores its mount options, through any mount of the same superblock.

use super::{Change, ChangeSettlement, Entry, Journal, MountScope, Stored, UndoResult};
use crate::host::block::sysfs_name;
use crate::output::Context;
use crate::session::directories::run_directory;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The journal of temporary changes, which need not exist.
#[derive(Clone, Debug)]
pub struct TemporaryJournal(PathBuf);

/// A recorded change of this process. Dropping it does not restore the old value: see
/// [`TemporaryChange::restore`].
#[derive(Debug)]
pub struct TemporaryChange {
    entry: Entry,
    change: Change,
}

impl TemporaryJournal {
    /// The journal of this machine.
    pub fn here() -> Self {
        Self::of_directory(&run_directory())
    }

    /// The journal in a run-time directory.
    pub fn of_directory(run_directory: &Path) -> Self {
        Self(Journal::place(run_directory))
    }

    /// Records a change that is about to be made. Fails if a living process has made the
    /// same change, or if such a change of a killed process cannot be settled.
    pub fn begin(&self, name: &str, change: Change) -> io::Result<TemporaryChange> {
        let journal = Journal::open(&self.0, true)?.ok_or(io::ErrorKind::NotFound)?;
        let name = sysfs_name(name);
        if let Some(found) = journal.read(&name)? {
            let busy = |text| Err(io::Error::new(io::ErrorKind::ResourceBusy, text));
            if found.alive {
                return busy(format!("another process of trimtab has changed {change}"));
            }
            let left = settle(&journal, found, &MountScope::Everything)?;
            if left.undone.is_open() {
                return busy(left.text);
            }
        }
        Ok(TemporaryChange { entry: journal.create(&name, &change)?, change })
    }

    /// Undoes the change recorded as `name`, whichever process made it, and removes the
    /// record. The caller must hold a lock that keeps the other process from continuing.
    /// Returns the result, and true if the other process is gone.
    pub fn take_over(&self, name: &str) -> io::Result<Option<(ChangeSettlement, bool)>> {
        let Some(journal) = Journal::open(&self.0, false)? else { return Ok(None) };
        let Some(found) = journal.read(&sysfs_name(name))? else { return Ok(None) };
        let gone = !found.alive;
        settle(&journal, found, &MountScope::Everything).map(|left| Some((left, gone)))
    }

    /// Returns the temporary changes of living processes within `reach`.
    pub fn active(&self, reach: &MountScope) -> io::Result<Vec<Change>> {
        let Some(journal) = Journal::open(&self.0, false)? else { return Ok(Vec::new()) };
        let alive = journal.records::<Change>("")?.into_iter().filter(|found| found.alive);
        let changes = alive.filter_map(|found| found.content.ok());
        Ok(changes.filter(|change| change.is_within(reach)).collect())
    }

    /// Undoes the changes that killed processes left within `reach`. Changes that cannot
    /// be undone stay recorded.
    pub fn settle_left(&self, reach: &MountScope) -> io::Result<Vec<ChangeSettlement>> {
        let Some(journal) = Journal::open(&self.0, false)? else { return Ok(Vec::new()) };
        let left = journal.records("")?.into_iter().filter(|found| !found.alive);
        left.map(|found| settle(&journal, found, reach)).collect()
    }
}

/// Undoes the change and removes its record. The record stays if the undo fails.
fn settle(
    journal: &Journal,
    found: Stored<Change>,
    reach: &MountScope,
) -> io::Result<ChangeSettlement> {
    let left = match &found.content {
        Ok(change) => change.undo(reach),
        Err(why) => {
            let text = format!("cannot undo the change of a killed process: {why}");
            ChangeSettlement { undone: UndoResult::Failed, text }
        }
    };
    if !left.undone.is_open() {
        journal.remove_record(&found.name, &found.file)?;
    }
    Ok(left)
}

impl TemporaryChange {
    /// Replaces the recorded change. Call before making that change.
    pub fn update(&mut self, change: Change) -> io::Result<()> {
        self.change = change;
        self.entry.update(&self.change)
    }

    /// True if the record still exists; another process may have taken it over.
    pub fn is_there(&self) -> bool {
        self.entry.is_there()
    }

    /// Undoes the change and removes its record, if it still exists. If the undo fails,
    /// the record stays for later commands.
    pub fn restore(self) -> io::Result<UndoResult> {
        let journal = self.entry.journal()?;
        if !self.is_there() {
            return Ok(UndoResult::Nothing);
        }
        let left = self.change.undo(&MountScope::Everything);
        if left.undone.is_open() {
            return Err(io::Error::other(left.text));
        }
        journal.remove(&self.entry)?;
        Ok(left.undone)
    }
}

/// Changes settled at the start of this process, for commands that report them again.
static AT_START: Mutex<Vec<ChangeSettlement>> = Mutex::new(Vec::new());

/// Undoes the changes that killed commands left within `reach`, at the start of every
/// command. Reports them unless `says_itself`, where the command does so.
pub fn at_start(context: &Context, reach: &MountScope, says_itself: bool) {
    let found = match TemporaryJournal::here().settle_left(reach) {
        Ok(found) => found,
        // A user who may not open the journal cannot restore anything either.
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
/// temporarily. Empty for a user who may not read the journal.
pub fn changed_now(reach: &MountScope) -> io::Result<Vec<String>> {
    match TemporaryJournal::here().active(reach) {
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
