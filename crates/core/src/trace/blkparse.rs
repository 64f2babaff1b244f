//! blkparse's default output.

use super::{Kind, LineError, Raw, number, seconds, sectors};
use alloc::string::ToString;

/// How lines of the summary at the end begin, and what is said about the input files before it.
const SUMMARY: [&str; 13] = [
    "CPU",
    "Total (",
    "Reads ",
    "Read ",
    "PC Read",
    "IO unplugs:",
    "Throughput (R/W):",
    "Events (",
    "Skips:",
    "Input file ",
    "Trace started",
    "Timer unplugs:",
    "Writes ",
];

/// `maj,min cpu sequence seconds pid action RWBS sector + sectors [process]`. Other lines than queue events are passed over:
/// the summary at the end, messages, later stages of the same request.
pub(super) fn line(line: &str) -> Result<Option<Raw>, LineError> {
    let mut fields = line.split_ascii_whitespace();
    let is_event = fields.next().is_some_and(|device| {
        device.split_once(',').is_some_and(|(major, minor)| major.parse::<u32>().is_ok() && minor.parse::<u32>().is_ok())
    });
    // cpu, sequence, time, pid, action
    if !is_event && !is_summary(line) {
        return Err(LineError("it is neither an event nor part of a summary".to_string()));
    }
    let (Some(_cpu), Some(_sequence), Some(time), Some(_pid), Some(action)) =
        (fields.next(), fields.next(), fields.next(), fields.next(), fields.next())
    else {
        return if is_event { Err(LineError("the event is cut short".to_string())) } else { Ok(None) };
    };
    if !is_event || action != "Q" {
        return Ok(None);
    }
    let at_ns = seconds(Some(time), "the time")?;
    let flags = fields.next().ok_or_else(|| LineError("the event has no RWBS field".to_string()))?;
    let sector = fields.next();
    let flush = Raw { at_ns, volume: 0, kind: Kind::Flush, offset: 0, len: 0 };
    let kind = match flags.trim_start_matches('F').chars().next() {
        Some('R') => Kind::Read,
        Some('W') => Kind::Write,
        Some('D') => Kind::Trim,
        None => return Ok(Some(flush)),
        // N: neither read nor write, such as passed-through commands.
        Some(_) => return Ok(None),
    };
    let Some(sector) = sector.filter(|sector| !sector.starts_with('[')) else {
        // A write without data that carries a preflush is a flush.
        return Ok(flags.starts_with('F').then_some(flush));
    };
    let offset = sectors(number(Some(sector), "the sector")?, "the sector")?;
    match fields.next() {
        Some("+") => {}
        _ => return Err(LineError("the event has no '+ sectors'".to_string())),
    }
    let len = sectors(number(fields.next(), "the number of sectors")?, "the number of sectors")?;
    Ok(Some(Raw { at_ns, volume: 0, kind, offset, len }))
}

fn is_summary(line: &str) -> bool {
    SUMMARY.iter().any(|start| line.trim_start().starts_with(start))
}
