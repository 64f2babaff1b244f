//! State that the main thread shares with the thread of a filesystem: commands, which
//! interrupt its sleep, and its figures.

use super::metrics::Figures;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use trimtab_drive::units::Nanos;
use trimtab_linux::sys::clock::unix_now;

/// Longest sleep without a wakeup: the clock may be set, and the power supply may change.
const SLEEP_MAX: Duration = Duration::from_secs(300);

#[derive(Debug, Default)]
struct Flags {
    stop: bool,
    forced: bool,
    gone: bool,
}

/// Control of one filesystem's thread.
#[derive(Debug, Default)]
pub struct Control {
    flags: Mutex<Flags>,
    wake: Condvar,
    figures: Mutex<Figures>,
}

impl Control {
    fn flags(&self) -> MutexGuard<'_, Flags> {
        self.flags.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The filesystem's figures.
    pub fn figures(&self) -> MutexGuard<'_, Figures> {
        self.figures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that the thread ends because the filesystem is gone, so that the daemon
    /// starts it again when it returns.
    pub fn set_gone(&self, gone: bool) {
        self.flags().gone = gone;
    }

    /// True if the thread ended because the filesystem is gone.
    pub fn is_gone(&self) -> bool {
        self.flags().gone
    }

    /// Ends the thread after its present request.
    pub fn stop(&self) {
        self.flags().stop = true;
        self.wake.notify_all();
    }

    /// Requests a trim now.
    pub fn force(&self) {
        self.flags().forced = true;
        self.wake.notify_all();
    }

    /// True once the thread must end.
    pub fn stopped(&self) -> bool {
        self.flags().stop
    }

    /// True if a trim was requested since the last call.
    pub fn take_forced(&self) -> bool {
        std::mem::take(&mut self.flags().forced)
    }

    /// Sleeps until `instant` (nanoseconds since 1970), or until a command arrives.
    pub fn sleep_until(&self, instant: Nanos) {
        self.sleep(Duration::from_nanos(instant.saturating_sub(unix_now()).0));
    }

    /// Sleeps for `duration`, or until a command arrives.
    pub fn sleep(&self, duration: Duration) {
        let until = Instant::now() + duration.min(SLEEP_MAX);
        let mut flags = self.flags();
        while !flags.stop && !flags.forced {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            flags = self.wake.wait_timeout(flags, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}
