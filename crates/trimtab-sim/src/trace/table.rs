//! Formats with one request per line in fixed columns.

use super::{Kind, Line, LineError, Raw, SECTOR_BYTES, SkipReason, Volume, bytes, decimal, number, shortened};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Columns of a format.
#[derive(Debug)]
pub struct Table {
    /// Separator; white space if `None`.
    separator: Option<char>,
    columns: &'static [Column],
    /// Minimum columns of a line.
    least: usize,
    /// Maximum columns of a line.
    most: usize,
}

#[derive(Debug)]
struct Column {
    /// Name in messages.
    name: &'static str,
    /// Names in headers, in lower-case letters and digits only.
    header: &'static [&'static str],
    content: Content,
}

#[derive(Clone, Copy, Debug)]
enum Content {
    /// Decimal number in units of this many nanoseconds, a power of ten.
    Decimal(u32),
    /// Integer in units of this many nanoseconds.
    Ticks(u32),
    Volume,
    /// Owner of the volume.
    Host,
    /// Operation by word; `None` for requests that were not served.
    Kind(&'static [(&'static str, Option<Kind>)]),
    /// In units of this many bytes.
    Offset(u64),
    /// In units of this many bytes.
    Len(u64),
    /// Any number.
    Number,
    /// Anything.
    Text,
}

const fn column(name: &'static str, header: &'static [&'static str], content: Content) -> Column {
    Column { name, header, content }
}

const TIME: &[&str] = &["timestamp", "time", "ts"];
const OFFSET: &[&str] = &["offset", "lba", "startinglba", "address"];
const SIZE: &[&str] = &["size", "length", "len", "iosize"];
const KIND: &[&str] = &["type", "opcode", "op", "iotype", "operation", "rw"];
const VOLUME: &[&str] = &["volumeid", "volume", "deviceid", "device", "disknumber", "disk", "lun", "asu", "devicenumber"];
const NAMED: &[(&str, Option<Kind>)] =
    &[("Read", Some(Kind::Read)), ("Write", Some(Kind::Write)), ("R", Some(Kind::Read)), ("W", Some(Kind::Write))];
/// As in DiskSim: bit 0 is set for a read.
const SIMULATED: &[(&str, Option<Kind>)] = &[("0", Some(Kind::Write)), ("1", Some(Kind::Read))];

const SECOND: u32 = 1_000_000_000;

pub(super) static MSR: Table = Table {
    separator: Some(','),
    columns: &[
        column("the timestamp", TIME, Content::Ticks(100)),
        column("the host", &["hostname", "host"], Content::Host),
        column("the disk number", VOLUME, Content::Volume),
        column("the kind of request", KIND, Content::Kind(NAMED)),
        column("the offset", OFFSET, Content::Offset(1)),
        column("the size", SIZE, Content::Len(1)),
        column("the response time", &["responsetime", "response", "latency"], Content::Text),
    ],
    least: 6,
    most: 7,
};

pub(super) static ALIBABA: Table = Table {
    separator: Some(','),
    columns: &[
        column("the device", VOLUME, Content::Volume),
        column("the kind of request", KIND, Content::Kind(NAMED)),
        column("the offset", OFFSET, Content::Offset(1)),
        column("the length", SIZE, Content::Len(1)),
        column("the timestamp", TIME, Content::Ticks(1000)),
    ],
    least: 5,
    most: 5,
};

pub(super) static TENCENT: Table = Table {
    separator: Some(','),
    columns: &[
        column("the timestamp", TIME, Content::Ticks(SECOND)),
        column("the offset", OFFSET, Content::Offset(SECTOR_BYTES)),
        column("the size", SIZE, Content::Len(SECTOR_BYTES)),
        column("the kind of request", KIND, Content::Kind(&[("0", Some(Kind::Read)), ("1", Some(Kind::Write))])),
        column("the volume", VOLUME, Content::Volume),
    ],
    least: 5,
    most: 5,
};

pub(super) static SPC: Table = Table {
    separator: Some(','),
    columns: &[
        column("the unit (ASU)", VOLUME, Content::Volume),
        column("the sector", OFFSET, Content::Offset(SECTOR_BYTES)),
        column("the size", SIZE, Content::Len(1)),
        column("the kind of request", KIND, Content::Kind(NAMED)),
        column("the timestamp", TIME, Content::Decimal(SECOND)),
    ],
    least: 5,
    // The format ends with optional fields.
    most: usize::MAX,
};

pub(super) static SYSTOR17: Table = Table {
    separator: Some(','),
    columns: &[
        column("the timestamp", TIME, Content::Decimal(SECOND)),
        column("the response time", &["response", "responsetime"], Content::Text),
        column(
            "the kind of request",
            KIND,
            // Blank if the request has no response.
            Content::Kind(&[
                ("R", Some(Kind::Read)),
                ("W", Some(Kind::Write)),
                ("Read", Some(Kind::Read)),
                ("Write", Some(Kind::Write)),
                ("", None),
            ]),
        ),
        column("the unit (LUN)", VOLUME, Content::Volume),
        column("the offset", OFFSET, Content::Offset(1)),
        column("the size", SIZE, Content::Len(1)),
    ],
    least: 6,
    most: 6,
};

pub(super) static COLUMNS: Table = Table {
    separator: None,
    columns: &[
        column("the time", TIME, Content::Decimal(SECOND)),
        column("the request type", KIND, Content::Kind(&[("0", Some(Kind::Read)), ("1", Some(Kind::Write)), ("3", Some(Kind::Trim))])),
        column("the block", &["lba", "block", "offset"], Content::Offset(4096)),
        column("the size", SIZE, Content::Len(1)),
        column("the stream", &["stream", "streamnumber", "streamid"], Content::Number),
        column("the sixth column", &[], Content::Text),
    ],
    least: 5,
    most: 6,
};

/// Columns of DiskSim's ASCII traces, also used by MQSim.
const fn simulator(time: Content) -> [Column; 5] {
    [
        column("the time", &["requestarrivaltime", "arrivaltime", "time", "timestamp"], time),
        column("the device", VOLUME, Content::Volume),
        column("the sector", &["startinglogicalsectoraddress", "lba", "lsa", "sector", "blkno"], Content::Offset(SECTOR_BYTES)),
        column("the number of sectors", &["requestsizeinsectors", "size", "sectors", "bcount"], Content::Len(SECTOR_BYTES)),
        column("the request type", &["typeofrequests", "type", "flags"], Content::Kind(SIMULATED)),
    ]
}

static MQSIM_COLUMNS: [Column; 5] = simulator(Content::Ticks(1));
static DISKSIM_COLUMNS: [Column; 5] = simulator(Content::Decimal(1_000_000));
pub(super) static MQSIM: Table = Table { separator: None, columns: &MQSIM_COLUMNS, least: 5, most: 5 };
pub(super) static DISKSIM: Table = Table { separator: None, columns: &DISKSIM_COLUMNS, least: 5, most: 5 };

impl Table {
    /// True if each request has a letter at a fixed position; otherwise any numbers fit.
    pub(super) fn has_letters(&self) -> bool {
        let letters = |words: &[(&str, Option<Kind>)]| words.iter().any(|(word, _)| word.starts_with(|c: char| c.is_ascii_alphabetic()));
        self.columns.iter().any(|column| matches!(column.content, Content::Kind(words) if letters(words)))
    }

    /// Parses a line, which may be a header if it is the `first`.
    pub(super) fn line(&self, line: &str, first: bool) -> Result<Line, LineError> {
        if line.trim_start().starts_with('#') {
            return Ok(Line::Other);
        }
        // One more than allowed, to detect extra columns.
        let few = self.columns.len() + 1;
        let fields: Vec<&str> = match self.separator {
            Some(separator) => line.trim_end().trim_end_matches(separator).split(separator).map(str::trim).take(few).collect(),
            None => line.split_ascii_whitespace().take(few).collect(),
        };
        if first && fields.iter().all(|field| field.trim_matches('"').starts_with(|c: char| c.is_ascii_alphabetic())) {
            return self.header(&fields);
        }
        if let Some(separator) = self.separator.filter(|separator| first && !line.contains(*separator)) {
            return Err(LineError::Wrong(format!("the columns are not separated by '{separator}'")));
        }
        if let Some(missing) = self.columns[..self.least].get(fields.len()) {
            return Err(LineError::Short(format!("{} is missing", missing.name)));
        }
        if fields.len() > self.most {
            return Err(LineError::Wrong(format!("there are more than {} columns", self.most)));
        }
        self.request(&fields)
    }

    fn header(&self, fields: &[&str]) -> Result<Line, LineError> {
        let known = |(column, field): (&Column, &&str)| column.header.contains(&plain(field).as_str());
        let fits = (self.least..=self.most).contains(&fields.len()) && self.columns.iter().zip(fields).all(known);
        if fits { Ok(Line::Characteristic) } else { Err(LineError::new("the header's columns do not match the format")) }
    }

    fn request(&self, fields: &[&str]) -> Result<Line, LineError> {
        let mut raw = Raw::new(0, Volume::default(), Kind::Flush, 0, 0);
        let mut host = "";
        let mut served = true;
        for (Column { name, content, .. }, text) in self.columns.iter().zip(fields.iter().copied()) {
            let field = Some(text);
            match *content {
                Content::Decimal(unit_ns) => raw.at_ns = decimal(field, name, unit_ns)?,
                Content::Ticks(ns) => raw.at_ns = u128::from(number::<u64>(field, name)?) * u128::from(ns),
                Content::Volume => {
                    let number = number(field, name)?;
                    raw.volume = if host.is_empty() { Volume::Number(number) } else { Volume::named(&format!("{host},{number}"), number)? };
                }
                Content::Host => host = text,
                Content::Kind(words) => match kind(text, name, words)? {
                    Some(kind) => raw.kind = kind,
                    None => served = false,
                },
                Content::Offset(unit) => raw.offset = bytes(number(field, name)?, unit, name)?,
                Content::Len(unit) => raw.len = bytes(number(field, name)?, unit, name)?,
                Content::Number => drop(number::<u64>(field, name)?),
                Content::Text => {}
            }
        }
        Ok(if served { Line::Request(raw) } else { Line::Skipped(raw.volume, SkipReason::NoResponse) })
    }
}

fn kind(field: &str, name: &str, words: &[(&str, Option<Kind>)]) -> Result<Option<Kind>, LineError> {
    let found = words.iter().find(|(word, _)| word.eq_ignore_ascii_case(field));
    found.map(|(_, kind)| *kind).ok_or_else(|| {
        let known: Vec<&str> = words.iter().map(|(word, _)| *word).filter(|word| !word.is_empty()).collect();
        LineError::Wrong(format!("{name} '{}' is not one of {}", shortened(field), known.join(", ")))
    })
}

/// A header word in lower-case letters and digits only.
fn plain(word: &str) -> String {
    word.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}
