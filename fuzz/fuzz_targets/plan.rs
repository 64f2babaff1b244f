#![no_main]

#[path = "../src/plan.rs"]
mod target;

libfuzzer_sys::fuzz_target!(|input: &str| target::run(input));
