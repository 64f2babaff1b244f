//! Records changes in the journal before they are made
//! ([`trimtab_linux::session::journal`]): one record for a run, with its steps, their
//! objects, and which are known to be done.
//!
//! A process that applies or undoes changes locks the record, so only one runs at a time.
//! A step recorded but not marked as done was in progress when its process was killed;
//! the state of the machine shows whether it took effect.

use super::look::{self, Machine, SettingState};
use super::{perform, revert, words};
use crate::apply::{self, Edit, System};
use anyhow::{Context as _, bail, ensure};
use serde::{Deserialize, Serialize};
use trimtab_linux::doctor::RemedyAction;
use trimtab_linux::host::processes::boot_id;
use trimtab_linux::session::journal::{Entry, Journal, Stored};
use trimtab_linux::trim::resume::state_directory;

/// Kind of the records in the journal.
const KIND: &str = "doctor";

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct MendRecord {
    /// The changed mount point or device.
    subject: String,
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
    /// The edit of a system file, if the action makes one.
    file: Option<Edit>,
    /// Known to be done.
    done: bool,
}

fn journal(make: bool) -> anyhow::Result<Option<Journal>> {
    let place = Journal::place(&state_directory());
    Journal::open(&place, make).with_context(|| format!("cannot open {}", place.display()))
}

/// The records of all runs. Fails while another process changes or undoes something.
fn records(journal: &Journal) -> anyhow::Result<Vec<Stored<MendRecord>>> {
    let records = journal.records(KIND).context("cannot read the journal")?;
    ensure!(
        records.iter().all(|record| !record.alive),
        "another process of trimtab, or a program that one has started, is mending or \
            undoing: wait for it"
    );
    Ok(records)
}

/// One run of changes, recorded from its first step on.
pub struct MendRun {
    entry: Option<Entry>,
    record: MendRecord,
}

impl MendRun {
    /// Begins a run for this mount point or device; fails if another run is active.
    /// Writes nothing before the first step.
    pub fn begin(subject: &str) -> anyhow::Result<Self> {
        let journal = journal(true)?.context("the journal is made where it is missing")?;
        records(&journal)?;
        let record = MendRecord { subject: subject.to_owned(), steps: Vec::new() };
        Ok(Self { entry: None, record })
    }

    /// Records the step, performs it, and marks it as done. A step that fails without a
    /// change leaves no record.
    pub fn step(&mut self, action: &RemedyAction, say: &dyn Fn(&str)) -> anyhow::Result<()> {
        let (machine, file) = (Machine::read()?, look::edit(action)?);
        self.record.steps.push(MendStep {
            action: action.clone(),
            boot: boot_id(),
            identity: machine.identity(action),
            file: file.clone(),
            done: false,
        });
        self.write()?;
        let outcome = perform(action, file.as_ref(), say);
        let last = self.record.steps.last_mut().context("the step was noted")?;
        match outcome {
            Ok(done) => {
                *last = MendStep { action: done, done: true, ..last.clone() };
                self.write()
            }
            Err(error) => {
                let seen = Machine::read()?.look(action);
                if matches!(seen, SettingState::Before | SettingState::Gone) {
                    self.record.steps.pop();
                    self.write()?;
                }
                Err(error)
            }
        }
    }

    /// Writes the record, or removes it if it has no steps. Programs that this process
    /// starts hold its lock, too.
    fn write(&mut self) -> anyhow::Result<()> {
        const UNWRITABLE: &str = "cannot write to the journal";
        match &mut self.entry {
            Some(entry) if self.record.steps.is_empty() => {
                let removed = entry.journal().and_then(|journal| journal.remove(entry));
                removed.context("cannot remove a record of the journal")?;
                self.entry = None;
                return Ok(());
            }
            Some(entry) => entry.update(&self.record).context(UNWRITABLE)?,
            none => {
                let journal = journal(true)?.context("the journal is made where it is missing")?;
                records(&journal)?;
                let name = journal.next_name(KIND).context("cannot read the journal")?;
                *none = Some(journal.create(&name, &self.record).context(UNWRITABLE)?);
            }
        }
        Ok(self.entry.as_ref().map_or(Ok(()), Entry::share_lock)?)
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
    const NOTHING: &str = "nothing to undo: --fix has changed nothing, or all of it is undone";
    let journal = journal(false)?.context(NOTHING)?;
    let last = records(&journal)?.pop().context(NOTHING)?;
    let (entry, record) = journal.resume(last)?;
    // Programs may wait for a passphrase; only the record stays locked.
    drop(journal);
    let mut run = MendRun { entry: Some(entry), record };
    let mut lines = Vec::new();
    for step in run.record.steps.clone().into_iter().rev() {
        trimtab_linux::sys::interrupt::check()?;
        run.entry.as_ref().map_or(Ok(()), Entry::share_lock)?;
        lines.push(take_back_step(&step, dry_run, say)?);
        if !dry_run {
            run.record.steps.pop();
            run.write()?;
        }
    }
    Ok(MendUndo { subject: run.record.subject, lines })
}

/// Undoes a step and returns a description of the result.
fn take_back_step(step: &MendStep, dry_run: bool, say: &dyn Fn(&str)) -> anyhow::Result<String> {
    let what = words::told(&step.action).does;
    let machine = Machine::read()?;
    if let Some(why) = why_not(step, &machine) {
        return Ok(format!("{what}: {why}"));
    }
    if dry_run {
        return Ok(format!("{what}: would be undone"));
    }
    revert(&step.action, step.file.as_ref(), say)
        .with_context(|| format!("cannot undo: {what}"))?;
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
    if let RemedyAction::Crypttab { .. } = step.action {
        return why_not_file(step.file.as_ref());
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
fn why_not_file(edit: Option<&Edit>) -> Option<String> {
    let Some(edit) = edit else { return Some("nothing was changed".to_owned()) };
    match System::new(None, None).map_err(Into::into).and_then(|s| apply::undo_edit(&s, edit)) {
        Ok(undo) if undo.before == undo.after => Some("it is as it was before".to_owned()),
        Ok(_) => None,
        Err(error) => Some(format!("it stays as it is: {error:#}")),
    }
}

/// Describes the unfinished changes of killed processes; empty if the caller may not read
/// the records.
pub fn unfinished() -> Vec<String> {
    let look = || -> anyhow::Result<Vec<String>> {
        let Some(journal) = journal(false)? else { return Ok(Vec::new()) };
        let records = journal.records::<MendRecord>(KIND)?.into_iter();
        let left = records.filter(|record| !record.alive).filter_map(|record| record.content.ok());
        let one = |record: MendRecord| {
            let unfinished = record.steps.into_iter().filter(|step| !step.done);
            unfinished.map(move |step| {
                let what = words::told(&step.action).does;
                format!(
                    "mending {} was killed at: {what}; trimtab doctor --undo undoes what \
                    it has done",
                    record.subject
                )
            })
        };
        Ok(left.flat_map(one).collect())
    };
    look().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(action: RemedyAction) -> MendStep {
        MendStep { action, boot: boot_id(), identity: String::new(), file: None, done: true }
    }

    #[test]
    fn undo_refuses_values_changed_since_the_fix() {
        let machine = Machine::read().unwrap();
        // An attribute that exists on every machine and that no test changes.
        let file: std::path::PathBuf = "/sys/kernel/mm/transparent_hugepage/hpage_pmd_size".into();
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
        let record = MendRecord { subject: "/home".into(), steps };
        let text = serde_json::to_string(&record).unwrap();
        assert_eq!(serde_json::from_str::<MendRecord>(&text).unwrap().steps, record.steps);
        assert!(
            serde_json::from_str::<MendRecord>(&text.replace("allow-discards", "anything"))
                .is_err()
        );
    }
}
