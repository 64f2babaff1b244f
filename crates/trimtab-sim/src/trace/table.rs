//! Formats with one request per line in fixed columns.

use super::{
    LineError, SECTOR_BYTES, TraceLine, TraceOpKind, TraceRecord, Volume, bytes, decimal, number,
    shortened,
};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Columns of a format.
#[derive(Debug, PartialEq, Eq)]
pub struct ColumnFormat {
    /// Separator; white space if `None`.
    separator: Option<char>,
    columns: &'static [TraceColumn],
    /// Minimum columns of a line.
    least: usize,
    /// Maximum columns of a line.
    most: usize,
}

#[derive(Debug, PartialEq, Eq)]
struct TraceColumn {
    /// Name in messages.
    name: &'static str,
    /// Names in headers, in lower-case letters and digits only.
    header: &'static [&'static str],
    content: ColumnContent,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ColumnContent {
    /// Decimal number in units of this many nanoseconds, a power of ten.
    Decimal(u32),
    /// Integer in units of this many nanoseconds.
    Ticks(u32),
    Volume,
    /// Owner of the volume.
    Host,
    /// Operation by word.
    Kind(&'static [(&'static str, TraceOpKind)]),
    /// In units of this many bytes.
    Offset(u64),
    /// In units of this many bytes.
    Len(u64),
    /// Any number.
    Number,
    /// Anything.
    Text,
}

const fn column(
    name: &'static str,
    header: &'static [&'static str],
    content: ColumnContent,
) -> TraceColumn {
    TraceColumn { name, header, content }
}

const TIME: &[&str] = &["timestamp", "time", "ts"];
const OFFSET: &[&str] = &["offset", "lba", "startinglba", "address"];
const SIZE: &[&str] = &["size", "length", "len", "iosize"];
const KIND: &[&str] = &["type", "opcode", "op", "iotype", "operation", "rw"];
const VOLUME: &[&str] =
    &["disknumber", "disk", "devicenumber", "deviceid", "device", "volumeid", "volume"];
const NAMED: &[(&str, TraceOpKind)] = &[
    ("Read", TraceOpKind::Read),
    ("Write", TraceOpKind::Write),
    ("R", TraceOpKind::Read),
    ("W", TraceOpKind::Write),
];
/// Of MQSim, as of DiskSim: bit 0 is set for a read.
const SIMULATED: &[(&str, TraceOpKind)] = &[("0", TraceOpKind::Write), ("1", TraceOpKind::Read)];

const SECOND: u32 = 1_000_000_000;

pub(super) static MSR: ColumnFormat = ColumnFormat {
    separator: Some(','),
    columns: &[
        column("the timestamp", TIME, ColumnContent::Ticks(100)),
        column("the host", &["hostname", "host"], ColumnContent::Host),
        column("the disk number", VOLUME, ColumnContent::Volume),
        column("the kind of request", KIND, ColumnContent::Kind(NAMED)),
        column("the offset", OFFSET, ColumnContent::Offset(1)),
        column("the size", SIZE, ColumnContent::Len(1)),
        column("the response time", &["responsetime", "response", "latency"], ColumnContent::Text),
    ],
    least: 6,
    most: 7,
};

pub(super) static ALIBABA: ColumnFormat = ColumnFormat {
    separator: Some(','),
    columns: &[
        column("the device", VOLUME, ColumnContent::Volume),
        column("the kind of request", KIND, ColumnContent::Kind(NAMED)),
        column("the offset", OFFSET, ColumnContent::Offset(1)),
        column("the length", SIZE, ColumnContent::Len(1)),
        column("the timestamp", TIME, ColumnContent::Ticks(1000)),
    ],
    least: 5,
    most: 5,
};

pub(super) static COLUMNS: ColumnFormat = ColumnFormat {
    separator: None,
    columns: &[
        column("the time", TIME, ColumnContent::Decimal(SECOND)),
        column(
            "the request type",
            KIND,
            ColumnContent::Kind(&[
                ("0", TraceOpKind::Read),
                ("1", TraceOpKind::Write),
                ("3", TraceOpKind::Trim),
            ]),
        ),
        column("the block", &["lba", "block", "offset"], ColumnContent::Offset(4096)),
        column("the size", SIZE, ColumnContent::Len(1)),
        column("the stream", &["stream", "streamnumber", "streamid"], ColumnContent::Number),
        column("the sixth column", &[], ColumnContent::Text),
    ],
    least: 5,
    most: 6,
};

/// As in DiskSim, but with nanoseconds.
pub(super) static MQSIM: ColumnFormat = ColumnFormat {
    separator: None,
    columns: &[
        column(
            "the time",
            &["requestarrivaltime", "arrivaltime", "time", "timestamp"],
            ColumnContent::Ticks(1),
        ),
        column("the device", VOLUME, ColumnContent::Volume),
        column(
            "the sector",
            &["startinglogicalsectoraddress", "lba", "lsa", "sector", "blkno"],
            ColumnContent::Offset(SECTOR_BYTES),
        ),
        column(
            "the number of sectors",
            &["requestsizeinsectors", "size", "sectors", "bcount"],
            ColumnContent::Len(SECTOR_BYTES),
        ),
        column(
            "the request type",
            &["typeofrequests", "type", "flags"],
            ColumnContent::Kind(SIMULATED),
        ),
    ],
    least: 5,
    most: 5,
};

impl ColumnFormat {
    /// True if each request has a letter at a fixed position; otherwise any numbers fit.
    pub(super) fn has_letters(&self) -> bool {
        let letters = |words: &[(&str, TraceOpKind)]| {
            words.iter().any(|(word, _)| word.starts_with(|c: char| c.is_ascii_alphabetic()))
        };
        self.columns
            .iter()
            .any(|column| matches!(column.content, ColumnContent::Kind(words) if letters(words)))
    }

    /// Parses a line, which may be a header if it is the `first`.
    pub(super) fn line(&self, line: &str, first: bool) -> Result<TraceLine, LineError> {
        if line.trim_start().starts_with('#') {
            return Ok(TraceLine::Other);
        }
        // One more than allowed, to detect extra columns.
        let few = self.columns.len() + 1;
        let fields: Vec<&str> = match self.separator {
            Some(separator) => line
                .trim_end()
                .trim_end_matches(separator)
                .split(separator)
                .map(str::trim)
                .take(few)
                .collect(),
            None => line.split_ascii_whitespace().take(few).collect(),
        };
        if self.separator.is_none() && fields.first().is_some_and(|field| field.contains(',')) {
            return Err(LineError::new("the columns are not separated by blanks"));
        }
        if first
            && fields
                .iter()
                .all(|field| field.trim_matches('"').starts_with(|c: char| c.is_ascii_alphabetic()))
        {
            return self.header(&fields);
        }
        if let Some(separator) =
            self.separator.filter(|separator| first && !line.contains(*separator))
        {
            return Err(LineError::Wrong(format!(
                "the columns are not separated by '{separator}'"
            )));
        }
        if let Some(missing) = self.columns[..self.least].get(fields.len()) {
            return Err(LineError::Short(format!("{} is missing", missing.name)));
        }
        if fields.len() > self.most {
            return Err(LineError::Wrong(format!("there are more than {} columns", self.most)));
        }
        self.request(&fields)
    }

    fn header(&self, fields: &[&str]) -> Result<TraceLine, LineError> {
        let known =
            |(column, field): (&TraceColumn, &&str)| column.header.contains(&plain(field).as_str());
        let fits = (self.least..=self.most).contains(&fields.len())
            && self.columns.iter().zip(fields).all(known);
        if fits {
            Ok(TraceLine::Characteristic)
        } else {
            Err(LineError::new("the header's columns do not match the format"))
        }
    }

    fn request(&self, fields: &[&str]) -> Result<TraceLine, LineError> {
        let mut raw = TraceRecord::new(0, Volume::default(), TraceOpKind::Flush, 0, 0);
        let mut host = "";
        for (TraceColumn { name, content, .. }, text) in
            self.columns.iter().zip(fields.iter().copied())
        {
            let field = Some(text);
            match *content {
                ColumnContent::Decimal(unit_ns) => raw.at_ns = decimal(field, name, unit_ns)?,
                ColumnContent::Ticks(ns) => {
                    raw.at_ns = u128::from(number::<u64>(field, name)?) * u128::from(ns)
                }
                ColumnContent::Volume => {
                    let number = number(field, name)?;
                    raw.volume = if host.is_empty() {
                        Volume::Number(number)
                    } else {
                        Volume::named(&format!("{host},{number}"), number)?
                    };
                }
                ColumnContent::Host => host = text,
                ColumnContent::Kind(words) => raw.kind = kind(text, name, words)?,
                ColumnContent::Offset(unit) => {
                    raw.offset = bytes(number(field, name)?, unit, name)?
                }
                ColumnContent::Len(unit) => raw.len = bytes(number(field, name)?, unit, name)?,
                ColumnContent::Number => drop(number::<u64>(field, name)?),
                ColumnContent::Text => {}
            }
        }
        Ok(TraceLine::Request(raw))
    }
}

fn kind(field: &str, name: &str, words: &[(&str, TraceOpKind)]) -> Result<TraceOpKind, LineError> {
    let found = words.iter().find(|(word, _)| word.eq_ignore_ascii_case(field));
    found.map(|(_, kind)| *kind).ok_or_else(|| {
        let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        LineError::Wrong(format!(
            "{name} '{}' is not one of {}",
            shortened(field),
            known.join(", ")
        ))
    })
}

/// A header word in lower-case letters and digits only.
fn plain(word: &str) -> String {
    word.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}
