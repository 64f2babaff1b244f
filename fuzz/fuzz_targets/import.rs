//! Results from elsewhere, JSON or CSV: any bytes are answered, and what is accepted comes out of an export again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use trimtab::output::document;
use trimtab::shape::import::{RUNS_SCHEMA, RunsV1, read};
use trimtab::shape::run::VERSION;
use trimtab::store::RunId;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(runs) = read(bytes) {
        let text = document(RUNS_SCHEMA, VERSION, &RunsV1::new(&runs)).expect("a run can be exported");
        let back = read(text.as_bytes()).expect("an export can be imported");
        assert!(runs.iter().map(RunId::of).eq(back.iter().map(RunId::of)));
    }
});
