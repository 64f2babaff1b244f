//! A kernel disk by name, and its users.

use super::mountinfo::{self, DevNumber, Mount};
use super::openers;
use super::root::Root;
use std::io;
use std::path::PathBuf;

/// A block device whose partitions are named after it (name, `p`, number). Holding this
/// value does not keep the device attached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk(pub String);

impl Disk {
    /// Path of the device node.
    pub fn path(&self) -> PathBuf {
        PathBuf::from("/dev").join(&self.0)
    }

    /// Directory in sysfs.
    pub fn sysfs(&self) -> PathBuf {
        PathBuf::from("/sys/block").join(&self.0)
    }

    /// Descriptions of the users of the device and its partitions; empty if it is unused.
    pub fn users(&self) -> Vec<String> {
        let mut users = Vec::new();
        let mut numbers = Vec::new();
        let mut nodes = Vec::new();
        for directory in self.with_partitions() {
            let Some(name) =
                directory.file_name().and_then(|name| name.to_str()).map(str::to_owned)
            else {
                continue;
            };
            numbers.extend(
                std::fs::read_to_string(directory.join("dev"))
                    .ok()
                    .and_then(|text| DevNumber::parse(&text)),
            );
            for holder in
                std::fs::read_dir(directory.join("holders")).into_iter().flatten().flatten()
            {
                users.push(format!("{} on top of {name}", holder.file_name().to_string_lossy()));
            }
            nodes.push(PathBuf::from("/dev").join(name));
        }
        users.extend(mounts_of(&numbers, &nodes));
        users.extend(swaps_of(&nodes));
        users.extend(openers::of_devices(&numbers).iter().map(ToString::to_string));
        users
    }

    fn with_partitions(&self) -> Vec<PathBuf> {
        let own = self.sysfs();
        let prefix = format!("{}p", self.0);
        let mut all = vec![own.clone()];
        for entry in std::fs::read_dir(&own).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(&prefix) {
                all.push(entry.path());
            }
        }
        all
    }
}

/// Numbers of all ublk devices; empty without the ublk driver.
pub fn of_ublk() -> io::Result<Vec<u32>> {
    let entries = match std::fs::read_dir("/sys/class/ublk-char") {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    Ok(entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.strip_prefix("ublkc")?.parse().ok())
        .collect())
}

/// Mounts of devices with these numbers (or, for btrfs, these nodes); those in other
/// mount namespaces only if this one has none.
fn mounts_of(numbers: &[DevNumber], nodes: &[PathBuf]) -> Vec<String> {
    let is_it = |mount: &Mount| numbers.contains(&mount.dev) || nodes.contains(&mount.source);
    let shown =
        |mount: &Mount| format!("mounted on {} ({})", mount.mount_point.display(), mount.fs_type);
    let mounts = Root::live().and_then(|root| mountinfo::read(&root)).unwrap_or_default();
    let here: Vec<String> = mounts.iter().filter(|mount| is_it(mount)).map(shown).collect();
    if !here.is_empty() {
        return here;
    }
    let elsewhere = mountinfo::other_namespaces();
    let elsewhere =
        elsewhere.iter().flat_map(|(pid, mounts)| mounts.iter().map(move |mount| (pid, mount)));
    elsewhere
        .filter(|(_, mount)| is_it(mount))
        .map(|(pid, mount)| format!("{} in another mount namespace (of pid {pid})", shown(mount)))
        .collect()
}

fn swaps_of(nodes: &[PathBuf]) -> Vec<String> {
    let table = std::fs::read("/proc/swaps").unwrap_or_default();
    mountinfo::swap_sources(&table)
        .filter(|source| nodes.contains(source))
        .map(|_| "used as swap".to_owned())
        .collect()
}
