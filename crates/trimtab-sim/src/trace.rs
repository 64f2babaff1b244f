//! Block traces, a line at a time: from the text formats in which they are published to one record.
//!
//! Reading is streaming: a parser keeps only what a later line may refer to. [`Lines`] also keeps the volume, and a window of requests
//! that it sorts by time.

mod blkparse;
mod fiu;
mod format;
mod iolog;
mod left_out;
mod lines;
mod table;
mod volume;

pub use blkparse::Action;
pub use format::{Format, Recognised};
pub use left_out::Why;
pub use lines::{Lines, TextError};
pub use volume::Volume;

use alloc::format;
use alloc::string::{String, ToString};
use core::str::FromStr;
use trimtab_drive::OpKind;
use trimtab_drive::data::DataClass;
use trimtab_drive::units::Nanos;

/// Bytes of the sectors that every block device is divided into.
const SECTOR_BYTES: u64 = 512;

/// What a record asks the device to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Read.
    Read,
    /// Write.
    Write,
    /// Discard.
    Trim,
    /// Flush; offset and length are 0.
    Flush,
}

impl Kind {
    /// The kind of operation that results speak of.
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

/// How a text trace is to be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Its format; detected if `None`.
    pub format: Option<Format>,
    /// The one volume that is read of a trace of several.
    pub volume: Option<Volume>,
    /// Which events of blkparse text are requests; queued ones if `None`.
    pub events: Option<Action>,
}

/// One request of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Time since the earliest record of the trace.
    pub at: Nanos,
    /// The volume, in traces of several; number 0 elsewhere.
    pub volume: Volume,
    /// The request.
    pub kind: Kind,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
    /// The device flushes its cache before it serves the request.
    pub preflush: bool,
    /// A write that is durable when it completes.
    pub fua: bool,
}

impl Record {
    /// The requests that the device serves: a flush first, where the record carries one.
    pub fn events(self) -> impl Iterator<Item = Event> {
        let event = Event {
            at: self.at,
            kind: self.kind,
            offset: self.offset,
            len: self.len,
            class: DataClass::Random,
            fua: self.fua,
            continues: false,
            latency: Nanos::ZERO,
            errno: None,
        };
        let flush = Event { kind: Kind::Flush, offset: 0, len: 0, fua: false, ..event };
        self.preflush.then_some(flush).into_iter().chain([event])
    }
}

/// One request of a host, as it was served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When it arrived, since the beginning of the recording, in model time.
    pub at: Nanos,
    /// What.
    pub kind: Kind,
    /// First byte; 0 for a flush.
    pub offset: u64,
    /// Bytes; 0 for a flush.
    pub len: u64,
    /// What the data of a write is like.
    pub class: DataClass,
    /// A write that is durable when answered.
    pub fua: bool,
    /// The next event is another range of the same TRIM command.
    pub continues: bool,
    /// How long the drive took.
    pub latency: Nanos,
    /// The error that the host saw.
    pub errno: Option<u16>,
}

/// The reason why a line cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// It ends before its last field.
    #[error("{0}")]
    Short(String),
    /// Something in it is wrong.
    #[error("{0}")]
    Wrong(String),
}

impl LineError {
    fn new(text: impl Into<String>) -> Self {
        Self::Wrong(text.into())
    }
}

/// Reads lines of one format.
#[derive(Clone, Debug)]
struct Parser {
    format: Format,
    /// A line came that is not blank.
    begun: bool,
    /// A line came that no other format has.
    certain: bool,
    iolog: iolog::State,
    blkparse: blkparse::State,
}

/// What one line holds.
#[derive(Clone, Debug)]
enum Line {
    /// A request.
    Request(Raw),
    /// A request of this volume that is not replayed.
    LeftOut(Volume, Why),
    /// No request, in a form that only this format has: a header, another event.
    Characteristic,
    /// Neither, such as a comment.
    Other,
}

impl Parser {
    /// A reader of `format`, before the first line.
    fn new(format: Format, events: Option<Action>) -> Self {
        let blkparse = blkparse::State::new(events.unwrap_or_default());
        Self { format, begun: false, certain: false, iolog: iolog::State::default(), blkparse }
    }

    /// Reads one line.
    ///
    /// # Errors
    /// A line that is not of the format, whose numbers are out of range, or whose range is not whole sectors.
    fn line(&mut self, line: &str) -> Result<Line, LineError> {
        let line = line.trim_end_matches(['\r', '\n']);
        let line = if self.begun { line } else { line.trim_start_matches('\u{feff}') };
        if line.trim().is_empty() {
            return Ok(Line::Other);
        }
        let first = !core::mem::replace(&mut self.begun, true);
        let line = match self.format {
            Format::Iolog => self.iolog.line(line),
            Format::Blkparse => self.blkparse.line(line),
            Format::Fiu => fiu::line(line),
            Format::Table(table) => table.line(line, first),
        }?;
        self.certain |= match line {
            Line::Request(_) => self.format.has_letters(),
            Line::Characteristic => true,
            Line::LeftOut(..) => self.format == Format::Blkparse,
            Line::Other => false,
        };
        match line {
            Line::Request(raw) => raw.checked(),
            line => Ok(line),
        }
    }
}

/// A record with its time on the trace's own clock.
#[derive(Clone, Debug)]
struct Raw {
    at_ns: u128,
    volume: Volume,
    kind: Kind,
    offset: u64,
    len: u64,
    preflush: bool,
    fua: bool,
}

impl Raw {
    /// A request without flags.
    const fn new(at_ns: u128, volume: Volume, kind: Kind, offset: u64, len: u64) -> Self {
        Self { at_ns, volume, kind, offset, len, preflush: false, fua: false }
    }

    /// The request, if its range is whole sectors and not empty.
    fn checked(self) -> Result<Line, LineError> {
        let Self { offset, len, preflush, fua, .. } = self;
        if offset.checked_add(len).is_none() {
            return Err(LineError::new("the range ends beyond 2^64 bytes"));
        }
        if offset % SECTOR_BYTES != 0 || len % SECTOR_BYTES != 0 {
            return Err(LineError::Wrong(format!(
                "{len} bytes at byte {offset} are not whole sectors of 512 bytes: is it another format?"
            )));
        }
        let kind = if len == 0 && preflush { Kind::Flush } else { self.kind };
        if kind == Kind::Flush {
            return Ok(Line::Request(Self::new(self.at_ns, self.volume, kind, 0, 0)));
        }
        if len == 0 {
            return Ok(Line::LeftOut(self.volume, Why::Empty));
        }
        Ok(Line::Request(Self { fua: fua && kind == Kind::Write, ..self }))
    }

    /// The record, at `at`.
    fn record(self, at: Nanos) -> Record {
        let Self { volume, kind, offset, len, preflush, fua, .. } = self;
        Record { at, volume, kind, offset, len, preflush, fua }
    }
}

/// Reads the number in `field`, which messages call `name`.
fn number<T: FromStr>(field: Option<&str>, name: &str) -> Result<T, LineError> {
    let Some(field) = field else { return Err(LineError::Short(format!("{name} is missing"))) };
    field.trim().parse().map_err(|_| LineError::Wrong(format!("{name} '{}' is not a number in range", shortened(field.trim()))))
}

/// Reads a decimal number of units of `unit_ns` (a power of ten) as nanoseconds, without the rounding of a float.
fn decimal(field: Option<&str>, name: &str, unit_ns: u32) -> Result<u128, LineError> {
    let Some(field) = field.map(str::trim) else { return Err(LineError::Short(format!("{name} is missing"))) };
    let wrong = || LineError::Wrong(format!("{name} '{}' is not a number in range", shortened(field)));
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

/// `count` units of `unit` bytes in bytes.
fn bytes(count: u64, unit: u64, name: &str) -> Result<u64, LineError> {
    count.checked_mul(unit).ok_or_else(|| LineError::Wrong(format!("{name} {count} is out of range")))
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
