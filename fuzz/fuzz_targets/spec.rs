//! Drive specification files: whatever they say, they are read or refused with one line.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Err(message) = trimtab::drives::parse(text) {
        assert!(!message.contains('\n'), "{message}");
    }
});
