//! Which moments are good ones for a command: those in which it meets hardly more than in the best one lately.

use trimtab_drive::units::Nanos;

/// A moment is a good one if a command is expected to meet no more than so many times what it was in the best one lately, or so little that it does not matter.
const GOOD: f64 = 4.0;
const GOOD_ANYWAY: f64 = 0.01;
/// In this time the best is twice as long ago.
const BEST_FADES: Nanos = Nanos::from_secs(1);
/// Of commands that take so many times longer or shorter the best moment is another one, which has to be seen first: for so many requests, but no longer than this.
const ANOTHER: f64 = 2.0;
const SEEN_MIN: u32 = 4;
const SEES_WITHIN: Nanos = Nanos::from_millis(100);

/// The best moment lately, and for which commands.
#[derive(Clone, Debug)]
pub(super) struct Moments {
    /// What a command was expected to meet in it.
    best: f64,
    looked: Nanos,
    took_ns: f64,
    /// Since when commands have taken as long, and how many requests had been seen then.
    since: Option<(Nanos, u32)>,
}

impl Moments {
    pub(super) const fn new() -> Self {
        Self { best: 1.0, looked: Nanos::ZERO, took_ns: 0.0, since: None }
    }

    /// What a command was expected to meet in the best one.
    pub(super) const fn best(&self) -> f64 {
        self.best
    }

    /// Whether now is a good one for a command that takes `took_ns` and is expected to meet `meets`, after `seen` requests.
    pub(super) fn is_good(&mut self, now: Nanos, took_ns: f64, meets: f64, seen: u32) -> bool {
        let elapsed = now.saturating_sub(self.looked).as_f64();
        self.looked = now;
        let times = took_ns / self.took_ns.max(1.0);
        if self.since.is_none() || !(1.0 / ANOTHER..=ANOTHER).contains(&times) {
            (self.best, self.took_ns, self.since) = (meets, took_ns, Some((now, seen)));
        }
        self.best = (self.best * libm::exp2(elapsed / BEST_FADES.as_f64())).min(meets);
        let (since, seen_then) = self.since.unwrap_or((now, seen));
        let knows = seen >= seen_then.saturating_add(SEEN_MIN) || now.saturating_sub(since) >= SEES_WITHIN;
        (knows && meets <= self.best * GOOD) || meets <= GOOD_ANYWAY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_moment_is_good_beside_the_best_one_lately() {
        let mut moments = Moments::new();
        let mut good = |ms, took_ms: f64, meets, seen| moments.is_good(Nanos(ms * MS), took_ms * 1e6, meets, seen);
        assert!(!good(0, 1.0, 0.2, 0), "nothing else was seen");
        assert!(!good(1, 1.0, 0.02, 3));
        assert!(good(2, 1.0, 0.05, 4), "four requests were seen, and 0.02 was the best");
        assert!(!good(2, 1.0, 0.1, 5) && good(2, 1.0, 0.01, 5));
        // Of 0.01 it is 0.02 a second later, and 0.04 after two.
        assert!(!good(1002, 1.0, 0.09, 5) && good(2002, 1.0, 0.15, 5));
        // Commands of three times that have their own.
        assert!(!good(2003, 3.0, 0.15, 9) && good(2003, 3.0, 0.01, 9), "but what does not matter does not matter");
        assert!(!good(2102, 3.0, 0.02, 9) && good(2103, 3.0, 0.02, 9), "or for a tenth of a second");
    }
}
