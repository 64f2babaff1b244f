#![no_main]

#[path = "../src/sweep.rs"]
mod target;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let base = format!("/dev/shm/trimtab-fuzz-sweep-{}", std::process::id());
    target::run(input, base.as_ref());
});
