//! What a run was made from, in the run itself: enough to cite it and to make it again.
//!
//! Three texts: `command`, the arguments as a JSON list; `drive`, the whole specification of a modelled drive as a file that `--drive` takes;
//! `drive.hash`, by which two specifications can be told apart. What volume and policy are set to is in the run's environment and policy settings,
//! seed and version stand beside them.

use crate::store::RunId;
use trimtab_core::drive::spec::file::{Alternative, Drive, Source};
use trimtab_core::drive::spec::{DriveSpec, Medium};
use trimtab_core::run::{Field, Run};

/// Key of the arguments.
pub const COMMAND: &str = "command";
/// Key of the drive's specification.
pub const DRIVE: &str = "drive";
/// Key of its hash.
pub const DRIVE_HASH: &str = "drive.hash";

/// Options that decide nothing about a result, and whether a value follows.
const ABOUT_OUTPUT: [(&str, bool); 14] = [
    ("--json", false),
    ("--quiet", false),
    ("--plain", false),
    ("--yes", false),
    ("--resume", false),
    ("--details", false),
    ("--force", false),
    ("--store", true),
    ("--label", true),
    ("--report", true),
    ("--output", true),
    ("--cdm-text", true),
    ("--picture", true),
    ("--cell", true),
];

/// The arguments of this process, without those that only say where and how a result is shown and kept.
pub fn command() -> Vec<String> {
    without_output(std::env::args_os().skip(1).map(|argument| argument.to_string_lossy().into_owned()))
}

fn without_output(arguments: impl Iterator<Item = String>) -> Vec<String> {
    let mut kept = Vec::new();
    let mut arguments = arguments;
    while let Some(argument) = arguments.next() {
        let name = argument.split_once('=').map_or(argument.as_str(), |(name, _)| name);
        match ABOUT_OUTPUT.iter().find(|(option, _)| *option == name) {
            Some((_, true)) if !argument.contains('=') => drop(arguments.next()),
            Some(_) => {}
            None if is_short(&argument) => {
                let rest: String = argument.chars().filter(|c| !matches!(c, 'q' | 'y')).collect();
                kept.extend((rest != "-").then_some(rest));
            }
            None => kept.push(argument),
        }
    }
    kept
}

/// Short options without values: `-q`, `-yq`.
fn is_short(argument: &str) -> bool {
    argument.len() > 1 && argument.starts_with('-') && argument[1..].chars().all(|c| matches!(c, 'q' | 'y'))
}

/// The arguments of this process as they are kept.
pub fn command_field() -> Field {
    Field::new(COMMAND, serde_json::to_string(&command()).expect("a list of texts is JSON"))
}

/// Adds the specification of the drive that a run was modelled on, as it was before anything was scaled.
pub fn note_drive(run: &mut Run, drive: &Drive) {
    run.specification.retain(|field| field.key != DRIVE && field.key != DRIVE_HASH);
    run.specification.extend(drive_fields(drive));
}

/// The specification of a drive with the sources of its figures, and a hash of the figures.
pub fn drive_fields(drive: &Drive) -> [Field; 2] {
    let mut whole = table_of(&drive.spec);
    if !drive.sources.is_empty() {
        let shown = |source: &Source| format!("{}: {}", source.kind.name(), source.text);
        let sources = drive.sources.iter().map(|(field, source)| (field.clone(), shown(source).into())).collect::<toml::Table>();
        whole.insert("sources".to_owned(), sources.into());
    }
    if !drive.alternatives.is_empty() {
        let uncertain = drive.alternatives.iter().map(|one| uncertain(&drive.spec, one)).collect();
        whole.insert("uncertain".to_owned(), toml::Value::Array(uncertain));
    }
    [Field::new(DRIVE_HASH, hash(&text_of(&table_of(&drive.spec)))), Field::new(DRIVE, text_of(&whole))]
}

/// Sixteen hexadecimal digits that follow from a text.
pub fn hash(text: &str) -> String {
    RunId::of_text(text).to_string()
}

/// What differs in another specification that fits as well, as an `[[uncertain]]` table of a drive's file.
fn uncertain(spec: &DriveSpec, alternative: &Alternative) -> toml::Value {
    let [mut is, mut other] = [toml::Table::new(), toml::Table::new()];
    flatten("", &toml::Value::Table(table_of(spec)), &mut is);
    flatten("", &toml::Value::Table(table_of(&alternative.spec)), &mut other);
    let set: toml::Table = other.into_iter().filter(|(field, value)| is.get(field) != Some(value)).collect();
    let table = [("because".to_owned(), alternative.because.clone().into()), ("set".to_owned(), set.into())];
    toml::Value::Table(table.into_iter().collect())
}

/// The values of a table under their dotted names.
pub fn flatten(prefix: &str, value: &toml::Value, into: &mut toml::Table) {
    match value {
        toml::Value::Table(table) => {
            for (key, value) in table {
                flatten(&if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") }, value, into);
            }
        }
        _ => drop(into.insert(prefix.to_owned(), value.clone())),
    }
}

/// A specification as the file that `trimtab_core::drive::spec::file` reads, every field with its value.
pub fn table_of(spec: &DriveSpec) -> toml::Table {
    let value = |value: Result<toml::Value, toml::ser::Error>| value.expect("specifications hold numbers, texts, lists and tables only");
    let mut table = toml::Table::new();
    table.insert("name".to_owned(), spec.name.clone().into());
    table.insert("description".to_owned(), spec.description.clone().into());
    table.insert("capacity_bytes".to_owned(), value(toml::Value::try_from(spec.capacity_bytes)));
    table.insert("logical_block_bytes".to_owned(), i64::from(spec.logical_block_bytes).into());
    table.insert("interface".to_owned(), value(toml::Value::try_from(&spec.interface)));
    let (name, medium) = match &spec.medium {
        Medium::Flash(flash) => ("flash", value(toml::Value::try_from(flash))),
        Medium::Disk(disk) => ("disk", value(toml::Value::try_from(disk))),
    };
    table.insert(name.to_owned(), medium);
    table
}

fn text_of(table: &toml::Table) -> String {
    toml::to_string(table).expect("a table of tables is TOML")
}

/// The text of a key.
pub fn of<'a>(run: &'a Run, key: &str) -> Option<&'a str> {
    Field::find(&run.specification, key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drives;
    use trimtab_core::drive::spec::file;

    #[test]
    fn every_shipped_specification_comes_back_from_its_text() {
        for drive in drives::shipped() {
            let [_, text] = drive_fields(drive);
            assert_eq!(file::parse(&text.value).unwrap(), *drive, "{}", text.value);
        }
        let hashes: std::collections::BTreeSet<String> =
            drives::shipped().iter().map(|drive| drive_fields(drive)[0].value.clone()).collect();
        assert_eq!(hashes.len(), drives::shipped().len());
    }

    #[test]
    fn what_only_concerns_output_is_left_out() {
        let kept = |text: &str| without_output(text.split(' ').map(str::to_owned)).join(" ");
        assert_eq!(kept("--store a.db study -q drive:x --fill 60 --json --report=x.html --yes"), "study drive:x --fill 60");
        assert_eq!(kept("bench tree --tries 3 -yq --label ab drive:x --resume"), "bench tree --tries 3 drive:x");
        assert_eq!(kept("results list -n 5"), "results list -n 5");
    }
}
