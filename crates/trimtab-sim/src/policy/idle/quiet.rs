//! Timing of idle trim pieces by how quiet the device is; `cost` has their cost.

use super::IdleSettings;
use crate::policy::Observation;
use trimtab_drive::units::Nanos;

/// Initial idle time before a piece; shortened if the device is never idle.
const QUIET: Nanos = Nanos::from_millis(100);
/// Wait this many times the required quiet before lowering it.
const QUIET_TRIES: u64 = 4;
/// Minimum required quiet; below it, nothing in flight is enough.
const QUIET_LEAST: Nanos = Nanos::from_micros(500);

/// Rest after a request over budget, in multiples of its duration.
const REST: u64 = 7;

/// Required and observed quiet of the device.
#[derive(Clone, Debug)]
pub(super) struct QuietTracker {
    /// End of the rest after the last request.
    rest_until: Nanos,
    /// Currently required idle time.
    quiet: Nanos,
    /// Longest idle time seen since the requirement was set.
    idle_max: Nanos,
    /// Start of the wait for a piece, and of the present requirement.
    waiting: Option<(Nanos, Nanos)>,
}

impl QuietTracker {
    pub(super) const fn new() -> Self {
        Self { rest_until: Nanos::ZERO, quiet: QUIET, idle_max: Nanos::ZERO, waiting: None }
    }

    /// Resets after a pass, because the load may change.
    pub(super) const fn forget(&mut self) {
        self.waiting = None;
        self.quiet = QUIET;
    }

    pub(super) const fn sent(&mut self, now: Nanos) {
        self.waiting = Some((now, now));
        self.idle_max = Nanos::ZERO;
    }

    /// Rests after a request that took `took` and delayed others, at most for the
    /// patience.
    pub(super) fn rest(&mut self, settings: &IdleSettings, now: Nanos, took: Nanos) {
        self.rest_until =
            now.saturating_add(Nanos(took.0.saturating_mul(REST)).min(settings.patience));
    }

    /// Time until which a piece must wait, if at all.
    pub(super) fn must_wait(
        &mut self,
        settings: &IdleSettings,
        observation: &Observation<'_>,
    ) -> Option<Nanos> {
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
                self.quiet = Nanos(asked.0.saturating_mul(2)).min(QUIET);
            }
            return None;
        }
        self.idle_max = self.idle_max.max(idle.unwrap_or_default());
        let (waiting_since, quiet_since) = self.waiting.get_or_insert((now, now));
        if now.saturating_sub(*waiting_since) >= settings.patience {
            return None;
        }
        if now.saturating_sub(*quiet_since).0 >= self.quiet.0.saturating_mul(QUIET_TRIES) {
            // Half of the longest gap is quiet enough.
            let seen = Nanos(self.idle_max.0 / 2).max(QUIET_LEAST);
            self.quiet = if self.quiet > QUIET_LEAST {
                Nanos(self.quiet.0 / 2).min(seen)
            } else {
                Nanos::ZERO
            };
            self.idle_max = Nanos::ZERO;
            *quiet_since = now;
        }
        let wait = self.quiet.saturating_sub(idle.unwrap_or_default()).max(QUIET_LEAST);
        Some(now.saturating_add(wait).min(waiting_since.saturating_add(settings.patience)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const START: u64 = 1000 * MS;

    /// At `now`, with the device idle for `idle` or not at all.
    fn at(now: u64, idle: Option<u64>) -> Observation<'static> {
        Observation {
            idle_since: idle.map(|idle| Nanos(now - idle)),
            ..Observation::of(Nanos(now), &[])
        }
    }

    /// A patience of one minute.
    fn settings() -> IdleSettings {
        IdleSettings { patience: Nanos(60_000 * MS), ..IdleSettings::default() }
    }

    fn wait(quiet: &mut QuietTracker, now: u64, idle: Option<u64>) -> Option<u64> {
        quiet.must_wait(&settings(), &at(now, idle)).map(|until| until.0 - now)
    }

    #[test]
    fn quiet_waits_for_the_remaining_idle_time() {
        let mut quiet = QuietTracker::new();
        assert_eq!(wait(&mut quiet, START, Some(40 * MS)), Some(60 * MS));
        assert_eq!(wait(&mut quiet, START, None), Some(100 * MS));
        assert_eq!(
            wait(&mut quiet, START, Some(100 * MS - 1)),
            Some(500_000),
            "never less than half a millisecond"
        );
        assert_eq!(wait(&mut quiet, START, Some(100 * MS)), None);
        let busy = Observation { in_flight: 1, ..at(START, Some(900 * MS)) };
        assert_eq!(quiet.must_wait(&settings(), &busy), Some(Nanos(START + 100 * MS)));
    }

    #[test]
    fn quiet_rests_seven_request_times_up_to_patience() {
        let mut quiet = QuietTracker::new();
        quiet.rest(&settings(), Nanos(START), Nanos(10 * MS));
        assert_eq!(wait(&mut quiet, START, Some(900 * MS)), Some(70 * MS));
        assert_eq!(wait(&mut quiet, START + 70 * MS - 1, Some(900 * MS)), Some(1));
        assert_eq!(wait(&mut quiet, START + 70 * MS, Some(900 * MS)), None);
        quiet.rest(&settings(), Nanos(START), Nanos(10_000 * MS));
        assert_eq!(wait(&mut quiet, START, Some(900 * MS)), Some(60_000 * MS));
    }

    #[test]
    fn quiet_is_lowered_after_four_times_without_any() {
        // Gaps of 60 ms were seen: half of that. The next period sees none.
        let mut quiet = QuietTracker::new();
        assert_eq!(wait(&mut quiet, START, Some(60 * MS)), Some(40 * MS));
        assert_eq!(wait(&mut quiet, START + 400 * MS - 1, None), Some(100 * MS));
        assert_eq!(wait(&mut quiet, START + 400 * MS, None), Some(30 * MS));
        assert_eq!(wait(&mut quiet, START + 520 * MS - 1, None), Some(30 * MS));
        assert_eq!(wait(&mut quiet, START + 520 * MS, None), Some(500_000));
        // Below half a millisecond, nothing in flight is quiet enough.
        assert_eq!(wait(&mut quiet, START + 522 * MS, None), Some(500_000));
        assert_eq!(wait(&mut quiet, START + 522 * MS, Some(0)), None);
        // Gaps of 99 ms: half of one is less than half of the requirement.
        let mut quiet = QuietTracker::new();
        wait(&mut quiet, START, Some(99 * MS));
        assert_eq!(wait(&mut quiet, START + 400 * MS, None), Some(49 * MS + MS / 2));
        // A piece restarts the wait and forgets the gaps.
        let mut quiet = QuietTracker::new();
        wait(&mut quiet, START, Some(60 * MS));
        quiet.sent(Nanos(START + 300 * MS));
        assert_eq!(wait(&mut quiet, START + 400 * MS, None), Some(100 * MS));
        assert_eq!(wait(&mut quiet, START + 700 * MS, None), Some(500_000));
    }

    #[test]
    fn quiet_requests_more_at_four_times_the_space() {
        let mut quiet = QuietTracker::new();
        wait(&mut quiet, START, Some(60 * MS));
        assert_eq!(wait(&mut quiet, START + 400 * MS, None), Some(30 * MS));
        assert_eq!(wait(&mut quiet, START + 401 * MS, Some(120 * MS - 1)), None);
        assert_eq!(wait(&mut quiet, START + 402 * MS, None), Some(30 * MS));
        assert_eq!(wait(&mut quiet, START + 403 * MS, Some(120 * MS)), None);
        assert_eq!(wait(&mut quiet, START + 404 * MS, None), Some(60 * MS));
        assert_eq!(wait(&mut quiet, START + 405 * MS, Some(900 * MS)), None);
        assert_eq!(
            wait(&mut quiet, START + 406 * MS, None),
            Some(100 * MS),
            "never above the initial requirement"
        );
        wait(&mut quiet, START + 800 * MS, None);
        quiet.forget();
        assert_eq!(wait(&mut quiet, START + 801 * MS, None), Some(100 * MS));
        assert_eq!(
            wait(&mut quiet, START + 1_200 * MS, None),
            Some(100 * MS),
            "counted from the first observation of the next pass"
        );
    }

    #[test]
    fn quiet_wait_ends_with_patience() {
        let mut quiet = QuietTracker::new();
        let settings = IdleSettings { patience: Nanos(130 * MS), ..settings() };
        let mut wait =
            |now: u64| quiet.must_wait(&settings, &at(now, None)).map(|until| until.0 - now);
        assert_eq!(wait(START), Some(100 * MS));
        assert_eq!(wait(START + 100 * MS), Some(30 * MS), "no longer than patience lasts");
        assert_eq!([wait(START + 130 * MS - 1), wait(START + 130 * MS)], [Some(1), None]);
    }
}
