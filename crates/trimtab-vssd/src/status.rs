//! The status of a server: the document of `trimtab drive status --json` and its figures.

use crate::runtime::ServerRecord;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use trimtab_drive::histogram::Histogram;
use trimtab_drive::ledger::Sums;

/// Latencies in model time, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latencies {
    /// Mean.
    pub mean_ns: f64,
    /// Median.
    pub p50_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// 99.9th percentile.
    pub p999_ns: u64,
    /// Maximum.
    pub max_ns: u64,
}

impl Latencies {
    /// Summarises a histogram.
    pub fn of(histogram: &Histogram) -> Self {
        let at = |percent| histogram.percentile(percent).0;
        Self {
            mean_ns: histogram.mean_ns(),
            p50_ns: at(50.0),
            p99_ns: at(99.0),
            p999_ns: at(99.9),
            max_ns: histogram.max().0,
        }
    }
}

/// Requests of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RequestFigures {
    /// Number of requests served.
    pub count: u64,
    /// Bytes of the successful ones.
    pub bytes: u64,
    /// Number of failed ones.
    pub failed: u64,
    /// Latency in the drive.
    pub latency: Latencies,
}

/// Requests by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RequestsByKind {
    /// Reads.
    pub read: RequestFigures,
    /// Writes.
    pub write: RequestFigures,
    /// TRIM commands.
    pub trim: RequestFigures,
    /// Flushes.
    pub flush: RequestFigures,
}

impl RequestsByKind {
    /// Each kind with its name.
    pub fn named(&self) -> [(&'static str, &RequestFigures); 4] {
        [("read", &self.read), ("write", &self.write), ("trim", &self.trim), ("flush", &self.flush)]
    }
}

/// The complete status of a server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// The drive and its server.
    #[serde(flatten)]
    pub record: ServerRecord,
    /// The speed of model time.
    pub speed: String,
    /// Real time since it was attached, in seconds.
    pub uptime_s: f64,
    /// Model time of the drive, in nanoseconds.
    pub model_time_ns: u64,
    /// Number of delayed completions.
    pub waiting: usize,
    /// Requests since it was attached.
    pub requests: RequestsByKind,
    /// The discard ledger since it was attached.
    pub discards: Sums,
    /// Bytes discarded per byte freed; `None` until something is freed.
    pub discard_amplification: Option<f64>,
    /// Bytes that hold data by the ledger.
    pub mapped_bytes: u64,
    /// Memory or data file space that the data occupy, in bytes.
    pub stored_bytes: u64,
    /// NAND (or medium) bytes written per host byte since new; `None` before the first
    /// write.
    pub waf: Option<f64>,
    /// Counters of the model over the drive's whole life.
    pub model: BTreeMap<String, u64>,
    /// Descriptions of the active faults.
    pub faults: Vec<String>,
    /// Requests of the last second of real time.
    pub last_second: RequestsByKind,
}
