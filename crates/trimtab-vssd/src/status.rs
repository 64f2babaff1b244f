//! What a server tells about itself: the document of `trimtab drive status --json`, and the figures of its text.

use crate::runtime::Record;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use trimtab_drive::histogram::Histogram;
use trimtab_drive::ledger::Sums;

/// Latencies in model time, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latencies {
    /// Mean.
    pub mean_ns: f64,
    /// Half are at most this.
    pub p50_ns: u64,
    /// 99 % are at most this.
    pub p99_ns: u64,
    /// 99.9 % are at most this.
    pub p999_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

impl Latencies {
    /// Of a histogram.
    pub fn of(histogram: &Histogram) -> Self {
        let at = |percent| histogram.percentile(percent).0;
        Self { mean_ns: histogram.mean_ns(), p50_ns: at(50.0), p99_ns: at(99.0), p999_ns: at(99.9), max_ns: histogram.max().0 }
    }
}

/// Requests of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Requests {
    /// How many were served.
    pub count: u64,
    /// Bytes of those that succeeded.
    pub bytes: u64,
    /// How many of them failed.
    pub failed: u64,
    /// How long the drive took.
    pub latency: Latencies,
}

/// Requests by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ByKind {
    /// Reads.
    pub read: Requests,
    /// Writes.
    pub write: Requests,
    /// TRIM commands.
    pub trim: Requests,
    /// Flushes.
    pub flush: Requests,
}

impl ByKind {
    /// Each kind under its name.
    pub fn named(&self) -> [(&'static str, &Requests); 4] {
        [("read", &self.read), ("write", &self.write), ("trim", &self.trim), ("flush", &self.flush)]
    }
}

/// The requests of one second of real time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Second {
    /// Requests by kind.
    pub requests: ByKind,
    /// NAND bytes written over host bytes written in that second; `None` if the host wrote nothing or it is not known.
    pub waf: Option<f64>,
    /// Bytes freed by TRIM.
    pub trim_effective_bytes: u64,
}

/// How long reads and writes waited in the kernel, above the drive, since it was attached: what the block device counts as their time, less
/// what the drive took for them. A loop device hands a TRIM down and waits for its end before it hands down anything else, so what waits for a
/// TRIM waits there, and the drive's own `stall_trim_ns` knows nothing of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostWait {
    /// In all, summed over requests.
    pub all_ns: u64,
    /// Of it, in seconds in which a TRIM was served, or the one before.
    pub beside_trims_ns: u64,
}

/// Everything a server knows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Who serves what, since when.
    #[serde(flatten)]
    pub record: Record,
    /// The relation of model time to real time.
    pub speed: String,
    /// Real time since it was attached, in seconds.
    pub uptime_s: f64,
    /// Model time of the drive, in nanoseconds.
    pub model_time_ns: u64,
    /// Answers that wait for their time.
    pub waiting: usize,
    /// Requests since it was attached.
    pub requests: ByKind,
    /// How long reads and writes waited before the drive had them; `None` without a block device or pacing.
    #[serde(default)]
    pub host_wait: Option<HostWait>,
    /// The discard ledger since it was attached.
    pub discards: Sums,
    /// Bytes discarded over bytes freed; `None` as long as nothing was freed.
    pub discard_amplification: Option<f64>,
    /// Bytes that hold data by the ledger.
    pub mapped_bytes: u64,
    /// Bytes of memory or of the data file that the data take.
    pub stored_bytes: u64,
    /// NAND (or other medium) bytes written over host bytes written since the drive was new; `None` before the first write.
    pub waf: Option<f64>,
    /// Counters of the model over the drive's whole life.
    pub model: BTreeMap<String, u64>,
    /// Faults in force, in words.
    pub faults: Vec<String>,
    /// The last seconds, the latest last.
    pub seconds: Vec<Second>,
}
