//! Counters of served requests, per second and in total.

use crate::status::{Latencies, RequestFigures, RequestsByKind, SecondCounts};
use std::collections::VecDeque;
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

const SECONDS: usize = 120;

/// The last seconds.
#[derive(Clone, Debug, Default)]
pub struct Seconds {
    current: RequestCounts,
    done: VecDeque<SecondCounts>,
    /// Values at the last tick: host and medium bytes written, bytes freed.
    before: ((u64, u64), u64),
}

impl Seconds {
    /// The current second.
    pub const fn current(&mut self) -> &mut RequestCounts {
        &mut self.current
    }

    /// Ends the current second. `written` (host and medium) and `freed` are totals in
    /// bytes.
    pub fn tick(&mut self, written: (u64, u64), freed: u64) {
        let ((host_before, medium_before), freed_before) = self.before;
        let host = written.0.saturating_sub(host_before);
        let medium = written.1.saturating_sub(medium_before);
        self.done.push_back(SecondCounts {
            requests: RequestsByKind::from(&self.current),
            waf: (host > 0).then(|| medium as f64 / host as f64),
            trim_effective_bytes: freed.saturating_sub(freed_before),
        });
        if self.done.len() > SECONDS {
            self.done.pop_front();
        }
        for done in [
            &mut self.current.read,
            &mut self.current.write,
            &mut self.current.trim,
            &mut self.current.flush,
        ] {
            if done.count > 0 {
                *done = RequestTally::default();
            }
        }
        self.before = (written, freed);
    }

    /// The completed seconds, oldest first.
    pub fn recent(&self) -> Vec<SecondCounts> {
        self.done.iter().cloned().collect()
    }
}
