//! Block devices that are neither drives on a known bus nor built from other block
//! devices.

use super::{Gate, LayerReport, Remedy, is_numbered};
use crate::host::block::{Bus, Layer, LayerKind};

/// Kinds by the prefix of the kernel name: gate and reason.
const KINDS: [(&str, Gate, &str); 8] = [
    ("xvd", Gate::Passes, "a virtual disk of Xen: the host decides what becomes of discards"),
    ("cciss!", Gate::Passes, "a logical volume of a RAID controller, which takes discards"),
    ("rbd", Gate::Passes, "a Ceph volume: discards free space in the cluster"),
    (
        "zd",
        Gate::Unknown,
        "a ZFS volume: discards free space in its pool; the drives get them by zpool \
            trim or autotrim=on",
    ),
    (
        "drbd",
        Gate::Unknown,
        "DRBD passes discards on if the backing devices of all nodes take them; run \
            trimtab doctor on those",
    ),
    ("ublkb", Gate::Unknown, "a server in user space decides what becomes of discards"),
    ("nullb", Gate::Unknown, "a test device of the kernel"),
    ("rssd", Gate::Passes, "a PCIe drive with a driver of its own, which takes discards"),
];

/// Kinds that take no discards and do not benefit from them.
const WITHOUT_USE: [(&str, &str); 2] = [
    (
        "pmem",
        "persistent memory: nothing in it has to be erased before it is written, so \
            it has no use for discards",
    ),
    ("ram", "a disk in memory: it has no use for discards"),
];

/// Judges a device whose limits are known.
pub fn judge(layer: &Layer, report: &mut LayerReport) {
    let without_use = WITHOUT_USE.iter().find(|(prefix, _)| is_numbered(&layer.name, prefix));
    match (report.gate, without_use) {
        (Gate::Blocks, Some((_, why))) => report.set(Gate::NotNeeded, *why),
        (Gate::Blocks, None) => without_discards(layer, report),
        _ => {}
    }
    if report.gate != Gate::Passes {
        return;
    }
    let known = KINDS.iter().find(|(prefix, ..)| layer.name.starts_with(prefix));
    match known {
        Some((_, gate, why)) => report.set(*gate, *why),
        None => report.set(
            Gate::Unknown,
            "a kind of device that is not known: it takes discards, and nothing shows \
            what becomes of them",
        ),
    }
    if report.gate == Gate::Unknown {
        report.note(
            "device.kind-unknown",
            "trimtab trim and trimtab verify show what this device makes of discards",
        );
    }
}

/// Judges a device that takes no discards and about which nothing else is known.
fn without_discards(layer: &Layer, report: &mut LayerReport) {
    if !report.findings.is_empty() {
        return;
    }
    let step = match layer.kind {
        LayerKind::Drive(Bus::Nbd) => {
            "let its server offer TRIM (qemu-nbd --discard=unmap; nbd-server: trim = \
                true), and connect it again"
        }
        _ if layer.name.starts_with("drbd") => {
            "run trimtab doctor on the backing devices of all nodes, and mend what it finds there"
        }
        _ => {
            "see the documentation of its driver; without discards leave 10 % to 20 \
                % of the drive unused"
        }
    };
    report.block("device.no-discards", "its driver takes no discards", Remedy::by_hand(step));
}
