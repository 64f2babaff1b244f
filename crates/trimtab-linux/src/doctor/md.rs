//! md arrays: the members that get discards, and the reasons why an array takes none.

use super::{Gate, LayerReport, Remedy};
use crate::host::block::Layer;
use crate::host::root::Root;
use trimtab_drive::usage::quoted;

/// Judges an array.
pub fn judge(root: &Root, layer: &Layer, level: &str, report: &mut LayerReport) {
    report.evidence.add_some("level", Some(level));
    report.evidence.add_some("array_state", root.read(layer.sys.join("md/array_state")));
    report
        .evidence
        .add_some("chunk_size", root.read_u64(layer.sys.join("md/chunk_size")).filter(|c| *c > 0));
    let parity = matches!(level, "raid4" | "raid5" | "raid6");
    mismatches(root, layer, parity, report);
    // Only Red Hat's kernels have this switch; with N the limits are meaningless.
    let switch = root.read(format!("/sys/module/{level}/parameters/devices_discard_performance"));
    report.evidence.add_some("devices_discard_performance", switch.clone());
    if switch.as_deref() == Some("N") {
        let remedy = Remedy::by_hand(format!(
            "only if all members carry out short discards fast: put \
                {level}.devices_discard_performance=Y on the kernel command line"
        ));
        let why = format!(
            "this kernel passes no discards through {level}: \
                {level}.devices_discard_performance is N"
        );
        report.block("md.raid0-switch", why, remedy);
        return;
    }
    if !parity {
        report.why = match report.gate {
            Gate::Passes => "passes discards to every member that takes them".to_owned(),
            Gate::Blocks => "takes no discards: no member takes any".to_owned(),
            _ => report.why.clone(),
        };
        return;
    }
    with_parity(root, layer, level, report);
}

/// Judges an array with parity: after a discard, parity is correct only if all members
/// read as zeroes there.
fn with_parity(root: &Root, layer: &Layer, level: &str, report: &mut LayerReport) {
    let safe = root.read("/sys/module/raid456/parameters/devices_handle_discard_safely");
    report.evidence.add_some("devices_handle_discard_safely", safe.clone());
    let allowed = safe.as_deref() == Some("Y");
    if report.gate == Gate::Passes {
        report.why = "passes discards of whole stripes".to_owned();
        let until = if allowed {
            ""
        } else {
            " (it is N by now, which counts when the array is next assembled)"
        };
        let text = format!(
            "assembled with raid456.devices_handle_discard_safely=Y{until}: parity \
                is right only if every member reads zeroes after a discard, each time; \
                check the array before the first trim: mismatch_cnt has to be 0"
        );
        report.note("md.parity-trusts-members", text);
        return;
    }
    if allowed {
        report.why = "takes no discards: devices_handle_discard_safely was set after the \
                array was assembled, or a member takes none, or none as long as a stripe"
            .to_owned();
        let remedy = Remedy::by_hand(
            "the switch counts only when the array is assembled: reboot; or unmount \
                what is on the array, and continue here",
        )
        .then_run(format!("mdadm --stop {}", quoted(&layer.node())))
        .then_run("mdadm --assemble --scan")
        .then(
            "if the array takes none even then, compare the discard limits of its \
            members with its stripe (lsblk --discard)",
        );
        report.serious("md.parity-stripe", report.why.clone(), remedy);
    } else {
        report.why = format!(
            "{level} takes no discards, because a member that does not read zeroes \
                afterwards would spoil the parity"
        );
        let md = quoted(&format!("/sys/block/{}/md", layer.name));
        let remedy = Remedy::run(format!("echo check > {md}/sync_action"))
            .then_run(format!("cat {md}/mismatch_cnt"))
            .then(
                "only if the count is 0 after the check and all members read zeroes \
                    after TRIM: put raid456.devices_handle_discard_safely=Y on the kernel \
                    command line, and reboot: it counts only when the array is assembled",
            )
            .then("otherwise leave 10 % to 20 % of each member unused");
        report.serious("md.parity", report.why.clone(), remedy);
    }
}

/// Reports mismatches of the last array check. With parity, trimming destroys the
/// evidence of the faulty member.
fn mismatches(root: &Root, layer: &Layer, parity: bool, report: &mut LayerReport) {
    let Some(count) = root.read_u64(layer.sys.join("md/mismatch_cnt")) else { return };
    report.evidence.add("mismatch_cnt", count.to_string());
    if count == 0 {
        return;
    }
    let text = format!(
        "mismatch_cnt is {count}: the members differed in {count} sectors when they \
            were last compared"
    );
    if parity {
        let repair = format!(
            "echo repair > {}",
            quoted(&format!("/sys/block/{}/md/sync_action", layer.name))
        );
        let remedy = Remedy::by_hand("before any trim: look for a failing member (smartctl)")
            .then_run(repair);
        report.caution("md.mismatch", text, remedy);
    } else {
        report.note(
            "md.mismatch",
            format!("{text}; trimmed space of members that do not read zeroes is among them"),
        );
    }
}
