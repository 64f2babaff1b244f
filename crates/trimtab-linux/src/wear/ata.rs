//! ATA: the device statistics log, which is a standard, and attributes, whose names smartctl
//! takes from its drive database.

mod attribute;
mod life;
mod writes;

use super::value::{Fields, count};
use super::{DriveKind, Reading, Used};
use attribute::Attribute;
use serde_json::Value;

const SECTORS_WRITTEN: &str = "Logical Sectors Written";
const PERCENT_USED: &str = "Percentage Used Endurance Indicator";

/// Reads the logs. True if there is one.
pub fn read(document: &Value, reading: &mut Reading, fields: &mut Fields) -> bool {
    let attributes = Attribute::all(document, fields);
    let has_statistics = document["ata_device_statistics"]["pages"].is_array();
    if attributes.is_empty() && !has_statistics {
        return false;
    }
    reading.protocol.get_or_insert_with(|| "ATA".to_owned());
    writes::read(document, &attributes, reading, fields);
    reading.used = standard_percent(document, fields).or_else(|| life::used(document, &attributes));
    let shutdowns = attributes.iter().filter(|attribute| super::names::is_unsafe_shutdown(&attribute.name));
    reading.unsafe_shutdowns = shutdowns.filter_map(|attribute| attribute.raw).max();
    true
}

/// The valid entry of the device statistics with this name.
fn statistic<'a>(document: &'a Value, name: &str) -> Option<&'a Value> {
    let pages = document["ata_device_statistics"]["pages"].as_array()?;
    let mut entries = pages.iter().flat_map(|page| page["table"].as_array().into_iter().flatten());
    let valid = |entry: &&Value| entry["name"].as_str() == Some(name) && entry["flags"]["valid"] != Value::Bool(false);
    entries.find(valid).filter(|entry| entry.get("value").is_some())
}

fn standard_percent(document: &Value, fields: &mut Fields) -> Option<Used> {
    let percent = fields.count(statistic(document, PERCENT_USED)?, "value")?;
    if percent > u64::from(u8::MAX) {
        fields.remark(format!("{percent} % used is more than the ATA device statistics can hold"));
        return None;
    }
    Some(Used { percent, is_standard: true, source: format!("ATA device statistics, {PERCENT_USED}") })
}

/// Bytes of a logical sector, as the drive states it.
fn sector_bytes(document: &Value) -> Option<u64> {
    let stated = || count(&document["logical_block_size"]);
    let divided = || {
        let capacity = &document["user_capacity"];
        let (bytes, blocks) = (count(&capacity["bytes"])?, count(&capacity["blocks"])?);
        bytes.checked_div(blocks).filter(|size| size.checked_mul(blocks) == Some(bytes))
    };
    stated().or_else(divided).filter(|size| size.is_power_of_two() && (512..=65_536).contains(size))
}

/// The construction of a drive that does not state its rotation rate: only disks move heads.
pub fn kind(document: &Value) -> DriveKind {
    let attributes = Attribute::all(document, &mut Fields::default());
    let has = |words: &[&str]| attributes.iter().any(|attribute| words.iter().any(|word| attribute.name.contains(word)));
    if has(&["Wear_", "Wearout", "Erase_Count", "Life_Left", "Lifetime_Remain", "NAND", "Flash_Writes"]) {
        DriveKind::Ssd
    } else if has(&["Seek_Error_Rate", "High_Fly_Writes", "Spin_Retry_Count", "Load_Cycle_Count"]) {
        DriveKind::HardDisk
    } else {
        DriveKind::Unknown
    }
}
