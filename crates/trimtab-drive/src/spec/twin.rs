//! Twins: specifications learned from a real drive, with the confidence in each value and
//! alternative members that explain the same measurements.

pub mod text;

use super::DriveSpec;
use super::source::{Source, SourceKind};
use crate::named;
use alloc::borrow::ToOwned as _;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// Placeholder value: this member does not have the field.
pub const NONE: &str = "none";

/// Twin section as parsed from a file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TwinSection {
    pub(super) origin: Origin,
    #[serde(default)]
    pub(super) parameters: Vec<Parameter>,
    pub(super) members: Members,
}

/// Values in which members differ from the main specification.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Members {
    fields: Vec<String>,
    /// One list per member, with one value per field.
    pub(super) values: Vec<Vec<toml::Value>>,
}

/// Maximum number of members, each a complete specification. Files may be untrusted.
const MEMBERS_MAX: usize = 1024;
/// Maximum number of notes, and of parameters.
const LINES_MAX: usize = 256;
/// Maximum length of a text in characters.
pub const TEXT_MAX: usize = 1000;

/// True if `text` has the form 2026-11-22.
pub(super) fn is_date(text: &str) -> bool {
    let fits = |(nth, byte): (usize, u8)| {
        if nth == 4 || nth == 7 { byte == b'-' } else { byte.is_ascii_digit() }
    };
    text.len() == 10 && text.bytes().enumerate().all(fits)
}

impl TwinSection {
    /// Refuses more members or lines than learning produces, which would need gigabytes.
    pub(super) fn check_size(&self) -> Result<(), String> {
        let counts = [
            ("twin.members.values", self.members.values.len(), MEMBERS_MAX),
            ("twin.members.fields", self.members.fields.len(), LINES_MAX),
            ("twin.parameters", self.parameters.len(), LINES_MAX),
            ("twin.origin.notes", self.origin.notes.len(), LINES_MAX),
        ];
        if let Some((what, found, most)) = counts.into_iter().find(|(_, found, most)| found > most)
        {
            return Err(format!("{what} has {found} entries; the maximum is {most}"));
        }
        match self.texts().find(|text| text.chars().count() > TEXT_MAX) {
            Some(text) => Err(format!(
                "twin has a text of {} characters; the maximum is {TEXT_MAX}",
                text.chars().count()
            )),
            None => Ok(()),
        }
    }

    /// All texts shown verbatim to the user.
    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        let origin = &self.origin;
        let named = [
            Some(&origin.model),
            origin.firmware.as_ref(),
            origin.which.as_ref(),
            Some(&origin.learned),
            Some(&origin.budget),
        ];
        let learned =
            self.parameters.iter().flat_map(|one| [one.field.as_str(), one.source.as_str()]);
        named.into_iter().flatten().chain(&origin.notes).map(String::as_str).chain(learned)
    }

    /// Applies the values of a member to `table`.
    pub(super) fn member(
        &self,
        table: &toml::Table,
        values: &[toml::Value],
    ) -> Result<toml::Table, String> {
        let fields = &self.members.fields;
        if fields.len() != values.len() {
            return Err(format!("has {} values for {} fields", values.len(), fields.len()));
        }
        let is_none = |value: &toml::Value| value.as_str() == Some(NONE);
        let mut table = table.clone();
        // Remove missing fields first: another variant of the same table may replace
        // them.
        for (field, _) in fields.iter().zip(values).filter(|(_, value)| is_none(value)) {
            remove(&mut table, field);
        }
        for (field, value) in fields.iter().zip(values).filter(|(_, value)| !is_none(value)) {
            insert(&mut table, field, value)?;
        }
        Ok(table)
    }
}

/// Removes a dotted field, and any tables that become empty.
fn remove(table: &mut toml::Table, field: &str) {
    match field.split_once('.') {
        None => drop(table.remove(field)),
        Some((first, rest)) => {
            if let Some(inner) = table.get_mut(first).and_then(toml::Value::as_table_mut) {
                remove(inner, rest);
                if inner.is_empty() {
                    table.remove(first);
                }
            }
        }
    }
}

fn insert(table: &mut toml::Table, field: &str, value: &toml::Value) -> Result<(), String> {
    match field.split_once('.') {
        None => drop(table.insert(field.to_owned(), value.clone())),
        Some((first, rest)) => {
            let inner =
                table.entry(first).or_insert_with(|| toml::Value::Table(toml::Table::new()));
            let inner = inner.as_table_mut().ok_or_else(|| {
                format!("{first} is a value, but twin.members.fields lists {field}")
            })?;
            insert(inner, rest, value)?;
        }
    }
    Ok(())
}

/// Additional data of a learned specification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Twin {
    /// Provenance: drive, date and probe settings.
    pub origin: Origin,
    /// Confidence in each value.
    pub parameters: Vec<Parameter>,
    /// Specifications that all explain the measurements.
    pub members: Vec<DriveSpec>,
}

/// Parameter name that stands for several fields.
const SPARE: &str = "flash.over_provisioning_permille";

impl Twin {
    /// Source of each value, in the same form as in all specifications.
    pub fn sources(&self) -> BTreeMap<String, Source> {
        let of = |one: &Parameter| match one.known {
            Known::Measured => Source { kind: SourceKind::Measured, text: one.source.clone() },
            Known::Bounded => {
                Source { kind: SourceKind::Measured, text: format!("bounded by {}", one.source) }
            }
            Known::Typical => Source { kind: SourceKind::Assumed, text: one.source.clone() },
        };
        let learned = self
            .parameters
            .iter()
            .filter(|one| one.field != SPARE)
            .map(|one| (one.field.clone(), of(one)));
        let reported =
            || Source { kind: SourceKind::Published, text: "reported by the drive".to_owned() };
        learned.chain(REPORTED.map(|field| (field.to_owned(), reported()))).collect()
    }
}

/// Fields that the drive or its link reports.
const REPORTED: [&str; 6] = [
    "capacity_bytes",
    "logical_block_bytes",
    "interface.queue_depth",
    "interface.full_duplex",
    "flash.trim.ranges_per_command_max",
    "flash.trim.range_bytes_max",
];

/// Provenance of a twin.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Origin {
    /// Model name reported by the drive.
    pub model: String,
    /// Firmware reported by the drive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub firmware: Option<String>,
    /// Hash of the drive's identity, which tells drives of a model apart; `None` if
    /// modelled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub which: Option<String>,
    /// Date, as 2026-11-22.
    pub learned: String,
    /// Name of the probe budget.
    pub budget: String,
    /// Seed of addresses and random draws.
    pub seed: u64,
    /// Bytes that the probes wrote.
    pub written_bytes: u64,
    /// Mean squared error of the model in units of the tolerance, in per mille.
    pub misfit_permille: u64,
    /// Relative error below which two thirds of the values are explained, in per mille:
    /// behaviour that the model cannot reproduce.
    #[serde(default)]
    pub off_permille: u64,
    /// The same for measurements of the whole drive, if it was overwritten.
    #[serde(default)]
    pub off_of_whole_permille: u64,
    /// Observations during learning.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// Maximum misfit: above it, the mean error exceeds twice the tolerance.
const MISFIT_MAX: f64 = 4.0;
/// Maximum relative error of two thirds of the values, regardless of their tolerance.
const OFF_MAX: f64 = 0.5;

/// True if a drive with this misfit and relative error explains the measurements.
#[must_use]
pub fn explains(misfit: f64, off: f64) -> bool {
    misfit <= MISFIT_MAX && off <= OFF_MAX
}

impl Origin {
    /// True if this twin explains the measurements.
    #[must_use]
    pub fn is_explained(&self) -> bool {
        explains(self.misfit_permille as f64 / 1000.0, self.off() as f64 / 1000.0)
    }

    /// Larger of the two relative errors (part of the drive, whole drive), in per mille.
    #[must_use]
    pub fn off(&self) -> u64 {
        self.off_permille.max(self.off_of_whole_permille)
    }
}

/// Confidence in one value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameter {
    /// Dotted field name.
    pub field: String,
    /// Best estimate, in the field's unit.
    pub estimate: u64,
    /// 5th percentile over the members.
    pub low: u64,
    /// 95th percentile over the members.
    pub high: u64,
    /// Kind of knowledge.
    pub known: Known,
    /// Probes or other source of the value.
    pub source: String,
}

named! {
    "kind of knowledge"
    /// Kind of knowledge about a value.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Known {
        /// Determined by probes.
        Measured = "measured",
        /// Bounded by probes; within the bounds typical of the class.
        Bounded = "bounded",
        /// Not observable by probes; drawn from the class prior.
        Typical = "typical",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    /// Regression: 40 files of 1 MB, each with 330,000 members without values, used 9.55
    /// GB.
    #[test]
    fn twin_larger_than_learned_limits_is_refused() {
        let written = |members: usize, note: usize| TwinSection {
            origin: Origin { notes: vec!["x".repeat(note)], ..Origin::default() },
            parameters: Vec::new(),
            members: Members { fields: Vec::new(), values: vec![Vec::new(); members] },
        };
        assert_eq!(written(1024, 1000).check_size(), Ok(()));
        assert_eq!(
            written(1025, 1000).check_size().unwrap_err(),
            "twin.members.values has 1025 entries; the maximum is 1024"
        );
        assert_eq!(
            written(64, 1001).check_size().unwrap_err(),
            "twin has a text of 1001 characters; the maximum is 1000"
        );
    }
}
