//! Recordings of the virtual SSD: a line for each request, or for each range of a TRIM.
//!
//! The first line begins with [`HEADER`]. The fields of the others, separated by commas:
//! arrival in nanoseconds of model time, `read`, `write`, `trim` or `flush`, offset and
//! length in bytes, class of the data, latency in nanoseconds, 1 for FUA, 1 if the next
//! line is another range of the same TRIM, and the error number or 0.

use super::{LineError, TraceEvent, TraceLine, TraceOpKind, TraceRecord, Volume, number};
use alloc::format;
use alloc::string::String;
use trimtab_drive::units::Nanos;

/// Beginning of a recording.
pub const HEADER: &str = "trimtab recording";

const KINDS: [TraceOpKind; 4] =
    [TraceOpKind::Read, TraceOpKind::Write, TraceOpKind::Trim, TraceOpKind::Flush];

/// The line of an event.
#[must_use]
pub fn line_of(event: &TraceEvent) -> String {
    format!(
        "{},{},{},{},{},{},{},{},{}\n",
        event.at.0,
        event.kind.op().name(),
        event.offset,
        event.len,
        event.class,
        event.latency.0,
        u8::from(event.fua),
        u8::from(event.continues),
        event.errno.unwrap_or(0)
    )
}

/// Parses a line, which must be the header if it is the `first`.
pub(super) fn line(line: &str, first: bool) -> Result<TraceLine, LineError> {
    if first {
        return match line.starts_with(HEADER) {
            true => Ok(TraceLine::Characteristic),
            false => Err(LineError::Wrong(format!("it does not begin with '{HEADER}'"))),
        };
    }
    let mut fields = line.split(',');
    let at_ns: u64 = number(fields.next(), "the arrival")?;
    let name = fields.next().ok_or_else(|| LineError::Short("the request is missing".into()))?;
    let kind = KINDS
        .into_iter()
        .find(|kind| kind.op().name() == name)
        .ok_or_else(|| LineError::new("the request is not one of read, write, trim, flush"))?;
    let (offset, len) =
        (number(fields.next(), "the offset")?, number(fields.next(), "the length")?);
    let class = fields.next().ok_or_else(|| LineError::Short("the class is missing".into()))?;
    let class = class.parse().map_err(LineError::Wrong)?;
    let latency = Nanos(number(fields.next(), "the latency")?);
    let mut flag = |name: &str| Ok(number::<u8>(fields.next(), name)? > 0);
    let (fua, continues) = (flag("the FUA flag")?, flag("the flag of a further range")?);
    let errno: u16 = number(fields.next(), "the error number")?;
    let errno = (errno > 0).then_some(errno);
    let record = TraceRecord::new(at_ns.into(), Volume::default(), kind, offset, len);
    Ok(TraceLine::Request(TraceRecord { fua, class, latency, continues, errno, ..record }))
}
