//! Request counters by command kind.

use super::Command;
use crate::histogram::Histogram;
use crate::units::Nanos;

/// Completed requests of one kind.
#[derive(Clone, Debug, Default)]
pub struct Done {
    /// Number of requests, failed ones included.
    pub count: u64,
    /// Bytes of successful requests.
    pub bytes: u64,
    /// Number of failed requests.
    pub failed: u64,
    /// Latency in model time.
    pub latency: Histogram,
}

impl Done {
    /// Counts one request.
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
    /// Writes, including zero-writes that keep the space mapped.
    pub write: Done,
    /// TRIM commands, including zero-writes that unmap.
    pub trim: Done,
    /// Flushes, including the durable end of each FUA write.
    pub flush: Done,
}

impl Counts {
    /// Counter of `command`.
    pub const fn of(&mut self, command: &Command<'_>) -> &mut Done {
        match command {
            Command::Read(_) => &mut self.read,
            Command::Write(..) => &mut self.write,
            Command::Trim(_) => &mut self.trim,
            Command::Flush => &mut self.flush,
        }
    }
}
