//! Request counters by command kind.

use super::Command;
use crate::histogram::Histogram;
use crate::units::Nanos;

/// Completed requests of one kind.
#[derive(Clone, Debug, Default)]
pub struct RequestTally {
    /// Number of requests, failed ones included.
    pub count: u64,
    /// Bytes of successful requests.
    pub bytes: u64,
    /// Number of failed requests.
    pub failed: u64,
    /// Latency in model time.
    pub latency: Histogram,
}

impl RequestTally {
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

    /// Makes a request, counted as successful, a failed one.
    pub const fn fail(&mut self, bytes: u64) {
        self.failed += 1;
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}

/// Completed requests by kind.
#[derive(Clone, Debug, Default)]
pub struct RequestCounts {
    /// Reads.
    pub read: RequestTally,
    /// Writes, including zero-writes that keep the space mapped.
    pub write: RequestTally,
    /// TRIM commands, including zero-writes that unmap.
    pub trim: RequestTally,
    /// Flushes, including the durable end of each FUA write.
    pub flush: RequestTally,
}

impl RequestCounts {
    /// Counter of `command`.
    pub const fn of(&mut self, command: &Command<'_>) -> &mut RequestTally {
        match command {
            Command::Read(_) => &mut self.read,
            Command::Write(..) => &mut self.write,
            Command::Trim(_) => &mut self.trim,
            Command::Flush => &mut self.flush,
        }
    }
}
