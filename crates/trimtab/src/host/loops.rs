//! Loop devices: what each stands on, and who uses it.

use super::mountinfo::{self, DevNumber, Mount};
use super::openers;
use super::root::Root;
use crate::sys::beneath::Identity;
use crate::sys::looping::{self, Backing};
use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::path::PathBuf;

/// A loop device by its number. Knowing one does not keep it attached, and dropping this detaches nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoopDevice(pub u32);

impl LoopDevice {
    /// The device node.
    pub fn path(self) -> PathBuf {
        PathBuf::from(format!("/dev/loop{}", self.0))
    }

    /// Its directory in sysfs.
    pub fn sysfs(self) -> PathBuf {
        PathBuf::from(format!("/sys/block/loop{}", self.0))
    }

    /// The file it is attached to; `None` if it is free.
    pub fn backing_file(self) -> Option<PathBuf> {
        let text = std::fs::read_to_string(self.sysfs().join("loop/backing_file")).ok()?;
        let path = text.trim_end_matches('\n');
        Some(PathBuf::from(path.strip_suffix(" (deleted)").unwrap_or(path)))
    }

    /// What the kernel says that it stands on; `None` if it is free or cannot be opened.
    pub fn backing(self) -> Option<Backing> {
        let device = rustix::fs::open(self.path(), OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty()).ok()?;
        looping::backing(&File::from(device)).ok()?
    }

    /// Who uses the device or a partition of it, in words; empty if nobody does.
    pub fn users(self) -> Vec<String> {
        let mut users = Vec::new();
        let mut numbers = Vec::new();
        let mut nodes = Vec::new();
        for directory in self.with_partitions() {
            let Some(name) = directory.file_name().and_then(|name| name.to_str()).map(str::to_owned) else { continue };
            numbers.extend(std::fs::read_to_string(directory.join("dev")).ok().and_then(|text| DevNumber::parse(&text)));
            for holder in std::fs::read_dir(directory.join("holders")).into_iter().flatten().flatten() {
                users.push(format!("{} on top of {name}", holder.file_name().to_string_lossy()));
            }
            nodes.push(PathBuf::from("/dev").join(name));
        }
        users.extend(mounts_of(&numbers, &nodes));
        users.extend(swaps_of(&nodes));
        users.extend(openers::of_devices(&numbers).iter().map(ToString::to_string));
        users
    }

    fn with_partitions(self) -> Vec<PathBuf> {
        let own = self.sysfs();
        let prefix = format!("loop{}p", self.0);
        let mut all = vec![own.clone()];
        for entry in std::fs::read_dir(&own).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(&prefix) {
                all.push(entry.path());
            }
        }
        all
    }
}

/// All loop devices that stand on the file `ours`.
pub fn attached_to(ours: Identity) -> Vec<LoopDevice> {
    all().into_iter().filter(|(_, backing)| backing.file == ours).map(|(device, _)| device).collect()
}

/// All loop devices in use, and what they stand on: as the kernel says or, where a device cannot be opened, by the name of the file.
pub fn all() -> Vec<(LoopDevice, Backing)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/sys/block").into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(number) = name.to_str().and_then(|name| name.strip_prefix("loop")).and_then(|n| n.parse().ok()) else { continue };
        let device = LoopDevice(number);
        let Some(path) = device.backing_file() else { continue };
        let by_name = || {
            let stat = rustix::fs::stat(&path).ok()?;
            Some(Backing { file: Identity::from(&stat), rdevice: stat.st_rdev, autoclear: false })
        };
        found.extend(device.backing().or_else(by_name).map(|backing| (device, backing)));
    }
    found
}

/// Where devices with these numbers (or, for btrfs, these nodes) are mounted; in other mount namespaces if they are not in this one.
fn mounts_of(numbers: &[DevNumber], nodes: &[PathBuf]) -> Vec<String> {
    let is_it = |mount: &Mount| numbers.contains(&mount.dev) || nodes.contains(&mount.source);
    let shown = |mount: &Mount| format!("mounted on {} ({})", mount.mount_point.display(), mount.fs_type);
    let mounts = Root::live().and_then(|root| mountinfo::read(&root)).unwrap_or_default();
    let here: Vec<String> = mounts.iter().filter(|mount| is_it(mount)).map(shown).collect();
    if !here.is_empty() {
        return here;
    }
    let elsewhere = mountinfo::other_namespaces();
    let elsewhere = elsewhere.iter().flat_map(|(pid, mounts)| mounts.iter().map(move |mount| (pid, mount)));
    elsewhere
        .filter(|(_, mount)| is_it(mount))
        .map(|(pid, mount)| format!("{} in another mount namespace (of pid {pid})", shown(mount)))
        .collect()
}

fn swaps_of(nodes: &[PathBuf]) -> Vec<String> {
    let table = std::fs::read("/proc/swaps").unwrap_or_default();
    mountinfo::swap_sources(&table).filter(|source| nodes.contains(source)).map(|_| "used as swap".to_owned()).collect()
}
