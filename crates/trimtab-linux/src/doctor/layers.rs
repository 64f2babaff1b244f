//! Effect on discards of each layer between filesystem and drive.

use super::crypt::{self, plain_crypt};
use super::filesystem::{self, NonBlockStorage};
use super::limits::Limits;
use super::lvm::lvm_name;
use super::mapper::MapperTarget;
use super::remedy::{is_plain, kept_options};
use super::survey::is_boot_area;
use super::{
    Doctor, Gate, LayerReport, Remedy, RemedyAction, Severity, drives, is_listed, md, thin_pool,
};
use crate::host::block::{self, Bus, Layer, LayerKind, Stack, node_of};
use crate::host::environment::{alignment, kind_name};
use crate::host::root::Root;
use crate::host::stat::SECTOR_BYTES;
use trimtab_drive::units::Bytes;
use trimtab_drive::usage::quoted;

/// Judges the layer at `index`.
pub fn judge(doctor: &Doctor<'_>, stack: &Stack, index: usize) -> LayerReport {
    let layer = &stack.layers[index];
    let mut report = LayerReport::blank(layer.title(), kind_name(&layer.kind), layer.below.clone());
    if let LayerKind::File { fs_type, mount_point } = &layer.kind {
        file(doctor, layer, fs_type, mount_point, &mut report);
        return report;
    }
    let limits = Limits::read(doctor.root, layer);
    report.gate = limits.gate();
    report.why = limits.words();
    limits.note(&mut report.evidence);
    lowered(&limits, layer, &mut report);
    match &layer.kind {
        LayerKind::Partition => partition(doctor.root, layer, &limits, &mut report),
        // The switched-off limit has already been reported.
        LayerKind::Loop if limits.switched_off() => {}
        LayerKind::Loop => on_loop(stack, layer, &limits, &mut report),
        LayerKind::Crypt => crypt::judge(doctor, stack, layer, &mut report),
        LayerKind::ThinPool => thin_pool::judge_pool(doctor, stack, layer, &limits, &mut report),
        LayerKind::Thin => thin_pool::judge_volume(&limits, &mut report),
        LayerKind::Lvm | LayerKind::Mapper(_) => mapper(doctor, layer, &mut report),
        LayerKind::Md(level) => md::judge(doctor.root, layer, level, &mut report),
        LayerKind::Drive(bus) => drives::judge(doctor.root, layer, *bus, &limits, &mut report),
        LayerKind::Bcache if report.gate == Gate::Passes => {
            report.why =
                "passes discards on to what it caches, and forgets what the cache holds of it"
                    .to_owned()
        }
        LayerKind::Bcache | LayerKind::File { .. } => {}
    }
    if stack.written_as_zeroes().contains(&index) {
        zeroed(&limits, &mut report);
    }
    if is_boot_area(&layer.name) {
        report.set(
            Gate::NotNeeded,
            "a boot or replay-protected area of an eMMC device, which holds no files",
        );
        report.findings.clear();
    }
    if report.gate != Gate::NotNeeded && layer.is_read_only(doctor.root) {
        read_only(doctor.root, layer, &mut report);
    }
    report
}

/// Remedy for a loop device on a block device.
const WITHOUT_LOOP: &str = "use the block device itself instead of a loop device on it";

/// Reports a read-only device: the kernel refuses every discard on it, whatever its
/// limits are.
fn read_only(root: &Root, layer: &Layer, report: &mut LayerReport) {
    report.evidence.add("ro", "1");
    // A partition is read-only if its disk is.
    let disk = layer.sys.parent().filter(|disk| {
        layer.kind == LayerKind::Partition && root.read_u64(disk.join("ro")) == Some(1)
    });
    let name = disk.and_then(|disk| disk.file_name()?.to_str()).unwrap_or(&layer.name);
    let node = quoted(&node_of(name));
    let label = layer.label.as_deref().unwrap_or(&layer.name);
    let remedy = match &layer.kind {
        LayerKind::Loop => Remedy::by_hand(format!("unmount {node}"))
            .then_run(format!("losetup --detach {node}"))
            .then("attach the file again without --read-only"),
        LayerKind::Lvm | LayerKind::Thin => {
            Remedy::run(format!("lvchange --permission rw {}", quoted(&lvm_name(label))))
        }
        LayerKind::Crypt => {
            Remedy::by_hand(format!("close {} and open it without --readonly", quoted(label)))
        }
        LayerKind::Md(_) => Remedy::run(format!("mdadm --readwrite {node}")),
        _ => Remedy::by_hand(
            "first find out whether the device is read-only on purpose: a \
                write-protect switch, or the host that presents it",
        )
        .then_run(format!("blockdev --setrw {node}")),
    };
    // Other obstacles become visible once this one is fixed.
    report.findings.retain(|finding| finding.severity < Severity::Serious);
    report.block("device.read-only", "the device is read-only", remedy);
}

/// A loop device on a block device passes discards down as zero writes, so the discard
/// support of the layers below does not matter.
fn zeroed(limits: &Limits, report: &mut LayerReport) {
    if report.gate == Gate::NotNeeded || limits.write_zeroes == Some(0) {
        return;
    }
    report.set(
        Gate::Unknown,
        "gets writes of zeroes in place of discards, and whether it frees what they \
        cover is its own affair",
    );
    report.evidence.add_some("write_zeroes_max_bytes", limits.write_zeroes);
    report.findings.retain(|finding| finding.severity != Severity::Serious);
}

/// Reports a discard limit set below the hardware maximum, possibly to 0.
fn lowered(limits: &Limits, layer: &Layer, report: &mut LayerReport) {
    let (Some(max), Some(highest)) = (limits.max, limits.highest()) else { return };
    if limits.switched_off() {
        let text = "discards were switched off by writing 0 to discard_max_bytes";
        report.why = text.to_owned();
        let remedy = match limits.granularity {
            // Linux 6.11 and later then reject every other value.
            Some(0) => from_scratch(layer),
            _ => limits.set(layer, highest),
        };
        report.serious("limits.switched-off", text, remedy);
    } else if max < highest && max < 1 << 20 {
        let text = format!(
            "discard_max_bytes is only {}: a trim becomes very many small commands",
            Bytes(max)
        );
        let enough = highest.min((128 << 20).max(limits.granularity.unwrap_or(0)));
        report.caution("limits.tiny", text, limits.set(layer, enough));
    }
}

/// Recreates a device so that it gets its original limits, once it is unused.
fn from_scratch(layer: &Layer) -> Remedy {
    let disk = match layer.kind {
        LayerKind::Partition => layer.sys.parent().unwrap_or(&layer.sys),
        _ => &layer.sys,
    };
    let name = disk.file_name().and_then(|n| n.to_str()).unwrap_or(&layer.name);
    let node = quoted(&node_of(name));
    let first = Remedy::by_hand(format!(
        "reboot, since this kernel takes no other value for {node} any more; or \
            unmount everything on it, and continue here"
    ));
    match block::bus(disk) {
        Bus::Ata | Bus::Usb | Bus::Scsi | Bus::VirtioScsi => first
            .then_run(format!("echo 1 > {}", quoted(&format!("/sys/block/{name}/device/delete"))))
            .then_run("echo '- - -' | tee /sys/class/scsi_host/host*/scan"),
        Bus::Nvme => first
            .then_run(format!(
                "echo 1 > {}",
                quoted(&format!("/sys/block/{name}/device/device/remove"))
            ))
            .then_run("echo 1 > /sys/bus/pci/rescan"),
        // Detaching keeps the limit, and --find returns the same number.
        _ if layer.kind == LayerKind::Loop => {
            first.then_run(format!("losetup --detach {node}")).then(
                "attach the file to a loop device whose number ls /sys/block does not \
                show (losetup /dev/loopN FILE): a number in use before may keep its limit",
            )
        }
        _ => first.then("detach the device and attach it again"),
    }
}

fn file(
    doctor: &Doctor<'_>,
    layer: &Layer,
    fs_type: &str,
    mount_point: &std::path::Path,
    report: &mut LayerReport,
) {
    let discards_online = doctor.mounts.iter().rfind(|m| m.mount_point == mount_point);
    let discards_online = discards_online.is_some_and(|mount| {
        let stack = Stack::of_mount(doctor.root, &doctor.mounts, mount);
        super::discards_online(doctor.root, mount, &stack)
    });
    let mount_point = super::shown(mount_point);
    report.set(Gate::Passes, "discards punch holes into the file");
    report.evidence.add("filesystem", fs_type);
    report.evidence.add("mount point", mount_point.clone());
    if layer.name.ends_with(" (deleted)") {
        report.note(
            "file.deleted",
            "the file has been deleted; its space is freed with the loop device",
        );
    }
    if fs_type == block::VIRTUAL_SSD {
        report.why =
            "a modelled drive that 'trimtab drive attach' serves; it takes discards".to_owned();
        // The server creates this path: drives/ID/mnt/drive.
        if let Some(id) = std::path::Path::new(&layer.name)
            .ancestors()
            .nth(2)
            .and_then(std::path::Path::file_name)
        {
            report.name = id.to_string_lossy().into_owned();
        }
        if let Some(problem) = layer.server_problem(doctor.root) {
            report.set(Gate::Unknown, problem);
            if problem == block::SERVER_SILENT {
                let remedy =
                    filesystem::silent_drive(doctor.root, std::path::Path::new(&mount_point));
                report.serious(filesystem::SILENT, problem, remedy);
            }
        }
        return;
    }
    let text = match NonBlockStorage::of(fs_type, std::path::Path::new("")) {
        // No drive is involved.
        Some(NonBlockStorage::Memory) => {
            report.why = "discards punch holes into the file, which frees memory".to_owned();
            return;
        }
        Some(NonBlockStorage::Machine) => {
            format!(
                "the file is on another machine, and what becomes of its holes shows \
                    there: {mount_point}"
            )
        }
        _ => format!(
            "what becomes free on {mount_point} reaches the drive {}: trimtab doctor {}",
            if discards_online { "at once" } else { "when that filesystem is trimmed" },
            quoted(&mount_point)
        ),
    };
    report.note("file.second-filesystem", text);
}

/// Judges a partition: it passes the same discards as its disk, but its start offset
/// matters.
fn partition(root: &Root, layer: &Layer, limits: &Limits, report: &mut LayerReport) {
    report.why = match report.gate {
        Gate::Passes => "passes what its disk takes".to_owned(),
        _ => "its disk takes no discards".to_owned(),
    };
    let Some(start) = root.read_u64(layer.sys.join("start")) else { return };
    let start_bytes = start.saturating_mul(SECTOR_BYTES);
    report.evidence.add("start", format!("{start_bytes} B, aligned to {}", alignment(start_bytes)));
    let granularity = limits.granularity.unwrap_or(0);
    if granularity == 0 || start_bytes.is_multiple_of(granularity) {
        return;
    }
    let remedy = Remedy::by_hand(format!(
        "when it is next created, give the partition a start and a size that are multiples of the \
            discard unit of {granularity} B"
    ));
    let text = format!(
        "starts at sector {start}, not on a multiple of the discard unit of {granularity} B: \
            discards are cut at both ends"
    );
    report.caution("partition.misaligned", text, remedy);
}

fn on_loop(stack: &Stack, layer: &Layer, limits: &Limits, report: &mut LayerReport) {
    let on_device =
        layer.below.iter().any(|&i| !matches!(stack.layers[i].kind, LayerKind::File { .. }));
    match (report.gate, on_device) {
        (Gate::Passes, true) => {
            let text = "a loop device on a block device turns discards into writes of zeroes; \
                whether the drive unmaps them is its own affair";
            report.caution("loop.on-device", text, Remedy::by_hand(WITHOUT_LOOP));
            report.evidence.add_some("write_zeroes_max_bytes", limits.write_zeroes);
        }
        (Gate::Blocks, true) => {
            let why = "a loop device on a block device takes discards only if that can unmap \
                by writing zeroes";
            report.block("loop.on-device", why, Remedy::by_hand(WITHOUT_LOOP));
        }
        (Gate::Blocks, false) => {
            let why = "the filesystem that holds the file cannot punch holes, or the loop \
                device is read-only";
            let remedy = "keep the file on a filesystem that can punch holes (ext4, XFS, btrfs, \
                tmpfs), and attach it writable";
            report.block("loop.no-holes", why, Remedy::by_hand(remedy));
        }
        _ => {}
    }
}

/// Targets that pass discards on, as far as the layers below take them.
const PASSING: &str = "linear striped raid mirror multipath cache writecache clone era integrity crypt \
    delay flakey switch snapshot-origin snapshot-merge log-writes";

/// Code of the finding about a VDO volume, to which a trim returns free space.
pub const VDO_KEEPS: &str = "vdo.keeps";

/// Describes the fate of discards that a target takes.
fn passing(
    doctor: &Doctor<'_>,
    layer: &Layer,
    name: &str,
    kinds: &[&str],
    report: &mut LayerReport,
) {
    let keeps = |target: &&MapperTarget| {
        matches!(target.kind.as_str(), "cache" | "clone") && target.says("no_discard_passdown")
    };
    if let Some(target) = doctor.tables.table(name).chain(doctor.tables.status(name)).find(keeps) {
        let remedy = Remedy::by_hand(
            "set it up without the feature no_discard_passdown, on a device that \
                takes discards at least as long as one of its blocks",
        );
        let why = format!(
            "dm-{} takes discards and does not pass them down (no_discard_passdown)",
            target.kind
        );
        report.block("cache.no-passdown", why, remedy);
    } else if kinds.contains(&"vdo") || layer.kind == LayerKind::Mapper("VDO".into()) {
        let remedy = Remedy::by_hand(
            "leave 10 % to 20 % of the drive below unused; a trim gives VDO its space back",
        )
        .then(
            "trim it with pauses, since VDO works off discards block by block: \
                trimtab trim --policy idle",
        );
        report.block(
            VDO_KEEPS,
            "VDO takes discards back into itself and does not pass them down",
            remedy,
        );
    } else if let Some(unknown) = kinds.iter().find(|kind| !is_listed(PASSING, kind)) {
        report.set(
            Gate::Unknown,
            format!(
                "the device-mapper target {unknown} takes discards; whether it passes them \
            on is not known"
            ),
        );
    } else {
        report.why = "passes discards on".to_owned();
    }
}

/// Judges device-mapper targets for which the limits alone are not enough.
fn mapper(doctor: &Doctor<'_>, layer: &Layer, report: &mut LayerReport) {
    let name = layer.label.clone().unwrap_or_default();
    let kinds: Vec<&str> = doctor.tables.table(&name).map(|t| t.kind.as_str()).collect();
    if !kinds.is_empty() {
        let mut unique = kinds.clone();
        unique.dedup();
        report.evidence.add("targets", unique.join(", "));
    }
    if report.gate == Gate::Passes {
        passing(doctor, layer, &name, &kinds, report);
        return;
    }
    let is_lvm = layer.kind == LayerKind::Lvm;
    let by_uuid = match &layer.kind {
        LayerKind::Mapper(tool) if tool == "INTEGRITY" => Some("integrity"),
        LayerKind::Mapper(tool) if tool == "VERITY" => Some("verity"),
        _ => None,
    };
    let (code, text, remedy) = match kinds.first().copied().or(by_uuid) {
        Some("integrity") if is_of_crypt(doctor.tables.table(&name), &name) => (
            "integrity.of-crypt",
            "dm-integrity below dm-crypt passes no discards: its checksums are those \
                of the encryption",
            crypt::without_integrity(),
        ),
        Some("integrity") => (
            "integrity.no-allow-discards",
            "dm-integrity drops discards: allow_discards is not set",
            integrity(doctor.tables.table(&name), &name),
        ),
        Some(kind @ ("snapshot" | "snapshot-origin")) => old_snapshot(kind, is_lvm, &name),
        Some("verity") => return report.set(Gate::NotNeeded, "read-only: nothing becomes free"),
        Some("raid") if is_parity(doctor.tables.table(&name)) => (
            "raid.parity",
            "dm-raid with parity takes no discards unless its members are known to \
                read zeroes afterwards",
            without_parity(is_lvm, &name),
        ),
        Some(
            "raid" | "mirror" | "cache" | "era" | "clone" | "multipath" | "linear" | "striped"
            | "writecache",
        )
        | None => {
            if report.gate == Gate::Blocks {
                report.why = "takes no discards: some device below takes none".to_owned();
            }
            return;
        }
        Some(_) => (
            "dm.no-discards",
            "this device-mapper target takes no discards",
            Remedy::by_hand("see its documentation"),
        ),
    };
    report.block(code, text, remedy);
}

/// Code, text and remedy of a volume with, or that is, an old-style snapshot.
fn old_snapshot(kind: &str, is_lvm: bool, name: &str) -> (&'static str, &'static str, Remedy) {
    match (kind, is_lvm) {
        (_, false) => (
            "snapshot.of-this-volume",
            "a volume takes no discards while it has an old-style snapshot",
            Remedy::by_hand(
                "remove the snapshot with the tool that set it up, when it has served \
                its purpose",
            ),
        ),
        ("snapshot", true) => (
            "snapshot.no-discards",
            "an old-style snapshot takes no discards",
            Remedy::by_hand(
                "lvremove it, or lvconvert --merge it, when it has served its purpose; \
                thin snapshots do not have this",
            ),
        ),
        (_, true) => (
            "snapshot.of-this-volume",
            "the volume takes no discards while it has an old-style snapshot",
            Remedy::run(format!(
                "lvs {}",
                quoted(lvm_name(name).split('/').next().unwrap_or_default())
            ))
            .then(
                "remove the snapshots that it lists (lvremove) when they have served \
                    their purpose; thin snapshots do not have this",
            ),
        ),
    }
}

fn without_parity(is_lvm: bool, name: &str) -> Remedy {
    if !is_lvm {
        return Remedy::by_hand("leave 10 % to 20 % of each member unused");
    }
    let volume = quoted(&lvm_name(name));
    Remedy::run(format!("lvchange --syncaction check {volume}"))
        .then_run(format!("lvs -o raid_mismatch_count {volume}"))
        .then(
            "only if the count is 0 after the check and all members read zeroes after TRIM: put \
            dm_raid.devices_handle_discard_safely=Y on the kernel command line, and reboot: it \
            counts only when the volume is activated",
        )
}

/// True if dm-crypt creates the checksums: the kernel then refuses `allow_discards`.
fn is_of_crypt<'a>(mut targets: impl Iterator<Item = &'a MapperTarget>, name: &str) -> bool {
    targets.next().map_or_else(
        || name.ends_with("_dif"),
        |target| !target.arguments.contains("internal_hash:"),
    )
}

/// The remedy that makes dm-integrity pass discards on. The kernel accepts the option in
/// a reloaded table; integritysetup has no flag for it. Such a reload is printed only if
/// the table contains no key and no recalculation is running.
fn integrity<'a>(mut targets: impl Iterator<Item = &'a MapperTarget>, name: &str) -> Remedy {
    const ELSEWHERE: [&str; 4] = ["journal_crypt:", "journal_mac:", "meta_device:", "recalculate"];
    let is_elsewhere = |word: &str| ELSEWHERE.iter().any(|option| word.starts_with(option));
    let is_keyed =
        |word: &str| word.strip_prefix("internal_hash:").is_some_and(|hash| hash.contains(':'));
    let is_whole = |target: &MapperTarget| {
        let mut words = target.arguments.split_ascii_whitespace();
        words.nth(3) == Some("J") && !words.any(|word| is_elsewhere(word) || is_keyed(word))
    };
    let word = quoted(name);
    let first = match targets.next().filter(|target| is_plain(name) && is_whole(target)) {
        Some(_) if targets.next().is_none() => Remedy::run(format!(
            "dmsetup table {word} | awk '{{$8++; print $0, \"allow_discards\"}}' | \
                dmsetup reload {word} && dmsetup resume {word}"
        )),
        _ => Remedy::by_hand(format!("close {word}, when nothing uses it")),
    };
    first.then(
        "open it with integritysetup open --allow-discards, and its other options as \
        before, from now on",
    )
}

/// True if a dm-raid target stores parity.
fn is_parity<'a>(targets: impl Iterator<Item = &'a MapperTarget>) -> bool {
    let mut levels = targets
        .filter(|t| t.kind == "raid")
        .filter_map(|t| t.arguments.split_ascii_whitespace().next());
    levels.any(|level| ["raid4", "raid5", "raid6"].iter().any(|parity| level.starts_with(parity)))
}

/// Judges device-mapper volumes that take no discards, which requires the reports of the
/// layers below.
pub fn beside_those_below(doctor: &Doctor<'_>, stack: &Stack, reports: &mut [LayerReport]) {
    apart(stack, reports);
    // Lower layers first.
    let zeroes = stack.written_as_zeroes();
    for i in (0..reports.len()).rev() {
        let layer = &stack.layers[i];
        if stack.is_aside(i) || zeroes.contains(&i) {
            // These layers get no discards.
            continue;
        }
        if layer.kind == LayerKind::ThinPool {
            thin_pool::stale_pool(doctor, stack, i, reports);
            continue;
        }
        let own_reason = reports[i].findings.iter().any(|f| f.severity == Severity::Serious);
        let keeps_limits = matches!(
            layer.kind,
            LayerKind::Lvm
                | LayerKind::Mapper(_)
                | LayerKind::Thin
                | LayerKind::Crypt
                | LayerKind::Md(_)
        );
        if reports[i].gate != Gate::Blocks || own_reason || !keeps_limits {
            continue;
        }
        let legs: Vec<usize> = stack.legs_of(i).collect();
        let of = |gate: Gate| {
            legs.iter().copied().filter(|&l| reports[l].gate == gate).collect::<Vec<_>>()
        };
        // An array takes discards if any member does.
        let enough = if matches!(layer.kind, LayerKind::Md(_)) { 1 } else { legs.len().max(1) };
        if of(Gate::Passes).len() >= enough {
            stale(doctor, layer, &mut reports[i]);
        } else if !of(Gate::NotNeeded).is_empty() && !of(Gate::Passes).is_empty() {
            let names: Vec<String> =
                of(Gate::NotNeeded).into_iter().map(|l| reports[l].name.clone()).collect();
            let text = format!("takes no discards, because {} takes none", names.join(", "));
            reports[i].why.clone_from(&text);
            let names = names.join(", ");
            let how = if layer.kind == LayerKind::Lvm { " (pvmove)" } else { "" };
            let remedy = Remedy::by_hand(format!(
                "move what lies on {names} to another drive{how}, and activate the volume again"
            ));
            reports[i].serious("dm.member-without-discards", text, remedy);
        }
    }
}

/// Excuses layers that carry only caches, metadata or unused members: they get no
/// discards and need not take them.
fn apart(stack: &Stack, reports: &mut [LayerReport]) {
    let (mut on_the_way, mut todo) = (vec![false; reports.len()], stack.tops.clone());
    while let Some(index) = todo.pop() {
        if on_the_way.get_mut(index).is_some_and(|seen| !std::mem::replace(seen, true)) {
            todo.extend(stack.goes_to(index));
        }
    }
    for (index, report) in reports.iter_mut().enumerate().filter(|(index, _)| !on_the_way[*index]) {
        let reason =
            stack.aside.iter().find(|(aside, _)| *aside == index).map(|(_, reason)| *reason);
        if report.gate == Gate::Passes && reason.is_none() {
            continue;
        }
        report.gate = if reason.is_some() { Gate::NotNeeded } else { report.gate };
        report.findings.retain(|finding| finding.severity != Severity::Serious);
        report.why = reason
            .unwrap_or(
                "gets no discards: it is below a part that holds metadata or a cache, or \
                that is not used",
            )
            .to_owned();
    }
}

/// Reports outdated limits: a device-mapper volume keeps the limits computed when its
/// table was loaded.
fn stale(doctor: &Doctor<'_>, layer: &Layer, report: &mut LayerReport) {
    let text = "takes no discards although what is below takes them: it has kept the limits of \
        when it was activated";
    report.why = text.to_owned();
    let name = layer.label.clone().unwrap_or_else(|| layer.name.clone());
    let word = quoted(&name);
    let plain = doctor.tables.table(&name).all(|t| matches!(t.kind.as_str(), "linear" | "striped"))
        && doctor.tables.known();
    let again = if layer.kind == LayerKind::Crypt {
        let keep = kept_options(&doctor.tables, &name);
        let options: String = keep.iter().map(|option| format!(" {option}")).collect();
        let can = is_plain(&name) && plain_crypt(&doctor.tables, &name);
        let remedy = Remedy::run(format!("cryptsetup --allow-discards{options} refresh {word}"));
        remedy.done_by(can.then(|| RemedyAction::RefreshCrypt { name: name.clone(), keep }))
    } else if plain {
        Remedy::reload(&name)
    } else if matches!(layer.kind, LayerKind::Md(_)) {
        let node = quoted(&layer.node());
        Remedy::by_hand("reboot; or unmount what is on it, and continue here")
            .then_run(format!("mdadm --stop {node}"))
            .then_run("mdadm --assemble --scan")
    } else if doctor.tables.table(&name).any(|target| target.kind == "multipath") {
        Remedy::run(format!("multipath -r {word}"))
    } else {
        Remedy::by_hand(format!(
            "reboot; or unmount what is on {word}, then deactivate and activate it \
                with the tool that set it up (LVM: lvchange -an, lvchange -ay)"
        ))
    };
    report.serious("dm.stale-limits", text, again);
}
