//! Trace readers: every line of every format is read, passed over or refused.

use trimtab_sim::trace::{Action, Format, Kind, Lines, Reading};

/// One input.
pub fn run(text: &str) {
    let _ = Format::recognise(text);
    for (_, format, _) in Format::ALL {
        for events in [None, Some(Action::Issued)] {
            let mut lines = Lines::new(*format, &Reading { events, ..Reading::default() });
            let mut records = 0;
            for line in text.split_inclusive('\n') {
                if let Ok(Some(record)) = lines.line(line, line.len() % 2 == 0) {
                    records += 1;
                    assert!(record.offset.checked_add(record.len).is_some());
                    assert!(record.offset % 512 == 0 && record.len % 512 == 0);
                    assert!(record.len > 0 || record.kind == Kind::Flush);
                    assert!((1..=2).contains(&record.events().count()));
                }
            }
            assert!(records == 0 || lines.end().is_ok());
        }
    }
}
