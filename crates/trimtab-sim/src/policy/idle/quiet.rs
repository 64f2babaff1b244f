//! When a piece of an idle trim may be sent: whether the device is quiet. What pieces cost is another question (`cost`).

use super::IdleSettings;
use crate::policy::Observation;
use trimtab_drive::units::Nanos;

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

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const START: u64 = 1000 * MS;

    /// At `now`, with the device idle for `idle` or not at all.
    fn at(now: u64, idle: Option<u64>) -> Observation<'static> {
        Observation { idle_since: idle.map(|idle| Nanos(now - idle)), ..Observation::of(Nanos(now), &[]) }
    }

    /// Asks for 100 ms of quiet, and has patience for a minute.
    fn settings() -> IdleSettings {
        IdleSettings { quiet: Nanos(100 * MS), patience: Nanos(60_000 * MS), ..IdleSettings::default() }
    }

    fn wait(quiet: &mut Quiet, now: u64, idle: Option<u64>) -> Option<u64> {
        quiet.must_wait(&settings(), &at(now, idle)).map(|until| until.0 - now)
    }

    #[test]
    fn it_waits_for_what_is_left_of_the_quiet() {
        let mut quiet = Quiet::new(&settings());
        assert_eq!(wait(&mut quiet, START, Some(40 * MS)), Some(60 * MS));
        assert_eq!(wait(&mut quiet, START, None), Some(100 * MS));
        assert_eq!(wait(&mut quiet, START, Some(100 * MS - 1)), Some(500_000), "never less than half a millisecond");
        assert_eq!(wait(&mut quiet, START, Some(100 * MS)), None);
        let busy = Observation { in_flight: 1, ..at(START, Some(900 * MS)) };
        assert_eq!(quiet.must_wait(&settings(), &busy), Some(Nanos(START + 100 * MS)));
    }

    #[test]
    fn quiet_rests_seven_request_times_up_to_patience() {
        let mut quiet = Quiet::new(&settings());
        quiet.rest(&settings(), Nanos(START), Nanos(10 * MS));
        assert_eq!(wait(&mut quiet, START, Some(900 * MS)), Some(70 * MS));
        assert_eq!(wait(&mut quiet, START + 70 * MS - 1, Some(900 * MS)), Some(1));
        assert_eq!(wait(&mut quiet, START + 70 * MS, Some(900 * MS)), None);
        quiet.rest(&settings(), Nanos(START), Nanos(10_000 * MS));
        assert_eq!(wait(&mut quiet, START, Some(900 * MS)), Some(60_000 * MS));
    }

    #[test]
    fn less_quiet_will_do_where_four_times_as_long_there_was_none() {
        // Gaps of 60 ms were seen: half of one. The next asks for as much again, and sees none.
        let mut quiet = Quiet::new(&settings());
        assert_eq!(wait(&mut quiet, START, Some(60 * MS)), Some(40 * MS));
        assert_eq!(wait(&mut quiet, START + 400 * MS - 1, None), Some(100 * MS));
        assert_eq!(wait(&mut quiet, START + 400 * MS, None), Some(30 * MS));
        assert_eq!(wait(&mut quiet, START + 520 * MS - 1, None), Some(30 * MS));
        assert_eq!(wait(&mut quiet, START + 520 * MS, None), Some(500_000));
        // Below half a millisecond nothing in flight is quiet enough.
        assert_eq!(wait(&mut quiet, START + 522 * MS, None), Some(500_000));
        assert_eq!(wait(&mut quiet, START + 522 * MS, Some(0)), None);
        // Gaps of 99 ms: half of one is less than half of what was asked.
        let mut quiet = Quiet::new(&settings());
        wait(&mut quiet, START, Some(99 * MS));
        assert_eq!(wait(&mut quiet, START + 400 * MS, None), Some(49 * MS + MS / 2));
        // What is sent restarts the count, and forgets the gaps.
        let mut quiet = Quiet::new(&settings());
        wait(&mut quiet, START, Some(60 * MS));
        quiet.sent(Nanos(START + 300 * MS));
        assert_eq!(wait(&mut quiet, START + 400 * MS, None), Some(100 * MS));
        assert_eq!(wait(&mut quiet, START + 700 * MS, None), Some(500_000));
    }

    #[test]
    fn quiet_requests_more_at_four_times_the_space() {
        let mut quiet = Quiet::new(&settings());
        wait(&mut quiet, START, Some(60 * MS));
        assert_eq!(wait(&mut quiet, START + 400 * MS, None), Some(30 * MS));
        assert_eq!(wait(&mut quiet, START + 401 * MS, Some(120 * MS - 1)), None);
        assert_eq!(wait(&mut quiet, START + 402 * MS, None), Some(30 * MS));
        assert_eq!(wait(&mut quiet, START + 403 * MS, Some(120 * MS)), None);
        assert_eq!(wait(&mut quiet, START + 404 * MS, None), Some(60 * MS));
        assert_eq!(wait(&mut quiet, START + 405 * MS, Some(900 * MS)), None);
        assert_eq!(wait(&mut quiet, START + 406 * MS, None), Some(100 * MS), "no more than was asked first");
        wait(&mut quiet, START + 800 * MS, None);
        quiet.forget(&settings());
        assert_eq!(wait(&mut quiet, START + 801 * MS, None), Some(100 * MS));
        assert_eq!(wait(&mut quiet, START + 1_200 * MS, None), Some(100 * MS), "counted from the first look of the next pass");
    }

    #[test]
    fn patience_ends() {
        let mut quiet = Quiet::new(&IdleSettings { quiet: Nanos(50_000 * MS), ..settings() });
        let wait = |quiet: &mut Quiet, now: u64| quiet.must_wait(&settings(), &at(now, None)).map(|until| until.0 - now);
        assert_eq!(wait(&mut quiet, START), Some(50_000 * MS));
        assert_eq!(wait(&mut quiet, START + 50_000 * MS), Some(10_000 * MS), "no longer than patience lasts");
        assert_eq!([wait(&mut quiet, START + 60_000 * MS - 1), wait(&mut quiet, START + 60_000 * MS)], [Some(1), None]);
    }
}
