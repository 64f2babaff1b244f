//! Which mounted filesystems the configuration is about.

use super::config::{Config, Rule};
use super::iops_limit::IopsLimit;
use std::io;
use trimtab_drive::usage::quoted;
use trimtab_linux::host::block::Stack;
use trimtab_linux::host::mountinfo::{self, Mount};
use trimtab_linux::host::root::Root;

/// The mounts to watch, each filesystem once, and what to say about the rest.
#[derive(Debug, Default)]
pub struct Selection {
    /// Each filesystem once, with its rule.
    pub wanted: Vec<(Mount, Rule)>,
    /// Rules that have no effect now, and why.
    pub remarks: Vec<String>,
}

impl Selection {
    /// By the mount table and `/sys`; no filesystem is looked at.
    pub fn of(root: &Root, config: &Config) -> io::Result<Self> {
        let mounts = mountinfo::read(root)?;
        let named = |m: &&Mount| config.rules.iter().any(|r| r.path.as_deref() == Some(m.mount_point.as_path()));
        // Those named come first: the others get the default only if they are other filesystems.
        let (first, rest): (Vec<&Mount>, Vec<&Mount>) = mounts.iter().partition(named);
        let mut selection = Self::default();
        for mount in first.into_iter().chain(rest) {
            if let Some(rule) = config.rule_for(&mount.mount_point) {
                selection.consider(root, &mounts, mount, rule);
            }
        }
        for rule in &config.rules {
            if let Some(path) = rule.path.as_ref().filter(|p| !mounts.iter().any(|m| m.mount_point == **p)) {
                selection.remarks.push(format!("{} is not mounted; it is taken up when it is", path.display()));
            }
        }
        Ok(selection)
    }

    fn consider(&mut self, root: &Root, mounts: &[Mount], mount: &Mount, rule: &Rule) {
        // Mounted over: what is below cannot be reached.
        let top = mounts.iter().rev().find(|m| m.mount_point == mount.mount_point).is_some_and(|m| m.id == mount.id);
        if !top {
            return;
        }
        let shown = mount.mount_point.display();
        let same =
            |(m, _): &&(Mount, Rule)| m.dev == mount.dev || (m.fs_type == "btrfs" && mount.fs_type == "btrfs" && m.source == mount.source);
        if let Some((first, _)) = self.wanted.iter().find(same) {
            if rule.path.is_some() {
                let first = first.mount_point.display();
                self.remarks.push(format!("{shown} is the same filesystem as {first}: its rule is left out, that of {first} holds"));
            }
            return;
        }
        if Stack::of_mount(root, mounts, mount).tops.is_empty() {
            if rule.path.is_some() {
                self.remarks.push(format!("{shown} ({}) is not on a block device: there is nothing to trim", mount.fs_type));
            }
            return;
        }
        self.wanted.push((mount.clone(), rule.clone()));
    }

    /// Policies that do not run because the daemon steers the filesystem's own discards instead.
    #[must_use]
    pub fn steered(&self, root: &Root) -> Vec<String> {
        let steered = self.wanted.iter().filter(|(mount, rule)| is_steered(root, mount, rule));
        steered.map(|(mount, rule)| format!("{}: {}", mount.mount_point.display(), never_runs(mount, rule))).collect()
    }
}

/// Whether the daemon steers the filesystem's own discards in place of trimming it.
pub fn is_steered(root: &Root, mount: &Mount, rule: &Rule) -> bool {
    rule.trims() && rule.knobs && IopsLimit::of(root, mount).is_some()
}

/// Why the policy does not run there, and what makes it run.
pub fn never_runs(mount: &Mount, rule: &Rule) -> String {
    let (policy, path) = (rule.policy.name(), quoted(&mount.mount_point.display().to_string()));
    format!(
        "{policy} never runs here while btrfs is mounted with discard=async, which the daemon steers (knobs = true); to run it: \
         mount -o remount,nodiscard {path} (trimtab apply {policy} {path} writes that to fstab)"
    )
}
