//! Commands from the main thread to the filesystem threads, which interrupt their sleep.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};
use trimtab_drive::units::Nanos;

use trimtab_linux::sys::clock::unix_now;

/// Longest sleep without a wakeup: the clock may be set, and the power supply may change.
const SLEEP_MAX: Duration = Duration::from_secs(300);

#[derive(Debug, Default)]
struct Flags {
    stop: bool,
    forced: bool,
}

/// Control of one filesystem's thread.
#[derive(Debug, Default)]
pub struct Control {
    flags: Mutex<Flags>,
    wake: Condvar,
}

impl Control {
    /// Ends the thread after its present request.
    pub fn stop(&self) {
        self.flags.lock().unwrap_or_else(PoisonError::into_inner).stop = true;
        self.wake.notify_all();
    }

    /// Requests a trim now.
    pub fn force(&self) {
        self.flags.lock().unwrap_or_else(PoisonError::into_inner).forced = true;
        self.wake.notify_all();
    }

    /// True once the thread must end.
    #[must_use]
    pub fn stopped(&self) -> bool {
        self.flags.lock().unwrap_or_else(PoisonError::into_inner).stop
    }

    /// True if a trim was requested since the last call.
    #[must_use]
    pub fn take_forced(&self) -> bool {
        std::mem::take(&mut self.flags.lock().unwrap_or_else(PoisonError::into_inner).forced)
    }

    /// Sleeps until `instant` (nanoseconds since 1970), or until a command arrives.
    pub fn sleep_until(&self, instant: Nanos) {
        self.sleep(Duration::from_nanos(instant.saturating_sub(unix_now()).0));
    }

    /// Sleeps for `duration`, or until a command arrives.
    pub fn sleep(&self, duration: Duration) {
        let until = Instant::now() + duration.min(SLEEP_MAX);
        let mut flags = self.flags.lock().unwrap_or_else(PoisonError::into_inner);
        while !flags.stop && !flags.forced {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            flags = self.wake.wait_timeout(flags, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}
