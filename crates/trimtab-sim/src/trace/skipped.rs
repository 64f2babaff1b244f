//! Requests of a trace that are not replayed, by reason.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use trimtab_drive::named;

named! {
    "reason"
    /// Reason why a request is not replayed.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum SkipReason {
        /// No bytes.
        Empty = "size 0",
        /// A command for the drive that bypasses the block layer.
        PassedThrough = "passed-through command",
        /// A zone command: reset, open, close, finish or append.
        Zone = "zone command",
        /// Writes zeros without sending data.
        WriteZeroes = "write zeroes, which sends no data",
    }
}

/// Number of skipped requests by reason.
#[derive(Clone, Debug, Default)]
pub(super) struct SkipCounts(BTreeMap<SkipReason, u64>);

impl SkipCounts {
    pub(super) fn add(&mut self, why: SkipReason) {
        *self.0.entry(why).or_default() += 1;
    }

    /// `3 lines are left out: size 0 (2), zone command (1)`; `None` if none is.
    pub(super) fn text(&self) -> Option<String> {
        let reasons: Vec<String> =
            self.0.iter().map(|(why, count)| format!("{why} ({count})")).collect();
        let lines = match self.0.values().sum::<u64>() {
            0 => return None,
            1 => "1 line is".into(),
            n => format!("{n} lines are"),
        };
        Some(format!("{lines} left out: {}", reasons.join(", ")))
    }
}
