//! Results from elsewhere, JSON or CSV: any bytes are answered, and what is accepted comes out of an export again.

use trimtab::store::RunId;
use trimtab::store::shape::import::{RUNS_SCHEMA, Results, RunsV1, read};
use trimtab::store::shape::run::VERSION;
use trimtab_linux::output::document;

/// One input.
pub fn run(bytes: &[u8]) {
    if let Ok(results) = read(bytes) {
        let text = document(RUNS_SCHEMA, VERSION, &RunsV1::new(&results)).expect("a run can be exported");
        let back = read(text.as_bytes()).expect("an export can be imported");
        let ids = |results: &Results| results.runs.iter().map(|(run, _)| RunId::of(run)).collect::<Vec<_>>();
        assert_eq!(ids(&results), ids(&back));
    }
}
