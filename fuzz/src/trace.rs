//! Trace readers: every line of every format is read, passed over or refused.

use trimtab_core::trace::{Format, Parser};

/// One input.
pub fn run(text: &str) {
    let _ = text.lines().next().map(Format::detect);
    for (_, format) in Format::ALL {
        let mut parser = Parser::new(*format);
        for line in text.lines() {
            if let Ok(Some(record)) = parser.line(line) {
                assert!(record.offset.checked_add(record.len).is_some());
            }
        }
    }
}
