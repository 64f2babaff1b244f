//! Imports results from JSON. Rejects the whole text if any part is invalid.

use super::run::{RunV1, VERSION};
use crate::store::{RunId, StudyRecord};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeSet;
use trimtab_sim::run::Run;

/// Schema of a document with several runs; a single run uses `trimtab.run`.
pub const RUNS_SCHEMA: &str = "runs";

/// Maximum size of the text. A thousand runs, each with four series at one point per
/// second for an hour, are smaller.
pub const TEXT_MAX: u64 = 256 << 20;

/// Error of an import, with its position.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// Not UTF-8 text.
    #[error("it is not text: byte {0} is not UTF-8")]
    NotText(usize),
    /// Empty input.
    #[error("it is empty")]
    Empty,
    /// Invalid JSON, or JSON that does not match the schema.
    #[error("it is not a result in JSON: {0}")]
    Json(serde_json::Error),
    /// A document of another schema.
    #[error("its schema is '{0}', which is not a result; expected trimtab.run or trimtab.runs")]
    Schema(String),
    /// Written by a newer trimtab.
    #[error(
        "it has version {found} of {schema}, and this trimtab reads versions up to \
            {VERSION}; use a newer trimtab"
    )]
    Version {
        /// The schema.
        schema: String,
        /// Its version.
        found: u32,
    },
    /// The content does not match its id.
    #[error(
        "run {number} of {of} has the id {id}, but its content gives {actual}: it \
            was altered; remove the id to import it as another run"
    )]
    Altered {
        /// Position of the run, from 1.
        number: usize,
        /// Number of runs.
        of: usize,
        /// The id in the text.
        id: String,
        /// The id computed from its content.
        actual: RunId,
    },
    /// A study refers to a run that is not in the text.
    #[error("a study has the run '{0}', which is not in it")]
    NoSuchRun(RunId),
    /// A study contains a run more than once.
    #[error("a study has the run '{0}' more than once as one of its '{1}'")]
    Twice(RunId, String),
}

#[derive(Deserialize)]
#[serde(expecting = "an object with 'schema' and 'version'")]
struct DocumentHead {
    schema: Option<String>,
    version: Option<u32>,
}

/// Several runs.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunsV1<'a> {
    #[serde(default, skip_serializing)]
    #[expect(dead_code, reason = "looked at before, in `Head`")]
    schema: Option<String>,
    #[serde(default, skip_serializing)]
    #[expect(dead_code, reason = "looked at before, in `Head`")]
    version: Option<u32>,
    runs: Vec<RunV1<'a>>,
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    studies: Cow<'a, [StudyRecord]>,
}

impl<'a> RunsV1<'a> {
    /// Builds the document from runs, with their ids, labels and studies.
    pub fn new(results: &'a Results) -> Self {
        let with_id = |(run, label): &'a (Run, Option<String>)| RunV1 {
            label: label.clone(),
            ..RunV1::new(run, Some(RunId::of(run)))
        };
        let runs = results.runs.iter().map(with_id).collect();
        Self { schema: None, version: None, runs, studies: Cow::Borrowed(&results.studies) }
    }
}

/// Contents of an export.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Results {
    /// Runs with their labels.
    pub runs: Vec<(Run, Option<String>)>,
    /// Studies that group the runs.
    pub studies: Vec<StudyRecord>,
}

/// Parses the runs in `bytes`.
pub fn read(bytes: &[u8]) -> Result<Results, ImportError> {
    let text =
        std::str::from_utf8(bytes).map_err(|error| ImportError::NotText(error.valid_up_to()))?;
    if text.trim_start().is_empty() {
        return Err(ImportError::Empty);
    }
    let head: DocumentHead = serde_json::from_str(text).map_err(ImportError::Json)?;
    let schema = head.schema.unwrap_or_default();
    if schema != "trimtab.run" && schema != "trimtab.runs" {
        return Err(ImportError::Schema(schema.escape_debug().to_string()));
    }
    let version = head.version.unwrap_or_default();
    if !(1..=VERSION).contains(&version) {
        return Err(ImportError::Version { schema, found: version });
    }
    let (shapes, studies) = if schema == "trimtab.run" {
        (vec![serde_json::from_str::<RunV1<'_>>(text).map_err(ImportError::Json)?], Vec::new())
    } else {
        let all = serde_json::from_str::<RunsV1<'_>>(text).map_err(ImportError::Json)?;
        (all.runs, all.studies.into_owned())
    };
    let of = shapes.len();
    let labelled = |(i, mut shape): (usize, RunV1<'_>)| {
        let label = shape.label.take();
        Ok((checked(shape, i + 1, of)?, label))
    };
    let runs: Vec<(Run, Option<String>)> =
        shapes.into_iter().enumerate().map(labelled).collect::<Result<_, ImportError>>()?;
    let ids: BTreeSet<RunId> = if studies.is_empty() {
        BTreeSet::new()
    } else {
        runs.iter().map(|(run, _)| RunId::of(run)).collect()
    };
    studies.iter().try_for_each(|study| check(study, &ids))?;
    Ok(Results { runs, studies })
}

/// Checks that all runs of a study are present, each once per part.
fn check(study: &StudyRecord, ids: &BTreeSet<RunId>) -> Result<(), ImportError> {
    let mut known = BTreeSet::new();
    for (part, id) in &study.runs {
        if !ids.contains(id) {
            return Err(ImportError::NoSuchRun(*id));
        }
        if !known.insert((part, id)) {
            return Err(ImportError::Twice(*id, part.escape_debug().to_string()));
        }
    }
    Ok(())
}

/// Returns the run if its content matches its id.
fn checked(mut shape: RunV1<'_>, number: usize, of: usize) -> Result<Run, ImportError> {
    let id = shape.id.take();
    let run = Run::from(shape);
    match id {
        Some(id) if id != RunId::of(&run).to_string() => Err(ImportError::Altered {
            number,
            of,
            id: id.escape_debug().to_string(),
            actual: RunId::of(&run),
        }),
        _ => Ok(run),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::shape::any_run::{any_run, example};
    use proptest::prelude::*;
    use trimtab_sim::run::Field;

    fn export(runs: &[Run]) -> String {
        let runs = runs.iter().map(|run| (run.clone(), None)).collect();
        trimtab_linux::output::document(
            RUNS_SCHEMA,
            VERSION,
            &RunsV1::new(&Results { runs, studies: Vec::new() }),
        )
        .unwrap()
    }

    #[test]
    fn import_accepts_the_fuzz_seeds() {
        let seeds =
            std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/import");
        for seed in std::fs::read_dir(seeds).unwrap().map(|entry| entry.unwrap().path()) {
            let bytes = std::fs::read(&seed).unwrap();
            assert!(
                read(&bytes).is_ok_and(|results| !results.runs.is_empty()),
                "{}",
                seed.display()
            );
        }
    }

    fn refusal(text: &str) -> String {
        read(text.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn export_round_trips_labels_and_studies() {
        // Without NaN, which does not equal itself.
        let run = Run { series: Vec::new(), ..example() };
        let id = RunId::of(&run);
        let runs = vec![("runs".to_owned(), id)];
        let study = StudyRecord {
            target: "/mnt".into(),
            complete: false,
            runs,
            notes: vec![Field::new("0", "{}")],
        };
        let results =
            Results { runs: vec![(run, Some("kernel 6.19".into()))], studies: vec![study] };
        let text =
            trimtab_linux::output::document(RUNS_SCHEMA, VERSION, &RunsV1::new(&results)).unwrap();
        assert_eq!(read(text.as_bytes()).unwrap(), results);
        let other =
            refusal(&text.replace(&format!("\"run\": \"{id}"), "\"run\": \"0000000000000000"));
        assert!(other.contains("a study has the run '0000000000000000'"), "{other}");
        let no_id = refusal(&text.replace(&format!("\"run\": \"{id}"), "\"run\": \"x"));
        assert!(no_id.contains("'x' is not an id of 16 hexadecimal digits at line "), "{no_id}");
        let twice = text.replacen(
            "\"runs\": [\n        {",
            &format!("\"runs\": [{{\"part\":\"runs\",\"run\":\"{id}\"}},{{"),
            1,
        );
        assert_ne!(twice, text, "the shape of the file");
        assert_eq!(
            refusal(&twice),
            format!("a study has the run '{id}' more than once as one of its 'runs'")
        );
    }

    #[test]
    fn export_round_trips_and_altered_run_is_refused() {
        let runs = [example(), Run { seed: 7, ..example() }];
        let text = export(&runs);
        let back = read(text.as_bytes()).unwrap();
        let back: Vec<Run> = back.runs.into_iter().map(|(run, _)| run).collect();
        assert_eq!(
            back.iter().map(RunId::of).collect::<Vec<_>>(),
            runs.iter().map(RunId::of).collect::<Vec<_>>()
        );
        let altered = refusal(&text.replacen("\"seed\": 7", "\"seed\": 8", 1));
        assert!(
            altered.starts_with("run 2 of 2 has the id ") && altered.contains("it was altered"),
            "{altered}"
        );
    }

    #[test]
    fn import_error_names_cause_and_place() {
        let good = export(&[example()]);
        for (text, expected) in [
            (String::new(), "it is empty"),
            ("  \n".to_owned(), "it is empty"),
            (good[..good.len() / 2].to_owned(), "at line"),
            ("{}".to_owned(), "its schema is ''"),
            (
                r#"{"schema":"trimtab.doctor","version":1}"#.to_owned(),
                "its schema is 'trimtab.doctor', which is not a result",
            ),
            (
                r#"{"schema":"trimtab.runs","version":4,"future":{}}"#.to_owned(),
                "it has version 4 of trimtab.runs, and this trimtab reads versions up to 3",
            ),
            (r#"{"schema":"trimtab.runs","version":1}"#.to_owned(), "missing field `runs`"),
            ("[]".to_owned(), "line 1 column"),
            (
                good.replace("\"unit\": \"s\"", "\"unit\": \"\\u001b[31m\""),
                "unknown unit '\\u{1b}[31m'",
            ),
            (r#"{"x":"#.repeat(100_000), "EOF while parsing"),
        ] {
            let message = refusal(&text);
            assert!(message.contains(expected), "{expected}: {message}");
            assert!(!message.contains(char::is_control), "{message:?}");
        }
        assert_eq!(
            read(&[b'{', 0xff]).unwrap_err().to_string(),
            "it is not text: byte 1 is not UTF-8"
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn export_of_any_runs_round_trips(runs in prop::collection::vec(any_run(), 0..4)) {
            let back: Vec<Run> = read(export(&runs).as_bytes()).unwrap().runs.into_iter().map(|(run, _)| run).collect();
            prop_assert_eq!(back.iter().map(RunId::of).collect::<Vec<_>>(), runs.iter().map(RunId::of).collect::<Vec<_>>());
        }

        #[test]
        fn damaged_export_is_refused_or_keeps_its_run(run in any_run(), place in 0.0_f64..1.0, byte in any::<u8>()) {
            let mut bytes = export(std::slice::from_ref(&run)).into_bytes();
            let at = (bytes.len() as f64 * place) as usize;
            bytes[at] = byte;
            // Every accepted run has the id that it claims, so damage cannot pass as a
            // measurement.
            if let Ok(read) = read(&bytes) {
                prop_assert_eq!(RunId::of(&read.runs[0].0), RunId::of(&run));
            }
        }
    }
}
