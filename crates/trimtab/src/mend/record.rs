//! Records changes before they are made.
//!
//! ```text
//!     /var/lib/trimtab/mended/0001/record.json   one run: its steps, their objects, and
//!                                                which are known to be done
//!     /var/lib/trimtab/mended/files/             copies of replaced system files
//!                                                ([`crate::apply`])
//! ```
//!
//! The directory belongs to root alone. A process that applies or undoes changes locks
//! it, so only one runs at a time. A step recorded but not marked as done was in progress
//! when its process was killed; the state of the machine shows whether it took effect.

use super::look::Machine;
use super::setting_state::SettingState;
use super::{is_absent, perform, revert, words};
use crate::apply::{self, System};
use crate::records::{RECORD, Records, VERSION, numbered};
use anyhow::{Context as _, bail};
use rustix::fs::{FlockOperation, flock};
use rustix::io::{Errno, FdFlags};
use serde::{Deserialize, Serialize};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;
use trimtab_linux::doctor::RemedyAction;
use trimtab_linux::host::processes::boot_id;
use trimtab_linux::sys::beneath::{Dir, PRIVATE_FILE};
use trimtab_linux::trim::resume::state_directory;

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct MendRecord {
    version: u32,
    /// The changed mount point or device.
    subject: String,
    /// Time of the change, in milliseconds since 1970 UTC.
    unix_ms: u64,
    steps: Vec<MendStep>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct MendStep {
    action: RemedyAction,
    /// Boot ID at the time of the change.
    boot: String,
    /// Identifies the object, as opposed to a later one of the same name; empty if it has
    /// no identity.
    identity: String,
    /// Number of the stored copy of the replaced file.
    files: Option<u32>,
    /// Known to be done.
    done: bool,
    /// Undo has begun.
    #[serde(default)]
    taking_back: bool,
}

/// Number of attempts to take a lock, with this pause after each failed one.
const LOCK_TRIES: u32 = 10;
const LOCK_PAUSE: Duration = Duration::from_millis(50);

fn place() -> PathBuf {
    let state = state_directory();
    std::path::absolute(&state).unwrap_or(state).join("mended")
}

impl Records {
    /// Opens the records without a lock. `None` if no record exists and `make` is false.
    fn of_mendings(make: bool) -> anyhow::Result<Option<Self>> {
        let place = place();
        let opened = Dir::guarded(&place, make).and_then(|dir| dir.require_private().map(|()| dir));
        let dir = match opened {
            Err(error) if !make && is_absent(&error) => return Ok(None),
            opened => opened.with_context(|| format!("cannot open {}", place.display()))?,
        };
        Ok(Some(Self(dir)))
    }

    /// Opens and locks the records. Retries, since a reader holds the lock only briefly.
    fn locked(make: bool) -> anyhow::Result<Option<Self>> {
        let Some(records) = Self::of_mendings(make)? else { return Ok(None) };
        for patience in (0..LOCK_TRIES).rev() {
            match records.lock() {
                Ok(()) => return Ok(Some(records)),
                Err(Errno::WOULDBLOCK) if patience > 0 => std::thread::sleep(LOCK_PAUSE),
                Err(Errno::WOULDBLOCK) => break,
                Err(errno) => {
                    return Err(io::Error::from(errno))
                        .with_context(|| format!("cannot lock {}", records.0.path().display()));
                }
            }
        }
        bail!(
            "another process of trimtab, or a program that one has started, is \
                mending or undoing: wait for it"
        )
    }

    fn try_lock(&self) -> Result<(), Errno> {
        flock(&self.0, FlockOperation::NonBlockingLockExclusive)
    }

    /// Locks for this process and its child programs: a child waiting for a passphrase
    /// may outlive its killed parent and still change something.
    fn lock(&self) -> Result<(), Errno> {
        self.try_lock()?;
        rustix::io::fcntl_setfd(&self.0, FdFlags::empty())
    }

    fn write(&self, number: u32, record: &MendRecord) -> anyhow::Result<()> {
        let name = numbered(number);
        let write = || {
            let dir = match self.0.open_dir(&name) {
                Err(error) if is_absent(&error) => self.0.mkdir(&name)?,
                opened => opened?,
            };
            let text = serde_json::to_vec_pretty(record)?;
            dir.write_atomically(RECORD, PRIVATE_FILE, |file| file.write_all(&text))?;
            self.0.sync()
        };
        io::Result::Ok(())
            .and_then(|()| write())
            .with_context(|| format!("cannot write {}", self.0.path().join(&name).display()))
    }
}

/// One run of changes, recorded from its first step on.
pub struct MendRun {
    records: Records,
    number: u32,
    record: MendRecord,
}

impl MendRun {
    /// Begins a run for this mount point or device; fails if another run is active.
    /// Writes nothing before the first step.
    pub fn begin(subject: &str) -> anyhow::Result<Self> {
        let records = Records::locked(true)?
            .context("the directory of records is made where it is missing")?;
        let number = records.last()? + 1;
        // Restore files that a killed process was replacing.
        apply::put_back_unfinished(&System::mended()?)?;
        let record = MendRecord {
            version: VERSION,
            subject: subject.to_owned(),
            unix_ms: trimtab_linux::sys::clock::unix_ms(),
            steps: Vec::new(),
        };
        Ok(Self { records, number, record })
    }

    /// Records the step, performs it, and marks it as done. A step that fails without a
    /// change leaves no record.
    pub fn step(&mut self, action: &RemedyAction, say: &dyn Fn(&str)) -> anyhow::Result<()> {
        let machine = Machine::read()?;
        let files = words::subject_of_file(action)
            .map(|_| apply::next_number(&System::mended()?))
            .transpose()?;
        let identity = machine.identity(action);
        let boot = boot_id();
        self.record.steps.push(MendStep {
            action: action.clone(),
            boot,
            identity,
            files,
            done: false,
            taking_back: false,
        });
        self.records.write(self.number, &self.record)?;
        let outcome = perform(action, say);
        let last = self.record.steps.last_mut().context("the step was noted")?;
        match outcome {
            Ok(done) => {
                *last = MendStep { action: done, done: true, ..last.clone() };
                self.records.write(self.number, &self.record)
            }
            Err(error) => {
                let seen = Machine::read()?.look(action);
                if matches!(seen, SettingState::Before | SettingState::Gone) {
                    self.record.steps.pop();
                    self.forget_last()?;
                }
                Err(error)
            }
        }
    }

    fn forget_last(&self) -> anyhow::Result<()> {
        match self.record.steps.is_empty() {
            true => self.records.remove(&numbered(self.number)),
            false => self.records.write(self.number, &self.record),
        }
    }
}

/// Result of undoing the last run.
#[derive(Debug)]
pub struct MendUndo {
    /// The mount point or device of that run.
    pub subject: String,
    /// One line per step, last step first.
    pub lines: Vec<String>,
}

/// Undoes the last run, last step first; reverts only settings that still have the value
/// they were given. With `dry_run`, only describes the steps.
pub fn take_back(dry_run: bool, say: &dyn Fn(&str)) -> anyhow::Result<MendUndo> {
    let records = Records::locked(false)?.context("nothing has been mended")?;
    let (number, mut record) = loop {
        let number = records
            .numbers()?
            .last()
            .copied()
            .context("nothing to undo: nothing has been mended, or all of it is undone")?;
        match records.read(&numbered(number), |record: &MendRecord| record.version)? {
            Some(record) => break (number, record),
            None => records.remove(&numbered(number))?,
        }
    };
    if !dry_run {
        apply::put_back_unfinished(&System::mended()?)?;
    }
    let mut lines = Vec::new();
    for (index, step) in record.steps.clone().into_iter().enumerate().rev() {
        trimtab_linux::sys::interrupt::check()?;
        let begin = || {
            record.steps[index].taking_back = true;
            records.write(number, &record)
        };
        lines.push(take_back_step(&step, dry_run, begin, say)?);
        if !dry_run {
            record.steps.pop();
            records.write(number, &record)?;
        }
    }
    if !dry_run {
        records.remove(&numbered(number))?;
    }
    Ok(MendUndo { subject: record.subject, lines })
}

/// Undoes a step and returns a description of the result. `begin` records the start.
fn take_back_step(
    step: &MendStep,
    dry_run: bool,
    begin: impl FnOnce() -> anyhow::Result<()>,
    say: &dyn Fn(&str),
) -> anyhow::Result<String> {
    let what = words::told(&step.action).does;
    let machine = Machine::read()?;
    if let Some(why) = why_not(step, &machine) {
        return Ok(format!("{what}: {why}"));
    }
    if dry_run {
        return Ok(format!("{what}: would be undone"));
    }
    begin()?;
    revert(&step.action, step.files, say).with_context(|| format!("cannot undo: {what}"))?;
    match Machine::read()?.look(&step.action) {
        SettingState::Set => bail!("cannot undo: {what}: the machine shows nothing of it"),
        _ => Ok(format!("{what}: undone")),
    }
}

/// The reason for not undoing a step, if any.
fn why_not(step: &MendStep, machine: &Machine) -> Option<String> {
    if !words::can_be_taken_back(&step.action) {
        return Some("nothing to undo, since only limits were worked out again".to_owned());
    }
    // For other actions, the state of the machine shows whether they still apply.
    let of_this_boot =
        matches!(step.action, RemedyAction::Attribute { .. } | RemedyAction::Provisioning { .. });
    if of_this_boot && step.boot != boot_id() {
        return Some("the machine was started since, which took it back".to_owned());
    }
    if let Some(number) = step.files {
        return why_not_file(&step.action, number);
    }
    let identity = machine.identity(&step.action);
    let seen = machine.look(&step.action);
    match seen {
        SettingState::Gone => Some("it is not there any more".to_owned()),
        SettingState::Before => Some("it is as it was before".to_owned()),
        SettingState::Other(what) => {
            Some(format!("it stays as it is, because it was changed since: {what}"))
        }
        SettingState::Set if identity != step.identity => {
            Some("there is another one of that name now, which stays as it is".to_owned())
        }
        SettingState::Set => None,
    }
}

/// The reason for not restoring a file. A file is restored completely or not at all.
fn why_not_file(action: &RemedyAction, number: u32) -> Option<String> {
    let look = || apply::undo_one(&System::mended()?, number, true);
    match look() {
        Ok(Some(plan)) => not_ours(action, &plan.mount_point),
        Ok(None) => Some("nothing was changed".to_owned()),
        Err(error) => Some(format!("it stays as it is: {error:#}")),
    }
}

/// Numbers are reused: a step recorded but never performed may find the copy of another
/// step's file under its number.
fn not_ours(action: &RemedyAction, kept: &Path) -> Option<String> {
    (words::subject_of_file(action) != Some(kept)).then(|| "nothing was changed".to_owned())
}

/// Describes the unfinished changes of killed processes; empty if the caller may not read
/// the records.
pub fn unfinished() -> Vec<String> {
    let look = || -> anyhow::Result<Vec<String>> {
        // A live process holds the lock.
        let Some(records) =
            Records::of_mendings(false)?.filter(|records| records.try_lock().is_ok())
        else {
            return Ok(Vec::new());
        };
        let mut all = Vec::new();
        for number in records.numbers()? {
            let Some(record) =
                records.read(&numbered(number), |record: &MendRecord| record.version)?
            else {
                continue;
            };
            all.extend(record.steps.iter().filter(|step| !step.done).map(|step| {
                let what = words::told(&step.action).does;
                format!(
                    "mending {} was killed at: {what}; trimtab doctor --undo undoes what \
                    it has done",
                    record.subject
                )
            }));
        }
        Ok(all)
    };
    look().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(action: RemedyAction) -> MendStep {
        MendStep {
            action,
            boot: boot_id(),
            identity: String::new(),
            files: None,
            done: true,
            taking_back: false,
        }
    }

    #[test]
    fn undo_refuses_values_changed_since_the_fix() {
        let machine = Machine::read().unwrap();
        // An attribute that exists on every machine and that no test changes.
        let file: PathBuf = "/sys/kernel/mm/transparent_hugepage/hpage_pmd_size".into();
        let Some(now) = machine.root.read(&file) else { return };
        let switch = |from: &str, to: &str| {
            step(RemedyAction::Attribute { file: file.clone(), from: from.into(), to: to.into() })
        };
        assert_eq!(why_not(&switch("0", &now), &machine), None);
        assert!(why_not(&switch(&now, "0"), &machine).unwrap().contains("as it was before"));
        assert!(why_not(&switch("0", "1"), &machine).unwrap().contains("was changed since"));
        let earlier = MendStep { boot: "another".into(), ..switch("0", &now) };
        assert!(why_not(&earlier, &machine).unwrap().contains("started since"));
        let another = MendStep { identity: "another".into(), ..switch("0", &now) };
        assert!(why_not(&another, &machine).unwrap().contains("another one of that name"));
        let gone = step(RemedyAction::Attribute {
            file: "/sys/no-such/discard_max_bytes".into(),
            from: "0".into(),
            to: "1".into(),
        });
        assert!(why_not(&gone, &machine).unwrap().contains("not there any more"));
        assert!(
            why_not(&step(RemedyAction::ReloadTable { name: "x".into() }), &machine)
                .unwrap()
                .contains("nothing to undo")
        );
    }

    #[test]
    fn file_changed_by_other_step_is_not_restored() {
        let home = RemedyAction::Crypttab { name: "home".into() };
        assert_eq!(not_ours(&home, Path::new("home")), None);
        assert!(not_ours(&home, Path::new("other")).is_some());
        assert!(not_ours(&RemedyAction::Timer, Path::new("home")).is_some());
    }

    #[test]
    fn records_stay_locked_while_a_child_runs() {
        let place = tempfile::tempdir().unwrap();
        let open = || Records(Dir::guarded(place.path(), false).unwrap());
        let records = open();
        records.lock().unwrap();
        let mut orphan = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        drop(records);
        assert_eq!(open().try_lock(), Err(Errno::WOULDBLOCK));
        orphan.kill().unwrap();
        orphan.wait().unwrap();
        assert_eq!(open().try_lock(), Ok(()));
    }

    #[test]
    fn revert_refuses_an_unknown_attribute() {
        let any = RemedyAction::Attribute {
            file: "/sys/kernel/mm/transparent_hugepage/enabled".into(),
            from: "x".into(),
            to: "never".into(),
        };
        let error = revert(&any, None, &|_| {}).unwrap_err();
        assert!(error.to_string().contains("nothing that is ever set here"), "{error}");
    }

    #[test]
    fn mend_record_round_trips_through_json() {
        let steps = vec![
            step(RemedyAction::Timer),
            step(RemedyAction::AllowDiscards {
                name: "home".into(),
                persistent: true,
                keep: Vec::new(),
            }),
        ];
        let record = MendRecord { version: VERSION, subject: "/home".into(), unix_ms: 1, steps };
        let text = serde_json::to_string(&record).unwrap();
        assert_eq!(serde_json::from_str::<MendRecord>(&text).unwrap().steps, record.steps);
        assert!(
            serde_json::from_str::<MendRecord>(&text.replace("allow-discards", "anything"))
                .is_err()
        );
    }
}
