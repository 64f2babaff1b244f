//! Replaces files of the system, and restores their earlier text. The journal
//! ([`trimtab_linux::session::journal`]) contains both texts before the first file
//! changes. If the process is killed, the next command rolls the change back.

use super::{ApplyPlan, BYTES_MAX, Edit, FSTAB, SHIPPED, System, fstab, line_undo};
use anyhow::{Context as _, ensure};
use rustix::fs::AtFlags;
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use trimtab_drive::usage::quoted;
use trimtab_linux::session::journal::{Entry, Journal};
use trimtab_linux::sys::beneath::Dir;

/// Kind of the records in the journal.
const KIND: &str = "apply";
const UNWRITABLE: &str = "cannot write to the journal";
/// Mode of a new system file; a new directory on the way to it also gets search
/// permission.
const SYSTEM_FILE: u32 = 0o644;

/// Record of an applied policy.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct AppliedPolicy {
    policy: String,
    path: PathBuf,
    /// All files have their new text. While false, the change or its undo is in progress.
    finished: bool,
    files: Vec<Edit>,
}

/// One change of a policy, with its time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyChange {
    /// Milliseconds since 1970 UTC.
    pub unix_ms: u64,
    /// Kind of change.
    pub what: PolicyChangeKind,
    /// The policy.
    pub policy: String,
    /// The mount point.
    pub path: PathBuf,
    /// The changed files.
    pub files: Vec<PathBuf>,
}

/// Kind of change of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PolicyChangeKind {
    /// Written into the configuration.
    Applied,
    /// Undone by the user.
    Undone,
    /// Rolled back because the process was killed.
    PutBack,
}

/// Changes of policies, oldest first.
pub fn events(system: &System) -> anyhow::Result<Vec<PolicyChange>> {
    let Some(journal) = system.journal(false)? else { return Ok(Vec::new()) };
    journal.logged().with_context(|| format!("cannot read the log in {}", system.shown_journal()))
}

/// Adds a line to the log. A failure is reported and does not undo the change.
fn log(journal: &Journal, what: PolicyChangeKind, policy: &str, path: &Path, edits: &[Edit]) {
    let event = PolicyChange {
        unix_ms: trimtab_linux::sys::clock::unix_ms(),
        what,
        policy: policy.to_owned(),
        path: path.to_owned(),
        files: edits.iter().map(|edit| edit.file.clone()).collect(),
    };
    if let Err(error) = journal.log(&event) {
        trimtab_linux::output::complain(&format!("the log cannot be written: {error}"));
    }
}

/// Makes the planned changes. Returns the path of the record with the earlier texts, or
/// `None` if there was nothing to do.
pub fn carry_out(system: &System, plan: &ApplyPlan) -> anyhow::Result<Option<PathBuf>> {
    if plan.edits.is_empty() {
        return Ok(None);
    }
    let journal = system.journal(true)?.context("the journal is made where it is missing")?;
    ensure!(
        unfinished(&journal)?.is_none(),
        "another process was killed while it applied a policy; run the command again"
    );
    plan.edits.iter().try_for_each(|edit| require_unchanged(system, edit))?;
    let mut record = AppliedPolicy {
        policy: plan.policy.clone(),
        path: plan.mount_point.clone(),
        finished: false,
        files: plan.edits.clone(),
    };
    let name = journal.next_name(KIND)?;
    let mut entry = journal
        .create(&name, &record)
        .with_context(|| format!("cannot write {}", journal.path(&name).display()))?;
    if let Err(error) = replace_all(system, &plan.edits) {
        // All files have their old content again.
        journal.remove(&entry)?;
        return Err(error);
    }
    record.finished = true;
    journal.update(&mut entry, &record).context(UNWRITABLE)?;
    log(&journal, PolicyChangeKind::Applied, &plan.policy, &plan.mount_point, &plan.edits);
    Ok(Some(journal.path(&name)))
}

/// Replaces the files. If one fails, restores those before it.
fn replace_all(system: &System, edits: &[Edit]) -> anyhow::Result<()> {
    for (done, edit) in edits.iter().enumerate() {
        if let Err(error) = replace(system, &edit.file, edit.after.as_deref()) {
            for earlier in edits.iter().take(done) {
                replace(system, &earlier.file, earlier.before.as_deref())?;
            }
            return Err(error);
        }
    }
    Ok(())
}

/// Makes one edit. Fails if the file was changed since it was planned.
pub fn make_edit(system: &System, edit: &Edit) -> anyhow::Result<()> {
    require_unchanged(system, edit)?;
    replace(system, &edit.file, edit.after.as_deref())
}

fn require_unchanged(system: &System, edit: &Edit) -> anyhow::Result<()> {
    ensure!(
        system.read(&edit.file)? == edit.before,
        "{} was changed concurrently; run the command again",
        system.shown(&edit.file)
    );
    Ok(())
}

/// Gives a file this text, or removes it. Owner and mode stay.
fn replace(system: &System, file: &Path, text: Option<&str>) -> anyhow::Result<()> {
    let (parent, name) = parts(file)?;
    let replace = || {
        let Some(directory) = system.directory(parent, text.is_some())? else { return Ok(()) };
        let Some(text) = text else {
            absent(
                rustix::fs::unlinkat(&directory, name, AtFlags::empty()).map_err(io::Error::from),
            )?;
            return directory.sync();
        };
        let old = directory.look(name)?;
        let mode = old.as_ref().map_or(SYSTEM_FILE, |old| old.st_mode & 0o7777);
        directory.write_atomically(name, mode, |new| {
            new.write_all(text.as_bytes())?;
            match &old {
                Some(old) => std::os::unix::fs::fchown(&*new, Some(old.st_uid), Some(old.st_gid)),
                None => Ok(()),
            }
        })
    };
    replace().with_context(|| format!("cannot write {}", system.shown(file)))
}

fn parts(file: &Path) -> anyhow::Result<(&Path, &OsStr)> {
    let name =
        file.file_name().with_context(|| format!("{} is not a file name", file.display()))?;
    Ok((file.parent().unwrap_or(Path::new("/")), name))
}

/// Undoes the last `apply`, or with `dry_run` only plans it. Returns the edits.
pub fn undo(system: &System, dry_run: bool) -> anyhow::Result<ApplyPlan> {
    let journal = system.journal(false)?.context("nothing to undo")?;
    let last = journal.records::<AppliedPolicy>(KIND)?.pop().context("nothing to undo")?;
    let path = journal.path(&last.name);
    let (mut entry, mut record) = journal.resume(last)?;
    let undo = |edit| undo_edit(system, edit).with_context(|| cannot_undo(&path));
    let edits = record.files.iter().map(undo).collect::<anyhow::Result<Vec<_>>>()?;
    if !dry_run {
        record.finished = false;
        journal.update(&mut entry, &record).context(UNWRITABLE)?;
        if let Err(error) = replace_all(system, &edits) {
            // All files have their old content; the change can be undone again.
            record.finished = true;
            journal.update(&mut entry, &record)?;
            return Err(error);
        }
        journal.remove(&entry)?;
        log(&journal, PolicyChangeKind::Undone, &record.policy, &record.path, &edits);
    }
    Ok(rollback(record, edits))
}

fn cannot_undo(record: &Path) -> String {
    format!(
        "cannot undo; restore the lines by hand from the field 'before' of {0}, then remove \
            that record (rm {0}), so that --undo reaches the older ones",
        quoted(&record.display().to_string())
    )
}

fn rollback(record: AppliedPolicy, edits: Vec<Edit>) -> ApplyPlan {
    let remarks = vec![format!(
        "this undoes '{} {}'; mounts and services are not touched",
        record.policy,
        record.path.display()
    )];
    ApplyPlan {
        mount_point: record.path,
        fs_type: String::new(),
        policy: record.policy,
        edits,
        remarks,
    }
}

/// The change that undoes an edit and keeps later edits elsewhere in the file, and those
/// of other options in a line of fstab. Fails if the changed lines were edited since.
pub fn undo_edit(system: &System, edit: &Edit) -> anyhow::Result<Edit> {
    let now = system.read(&edit.file)?;
    let after = if now == edit.after {
        edit.before.clone()
    } else {
        // A new file was created from the shipped text.
        let began = edit.before.as_deref().unwrap_or(SHIPPED);
        let changed = edit.after.as_deref().unwrap_or_default();
        let undone = now.as_deref().and_then(|now| {
            let discard = || fstab::undo_discard(began, changed, now);
            let is_fstab = edit.file == Path::new(FSTAB);
            line_undo::undo(began, changed, now).or_else(|| is_fstab.then(discard)?)
        });
        let refused =
            || format!("the changed part of {} was edited since", system.shown(&edit.file));
        Some(undone.with_context(refused)?)
    };
    Ok(Edit { file: edit.file.clone(), before: now, after })
}

/// A change or undo whose process was killed.
#[derive(Debug)]
pub struct UnfinishedChange {
    /// The rollback.
    pub plan: ApplyPlan,
    /// Files that were edited since; they stay.
    pub changed: Vec<PathBuf>,
}

/// The record of a change that a killed process left unfinished.
fn unfinished(journal: &Journal) -> io::Result<Option<(Entry, AppliedPolicy)>> {
    for stored in journal.records::<AppliedPolicy>(KIND)? {
        if !stored.content.as_ref().is_ok_and(|record| record.finished) {
            return journal.resume(stored).map(Some);
        }
    }
    Ok(None)
}

/// Rolls back an unfinished change, if there is one.
pub fn put_back_unfinished(system: &System) -> anyhow::Result<Option<UnfinishedChange>> {
    let Some(journal) = system.journal(false)? else { return Ok(None) };
    let Some((mut entry, mut record)) = unfinished(&journal)? else { return Ok(None) };
    let (mut edits, mut changed) = (Vec::new(), Vec::new());
    for edit in &record.files {
        remove_temporary(system, edit)?;
        let Edit { file, before, after } = edit;
        let now = system.read(file)?;
        if now == *after {
            edits.push(Edit { file: file.clone(), before: now, after: before.clone() });
        } else if now != *before {
            changed.push(file.clone());
        }
    }
    replace_all(system, &edits)?;
    if changed.is_empty() {
        journal.remove(&entry)?;
    } else {
        // The record has the only copies of the earlier texts.
        record.finished = true;
        journal.update(&mut entry, &record)?;
    }
    log(&journal, PolicyChangeKind::PutBack, &record.policy, &record.path, &edits);
    Ok(Some(UnfinishedChange { plan: rollback(record, edits), changed }))
}

/// Removes the temporary files that a killed process left while it made or undid an edit,
/// recognised by their names and texts.
pub fn remove_temporary(system: &System, edit: &Edit) -> anyhow::Result<()> {
    let (parent, name) = parts(&edit.file)?;
    let Some(directory) = system.directory(parent, false)? else { return Ok(()) };
    for found in directory.names()? {
        if Dir::is_temporary_name(&found, name)
            && let Ok(text) = read(&directory, &found)
            && [&edit.before, &edit.after].contains(&&Some(text))
        {
            absent(
                rustix::fs::unlinkat(&directory, &found, AtFlags::empty()).map_err(io::Error::from),
            )?;
        }
    }
    Ok(())
}

/// Reads a text file of limited size.
fn read(directory: &Dir, name: &OsStr) -> io::Result<String> {
    let mut text = String::new();
    directory.open_read(name)?.take(BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}

/// Maps a "not found" error to `None`.
fn absent<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        result => result.map(Some),
    }
}
