//! `trimtab.run` and `trimtab.runs`: stored runs as lossless JSON.

use crate::store::{RunId, StudyRecord};
use serde::Serialize;
use std::borrow::Cow;
use trimtab_sim::run::Run;

/// Schema name, as [`Context::report`](trimtab_linux::output::Context::report) takes it.
pub const SCHEMA: &str = "run";
/// Schema name of several runs.
pub const RUNS_SCHEMA: &str = "runs";
/// Version of both formats.
pub const VERSION: u32 = 3;

/// A run, with the additional fields of its document.
#[derive(Clone, Debug, Serialize)]
pub struct RunV1<'a> {
    /// Its id in the store. Derived from the content.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// User-assigned label. Not part of the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The run.
    #[serde(flatten)]
    pub run: Cow<'a, Run>,
}

impl<'a> RunV1<'a> {
    /// Wraps a run with its id, if it is stored.
    pub fn new(run: &'a Run, id: Option<RunId>) -> Self {
        Self { id: id.map(|id| id.to_string()), label: None, run: Cow::Borrowed(run) }
    }
}

impl<'a> From<&'a Run> for RunV1<'a> {
    fn from(run: &'a Run) -> Self {
        Self::new(run, None)
    }
}

/// Several runs, and the studies that group them.
#[derive(Debug, Serialize)]
pub struct RunsV1<'a> {
    /// The runs.
    pub runs: Vec<RunV1<'a>>,
    /// The studies.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub studies: Vec<&'a StudyRecord>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::shape::any_run::{any_run, example};
    use proptest::prelude::*;

    fn text(run: &Run) -> String {
        serde_json::to_string(&RunV1::from(run)).unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn run_round_trips_through_json(run in any_run()) {
            let back = serde_json::from_str::<Run>(&text(&run)).unwrap();
            // NaN does not equal itself, but its text does.
            prop_assert_eq!(text(&back), text(&run));
            let no_nan = run.metrics.iter().flat_map(|m| &m.samples).chain(run.series.iter().flat_map(|s| &s.y)).all(|v| !v.is_nan());
            if no_nan {
                prop_assert_eq!(back, run);
            }
        }

        #[test]
        fn truncated_run_is_refused_with_its_line(run in any_run(), at in 0.0_f64..1.0) {
            let text = text(&run);
            let mut cut = (text.len() as f64 * at) as usize;
            while !text.is_char_boundary(cut) {
                cut -= 1;
            }
            let error = serde_json::from_str::<Run>(&text[..cut]).unwrap_err();
            prop_assert!(error.line() > 0 && error.is_eof(), "{error}");
        }
    }

    #[test]
    fn run_json_version_1_matches_snapshot() {
        insta::assert_snapshot!(serde_json::to_string_pretty(&RunV1::from(&example())).unwrap());
    }

    #[test]
    fn run_with_impossible_value_is_refused_with_cause() {
        let good = text(&example());
        for (was, is, expected) in [
            (
                r#""samples":[1.25,1.5]"#,
                r#""samples":[]"#,
                "metric 'delete.seconds' has no samples",
            ),
            (
                r#""unit":"s""#,
                r#""unit":"furlongs""#,
                "unknown unit 'furlongs', expected one of s, ns, MB/s",
            ),
            (r#""systems":1"#, r#""systems":4"#, "a sum of 4 systems"),
            (r#""seed":42"#, r#""seed":-42"#, "u64"),
            (r#""count":4"#, r#""count":5"#, "count is 5, but the buckets hold 4"),
            (r#""x":[1000000000,2000000000]"#, r#""x":[2000000000,1000000000]"#, "do not increase"),
            (r#""x":[1000000000,2000000000]"#, r#""x":[1000000000]"#, "1 x values and 2 y values"),
            (r#""workload":"#, r#""wrokload":"#, "unknown field `wrokload`"),
        ] {
            assert!(good.contains(was), "{was} is in {good}");
            let error = serde_json::from_str::<Run>(&good.replacen(was, is, 1)).unwrap_err();
            assert!(error.to_string().contains(expected) && error.line() == 1, "{is}: {error}");
        }
    }
}
