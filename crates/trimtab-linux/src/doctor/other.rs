//! Block devices that are neither drives on a known bus nor made of other block devices.

use super::{Finding, Gate, LayerReport, Severity};
use crate::host::block::Layer;

/// Kinds by the beginning of the kernel's name: what discards come to, and whether that is known.
const KINDS: [(&str, Gate, &str); 9] = [
    ("xvd", Gate::Passes, "a virtual disk of Xen: the host decides what becomes of discards"),
    ("cciss!", Gate::Passes, "a logical volume of a RAID controller, which takes discards"),
    ("rbd", Gate::Passes, "a Ceph volume: discards free space in the cluster"),
    ("zd", Gate::Unknown, "a ZFS volume: discards free space in its pool; the drives get them by zpool trim or autotrim=on"),
    ("drbd", Gate::Unknown, "DRBD passes discards on if the backing devices of all nodes take them; run trimtab doctor on those"),
    ("ublkb", Gate::Unknown, "a server in user space decides what becomes of discards"),
    ("pmem", Gate::Unknown, "persistent memory: it is not known whether discards free anything"),
    ("nullb", Gate::Unknown, "a test device of the kernel"),
    ("rssd", Gate::Passes, "a PCIe drive with a driver of its own, which takes discards"),
];

/// Judges a device whose limits are known.
pub fn judge(layer: &Layer, report: &mut LayerReport) {
    if report.gate != Gate::Passes {
        return;
    }
    let known = KINDS.iter().find(|(prefix, ..)| layer.name.starts_with(prefix));
    let (gate, why) = known
        .map_or((Gate::Unknown, "a kind of device that is not known: it takes discards, and nothing shows what becomes of them"), |k| {
            (k.1, k.2)
        });
    report.gate = gate;
    report.why = why.to_owned();
    if gate == Gate::Unknown {
        let text = "trimtab trim and trimtab verify show what this device makes of discards";
        report.findings.push(Finding::new("device.kind-unknown", Severity::Note, text));
    }
}
