//! Exports recordings as fio's iolog, version 3, for `fio --read_iolog`.

use super::{TraceEvent, TraceOpKind};
use std::io::Write;

/// The file that fio opens in its current directory unless --replay_redirect names a
/// device. Never a name from the recording.
const IOLOG_FILE: &str = "trimtab-replay";

/// Writes `events` to `out`. Returns their number. fio's timestamps are in microseconds.
///
/// # Errors
/// Errors of the events and of writing.
pub fn export(
    events: impl Iterator<Item = anyhow::Result<TraceEvent>>,
    out: &mut impl Write,
) -> anyhow::Result<u64> {
    let name = IOLOG_FILE;
    writeln!(out, "fio version 3 iolog\n0 {name} add\n0 {name} open")?;
    let mut records = 0;
    let mut last = 0;
    for event in events {
        let event = event?;
        last = event.at.0 / 1_000;
        match event.kind {
            TraceOpKind::Read => {
                writeln!(out, "{last} {name} read {} {}", event.offset, event.len)?
            }
            TraceOpKind::Write => {
                writeln!(out, "{last} {name} write {} {}", event.offset, event.len)?
            }
            TraceOpKind::Trim => {
                writeln!(out, "{last} {name} trim {} {}", event.offset, event.len)?
            }
            TraceOpKind::Flush => writeln!(out, "{last} {name} sync 0 0")?,
        }
        if event.fua {
            writeln!(out, "{last} {name} datasync 0 0")?;
        }
        records += 1;
    }
    writeln!(out, "{last} {name} close")?;
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::*;
    use trimtab_drive::data::DataClass;
    use trimtab_drive::units::Nanos;
    use trimtab_sim::trace::{FormatMatch, Lines, TraceFormat, TraceReadOptions};

    fn events() -> Vec<TraceEvent> {
        let event = |at_ms: u64, kind, offset, len| TraceEvent {
            at: Nanos::from_millis(at_ms),
            kind,
            offset,
            len,
            class: DataClass::Random,
            fua: false,
            continues: false,
            latency: Nanos::from_millis(7),
            errno: None,
        };
        vec![
            event(0, TraceOpKind::Write, 8192, 4096),
            event(5, TraceOpKind::Read, 8192, 4096),
            event(9, TraceOpKind::Trim, 1 << 30, 1 << 20),
            event(9, TraceOpKind::Flush, 0, 0),
        ]
    }

    #[test]
    fn export_round_trips_through_parsers() {
        let mut text = Vec::new();
        let records = export(events().into_iter().map(Ok), &mut text).unwrap();
        assert_eq!(records, 4);
        let text = String::from_utf8(text).unwrap();
        let format = TraceFormat::Iolog;
        assert_eq!(TraceFormat::recognise(&text), FormatMatch::Certain(format), "{text}");
        let options = TraceReadOptions {
            volume: Some(IOLOG_FILE.parse().unwrap()),
            ..TraceReadOptions::default()
        };
        let mut lines = Lines::new(format, &options);
        text.lines().for_each(|line| lines.line(line, false).unwrap());
        let read: Vec<TraceEvent> = std::iter::from_fn(|| lines.next(true))
            .flat_map(|(record, _)| record.events())
            .collect();
        let expected: Vec<TraceEvent> = events()
            .into_iter()
            .map(|event| TraceEvent { latency: Nanos::ZERO, ..event })
            .collect();
        assert_eq!(read, expected, "{text}");
    }
}
