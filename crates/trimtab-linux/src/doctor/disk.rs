//! Checks shared by several kinds of drives.

use super::{Gate, LayerReport};
use crate::host::block::Layer;
use crate::host::drive::{self, AtaIdentify};
use crate::host::root::Root;

pub fn hard_disk(report: &mut LayerReport) {
    report.set(Gate::NotNeeded, "a hard disk: it has no use for TRIM");
}

/// Returns whether the drive rotates, by its own report or else by the kernel's flag. The
/// kernel's default is true.
pub fn is_rotational(root: &Root, layer: &Layer) -> bool {
    drive::says_rotates(root, layer)
        .unwrap_or_else(|| root.read_u64(layer.queue().join("rotational")) == Some(1))
}

pub fn note_identify(identify: Option<&AtaIdentify>, report: &mut LayerReport) {
    let Some(identify) = identify else { return };
    report.evidence.add(
        "identify",
        format!("TRIM {}", if identify.trim() { "supported" } else { "not supported" }),
    );
    let after = match (identify.deterministic_after_trim(), identify.zero_after_trim()) {
        (true, true) => "zeroes (RZAT)",
        (true, false) => "the same each time (DRAT)",
        _ => "anything",
    };
    if identify.trim() {
        report.evidence.add("reads after TRIM", after);
    }
}
