#![no_main]

#[path = "../src/jobs.rs"]
mod target;

libfuzzer_sys::fuzz_target!(|input: &str| target::run(input));
