//! The kernel's clocks.

use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use trimtab_drive::units::Nanos;

/// Milliseconds since 1970 UTC; 0 if the clock is set earlier.
pub fn unix_ms() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX))
}

/// Nanoseconds since 1970 UTC; 0 if the clock is set earlier. Policies whose state
/// survives a restart use this clock.
pub fn unix_now() -> Nanos {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(Nanos(0), nanos)
}

/// Converts a time.
pub fn nanos(duration: Duration) -> Nanos {
    Nanos(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}

/// Reads one of the kernel's clocks. Async-signal-safe.
pub fn read(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}
