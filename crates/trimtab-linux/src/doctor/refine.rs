//! Refines a stack with device-mapper tables and the states of md members: the kind of a
//! volume whose UUID does not show it, and the layers that get no discards.

use super::Doctor;
use super::mapper::MapperTarget;
use crate::host::block::{Layer, LayerKind, Stack};
use crate::host::root::Root;

/// The reason why a part of a device-mapper volume gets no discards.
const BESIDE: &str = "gets no discards: it holds metadata or a cache";
/// The reason why an array member gets no discards.
const UNUSED: &str = "gets no discards: the array does not use this member (faulty, or a spare)";

/// Returns the stack with the information from tables and states.
pub fn refine(doctor: &Doctor<'_>, stack: &Stack) -> Stack {
    let mut refined = stack.clone();
    for (index, layer) in stack.layers.iter().enumerate() {
        let name = layer.label.as_deref().unwrap_or(&layer.name);
        let targets: Vec<&MapperTarget> = doctor.tables.table(name).collect();
        let kind = match (&layer.kind, kind_of(&targets)) {
            (LayerKind::Mapper(_), Some(kind)) => Some(kind),
            // cryptsetup created it, but another target does the work: hardware
            // encryption (linear), or the checksums below dm-crypt.
            (LayerKind::Crypt, None) => {
                targets.first().map(|target| LayerKind::Mapper(target.kind.to_uppercase()))
            }
            _ => None,
        };
        refined.layers[index].kind = kind.unwrap_or_else(|| layer.kind.clone());
        for &below in &layer.below {
            let reason = match &layer.kind {
                LayerKind::Md(_) => {
                    is_unused(doctor.root, layer, &stack.layers[below]).then_some(UNUSED)
                }
                _ => targets
                    .iter()
                    .any(|target| is_beside(target, &stack.layers[below]))
                    .then_some(BESIDE),
            };
            refined.aside.extend(reason.map(|reason| (below, reason)));
        }
    }
    refined
}

/// The kind of a volume whose targets are all of one type.
fn kind_of(targets: &[&MapperTarget]) -> Option<LayerKind> {
    let first = targets.first()?;
    targets.iter().all(|target| target.kind == first.kind).then_some(())?;
    match first.kind.as_str() {
        "crypt" => Some(LayerKind::Crypt),
        "thin-pool" => Some(LayerKind::ThinPool),
        "thin" => Some(LayerKind::Thin),
        _ => None,
    }
}

/// True if a target uses a layer for metadata or as a cache, by the device's position
/// among its arguments.
fn is_beside(target: &MapperTarget, layer: &Layer) -> bool {
    let words: Vec<&str> = target.arguments.split_ascii_whitespace().collect();
    let is_layer = |word: &str| {
        let label = word
            .strip_prefix("/dev/mapper/")
            .is_some_and(|name| layer.label.as_deref() == Some(name));
        label || word == layer.dev.to_string() || word == layer.node()
    };
    let stands_at = |places: &[usize]| {
        places.iter().any(|at| words.get(*at).is_some_and(|word| is_layer(word)))
    };
    match target.kind.as_str() {
        "cache" => stands_at(&[0, 1]),
        "writecache" => stands_at(&[2]),
        "clone" => stands_at(&[0, 2]),
        "era" | "thin-pool" => stands_at(&[0]),
        "integrity" => {
            words.iter().any(|word| word.strip_prefix("meta_device:").is_some_and(is_layer))
        }
        // Level, parameter count, parameters; member count; metadata and data device of
        // each member.
        "raid" => {
            let members = words
                .get(1)
                .and_then(|count| count.parse::<usize>().ok())
                .and_then(|count| words.get(count.checked_add(3)?..));
            members.unwrap_or_default().chunks(2).any(|member| is_layer(member[0]))
        }
        _ => false,
    }
}

/// True if an array sends nothing to a member: faulty, the journal, or an unused spare.
fn is_unused(root: &Root, array: &Layer, member: &Layer) -> bool {
    let directory = array.sys.join("md").join(format!("dev-{}", member.name));
    let state = root.read(directory.join("state")).unwrap_or_default();
    state.split(',').any(|word| ["faulty", "journal"].contains(&word.trim()))
        || root.read(directory.join("slot")).as_deref() == Some("none")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::mountinfo::DevNumber;
    use trimtab_drive::units::Bytes;

    #[test]
    fn dm_target_metadata_and_cache_receive_no_discards() {
        let layer = Layer {
            name: "sdb".to_owned(),
            label: Some("fast".to_owned()),
            kind: LayerKind::Lvm,
            sys: std::path::PathBuf::new(),
            dev: DevNumber { major: 8, minor: 16 },
            size: Bytes::ZERO,
            below: Vec::new(),
        };
        for (kind, arguments, expected) in [
            ("cache", "8:1 8:16 8:32 128 0 default 0", true),
            ("cache", "/dev/mapper/fast 8:2 8:32 128 0 default 0", true),
            ("cache", "8:1 8:2 8:16 128 0 default 0", false),
            ("writecache", "s 8:32 8:16 4096 0", true),
            ("writecache", "s 8:16 8:32 4096 0", false),
            ("clone", "8:1 8:2 8:16 8 0", true),
            ("era", "8:1 8:16 8192", false),
            ("thin-pool", "8:16 8:1 128 0", true),
            ("integrity", "8:1 0 4 J 2 meta_device:8:16 internal_hash:crc32c", true),
            ("integrity", "8:16 0 4 J 1 internal_hash:crc32c", false),
            ("raid", "raid1 3 0 region_size 1024 2 8:16 8:1 8:2 8:3", true),
            ("raid", "raid1 3 0 region_size 1024 2 8:1 8:16 8:2 8:3", false),
            ("raid", "raid1 9", false),
            ("linear", "8:16 0", false),
        ] {
            let target = MapperTarget {
                device: "x".to_owned(),
                kind: kind.to_owned(),
                arguments: arguments.to_owned(),
            };
            assert_eq!(is_beside(&target, &layer), expected, "{kind} {arguments}");
        }
    }
}
