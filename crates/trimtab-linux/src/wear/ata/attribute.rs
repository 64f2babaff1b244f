//! One row of the attribute table.

use crate::wear::value::{Fields, count, text};
use serde_json::Value;

/// More rows than the 30 of the ATA table are not read.
const ROWS_MAX: usize = 256;
/// 48 bits that are all set stand for a value that the drive does not have.
const NOT_SET: u64 = (1 << 48) - 1;
/// Names that smartctl gives to the number of an attribute of every drive.
const DEFAULT_NAMES: [(u64, &str); 3] = [(177, "Wear_Leveling_Count"), (233, "Media_Wearout_Indicator"), (241, "Total_LBAs_Written")];

/// An attribute.
#[derive(Clone, Debug)]
pub struct Attribute {
    pub id: u64,
    pub name: String,
    /// Scaled by the vendor, mostly from 100 downwards.
    pub normalised: Option<u64>,
    /// `None` if several numbers share the raw value, or the drive has none.
    pub raw: Option<u64>,
    /// The name is smartctl's default for this number, and smartctl does not know the drive.
    pub is_default_name: bool,
}

impl Attribute {
    /// The rows that can be read.
    pub fn all(document: &Value, fields: &mut Fields) -> Vec<Self> {
        let is_unknown = document["in_smartctl_database"] == Value::Bool(false);
        let rows = document["ata_smart_attributes"]["table"].as_array().into_iter().flatten().take(ROWS_MAX);
        rows.filter_map(|row| Self::of_row(row, is_unknown, fields)).collect()
    }

    fn of_row(row: &Value, is_unknown: bool, fields: &mut Fields) -> Option<Self> {
        let (id, name) = (count(&row["id"])?, text(&row["name"])?);
        let raw = count(&row["raw"]["value"]);
        if raw.is_none() && row["raw"].get("value").is_some() {
            fields.remark(format!("the raw value of attribute {id} '{name}' is not a whole number from 0 to 2^64 - 1"));
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
