//! Serialises all fields of a drive specification to the TOML of [`file`](super::file).

use super::file::{Alternative, Drive};
use super::{DriveSpec, twin};
use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::String;

/// Specification values only: two specifications with the same text are the same drive.
#[must_use]
pub fn figures(spec: &DriveSpec) -> String {
    text_of(&table(spec))
}

/// Values with their sources and alternatives; for a twin, the best estimate.
#[must_use]
pub fn whole(drive: &Drive) -> String {
    let mut whole = table(&drive.spec);
    if !drive.sources.is_empty() {
        let sources = drive
            .sources
            .iter()
            .map(|(field, source)| (field.clone(), source.shown().into()))
            .collect::<toml::Table>();
        whole.insert("sources".to_owned(), sources.into());
    }
    if !drive.alternatives.is_empty() {
        let uncertain = drive.alternatives.iter().map(|one| uncertain(&drive.spec, one)).collect();
        whole.insert("uncertain".to_owned(), toml::Value::Array(uncertain));
    }
    text_of(&whole)
}

/// Complete drive file; for a twin, including all members.
#[must_use]
pub fn file(drive: &Drive) -> String {
    let best = whole(drive);
    match &drive.twin {
        Some(twin) => twin::text::text(&best, &drive.spec, twin),
        None => best,
    }
}

/// An `[[uncertain]]` table with the values that differ in `alternative`.
fn uncertain(spec: &DriveSpec, alternative: &Alternative) -> toml::Value {
    let [mut is, mut other] = [toml::Table::new(), toml::Table::new()];
    flatten("", &toml::Value::Table(table(spec)), &mut is);
    flatten("", &toml::Value::Table(table(&alternative.spec)), &mut other);
    let set: toml::Table =
        other.into_iter().filter(|(field, value)| is.get(field) != Some(value)).collect();
    let table = [
        ("because".to_owned(), alternative.because.clone().into()),
        ("set".to_owned(), set.into()),
    ];
    toml::Value::Table(table.into_iter().collect())
}

/// Flattens a table into dotted names.
pub(super) fn flatten(prefix: &str, value: &toml::Value, into: &mut toml::Table) {
    match value {
        toml::Value::Table(table) => {
            for (key, value) in table {
                flatten(
                    &if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") },
                    value,
                    into,
                );
            }
        }
        _ => drop(into.insert(prefix.to_owned(), value.clone())),
    }
}

/// A specification as a table, every field included.
pub(super) fn table(spec: &DriveSpec) -> toml::Table {
    let value = |value: Result<toml::Value, toml::ser::Error>| {
        value.expect("specifications hold numbers, texts, lists and tables only")
    };
    let mut table = toml::Table::new();
    table.insert("name".to_owned(), spec.name.clone().into());
    table.insert("description".to_owned(), spec.description.clone().into());
    table.insert("capacity_bytes".to_owned(), value(toml::Value::try_from(spec.capacity_bytes)));
    table.insert("logical_block_bytes".to_owned(), i64::from(spec.logical_block_bytes).into());
    table.insert("interface".to_owned(), value(toml::Value::try_from(&spec.interface)));
    table.insert("flash".to_owned(), value(toml::Value::try_from(&spec.flash)));
    table
}

pub(super) fn text_of(table: &toml::Table) -> String {
    toml::to_string(table).expect("a table of tables is TOML")
}
