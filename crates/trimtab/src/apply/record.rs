//! Replaces files of the system and keeps copies, from which they are restored.
//!
//! ```text
//!     /var/lib/trimtab/applied/0001/          one directory per change; the last one is undone first
//!         record.json                         the changed files and their new text
//!         fstab, trimtab.toml                 copies of the old files
//!     /var/lib/trimtab/applied/making/        an incomplete directory: nothing was changed yet
//!     /var/lib/trimtab/applied/log            one line per change and per undo
//!     /var/lib/trimtab/applied/pending/       a change or undo in progress; the next command rolls it back
//! ```
//!
//! A directory is created as `making`, renamed to `pending` while files change, and
//! numbered at the end. A process killed at any moment leaves a directory whose name
//! tells the next command what to do.

use super::{ApplyPlan, Edit, SHIPPED, System, line_undo};
use crate::records::{RECORD, Records, VERSION, absent, numbered, read};
use anyhow::{Context as _, bail, ensure};
use rustix::fs::{AtFlags, FlockOperation, flock};
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::io::{self, Seek as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use trimtab_linux::sys::beneath::{Dir, PRIVATE_FILE};

const MAKING: &str = "making";
const PENDING: &str = "pending";
const LOG: &str = "log";
/// Mode of a new system file; a new directory on the way to it also gets search
/// permission.
const SYSTEM_FILE: u32 = 0o644;

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ApplyRecord {
    version: u32,
    policy: String,
    path: PathBuf,
    files: Vec<FileChange>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileChange {
    /// Path in the system.
    file: PathBuf,
    /// Name of the copy next to the record; `None` if the file was created.
    copy: Option<String>,
    /// The new text. The file is restored only if it still has this text.
    after: String,
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

/// Changes of policies, oldest first. Malformed lines are skipped.
pub fn events(system: &System) -> anyhow::Result<Vec<PolicyChange>> {
    let Some(directory) = system
        .directory(&system.records(), false)
        .with_context(|| format!("cannot open {}", system.shown_records()))?
    else {
        return Ok(Vec::new());
    };
    let text = absent(read(&directory, LOG))
        .with_context(|| format!("cannot read {}", directory.path().join(LOG).display()))?;
    Ok(text
        .unwrap_or_default()
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect())
}

impl Records {
    /// Opens and locks the records of `apply`. `None` if there are none, unless `make` is
    /// set.
    fn of_system(system: &System, make: bool) -> anyhow::Result<Option<Self>> {
        let Some(dir) = system
            .directory(&system.records(), make)
            .with_context(|| format!("cannot open {}", system.shown_records()))?
        else {
            return Ok(None);
        };
        flock(&dir, FlockOperation::LockExclusive)
            .with_context(|| format!("cannot lock {}", system.shown_records()))?;
        Ok(Some(Self(dir)))
    }

    /// Adds a line to the log. A failure is reported and does not undo the change.
    fn note(
        &self,
        what: PolicyChangeKind,
        policy: &str,
        path: &Path,
        files: impl Iterator<Item = PathBuf>,
    ) {
        let unix_ms = trimtab_linux::sys::clock::unix_ms();
        let event = PolicyChange {
            unix_ms,
            what,
            policy: policy.to_owned(),
            path: path.to_owned(),
            files: files.collect(),
        };
        let write = || {
            let (mut file, _) = self.0.open_or_create(LOG, PRIVATE_FILE)?;
            let end = file.seek(io::SeekFrom::End(0))?;
            let mut last = [b'\n'];
            if end > 0 {
                file.read_exact_at(&mut last, end - 1)?;
            }
            // A killed process may have left half a line.
            let lead: &[u8] = if last == *b"\n" { b"" } else { b"\n" };
            file.write_all(&[lead, &serde_json::to_vec(&event)?, b"\n"].concat())?;
            file.sync_all()
        };
        if let Err(error) = write() {
            trimtab_linux::output::complain(&format!(
                "{} cannot be written: {error}",
                self.0.path().join(LOG).display()
            ));
        }
    }

    fn rename(&self, from: &str, to: &str) -> anyhow::Result<()> {
        let rename = || {
            self.0.rename(from, &self.0, to)?;
            self.0.sync()
        };
        rename().with_context(|| {
            format!("cannot rename {} to {to}", self.0.path().join(from).display())
        })
    }
}

/// Makes the planned changes. Returns the directory with the copies, or `None` if there
/// was nothing to do.
pub fn carry_out(system: &System, plan: &ApplyPlan) -> anyhow::Result<Option<PathBuf>> {
    if plan.edits.is_empty() {
        return Ok(None);
    }
    let records = Records::of_system(system, true)?
        .context("the directory of records is made where it is missing")?;
    ensure!(
        records.0.look(PENDING)?.is_none(),
        "another process was killed while it applied a policy; run the command again"
    );
    for edit in &plan.edits {
        ensure!(
            system.read(&edit.file)? == edit.before,
            "{} was changed concurrently; run the command again",
            system.shown(&edit.file)
        );
    }
    let number = numbered(records.last()? + 1);
    records.remove(MAKING)?;
    aside(&records.0, plan)?;
    records.rename(MAKING, PENDING)?;
    if let Err(error) = replace_all(system, &plan.edits) {
        // All files have their old content again.
        records.remove(PENDING)?;
        return Err(error);
    }
    records.rename(PENDING, &number)?;
    records.note(
        PolicyChangeKind::Applied,
        &plan.policy,
        &plan.mount_point,
        plan.edits.iter().map(|edit| edit.file.clone()),
    );
    Ok(Some(records.0.path().join(number)))
}

/// Writes copies of all files to disk.
fn aside(records: &Dir, plan: &ApplyPlan) -> anyhow::Result<()> {
    let directory = records
        .mkdir(MAKING)
        .with_context(|| format!("cannot make {}", records.path().join(MAKING).display()))?;
    let mut files = Vec::new();
    for edit in &plan.edits {
        let name = edit
            .file
            .file_name()
            .and_then(|n| n.to_str())
            .context("a file without a name")?
            .to_owned();
        let copy = match &edit.before {
            Some(before) => {
                durable(&directory, &name, before.as_bytes())?;
                Some(name)
            }
            None => None,
        };
        files.push(FileChange {
            file: edit.file.clone(),
            copy,
            after: edit.after.clone().unwrap_or_default(),
        });
    }
    let record = ApplyRecord {
        version: VERSION,
        policy: plan.policy.clone(),
        path: plan.mount_point.clone(),
        files,
    };
    durable(&directory, RECORD, &serde_json::to_vec_pretty(&record)?)?;
    directory.sync().with_context(|| format!("cannot write {}", directory.path().display()))
}

fn durable(directory: &Dir, name: &str, bytes: &[u8]) -> anyhow::Result<()> {
    let write = || {
        let mut file = directory.create_new(name, PRIVATE_FILE)?;
        file.write_all(bytes)?;
        file.sync_all()
    };
    write().with_context(|| format!("cannot write {}", directory.path().join(name).display()))
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
    let Some(records) = Records::of_system(system, false)? else {
        bail!("nothing has been applied ({} does not exist)", system.shown_records());
    };
    let Some(number) = records.numbers()?.last().copied() else { bail!("nothing to undo") };
    take_back(system, &records, number, dry_run)
}

/// Number of the next change.
pub fn next_number(system: &System) -> anyhow::Result<u32> {
    Ok(Records::of_system(system, false)?.map_or(Ok(0), |records| records.last())? + 1)
}

/// Undoes the change with this number, or with `dry_run` only checks that it can be
/// undone. `None` if it does not exist.
pub fn undo_one(system: &System, number: u32, dry_run: bool) -> anyhow::Result<Option<ApplyPlan>> {
    let Some(records) = Records::of_system(system, false)? else { return Ok(None) };
    if !records.numbers()?.contains(&number) {
        return Ok(None);
    }
    take_back(system, &records, number, dry_run).map(Some)
}

fn take_back(
    system: &System,
    records: &Records,
    number: u32,
    dry_run: bool,
) -> anyhow::Result<ApplyPlan> {
    let name = numbered(number);
    let directory = records
        .0
        .open_dir(&name)
        .with_context(|| format!("cannot open {}", records.0.path().join(&name).display()))?;
    let missing = || format!("{} has no {RECORD}", directory.path().display());
    let record: ApplyRecord =
        records.read(&name, |record: &ApplyRecord| record.version)?.with_context(missing)?;
    let edits = record
        .files
        .iter()
        .map(|changed| back(system, &directory, changed))
        .collect::<anyhow::Result<Vec<_>>>()?;
    if !dry_run {
        records.rename(&name, PENDING)?;
        if let Err(error) = replace_all(system, &edits) {
            // All files have their old content; the change can be undone again.
            records.rename(PENDING, &name)?;
            return Err(error);
        }
        records.remove(PENDING)?;
        records.note(
            PolicyChangeKind::Undone,
            &record.policy,
            &record.path,
            edits.iter().map(|edit| edit.file.clone()),
        );
    }
    Ok(taken_back(record, edits))
}

fn taken_back(record: ApplyRecord, edits: Vec<Edit>) -> ApplyPlan {
    let remarks = vec![format!(
        "restores the files from before '{} {}'; mounts and services are not touched",
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

/// The earlier text of a changed file.
fn before(directory: &Dir, changed: &FileChange) -> anyhow::Result<Option<String>> {
    let Some(name) = &changed.copy else { return Ok(None) };
    read(directory, name)
        .map(Some)
        .with_context(|| format!("cannot read {}", directory.path().join(name).display()))
}

fn back(system: &System, directory: &Dir, changed: &FileChange) -> anyhow::Result<Edit> {
    let now = system.read(&changed.file)?;
    let before = before(directory, changed)?;
    if now.as_ref() == Some(&changed.after) {
        return Ok(Edit { file: changed.file.clone(), before: now, after: before });
    }
    // A new file was created from the shipped text.
    let began = before.as_deref().unwrap_or(SHIPPED);
    let after = now.as_deref().and_then(|now| line_undo::undo(began, &changed.after, now));
    let after = after.with_context(|| {
        let kept = directory.path().display();
        format!(
            "the changed part of {} was edited since; the earlier file is kept in {kept}",
            system.shown(&changed.file)
        )
    })?;
    Ok(Edit { file: changed.file.clone(), before: now, after: Some(after) })
}

/// A change or undo whose process was killed.
#[derive(Debug)]
pub struct UnfinishedChange {
    /// The rollback.
    pub plan: ApplyPlan,
    /// Files that were edited since; they stay.
    pub changed: Vec<PathBuf>,
}

/// Rolls back an unfinished change, if there is one.
pub fn put_back_unfinished(system: &System) -> anyhow::Result<Option<UnfinishedChange>> {
    let Some(records) = Records::of_system(system, false)? else { return Ok(None) };
    records.remove(MAKING)?;
    let Some(directory) = absent(records.0.open_dir(PENDING))
        .with_context(|| format!("cannot open {}", system.shown_records()))?
    else {
        return Ok(None);
    };
    let Some(record) = records.read(PENDING, |record: &ApplyRecord| record.version)? else {
        // Everything is restored; only the directory remained.
        records.remove(PENDING)?;
        return Ok(None);
    };
    let (mut edits, mut changed) = (Vec::new(), Vec::new());
    for file in &record.files {
        let (now, before) = (system.read(&file.file)?, before(&directory, file)?);
        remove_temporary(system, &file.file, &[Some(file.after.as_str()), before.as_deref()])?;
        if now == before {
            continue;
        } else if now.as_ref() == Some(&file.after) {
            edits.push(Edit { file: file.file.clone(), before: now, after: before });
        } else {
            changed.push(file.file.clone());
        }
    }
    replace_all(system, &edits)?;
    if changed.is_empty() {
        records.remove(PENDING)?;
    } else {
        // These copies are the only ones.
        let number = numbered(records.last()? + 1);
        records.rename(PENDING, &number)?;
    }
    records.note(
        PolicyChangeKind::PutBack,
        &record.policy,
        &record.path,
        edits.iter().map(|edit| edit.file.clone()),
    );
    Ok(Some(UnfinishedChange { plan: taken_back(record, edits), changed }))
}

/// Removes temporary files of a killed process for `file`: recognised by name and by one
/// of these texts.
fn remove_temporary(system: &System, file: &Path, texts: &[Option<&str>]) -> anyhow::Result<()> {
    let (parent, name) = parts(file)?;
    let Some(directory) = system.directory(parent, false)? else { return Ok(()) };
    for found in directory.names()? {
        if Dir::is_temporary_name(&found, name)
            && let Ok(text) = found
                .to_str()
                .map_or(Err(io::ErrorKind::InvalidData.into()), |found| read(&directory, found))
            && texts.contains(&Some(&*text))
        {
            absent(
                rustix::fs::unlinkat(&directory, &found, AtFlags::empty()).map_err(io::Error::from),
            )?;
        }
    }
    Ok(())
}
