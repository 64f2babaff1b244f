//! Requests of a trace that are not replayed, and why.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// Why a request is not replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Why {
    /// It has no bytes.
    Empty,
    /// The trace has no response for it.
    NoResponse,
    /// It is a command for the drive that passes by the block layer.
    PassedThrough,
    /// It is for a zone: reset, open, close, finish or append.
    Zone,
    /// It writes zeros without sending any.
    WriteZeroes,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Empty => "size 0",
            Self::NoResponse => "no response",
            Self::PassedThrough => "passed-through command",
            Self::Zone => "zone command",
            Self::WriteZeroes => "write zeroes, which sends no data",
        })
    }
}

/// How many requests are left out, by the reason.
#[derive(Clone, Debug, Default)]
pub(super) struct LeftOut(BTreeMap<Why, u64>);

impl LeftOut {
    pub(super) fn add(&mut self, why: Why) {
        *self.0.entry(why).or_default() += 1;
    }

    /// `3 lines are left out: size 0 (2), zone command (1)`; `None` if none is.
    pub(super) fn text(&self) -> Option<String> {
        let reasons: Vec<String> = self.0.iter().map(|(why, count)| format!("{why} ({count})")).collect();
        let lines = match self.0.values().sum::<u64>() {
            0 => return None,
            1 => "1 line is".into(),
            n => format!("{n} lines are"),
        };
        Some(format!("{lines} left out: {}", reasons.join(", ")))
    }
}
