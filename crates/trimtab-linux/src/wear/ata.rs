//! ATA: the device statistics log, which is a standard, and attributes, whose names
//! smartctl takes from its drive database.

mod life;
mod writes;

use super::value::{Fields, count, text};
use super::{DriveKind, Reading, Used};
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
    reading.used = standard_percent(document, fields).or_else(|| life::used(document, &attributes));
    writes::read(document, &attributes, reading, fields);
    let shutdowns =
        attributes.iter().filter(|attribute| super::names::is_unsafe_shutdown(&attribute.name));
    reading.unsafe_shutdowns = shutdowns.filter_map(|attribute| attribute.raw).max();
    true
}

/// The valid entry of the device statistics with this name.
fn statistic<'a>(document: &'a Value, name: &str) -> Option<&'a Value> {
    let pages = document["ata_device_statistics"]["pages"].as_array()?;
    let mut entries = pages.iter().flat_map(|page| page["table"].as_array().into_iter().flatten());
    let valid = |entry: &&Value| {
        entry["name"].as_str() == Some(name) && entry["flags"]["valid"] != Value::Bool(false)
    };
    entries.find(valid).filter(|entry| entry.get("value").is_some())
}

fn standard_percent(document: &Value, fields: &mut Fields) -> Option<Used> {
    let percent = fields.count(statistic(document, PERCENT_USED)?, "value")?;
    if percent > u64::from(u8::MAX) {
        fields.remark(format!("{percent} % used is more than the ATA device statistics can hold"));
        return None;
    }
    Some(Used {
        percent,
        is_standard: true,
        source: format!("ATA device statistics, {PERCENT_USED}"),
    })
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

/// The construction of a drive that does not state its rotation rate: only disks move
/// heads.
pub fn kind(document: &Value) -> DriveKind {
    let attributes = Attribute::all(document, &mut Fields::default());
    let has = |words: &[&str]| {
        attributes.iter().any(|attribute| words.iter().any(|word| attribute.name.contains(word)))
    };
    if has(&[
        "Wear_",
        "Wearout",
        "Erase_Count",
        "Life_Left",
        "Lifetime_Remain",
        "NAND",
        "Flash_Writes",
    ]) {
        DriveKind::Ssd
    } else if has(&["Seek_Error_Rate", "High_Fly_Writes", "Spin_Retry_Count", "Load_Cycle_Count"]) {
        DriveKind::HardDisk
    } else {
        DriveKind::Unknown
    }
}

/// More rows than the 30 of the ATA table are not read.
const ROWS_MAX: usize = 256;
/// 48 bits that are all set stand for a value that the drive does not have.
const NOT_SET: u64 = (1 << 48) - 1;
/// Names that smartctl gives to the number of an attribute of every drive.
const DEFAULT_NAMES: [(u64, &str); 3] =
    [(177, "Wear_Leveling_Count"), (233, "Media_Wearout_Indicator"), (241, "Total_LBAs_Written")];

/// An attribute.
#[derive(Clone, Debug)]
pub struct Attribute {
    pub id: u64,
    pub name: String,
    /// Scaled by the vendor, mostly from 100 downwards.
    pub normalised: Option<u64>,
    /// `None` if several numbers share the raw value, or the drive has none.
    pub raw: Option<u64>,
    /// The name is smartctl's default for this number, and smartctl does not know the
    /// drive.
    pub is_default_name: bool,
}

impl Attribute {
    /// The rows that can be read.
    pub fn all(document: &Value, fields: &mut Fields) -> Vec<Self> {
        let is_unknown = document["in_smartctl_database"] == Value::Bool(false);
        let rows = document["ata_smart_attributes"]["table"]
            .as_array()
            .into_iter()
            .flatten()
            .take(ROWS_MAX);
        rows.filter_map(|row| Self::of_row(row, is_unknown, fields)).collect()
    }

    fn of_row(row: &Value, is_unknown: bool, fields: &mut Fields) -> Option<Self> {
        let (id, name) = (count(&row["id"])?, text(&row["name"])?);
        let raw = count(&row["raw"]["value"]);
        if raw.is_none() && row["raw"].get("value").is_some() {
            fields.remark(format!(
                "the raw value of attribute {id} '{name}' is not a whole number from 0 to 2^64 - 1"
            ));
        }
        let is_default_name = is_unknown && DEFAULT_NAMES.contains(&(id, name.as_str()));
        let raw = raw.filter(|raw| *raw != NOT_SET && is_one_number(&row["raw"]["string"], *raw));
        Some(Self { id, name, normalised: count(&row["value"]), raw, is_default_name })
    }

    /// The attribute, for messages.
    pub fn title(&self) -> String {
        format!("attribute {} '{}'", self.id, self.name)
    }
}

/// The printed form is the number itself, in decimal or hexadecimal, and not `26 (Min/Max
/// 16/35)`, whose raw value packs several numbers.
fn is_one_number(printed: &Value, raw: u64) -> bool {
    match printed.as_str() {
        None => true,
        Some(text) => match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16) == Ok(raw),
            None => text.parse() == Ok(raw),
        },
    }
}
