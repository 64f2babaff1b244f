//! Selects moments for a command with few expected collisions compared to the recent best.

use trimtab_drive::units::Nanos;

/// Good moments have at most this multiple of the best collisions, or negligible ones.
const GOOD: f64 = 4.0;
const GOOD_ANYWAY: f64 = 0.01;
/// The best value doubles in this time.
const BEST_FADES: Nanos = Nanos::from_secs(1);
/// Before a moment can be the best, this many requests were seen, or this long passed.
const SEEN_MIN: u32 = 4;
const SEES_WITHIN: Nanos = Nanos::from_millis(100);

/// Best recent moment.
#[derive(Clone, Debug)]
pub(super) struct MomentSelector {
    best: f64,
    looked: Nanos,
    /// Time of the first call, and the request count then.
    since: Option<(Nanos, u32)>,
}

impl MomentSelector {
    pub(super) const fn new() -> Self {
        Self { best: 1.0, looked: Nanos::ZERO, since: None }
    }

    pub(super) const fn best(&self) -> f64 {
        self.best
    }

    /// True if now is good for a command with `meets` expected collisions.
    pub(super) fn is_good(&mut self, now: Nanos, meets: f64, seen: u32) -> bool {
        let elapsed = now.saturating_sub(self.looked).as_f64();
        self.looked = now;
        let (since, seen_then) = *self.since.get_or_insert((now, seen));
        self.best = (self.best * libm::exp2(elapsed / BEST_FADES.as_f64())).min(meets);
        let knows = seen >= seen_then.saturating_add(SEEN_MIN) || now.saturating_sub(since) >= SEES_WITHIN;
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
        let mut good = |ms, meets, seen| moments.is_good(Nanos(ms * MS), meets, seen);
        assert!(!good(0, 0.2, 0), "no comparison yet");
        assert!(!good(1, 0.02, 3));
        assert!(good(2, 0.05, 4), "four requests were seen, and 0.02 was the best");
        assert!(!good(2, 0.1, 5) && good(2, 0.01, 5), "negligible collisions are always good");
        // The best of 0.01 is 0.02 a second later and 0.04 after two.
        assert!(!good(1002, 0.09, 5) && good(2002, 0.15, 5));
        let mut moments = MomentSelector::new();
        let rare = [0, 99, 100].map(|ms| moments.is_good(Nanos(ms * MS), 0.2, 0));
        assert_eq!(rare, [false, false, true], "or for a tenth of a second");
    }
}
