//! Counters of served requests, in the last second and in total.

use crate::status::{Latencies, RequestFigures, RequestsByKind};
use trimtab_drive::requests::{RequestCounts, RequestTally};

impl From<&RequestTally> for RequestFigures {
    fn from(done: &RequestTally) -> Self {
        Self {
            count: done.count,
            bytes: done.bytes,
            failed: done.failed,
            latency: Latencies::of(&done.latency),
        }
    }
}

impl From<&RequestCounts> for RequestsByKind {
    fn from(counts: &RequestCounts) -> Self {
        Self {
            read: (&counts.read).into(),
            write: (&counts.write).into(),
            trim: (&counts.trim).into(),
            flush: (&counts.flush).into(),
        }
    }
}

/// Requests of the current and the last second.
#[derive(Clone, Debug, Default)]
pub struct Seconds {
    /// The current second.
    pub current: RequestCounts,
    /// The last completed second.
    pub last: RequestsByKind,
}

impl Seconds {
    /// Ends the current second.
    pub fn tick(&mut self) {
        self.last = RequestsByKind::from(&self.current);
        let RequestCounts { read, write, trim, flush } = &mut self.current;
        for done in [read, write, trim, flush] {
            if done.count > 0 {
                *done = RequestTally::default();
            }
        }
    }
}
