//! Values of JSON documents, which may be damaged or hostile.

use serde_json::{Number, Value};

/// Longest text taken from a document, in characters.
const TEXT_MAX: usize = 200;

/// A non-empty text, cut to a sensible length.
pub fn text(value: &Value) -> Option<String> {
    let text: String = value.as_str()?.trim().chars().take(TEXT_MAX).collect();
    Some(text).filter(|text| !text.is_empty())
}

/// A whole number that is not negative, as a JSON number or as decimal digits in a string
/// (nvme-cli writes 128-bit counters so).
pub fn count(value: &Value) -> Option<u64> {
    match value {
        Value::Number(number) => number.as_u64().or_else(|| whole(number)),
        Value::String(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            digits.parse().ok()
        }
        _ => None,
    }
}

/// A number such as `5.0`, up to the largest one that is exact.
fn whole(number: &Number) -> Option<u64> {
    let value = number.as_f64()?;
    (value >= 0.0 && value <= 2_f64.powi(53) && value.fract() == 0.0).then_some(value as u64)
}

/// Reads values and collects remarks about those that cannot be right.
#[derive(Debug, Default)]
pub struct Fields(Vec<String>);

impl Fields {
    /// Adds a remark, once.
    pub fn remark(&mut self, remark: String) {
        if !self.0.contains(&remark) {
            self.0.push(remark);
        }
    }

    /// The counter `key` of `object`. smartctl adds a text `key_s` where a number may
    /// lose digits.
    pub fn count(&mut self, object: &Value, key: &str) -> Option<u64> {
        let exact = object.get(format!("{key}_s")).and_then(count);
        let value = object.get(key)?;
        let found = exact.or_else(|| count(value));
        if found.is_none() {
            self.remark(format!("{key} is not a whole number from 0 to 2^64 - 1"));
        }
        found
    }

    /// `count` steps in bytes.
    pub fn bytes(&mut self, count: u64, step: u64, source: &str) -> Option<u64> {
        let bytes = count.checked_mul(step);
        if bytes.is_none() {
            self.remark(format!(
                "{source}: {count} steps of {step} bytes are more than a drive can have written"
            ));
        }
        bytes
    }

    /// The remarks.
    pub fn into_remarks(self) -> Vec<String> {
        self.0
    }
}
