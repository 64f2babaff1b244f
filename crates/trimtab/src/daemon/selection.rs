//! Selects the mounted filesystems that the configuration covers.

use super::config::{Config, DEFAULT_PATH, Rule};
use std::io;
use trimtab_linux::doctor::Doctor;
use trimtab_linux::host::block::Stack;
use trimtab_linux::host::mountinfo::{self, Mount};
use trimtab_linux::host::root::Root;

/// The mounts to watch, and remarks about the rest.
#[derive(Debug, Default)]
pub struct Selection {
    /// Each filesystem once, with its rule.
    pub wanted: Vec<(Mount, Rule)>,
    /// Rules without effect at present, with reasons.
    pub remarks: Vec<String>,
}

impl Selection {
    /// Selects by the mount table and `/sys`, without touching a filesystem.
    pub fn of(root: &Root, config: &Config) -> io::Result<Self> {
        let mounts = mountinfo::read(root)?;
        let named = |m: &&Mount| {
            config.rules.iter().any(|r| r.path.as_deref() == Some(m.mount_point.as_path()))
        };
        // Named mounts come first. The default applies only to other filesystems.
        let (first, rest): (Vec<&Mount>, Vec<&Mount>) = mounts.iter().partition(named);
        let mut selection = Self::default();
        for mount in first.into_iter().chain(rest) {
            if let Some(rule) = config.rule_for(&mount.mount_point) {
                selection.consider(root, &mounts, mount, rule);
            }
        }
        for rule in &config.rules {
            if let Some(path) =
                rule.path.as_ref().filter(|p| !mounts.iter().any(|m| m.mount_point == **p))
            {
                selection
                    .remarks
                    .push(format!("{} is not mounted; its rule starts when it is", path.display()));
            }
        }
        Ok(selection)
    }

    fn consider(&mut self, root: &Root, mounts: &[Mount], mount: &Mount, rule: &Rule) {
        // A mount that is covered by another one is out of reach.
        let top = mounts
            .iter()
            .rev()
            .find(|m| m.mount_point == mount.mount_point)
            .is_some_and(|m| m.id == mount.id);
        if !top {
            return;
        }
        let shown = mount.mount_point.display();
        let same = |(m, _): &&(Mount, Rule)| {
            m.dev == mount.dev
                || (m.fs_type == "btrfs" && mount.fs_type == "btrfs" && m.source == mount.source)
        };
        if let Some((first, _)) = self.wanted.iter().find(same) {
            if rule.path.is_some() {
                let first = first.mount_point.display();
                self.remarks.push(format!(
                    "{shown} is the same filesystem as {first}: its rule is ignored, the \
                    rule of {first} applies"
                ));
            }
            return;
        }
        if Stack::of_mount(root, mounts, mount).tops.is_empty() {
            if rule.path.is_some() {
                self.remarks.push(format!(
                    "{shown} ({}) is not on a block device: nothing to trim",
                    mount.fs_type
                ));
            }
            return;
        }
        self.wanted.push((mount.clone(), rule.clone()));
    }

    /// The mounts that the daemon trims.
    pub fn trimmed(&self) -> Vec<Mount> {
        self.wanted
            .iter()
            .filter(|(_, rule)| rule.trims())
            .map(|(mount, _)| mount.clone())
            .collect()
    }
}

/// A doctor that knows the mounts that the daemon trims by `config`; without one, none.
/// Where the file cannot be read, they stay unknown.
pub fn doctor<'a>(root: &'a Root, config: Option<&Config>) -> io::Result<Doctor<'a>> {
    if config.is_none() && root.exists(DEFAULT_PATH) && root.read(DEFAULT_PATH).is_none() {
        return Doctor::new(root);
    }
    let selection =
        config.map_or_else(|| Ok(Selection::default()), |config| Selection::of(root, config))?;
    Ok(Doctor::new(root)?.with_kept(selection.trimmed()))
}
