//! Loop devices: their backing and their users.

use super::disk::Disk;
use crate::sys::beneath::ObjectIdentity;
use crate::sys::looping::{self, Backing};
use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::path::PathBuf;

/// A loop device by its number. Holding it keeps nothing attached, dropping it detaches
/// nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoopDevice(pub u32);

impl LoopDevice {
    /// Path of the device node.
    pub fn path(self) -> PathBuf {
        PathBuf::from(format!("/dev/loop{}", self.0))
    }

    /// Directory in sysfs.
    pub fn sysfs(self) -> PathBuf {
        PathBuf::from(format!("/sys/block/loop{}", self.0))
    }

    /// The backing file; `None` if the device is free.
    pub fn backing_file(self) -> Option<PathBuf> {
        let text = std::fs::read_to_string(self.sysfs().join("loop/backing_file")).ok()?;
        let path = text.trim_end_matches('\n');
        Some(PathBuf::from(path.strip_suffix(" (deleted)").unwrap_or(path)))
    }

    /// The backing as the kernel reports it; `None` if the device is free or cannot be
    /// opened.
    pub fn backing(self) -> Option<Backing> {
        let device = rustix::fs::open(
            self.path(),
            OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            Mode::empty(),
        )
        .ok()?;
        looping::backing(&File::from(device)).ok()?
    }

    /// The device as a [`Disk`].
    pub fn disk(self) -> Disk {
        Disk(format!("loop{}", self.0))
    }

    /// Descriptions of the users of the device and its partitions; empty if it is unused.
    pub fn users(self) -> Vec<String> {
        self.disk().users()
    }
}

/// All loop devices backed by the file `ours`.
pub fn attached_to(ours: ObjectIdentity) -> Vec<LoopDevice> {
    all()
        .into_iter()
        .filter(|(_, backing)| backing.file == ours)
        .map(|(device, _)| device)
        .collect()
}

/// All loop devices in use, with their backing: from the kernel, otherwise by file name.
pub fn all() -> Vec<(LoopDevice, Backing)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/sys/block").into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(number) =
            name.to_str().and_then(|name| name.strip_prefix("loop")).and_then(|n| n.parse().ok())
        else {
            continue;
        };
        let device = LoopDevice(number);
        let Some(path) = device.backing_file() else { continue };
        let by_name = || {
            let stat = rustix::fs::stat(&path).ok()?;
            Some(Backing { file: ObjectIdentity::from(&stat), rdevice: stat.st_rdev })
        };
        found.extend(device.backing().or_else(by_name).map(|backing| (device, backing)));
    }
    found
}
