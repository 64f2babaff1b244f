//! Selects moments for a command with few expected collisions compared to the recent
//! best.

use trimtab_drive::units::Nanos;

/// Good moments have at most this multiple of the best collisions, or negligible ones.
const GOOD: f64 = 4.0;
const GOOD_ANYWAY: f64 = 0.01;
/// The best value doubles in this time.
const BEST_FADES: Nanos = Nanos::from_secs(1);
/// The best moment is specific to the duration of a command. Beyond this factor it is
/// measured again, for this many requests or this long.
const ANOTHER: f64 = 2.0;
const SEEN_MIN: u32 = 4;
const SEES_WITHIN: Nanos = Nanos::from_millis(100);

/// Best recent moment, and the command it applies to.
#[derive(Clone, Debug)]
pub(super) struct MomentSelector {
    best: f64,
    looked: Nanos,
    took_ns: f64,
    /// Start of the present command duration, and the request count then.
    since: Option<(Nanos, u32)>,
}

impl MomentSelector {
    pub(super) const fn new() -> Self {
        Self { best: 1.0, looked: Nanos::ZERO, took_ns: 0.0, since: None }
    }

    pub(super) const fn best(&self) -> f64 {
        self.best
    }

    /// True if now is good for a command of `took_ns` with `meets` expected collisions.
    pub(super) fn is_good(&mut self, now: Nanos, took_ns: f64, meets: f64, seen: u32) -> bool {
        let elapsed = now.saturating_sub(self.looked).as_f64();
        self.looked = now;
        let times = took_ns / self.took_ns.max(1.0);
        if self.since.is_none() || !(1.0 / ANOTHER..=ANOTHER).contains(&times) {
            (self.best, self.took_ns, self.since) = (meets, took_ns, Some((now, seen)));
        }
        self.best = (self.best * libm::exp2(elapsed / BEST_FADES.as_f64())).min(meets);
        let (since, seen_then) = self.since.unwrap_or((now, seen));
        let knows =
            seen >= seen_then.saturating_add(SEEN_MIN) || now.saturating_sub(since) >= SEES_WITHIN;
        (knows && meets <= self.best * GOOD) || meets <= GOOD_ANYWAY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn moment_is_good_relative_to_recent_best() {
        let mut moments = MomentSelector::new();
        let mut good = |ms, took_ms: f64, meets, seen| {
            moments.is_good(Nanos(ms * MS), took_ms * 1e6, meets, seen)
        };
        assert!(!good(0, 1.0, 0.2, 0), "no comparison yet");
        assert!(!good(1, 1.0, 0.02, 3));
        assert!(good(2, 1.0, 0.05, 4), "four requests were seen, and 0.02 was the best");
        assert!(!good(2, 1.0, 0.1, 5) && good(2, 1.0, 0.01, 5));
        // The best of 0.01 is 0.02 a second later and 0.04 after two.
        assert!(!good(1002, 1.0, 0.09, 5) && good(2002, 1.0, 0.15, 5));
        // Commands of three times the duration have their own best.
        assert!(
            !good(2003, 3.0, 0.15, 9) && good(2003, 3.0, 0.01, 9),
            "negligible collisions are always good"
        );
        assert!(
            !good(2102, 3.0, 0.02, 9) && good(2103, 3.0, 0.02, 9),
            "or for a tenth of a second"
        );
    }
}
