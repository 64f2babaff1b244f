//! Wall-clock time.

use std::time::{SystemTime, UNIX_EPOCH};
use trimtab_drive::units::Nanos;

/// Milliseconds since 1970 UTC; 0 if the clock is set earlier.
pub fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX))
}

/// Nanoseconds since 1970 UTC; 0 if the clock is set earlier. Policies whose state survives a
/// restart use this clock.
pub fn unix_now() -> Nanos {
    Nanos(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)))
}
