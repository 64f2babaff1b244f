//! `doctor`, `trim` and `verify` end with the same status on every recorded machine: the doctor judges the tree, the others what the
//! layers of such a machine would count. What these count is worked out here from nothing but the limits in the tree: a layer whose largest
//! discard is 0 takes none, one that takes some hands them to everything below it, unless it is a pool that keeps them.

use crate::sysroot::{Sysroot, fixtures, unpack};
use std::path::Path;
use std::time::Duration;
use trimtab_drive::discards::Amount;
use trimtab_drive::units::Bytes;
use trimtab_linux::doctor::{Doctor, Tables, VerdictKind};
use trimtab_linux::host::Place;
use trimtab_linux::host::block::{Kind, Layer, Stack};
use trimtab_linux::host::discards::{LayerDiscards, fates};
use trimtab_linux::host::root::Root;
use trimtab_linux::trim::delivery::judge_on;
use trimtab_linux::trim::filesystem::sends_later;
use trimtab_linux::trim::fitrim::devices_take_none;
use trimtab_linux::trim::verify::agree;
use trimtab_linux::trim::verify::arrival::arrival;
use trimtab_linux::trim::verify::readback::Content;
use trimtab_linux::trim::verify::verdict::{Later, Observed, Promise, judge};

const FREED: u64 = 400 << 20;
const BLOCKED: u8 = 3;

/// Whether the kernel hands a discard to this layer at all.
fn takes(root: &Root, layer: &Layer) -> bool {
    let read_only = root.read_u64(layer.sys.join("ro")) == Some(1);
    matches!(layer.kind, Kind::File { .. })
        || !read_only && root.read_u64(layer.queue().join("discard_max_bytes")).is_some_and(|most| most > 0)
}

fn keeps(tree: &Sysroot, layer: &Layer) -> bool {
    let read = |name: &str| std::fs::read_to_string(tree.path().join(name)).unwrap_or_default();
    let table = read("dmsetup-table") + &read("dmsetup-status");
    let label = layer.label.clone().unwrap_or_default();
    let name = label.replace("-tpool", "");
    let is_cache = |line: &str| line.starts_with(&format!("{label}: ")) && line.contains(" cache ");
    let is_vdo = |line: &str| line.starts_with(&format!("{label}: ")) && line.contains(" vdo ");
    if table.lines().any(|line| is_cache(line) && line.contains("no_discard_passdown") || is_vdo(line)) {
        return true;
    }
    let lines = table.lines().filter(|line| line.contains("thin-pool") && line.starts_with(&name));
    matches!(layer.kind, Kind::ThinPool)
        && lines.into_iter().any(|line| [" no_discard_passdown", " ignore_discard", " ro "].iter().any(|word| line.contains(word)))
}

/// What each layer counts of a trim: `None` where it has no counter.
fn counted(tree: &Sysroot, root: &Root, stack: &Stack) -> Vec<Option<Amount>> {
    let mut bytes: Vec<u64> = vec![0; stack.layers.len()];
    let mut todo: Vec<usize> = stack.tops.clone();
    while let Some(at) = todo.pop() {
        let layer = &stack.layers[at];
        if !takes(root, layer) || bytes[at] > 0 {
            continue;
        }
        bytes[at] = FREED;
        if !keeps(tree, layer) {
            todo.extend(layer.below.iter().copied().filter(|below| !stack.layers[*below].gets_no_discards()));
        }
    }
    // A loop device on a block device writes zeroes there, which nobody counts as discards.
    let on_device = |layer: &Layer| layer.below.iter().any(|below| !matches!(stack.layers[*below].kind, Kind::File { .. }));
    let loops = stack.layers.iter().filter(|layer| matches!(layer.kind, Kind::Loop) && on_device(layer));
    let mut zeroed: Vec<usize> = loops.flat_map(|layer| layer.below.iter().copied()).collect();
    let mut next = 0;
    while next < zeroed.len() {
        zeroed.extend(stack.layers[zeroed[next]].below.iter().copied());
        next += 1;
    }
    let one = |(at, (layer, bytes)): (usize, (&Layer, u64))| match &layer.kind {
        Kind::File { .. } => None,
        _ if zeroed.contains(&at) => None,
        // These do not count, as was found on the machines that the trees are of.
        Kind::Md(level) if level == "raid0" || level == "raid5" => Some(Amount::default()),
        _ => Some(Amount::new(bytes / (1 << 20), bytes)),
    };
    stack.layers.iter().zip(bytes).enumerate().map(one).collect()
}

/// The statuses of doctor, trim and verify.
fn statuses(tree: &Sysroot) -> [u8; 3] {
    let root = Root::recorded(tree.path()).unwrap();
    let subject = Path::new(&tree.expected.subject);
    let diagnosis = Doctor::new(&root).unwrap().examine_path(subject).unwrap();
    let place = Place::of_path(&root, subject).unwrap();
    let (mount, stack) = (place.mount.unwrap(), place.stack);
    let doctor = diagnosis.verdict.kind.exit_status();
    // What FITRIM refuses ends trim and verify before anything is counted.
    let no_fitrim = mount.fs_type.starts_with("fuse") || (mount.fs_type == "ntfs3" && !mount.has_option("discard"));
    if no_fitrim || !stack.top_layers().any(|top| takes(&root, top)) {
        let status = if diagnosis.verdict.kind == VerdictKind::NotNeeded { 0 } else { BLOCKED };
        return [doctor, status, status];
    }
    let later = sends_later(&root, &mount, &stack);
    let own = if later { vec![Some(Amount::default()); stack.layers.len()] } else { counted(tree, &root, &stack) };
    let layers: Vec<LayerDiscards> = fates(&stack, &own);
    let (delivery, _) = judge_on(&root, &mount, &stack, &layers, Bytes(if later { 0 } else { FREED }), Some(&diagnosis));
    // A proof sees zeros where the topmost layer took the discard.
    let tables = Tables::read(&root);
    let seen = Content { zero: if later { 0 } else { 1000 }, written: if later { 1000 } else { 0 }, ..Content::default() };
    let freed: Vec<(usize, u64)> = stack.tops.iter().map(|top| (*top, FREED / stack.tops.len() as u64)).collect();
    let observed = Observed {
        freed: seen,
        again: seen,
        kept: Content { written: 1000, ..Content::default() },
        arrival: arrival(&stack, &layers, &freed, &tables, &diagnosis.without_use(&stack)),
        promise: Promise::Unknown,
        later: later.then(|| Later::new("when idle", 2, Duration::ZERO)),
        sends_nothing: None,
        cached_by: None,
    };
    let (mut kind, text) = judge(&observed);
    if let Some((other, ..)) = agree(kind, &text, &diagnosis.verdict) {
        kind = other;
    }
    [doctor, delivery.exit_status(), kind.exit_status()]
}

/// The kernel cannot be asked without a range, and ranges are what ntfs3 must not be asked for.
#[test]
fn ntfs3_device_without_discard_is_known_by_limits() {
    for (name, none) in [("vm-ntfs3-no", true), ("vm-ntfs3-discard", false)] {
        let (_, text) = fixtures().into_iter().find(|(found, _)| found == name).unwrap();
        let tree = unpack(&text);
        let root = Root::recorded(tree.path()).unwrap();
        let stack = Place::of_path(&root, Path::new(&tree.expected.subject)).unwrap().stack;
        assert_eq!(devices_take_none(&root, &stack), none, "{name}");
    }
}

#[test]
fn on_every_recorded_machine() {
    // Which are no filesystem, or of which only root could tell.
    const LEFT_OUT: [&str; 6] = ["vm-swap", "vm-swap-fstab", "vm-swap-uuid", "vm-overlay", "sata-harmful-trim", "thin-pool-unprivileged"];
    // The way to the drive is free; by hand nothing is sent, which is what trim and verify are asked about, and both say so.
    const SENDS_LATER: [&str; 1] = ["vm-f2fs-nvme"];
    // The doctor cannot tell: a FUSE driver, modes and limits that contradict the device, a RAID volume that hides its drives, and a USB bridge that does. A trim finds out.
    const UNTOLD: [&str; 10] = [
        "dm-unknown-target",
        "fuse-ntfs",
        "perc-hard-disks",
        "perc-hard-disks-timer",
        "public-deskpi-limit-reset",
        "sata-mode-forced",
        "usb-limit-above-device",
        "usb-no-unmap",
        "usb-unmap-forced",
        "vm-usb-bot",
    ];
    let mut tried = 0;
    let mut wrong = Vec::new();
    for (name, text) in fixtures() {
        if LEFT_OUT.contains(&name.as_str()) {
            continue;
        }
        let found = statuses(&unpack(&text));
        if UNTOLD.contains(&name.as_str()) {
            assert_eq!(found[0], 4, "{name}");
            continue;
        }
        let expected = if SENDS_LATER.contains(&name.as_str()) { [0, 4, 4] } else { [found[0]; 3] };
        tried += 1;
        if found != expected {
            wrong.push(format!("{name}: doctor {}, trim {}, verify {}", found[0], found[1], found[2]));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(tried >= 43, "{tried}");
}
