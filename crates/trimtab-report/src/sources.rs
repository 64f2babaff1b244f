//! Every value of a drive, with its source.

use anyhow::Context as _;
use serde_json::{Value, json};
use trimtab_drive::spec::file::{Drive, parse};
use trimtab_drive::spec::source::{Source, SourceKind};

/// Every field with its value and source; `text` is the file.
pub fn rows(drive: &Drive, text: &str) -> anyhow::Result<Vec<(String, Value, Source)>> {
    let given = toml::Value::Table(text.parse().context("the file is no longer valid TOML")?);
    let mut rows = Vec::new();
    flatten("", &as_json(drive)?, &mut rows);
    let with_source = |(field, value): (String, Value)| {
        let source = source(drive, &given, &field);
        (field, value, source)
    };
    Ok(rows.into_iter().map(with_source).collect())
}

/// Numbers of published, fitted, measured and assumed values; `None` if the text is not a
/// drive.
pub fn counts(text: &str) -> Option<[(usize, SourceKind); 4]> {
    let rows = rows(&parse(text).ok()?, text).ok()?;
    let kinds =
        [SourceKind::Published, SourceKind::Fitted, SourceKind::Measured, SourceKind::Assumed];
    Some(kinds.map(|kind| (rows.iter().filter(|(.., source)| source.kind == kind).count(), kind)))
}

/// The source of a value. Values missing from the file are the model's assumptions;
/// values without a source are the file's own.
fn source(drive: &Drive, given: &toml::Value, field: &str) -> Source {
    let of_file = || field.split('.').try_fold(given, |value, part| value.get(part)).is_some();
    let assumed = |text: &str| Source { kind: SourceKind::Assumed, text: text.to_owned() };
    drive.source_of(field).cloned().unwrap_or_else(|| {
        assumed(match (of_file(), drive.twin.is_some()) {
            (true, true) => "of the drive that fits best; no probe tells it by itself",
            (true, false) => "in the file, without a source",
            (false, _) => "the model's default",
        })
    })
}

/// The specification with every field, defaults included.
fn as_json(drive: &Drive) -> anyhow::Result<Value> {
    let spec = &drive.spec;
    Ok(json!({
        "capacity_bytes": spec.capacity_bytes,
        "logical_block_bytes": spec.logical_block_bytes,
        "interface": serde_json::to_value(&spec.interface)?,
        "flash": serde_json::to_value(&spec.flash)?,
    }))
}

/// Every value with its dotted name; list items are numbered from 0.
fn flatten(prefix: &str, value: &Value, rows: &mut Vec<(String, Value)>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                flatten(
                    &if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") },
                    value,
                    rows,
                );
            }
        }
        Value::Array(list) => {
            for (number, value) in list.iter().enumerate() {
                flatten(&format!("{prefix}.{number}"), value, rows);
            }
        }
        other => rows.push((prefix.to_owned(), other.clone())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trimtab_drive::shipped::FILES;

    /// The README promises a source for every value: the file's own, or "assumed".
    #[test]
    fn every_shipped_drive_field_has_a_source_kind() {
        let mut defaults = 0;
        for text in FILES {
            let drive = &parse(text).unwrap();
            let name = &drive.spec.name;
            let lines: Vec<&str> = text.lines().collect();
            for (field, _, source) in rows(drive, text).unwrap() {
                let last = field.rsplit('.').find(|part| part.parse::<u32>().is_err()).unwrap();
                let is_default = source.text == "the model's default";
                defaults += usize::from(is_default);
                assert!(
                    !is_default
                        || source.kind == SourceKind::Assumed && drive.source_of(&field).is_none(),
                    "{name}: {field}"
                );
                assert!(source.text != "in the file, without a source", "{name}: {field}");
                // A key that is not in the file cannot be given there.
                let written = lines.iter().any(|line| {
                    line.trim_start().starts_with(last) || line.contains(&format!(".{last}"))
                });
                assert!(
                    written || is_default || drive.source_of(&field).is_some(),
                    "{name}: {field}"
                );
            }
        }
        assert!(defaults > 100, "{defaults}");
    }
}
