//! NVMe: the SMART / Health log (02h), and the physical writes of the OCP log (C0h).

use super::value::{Fields, count};
use super::{Counter, DriveKind, Reading, TEMPERATURE, Used, WafCounters};
use crate::host::health::{DATA_UNIT_BYTES, SmartLog};
use serde_json::Value;

/// Key of the log in smartctl's document; nvme-cli has its fields at the top.
pub const HEALTH_LOG: &str = "nvme_smart_health_information_log";
const WRITTEN: &str = "data_units_written";
const PHYSICAL: &str = "OCP log C0h, physical media units written";
/// GUID at the end of the OCP log. Other vendors' logs have the same number.
const OCP_GUID: [u8; 16] = 0xAFD5_14C9_7C6F_4F9C_A4F2_BFEA_2810_AFC5_u128.to_le_bytes();
/// nvme-cli gives kelvins, smartctl degrees Celsius. No drive is this hot.
const KELVIN_MIN: i64 = 200;
const CELSIUS_KELVIN: i64 = 273;

/// Reads the logs. True if there is one.
pub fn read(document: &Value, reading: &mut Reading, fields: &mut Fields) -> bool {
    let log = match document.get(HEALTH_LOG) {
        Some(log) => log,
        None if document.get(WRITTEN).is_some() => document,
        None => &Value::Null,
    };
    let nand = physical_writes(document, fields);
    if !log.is_object() && nand.is_none() {
        return false;
    }
    if log.is_object() {
        reading.protocol.get_or_insert_with(|| "NVMe".to_owned());
        health(log, reading, fields);
    }
    set_physical_writes(reading, nand);
    true
}

fn set_physical_writes(reading: &mut Reading, nand: Option<Counter>) {
    reading.nand_written = nand;
    reading.waf_counters = reading
        .host_written
        .as_ref()
        .zip(reading.nand_written.as_ref())
        .map(|(host, nand)| WafCounters::of_bytes(host, nand));
}

/// Adds the bytes written to flash memory of an OCP log, unless the page is another log.
pub(super) fn add_ocp_log(page: &[u8], reading: &mut Reading) {
    let Some(written) = page.first_chunk().filter(|_| page.ends_with(&OCP_GUID)) else { return };
    let bytes = u64::try_from(u128::from_le_bytes(*written));
    let counter = |bytes| Counter { bytes, step_bytes: 1, source: PHYSICAL.to_owned() };
    set_physical_writes(reading, bytes.ok().map(counter));
}

fn health(log: &Value, reading: &mut Reading, fields: &mut Fields) {
    let source = "NVMe health log, data units written";
    reading.host_written = fields.count(log, WRITTEN).and_then(|units| {
        let bytes = fields.bytes(units, DATA_UNIT_BYTES, source)?;
        Some(Counter { bytes, step_bytes: DATA_UNIT_BYTES, source: source.to_owned() })
    });
    reading.host_written_is_impossible =
        reading.host_written.is_none() && log.get(WRITTEN).is_some();
    let percent = ["percentage_used", "percent_used"].iter().find_map(|key| fields.count(log, key));
    reading.used = percent.and_then(|percent| used(percent, fields));
    reading.spare_percent = ["available_spare", "avail_spare"]
        .iter()
        .find_map(|key| fields.count(log, key))
        .filter(|spare| *spare <= 100);
    reading.unsafe_shutdowns = fields.count(log, "unsafe_shutdowns");
    reading.power_on_hours = fields.count(log, "power_on_hours");
    let temperature = log["temperature"]
        .as_i64()
        .map(|degrees| if degrees >= KELVIN_MIN { degrees - CELSIUS_KELVIN } else { degrees });
    reading.temperature_celsius = temperature.filter(|celsius| TEMPERATURE.contains(celsius));
}

/// The log holds one byte: 255 also stands for more.
fn used(percent: u64, fields: &mut Fields) -> Option<Used> {
    if percent > u64::from(u8::MAX) {
        fields.remark(format!("{percent} % used is more than the NVMe health log can hold"));
        return None;
    }
    Some(Used { percent, is_standard: true, source: "NVMe health log, percentage used".to_owned() })
}

/// `Physical media units written` of the OCP log, in bytes, at the top of the document or
/// one level below.
fn physical_writes(document: &Value, fields: &mut Fields) -> Option<Counter> {
    let is_it = |key: &str| {
        let words = key.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
        words.map(str::to_ascii_lowercase).eq(["physical", "media", "units", "written"])
    };
    let top = document.as_object()?;
    let objects = std::iter::once(top).chain(top.values().filter_map(Value::as_object));
    let value = objects.flatten().find_map(|(key, value)| is_it(key).then_some(value))?;
    let bytes = match value {
        // nvme-cli splits 128 bits in two halves.
        Value::Object(halves) => {
            halves.get("lo").and_then(count).filter(|_| halves.get("hi").and_then(count) == Some(0))
        }
        single => count(single),
    };
    if bytes.is_none() {
        fields.remark(
            "physical media units written is not a whole number from 0 to 2^64 - 1".to_owned(),
        );
    }
    Some(Counter { bytes: bytes?, step_bytes: 1, source: PHYSICAL.to_owned() })
}

impl From<&SmartLog> for Reading {
    fn from(log: &SmartLog) -> Self {
        let mut fields = Fields::default();
        let source = "NVMe health log, data units written".to_owned();
        Self {
            protocol: Some("NVMe".to_owned()),
            kind: DriveKind::Ssd,
            host_written: Some(Counter {
                bytes: log.written.0,
                step_bytes: DATA_UNIT_BYTES,
                source,
            }),
            used: used(u64::from(log.used_percent), &mut fields),
            spare_percent: Some(u64::from(log.spare_percent)).filter(|spare| *spare <= 100),
            temperature_celsius: log.temperature_c.filter(|celsius| TEMPERATURE.contains(celsius)),
            unsafe_shutdowns: Some(log.unsafe_shutdowns),
            power_on_hours: Some(log.power_on_hours),
            ..Self::default()
        }
    }
}
