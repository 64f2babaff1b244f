//! Names the device below a place if it is not a plain drive: memory, a loop device, a
//! virtual disk. Shown with figures taken there.

use super::Place;
use super::block::{Bus, LayerKind};
use super::cached;
use super::root::Root;

/// A notice that a place is not on a plain drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The place is on no drive at all.
    pub absent: bool,
    /// The device that serves the I/O, or may serve it.
    pub text: String,
}

/// The notice for a place; `None` if it is on plain drives.
pub fn notice(root: &Root, place: &Place) -> Option<Notice> {
    let stack = &place.stack;
    let absent = |text: String| Some(Notice { absent: true, text });
    if let Some(memory) = cached::in_memory(place) {
        return absent(memory);
    }
    if stack.layers.iter().any(|layer| layer.kind == LayerKind::Drive(Bus::Zram)) {
        return absent("zram is compressed memory".to_owned());
    }
    let other = |text: String| Some(Notice { absent: false, text });
    if stack.tops.is_empty() {
        let mount = place.mount.as_ref()?;
        return other(format!("unknown: the kernel shows no block device below {}", mount.fs_type));
    }
    let looped = stack.layers.iter().find(|layer| layer.kind == LayerKind::Loop);
    let looped = cached::buffered(root, stack)
        .or_else(|| looped.map(|layer| format!("seen through a loop device, {}", layer.name)));
    let is_virtual = |bus: &Bus| matches!(bus, Bus::Virtio | Bus::VirtioScsi | Bus::Nbd);
    let hidden = stack
        .drives()
        .find(|layer| matches!(&layer.kind, LayerKind::Drive(bus) if is_virtual(bus)));
    let hidden =
        hidden.map(|layer| format!("{} is a virtual disk, its drive not visible here", layer.name));
    let both: Vec<String> = looped.into_iter().chain(hidden).collect();
    other(both.join("; ")).filter(|notice| !notice.text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::block::{Layer, Stack};
    use crate::host::mountinfo::DevNumber;
    use std::path::PathBuf;
    use trimtab_drive::units::Bytes;

    fn place(kinds: &[(&str, LayerKind)]) -> Place {
        let last = kinds.len();
        let layer = |(nth, (name, kind)): (usize, &(&str, LayerKind))| Layer {
            name: (*name).to_owned(),
            label: None,
            kind: kind.clone(),
            sys: PathBuf::new(),
            dev: DevNumber { major: 0, minor: 0 },
            size: Bytes(0),
            below: if nth + 1 < last { vec![nth + 1] } else { Vec::new() },
        };
        Place {
            mount: None,
            stack: Stack {
                layers: kinds.iter().enumerate().map(layer).collect(),
                tops: vec![0],
                ..Stack::default()
            },
        }
    }

    #[test]
    fn notice_names_memory_loop_and_virtual_disks() {
        let root = Root::live().unwrap();
        let of = |kinds: &[(&str, LayerKind)]| {
            notice(&root, &place(kinds)).map(|notice| (notice.absent, notice.text))
        };
        let starts = |kinds: &[(&str, LayerKind)], absent: bool, text: &str| {
            of(kinds).is_some_and(|(gone, said)| gone == absent && said.starts_with(text))
        };
        let file = |fs_type: &str| {
            ("/x", LayerKind::File { fs_type: fs_type.to_owned(), mount_point: PathBuf::from("/") })
        };
        assert_eq!(of(&[("nvme0n1", LayerKind::Drive(Bus::Nvme))]), None);
        assert!(starts(
            &[("vda1", LayerKind::Partition), ("vda", LayerKind::Drive(Bus::Virtio))],
            false,
            "vda is a virtual disk"
        ));
        assert!(starts(
            &[("loop9", LayerKind::Loop), file("tmpfs")],
            true,
            "the file below, /x, is in memory"
        ));
        assert!(starts(&[("zram0", LayerKind::Drive(Bus::Zram))], true, "zram"));
        let both =
            [("loop9", LayerKind::Loop), file("ext4"), ("vda", LayerKind::Drive(Bus::Virtio))];
        assert!(
            starts(&both, false, "seen through a loop device, loop9; vda is a virtual"),
            "{:?}",
            of(&both)
        );
    }
}
