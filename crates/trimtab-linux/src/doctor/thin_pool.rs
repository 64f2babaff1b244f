//! Thin pools and their volumes: whether a pool passes discards down to its data device.

use super::crypt::carries_root;
use super::limits::Limits;
use super::lvm::lvm_name;
use super::remedy::is_plain;
use super::{Doctor, Gate, LayerReport, Remedy, RemedyAction};
use crate::host::block::{Layer, LayerKind, Stack};
use crate::host::mountinfo::Mount;
use crate::host::stat::SECTOR_BYTES;
use trimtab_drive::units::Bytes;
use trimtab_drive::usage::quoted;

/// Judges a pool.
pub fn judge_pool(
    doctor: &Doctor<'_>,
    stack: &Stack,
    layer: &Layer,
    limits: &Limits,
    report: &mut LayerReport,
) {
    let tables = &doctor.tables;
    let name = layer.label.clone().unwrap_or_default();
    // The state decides: a pool configured to pass discards down stops silently if its
    // data device cannot take them.
    let says = |word: &str| tables.status(&name).any(|t| t.kind == "thin-pool" && t.says(word));
    let told = |word: &str| tables.table(&name).any(|t| t.kind == "thin-pool" && t.says(word));
    let volume = quoted(&lvm_name(name.strip_suffix("-tpool").unwrap_or(&name)));
    let down = format!("lvchange --discards passdown {volume}");
    if says("Fail") || says("ro") {
        let what = if says("Fail") {
            "has failed"
        } else {
            "is in read-only mode, in which it throws discards away"
        };
        let remedy = Remedy::by_hand(format!(
            "save its data, deactivate its volumes, and repair it: lvconvert --repair {volume}"
        ));
        report.block("thin-pool.broken", format!("the pool {what}"), remedy);
    } else if says("ignore_discard") || told("ignore_discard") {
        let remedy = if carries_root(doctor, layer) {
            from_rescue(&volume, &down)
        } else {
            while_inactive(&doctor.mounts, stack, &volume, &down)
        };
        report.block("thin-pool.ignores", "the pool ignores discards", remedy);
    } else if says("no_discard_passdown") || told("no_discard_passdown") {
        let asked = !told("no_discard_passdown") && tables.table(&name).next().is_some();
        let why = if asked {
            "the pool was told to pass discards down, but does not: its data device \
                takes none, or none as long as a chunk"
        } else {
            "the pool takes discards back into itself and does not pass them down"
        };
        let pool = lvm_name(name.strip_suffix("-tpool").unwrap_or(&name));
        let can = name.ends_with("-tpool")
            && is_plain(&name)
            && pool.split('/').all(is_plain)
            && pool.contains('/');
        let remedy = match asked {
            // The layer below decides that. If it takes discards now, the pool has not
            // noticed (stale_pool).
            true => Remedy::by_hand(
                "give the pool a data device that takes discards at least as long as \
                    a chunk (chunks are as long as when it was made)",
            ),
            false => Remedy::run(down)
                .done_by(can.then(|| RemedyAction::Passdown { name: name.clone(), pool })),
        };
        report.block("thin-pool.no-passdown", why, remedy);
    } else if says("discard_passdown") {
        report.evidence.add("state", "discard_passdown");
        report.why = format!("passes down whole chunks: {}", limits.words());
    } else if report.gate == Gate::Passes {
        report.set(
            Gate::Unknown,
            "takes discards; whether it passes them down stands in `dmsetup status`, \
            which needs root",
        );
    }
}

/// The remedy for a pool that ignores discards: the setting can change only while the
/// pool is unused.
fn while_inactive(mounts: &[Mount], stack: &Stack, pool: &str, down: &str) -> Remedy {
    let volumes: Vec<&Layer> = stack.layers.iter().filter(|l| l.kind == LayerKind::Thin).collect();
    let names =
        volumes.iter().filter_map(|l| l.label.as_deref()).map(|label| quoted(&lvm_name(label)));
    let names = names.collect::<Vec<_>>().join(" ");
    let on = |mount: &&Mount| volumes.iter().any(|volume| volume.dev == mount.dev);
    let mounted: Vec<(String, String)> = mounts
        .iter()
        .filter(on)
        .map(|m| (quoted(&super::shown(&m.source)), quoted(&super::shown(&m.mount_point))))
        .collect();
    let again: String =
        mounted.iter().map(|(source, point)| format!(" && mount {source} {point}")).collect();
    let points: Vec<&str> = mounted.iter().rev().map(|(_, point)| point.as_str()).collect();
    let inactive = Remedy::by_hand("unmount and deactivate every other volume of the pool, too");
    let unmounted = if points.is_empty() {
        inactive
    } else {
        inactive.then_run(format!("umount {}", points.join(" ")))
    };
    unmounted
        .then_run(format!("lvchange -an {names} {pool}"))
        .then_run(down)
        .then_run(format!("lvchange -ay {pool} {names}{again}"))
}

/// The same for the pool that holds the running system.
fn from_rescue(pool: &str, down: &str) -> Remedy {
    let group = pool.split('/').next().unwrap_or_default();
    Remedy::by_hand(
        "the running system is on this pool, which takes another word only while \
            nothing uses it: boot a rescue system, and continue there",
    )
    .then_run(format!("vgchange -an {group}"))
    .then_run(down)
    .then("reboot")
}

/// Judges a volume.
pub fn judge_volume(limits: &Limits, report: &mut LayerReport) {
    if report.gate == Gate::Passes && limits.granularity.unwrap_or(0) > 1 << 20 {
        let text = format!(
            "discards smaller than a chunk of {} do nothing",
            Bytes(limits.granularity.unwrap_or(0))
        );
        report.note("thin.large-chunks", text);
    }
}

/// Reports a pool that is set to pass discards down but checked its data device only at
/// activation.
pub fn stale_pool(doctor: &Doctor<'_>, stack: &Stack, index: usize, reports: &mut [LayerReport]) {
    let name = stack.layers[index].label.clone().unwrap_or_default();
    let Some(target) = doctor
        .tables
        .table(&name)
        .find(|t| t.kind == "thin-pool" && !t.says("no_discard_passdown"))
    else {
        return;
    };
    let stopped =
        doctor.tables.status(&name).any(|t| t.kind == "thin-pool" && t.says("no_discard_passdown"));
    let chunk: Option<u64> =
        target.arguments.split_ascii_whitespace().nth(2).and_then(|sectors| sectors.parse().ok());
    let legs: Vec<usize> = stack.legs_of(index).collect();
    let takes = |leg: usize| {
        let most =
            doctor.root.read_u64(stack.layers[leg].queue().join("discard_max_bytes")).unwrap_or(0);
        let unit = doctor
            .root
            .read_u64(stack.layers[leg].queue().join("discard_granularity"))
            .unwrap_or(0);
        let fits = |chunk: u64| most >= chunk && chunk.checked_rem(unit) == Some(0);
        reports[leg].gate == Gate::Passes
            && chunk.is_some_and(|sectors| fits(sectors.saturating_mul(SECTOR_BYTES)))
    };
    if !stopped || legs.is_empty() || !legs.iter().all(|&leg| takes(leg)) {
        return;
    }
    let text = "the pool was told to pass discards down, and found none to take them when it \
        was activated; what is below takes them now";
    let report = &mut reports[index];
    report.why = text.to_owned();
    report.findings.retain(|finding| finding.code != "thin-pool.no-passdown");
    report.serious("dm.stale-limits", text, Remedy::reload(&name));
}
