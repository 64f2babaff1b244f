//! What the machine shows of a change.

use super::{mount, swap};
use crate::apply::{self, System};
use std::path::{Path, PathBuf};
use trimtab_linux::doctor::{Action, Tables, trim_units};
use trimtab_linux::host::block::mapped_by_name;
use trimtab_linux::host::root::Root;

/// Where switches of the kernel are.
pub const SWITCHES: &str = "/sys";

/// What a thing is, beside what it was before a change and what it was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// As before the change.
    Before,
    /// As the change made it.
    Set,
    /// Something else, in words.
    Other(String),
    /// It is not there.
    Gone,
    /// The kernel shows nothing of it.
    Hidden,
}

impl Seen {
    fn set(is: bool) -> Self {
        if is { Self::Set } else { Self::Before }
    }
}

/// The machine as it is now.
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

    pub fn look(&self, action: &Action) -> Seen {
        match action {
            Action::Attribute { file, from, to } => match self.root.read(file) {
                None => Seen::Gone,
                Some(now) if now == *to => Seen::Set,
                Some(now) if now == *from => Seen::Before,
                Some(now) => Seen::Other(format!("{} is {now}", file.display())),
            },
            Action::Provisioning { file, from, to, limit_file, limit } => match (self.root.read(file), self.root.read_u64(limit_file)) {
                (Some(mode), Some(now)) if mode == *to && (1..=*limit).contains(&now) => Seen::Set,
                (Some(mode), Some(_)) if mode == *from => Seen::Before,
                (Some(mode), Some(now)) => Seen::Other(format!("{} is {mode}, with discards of up to {now} B", file.display())),
                _ => Seen::Gone,
            },
            Action::AllowDiscards { name, .. } | Action::AllowIntegrity { name, .. } => self.table(name, |says| says("allow_discards")),
            Action::Passdown { name, .. } => self.table(name, |says| !says("no_discard_passdown") && !says("ignore_discard")),
            // A pool says in its state what its limits do not.
            Action::ReloadTable { name } if self.tables.table(name).any(|target| target.kind == "thin-pool") => {
                Seen::set(self.tables.status(name).any(|target| target.says("discard_passdown")))
            }
            Action::RefreshCrypt { name, .. } | Action::ReloadTable { name } => match mapped_by_name(&self.root, name) {
                Some(sys) => Seen::set(self.root.read_u64(sys.join("queue/discard_max_bytes")).unwrap_or(0) > 0),
                None => Seen::Gone,
            },
            Action::MountDiscard { mount_point } => mount::look(mount_point),
            Action::SwapDiscard { device } => swap::look(&self.root, device),
            Action::Fstab { mount_point } => file(|system| apply::discards::in_fstab(system, mount_point)),
            Action::SwapFstab { source } => file(|system| apply::discards::in_fstab_for_swap(system, source)),
            Action::Crypttab { name } => file(|system| apply::discards::in_crypttab(system, name)),
            Action::Timer => Seen::set(trim_units(&self.root).1),
        }
    }

    /// By the words of the one target of a mapping.
    fn table(&self, name: &str, is_set: impl Fn(&dyn Fn(&str) -> bool) -> bool) -> Seen {
        let targets: Vec<_> = self.tables.table(name).collect();
        match targets.as_slice() {
            [] if mapped_by_name(&self.root, name).is_none() => Seen::Gone,
            [one] => Seen::set(is_set(&|word| one.says(word))),
            _ => Seen::Other(format!("{name} has another table")),
        }
    }

    /// What tells the thing from another one that gets its name later; empty where a name is all there is.
    pub fn identity(&self, action: &Action) -> String {
        let identity = match action {
            Action::Attribute { file, .. } | Action::Provisioning { limit_file: file, .. } => {
                file.ancestors().nth(2).and_then(|disk| self.root.read(disk.join("diskseq")))
            }
            Action::MountDiscard { mount_point } => mount::device(mount_point),
            _ => self.mapping(action).and_then(|sys| self.root.read(sys.join("dm/uuid"))),
        };
        identity.unwrap_or_default()
    }

    /// Where the mapping is in sysfs that an action is about.
    fn mapping(&self, action: &Action) -> Option<PathBuf> {
        match action {
            Action::AllowDiscards { name, .. }
            | Action::AllowIntegrity { name, .. }
            | Action::Passdown { name, .. }
            | Action::RefreshCrypt { name, .. }
            | Action::ReloadTable { name } => mapped_by_name(&self.root, name),
            _ => None,
        }
    }

    /// Whether somebody holds the mapping still: a new table would let it go.
    pub fn is_suspended(&self, action: &Action) -> bool {
        self.mapping(action).is_some_and(|sys| self.root.read_u64(sys.join("dm/suspended")) == Some(1))
    }
}

/// Whether the next start of the machine takes it back.
pub fn is_lost_on_reboot(action: &Action) -> bool {
    matches!(action, Action::Attribute { .. } | Action::Provisioning { .. } | Action::MountDiscard { .. } | Action::SwapDiscard { .. })
        || matches!(action, Action::AllowDiscards { persistent: false, .. } | Action::AllowIntegrity { .. })
}

/// Whether a mapping is read-only.
pub fn is_read_only(root: &Root, name: &str) -> bool {
    mapped_by_name(root, name).is_some_and(|sys| root.read_u64(Path::new(&sys).join("ro")) == Some(1))
}

/// A file is as it shall be where nothing would change it.
fn file(plan: impl FnOnce(&System) -> anyhow::Result<Option<apply::Plan>>) -> Seen {
    match System::mended().map_err(anyhow::Error::from).and_then(|system| plan(&system)) {
        Ok(plan) => Seen::set(plan.is_none()),
        Err(error) => Seen::Other(format!("{error:#}")),
    }
}
