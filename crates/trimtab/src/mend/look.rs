//! Observed state of a change.

use crate::apply::{self, Edit, System};
use std::path::{Path, PathBuf};
use trimtab_linux::doctor::{RemedyAction, Tables, trim_units};
use trimtab_linux::host::block::mapped_by_name;
use trimtab_linux::host::root::Root;

/// State of a setting, compared with its values before and after a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingState {
    /// As before the change.
    Before,
    /// As the change made it.
    Set,
    /// Another state, described in words.
    Other(String),
    /// The object does not exist.
    Gone,
}

impl SettingState {
    /// `Set` if true, `Before` otherwise.
    pub fn set(is: bool) -> Self {
        if is { Self::Set } else { Self::Before }
    }
}

/// Directory of kernel attributes.
pub const SWITCHES: &str = "/sys";

/// Current state of the machine.
pub struct Machine {
    pub root: Root,
    pub tables: Tables,
}

impl Machine {
    pub fn read() -> anyhow::Result<Self> {
        let root = Root::live()?;
        let tables = Tables::read(&root);
        Ok(Self { root, tables })
    }

    pub fn look(&self, action: &RemedyAction) -> SettingState {
        match action {
            RemedyAction::Attribute { file, from, to } => match self.root.read(file) {
                None => SettingState::Gone,
                Some(now) if now == *to => SettingState::Set,
                Some(now) if now == *from => SettingState::Before,
                Some(now) => SettingState::Other(format!("{} is {now}", file.display())),
            },
            RemedyAction::Provisioning { file, from, to, limit_file, limit } => {
                match (self.root.read(file), self.root.read_u64(limit_file)) {
                    (Some(mode), Some(now)) if mode == *to && (1..=*limit).contains(&now) => {
                        SettingState::Set
                    }
                    (Some(mode), Some(_)) if mode == *from => SettingState::Before,
                    (Some(mode), Some(now)) => SettingState::Other(format!(
                        "{} is {mode}, with discards of up to {now} B",
                        file.display()
                    )),
                    _ => SettingState::Gone,
                }
            }
            RemedyAction::AllowDiscards { name, .. } => {
                self.table(name, |says| says("allow_discards"))
            }
            RemedyAction::Passdown { name, .. } => {
                self.table(name, |says| !says("no_discard_passdown") && !says("ignore_discard"))
            }
            // A pool's status shows more than its limits.
            RemedyAction::ReloadTable { name }
                if self.tables.table(name).any(|target| target.kind == "thin-pool") =>
            {
                SettingState::set(
                    self.tables.status(name).any(|target| target.says("discard_passdown")),
                )
            }
            RemedyAction::RefreshCrypt { name, .. } | RemedyAction::ReloadTable { name } => {
                match mapped_by_name(&self.root, name) {
                    Some(sys) => SettingState::set(
                        self.root.read_u64(sys.join("queue/discard_max_bytes")).unwrap_or(0) > 0,
                    ),
                    None => SettingState::Gone,
                }
            }
            RemedyAction::Crypttab { .. } => file(action),
            RemedyAction::Timer => SettingState::set(trim_units(&self.root).1),
        }
    }

    /// State by the words in the table of a single-target mapping.
    fn table(&self, name: &str, is_set: impl Fn(&dyn Fn(&str) -> bool) -> bool) -> SettingState {
        let targets: Vec<_> = self.tables.table(name).collect();
        match targets.as_slice() {
            [] if mapped_by_name(&self.root, name).is_none() => SettingState::Gone,
            [one] => SettingState::set(is_set(&|word| one.says(word))),
            _ => SettingState::Other(format!("{name} has another table")),
        }
    }

    /// Identifies the object, as opposed to a later one of the same name; empty if only
    /// the name exists.
    pub fn identity(&self, action: &RemedyAction) -> String {
        let identity = match action {
            RemedyAction::Attribute { file, .. }
            | RemedyAction::Provisioning { limit_file: file, .. } => {
                file.ancestors().nth(2).and_then(|disk| self.root.read(disk.join("diskseq")))
            }
            _ => self.mapping(action).and_then(|sys| self.root.read(sys.join("dm/uuid"))),
        };
        identity.unwrap_or_default()
    }

    /// sysfs path of the mapping that an action concerns.
    fn mapping(&self, action: &RemedyAction) -> Option<PathBuf> {
        match action {
            RemedyAction::AllowDiscards { name, .. }
            | RemedyAction::Passdown { name, .. }
            | RemedyAction::RefreshCrypt { name, .. }
            | RemedyAction::ReloadTable { name } => mapped_by_name(&self.root, name),
            _ => None,
        }
    }

    /// True if the mapping is suspended: activating a new table would resume it.
    pub fn is_suspended(&self, action: &RemedyAction) -> bool {
        self.mapping(action)
            .is_some_and(|sys| self.root.read_u64(sys.join("dm/suspended")) == Some(1))
    }
}

/// True if a reboot reverts the action.
pub fn is_lost_on_reboot(action: &RemedyAction) -> bool {
    matches!(action, RemedyAction::Attribute { .. } | RemedyAction::Provisioning { .. })
        || matches!(action, RemedyAction::AllowDiscards { persistent: false, .. })
}

/// True if a mapping is read-only.
pub fn is_read_only(root: &Root, name: &str) -> bool {
    mapped_by_name(root, name)
        .is_some_and(|sys| root.read_u64(Path::new(&sys).join("ro")) == Some(1))
}

/// A file is in its desired state if it needs no edit.
fn file(action: &RemedyAction) -> SettingState {
    match edit(action) {
        Ok(edit) => SettingState::set(edit.is_none()),
        Err(error) => SettingState::Other(format!("{error:#}")),
    }
}

/// The edit of a system file; `None` if the action needs none.
pub fn edit(action: &RemedyAction) -> anyhow::Result<Option<Edit>> {
    match action {
        RemedyAction::Crypttab { name } => apply::crypttab::edit(&System::new(None, None)?, name),
        _ => Ok(None),
    }
}
