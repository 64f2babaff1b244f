//! Exports recordings to the formats of other tools.

use super::{TraceEvent, TraceOpKind};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, Write};
use trimtab_drive::named;

named! {
    "export format"
    /// A text format to export to.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum ExportFormat {
        /// fio's iolog, version 3, for `fio --read_iolog`.
        FioIolog = "fio",
        /// The output of blkparse for queue and completion events.
        Blkparse = "blkparse",
    }
}

/// The file that fio opens in its current directory unless --replay_redirect names a
/// device. Never a name from the recording.
const IOLOG_FILE: &str = "trimtab-replay";

/// Writes `events` to `out`. Returns their number. fio's timestamps are in microseconds.
///
/// # Errors
/// Errors of the events and of writing.
pub fn export(
    events: impl Iterator<Item = anyhow::Result<TraceEvent>>,
    format: ExportFormat,
    out: &mut impl Write,
) -> anyhow::Result<u64> {
    match format {
        ExportFormat::FioIolog => fio(events, out),
        ExportFormat::Blkparse => blkparse(events, out),
    }
}

fn fio(
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

fn blkparse(
    events: impl Iterator<Item = anyhow::Result<TraceEvent>>,
    out: &mut impl Write,
) -> anyhow::Result<u64> {
    // Completions wait here, because blkparse prints them in order of time.
    let mut completions: BinaryHeap<Reverse<(u64, u64, String)>> = BinaryHeap::new();
    let mut sequence = 0_u64;
    let mut records = 0;
    for event in events {
        let event = event?;
        while let Some(Reverse((at, _, _))) = completions.peek()
            && *at <= event.at.0
        {
            let Reverse((at, _, what)) = completions.pop().expect("peeked above");
            line(out, &mut sequence, at, 'C', &what)?;
        }
        let mut flags = String::from(match event.kind {
            TraceOpKind::Read => "R",
            TraceOpKind::Write => "W",
            TraceOpKind::Trim => "D",
            TraceOpKind::Flush => "F",
        });
        if event.fua {
            flags.push('F');
        }
        let range = if event.kind == TraceOpKind::Flush {
            String::new()
        } else {
            format!(" {} + {}", event.offset / 512, event.len / 512)
        };
        let what = format!("{flags:>3}{range}");
        line(out, &mut sequence, event.at.0, 'Q', &what)?;
        completions.push(Reverse((event.at.0.saturating_add(event.latency.0), records, what)));
        records += 1;
    }
    while let Some(Reverse((at, _, what))) = completions.pop() {
        line(out, &mut sequence, at, 'C', &what)?;
    }
    Ok(records)
}

fn line(
    out: &mut impl Write,
    sequence: &mut u64,
    at_ns: u64,
    action: char,
    what: &str,
) -> io::Result<()> {
    *sequence += 1;
    let process = if action == 'C' { 0 } else { 1 };
    writeln!(
        out,
        "  7,0    0 {sequence:8} {:5}.{:09} {process:5}  {action} {what} [trimtab]",
        at_ns / 1_000_000_000,
        at_ns % 1_000_000_000
    )
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
        for (export_format, format, volume) in [
            (ExportFormat::FioIolog, TraceFormat::Iolog, IOLOG_FILE),
            (ExportFormat::Blkparse, TraceFormat::Blkparse, "7,0"),
        ] {
            let mut text = Vec::new();
            let records = export(events().into_iter().map(Ok), export_format, &mut text).unwrap();
            assert_eq!(records, 4);
            let text = String::from_utf8(text).unwrap();
            assert_eq!(TraceFormat::recognise(&text), FormatMatch::Certain(format), "{text}");
            let mut lines = Lines::new(
                format,
                &TraceReadOptions {
                    volume: Some(volume.parse().unwrap()),
                    ..TraceReadOptions::default()
                },
            );
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
}
