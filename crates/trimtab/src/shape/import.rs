//! Results from a text: JSON or CSV, told apart by their first character. All of it is right, or none of it comes back.

use super::csv;
use super::run::{RunV1, VERSION};
use crate::store::RunId;
use serde::{Deserialize, Serialize};
use trimtab_core::run::Run;

/// Schema of a document of several runs; that of one run is `trimtab.run`.
pub const RUNS_SCHEMA: &str = "runs";

/// More text than this is no export of results.
pub const TEXT_MAX: u64 = 1 << 30;

/// Why a text is no result. Says where.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// No text at all.
    #[error("it is not text: byte {0} is not UTF-8")]
    NotText(usize),
    /// Nothing in it.
    #[error("it is empty")]
    Empty,
    /// Not what the shape asks for, or no JSON.
    #[error("it is not a result in JSON: {0}")]
    Json(serde_json::Error),
    /// Another document.
    #[error("its schema is '{0}', which is no result; expected trimtab.run or trimtab.runs")]
    Schema(String),
    /// Written by a newer trimtab.
    #[error("it has version {found} of {schema}, and this trimtab reads version {VERSION}; use a newer trimtab")]
    Version {
        /// The schema.
        schema: String,
        /// Its version.
        found: u32,
    },
    /// The content does not fit its id.
    #[error(
        "run {number} of {of} has the id {id}, but its content gives {actual}: it was altered; remove the id to import it as another run"
    )]
    Altered {
        /// Which run, from 1.
        number: usize,
        /// Of how many.
        of: usize,
        /// The id in the text.
        id: String,
        /// The id of its content.
        actual: RunId,
    },
    /// Not the columns that CSV must have, or a value that is none.
    #[error("it is not a result in CSV: {0}")]
    Csv(#[from] csv::CsvError),
}

#[derive(Deserialize)]
struct Head {
    schema: Option<String>,
    version: Option<u32>,
}

/// Several runs.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunsV1 {
    #[serde(default, skip_serializing)]
    #[expect(dead_code, reason = "looked at before, in `Head`")]
    schema: Option<String>,
    #[serde(default, skip_serializing)]
    #[expect(dead_code, reason = "looked at before, in `Head`")]
    version: Option<u32>,
    runs: Vec<RunV1>,
}

impl RunsV1 {
    /// Of runs, with their ids.
    #[must_use]
    pub fn new<'a>(runs: impl IntoIterator<Item = &'a Run>) -> Self {
        let with_id = |run: &Run| {
            let mut shape = RunV1::from(run);
            shape.id = Some(RunId::of(run).to_string());
            shape
        };
        Self { schema: None, version: None, runs: runs.into_iter().map(with_id).collect() }
    }
}

/// The runs in `bytes`.
pub fn read(bytes: &[u8]) -> Result<Vec<Run>, ImportError> {
    let text = std::str::from_utf8(bytes).map_err(|error| ImportError::NotText(error.valid_up_to()))?;
    // Spreadsheets put a byte order mark before UTF-8.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    match text.trim_start().chars().next() {
        None => Err(ImportError::Empty),
        Some('{' | '[') => json(text),
        Some(_) => Ok(csv::read(text)?),
    }
}

fn json(text: &str) -> Result<Vec<Run>, ImportError> {
    let head: Head = serde_json::from_str(text).map_err(ImportError::Json)?;
    let schema = head.schema.unwrap_or_default();
    if schema != "trimtab.run" && schema != "trimtab.runs" {
        return Err(ImportError::Schema(schema.escape_debug().to_string()));
    }
    let version = head.version.unwrap_or_default();
    if version != VERSION {
        return Err(ImportError::Version { schema, found: version });
    }
    let shapes = if schema == "trimtab.run" {
        vec![serde_json::from_str::<RunV1>(text).map_err(ImportError::Json)?]
    } else {
        serde_json::from_str::<RunsV1>(text).map_err(ImportError::Json)?.runs
    };
    let of = shapes.len();
    shapes.into_iter().enumerate().map(|(i, shape)| checked(shape, i + 1, of)).collect()
}

/// The run, if its content fits its id.
fn checked(mut shape: RunV1, number: usize, of: usize) -> Result<Run, ImportError> {
    let id = shape.id.take();
    let run = Run::from(shape);
    match id {
        Some(id) if id != RunId::of(&run).to_string() => {
            Err(ImportError::Altered { number, of, id: id.escape_debug().to_string(), actual: RunId::of(&run) })
        }
        _ => Ok(run),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::any_run::{any_run, example};
    use proptest::prelude::*;

    fn export(runs: &[Run]) -> String {
        crate::output::document(RUNS_SCHEMA, VERSION, &RunsV1::new(runs)).unwrap()
    }

    fn refusal(text: &str) -> String {
        read(text.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn an_export_comes_back_and_an_altered_one_is_refused() {
        let runs = [example(), Run { seed: 7, ..example() }];
        let text = export(&runs);
        let back = read(text.as_bytes()).unwrap();
        assert_eq!(back.iter().map(RunId::of).collect::<Vec<_>>(), runs.iter().map(RunId::of).collect::<Vec<_>>());
        let altered = refusal(&text.replacen("\"seed\": 7", "\"seed\": 8", 1));
        assert!(altered.starts_with("run 2 of 2 has the id ") && altered.contains("it was altered"), "{altered}");
    }

    #[test]
    fn what_is_no_result_says_what_and_where() {
        let good = export(&[example()]);
        for (text, expected) in [
            (String::new(), "it is empty"),
            ("  \n".to_owned(), "it is empty"),
            (good[..good.len() / 2].to_owned(), "at line"),
            ("{}".to_owned(), "its schema is ''"),
            (r#"{"schema":"trimtab.doctor","version":1}"#.to_owned(), "its schema is 'trimtab.doctor', which is no result"),
            (
                r#"{"schema":"trimtab.runs","version":2,"future":{}}"#.to_owned(),
                "it has version 2 of trimtab.runs, and this trimtab reads version 1",
            ),
            (r#"{"schema":"trimtab.runs","version":1}"#.to_owned(), "missing field `runs`"),
            ("[]".to_owned(), "line 1 column"),
            (good.replace("\"unit\": \"s\"", "\"unit\": \"\\u001b[31m\""), "unknown unit '\\u{1b}[31m'"),
            (r#"{"x":"#.repeat(100_000), "EOF while parsing"),
        ] {
            let message = refusal(&text);
            assert!(message.contains(expected), "{expected}: {message}");
            assert!(!message.contains(char::is_control), "{message:?}");
        }
        assert_eq!(read(&[b'{', 0xff]).unwrap_err().to_string(), "it is not text: byte 1 is not UTF-8");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn any_export_comes_back(runs in prop::collection::vec(any_run(), 0..4)) {
            let back = read(export(&runs).as_bytes()).unwrap();
            prop_assert_eq!(back.iter().map(RunId::of).collect::<Vec<_>>(), runs.iter().map(RunId::of).collect::<Vec<_>>());
        }

        #[test]
        fn damage_is_refused_or_harmless(run in any_run(), place in 0.0_f64..1.0, byte in any::<u8>()) {
            let mut bytes = export(std::slice::from_ref(&run)).into_bytes();
            let at = (bytes.len() as f64 * place) as usize;
            bytes[at] = byte;
            // Whatever is accepted is a run with the id that it claims, so that damage cannot pass for a measurement.
            if let Ok(runs) = read(&bytes) {
                prop_assert_eq!(RunId::of(&runs[0]), RunId::of(&run));
            }
        }
    }
}
