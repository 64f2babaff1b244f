//! TRIM support as drives report it, by bus.

use super::disk::{hard_disk, is_rotational, note_identify};
use super::faults::{self, Fault};
use super::limits::Limits;
use super::provider::{Provider, ProviderKind};
use super::provisioning::Mode;
use super::remedy::limit_path;
use super::scsi;
use super::{Gate, LayerReport, Remedy, Severity, drive_name, other};
use crate::host::block::{Bus, Layer};
use crate::host::drive;
use crate::host::environment::chosen;
use crate::host::root::Root;
use std::path::Path;
use trimtab_drive::usage::quoted;

/// Judges a drive.
pub fn judge(root: &Root, layer: &Layer, bus: Bus, limits: &Limits, report: &mut LayerReport) {
    report.name = drive_name(root, layer);
    let queue = layer.queue();
    report.evidence.add_some("firmware", drive::identity(root, layer).firmware);
    report.evidence.add_some("rotational", root.read(queue.join("rotational")));
    report
        .evidence
        .add_some("scheduler", root.read(queue.join("scheduler")).map(|s| chosen(&s).to_owned()));
    report.evidence.add_some("write_cache", root.read(queue.join("write_cache")));
    // Judges the drive as if discards were not switched off.
    let switched_off = limits
        .switched_off()
        .then(|| std::mem::replace(&mut report.gate, Gate::Passes))
        .zip(Some(report.why.clone()));
    match bus {
        Bus::Ata => ata(root, layer, limits, report),
        Bus::Usb | Bus::Scsi | Bus::VirtioScsi => scsi::judge(root, layer, bus, limits, report),
        Bus::Nvme => nvme(root, layer, report),
        Bus::Virtio => virtio(root, layer, report),
        Bus::Mmc => {}
        Bus::Zram => report.why = "discards free memory".to_owned(),
        Bus::Nbd | Bus::Other => {
            by_provider(root, layer, bus, report);
            if bus == Bus::Other || report.gate == Gate::Blocks {
                other::judge(layer, report);
            }
        }
    }
    if bus != Bus::Ata {
        known_faults(root, layer, limits, None, report);
    }
    beyond_the_guest(root, layer, bus, report);
    if root.read(queue.join("zoned")).is_some_and(|z| z == "host-managed") {
        report.set(
            Gate::NotNeeded,
            "host-managed zones: space is freed by resetting zones, not by discards",
        );
    }
    if let Some((gate, why)) = switched_off {
        report.set(gate, why);
    }
}

/// Judges a disk that takes no discards and is presented by a hypervisor, controller or
/// array.
fn by_provider(root: &Root, layer: &Layer, bus: Bus, report: &mut LayerReport) {
    if let (Gate::Blocks, Some(provider)) = (report.gate, Provider::of(root, layer, bus)) {
        provider.judge_without_discards(layer, bus, is_rotational(root, layer), report);
    }
}

fn ata(root: &Root, layer: &Layer, limits: &Limits, report: &mut LayerReport) {
    let identify = drive::ata_identify(root, layer);
    let trim = ata_trim(root, layer);
    report.evidence.add_some("ata_device trim", trim.clone());
    note_identify(identify.as_ref(), report);
    let mode = Mode::read(root, layer);
    report.evidence.add_some("provisioning_mode", mode.as_ref().map(|mode| &mode.word));
    let supported =
        identify.as_ref().map_or(trim.as_deref().map(|t| t != "unsupported"), |i| Some(i.trim()));
    if supported == Some(false)
        || (supported.is_none() && is_rotational(root, layer) && report.gate == Gate::Blocks)
    {
        no_trim(root, layer, report);
        return;
    }
    known_faults(root, layer, limits, trim.as_deref(), report);
    unqueued(trim.as_deref(), report);
    match (trim.as_deref(), report.gate) {
        (Some("forced_unsupported"), _) => {
            report.set(Gate::Blocks, "the kernel does not use this drive's TRIM");
            let text = "TRIM is forced off: by the kernel's list of drives that it harms, or by \
                libata.force=notrim";
            report.serious(
                "ata.forced-off",
                text,
                Remedy::by_hand("leave 10 % to 20 % of the drive unused; never force TRIM on"),
            );
        }
        (kind, Gate::Passes) => {
            if let Some(kind) = kind {
                report.why = format!("{} TRIM; {}", kind.replace("forced_", ""), limits.words());
            }
            mode.iter().for_each(|mode| scsi::contradictions(root, layer, limits, mode, report));
        }
        // A mode that is now disabled was once available.
        (_, Gate::Blocks)
            if supported.is_none() && mode.as_ref().is_none_or(|mode| mode.word != "disabled") =>
        {
            trim_unknown(layer, report)
        }
        (_, Gate::Blocks) => {
            report.why = "the drive supports TRIM, but the kernel sends none".to_owned();
            scsi::ata_switched_off(mode, report);
        }
        _ => {}
    }
}

/// Reports an SSD that gets no TRIM where the kernel does not show whether the drive
/// supports it.
fn trim_unknown(layer: &Layer, report: &mut LayerReport) {
    let why = "the kernel sends no TRIM, and does not show whether the drive supports it";
    let remedy = Remedy::run(format!("hdparm -I {}", quoted(&layer.node())))
        .then(
            "if it does not list Data Set Management TRIM, leave 10 % to 20 % of the \
            drive unused; if it does, the kernel's log says why none is sent:",
        )
        .then_run("journalctl --dmesg --grep 'DISCARD|UNMAP|WRITE SAME|TRIM'");
    report.block("ata.trim-unknown", why, remedy);
}

/// Reports a drive without TRIM. A hard disk does not benefit from TRIM, an SSD would;
/// for a virtual disk `rotational` decides neither.
fn no_trim(root: &Root, layer: &Layer, report: &mut LayerReport) {
    if let Some(provider) = Provider::of(root, layer, Bus::Ata) {
        provider.judge_without_discards(layer, Bus::Ata, is_rotational(root, layer), report);
    } else if is_rotational(root, layer) {
        hard_disk(report);
    } else {
        let remedy = Remedy::by_hand(
            "leave 10 % to 20 % of the drive unused from the start (secure erase \
                first), as spare for its own work",
        );
        report.block("drive.no-trim", "the drive does not support TRIM", remedy);
    }
}

/// `trim` of the drive's `ata_device`: the only attribute that shows how the kernel sends
/// TRIM.
fn ata_trim(root: &Root, layer: &Layer) -> Option<String> {
    // …/ata3/host2/target2:0:0/2:0:0:0/block/sda corresponds to …/ata3/link3/dev3.0 in
    // the class, or to dev3.<port>.0 behind a port multiplier.
    let parts: Vec<&str> = layer.sys.iter().filter_map(|c| c.to_str()).collect();
    let port =
        parts.iter().find_map(|p| p.strip_prefix("ata").filter(|n| n.parse::<u32>().is_ok()))?;
    let mut address = parts.iter().find_map(|p| p.strip_prefix("target"))?.split(':').skip(1);
    let (channel, target) = (address.next()?, address.next()?);
    let class = Path::new("/sys/class/ata_device");
    let names = [format!("dev{port}.{target}"), format!("dev{port}.{channel}.{target}")];
    names.iter().find_map(|name| root.read(class.join(name).join("trim")))
}

/// Reports the entries of the list of faulty drives. `trim`: how the kernel sends TRIM,
/// on ATA.
fn known_faults(
    root: &Root,
    layer: &Layer,
    limits: &Limits,
    trim: Option<&str>,
    report: &mut LayerReport,
) {
    let sends = report.gate == Gate::Passes && !limits.switched_off();
    for (fault, source) in faults::of_layer(root, layer) {
        match fault {
            Fault::QueuedTrim if trim == Some("queued") => {
                let text = format!(
                    "queued TRIM is in use on a drive whose queued TRIM is known to \
                        lose data or to hang ({source})"
                );
                let remedy = Remedy::by_hand(
                    "put libata.force=noncqtrim on the kernel command line, or update the kernel",
                );
                report.serious("ata.queued-trim-harms", text, remedy);
            }
            Fault::Trim if sends => {
                let text = format!(
                    "TRIM is known to fail on this drive, and this kernel sends it ({source})"
                );
                let remedy = Remedy::by_hand(
                    "put libata.force=notrim on the kernel command line, or update the kernel",
                );
                report.serious("drive.trim-fails", text, remedy);
            }
            Fault::Hangs if sends => {
                report.caution(
                    faults::HANGS,
                    format!("TRIM is known to hang this drive ({source})"),
                    no_discards(layer),
                );
            }
            Fault::LosesData if sends => {
                let text = format!(
                    "TRIM is known to lose data on this drive, and the kernel sends it ({source})"
                );
                report.serious(faults::LOSES_DATA, text, no_discards(layer));
            }
            _ => report.note("drive.known-fault", format!("{} ({source})", fault.note())),
        }
    }
}

/// Switches discards off for a drive that they harm.
fn no_discards(layer: &Layer) -> Remedy {
    Remedy::by_hand(
        "mount its filesystems without discard, and with X-fstrim.notrim, so that \
        nothing trims them",
    )
    .then_run(format!("echo 0 > {}", quoted(&limit_path(layer))))
    .then("a boot restores that limit: repeat the command at every boot")
}

fn unqueued(trim: Option<&str>, report: &mut LayerReport) {
    if matches!(trim, Some("unqueued" | "forced_unqueued")) {
        let text = "TRIM is not queued: each one waits for all other commands and they for it; \
            trim in batches or in idle time rather than online";
        report.note("ata.unqueued", text);
    }
}

fn nvme(root: &Root, layer: &Layer, report: &mut LayerReport) {
    report.evidence.add_some("nuse", root.read(layer.sys.join("nuse")));
    by_provider(root, layer, Bus::Nvme, report);
    if report.gate == Gate::Blocks
        && report.findings.iter().all(|finding| finding.severity < Severity::Serious)
    {
        let why = "the drive does not offer Dataset Management (Deallocate)";
        let remedy =
            Remedy::run(format!("nvme id-ctrl --human-readable {}", quoted(&layer.node()))).then(
                "see whether ONCS has bit 2 (Data Set Management Supported): if not, a \
                firmware update of the drive may add it",
            );
        report.block("nvme.no-deallocate", why, remedy);
    }
}

fn virtio(root: &Root, layer: &Layer, report: &mut LayerReport) {
    /// VIRTIO_BLK_F_DISCARD, virtio 1.1.
    const DISCARD_BIT: usize = 13;
    let features = root.read(drive::device_directory(layer).join("features"));
    let offered = features.and_then(|bits| bits.as_bytes().get(DISCARD_BIT).map(|b| *b == b'1'));
    report.evidence.add_some(
        "VIRTIO_BLK_F_DISCARD",
        offered.map(|yes| if yes { "offered" } else { "not offered" }),
    );
    by_provider(root, layer, Bus::Virtio, report);
}

/// Notes that a guest sees only its virtual disk, and an initiator only its LUN.
fn beyond_the_guest(root: &Root, layer: &Layer, bus: Bus, report: &mut LayerReport) {
    if report.gate == Gate::Passes
        && Provider::of(root, layer, bus).is_some_and(|provider| {
            matches!(provider.kind, ProviderKind::Hypervisor | ProviderKind::Array)
        })
    {
        let text = "what the host or the array makes of it cannot be seen from here; run \
            trimtab doctor there too";
        report.note("virtual.host-unknown", text);
    }
}
