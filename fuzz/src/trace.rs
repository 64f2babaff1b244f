//! Trace readers: every line of every format is read, skipped or refused.

use trimtab_sim::trace::{BlkparseEvent, Lines, TraceFormat, TraceOpKind, TraceReadOptions};

/// Runs one input.
pub fn run(text: &str) {
    let _ = TraceFormat::recognise(text);
    for (_, format, _) in TraceFormat::ALL {
        for events in [None, Some(BlkparseEvent::Issued)] {
            let mut lines =
                Lines::new(*format, &TraceReadOptions { events, ..TraceReadOptions::default() });
            let (mut records, mut latest) = (0, 0);
            let mut check = |lines: &mut Lines, is_over| {
                while let Some((record, _)) = lines.next(is_over) {
                    records += 1;
                    assert!(record.at_ns >= core::mem::replace(&mut latest, record.at_ns));
                    assert!(record.offset.checked_add(record.len).is_some());
                    assert!(record.offset % 512 == 0 && record.len % 512 == 0);
                    assert!(record.len > 0 || record.kind == TraceOpKind::Flush);
                    assert!((1..=2).contains(&record.events().count()));
                }
            };
            for line in text.split_inclusive('\n') {
                let _ = lines.line(line, line.len() % 2 == 0);
                check(&mut lines, false);
            }
            check(&mut lines, true);
            assert!(records == 0 || lines.end().is_ok());
        }
    }
}
