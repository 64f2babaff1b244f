//! Files replaced, with copies put aside, and put back.
//!
//! ```text
//!     /var/lib/trimtab/applied/0001/          one directory each time, the last one is undone first
//!         record.json                         which files, what they became
//!         fstab, trimtab.toml                 what they were
//! ```

use super::{Edit, Plan, System};
use anyhow::{Context as _, bail, ensure};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

const VERSION: u32 = 1;

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    version: u32,
    policy: String,
    path: PathBuf,
    files: Vec<Changed>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Changed {
    /// In the system.
    file: PathBuf,
    /// Name of the copy beside the record; none if the file was made.
    copy: Option<String>,
    /// What it became: it is put back only if it is still that.
    after: String,
}

/// Writes what was planned. Gives the directory with the copies; `None` if there was nothing to do.
pub fn carry_out(system: &System, plan: &Plan) -> anyhow::Result<Option<PathBuf>> {
    if plan.edits.is_empty() {
        return Ok(None);
    }
    let records = system.records();
    let _lock = lock(&records)?;
    let number = numbers(&records)?.last().copied().unwrap_or(0) + 1;
    let directory = records.join(format!("{number:04}"));
    fs::create_dir(&directory).with_context(|| format!("cannot make {}", directory.display()))?;
    let written = aside(&directory, plan).and_then(|()| replace_all(system, &plan.edits));
    if written.is_err() {
        // All files are as they were.
        let _ = fs::remove_dir_all(&directory);
    }
    written.map(|()| Some(directory))
}

/// Puts copies of all files aside, on the disk.
fn aside(directory: &Path, plan: &Plan) -> anyhow::Result<()> {
    let mut files = Vec::new();
    for edit in &plan.edits {
        let name = edit.file.file_name().and_then(|n| n.to_str()).context("a file without a name")?.to_owned();
        let copy = match &edit.before {
            Some(before) => {
                let path = directory.join(&name);
                durable(&path, before.as_bytes()).with_context(|| format!("cannot write {}", path.display()))?;
                Some(name)
            }
            None => None,
        };
        files.push(Changed { file: edit.file.clone(), copy, after: edit.after.clone().unwrap_or_default() });
    }
    let record = Record { version: VERSION, policy: plan.policy.clone(), path: plan.mount_point.clone(), files };
    let path = directory.join("record.json");
    durable(&path, &serde_json::to_vec_pretty(&record)?).with_context(|| format!("cannot write {}", path.display()))
}

fn durable(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create_new(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Replaces the files; if one cannot be replaced those before it are put back.
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
    let path = system.outside(file)?;
    write(&path, text).with_context(|| format!("cannot write {}", path.display()))
}

fn write(path: &Path, text: Option<&str>) -> io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("/"));
    let Some(text) = text else { return fs::remove_file(path) };
    fs::create_dir_all(directory)?;
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    file.write_all(text.as_bytes())?;
    match fs::symlink_metadata(path) {
        Ok(old) => {
            std::os::unix::fs::fchown(file.as_file(), Some(old.uid()), Some(old.gid()))?;
            file.as_file().set_permissions(fs::Permissions::from_mode(old.mode() & 0o7777))?;
        }
        Err(_) => file.as_file().set_permissions(fs::Permissions::from_mode(0o644))?,
    }
    file.as_file().sync_all()?;
    file.persist(path)?;
    File::open(directory)?.sync_all()
}

/// What the last `apply` did, as edits that take it back. Done, unless `dry_run`.
pub fn undo(system: &System, dry_run: bool) -> anyhow::Result<Plan> {
    let records = system.records();
    ensure!(records.is_dir(), "nothing has been applied (there is no {})", records.display());
    let _lock = lock(&records)?;
    let Some(number) = numbers(&records)?.last().copied() else { bail!("nothing has been applied that is not undone yet") };
    let directory = records.join(format!("{number:04}"));
    let broken = || format!("{} cannot be used", directory.join("record.json").display());
    let record: Record = serde_json::from_slice(&fs::read(directory.join("record.json")).with_context(broken)?).with_context(broken)?;
    ensure!(record.version == VERSION, "{}: version {} is of a newer trimtab", broken(), record.version);
    let edits = record.files.iter().map(|changed| back(system, &directory, changed)).collect::<anyhow::Result<Vec<_>>>()?;
    if !dry_run {
        replace_all(system, &edits)?;
        fs::remove_dir_all(&directory).with_context(|| format!("cannot remove {}", directory.display()))?;
    }
    let remarks =
        vec![format!("what it was before '{} {}' was applied; mounts and services are not touched", record.policy, record.path.display())];
    Ok(Plan { mount_point: record.path, fs_type: String::new(), policy: record.policy, edits, remarks })
}

fn back(system: &System, directory: &Path, changed: &Changed) -> anyhow::Result<Edit> {
    let now = system.read(&changed.file)?;
    if now.as_ref() != Some(&changed.after) {
        bail!("{} has been changed since; what it was before is kept in {}", changed.file.display(), directory.display());
    }
    let before = match &changed.copy {
        Some(name) => {
            // Only a name in this directory.
            ensure!(!name.contains('/') && name != "..", "{} is not the name of a copy", name);
            let path = directory.join(name);
            Some(fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?)
        }
        None => None,
    };
    Ok(Edit { file: changed.file.clone(), before: now, after: before })
}

/// One at a time.
fn lock(records: &Path) -> anyhow::Result<File> {
    fs::create_dir_all(records).with_context(|| format!("cannot make {}", records.display()))?;
    let directory = File::open(records).with_context(|| format!("cannot open {}", records.display()))?;
    flock(&directory, FlockOperation::LockExclusive).with_context(|| format!("cannot lock {}", records.display()))?;
    Ok(directory)
}

fn numbers(records: &Path) -> anyhow::Result<Vec<u32>> {
    let entries = fs::read_dir(records).with_context(|| format!("cannot list {}", records.display()))?;
    let mut numbers: Vec<u32> = entries.filter_map(|e| e.ok()?.file_name().to_str()?.parse().ok()).collect();
    numbers.sort_unstable();
    Ok(numbers)
}
