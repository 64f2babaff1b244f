//! `doctor`, `trim` and `verify` exit with the same status on every recorded machine. The
//! doctor judges the tree. `trim` and `verify` judge the discard counters of the layers.
//! These counters are derived from nothing but the limits in the tree: a layer with a
//! discard limit of 0 accepts none, and any other layer passes discards on to every layer
//! below it, except a pool without passdown.

use crate::sysroot::{Sysroot, fixtures, unpack};
use std::path::Path;
use std::time::Duration;
use trimtab_drive::discards::Amount;
use trimtab_drive::units::Bytes;
use trimtab_linux::doctor::{Doctor, Tables, VerdictKind};
use trimtab_linux::host::Place;
use trimtab_linux::host::block::{Layer, LayerKind, Stack};
use trimtab_linux::host::discards::{LayerDiscards, fates};
use trimtab_linux::host::root::Root;
use trimtab_linux::trim::delivery::judge_on;
use trimtab_linux::trim::filesystem::sends_later;
use trimtab_linux::trim::fitrim::devices_take_none;
use trimtab_linux::trim::verify::agree;
use trimtab_linux::trim::verify::arrival::arrival;
use trimtab_linux::trim::verify::readback::BlockContents;
use trimtab_linux::trim::verify::verdict::{DiscardDelay, Promise, ProofObservations, judge};

const FREED: u64 = 400 << 20;
const BLOCKED: u8 = 3;

/// True if the kernel sends discards to this layer.
fn takes(root: &Root, layer: &Layer) -> bool {
    let read_only = root.read_u64(layer.sys.join("ro")) == Some(1);
    matches!(layer.kind, LayerKind::File { .. })
        || !read_only
            && root.read_u64(layer.queue().join("discard_max_bytes")).is_some_and(|most| most > 0)
}

fn keeps(tree: &Sysroot, layer: &Layer) -> bool {
    let read = |name: &str| std::fs::read_to_string(tree.path().join(name)).unwrap_or_default();
    let table = read("dmsetup-table") + &read("dmsetup-status");
    let label = layer.label.clone().unwrap_or_default();
    let name = label.replace("-tpool", "");
    let is_cache = |line: &str| line.starts_with(&format!("{label}: ")) && line.contains(" cache ");
    let is_vdo = |line: &str| line.starts_with(&format!("{label}: ")) && line.contains(" vdo ");
    if table
        .lines()
        .any(|line| is_cache(line) && line.contains("no_discard_passdown") || is_vdo(line))
    {
        return true;
    }
    let lines = table.lines().filter(|line| line.contains("thin-pool") && line.starts_with(&name));
    matches!(layer.kind, LayerKind::ThinPool)
        && lines.into_iter().any(|line| {
            [" no_discard_passdown", " ignore_discard", " ro "]
                .iter()
                .any(|word| line.contains(word))
        })
}

/// The discard count of each layer after a trim; `None` for a layer without a counter.
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
            todo.extend(
                layer
                    .below
                    .iter()
                    .copied()
                    .filter(|below| !stack.layers[*below].gets_no_discards()),
            );
        }
    }
    // A loop device on a block device writes zeroes to it, which do not count as
    // discards.
    let on_device = |layer: &Layer| {
        layer.below.iter().any(|below| !matches!(stack.layers[*below].kind, LayerKind::File { .. }))
    };
    let loops = stack
        .layers
        .iter()
        .filter(|layer| matches!(layer.kind, LayerKind::Loop) && on_device(layer));
    let mut zeroed: Vec<usize> = loops.flat_map(|layer| layer.below.iter().copied()).collect();
    let mut next = 0;
    while next < zeroed.len() {
        zeroed.extend(stack.layers[zeroed[next]].below.iter().copied());
        next += 1;
    }
    let one = |(at, (layer, bytes)): (usize, (&Layer, u64))| match &layer.kind {
        LayerKind::File { .. } => None,
        _ if zeroed.contains(&at) => None,
        // These levels do not count discards, as observed on the recorded machines.
        LayerKind::Md(level) if level == "raid0" || level == "raid5" => Some(Amount::default()),
        _ => Some(Amount::new(bytes / (1 << 20), bytes)),
    };
    stack.layers.iter().zip(bytes).enumerate().map(one).collect()
}

/// The exit statuses of doctor, trim and verify.
fn statuses(tree: &Sysroot) -> [u8; 3] {
    let root = Root::recorded(tree.path()).unwrap();
    let subject = Path::new(&tree.expected.subject);
    let diagnosis = Doctor::new(&root).unwrap().examine_path(subject).unwrap();
    let place = Place::of_path(&root, subject).unwrap();
    let (mount, stack) = (place.mount.unwrap(), place.stack);
    let doctor = diagnosis.verdict.kind.exit_status();
    // If FITRIM is refused, trim and verify fail before they read any counter.
    let no_fitrim = mount.fs_type.starts_with("fuse")
        || (mount.fs_type == "ntfs3" && !mount.has_option("discard"));
    if no_fitrim || !stack.top_layers().any(|top| takes(&root, top)) {
        let status = if diagnosis.verdict.kind == VerdictKind::NotNeeded { 0 } else { BLOCKED };
        return [doctor, status, status];
    }
    let later = sends_later(&root, &mount, &stack);
    let own = if later {
        vec![Some(Amount::default()); stack.layers.len()]
    } else {
        counted(tree, &root, &stack)
    };
    let layers: Vec<LayerDiscards> = fates(&stack, &own);
    let (delivery, _) = judge_on(
        &root,
        &mount,
        &stack,
        &layers,
        Bytes(if later { 0 } else { FREED }),
        Some(&diagnosis),
    );
    // The proof reads zeros wherever the topmost layer accepted the discard.
    let tables = Tables::read(&root);
    let seen = BlockContents {
        zero: if later { 0 } else { 1000 },
        written: if later { 1000 } else { 0 },
        ..BlockContents::default()
    };
    let freed: Vec<(usize, u64)> =
        stack.tops.iter().map(|top| (*top, FREED / stack.tops.len() as u64)).collect();
    let observed = ProofObservations {
        freed: seen,
        again: seen,
        kept: BlockContents { written: 1000, ..BlockContents::default() },
        arrival: arrival(&stack, &layers, &freed, &tables, &diagnosis.without_use(&stack)),
        promise: Promise::Unknown,
        later: later.then(|| DiscardDelay::new("when idle", 2, Duration::ZERO)),
        sends_nothing: None,
        cached_by: None,
    };
    let (mut kind, text) = judge(&observed);
    if let Some((other, ..)) = agree(kind, &text, &diagnosis.verdict) {
        kind = other;
    }
    [doctor, delivery.exit_status(), kind.exit_status()]
}

/// The kernel offers no FITRIM without a range, and ntfs3 must never receive a range.
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
fn doctor_trim_and_verify_agree_on_recorded_machines() {
    // Not filesystems, or undecidable without root.
    const LEFT_OUT: [&str; 6] = [
        "vm-swap",
        "vm-swap-fstab",
        "vm-swap-uuid",
        "vm-overlay",
        "sata-harmful-trim",
        "thin-pool-unprivileged",
    ];
    // Discards reach the drive, but a manual trim sends none. `trim` and `verify` judge
    // the manual trim and report that.
    const SENDS_LATER: [&str; 1] = ["vm-f2fs-nvme"];
    // The doctor cannot judge these, but a trim can: a FUSE driver, modes and limits that
    // contradict the device, a RAID volume that hides its drives, and a USB bridge that
    // hides its drive.
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
            wrong.push(format!(
                "{name}: doctor {}, trim {}, verify {}",
                found[0], found[1], found[2]
            ));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(tried >= 43, "{tried}");
}
