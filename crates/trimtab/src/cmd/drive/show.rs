//! `trimtab drive show`.

use crate::drives::{self, Drive};
use crate::report::layout::on_screen;
use crate::twin::parameters::{LEGEND, parameters, shown};
use anyhow::Context as _;
use serde_json::{Value, json};
use std::process::ExitCode;
use trimtab_drive::spec::Medium;
use trimtab_drive::spec::source::{Source, SourceKind};
use trimtab_drive::units::Bytes;
use trimtab_linux::output::lines::prose;
use trimtab_linux::output::{self, Context};
use trimtab_study::document::{Narrow, Table};

/// Arguments of `trimtab drive show`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  trimtab drive show ocz-vertex-le-100gb\n  trimtab drive show ocz-vertex-le-100gb --toml > mine.toml\n  trimtab drive show ./mine.toml --json"
)]
pub struct Args {
    /// A shipped drive, a twin by its name, or the path of a specification file.
    drive: String,
    /// Print the file itself, as a start for your own specification.
    #[arg(long, conflicts_with = "json")]
    toml: bool,
}

/// Prints the specification.
pub fn run(args: &Args, context: &Context) -> anyhow::Result<ExitCode> {
    if args.toml {
        // What is no specification is not shown: a name may lead to any file.
        drives::load(&args.drive)?;
        output::print(&drives::text(&args.drive)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let drive = drives::load(&args.drive)?;
    let rows = rows(&drive, &drives::text(&args.drive)?)?;
    let field = |(field, value, source): &(String, Value, Source)| json!({ "field": field, "value": value, "source": source });
    let document = json!({
        "name": drive.spec.name,
        "description": drive.spec.description,
        "twin": drive.twin.as_ref().map(|twin| json!({ "origin": twin.origin, "parameters": twin.parameters, "members": twin.members.len() })),
        "fields": rows.iter().map(field).collect::<Vec<_>>(),
    });
    context.report("drive", 1, &document, || {
        let mut table = Table::new("", &["field", "value", "source"]).when_narrow(Narrow::Records);
        for (field, value, source) in &rows {
            table.row([field.clone(), shown(field, value), format!("{}: {}", source.kind.name(), source.text)]);
        }
        [prose(&format!("{}: {}", drive.spec.name, drive.spec.description)), on_screen(&table), learned(&drive)].concat()
    })?;
    Ok(ExitCode::SUCCESS)
}

/// What a twin says besides.
fn learned(drive: &Drive) -> String {
    let Some(twin) = &drive.twin else { return String::new() };
    let origin = &twin.origin;
    let head = format!(
        "Learned from {} on {} ({} budget, seed {}, {} written); {} drives explain what was measured.",
        origin.model,
        origin.learned,
        origin.budget,
        origin.seed,
        Bytes(origin.written_bytes),
        twin.members.len()
    );
    let notes: String = origin.notes.iter().map(|note| prose(&format!("Noticed: {note}."))).collect();
    ["\n".to_owned(), prose(&head), on_screen(&parameters(&twin.parameters)), prose(LEGEND), notes].concat()
}

/// Every field with its value and what that stands on; `text` is the file.
fn rows(drive: &Drive, text: &str) -> anyhow::Result<Vec<(String, Value, Source)>> {
    let given = toml::Value::Table(text.parse().context("what was read before is not TOML any more")?);
    let mut rows = Vec::new();
    flatten("", &as_json(drive)?, &mut rows);
    let with_source = |(field, value): (String, Value)| {
        let source = source(drive, &given, &field);
        (field, value, source)
    };
    Ok(rows.into_iter().map(with_source).collect())
}

/// What a value stands on. What the file leaves out the model assumes; what it says without a source is nobody's but its own.
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
    let mut value = json!({
        "capacity_bytes": spec.capacity_bytes,
        "logical_block_bytes": spec.logical_block_bytes,
        "interface": serde_json::to_value(&spec.interface)?,
    });
    match &spec.medium {
        Medium::Flash(flash) => value["flash"] = serde_json::to_value(flash)?,
        Medium::Disk(disk) => value["disk"] = serde_json::to_value(disk)?,
    }
    Ok(value)
}

/// Every value with its dotted name; those in a list are numbered from 0.
fn flatten(prefix: &str, value: &Value, rows: &mut Vec<(String, Value)>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                flatten(&if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") }, value, rows);
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

    /// README promises it. What a file gives has a source of its own; the rest is assumed, and called so.
    #[test]
    fn every_shipped_drive_field_has_a_source_kind() {
        let mut defaults = 0;
        for drive in drives::shipped() {
            let name = &drive.spec.name;
            let text = drives::text(name).unwrap();
            let lines: Vec<&str> = text.lines().collect();
            for (field, _, source) in rows(drive, &text).unwrap() {
                let last = field.rsplit('.').find(|part| part.parse::<u32>().is_err()).unwrap();
                let is_default = source.text == "the model's default";
                defaults += usize::from(is_default);
                assert!(!is_default || source.kind == SourceKind::Assumed && drive.source_of(&field).is_none(), "{name}: {field}");
                assert!(source.text != "in the file, without a source", "{name}: {field}");
                // What is written nowhere in the file cannot have been given there.
                let written = lines.iter().any(|line| line.trim_start().starts_with(last) || line.contains(&format!(".{last}")));
                assert!(written || is_default || drive.source_of(&field).is_some(), "{name}: {field}");
            }
        }
        assert!(defaults > 100, "{defaults}");
    }
}
