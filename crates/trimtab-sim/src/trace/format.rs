//! Text formats: names and detection.

use super::table::{self, ColumnFormat};
use super::{Parser, TraceLine};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

/// A text format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceFormat {
    /// fio's iolog, version 2 or 3 (stated in its first line).
    Iolog,
    /// blkparse's default text.
    Blkparse,
    /// A recording of the virtual SSD.
    Recording,
    /// One request per line in fixed columns.
    Table(&'static ColumnFormat),
}

/// Result of [`Format::recognise`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FormatMatch {
    /// Matches this format only.
    Certain(TraceFormat),
    /// The numbers fit these formats among others, so the user must choose; may be empty.
    Possible(Vec<TraceFormat>),
}

impl TraceFormat {
    /// Every format with its name and description.
    pub const ALL: &'static [(&'static str, Self, &'static str)] = &[
        ("trimtab", Self::Recording, "a recording of the virtual SSD"),
        ("fio", Self::Iolog, "fio iolog, version 2 or 3"),
        ("blkparse", Self::Blkparse, "the default text of blkparse"),
        ("msr", Self::Table(&table::MSR), "MSR Cambridge"),
        ("alibaba", Self::Table(&table::ALIBABA), "Alibaba block traces"),
        (
            "mqsim",
            Self::Table(&table::MQSIM),
            "MQSim: nanoseconds, device, sector, sectors, 0 write 1 read",
        ),
        (
            "columns",
            Self::Table(&table::COLUMNS),
            "separated by blanks: seconds, 0 read 1 write 3 trim, block of 4 KiB, bytes, stream",
        ),
    ];

    /// Description of the format.
    #[must_use]
    pub fn description(self) -> &'static str {
        Self::ALL
            .iter()
            .find(|(_, format, _)| *format == self)
            .map_or("", |(.., description)| description)
    }

    /// All names as text.
    #[must_use]
    pub fn names() -> String {
        let names: Vec<&str> = Self::ALL.iter().map(|(name, ..)| *name).collect();
        names.join(", ")
    }

    /// True if requests contain specific letters or words; otherwise any numbers fit.
    pub(super) fn has_letters(self) -> bool {
        match self {
            Self::Table(table) => table.has_letters(),
            _ => true,
        }
    }

    /// Detects the format from the `beginning` of a trace: whole lines, including
    /// headers. Formats that any numbers fit are detected only by their header.
    #[must_use]
    pub fn recognise(beginning: &str) -> FormatMatch {
        let (mut certain, mut possible) = (Vec::new(), Vec::new());
        for (_, format, _) in Self::ALL {
            let mut parser = Parser::new(*format, None);
            for line in beginning.lines() {
                let record = parser.line(line);
                if parser.certain {
                    certain.push(*format);
                    break;
                }
                match record {
                    Ok(TraceLine::Request(_)) => {
                        possible.push(*format);
                        break;
                    }
                    Ok(_) => {}
                    Err(_) => break,
                }
            }
        }
        match certain.as_slice() {
            [format] => FormatMatch::Certain(*format),
            [] => FormatMatch::Possible(possible),
            _ => FormatMatch::Possible(certain),
        }
    }
}

impl fmt::Display for TraceFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(
            Self::ALL
                .iter()
                .find(|(_, format, _)| format == self)
                .map_or("unknown", |(name, ..)| name),
        )
    }
}

impl FromStr for TraceFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|(name, ..)| *name == text);
        found
            .map(|(_, format, _)| *format)
            .ok_or_else(|| format!("'{text}' is not a trace format; they are {}", Self::names()))
    }
}
