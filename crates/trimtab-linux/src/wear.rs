//! Wear of a drive: data written by the host and to flash memory, rated life used, and
//! the counters around them. The source is JSON of smartctl or nvme-cli, or the drive's
//! own log. A value whose unit is not documented is kept as a raw number and never
//! converted.

pub mod assessment;
mod ata;
pub mod calibration;
pub mod effect;
pub mod history;
mod names;
mod nvme;
pub mod outlook;
mod scsi;
pub mod smartctl;
mod value;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use value::{Fields, text};

/// Longest accepted document, in bytes. `smartctl -x` prints less than a tenth of it.
pub const BYTES_MAX: u64 = 4 << 20;
/// Highest temperature that is believed, in degrees Celsius, and the lowest.
const TEMPERATURE: std::ops::RangeInclusive<i64> = -60..=150;
/// More hours are no time that a drive can have run: 1,915 years.
const HOURS_MAX: u64 = 0xff_ffff;

/// Times that a clock can have shown at a reading: 1990 to 2199, in seconds since 1970.
const TIMES: std::ops::Range<u64> = 631_152_000..7_258_118_400;

/// The construction of a drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DriveKind {
    /// Flash memory.
    Ssd,
    /// Rotating disks.
    HardDisk,
    /// The source does not say.
    #[default]
    Unknown,
}

/// A counter with a documented unit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counter {
    /// Bytes counted since the drive was made.
    pub bytes: u64,
    /// Bytes that one step of the counter stands for.
    pub step_bytes: u64,
    /// The log or attribute that holds it.
    pub source: String,
}

/// A counter whose unit no source documents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RawCounter {
    /// Number of the attribute.
    pub id: Option<u64>,
    /// Its name.
    pub name: String,
    /// Its value.
    pub raw: u64,
    /// The reason why the unit is unknown.
    pub why: String,
}

/// The unit of two counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WafUnit {
    /// Bytes.
    Bytes,
    /// Pages of flash memory, whose size is not documented.
    Pages,
}

/// The two counters of a write amplification, in one unit, from one source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WafCounters {
    /// Written by the host.
    pub host: u64,
    /// Written to flash memory.
    pub nand: u64,
    /// Unit of both.
    pub unit: WafUnit,
    /// One step of `host`.
    pub host_step: u64,
    /// One step of `nand`.
    pub nand_step: u64,
    /// The logs or attributes that hold them.
    pub source: String,
}

/// A ratio, and the range that the steps of its counters leave open.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Waf {
    /// Bytes written to flash memory for each byte that the host wrote.
    pub value: f64,
    /// Lower end of the range.
    pub low: f64,
    /// Upper end; `None` if the steps are too coarse for one.
    pub high: Option<f64>,
}

impl WafCounters {
    /// Counters of bytes.
    fn of_bytes(host: &Counter, nand: &Counter) -> Self {
        Self {
            host: host.bytes,
            nand: nand.bytes,
            unit: WafUnit::Bytes,
            host_step: host.step_bytes,
            nand_step: nand.step_bytes,
            source: format!("{} and {}", host.source, nand.source),
        }
    }

    /// Write amplification over the drive's life; `None` before both counters have moved.
    pub fn lifetime(&self) -> Option<Waf> {
        (self.host > 0 && self.nand > 0).then(|| {
            let (host, nand) = (self.host as f64, self.nand as f64);
            // Counters are cut to whole steps.
            let (low, high) =
                (nand / (host + self.host_step as f64), (nand + self.nand_step as f64) / host);
            Waf { value: nand / host, low, high: Some(high) }
        })
    }

    /// Write amplification since `before`. `None` if the sources differ, a counter went
    /// back, or the host has written nothing.
    pub fn since(&self, before: &Self) -> Option<Waf> {
        if self.source != before.source || self.unit != before.unit {
            return None;
        }
        let host = self.host.checked_sub(before.host).filter(|host| *host > 0)? as f64;
        let nand = self.nand.checked_sub(before.nand)? as f64;
        let (host_step, nand_step) = (self.host_step as f64, self.nand_step as f64);
        let high = (host > host_step).then(|| (nand + nand_step) / (host - host_step));
        Some(Waf {
            value: nand / host,
            low: (nand - nand_step).max(0.0) / (host + host_step),
            high,
        })
    }
}

/// Rated life used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Used {
    /// Per cent of the rated life; more than 100 after its end.
    pub percent: u64,
    /// Defined by a standard (NVMe, ATA or SCSI), not by the vendor.
    pub is_standard: bool,
    /// The log or attribute that holds it.
    pub source: String,
}

/// One reading of a drive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Model, as the drive names itself.
    pub model: Option<String>,
    /// Serial number. Never printed: it only tells drives apart.
    pub serial: Option<String>,
    /// `ATA`, `NVMe` or `SCSI`.
    pub protocol: Option<String>,
    /// Construction.
    pub kind: DriveKind,
    /// Time of the reading, in seconds since 1970.
    pub taken_unix_s: Option<u64>,
    /// Capacity in bytes.
    pub capacity_bytes: Option<u64>,
    /// Data that the host wrote.
    pub host_written: Option<Counter>,
    /// The drive reports a value of `host_written` that cannot be right.
    pub host_written_is_impossible: bool,
    /// Data that the drive wrote to flash memory.
    pub nand_written: Option<Counter>,
    /// The counters for write amplification.
    pub waf_counters: Option<WafCounters>,
    /// Rated life used.
    pub used: Option<Used>,
    /// Spare blocks left, in per cent, by the standard's own scale.
    pub spare_percent: Option<u64>,
    /// Temperature in degrees Celsius.
    pub temperature_celsius: Option<i64>,
    /// Power cuts for which the drive was not prepared.
    pub unsafe_shutdowns: Option<u64>,
    /// Hours under power.
    pub power_on_hours: Option<u64>,
    /// Counters of writes without a documented unit.
    pub raw_counters: Vec<RawCounter>,
    /// Contradictions and values that cannot be right.
    pub remarks: Vec<String>,
}

/// The reasons why a document gives no reading.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// No JSON, or nested too deeply.
    #[error("it is not valid JSON")]
    NotJson(#[source] serde_json::Error),
    /// JSON of another program.
    #[error("it is JSON, but neither from smartctl nor from nvme-cli")]
    Foreign,
    /// The drive sleeps, and was not woken.
    #[error("the drive is asleep and was not woken")]
    Asleep,
    /// smartctl cannot tell how to access the drive.
    #[error("smartctl does not know how the drive is connected ({0})")]
    NeedsType(String),
    /// smartctl failed.
    #[error("smartctl failed with exit status {status}: {said}")]
    Failed {
        /// The exit status.
        status: u64,
        /// Its message.
        said: String,
    },
}

/// Parses a document of smartctl (`--json`) or nvme-cli (`--output-format=json`).
///
/// # Errors
/// If it is no such document, or smartctl reports in it that it could not read the drive.
pub fn parse(bytes: &[u8]) -> Result<Reading, ReadError> {
    let document: Value = serde_json::from_slice(bytes).map_err(ReadError::NotJson)?;
    let mut fields = Fields::default();
    let mut reading = identity(&document, &mut fields);
    let is_known = nvme::read(&document, &mut reading, &mut fields)
        | ata::read(&document, &mut reading, &mut fields)
        | scsi::read(&document, &mut reading, &mut fields);
    reading.kind = kind(&document, &reading);
    common(&document, &mut reading, &mut fields);
    if !is_known {
        refuse(&document)?;
        fields.remark("the drive reports no SMART data".to_owned());
    }
    status_bits(&document, &mut fields);
    reading.remarks = fields.into_remarks();
    Ok(reading)
}

fn identity(document: &Value, fields: &mut Fields) -> Reading {
    let taken = fields.count(&document["local_time"], "time_t");
    if let Some(time) = taken.filter(|time| !TIMES.contains(time)) {
        fields.remark(format!(
            "the reading claims to be of {time} s since 1970, which cannot be right"
        ));
    }
    let model = ["model_name", "scsi_model_name", "model_family"]
        .iter()
        .find_map(|key| text(&document[*key]));
    Reading {
        model,
        serial: text(&document["serial_number"]),
        protocol: text(&document["device"]["protocol"]),
        taken_unix_s: taken.filter(|time| TIMES.contains(time)),
        ..Reading::default()
    }
}

/// Values that smartctl gives for every protocol.
fn common(document: &Value, reading: &mut Reading, fields: &mut Fields) {
    let capacity = fields
        .count(&document["user_capacity"], "bytes")
        .or_else(|| fields.count(document, "nvme_total_capacity"));
    reading.capacity_bytes = capacity.filter(|bytes| *bytes > 0);
    let temperature =
        document["temperature"]["current"].as_i64().filter(|celsius| TEMPERATURE.contains(celsius));
    reading.temperature_celsius = reading.temperature_celsius.or(temperature);
    reading.power_on_hours =
        reading.power_on_hours.or_else(|| fields.count(&document["power_on_time"], "hours"));
    if let Some(hours) = reading.power_on_hours.filter(|hours| *hours > HOURS_MAX) {
        reading.power_on_hours = None;
        fields.remark(format!("the drive claims {hours} hours under power, which cannot be right"));
    }
}

fn kind(document: &Value, reading: &Reading) -> DriveKind {
    match document["rotation_rate"].as_u64() {
        Some(0) => DriveKind::Ssd,
        Some(_) => DriveKind::HardDisk,
        None if reading.protocol.as_deref() == Some("NVMe")
            || document.get(nvme::HEALTH_LOG).is_some() =>
        {
            DriveKind::Ssd
        }
        // Old disks do not state their rotation rate.
        None => ata::kind(document),
    }
}

/// Explains a document without figures.
fn refuse(document: &Value) -> Result<(), ReadError> {
    let smartctl = &document["smartctl"];
    if !smartctl.is_object() {
        return Err(ReadError::Foreign);
    }
    let messages = smartctl["messages"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|message| text(&message["string"]));
    let lines = smartctl["output"].as_array().into_iter().flatten().filter_map(text);
    let said: Vec<String> = messages.chain(lines).collect();
    if said.iter().any(|line| line.starts_with("Device is in ") && line.contains(" mode, exit(")) {
        return Err(ReadError::Asleep);
    }
    // smartctl names the missing type in several ways, and the option only in its full
    // output.
    let asks = ["Unable to detect device type", "USB bridge", "USB Bridge", "'-d ", "-d option"];
    if let Some(line) = said.iter().find(|line| asks.iter().any(|part| line.contains(part))) {
        return Err(ReadError::NeedsType(line.clone()));
    }
    match smartctl["exit_status"].as_u64() {
        Some(status) if status & FATAL != 0 => {
            let said = said.first().cloned().unwrap_or_else(|| "it does not say why".to_owned());
            Err(ReadError::Failed { status, said })
        }
        _ => Ok(()),
    }
}

/// Exit status bits that stand for a failure of smartctl; the others are findings about
/// the drive.
const FATAL: u64 = 0b111;

fn status_bits(document: &Value, fields: &mut Fields) {
    let Some(status) = document["smartctl"]["exit_status"].as_u64() else { return };
    if status & FATAL != 0 {
        fields.remark(format!("smartctl could not read everything (exit status {status})"));
    }
    if status & 0b1000 != 0 || document["smart_status"]["passed"] == Value::Bool(false) {
        fields.remark("the drive reports that it is failing".to_owned());
    }
}

/// Formats bytes for a remark.
fn amount(bytes: u64) -> String {
    trimtab_drive::units::Bytes(bytes).to_string()
}

#[cfg(test)]
mod tests;
