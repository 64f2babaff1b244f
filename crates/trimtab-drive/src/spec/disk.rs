//! Specification of a hard disk.

use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// Specification of a hard disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Disk {
    /// Revolutions per minute.
    pub rpm: u32,
    /// Track-to-track seek time in nanoseconds.
    pub seek_track_ns: u64,
    /// Average seek time (over a third of the stroke) in nanoseconds.
    pub seek_average_ns: u64,
    /// Full-stroke seek time in nanoseconds.
    pub seek_full_ns: u64,
    /// Recording zones from the outermost in; their shares sum to 1000.
    pub zones: Vec<Zone>,
    /// Buffer size in bytes, for writes and read-ahead.
    pub cache_bytes: u64,
    /// True if a write completes when it reaches the buffer.
    pub write_cache: bool,
    /// Read-ahead in bytes after each read.
    pub read_ahead_bytes: u64,
    /// Buffered writes from which the disk picks the one reached first; 1 is elevator
    /// order.
    pub position_candidates: u32,
}

/// A recording zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Zone {
    /// Share of the capacity, in per mille.
    pub share_permille: u16,
    /// Media transfer rate in bytes per second.
    pub rate_bytes_per_s: u64,
}

impl Default for Disk {
    /// A 2.5-inch disk at 7200 rpm.
    fn default() -> Self {
        Self {
            rpm: 7200,
            seek_track_ns: 1_000_000,
            seek_average_ns: 11_000_000,
            seek_full_ns: 20_000_000,
            zones: alloc::vec![
                Zone { share_permille: 400, rate_bytes_per_s: 105_000_000 },
                Zone { share_permille: 350, rate_bytes_per_s: 85_000_000 },
                Zone { share_permille: 250, rate_bytes_per_s: 60_000_000 },
            ],
            cache_bytes: 16 << 20,
            write_cache: true,
            read_ahead_bytes: 1 << 20,
            position_candidates: 8,
        }
    }
}
