//! When a piece of an idle trim may be sent: whether the device is quiet. What pieces cost is another question (`cost`).

use super::IdleSettings;
use crate::policy::Observation;
use crate::units::Nanos;

/// How much longer than the required quiet to wait for it before less will do.
const QUIET_TRIES: u64 = 4;
/// The least quiet that is waited for; below it only that nothing is in flight counts.
const QUIET_LEAST: Nanos = Nanos::from_micros(500);

/// After what cost more than the budget the device is left alone for this many times as long: seven eighths of the time are then for others.
const REST: u64 = 7;

/// How quiet the device has to be, and is.
#[derive(Clone, Debug)]
pub(super) struct Quiet {
    /// Until when the device is left alone after the last request.
    rest_until: Nanos,
    /// Idle time that is required now.
    quiet: Nanos,
    /// The longest idle time seen since the present quiet has been asked for.
    idle_max: Nanos,
    /// Since when a piece has been waiting to be sent, and since when the present quiet has been asked for.
    waiting: Option<(Nanos, Nanos)>,
}

impl Quiet {
    pub(super) const fn new(settings: &IdleSettings) -> Self {
        Self { rest_until: Nanos::ZERO, quiet: settings.quiet, idle_max: Nanos::ZERO, waiting: None }
    }

    /// A pass is over: the next one may meet another load.
    pub(super) const fn forget(&mut self, settings: &IdleSettings) {
        self.waiting = None;
        self.quiet = settings.quiet;
    }

    /// A piece is sent.
    pub(super) const fn sent(&mut self, now: Nanos) {
        self.waiting = Some((now, now));
        self.idle_max = Nanos::ZERO;
    }

    /// Leaves the device alone after a request that `took` long and made others wait, but no longer than patience lasts.
    pub(super) fn rest(&mut self, settings: &IdleSettings, now: Nanos, took: Nanos) {
        self.rest_until = now.saturating_add(Nanos(took.0.saturating_mul(REST)).min(settings.patience));
    }

    /// Until when a piece has to wait, if it has to.
    pub(super) fn must_wait(&mut self, settings: &IdleSettings, observation: &Observation<'_>) -> Option<Nanos> {
        let now = observation.now;
        if now < self.rest_until {
            return Some(self.rest_until);
        }
        let idle = match observation.idle_since {
            Some(since) if observation.in_flight == 0 => Some(now.saturating_sub(since)),
            _ => None,
        };
        if idle.is_some_and(|idle| idle >= self.quiet) {
            let asked = self.quiet.max(QUIET_LEAST);
            if idle.is_some_and(|idle| idle.0 >= asked.0.saturating_mul(4)) {
                self.quiet = Nanos(asked.0.saturating_mul(2)).min(settings.quiet);
            }
            return None;
        }
        self.idle_max = self.idle_max.max(idle.unwrap_or_default());
        let (waiting_since, quiet_since) = self.waiting.get_or_insert((now, now));
        if now.saturating_sub(*waiting_since) >= settings.patience {
            return None;
        }
        if now.saturating_sub(*quiet_since).0 >= self.quiet.0.saturating_mul(QUIET_TRIES) {
            // Gaps of that length come and go; half of one is quiet enough.
            let seen = Nanos(self.idle_max.0 / 2).max(QUIET_LEAST);
            self.quiet = if self.quiet > QUIET_LEAST { Nanos(self.quiet.0 / 2).min(seen) } else { Nanos::ZERO };
            self.idle_max = Nanos::ZERO;
            *quiet_since = now;
        }
        let wait = self.quiet.saturating_sub(idle.unwrap_or_default()).max(QUIET_LEAST);
        Some(now.saturating_add(wait).min(waiting_since.saturating_add(settings.patience)))
    }
}
