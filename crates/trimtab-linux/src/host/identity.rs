//! An identity for the devices of a stack: survives reboots, and no copy of the data has
//! it.

use super::block::{Layer, LayerKind, Stack};
use super::root::Root;
use sha2::{Digest as _, Sha256};
use std::path::Path;

/// Sysfs attributes that distinguish devices of one kind, relative to the device
/// directory.
const ATTRIBUTES: [&str; 9] = [
    "wwid",
    "device/wwid",
    "device/serial",
    "serial",
    "device/cid",
    "dm/uuid",
    "md/uuid",
    "partition",
    "start",
];
/// Files that distinguish machines. Clones of a golden image differ in the second one.
const MACHINE: [&str; 2] = ["/etc/machine-id", "/sys/class/dmi/id/product_uuid"];

/// A hash over the machine and the size and identity of every layer of `stack`. Kernel
/// names are excluded: they change between boots.
pub fn of_stack(root: &Root, stack: &Stack) -> String {
    let mut hash = Sha256::new();
    let mut put = |text: &str| {
        hash.update(text.trim().as_bytes());
        hash.update([0]);
    };
    MACHINE.iter().for_each(|file| put(&root.read(file).unwrap_or_default()));
    for layer in &stack.layers {
        put(&layer.size.0.to_string());
        ATTRIBUTES.iter().for_each(|name| put(&attribute(root, layer, name)));
        if matches!(layer.kind, LayerKind::File { .. }) {
            put(&layer.name);
            put(&inode(root, &layer.name).to_string());
        }
    }
    hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

fn attribute(root: &Root, layer: &Layer, name: &str) -> String {
    if layer.sys.as_os_str().is_empty() {
        String::new()
    } else {
        root.read(layer.sys.join(name)).unwrap_or_default()
    }
}

/// The inode of the file below a loop device: a copy that replaces the file has another
/// one.
fn inode(root: &Root, name: &str) -> u64 {
    if root.is_live() { rustix::fs::stat(Path::new(name)).map_or(0, |stat| stat.st_ino) } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::block::Bus;
    use crate::host::mountinfo::DevNumber;
    use std::fs;
    use trimtab_drive::units::Bytes;

    #[test]
    fn identity_differs_by_machine_device_and_size_only() {
        let machine = |id: &str, serial: &str| {
            let tree = tempfile::tempdir().unwrap();
            fs::create_dir_all(tree.path().join("etc")).unwrap();
            fs::create_dir_all(tree.path().join("sys/devices/a")).unwrap();
            fs::write(tree.path().join("etc/machine-id"), id).unwrap();
            fs::write(tree.path().join("sys/devices/a/serial"), serial).unwrap();
            tree
        };
        let of = |id: &str, serial: &str, name: &str, size: u64| {
            let tree = machine(id, serial);
            let dev = DevNumber { major: 8, minor: 0 };
            let kind = LayerKind::Drive(Bus::Ata);
            let layer = Layer {
                name: name.into(),
                label: None,
                kind,
                sys: "/sys/devices/a".into(),
                dev,
                size: Bytes(size),
                below: vec![],
            };
            of_stack(
                &Root::recorded(tree.path()).unwrap(),
                &Stack { layers: vec![layer], tops: vec![0], ..Stack::default() },
            )
        };
        let one = of("m1\n", "s1\n", "sda", 1000);
        assert_eq!(one, of("m1\n", "s1\n", "sdb", 1000), "kernel names change at a boot");
        for other in [
            of("m2\n", "s1\n", "sda", 1000),
            of("m1\n", "s2\n", "sda", 1000),
            of("m1\n", "s1\n", "sda", 1001),
        ] {
            assert_ne!(one, other);
        }
        assert_eq!(one.len(), 16);
    }
}
