//! A twin: a specification that was learned from a drive, with what is known of each figure, and other drives that show the same.

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

/// In place of a value: a member has no such field.
pub const NONE: &str = "none";

/// A twin as it stands in a file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Written {
    pub(super) origin: Origin,
    #[serde(default)]
    pub(super) parameters: Vec<Parameter>,
    pub(super) members: Members,
}

/// What differs between the members and the drive itself.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Members {
    /// Dotted fields.
    fields: Vec<String>,
    /// A list for each member, a value for each field.
    pub(super) values: Vec<Vec<toml::Value>>,
}

/// Members of a twin at most: each is a specification of its own, and files of others are read, too.
const MEMBERS_MAX: usize = 1024;
/// Notes at most, and parameters.
const LINES_MAX: usize = 256;
/// Characters of a text at most.
pub const TEXT_MAX: usize = 1000;

/// Whether it is written as 2026-11-22.
pub(super) fn is_date(text: &str) -> bool {
    let fits = |(nth, byte): (usize, u8)| if nth == 4 || nth == 7 { byte == b'-' } else { byte.is_ascii_digit() };
    text.len() == 10 && text.bytes().enumerate().all(fits)
}

impl Written {
    /// An error where it is larger than anything that was learned, which would take minutes and gigabytes.
    pub(super) fn check_size(&self) -> Result<(), String> {
        let counts = [
            ("twin.members.values", self.members.values.len(), MEMBERS_MAX),
            ("twin.members.fields", self.members.fields.len(), LINES_MAX),
            ("twin.parameters", self.parameters.len(), LINES_MAX),
            ("twin.origin.notes", self.origin.notes.len(), LINES_MAX),
        ];
        if let Some((what, found, most)) = counts.into_iter().find(|(_, found, most)| found > most) {
            return Err(format!("{what} has {found} entries, and {most} are the most"));
        }
        match self.texts().find(|text| text.chars().count() > TEXT_MAX) {
            Some(text) => Err(format!("twin has a text of {} characters, and {TEXT_MAX} are the most", text.chars().count())),
            None => Ok(()),
        }
    }

    /// All that a user is shown as it is.
    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        let origin = &self.origin;
        let named = [Some(&origin.model), origin.firmware.as_ref(), origin.which.as_ref(), Some(&origin.learned), Some(&origin.budget)];
        let learned = self.parameters.iter().flat_map(|one| [one.field.as_str(), one.source.as_str()]);
        named.into_iter().flatten().chain(&origin.notes).map(String::as_str).chain(learned)
    }

    /// `table` with the values of a member.
    pub(super) fn member(&self, table: &toml::Table, values: &[toml::Value]) -> Result<toml::Table, String> {
        let fields = &self.members.fields;
        if fields.len() != values.len() {
            return Err(format!("has {} values for {} fields", values.len(), fields.len()));
        }
        let is_none = |value: &toml::Value| value.as_str() == Some(NONE);
        let mut table = table.clone();
        // What is left out first: another kind of the same thing may come in its place.
        for (field, _) in fields.iter().zip(values).filter(|(_, value)| is_none(value)) {
            remove(&mut table, field);
        }
        for (field, value) in fields.iter().zip(values).filter(|(_, value)| !is_none(value)) {
            insert(&mut table, field, value)?;
        }
        Ok(table)
    }
}

/// Removes a dotted field, and tables that it leaves empty.
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

/// Sets a dotted field.
fn insert(table: &mut toml::Table, field: &str, value: &toml::Value) -> Result<(), String> {
    match field.split_once('.') {
        None => drop(table.insert(field.to_owned(), value.clone())),
        Some((first, rest)) => {
            let inner = table.entry(first).or_insert_with(|| toml::Value::Table(toml::Table::new()));
            let inner = inner.as_table_mut().ok_or_else(|| format!("{first} is a value, and twin.members.fields has {field}"))?;
            insert(inner, rest, value)?;
        }
    }
    Ok(())
}

/// What a specification that was learned says besides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Twin {
    /// From what, when and how.
    pub origin: Origin,
    /// What is known of each figure.
    pub parameters: Vec<Parameter>,
    /// Drives that all explain what was measured.
    pub members: Vec<DriveSpec>,
}

/// Named after what it is, as it stands for several fields.
const SPARE: &str = "flash.over_provisioning_permille";

impl Twin {
    /// Where each figure comes from, in the words of all specifications.
    pub fn sources(&self) -> BTreeMap<String, Source> {
        let of = |one: &Parameter| match one.known {
            Known::Measured => Source { kind: SourceKind::Measured, text: one.source.clone() },
            Known::Bounded => Source { kind: SourceKind::Measured, text: format!("bounded by {}", one.source) },
            Known::Typical => Source { kind: SourceKind::Assumed, text: one.source.clone() },
        };
        let learned = self.parameters.iter().filter(|one| one.field != SPARE).map(|one| (one.field.clone(), of(one)));
        let said = || Source { kind: SourceKind::Published, text: "what the drive says of itself".to_owned() };
        learned.chain(SAID.map(|field| (field.to_owned(), said()))).collect()
    }
}

/// What a drive says of itself, or its link does.
const SAID: [&str; 6] = [
    "capacity_bytes",
    "logical_block_bytes",
    "interface.queue_depth",
    "interface.full_duplex",
    "flash.trim.ranges_per_command_max",
    "flash.trim.range_bytes_max",
];

/// From what a twin was learned, when and how.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Origin {
    /// What the drive calls itself.
    pub model: String,
    /// Its firmware, if it says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub firmware: Option<String>,
    /// Which one of its model: a hash of what is its own of what it says of itself; `None` of a modelled drive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub which: Option<String>,
    /// The day, as 2026-11-22.
    pub learned: String,
    /// How much was probed.
    pub budget: String,
    /// Seed of addresses and draws.
    pub seed: u64,
    /// Bytes that the probes wrote.
    pub written_bytes: u64,
    /// Mean of the squares of the differences between found and explained, in units of what figures may be off by, in per mille.
    pub misfit_permille: u64,
    /// Two of three figures are explained to so much of themselves, in per mille: what the model cannot show of the drive.
    #[serde(default)]
    pub off_permille: u64,
    /// The same of the figures of the whole drive, where it was written over.
    #[serde(default)]
    pub off_of_whole_permille: u64,
    /// What was noticed.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// With a greater misfit figures are off by more than twice what they may be, on average: no drive was found that explains them.
const MISFIT_MAX: f64 = 4.0;
/// Nor is there one where two of three figures are only explained to within so much of themselves, however little is known of them.
const OFF_MAX: f64 = 0.5;

/// Whether a drive that leaves so much unexplained explains what was measured.
#[must_use]
pub fn explains(misfit: f64, off: f64) -> bool {
    misfit <= MISFIT_MAX && off <= OFF_MAX
}

impl Origin {
    /// Whether a drive was found that explains what was measured.
    #[must_use]
    pub fn is_explained(&self) -> bool {
        explains(self.misfit_permille as f64 / 1000.0, self.off() as f64 / 1000.0)
    }

    /// Two of three figures are explained to so much of themselves, in per mille, of the whole drive or of a part, whichever is more.
    #[must_use]
    pub fn off(&self) -> u64 {
        self.off_permille.max(self.off_of_whole_permille)
    }
}

/// What is known of a figure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameter {
    /// The dotted field.
    pub field: String,
    /// The best value, in the field's unit.
    pub estimate: u64,
    /// One member in twenty has less.
    pub low: u64,
    /// One member in twenty has more.
    pub high: u64,
    /// How it is known.
    pub known: Known,
    /// By which probes, or from what.
    pub source: String,
}

named! {
    "way of knowing"
    /// How a figure is known.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Known {
        /// Probes tell it.
        Measured = "measured",
        /// Probes bound it, and within the bounds it is typical of the class.
        Bounded = "bounded",
        /// Probes say nothing of it: it is what such drives have.
        Typical = "typical",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    /// Seen: 330,000 members without a value in a file of 1 MB, and 40 of these beside each other: 9.55 GB to list them.
    #[test]
    fn what_is_larger_than_anything_that_was_learned_is_refused() {
        let written = |members: usize, note: usize| Written {
            origin: Origin { notes: vec!["x".repeat(note)], ..Origin::default() },
            parameters: Vec::new(),
            members: Members { fields: Vec::new(), values: vec![Vec::new(); members] },
        };
        assert_eq!(written(1024, 1000).check_size(), Ok(()));
        assert_eq!(written(1025, 1000).check_size().unwrap_err(), "twin.members.values has 1025 entries, and 1024 are the most");
        assert_eq!(written(64, 1001).check_size().unwrap_err(), "twin has a text of 1001 characters, and 1000 are the most");
    }
}
