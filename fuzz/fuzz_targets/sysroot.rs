#![no_main]

#[path = "../src/sysroot.rs"]
mod target;

libfuzzer_sys::fuzz_target!(|input: &str| {
    let base = format!("/dev/shm/trimtab-fuzz-{}", std::process::id());
    target::run(input, base.as_ref());
});
