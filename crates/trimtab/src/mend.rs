//! Applies remedies of doctor findings, one change at a time. Each change is recorded
//! durably before it is made ([`record`]). Undo runs in reverse order and reverts a
//! change only if the setting still has the value it was given.
//!
//! [`commands`] builds the program command lines, [`words`] the texts for users; [`look`]
//! reads the state of the machine. A step counts as done only once the machine shows it.

mod commands;
pub(crate) mod guided;
mod look;
pub mod program;
mod record;
mod words;

pub use record::{MendRun, MendUndo, take_back, unfinished};
pub use words::{ActionDescription, can_be_taken_back, told};

use crate::apply::{self, Edit, System};
use anyhow::{Context as _, bail, ensure};
use look::{Machine, SettingState};
use std::path::Path;
use trimtab_linux::doctor::RemedyAction;
use trimtab_linux::host::root::Root;
use trimtab_linux::sys::beneath::set_attribute;

/// The only attributes that are ever changed; a record cannot cause a write to another
/// one.
const ATTRIBUTES: [&str; 2] = ["discard_max_bytes", "provisioning_mode"];

/// Performs the action and verifies that it took effect. Returns the action with the
/// value read afterwards: the kernel may have rounded a limit. `file` is its edit of a
/// system file; `say` receives the programs' messages.
fn perform(
    action: &RemedyAction,
    file: Option<&Edit>,
    say: &dyn Fn(&str),
) -> anyhow::Result<RemedyAction> {
    let machine = Machine::read()?;
    let_alone_if_suspended(&machine, action)?;
    match action {
        RemedyAction::Attribute { file, from, to } => return set(&machine.root, file, from, to),
        RemedyAction::Provisioning { file, from, to, limit_file, limit } => {
            provision(&machine.root, file, (from, to), limit_file, *limit)?
        }
        RemedyAction::ReloadTable { name } => reload(&machine.root, name, say)?,
        RemedyAction::Crypttab { .. } => {
            file.map_or(Ok(()), |edit| apply::make_edit(&System::new(None, None)?, edit))?
        }
        RemedyAction::AllowDiscards { .. }
        | RemedyAction::RefreshCrypt { .. }
        | RemedyAction::Passdown { .. }
        | RemedyAction::Timer => {
            commands::command_lines(action)
                .iter()
                .try_for_each(|line| program::run(line, None, say))?;
        }
    }
    match Machine::read()?.look(action) {
        SettingState::Set => Ok(action.clone()),
        SettingState::Before | SettingState::Gone | SettingState::Other(_) => {
            bail!("it was done, and the machine shows nothing of it")
        }
    }
}

/// Refuses to act on a suspended volume (snapshot creation, `cryptsetup luksSuspend`):
/// another process holds it.
fn let_alone_if_suspended(machine: &Machine, action: &RemedyAction) -> anyhow::Result<()> {
    ensure!(
        !machine.is_suspended(action),
        "it is suspended at this moment, by something else: let that end first"
    );
    Ok(())
}

/// Reverts the action. The caller has checked that the setting still has the value it was
/// given.
fn revert(action: &RemedyAction, file: Option<&Edit>, say: &dyn Fn(&str)) -> anyhow::Result<()> {
    let machine = Machine::read()?;
    let_alone_if_suspended(&machine, action)?;
    match action {
        RemedyAction::Attribute { file, from, to } => drop(set(&machine.root, file, to, from)?),
        // The mode resets the limit.
        RemedyAction::Provisioning { file, from, to, .. } => {
            drop(set(&machine.root, file, to, from)?)
        }
        RemedyAction::Crypttab { .. } => {
            let edit = file.context("the record has no text of the file")?;
            let system = System::new(None, None)?;
            apply::remove_temporary(&system, edit)?;
            apply::make_edit(&system, &apply::undo_edit(&system, edit)?)?;
        }
        RemedyAction::AllowDiscards { .. }
        | RemedyAction::Passdown { .. }
        | RemedyAction::Timer => {
            commands::back(action, &machine.tables)
                .iter()
                .try_for_each(|line| program::run(line, None, say))?;
        }
        // Only limits were recomputed, so there is nothing to restore.
        RemedyAction::RefreshCrypt { .. } | RemedyAction::ReloadTable { .. } => {}
    }
    Ok(())
}

/// Sets the provisioning mode of a SCSI disk, then immediately the device's limit: the
/// kernel's default limit is longer than the device accepts.
fn provision(
    root: &Root,
    file: &Path,
    (from, to): (&str, &str),
    limit_file: &Path,
    limit: u64,
) -> anyhow::Result<()> {
    set(root, file, from, to)?;
    let limited = || {
        let own = root
            .read(limit_file)
            .with_context(|| format!("{} is not there any more", limit_file.display()))?;
        match own.parse::<u64>() {
            Ok(own) if own <= limit => Ok(()),
            _ => set(root, limit_file, &own, &limit.to_string()).map(drop),
        }
    };
    // Without the limit, long discards would fail with I/O errors.
    limited().inspect_err(|_| drop(set(root, file, to, from)))
}

/// Writes a kernel attribute whose current value must be `from`; returns the action with
/// the resulting value.
fn set(root: &Root, file: &Path, from: &str, to: &str) -> anyhow::Result<RemedyAction> {
    let shown = file.display();
    let known = file.starts_with(look::SWITCHES)
        && file.file_name().is_some_and(|name| ATTRIBUTES.iter().any(|known| name == *known));
    ensure!(known, "{shown} is nothing that is ever set here");
    let read = || root.read(file).with_context(|| format!("{shown} is not there any more"));
    let now = read()?;
    ensure!(now == from, "{shown} was {from} and is {now} now: another process has changed it");
    set_attribute(file, to).with_context(|| format!("cannot write {to} to {shown}"))?;
    let now = read()?;
    ensure!(
        now != from || from == to,
        "the kernel took {to} for {shown}, and it is {from} all the same"
    );
    Ok(RemedyAction::Attribute { file: file.to_owned(), from: from.to_owned(), to: now })
}

/// Returns whether all targets of the table can be reloaded while in use.
fn is_reloadable(table: &str) -> bool {
    let plain = |line: &str| {
        line.split_ascii_whitespace()
            .nth(2)
            .is_some_and(|kind| matches!(kind, "linear" | "striped" | "thin-pool"))
    };
    !table.is_empty() && table.lines().all(plain)
}

/// Reloads a volume's table unchanged, so that the kernel recomputes its limits.
/// With a new table, resume is one kernel call that suspends, swaps and resumes. A
/// process killed before that call leaves an inactive table.
fn reload(root: &Root, name: &str, say: &dyn Fn(&str)) -> anyhow::Result<()> {
    let dmsetup = |options: &[&str]| commands::line("dmsetup", options.to_vec(), &["--", name]);
    let load: &[&str] = match look::is_read_only(root, name) {
        true => &["reload", "--readonly"],
        false => &["reload"],
    };
    let table = program::output(&dmsetup(&["table"]))?;
    ensure!(
        is_reloadable(&table),
        "the table of {name} is not the one that it was: {}",
        table.trim()
    );
    // An inactive table belongs to another process that is about to activate it.
    let loaded = program::output(&dmsetup(&["table", "--inactive"]))?;
    ensure!(
        loaded.trim().is_empty(),
        "{name} has another table loaded that is not in force yet: let that end first"
    );
    program::run(&dmsetup(load), Some(&table), say)?;
    let swap_in = || {
        // LVM may have moved or grown the volume since the table was read.
        let now = program::output(&dmsetup(&["table"]))?;
        ensure!(now == table, "the table of {name} was changed at this moment: say it again");
        program::run(&dmsetup(&["resume"]), None, say)
    };
    swap_in().inspect_err(|_| {
        // The inactive table is harmless, but a later resume would activate it
        // unintentionally.
        let _ = program::run(&dmsetup(&["clear"]), None, say);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn provision_writes_sysfs_attributes_only() {
        let directory = tempfile::tempdir().unwrap();
        let root = Root::recorded(directory.path()).unwrap();
        let put = |path: &str, text: &str| {
            let path = directory.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        put("sys/d/provisioning_mode", "full\n");
        put("etc/provisioning_mode", "full\n");
        let (mode, limit) =
            (Path::new("/sys/d/provisioning_mode"), Path::new("/sys/d/discard_max_bytes"));
        let refused = |file: &Path, from: &str| {
            provision(&root, file, (from, "unmap"), limit, 512).unwrap_err().to_string()
        };
        assert!(
            refused(Path::new("/etc/provisioning_mode"), "full")
                .contains("is nothing that is ever set here")
        );
        assert!(refused(mode, "disabled").contains("was disabled and is full now"));
        assert_eq!(
            std::fs::read_to_string(directory.path().join("sys/d/provisioning_mode")).unwrap(),
            "full\n"
        );
    }

    #[test]
    fn reload_accepts_only_dm_tables_safe_while_in_use() {
        assert!(is_reloadable("0 8 linear 8:3 0\n8 8 linear 8:4 0\n"));
        assert!(!is_reloadable("0 8 linear 8:3 0\n8 8 snapshot 8:4 0\n"));
        assert!(!is_reloadable("\n"));
    }
}
