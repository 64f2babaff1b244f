//! Modelled drives: shipped ones and the user's files by name, simulations on them as
//! runs, and recordings of requests.

pub mod below;
pub mod crew;
pub mod datasheet;
pub mod job_file;
pub mod memory;
pub mod probed;
pub mod simulate;
pub mod twins;

use std::path::{Path, PathBuf};
use std::sync::{LazyLock, OnceLock};
use trimtab_drive::shipped::{DATA_CENTER, FILES, MEASURED, files};
use trimtab_drive::usage::{UsageError, did_you_mean};
use trimtab_linux::output::error::of_named;
use trimtab_linux::sys::beneath::named;

pub use trimtab_drive::spec::{
    file::{Drive, parse},
    source::{Source, SourceKind},
};

/// Largest specification, in bytes.
pub const SPEC_BYTES_MAX: u64 = 1 << 20;

/// The shipped drives, by name.
///
/// # Panics
/// Never in a released binary: a test reads every shipped file.
pub fn shipped() -> &'static [Drive] {
    static DRIVES: LazyLock<Vec<Drive>> = LazyLock::new(|| parsed(&FILES));
    &DRIVES
}

/// Drives that match rates published by owners of real models, by name.
///
/// # Panics
/// Never in a released binary: a test reads every file.
pub fn measured() -> &'static [Drive] {
    static DRIVES: LazyLock<Vec<Drive>> = LazyLock::new(|| parsed(&MEASURED));
    &DRIVES
}

/// Data-centre SSD units whose runs are published, by name.
///
/// # Panics
/// Never in a released binary: a test reads every file.
pub fn data_center() -> &'static [Drive] {
    static DRIVES: LazyLock<Vec<Drive>> = LazyLock::new(|| parsed(&DATA_CENTER));
    &DRIVES
}

fn parsed(texts: &[&str]) -> Vec<Drive> {
    let mut drives: Vec<Drive> = texts
        .iter()
        .map(|text| parse(text).expect("shipped specifications are checked by a test"))
        .collect();
    drives.sort_by(|a, b| a.spec.name.cmp(&b.spec.name));
    drives
}

/// All drives that are known by name: shipped ones, those of published runs and of
/// published rates.
pub fn known() -> impl DoubleEndedIterator<Item = &'static Drive> {
    shipped().iter().chain(data_center()).chain(measured())
}

/// The drive of `reference`: a shipped one, a twin learned here, or the path of a file
/// (containing `/` or ending in `.toml`).
///
/// # Errors
/// The name is unknown (the nearest one is suggested), the file is unreadable, or the
/// specification is invalid (with file, line and field).
pub fn load(reference: &str) -> anyhow::Result<Drive> {
    let reference = without_prefix(reference);
    if is_path(reference) {
        return from_file(reference);
    }
    match known().find(|drive| drive.spec.name == reference) {
        Some(drive) => Ok(drive.clone()),
        None => from_file(&twin_called(reference)?),
    }
}

/// True if `path` is a TOML file that describes a drive.
pub fn describes_drive(path: &str) -> bool {
    path.ends_with(".toml") && from_file(path).is_ok()
}

fn from_file(path: &str) -> anyhow::Result<Drive> {
    parse(&read(path)?).map_err(|problem| {
        UsageError::new(format!("{path}: {problem}"))
            .hint("'trimtab drive show NAME --toml' prints a drive file as a template")
            .into()
    })
}

/// Directory of twins that can be used by name. Set once, when the store is known.
static TWINS: OnceLock<PathBuf> = OnceLock::new();

/// Makes the twins in `directory` available by name.
pub fn know_twins_of(directory: PathBuf) {
    let _ = TWINS.set(directory);
}

/// Names that may follow `drive:`: known drives, and twins learned here.
pub fn names() -> Vec<String> {
    let learned = TWINS.get().map(|directory| twins::names(directory)).unwrap_or_default();
    known().map(|drive| drive.spec.name.clone()).chain(learned).collect()
}

/// The text of the file of `reference`.
///
/// # Errors
/// The name is unknown or the file unreadable, as for [`load`].
pub fn text(reference: &str) -> anyhow::Result<String> {
    let reference = without_prefix(reference);
    if is_path(reference) {
        return read(reference);
    }
    let named = |text: &&str| parse(text).is_ok_and(|drive| drive.spec.name == reference);
    match files().find(named) {
        Some(text) => Ok(text.to_owned()),
        None => read(&twin_called(reference)?),
    }
}

/// The file of the twin `name`.
fn twin_called(name: &str) -> anyhow::Result<String> {
    let called = |directory: &PathBuf| {
        twins::called(directory, name)
            .or_else(|| twins::called(directory, &format!("twin-of-{name}")))
    };
    let found = TWINS.get().and_then(called);
    found.and_then(|path| path.to_str().map(str::to_owned)).ok_or_else(|| unknown(name).into())
}

/// Removes the optional prefix `drive:`.
fn without_prefix(reference: &str) -> &str {
    reference.strip_prefix("drive:").unwrap_or(reference)
}

fn is_path(reference: &str) -> bool {
    reference.contains('/')
        || Path::new(reference).extension().is_some_and(|extension| extension == "toml")
}

fn read(path: &str) -> anyhow::Result<String> {
    let hint = "name a drive file, or a drive of 'trimtab drive list'";
    named::read_text(Path::new(path), SPEC_BYTES_MAX)
        .map_err(|error| of_named(error, Path::new(path), "cannot read", hint))
}

/// Error for an unknown name, with suggestions.
fn unknown(name: &str) -> UsageError {
    const ADVICE: &str = "'trimtab drive list' lists all; the path of a .toml file also works";
    let names = names();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let error = UsageError::missing(format!("unknown drive '{name}'"));
    if Path::new(name).is_file() {
        return error.hint("a drive file must end in .toml");
    }
    match did_you_mean(name, &names) {
        Some(question) => error.hint(format!("{question} ({ADVICE})")),
        None => error.hint(ADVICE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drives::simulate::{self, Addresses, Amount, DriveLoad, DriveSimulationPlan};
    use trimtab_drive::data::DataClass;
    use trimtab_drive::units::Bytes;
    use trimtab_sim::runner::RunEnd;
    use trimtab_sim::workload::synthetic::{Mix, Pattern, TrimPattern};

    /// Dotted names of every value in a table.
    fn fields(prefix: &str, value: &toml::Value, found: &mut Vec<String>) {
        match value {
            toml::Value::Table(table) if !table.is_empty() => {
                for (key, value) in table {
                    fields(
                        &if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") },
                        value,
                        found,
                    );
                }
            }
            _ => found.push(prefix.to_owned()),
        }
    }

    #[test]
    fn every_shipped_figure_has_a_source() {
        for text in files() {
            let drive = parse(text).unwrap();
            let mut table: toml::Table = text.parse().unwrap();
            let sources = table.remove("sources").expect("a sources section");
            table.remove("uncertain");
            for known in ["name", "description"] {
                table.remove(known);
            }
            let mut found = Vec::new();
            fields("", &toml::Value::Table(table), &mut found);
            for field in &found {
                assert!(
                    drive.source_of(field).is_some(),
                    "{}: {field} has no source",
                    drive.spec.name
                );
            }
            for entry in sources.as_table().unwrap().keys() {
                // Says why no cache is modelled.
                let used = entry == "flash.slc_cache"
                    || found
                        .iter()
                        .any(|field| field == entry || field.starts_with(&format!("{entry}.")));
                assert!(used, "{}: the source of {entry} belongs to no field", drive.spec.name);
            }
        }
    }

    /// A figure marked "as" another shipped drive's must equal that drive's figure.
    #[test]
    fn figure_copied_from_another_drive_equals_it() {
        let tables: Vec<(&Drive, toml::Table)> =
            FILES.iter().map(|text| (load_named(text), text.parse().unwrap())).collect();
        let value = |table: &toml::Table, field: &str| {
            let first = table.get(field.split('.').next()?)?.clone();
            field.split('.').skip(1).try_fold(first, |value, part| value.get(part).cloned())
        };
        let mut checked = 0;
        for (drive, table) in &tables {
            for (field, source) in &drive.sources {
                let Some(other) =
                    source.text.strip_prefix("as ").and_then(|text| text.split([',', ' ']).next())
                else {
                    continue;
                };
                let (_, like) = tables
                    .iter()
                    .find(|(drive, _)| drive.spec.name == other)
                    .unwrap_or_else(|| panic!("{other} is not a drive"));
                let here = value(table, field);
                assert!(
                    here.is_some() && here == value(like, field),
                    "{}: {field} is not as that of {other}",
                    drive.spec.name
                );
                checked += 1;
            }
        }
        assert!(checked >= 5, "{checked}");
    }

    fn load_named(text: &str) -> &'static Drive {
        let name = parse(text).unwrap().spec.name;
        shipped().iter().find(|drive| drive.spec.name == name).unwrap()
    }

    /// Each drive at a small size with the same proportions: filled, overwritten at
    /// random, trimmed, read, flushed.
    #[test]
    fn every_shipped_drive_runs_all_requests() {
        for drive in shipped() {
            let spec = trimtab_drive::model::sized(drive.spec.clone(), Some(Bytes(32 << 30)))
                .unwrap_or_else(|e| panic!("{}: {e:#}", drive.spec.name));
            let plan = DriveSimulationPlan {
                name: "mixed".into(),
                load: DriveLoad::Synthetic(Addresses {
                    pattern: Pattern::Uniform,
                    mix: Mix {
                        read_percent: 20,
                        trim_percent: if drive.spec.flash.trim.supported { 10 } else { 0 },
                    },
                    trims_of: TrimPattern::All,
                    sizes: vec![(65_536, 1)],
                    queue_depth: 8,
                    span_permille: 1000,
                }),
                data: DataClass::Random,
                fill_permille: 1000,
                steady: false,
                until_written: Some(Amount::Bytes(Bytes(1 << 30))),
                trim: None,
                seed: 1,
            };
            let (run, end) = simulate::run(&spec, &drive.spec.name, &plan, &mut ()).unwrap();
            assert_eq!(end, RunEnd::Complete, "{}", drive.spec.name);
            let written: Bytes = run.phases.iter().map(|phase| phase.written).sum();
            assert!(written.0 > 1_000_000_000, "{} wrote {written}", drive.spec.name);
        }
    }

    #[test]
    fn drive_names_are_unique_and_unknown_ones_get_suggestion() {
        assert!(shipped().windows(2).all(|pair| pair[0].spec.name < pair[1].spec.name));
        let message = load("ocz-vertex-le").unwrap_err().to_string();
        assert!(message.contains("did you mean 'ocz-vertex-le-100gb'"), "{message}");
        assert!(measured().windows(2).all(|pair| pair[0].spec.name < pair[1].spec.name));
        assert!(
            measured()
                .iter()
                .all(|one| shipped().iter().all(|drive| drive.spec.name != one.spec.name))
        );
        for (name, meant) in [
            ("samsung-980-pro-1tb", "samsung-ssd-980-pro-1tb"),
            ("samsung-970-evo", "samsung-ssd-970-evo-500gb"),
        ] {
            let message = load(name).unwrap_err().to_string();
            assert!(message.contains(&format!("did you mean '{meant}'?")), "{message}");
        }
    }
}
