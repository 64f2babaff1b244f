//! The time of day.

use std::time::{SystemTime, UNIX_EPOCH};

/// Now, in milliseconds since 1970 UTC; 0 on a clock set before that.
pub fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX))
}
