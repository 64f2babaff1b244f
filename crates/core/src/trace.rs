//! Block traces, a line at a time: from the text formats in which they are published to one record.
//!
//! Reading is streaming: a [`Parser`] keeps only what a line may refer back to.

mod blkparse;
mod columns;
mod csv;
mod iolog;

use crate::data::DataClass;
use crate::op::OpKind;
use crate::units::Nanos;
use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;
use core::str::FromStr;

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

/// One request of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// When, since the first record of the trace.
    pub at: Nanos,
    /// Which volume, in traces of several (Alibaba's device, MSR's disk number); 0 elsewhere.
    pub volume: u64,
    /// What.
    pub kind: Kind,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
}

/// A text format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// MSR Cambridge: `timestamp (100 ns), host, disk, Read|Write, offset, size, response time`.
    Msr,
    /// Alibaba block traces: `device, R|W, offset, length, timestamp (µs)`.
    Alibaba,
    /// fio's iolog, version 2 or 3 (its first line says which).
    FioIolog,
    /// blkparse's default text; only queue events (`Q`) are requests.
    Blkparse,
    /// White-space columns: `seconds, type (0 read, 1 write, 3 trim), block of 4 KiB, bytes, stream` and possibly one more.
    Columns,
}

impl Format {
    /// Every format with the name by which it is asked for.
    pub const ALL: &'static [(&'static str, Self)] = &[
        ("msr", Self::Msr),
        ("alibaba", Self::Alibaba),
        ("fio", Self::FioIolog),
        ("blkparse", Self::Blkparse),
        ("columns", Self::Columns),
    ];

    /// The format that a trace's first line is of, if it is of exactly one.
    #[must_use]
    pub fn detect(first_line: &str) -> Option<Self> {
        if first_line.starts_with("fio version") {
            return Some(Self::FioIolog);
        }
        let mut fitting = Self::ALL.iter().filter(|(_, format)| Parser::new(*format).line(first_line).is_ok_and(|record| record.is_some()));
        match (fitting.next(), fitting.next()) {
            (Some((_, format)), None) => Some(*format),
            _ => None,
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(Self::ALL.iter().find(|(_, format)| format == self).map_or("unknown", |(name, _)| name))
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .iter()
            .find(|(name, _)| *name == text)
            .map(|(_, format)| *format)
            .ok_or_else(|| format!("'{text}' is not a trace format; they are msr, alibaba, fio, blkparse and columns"))
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

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct LineError(pub String);

/// Reads lines of one format.
#[derive(Clone, Debug)]
pub struct Parser {
    format: Format,
    /// Time of the first record, in nanoseconds on the trace's own clock.
    first_ns: Option<u128>,
    iolog: iolog::State,
}

impl Parser {
    /// A reader of `format`, before the first line.
    #[must_use]
    pub fn new(format: Format) -> Self {
        Self { format, first_ns: None, iolog: iolog::State::default() }
    }

    /// Reads one line without its newline. `None` for lines that are no request: headers, comments, events other than requests.
    ///
    /// # Errors
    /// A line that is not of the format, or whose numbers are out of range.
    pub fn line(&mut self, line: &str) -> Result<Option<Record>, LineError> {
        let line = line.trim_end_matches(['\r', '\n']);
        if line.trim().is_empty() {
            return Ok(None);
        }
        let raw = match self.format {
            Format::Msr => csv::msr(line),
            Format::Alibaba => csv::alibaba(line),
            Format::FioIolog => self.iolog.line(line),
            Format::Blkparse => blkparse::line(line),
            Format::Columns => columns::line(line),
        }?;
        let Some(raw) = raw else { return Ok(None) };
        if raw.offset.checked_add(raw.len).is_none() {
            return Err(LineError("the range ends beyond 2^64 bytes".to_string()));
        }
        if raw.len == 0 && raw.kind != Kind::Flush {
            return Ok(None);
        }
        let first = *self.first_ns.get_or_insert(raw.at_ns);
        // Lines of a merged trace may be a little out of order; time does not run backwards for the device.
        let at = u64::try_from(raw.at_ns.saturating_sub(first)).map_err(|_| LineError("the time is out of range".to_string()))?;
        Ok(Some(Record { at: Nanos(at), volume: raw.volume, kind: raw.kind, offset: raw.offset, len: raw.len }))
    }
}

/// A record with its time on the trace's own clock.
#[derive(Clone, Copy, Debug)]
struct Raw {
    at_ns: u128,
    volume: u64,
    kind: Kind,
    offset: u64,
    len: u64,
}

/// Reads the number in `field`, which `line` calls `name`.
fn number<T: FromStr>(field: Option<&str>, name: &str) -> Result<T, LineError> {
    let Some(field) = field else { return Err(LineError(format!("{name} is missing"))) };
    field.trim().parse().map_err(|_| LineError(format!("{name} '{}' is not a number in range", shortened(field.trim()))))
}

/// Reads decimal seconds as nanoseconds, without the rounding of a float.
fn seconds(field: Option<&str>, name: &str) -> Result<u128, LineError> {
    let Some(field) = field else { return Err(LineError(format!("{name} is missing"))) };
    let wrong = || LineError(format!("{name} '{}' is not a time in seconds", shortened(field)));
    let (whole, fraction) = field.split_once('.').unwrap_or((field, ""));
    let whole: u64 = whole.parse().map_err(|_| wrong())?;
    if !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return Err(wrong());
    }
    let mut ns = u128::from(whole) * 1_000_000_000;
    let mut unit = 100_000_000_u128;
    for digit in fraction.bytes().take(9) {
        ns += u128::from(digit - b'0') * unit;
        unit /= 10;
    }
    Ok(ns)
}

/// `sectors` of 512 bytes in bytes.
fn sectors(sectors: u64, name: &str) -> Result<u64, LineError> {
    sectors.checked_mul(512).ok_or_else(|| LineError(format!("{name} {sectors} is out of range")))
}

/// At most 40 characters of what stood there, for a message.
fn shortened(text: &str) -> String {
    if text.chars().count() <= 40 {
        return text.to_string();
    }
    let mut short: String = text.chars().take(39).collect();
    short.push('…');
    short
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    fn parse(format: Format, text: &str) -> Vec<Record> {
        let mut parser = Parser::new(format);
        text.lines().filter_map(|line| parser.line(line).unwrap()).collect()
    }

    fn record(at_ns: u64, volume: u64, kind: Kind, offset: u64, len: u64) -> Record {
        Record { at: Nanos(at_ns), volume, kind, offset, len }
    }

    #[test]
    fn msr_cambridge() {
        let text = "128166372003061629,hm,1,Read,383496192,32768,413\n128166372016382155,hm,1,Write,2822144,4096,1217\n";
        let expected = [record(0, 1, Kind::Read, 383_496_192, 32_768), record(1_332_052_600, 1, Kind::Write, 2_822_144, 4096)];
        assert_eq!(parse(Format::Msr, text), expected);
        assert_eq!(Format::detect(text.lines().next().unwrap()), Some(Format::Msr));
    }

    #[test]
    fn alibaba() {
        let text = "419,W,8792731648,16384,1577808144360767\n725,R,59110326272,360448,1577808144360813\n";
        let expected = [record(0, 419, Kind::Write, 8_792_731_648, 16_384), record(46_000, 725, Kind::Read, 59_110_326_272, 360_448)];
        assert_eq!(parse(Format::Alibaba, text), expected);
        assert_eq!(Format::detect(text.lines().next().unwrap()), Some(Format::Alibaba));
    }

    #[test]
    fn fio_iolog_versions_2_and_3() {
        let two = "fio version 2 iolog\n/dev/sda add\n/dev/sda open\n/dev/sda write 4096 8192\n/dev/sda wait 250 0\n/dev/sda trim 0 4096\n/dev/sda sync 0 0\n/dev/sda close\n";
        let expected =
            [record(0, 0, Kind::Write, 4096, 8192), record(250_000, 0, Kind::Trim, 0, 4096), record(250_000, 0, Kind::Flush, 0, 0)];
        assert_eq!(parse(Format::FioIolog, two), expected);
        let three = "fio version 3 iolog\n0 /dev/sda add\n10 /dev/sda open\n20 /dev/sda read 512 512\n45 /dev/sdb write 0 4096\n50 /dev/sda datasync 0 0\n";
        let expected = [record(0, 0, Kind::Read, 512, 512), record(25_000, 1, Kind::Write, 0, 4096), record(30_000, 0, Kind::Flush, 0, 0)];
        assert_eq!(parse(Format::FioIolog, three), expected);
        assert_eq!(Format::detect("fio version 3 iolog"), Some(Format::FioIolog));
    }

    #[test]
    fn blkparse_queue_events() {
        let text = "\
  8,0    1        1     0.000000000  1234  Q  WS 2048 + 8 [jbd2]
  8,0    1        2     0.000001000  1234  G  WS 2048 + 8 [jbd2]
  8,0    1        3     0.000250000  1234  Q   D 4096 + 2048 [kworker/0:1]
  8,0    1        4     0.000260000  1234  Q FWS [jbd2]
  8,0    0        5     0.001000000  1235  Q  RA 16 + 8 [cat]
CPU0 (8,0):
 Reads Queued:           1,        4KiB\t Writes Queued:           1,        4KiB
";
        let expected = [
            record(0, 0, Kind::Write, 2048 * 512, 4096),
            record(250_000, 0, Kind::Trim, 4096 * 512, 2048 * 512),
            record(260_000, 0, Kind::Flush, 0, 0),
            record(1_000_000, 0, Kind::Read, 8192, 4096),
        ];
        assert_eq!(parse(Format::Blkparse, text), expected);
        assert_eq!(Format::detect(text.lines().next().unwrap()), Some(Format::Blkparse));
        assert!(Parser::new(Format::Blkparse).line("garbage line,,,").is_err());
    }

    #[test]
    fn columns_with_trims() {
        let text = "0.5 1 10 4096 0\n0.75 3 10 8192 0\n1.000000001 0 7 4096 0 0\n";
        let expected = [
            record(0, 0, Kind::Write, 40_960, 4096),
            record(250_000_000, 0, Kind::Trim, 40_960, 8192),
            record(500_000_001, 0, Kind::Read, 28_672, 4096),
        ];
        assert_eq!(parse(Format::Columns, text), expected);
        assert_eq!(Format::detect(text.lines().next().unwrap()), Some(Format::Columns));
    }

    #[test]
    fn wrong_lines_say_what_is_wrong() {
        for (format, line, expected) in [
            (Format::Msr, "1,hm,1,Raed,0,1,1", "'Raed' is neither Read nor Write"),
            (Format::Msr, "1,hm,1", "the kind of request is missing"),
            (Format::Alibaba, "1,W,x,1,1", "the offset 'x' is not a number in range"),
            (Format::Alibaba, "1,W,18446744073709551615,2,1", "the range ends beyond 2^64 bytes"),
            (Format::Columns, "0 2 0 0 0", "the request type 2 is not 0 (read), 1 (write) or 3 (trim)"),
            (Format::FioIolog, "0 /dev/sda read 0 1", "the log does not begin with 'fio version 2 iolog' or 'fio version 3 iolog'"),
        ] {
            assert_eq!(Parser::new(format).line(line), Err(LineError(expected.to_string())), "{line}");
        }
    }

    proptest! {
        #[test]
        fn no_line_panics(lines in proptest::collection::vec("[ -~]{0,60}|[0-9., RWDQF+x-]{0,60}|\\PC{0,30}", 1..6)) {
            for (_, format) in Format::ALL {
                let mut parser = Parser::new(*format);
                let _ = parser.line("fio version 3 iolog");
                for line in &lines {
                    let _ = parser.line(line);
                }
            }
            let _ = Format::detect(&lines[0]);
        }
    }
}
