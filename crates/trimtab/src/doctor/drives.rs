//! What drives say about TRIM, bus by bus.

use super::limits::Limits;
use super::quirks::{self, Quirk};
use super::{Action, Finding, Gate, LayerReport, Remedy, Severity, drive_name};
use crate::host::block::{Bus, Layer};
use crate::host::drive::{self, AtaIdentify};
use crate::host::environment::chosen;
use crate::host::root::Root;
use std::path::{Path, PathBuf};
use trimtab_core::document::quoted;

pub use crate::host::block::bus as bus_of;

/// Judges a drive.
pub fn judge(root: &Root, layer: &Layer, bus: Bus, limits: &Limits, report: &mut LayerReport) {
    report.name = drive_name(root, layer);
    let queue = layer.queue();
    report.evidence.add_some("firmware", drive::identity(root, layer).firmware);
    report.evidence.add_some("rotational", root.read(queue.join("rotational")));
    report.evidence.add_some("scheduler", root.read(queue.join("scheduler")).map(|s| chosen(&s).to_owned()));
    report.evidence.add_some("write_cache", root.read(queue.join("write_cache")));
    // The drive itself is judged as if nobody had switched discards off.
    let switched_off = limits.switched_off().then(|| std::mem::replace(&mut report.gate, Gate::Passes)).zip(Some(report.why.clone()));
    match bus {
        Bus::Ata => ata(root, layer, limits, report),
        Bus::Usb => scsi(root, layer, limits, report, true),
        Bus::Scsi | Bus::VirtioScsi => {
            scsi(root, layer, limits, report, false);
            if bus == Bus::VirtioScsi {
                beyond_the_guest(report);
            }
        }
        Bus::Nvme => nvme(root, layer, report),
        Bus::Virtio => virtio(root, layer, report),
        Bus::Mmc => mmc(root, layer, report),
        Bus::Zram => report.why = "discards free memory".to_owned(),
        Bus::Nbd | Bus::Other => {}
    }
    if root.read(queue.join("zoned")).is_some_and(|z| z == "host-managed") {
        report.gate = Gate::NotNeeded;
        report.why = "host-managed zones: space is freed by resetting zones, not by discards".to_owned();
    }
    if let Some((gate, why)) = switched_off {
        report.gate = gate;
        report.why = why;
    }
}

fn is_rotational(root: &Root, layer: &Layer) -> bool {
    root.read_u64(layer.queue().join("rotational")) == Some(1)
}

fn ata(root: &Root, layer: &Layer, limits: &Limits, report: &mut LayerReport) {
    let identify = drive::ata_identify(root, layer);
    let trim = ata_trim(root, layer);
    report.evidence.add_some("ata_device trim", trim.clone());
    note_identify(identify.as_ref(), report);
    let mode = provisioning(root, layer);
    report.evidence.add_some("provisioning_mode", mode.as_ref().map(|(_, mode)| mode.clone()));
    let supported = identify.as_ref().map_or(trim.as_deref().map(|t| t != "unsupported"), |i| Some(i.trim()));
    if supported == Some(false) || (supported.is_none() && is_rotational(root, layer) && report.gate == Gate::Blocks) {
        no_trim(root, layer, report);
        return;
    }
    ata_quirks(root, layer, trim.as_deref(), report);
    match (trim.as_deref(), report.gate) {
        (Some("forced_unsupported"), _) => {
            report.gate = Gate::Blocks;
            report.why = "the kernel does not use this drive's TRIM".to_owned();
            let text = "TRIM is forced off: by the kernel's list of drives that it harms, or by libata.force=notrim";
            report.findings.push(
                Finding::new("ata.forced-off", Severity::Serious, text)
                    .remedy("leave 10 % to 20 % of the drive unused; never force TRIM on"),
            );
        }
        (Some(kind), Gate::Passes) => report.why = format!("{} TRIM; {}", kind.replace("forced_", ""), limits.words()),
        (_, Gate::Blocks) => {
            report.why = "the drive supports TRIM, but the kernel sends none".to_owned();
            switched_off(mode, report);
        }
        _ => {}
    }
}

/// A drive without TRIM: a hard disk has no use for it, a solid-state drive would.
fn no_trim(root: &Root, layer: &Layer, report: &mut LayerReport) {
    if is_rotational(root, layer) {
        report.gate = Gate::NotNeeded;
        report.why = "a hard disk: it has no use for TRIM".to_owned();
    } else {
        report.gate = Gate::Blocks;
        report.why = "the drive does not support TRIM".to_owned();
        let remedy =
            "leave 10 % to 20 % of the drive unused from the start (secure erase first), so that it can keep its house in order alone";
        report.findings.push(Finding::new("drive.no-trim", Severity::Serious, report.why.clone()).remedy(remedy));
    }
}

/// The drive said that it can, once, and then failed; or somebody wrote `disabled`.
fn switched_off(mode: Option<(PathBuf, String)>, report: &mut LayerReport) {
    let Some((path, mode)) = mode else { return };
    let text = format!(
        "provisioning_mode is {mode}: set by hand, or by the kernel after the drive refused a discard; look for errors in the kernel log"
    );
    // What libata answers for an ATA drive is WRITE SAME with the UNMAP bit, and nothing else.
    let again = "writesame_16";
    let steps = [
        "journalctl -k --grep 'DISCARD|UNMAP|WRITE SAME' # find out why first".to_owned(),
        format!("echo {again} > {}, or detach and attach the drive", quoted(&path.to_string_lossy())),
    ];
    let remedy = Remedy::steps(steps).done_by(mode_action(&path, &mode, again));
    report.findings.push(Finding::new("drive.provisioning-mode", Severity::Serious, text).remedy(remedy));
}

fn note_identify(identify: Option<&AtaIdentify>, report: &mut LayerReport) {
    let Some(identify) = identify else { return };
    report.evidence.add("identify", format!("TRIM {}", if identify.trim() { "supported" } else { "not supported" }));
    let after = match (identify.deterministic_after_trim(), identify.zero_after_trim()) {
        (true, true) => "zeroes (RZAT)",
        (true, false) => "the same each time (DRAT)",
        _ => "anything",
    };
    if identify.trim() {
        report.evidence.add("reads after TRIM", after);
    }
}

/// `trim` of the drive's `ata_device`: the only place where the kernel says how it sends TRIM.
fn ata_trim(root: &Root, layer: &Layer) -> Option<String> {
    // …/ata3/host2/target2:0:0/2:0:0:0/block/sda is …/ata3/link3/dev3.0 in the class, dev3.<port>.0 behind a multiplier.
    let parts: Vec<&str> = layer.sys.iter().filter_map(|c| c.to_str()).collect();
    let port = parts.iter().find_map(|p| p.strip_prefix("ata").filter(|n| n.parse::<u32>().is_ok()))?;
    let mut address = parts.iter().find_map(|p| p.strip_prefix("target"))?.split(':').skip(1);
    let (channel, target) = (address.next()?, address.next()?);
    let class = Path::new("/sys/class/ata_device");
    let names = [format!("dev{port}.{target}"), format!("dev{port}.{channel}.{target}")];
    names.iter().find_map(|name| root.read(class.join(name).join("trim")))
}

fn ata_quirks(root: &Root, layer: &Layer, trim: Option<&str>, report: &mut LayerReport) {
    let identity = drive::identity(root, layer);
    let known = quirks::of(identity.model.as_deref().unwrap_or_default(), identity.firmware.as_deref().unwrap_or_default());
    for quirk in known {
        let finding = match quirk {
            Quirk::NoQueuedTrim if trim == Some("queued") => Finding::new(
                "ata.queued-trim-harms",
                Severity::Serious,
                "queued TRIM is in use on a drive whose queued TRIM is known to corrupt data or to hang",
            )
            .remedy("put libata.force=noncqtrim on the kernel command line, or update the kernel"),
            Quirk::NoQueuedTrim => {
                Finding::new("ata.quirk", Severity::Note, "the drive's queued TRIM is known to be faulty; the kernel does not use it")
            }
            Quirk::NoQueueOnAti => Finding::new(
                "ata.quirk",
                Severity::Note,
                "behind an ATI or AMD controller the kernel uses no queued commands at all with this drive",
            ),
            Quirk::NoTrim => Finding::new("ata.quirk", Severity::Note, "the drive's TRIM is known to do harm; the kernel does not use it"),
            Quirk::TrimLimited => {
                Finding::new("ata.quirk", Severity::Note, "the drive locks up on large TRIMs; the kernel limits them to 128 MiB")
            }
            Quirk::ZeroAfterTrim => continue,
        };
        report.findings.push(finding);
    }
    if matches!(trim, Some("unqueued" | "forced_unqueued")) {
        let text =
            "TRIM is not queued: each one waits for all other commands and they for it; trim in batches or in idle time rather than online";
        report.findings.push(Finding::new("ata.unqueued", Severity::Note, text));
    }
}

/// The `provisioning_mode` file of a SCSI disk, and what it says.
fn provisioning(root: &Root, layer: &Layer) -> Option<(PathBuf, String)> {
    let disks = drive::device_directory(layer).join("scsi_disk");
    let disk = root.list(&disks).into_iter().next()?;
    let file = disks.join(disk).join("provisioning_mode");
    let mode = root.read(&file)?;
    Some((root.canonical(&file).unwrap_or(file), mode))
}

/// The kernel's own name of a mode, where it can be named in a record.
fn mode_action(path: &Path, from: &str, to: &str) -> Option<Action> {
    path.to_str()?;
    Some(Action::Attribute { file: path.to_owned(), from: from.to_owned(), to: to.to_owned() })
}

fn scsi(root: &Root, layer: &Layer, limits: &Limits, report: &mut LayerReport, usb: bool) {
    let mode = provisioning(root, layer);
    report.evidence.add_some("provisioning_mode", mode.as_ref().map(|(_, mode)| mode.clone()));
    note_identify(drive::ata_identify(root, layer).as_ref(), report);
    let unmap = unmap_offered(root, layer);
    report.evidence.add_some("VPD", unmap.map(|yes| if yes { "UNMAP offered (B0h, B2h)" } else { "UNMAP not offered (B0h, B2h)" }));
    if report.gate != Gate::Blocks {
        if let (Gate::Passes, Some((_, mode))) = (report.gate, &mode) {
            report.why = format!("provisioning mode {mode}; {}", limits.words());
        }
        return;
    }
    match (mode, unmap) {
        (Some((path, mode)), Some(true)) => {
            report.why = format!("offers UNMAP, but the kernel's provisioning mode is {mode}");
            let remedy = Remedy::steps(force_unmap(root, layer, &path, usb)).done_by(mode_action(&path, &mode, "unmap"));
            let text = "the device offers UNMAP without announcing it in READ CAPACITY, so the kernel does not use it";
            report.findings.push(Finding::new("scsi.unmap-not-used", Severity::Serious, text).remedy(remedy));
        }
        (Some((_, mode)), Some(false)) => {
            report.why = format!("does not offer UNMAP (provisioning mode {mode})");
            let text = if usb { "the USB bridge does not pass TRIM on" } else { "the device does not offer UNMAP" };
            let remedy = "another enclosure (UASP with UNMAP), or attach the drive directly; forcing UNMAP here can destroy data";
            report.findings.push(Finding::new("scsi.no-unmap", Severity::Serious, text).remedy(remedy));
        }
        (Some((path, mode)), None) if usb || !is_rotational(root, layer) => {
            report.why = format!("takes no discards (provisioning mode {mode})");
            let text = "the kernel asks this device for no page that says whether it offers UNMAP";
            let ask = format!("sg_vpd --page=lbpv /dev/{} # go on only if it says LBPU=1 (unmap supported)", quoted(&layer.name));
            let remedy = Remedy::steps([ask].into_iter().chain(force_unmap(root, layer, &path, usb)));
            report.findings.push(Finding::new("scsi.unmap-not-asked", Severity::Serious, text).remedy(remedy));
        }
        _ if is_rotational(root, layer) && !usb => {
            report.gate = Gate::NotNeeded;
            report.why = "a hard disk: it has no use for discards".to_owned();
        }
        _ => {}
    }
}

/// Whether the device offers UNMAP: logical block provisioning VPD page with LBPU, and limits above zero. `None` if not shown.
fn unmap_offered(root: &Root, layer: &Layer) -> Option<bool> {
    let limits = drive::vpd(root, layer, "pgb0")?;
    let provisioning = drive::vpd(root, layer, "pgb2")?;
    let number = |at: usize| limits.get(at..at + 4).map(|b| u32::from_be_bytes([b[0], b[1], b[2], b[3]]));
    let lbpu = provisioning.get(5).is_some_and(|flags| flags & 0x80 != 0);
    Some(lbpu && number(20).unwrap_or(0) > 0 && number(24).unwrap_or(0) > 0)
}

/// The command, the udev rule that makes it last for USB, and the proof.
fn force_unmap(root: &Root, layer: &Layer, path: &Path, usb: bool) -> Vec<String> {
    let mut steps = vec![format!("echo unmap > {}", quoted(&path.to_string_lossy()))];
    let hex = |id: Option<String>| id.filter(|id| id.len() == 4 && id.bytes().all(|b| b.is_ascii_hexdigit()));
    let usb_device = layer.sys.ancestors().find(|dir| root.exists(dir.join("idVendor")));
    let ids = usb_device.and_then(|dir| Some((hex(root.read(dir.join("idVendor")))?, hex(root.read(dir.join("idProduct")))?)));
    if let Some((vendor, product)) = ids.filter(|_| usb) {
        steps.push(format!(
            "to keep it after a reboot, a line in /etc/udev/rules.d/60-trimtab.rules: ACTION==\"add|change\", ATTRS{{idVendor}}==\"{vendor}\", ATTRS{{idProduct}}==\"{product}\", SUBSYSTEM==\"scsi_disk\", ATTR{{provisioning_mode}}=\"unmap\""
        ));
    }
    steps.push("prove it with trimtab verify on data you can lose".to_owned());
    steps
}

fn nvme(root: &Root, layer: &Layer, report: &mut LayerReport) {
    report.evidence.add_some("nuse", root.read(layer.sys.join("nuse")));
    if report.gate == Gate::Blocks {
        report.why = "the drive does not offer Dataset Management (Deallocate)".to_owned();
        let remedy = "nvme id-ctrl: ONCS bit 2 says whether it can; a firmware update may add it";
        report.findings.push(Finding::new("nvme.no-deallocate", Severity::Serious, report.why.clone()).remedy(remedy));
    }
}

fn virtio(root: &Root, layer: &Layer, report: &mut LayerReport) {
    /// VIRTIO_BLK_F_DISCARD, virtio 1.1.
    const DISCARD_BIT: usize = 13;
    let features = root.read(drive::device_directory(layer).join("features"));
    let offered = features.and_then(|bits| bits.as_bytes().get(DISCARD_BIT).map(|b| *b == b'1'));
    report.evidence.add_some("VIRTIO_BLK_F_DISCARD", offered.map(|yes| if yes { "offered" } else { "not offered" }));
    match report.gate {
        Gate::Blocks => {
            report.why = "the host does not offer discard for this virtual disk".to_owned();
            let remedy = "on the host: discard='unmap' on the disk (QEMU 4.0 or later), or attach it through virtio-scsi";
            report.findings.push(Finding::new("virtio.no-discard", Severity::Serious, report.why.clone()).remedy(remedy));
        }
        Gate::Passes => beyond_the_guest(report),
        _ => {}
    }
}

/// A guest sees no further than its virtual disk.
fn beyond_the_guest(report: &mut LayerReport) {
    if report.gate == Gate::Passes {
        let text = "what the host makes of it cannot be seen from inside; run trimtab doctor there too";
        report.findings.push(Finding::new("virtual.host-unknown", Severity::Note, text));
    }
}

fn mmc(root: &Root, layer: &Layer, report: &mut LayerReport) {
    report.evidence.add_some("preferred_erase_size", root.read(drive::device_directory(layer).join("preferred_erase_size")));
    report.evidence.add_some("type", root.read(drive::device_directory(layer).join("type")));
    if report.gate == Gate::Passes {
        let text = "cards may carry out a discard as an erase, which takes long: trim in idle time";
        report.findings.push(Finding::new("mmc.erase", Severity::Note, text));
    }
}
