//! SCSI disks, including USB: the command that the kernel sends for a discard, its
//! maximum length, and the device's own report of both.

use super::limits::Limits;
use super::provider::Provider;
use super::provisioning::{Mode, block_bytes};
use super::remedy::limit_path;
use super::scsi_pages::{Method, Offer, ScsiPages};
use super::{Gate, LayerReport, Remedy, RemedyAction, Severity, disk};
use crate::host::block::{Bus, Layer};
use crate::host::drive;
use crate::host::root::Root;
use std::path::Path;
use trimtab_drive::usage::quoted;

/// Judges a SCSI disk that is not driven by libata.
pub fn judge(root: &Root, layer: &Layer, bus: Bus, limits: &Limits, report: &mut LayerReport) {
    let mode = Mode::read(root, layer);
    report.evidence.add_some("provisioning_mode", mode.as_ref().map(|mode| &mode.word));
    let identify = drive::ata_identify(root, layer);
    disk::note_identify(identify.as_ref(), report);
    let turns = drive::says_rotates(root, layer);
    report.evidence.add_some(
        "rotation",
        turns.map(|turns| if turns { "a hard disk, as it says" } else { "none, as it says" }),
    );
    let pages = ScsiPages::read(root, layer);
    report.evidence.add_some("VPD B0h and B2h", pages.words());
    let rotational = disk::is_rotational(root, layer);
    // For a USB disk, the kernel knows only the contents of a page.
    let is_hard_disk = rotational && (bus != Bus::Usb || turns.is_some());
    let without_trim = identify.is_some_and(|identify| !identify.trim());
    match (mode, pages.offer()) {
        (mode, _) if report.gate != Gate::Blocks => {
            if let (Gate::Passes, Some(mode)) = (report.gate, mode) {
                report.why = format!("provisioning mode {}; {}", mode.word, limits.words());
                contradictions(root, layer, limits, &mode, report);
            }
        }
        // The bridge offers a command that its drive lacks.
        (_, Offer::Takes { .. }) if turns == Some(true) && without_trim => disk::hard_disk(report),
        (Some(mode), Offer::Takes { method, blocks }) => {
            let limit = longest(blocks, &pages, block_bytes(root, layer), limits);
            not_used(root, layer, bus, &mode, method, limit, report);
        }
        // A mode that is disabled was once available, regardless of the provider.
        (Some(mode), Offer::Unknown) if mode.word == "disabled" => {
            not_asked(root, layer, bus, Some(&mode), report)
        }
        (mode, offer) => match Provider::of(root, layer, bus) {
            Some(provider) => provider.judge_without_discards(layer, bus, rotational, report),
            None if is_hard_disk => disk::hard_disk(report),
            None => {
                match offer {
                    Offer::Nothing => {
                        nothing_offered(root, layer, bus, mode.as_ref(), &pages, report)
                    }
                    _ => not_asked(root, layer, bus, mode.as_ref(), report),
                }
                if rotational && pages.contradiction().is_none() && !is_flash(root, layer) {
                    perhaps_hard_disk(layer, report);
                }
            }
        },
    }
}

/// True for a USB stick or card reader, and for a disk whose name identifies it as an
/// SSD.
fn is_flash(root: &Root, layer: &Layer) -> bool {
    const NAMES: [&str; 3] = ["SSD", "NVME", "MTFD"];
    let directory = drive::device_directory(layer);
    // INQUIRY splits a name between vendor and model.
    let name: String =
        ["vendor", "model"].iter().filter_map(|part| root.read(directory.join(part))).collect();
    let name = name.to_ascii_uppercase();
    is_removable(root, layer) || NAMES.iter().any(|known| name.contains(known))
}

fn is_removable(root: &Root, layer: &Layer) -> bool {
    root.read_u64(layer.sys.join("removable")) == Some(1)
}

/// Reports a disk that does not state its rotation rate: the kernel then calls it
/// rotational.
fn perhaps_hard_disk(layer: &Layer, report: &mut LayerReport) {
    let why = format!(
        "{}; it does not say whether it is an SSD or a hard disk, which has no use for TRIM",
        report.why
    );
    report.set(Gate::Unknown, why);
    for finding in
        report.findings.iter_mut().filter(|finding| finding.severity == Severity::Serious)
    {
        finding.severity = Severity::Caution;
        let ask = Remedy::run(format!("smartctl --info {}", quoted(&layer.node()))).then(
            "continue only if its Rotation Rate is that of an SSD (Solid State \
                Device): a hard disk has no use for TRIM",
        );
        finding.remedy = Some(finding.remedy.take().unwrap_or_default().after(ask));
    }
}

/// Longest command in bytes, rounded down to whole units of the device; `None` if it is
/// shorter than one unit.
fn longest(blocks: u64, pages: &ScsiPages, block: u64, limits: &Limits) -> Option<u64> {
    // The kernel accepts multiples of its own unit: the physical block, for a device that
    // reports no unit.
    let unit = limits.physical.unwrap_or(block).max(block);
    let own = u64::from(pages.granularity_blocks()).saturating_mul(block);
    let unit = if own > unit && own % unit == 0 { own } else { unit };
    let bytes = blocks.saturating_mul(block);
    Some(bytes - bytes % unit).filter(|bytes| *bytes > 0)
}

/// Reports a device that accepts a discard command which the kernel does not send.
fn not_used(
    root: &Root,
    layer: &Layer,
    bus: Bus,
    mode: &Mode,
    method: Method,
    limit: Option<u64>,
    report: &mut LayerReport,
) {
    let (command, bit) = method.words();
    report.why = format!("takes {command}, but the kernel's provisioning mode is {}", mode.word);
    let text = if mode.word == "disabled" {
        format!(
            "provisioning_mode is disabled: the kernel stops after the device \
                refuses a discard; it takes {command} ({bit} = 1)"
        )
    } else {
        format!(
            "the device takes {command} ({bit} = 1) without announcing it in READ \
                CAPACITY, so the kernel sends none"
        )
    };
    let Some(limit) = limit else {
        let remedy = Remedy::by_hand(
            "leave 10 % to 20 % of the drive unused: its longest discard is shorter than its unit",
        );
        report.serious("scsi.unmap-not-used", text, remedy);
        return;
    };
    let remedy = Remedy::run(format!(
        "{} && echo {limit} > {}",
        mode.command(method.mode()),
        quoted(&limit_path(layer))
    ));
    let remedy = kept_and_proved(remedy, udev_rule(root, layer, bus, method, Some(limit)));
    let action = RemedyAction::Provisioning {
        file: mode.file.clone(),
        from: mode.word.clone(),
        to: method.mode().to_owned(),
        limit_file: layer.queue().join("discard_max_bytes"),
        limit,
    };
    let remedy = remedy.done_by(mode.file.to_str().map(|_| action));
    report.serious("scsi.unmap-not-used", text, remedy);
}

/// Reports a device that states no discard command, or contradicts itself.
fn nothing_offered(
    root: &Root,
    layer: &Layer,
    bus: Bus,
    mode: Option<&Mode>,
    pages: &ScsiPages,
    report: &mut LayerReport,
) {
    let mode = mode
        .map_or(String::new(), |mode| format!("; the kernel's provisioning mode is {}", mode.word));
    report.why = format!("{}{mode}", pages.why_nothing());
    let sata = root.read(drive::device_directory(layer).join("vendor")).as_deref() == Some("ATA");
    let is_stick = bus == Bus::Usb && is_removable(root, layer);
    let (text, remedy) = match (bus, pages.contradiction()) {
        _ if is_stick => (
            "the USB stick or card reader offers no command that discards".to_owned(),
            "leave 10 % to 20 % of it unused; no setting changes what it offers",
        ),
        (Bus::Usb, Some(contradiction)) => (
            format!(
                "the USB bridge contradicts itself: {contradiction}; so the kernel \
                    sends no discards"
            ),
            "update the bridge's firmware (the enclosure's maker has it), use an \
                enclosure whose bridge states a limit (UASP with UNMAP), or attach the \
                drive directly; with a mode set by hand the kernel sends UNMAPs that the \
                bridge may refuse or carry out wrongly",
        ),
        (_, Some(contradiction)) => (
            format!(
                "the device contradicts itself: {contradiction}; so the kernel sends no discards"
            ),
            "update the device's firmware, or leave 10 % to 20 % of the drive \
                unused; forcing UNMAP here can destroy data",
        ),
        (Bus::Usb, None) => (
            "the USB bridge offers no command that discards".to_owned(),
            "use another enclosure (UASP with UNMAP), or attach the drive directly; \
                forcing UNMAP here can destroy data",
        ),
        (_, None) if sata => (
            "the HBA does not translate UNMAP for this SATA drive".to_owned(),
            "attach the drive to a SATA port of the mainboard, or use an HBA whose \
                firmware translates UNMAP for drives that read zeroes after TRIM; otherwise \
                leave 10 % to 20 % of the drive unused",
        ),
        (_, None) => (
            "the device does not offer UNMAP".to_owned(),
            "leave 10 % to 20 % of the drive unused; forcing UNMAP here can destroy data",
        ),
    };
    report.serious("scsi.no-unmap", text, Remedy::by_hand(remedy));
}

/// Reports a device for which the kernel shows no page.
fn not_asked(root: &Root, layer: &Layer, bus: Bus, mode: Option<&Mode>, report: &mut LayerReport) {
    let Some(mode) = mode else { return };
    report.why = format!("takes no discards (provisioning mode {})", mode.word);
    let text = match mode.word.as_str() {
        "disabled" => {
            "provisioning_mode is disabled: the kernel stops after the device \
                refuses a discard, or the mode was set by hand"
        }
        _ => {
            "the kernel sends no discards, and shows no page that says whether this \
                device offers UNMAP"
        }
    };
    let node = quoted(&layer.node());
    let block = block_bytes(root, layer);
    let remedy = Remedy::run(format!("sg_vpd --page=lbpv {node}"))
        .then("continue only if it says 'Unmap command supported (LBPU): 1'")
        .then_run(format!("sg_vpd --page=bl {node}"))
        .then(format!(
            "continue only if its Maximum unmap LBA count is not 0; LIMIT is that count x {block}"
        ))
        .then_run(mode.command("unmap"))
        .then(format!(
            "at once, before anything is trimmed, set the limit: echo LIMIT > {}",
            quoted(&limit_path(layer))
        ));
    let remedy = kept_and_proved(remedy, udev_rule(root, layer, bus, Method::Unmap, None));
    report.serious("scsi.unmap-not-asked", text, remedy);
}

/// Reports a mode or limit that contradicts the device's own pages: set by hand or by a
/// udev rule.
pub fn contradictions(
    root: &Root,
    layer: &Layer,
    limits: &Limits,
    mode: &Mode,
    report: &mut LayerReport,
) {
    let pages = ScsiPages::read(root, layer);
    let Some(method) = Method::of_mode(&mode.word) else {
        if mode.word == "writesame_zero" {
            report.set(
                Gate::Unknown,
                "gets writes of zeroes in place of discards (provisioning mode writesame_zero)",
            );
        }
        return;
    };
    if let Some(against) = pages.against_mode(method) {
        not_taken(mode, &against, report);
    } else if let Some(most) =
        pages.below(method, limits.max.unwrap_or(0), block_bytes(root, layer))
    {
        let now = limits.max.unwrap_or(0);
        let why = format!(
            "discard_max_bytes is {now} B, and page B0h allows {most} B: longer \
                discards fail with an I/O error"
        );
        report.set(Gate::Unknown, why.clone());
        report.caution("scsi.limit-above-device", why, limits.set(layer, most));
    }
}

/// Reports that the current mode sends a command which the device does not accept.
fn not_taken(mode: &Mode, against: &str, report: &mut LayerReport) {
    report.set(
        Gate::Unknown,
        format!(
            "provisioning_mode is {}, and {against}: discards fail, or destroy data",
            mode.word
        ),
    );
    let remedy = Remedy::run(mode.command("full"))
        .then(
            "from then on no discards are sent; a udev rule may set the mode again: \
            remove it from the file that this names",
        )
        .then_run("grep -r provisioning_mode /etc/udev/rules.d /usr/lib/udev/rules.d");
    report.caution("scsi.mode-against-device", report.why.clone(), remedy);
}

/// Reports an ATA drive that supports TRIM but gets none: the kernel stopped after an
/// error, or the mode was set by hand.
pub fn ata_switched_off(mode: Option<Mode>, report: &mut LayerReport) {
    let Some(mode) = mode else { return };
    let text = format!(
        "provisioning_mode is {}: set by hand, or by the kernel after the drive \
            refused a discard; look for errors in the kernel log",
        mode.word
    );
    // For an ATA drive, libata accepts only WRITE SAME with the UNMAP bit.
    let again = Method::WriteSame16.mode();
    let action = RemedyAction::Attribute {
        file: mode.file.clone(),
        from: mode.word.clone(),
        to: again.to_owned(),
    };
    let remedy = Remedy::run(mode.command(again))
        .then("if the drive refuses discards again, the kernel's log says why:")
        .then_run("journalctl --dmesg --grep 'DISCARD|UNMAP|WRITE SAME'")
        .done_by(mode.file.to_str().map(|_| action));
    report.serious("drive.provisioning-mode", text, remedy);
}

/// Adds steps that make the mode permanent and prove that discards lose no data.
fn kept_and_proved(remedy: Remedy, udev_rule: Option<String>) -> Remedy {
    let kept = match udev_rule {
        Some(rule) => remedy.then(rule),
        None => remedy,
    };
    kept.then("prove it with trimtab verify on data you can lose")
}

/// The udev rule that sets mode and limit whenever the device appears; in this order,
/// since a mode resets the limit.
fn udev_rule(
    root: &Root,
    layer: &Layer,
    bus: Bus,
    method: Method,
    limit: Option<u64>,
) -> Option<String> {
    let device = |dir: &Path, keys: [&'static str; 2]| {
        let plain = |value: &String| {
            !value.is_empty()
                && value.bytes().all(|b| b.is_ascii_alphanumeric() || b" -_.+/".contains(&b))
        };
        let value = |key: &str| root.read(dir.join(key)).filter(plain);
        Some(keys.map(|key| {
            Some(format!(
                "ATTRS{{{key}}}==\"{}{}\"",
                value(key)?,
                if key.starts_with("id") { "" } else { "*" }
            ))
        }))
        .and_then(|[first, second]| Some(format!("{}, {}", first?, second?)))
    };
    let whose = match bus {
        Bus::Usb => device(
            layer.sys.ancestors().find(|dir| root.exists(dir.join("idVendor")))?,
            ["idVendor", "idProduct"],
        )?,
        _ => device(&drive::device_directory(layer), ["vendor", "model"])?,
    };
    let limit = limit.map_or_else(|| "LIMIT".to_owned(), |limit| limit.to_string());
    Some(format!(
        "to keep it after a reboot, a line in /etc/udev/rules.d/60-trimtab.rules: \
            ACTION==\"add|change\", SUBSYSTEM==\"block\", ENV{{DEVTYPE}}==\"disk\", \
            {whose}, ATTR{{device/scsi_disk/*/provisioning_mode}}=\"{}\", \
            ATTR{{queue/discard_max_bytes}}=\"{limit}\"",
        method.mode()
    ))
}
