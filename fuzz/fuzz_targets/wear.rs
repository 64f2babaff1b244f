#![no_main]

#[path = "../src/wear.rs"]
mod target;

libfuzzer_sys::fuzz_target!(|input: &[u8]| target::run(input));
