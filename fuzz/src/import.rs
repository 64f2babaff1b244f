//! Results from elsewhere: any bytes get an answer, and an export contains
//! all accepted results.

use trimtab::store::RunId;
use trimtab::store::shape::import::{RUNS_SCHEMA, Results, RunsV1, read};
use trimtab::store::shape::run::VERSION;
use trimtab_linux::output::document;

/// Runs one input.
pub fn run(bytes: &[u8]) {
    if let Ok(results) = read(bytes) {
        let text =
            document(RUNS_SCHEMA, VERSION, &RunsV1::new(&results)).expect("a run can be exported");
        let back = read(text.as_bytes()).expect("an export can be imported");
        let ids = |results: &Results| {
            results.runs.iter().map(|(run, _)| RunId::of(run)).collect::<Vec<_>>()
        };
        assert_eq!(ids(&results), ids(&back));
    }
}
