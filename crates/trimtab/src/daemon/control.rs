//! What the main thread tells the threads of the filesystems, and how these sleep.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};
use trimtab_drive::units::Nanos;

use trimtab_linux::sys::clock::unix_now;

/// Nobody sleeps longer at a stretch: the clock may be set, the power supply may change.
const SLEEP_MAX: Duration = Duration::from_secs(300);

#[derive(Debug, Default)]
struct Flags {
    stop: bool,
    forced: bool,
}

/// One filesystem's control.
#[derive(Debug, Default)]
pub struct Control {
    flags: Mutex<Flags>,
    wake: Condvar,
}

impl Control {
    /// Ends the thread as soon as its present request is done.
    pub fn stop(&self) {
        self.flags.lock().unwrap_or_else(PoisonError::into_inner).stop = true;
        self.wake.notify_all();
    }

    /// Asks for a trim now.
    pub fn force(&self) {
        self.flags.lock().unwrap_or_else(PoisonError::into_inner).forced = true;
        self.wake.notify_all();
    }

    /// Whether the thread has to end.
    #[must_use]
    pub fn stopped(&self) -> bool {
        self.flags.lock().unwrap_or_else(PoisonError::into_inner).stop
    }

    /// Whether a trim was asked for since the last call.
    #[must_use]
    pub fn take_forced(&self) -> bool {
        std::mem::take(&mut self.flags.lock().unwrap_or_else(PoisonError::into_inner).forced)
    }

    /// Sleeps until `instant` (nanoseconds since 1970), or until something is told.
    pub fn sleep_until(&self, instant: Nanos) {
        self.sleep(Duration::from_nanos(instant.saturating_sub(unix_now()).0));
    }

    /// Sleeps, or until something is told.
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
