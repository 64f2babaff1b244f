//! Counters of what a drive was sent, by kind.

use super::Command;
use crate::histogram::Histogram;
use crate::units::Nanos;

/// Completed requests of one kind.
#[derive(Clone, Debug, Default)]
pub struct Done {
    /// How many.
    pub count: u64,
    /// Bytes of those that succeeded.
    pub bytes: u64,
    /// How many failed.
    pub failed: u64,
    /// Their latency in model time.
    pub latency: Histogram,
}

impl Done {
    /// Counts one.
    pub fn count(&mut self, success: bool, bytes: u64, latency: Nanos) {
        self.count += 1;
        if success {
            self.bytes += bytes;
        } else {
            self.failed += 1;
        }
        self.latency.record(latency);
    }
}

/// Completed requests by kind.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Reads.
    pub read: Done,
    /// Writes, with zero-writes that keep the space mapped.
    pub write: Done,
    /// TRIM commands, with zero-writes that unmap.
    pub trim: Done,
    /// Flushes, with the durable end of each FUA write.
    pub flush: Done,
}

impl Counts {
    /// Where `command` is counted.
    pub const fn of(&mut self, command: &Command<'_>) -> &mut Done {
        match command {
            Command::Read(_) => &mut self.read,
            Command::Write(..) => &mut self.write,
            Command::Trim(_) => &mut self.trim,
            Command::Flush => &mut self.flush,
        }
    }
}
