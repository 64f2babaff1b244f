//! Block traces: parsers from published text formats to one record type.
//!
//! Reading is streaming: a parser keeps only state that later lines refer to. [`Lines`]
//! also keeps the volume, and a window of requests for sorting by time.

mod blkparse;
mod format;
mod iolog;
mod lines;
pub mod recording;
mod skipped;
mod table;
mod volume;

pub use blkparse::BlkparseEvent;
pub use format::{FormatMatch, TraceFormat};
pub use lines::{Lines, TextError};
pub use skipped::SkipReason;
pub use volume::Volume;

use alloc::format;
use alloc::string::{String, ToString};
use core::str::FromStr;
use trimtab_drive::OpKind;
use trimtab_drive::data::DataClass;
use trimtab_drive::units::Nanos;

/// Sector size of Linux block devices.
const SECTOR_BYTES: u64 = 512;

/// Operation of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TraceOpKind {
    /// Read.
    Read,
    /// Write.
    Write,
    /// Discard.
    Trim,
    /// Flush; offset and length are 0.
    Flush,
}

impl TraceOpKind {
    /// The corresponding operation in results.
    #[must_use]
    pub const fn op(self) -> OpKind {
        match self {
            Self::Read => OpKind::Read,
            Self::Write => OpKind::Write,
            Self::Trim => OpKind::Trim,
            Self::Flush => OpKind::Flush,
        }
    }
}

/// Options for reading a text trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceReadOptions {
    /// Format; detected if `None`.
    pub format: Option<TraceFormat>,
    /// Volume to read from a trace of several.
    pub volume: Option<Volume>,
    /// Events of blkparse text that count as requests; queued ones if `None`.
    pub events: Option<BlkparseEvent>,
}

/// A request of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceRecord {
    /// The trace's own time; outside of the parser, since the earliest record.
    pub at_ns: u128,
    /// Volume, in traces of several; otherwise number 0.
    pub volume: Volume,
    /// The request.
    pub kind: TraceOpKind,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
    /// Flush the cache before the request.
    pub preflush: bool,
    /// The write is durable on completion.
    pub fua: bool,
    /// Class of written data.
    pub class: DataClass,
    /// Duration on the drive; zero if the trace has none.
    pub latency: Nanos,
    /// The next record is another range of the same TRIM.
    pub continues: bool,
    /// Error seen by the host.
    pub errno: Option<u16>,
}

impl TraceRecord {
    /// A request without flags.
    const fn new(at_ns: u128, volume: Volume, kind: TraceOpKind, offset: u64, len: u64) -> Self {
        Self {
            at_ns,
            volume,
            kind,
            offset,
            len,
            preflush: false,
            fua: false,
            class: DataClass::Random,
            latency: Nanos::ZERO,
            continues: false,
            errno: None,
        }
    }

    fn checked(self) -> Result<TraceLine, LineError> {
        let Self { offset, len, preflush, fua, .. } = self;
        if offset.checked_add(len).is_none() {
            return Err(LineError::new("the range ends beyond 2^64 bytes"));
        }
        if offset % SECTOR_BYTES != 0 || len % SECTOR_BYTES != 0 {
            return Err(LineError::Wrong(format!(
                "{len} bytes at byte {offset} are not whole sectors of 512 bytes: is \
                    it another format?"
            )));
        }
        let kind = if len == 0 && preflush { TraceOpKind::Flush } else { self.kind };
        if kind == TraceOpKind::Flush {
            let flush = Self { kind, offset: 0, len: 0, preflush: false, fua: false, ..self };
            return Ok(TraceLine::Request(flush));
        }
        if len == 0 {
            return Ok(TraceLine::Skipped(self.volume, SkipReason::Empty));
        }
        Ok(TraceLine::Request(Self { fua: fua && kind == TraceOpKind::Write, ..self }))
    }

    /// Requests for the device: a flush first if `preflush` is set.
    pub fn events(self) -> impl Iterator<Item = TraceEvent> {
        let event = TraceEvent {
            at: Nanos(u64::try_from(self.at_ns).unwrap_or(u64::MAX)),
            kind: self.kind,
            offset: self.offset,
            len: self.len,
            class: self.class,
            fua: self.fua,
            continues: self.continues,
            latency: self.latency,
            errno: self.errno,
        };
        let flush = TraceEvent { kind: TraceOpKind::Flush, offset: 0, len: 0, fua: false, ..event };
        self.preflush.then_some(flush).into_iter().chain([event])
    }
}

/// A request of a host with its service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceEvent {
    /// Arrival in model time since the start of the recording.
    pub at: Nanos,
    /// Operation.
    pub kind: TraceOpKind,
    /// First byte; 0 for a flush.
    pub offset: u64,
    /// Bytes; 0 for a flush.
    pub len: u64,
    /// Class of written data.
    pub class: DataClass,
    /// The write is durable on completion.
    pub fua: bool,
    /// The next event is another range of the same TRIM.
    pub continues: bool,
    /// Duration on the drive.
    pub latency: Nanos,
    /// Error seen by the host.
    pub errno: Option<u16>,
}

/// Reason why a line cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// The line ends before its last field.
    #[error("{0}")]
    Short(String),
    /// The line is invalid.
    #[error("{0}")]
    Wrong(String),
}

impl LineError {
    fn new(text: impl Into<String>) -> Self {
        Self::Wrong(text.into())
    }
}

/// Parser for lines of one format.
#[derive(Clone, Debug)]
struct Parser {
    format: TraceFormat,
    /// A non-blank line was read.
    begun: bool,
    /// A line was read that only this format has.
    certain: bool,
    iolog: iolog::IologState,
    blkparse: blkparse::BlkparseState,
}

#[derive(Clone, Debug)]
enum TraceLine {
    /// A request.
    Request(TraceRecord),
    /// A request of this volume that is not replayed.
    Skipped(Volume, SkipReason),
    /// No request, but specific to this format: a header, another event.
    Characteristic,
    /// Anything else, such as a comment.
    Other,
}

impl Parser {
    /// A parser for `format`, before the first line.
    fn new(format: TraceFormat, events: Option<BlkparseEvent>) -> Self {
        let blkparse = blkparse::BlkparseState::new(events.unwrap_or_default());
        Self { format, begun: false, certain: false, iolog: iolog::IologState::default(), blkparse }
    }

    /// Parses one line.
    ///
    /// # Errors
    /// A line not of the format, numbers out of range, or a range that is not whole
    /// sectors.
    fn line(&mut self, line: &str) -> Result<TraceLine, LineError> {
        let line = line.trim_end_matches(['\r', '\n']);
        let line = if self.begun { line } else { line.trim_start_matches('\u{feff}') };
        if line.trim().is_empty() {
            return Ok(TraceLine::Other);
        }
        let first = !core::mem::replace(&mut self.begun, true);
        let line = match self.format {
            TraceFormat::Iolog => self.iolog.line(line),
            TraceFormat::Blkparse => self.blkparse.line(line),
            TraceFormat::Recording => recording::line(line, first),
            TraceFormat::Table(table) => table.line(line, first),
        }?;
        self.certain |= match line {
            TraceLine::Request(_) => self.format.has_letters(),
            TraceLine::Characteristic => true,
            TraceLine::Skipped(..) => self.format == TraceFormat::Blkparse,
            TraceLine::Other => false,
        };
        match line {
            TraceLine::Request(raw) => raw.checked(),
            line => Ok(line),
        }
    }
}

/// Parses the number in `field`; `name` is for messages.
fn number<T: FromStr>(field: Option<&str>, name: &str) -> Result<T, LineError> {
    let Some(field) = field else { return Err(LineError::Short(format!("{name} is missing"))) };
    field.trim().parse().map_err(|_| {
        LineError::Wrong(format!("{name} '{}' is not a number in range", shortened(field.trim())))
    })
}

/// Parses a decimal number in units of `unit_ns` (a power of ten), without rounding.
fn decimal(field: Option<&str>, name: &str, unit_ns: u32) -> Result<u128, LineError> {
    let Some(field) = field.map(str::trim) else {
        return Err(LineError::Short(format!("{name} is missing")));
    };
    let wrong =
        || LineError::Wrong(format!("{name} '{}' is not a number in range", shortened(field)));
    let (whole, fraction) = field.split_once('.').unwrap_or((field, ""));
    let whole: u64 = whole.parse().map_err(|_| wrong())?;
    if !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return Err(wrong());
    }
    let mut ns = u128::from(whole) * u128::from(unit_ns);
    let mut unit = unit_ns;
    for digit in fraction.bytes() {
        unit /= 10;
        ns += u128::from(digit - b'0') * u128::from(unit);
    }
    Ok(ns)
}

fn bytes(count: u64, unit: u64, name: &str) -> Result<u64, LineError> {
    count
        .checked_mul(unit)
        .ok_or_else(|| LineError::Wrong(format!("{name} {count} is out of range")))
}

/// At most 40 characters of `text`, for a message.
fn shortened(text: &str) -> String {
    if text.chars().count() <= 40 {
        return text.to_string();
    }
    let mut short: String = text.chars().take(39).collect();
    short.push('…');
    short
}

#[cfg(test)]
mod tests;
