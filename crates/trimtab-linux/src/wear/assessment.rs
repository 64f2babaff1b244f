//! Wear of drives: from files that smartctl wrote, or asked of the drives themselves.

use super::outlook::{LifeLeft, Since, Warranty, WarrantyState};
use crate::host::block::{Bus, Layer, LayerKind, Stack};
use crate::host::health::SmartLog;
use crate::host::mountinfo;
use crate::host::root::Root;
use crate::host::{Place, drive};
use crate::output::error::{of_named, one_line};
use crate::sys::beneath::named;
use crate::sys::nvme::{self, Log};
use crate::wear::effect::PolicyEffect;
use crate::wear::history::WearHistory;
use crate::wear::{self, BYTES_MAX, DriveKind, RawCounter, ReadError, Reading, Waf, smartctl};
use anyhow::Context as _;
use serde::Serialize;
use std::io::Read as _;
use std::path::Path;
use trimtab_drive::usage::UsageError;

/// Name of standard input on the command line.
pub const STDIN: &str = "-";

/// A clock may be ahead by this many seconds.
const CLOCK_ERROR_S: u64 = 86_400;

/// Wear of one drive. Absent values are not reported by the drive, or have no documented
/// unit.
#[derive(Debug, Serialize)]
pub struct DriveWear {
    /// The file, or the device node.
    pub subject: String,
    /// Model, as the drive names itself.
    pub model: Option<String>,
    /// `ATA`, `NVMe` or `SCSI`.
    pub protocol: Option<String>,
    /// Construction.
    pub kind: DriveKind,
    /// Time of the reading, in seconds since 1970.
    pub taken_unix_s: Option<u64>,
    /// Bytes that the host wrote since the drive was made.
    pub host_written_bytes: Option<u64>,
    /// The drive reports a value that cannot be right; a remark says so.
    #[serde(skip)]
    pub host_written_is_impossible: bool,
    /// The log or attribute of that counter.
    pub host_written_source: Option<String>,
    /// Bytes that the drive wrote to flash memory.
    pub nand_written_bytes: Option<u64>,
    /// The log or attribute of that counter.
    pub nand_written_source: Option<String>,
    /// Write amplification since the drive was made.
    pub waf_lifetime: Option<Waf>,
    /// The counters of the write amplification.
    pub waf_source: Option<String>,
    /// Rated life used, in per cent.
    pub used_percent: Option<u64>,
    /// Defined by a standard (NVMe, ATA, SCSI) and not by the vendor.
    pub used_is_standard: Option<bool>,
    /// The log or attribute of that value.
    pub used_source: Option<String>,
    /// Spare blocks left, in per cent.
    pub spare_percent: Option<u64>,
    /// Temperature in degrees Celsius.
    pub temperature_celsius: Option<i64>,
    /// Power cuts for which the drive was not prepared.
    pub unsafe_shutdowns: Option<u64>,
    /// Hours under power.
    pub power_on_hours: Option<u64>,
    /// Changes since the earlier reading.
    pub since: Option<Since>,
    /// Life left at the rate since the earlier reading.
    pub life_left: Option<LifeLeft>,
    /// Host writes against the warranty.
    pub warranty: Option<WarrantyState>,
    /// Effect of the last change of a trim policy.
    pub policy_effect: Option<PolicyEffect>,
    /// Counters of writes without a documented unit.
    pub raw_counters: Vec<RawCounter>,
    /// Contradictions and values that cannot be right.
    pub remarks: Vec<String>,
}

/// A drive or file without a reading.
#[derive(Debug, Serialize)]
pub struct Failure {
    /// The file, or the device node.
    pub subject: String,
    /// The cause.
    #[serde(rename = "why", serialize_with = "as_line")]
    pub error: anyhow::Error,
}

/// A reading, and the file or device node that it is of.
pub type Outcome = (String, anyhow::Result<Reading>);

/// Joins a reading with an earlier one and the warranty.
pub fn assess(
    subject: String,
    reading: Reading,
    before: Option<&Reading>,
    warranty: Option<&Warranty>,
) -> DriveWear {
    let now_unix_s = crate::sys::clock::unix_ms() / 1000;
    let is_future = reading.taken_unix_s.is_some_and(|taken| taken > now_unix_s + CLOCK_ERROR_S);
    let before = before.filter(|_| !is_future);
    let since = before.map(|before| Since::new(before, &reading));
    let life_left = before.and_then(|before| LifeLeft::new(before, &reading));
    let mut remarks = reading.remarks.clone();
    if is_future {
        remarks.push(
            "the reading is dated in the future, so it gives no rate: a clock is wrong".to_owned(),
        );
    }
    if since.as_ref().is_some_and(|since| since.went_back) {
        remarks.push(
            "a counter is lower than in the earlier reading: it was reset, so it gives no rate"
                .to_owned(),
        );
    }
    let warranty = warranty.and_then(|warranty| match warranty.state(&reading, since.as_ref()) {
        Ok(state) => Some(state),
        Err(why) => {
            remarks.push(format!("the warranty is not compared: {why}"));
            None
        }
    });
    let split = |counter: Option<wear::Counter>| {
        counter.map_or((None, None), |counter| (Some(counter.bytes), Some(counter.source)))
    };
    let (host_written_bytes, host_written_source) = split(reading.host_written);
    let (nand_written_bytes, nand_written_source) = split(reading.nand_written);
    let waf_lifetime = reading.waf_counters.as_ref().and_then(wear::WafCounters::lifetime);
    DriveWear {
        subject,
        model: reading.model,
        protocol: reading.protocol,
        kind: reading.kind,
        taken_unix_s: reading.taken_unix_s,
        host_written_bytes,
        host_written_is_impossible: reading.host_written_is_impossible,
        host_written_source,
        nand_written_bytes,
        nand_written_source,
        waf_source: reading
            .waf_counters
            .filter(|_| waf_lifetime.is_some())
            .map(|counters| counters.source),
        waf_lifetime,
        used_percent: reading.used.as_ref().map(|used| used.percent),
        used_is_standard: reading.used.as_ref().map(|used| used.is_standard),
        used_source: reading.used.map(|used| used.source),
        spare_percent: reading.spare_percent,
        temperature_celsius: reading.temperature_celsius,
        unsafe_shutdowns: reading.unsafe_shutdowns,
        power_on_hours: reading.power_on_hours,
        since,
        life_left,
        warranty,
        policy_effect: None,
        raw_counters: reading.raw_counters,
        remarks,
    }
}

/// Reads a document of smartctl or nvme-cli from a file, or from standard input.
pub fn from_file(path: &Path) -> anyhow::Result<Reading> {
    let bytes = if path == Path::new(STDIN) {
        let mut bytes = Vec::new();
        std::io::stdin()
            .lock()
            .take(BYTES_MAX + 1)
            .read_to_end(&mut bytes)
            .context("cannot read standard input")?;
        anyhow::ensure!(
            bytes.len() as u64 <= BYTES_MAX,
            "standard input is longer than {BYTES_MAX} bytes"
        );
        bytes
    } else {
        let hint = "give a file that 'smartctl --json -x DEVICE' wrote";
        named::read(path, BYTES_MAX).map_err(|error| of_named(error, path, "cannot read", hint))?
    };
    let shown = if path == Path::new(STDIN) {
        "standard input".to_owned()
    } else {
        format!("'{}'", path.display())
    };
    wear::parse(&bytes).with_context(|| format!("cannot use {shown}"))
}

/// The drives below a path, once each.
pub fn drives_of(root: &Root, paths: &[&Path]) -> anyhow::Result<Vec<Layer>> {
    let mut found: Vec<Layer> = Vec::new();
    for path in paths {
        let hint = "name a mount point, a directory or a block device";
        let place = Place::of_path(root, path)
            .map_err(|error| of_named(error, path, "cannot find the drive of", hint))?;
        let before = found.len();
        add_drives(&mut found, &place.stack);
        if found.len() == before && place.stack.drives().next().is_none() {
            let what = format!("'{}' is on no drive of this machine", path.display());
            return Err(UsageError::missing(what).hint(hint).into());
        }
    }
    Ok(found)
}

/// All drives of the machine. Virtual devices without wear are left out.
pub fn all_drives(root: &Root) -> anyhow::Result<Vec<Layer>> {
    let mounts =
        mountinfo::read(root).context("cannot read the mount table (/proc/self/mountinfo)")?;
    let mut found = Vec::new();
    for dev in drive::with_medium(root) {
        add_drives(&mut found, &Stack::of_device(root, &mounts, dev));
    }
    found.retain(|layer| {
        matches!(
            layer.kind,
            LayerKind::Drive(Bus::Ata | Bus::Usb | Bus::Scsi | Bus::Nvme | Bus::Other)
        )
    });
    Ok(found)
}

fn add_drives(found: &mut Vec<Layer>, stack: &Stack) {
    for layer in stack.drives() {
        if !found.iter().any(|known| known.dev == layer.dev) {
            found.push(layer.clone());
        }
    }
}

/// Asks a drive, without waking it. `device` is smartctl's `-d TYPE`.
pub fn of_drive(root: &Root, layer: &Layer, device: Option<&str>) -> anyhow::Result<Reading> {
    let node = layer.node();
    let reading = match (smartctl::find(), &layer.kind) {
        (_, LayerKind::Drive(Bus::Virtio | Bus::Nbd | Bus::Zram)) => {
            anyhow::bail!("{node} is a virtual drive and reports no wear")
        }
        (Some(program), _) => with_smartctl(&program, &node, device)?,
        (None, LayerKind::Drive(Bus::Nvme)) => {
            of_kernel(root, layer).with_context(|| format!("cannot read the log of {node}"))?
        }
        (None, _) => {
            let what = format!(
                "smartctl is not installed, and the kernel does not show the wear of {node}"
            );
            return Err(UsageError::missing(what).hint("install the package smartmontools").into());
        }
    };
    let taken_unix_s = reading.taken_unix_s.or_else(|| Some(crate::sys::clock::unix_ms() / 1000));
    let model = reading.model.clone().or_else(|| drive::identity(root, layer).model);
    Ok(Reading { taken_unix_s, model, ..reading })
}

/// The health log of an NVMe drive, from the kernel.
pub fn of_kernel(root: &Root, layer: &Layer) -> std::io::Result<Reading> {
    let reading = Reading::from(&SmartLog::read(root, layer)?);
    // The log does not name the drive, and the history tells drives apart by serial
    // number.
    let serial = root.read(drive::device_directory(layer).join("serial"));
    let taken_unix_s = Some(crate::sys::clock::unix_ms() / 1000);
    Ok(Reading { model: drive::identity(root, layer).model, serial, taken_unix_s, ..reading })
}

/// Adds the NAND writes of an NVMe drive's OCP log, if it has one. smartctl does not read
/// that log.
pub fn add_ocp_log(layer: &Layer, reading: &mut Reading, history: Option<&WearHistory>) {
    if layer.kind == LayerKind::Drive(Bus::Nvme)
        && reading.nand_written.is_none()
        && history.is_none_or(|history| history.may_have_nand(reading))
        && let Ok(page) = nvme::read(Log::Ocp, &layer.name, layer.dev.major, layer.dev.minor)
    {
        wear::nvme::add_ocp_log(&page, reading);
    }
}

fn with_smartctl(program: &Path, node: &str, device: Option<&str>) -> anyhow::Result<Reading> {
    let document = smartctl::ask(program, node, device, smartctl::TIME_LIMIT)
        .with_context(|| format!("cannot read the wear of {node}"))?;
    wear::parse(&document).map_err(|error| match error {
        ReadError::NeedsType(_) => UsageError::missing(format!("{node}: {error}"))
            .hint("name the type with --device TYPE ('man smartctl', option -d, lists them)")
            .into(),
        other => anyhow::Error::new(other).context(format!("cannot read the wear of {node}")),
    })
}

/// Refuses an earlier reading of another drive.
pub fn require_same_drive(before: &Reading, now: &Reading) -> Result<(), UsageError> {
    let of_other = before.model != now.model
        || before.serial != now.serial && before.serial.is_some() && now.serial.is_some();
    if of_other {
        let name = |reading: &Reading| {
            reading.model.clone().unwrap_or_else(|| "a drive without a model name".to_owned())
        };
        let what = format!(
            "the earlier reading is of another drive: {} instead of {}",
            name(before),
            name(now)
        );
        return Err(
            UsageError::new(what).hint("give an earlier reading of the same drive to --before")
        );
    }
    match (before.taken_unix_s, now.taken_unix_s) {
        (Some(earlier), Some(later)) if earlier > later => {
            Err(UsageError::new("the reading given to --before is the later one")
                .hint("exchange the two"))
        }
        _ => Ok(()),
    }
}

fn as_line<S: serde::Serializer>(error: &anyhow::Error, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&one_line(error))
}
