//! Users of a device or a file, as far as they can be detected: the mount table, swap,
//! holders, loop devices, leases, and open descriptors.

use super::loops;
use crate::host::block::{Stack, device_directory, device_of_source};
use crate::host::mountinfo::{self, DevNumber};
use crate::host::openers;
use crate::host::root::{Root, TABLE_BYTES_MAX};
use crate::sys::beneath::ObjectIdentity;
use crate::sys::descriptor::somebody_has_it_open;
use anyhow::Context as _;
use rustix::fd::AsFd;
use std::path::Path;

/// Users of the device, its partitions, and devices built on it, except mere openers.
pub fn of_device(root: &Root, dev: DevNumber) -> anyhow::Result<Vec<String>> {
    let mounts = mountinfo::read(root).context("cannot read the mount table")?;
    let stands_on = |stack: &Stack| stack.layers.iter().any(|layer| layer.dev == dev);
    let mut users: Vec<String> = Vec::new();
    for mount in &mounts {
        if stands_on(&Stack::of_mount(root, &mounts, mount)) {
            users.push(format!("mounted at {}", mount.mount_point.display()));
        }
    }
    for (pid, others) in mountinfo::other_namespaces() {
        for mount in
            others.iter().filter(|mount| !mounts.iter().any(|known| known.dev == mount.dev))
        {
            if stands_on(&Stack::of_mount(root, &others, mount)) {
                users.push(format!(
                    "mounted at {} in another mount namespace (of pid {pid})",
                    mount.mount_point.display()
                ));
            }
        }
    }
    let swaps = root.read_bytes(Path::new("/proc/swaps"), TABLE_BYTES_MAX).unwrap_or_default();
    for source in mountinfo::swap_sources(&swaps) {
        let swap = device_of_source(root, &source)
            .and_then(|sys| DevNumber::parse(&root.read(sys.join("dev"))?));
        if swap.is_some_and(|swap| stands_on(&Stack::of_device(root, &mounts, swap))) {
            users.push(format!("swap on {}", source.display()));
        }
    }
    if let Some(sys) = device_directory(root, dev) {
        for holder in root.list(sys.join("holders")) {
            users.push(format!("part of {holder}"));
        }
    }
    for (device, backing) in loops::all() {
        let below = DevNumber::from_raw(backing.rdevice);
        if backing.rdevice != 0
            && (below == dev || stands_on(&Stack::of_device(root, &mounts, below)))
        {
            users.push(format!("it backs {}", device.path().display()));
        }
    }
    users.dedup();
    Ok(users)
}

/// The processes that have the device or a partition of it open.
pub fn openers_of_device(root: &Root, dev: DevNumber) -> Vec<String> {
    let mut numbers = vec![dev];
    if let Some(sys) = device_directory(root, dev) {
        let inside = root
            .list(&sys)
            .into_iter()
            .map(|name| sys.join(name))
            .filter(|path| root.exists(path.join("partition")));
        numbers.extend(inside.filter_map(|path| DevNumber::parse(&root.read(path.join("dev"))?)));
    }
    openers::of_devices(&numbers).iter().map(ToString::to_string).collect()
}

/// Users of a regular file that this process has open exactly once, for writing.
///
/// If the filesystem supports leases, finds loop devices, swap, and processes in any
/// namespace.
pub fn of_file(file: impl AsFd) -> anyhow::Result<Vec<String>> {
    let file = file.as_fd();
    let identity = ObjectIdentity::of(file).context("cannot look at the file")?;
    let mut users: Vec<String> = loops::all()
        .into_iter()
        .filter(|(_, backing)| backing.file == identity)
        .map(|(device, _)| format!("it backs {}", device.path().display()))
        .collect();
    let swaps = std::fs::read("/proc/swaps").unwrap_or_default();
    let is_it = |path: &Path| {
        rustix::fs::stat(path).is_ok_and(|stat| ObjectIdentity::from(&stat) == identity)
    };
    if mountinfo::swap_sources(&swaps).any(|source| is_it(&source)) {
        users.push("used as swap".to_owned());
    }
    if !users.is_empty() {
        return Ok(users);
    }
    users.extend(openers::of_file(identity).iter().map(ToString::to_string));
    if users.is_empty() && somebody_has_it_open(file) {
        users.push(
            "open where it is not visible from here (in another namespace, or in the kernel)"
                .to_owned(),
        );
    }
    Ok(users)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_file_detects_readers_and_writers_by_lease() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("f");
        std::fs::write(&path, "x").unwrap();
        let open = || std::fs::File::options().read(true).write(true).open(&path).unwrap();
        let ours = open();
        assert!(!somebody_has_it_open(&ours));
        let reader = std::fs::File::open(&path).unwrap();
        assert!(somebody_has_it_open(&ours));
        drop(reader);
        let writer = open();
        assert!(somebody_has_it_open(&ours));
        drop(writer);
        assert_eq!(of_file(&ours).unwrap(), Vec::<String>::new());
    }
}
