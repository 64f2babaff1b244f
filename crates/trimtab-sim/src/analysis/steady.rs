//! Steady state by the SNIA Solid State Storage Performance Test Specification 2.0.2.
//!
//! Over a window of five rounds the measured value must
//! * stay within a range (largest minus smallest) of at most 20 % of the window's
//!   average, and
//! * have a least-squares linear fit whose excursion over the window, |slope| x (rounds -
//!   1), is at most 10 % of that average.
//!
//! Rounds count only if they began after the whole target was written once, because a
//! drive filling unwritten flash can look steady. Rounds before the last knee do not
//! count either, because the run left that level.

use trimtab_drive::units::Bytes;

/// Rounds per window.
pub const ROUNDS: usize = 5;
/// Largest range over the window, relative to its average.
pub const RANGE_MAX: f64 = 0.20;
/// Largest excursion of the linear fit over the window, relative to its average.
pub const EXCURSION_MAX: f64 = 0.10;

/// Five consecutive rounds with the quantities of the rule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SteadyWindow {
    /// Index of its first round.
    pub first: usize,
    /// Mean of its values.
    pub average: f64,
    /// Range of its values, relative to the average.
    pub range: f64,
    /// Slope of the linear fit, in units of the value per round.
    pub slope: f64,
    /// |slope| x (rounds - 1), relative to the average.
    pub excursion: f64,
}

impl SteadyWindow {
    /// The window that begins at `first`; `None` if a value is not finite or the average
    /// is not positive, which makes relative values meaningless.
    fn at(rounds: &[f64], first: usize) -> Option<Self> {
        let values = rounds.get(first..first + ROUNDS)?;
        let average = values.iter().sum::<f64>() / ROUNDS as f64;
        if !average.is_finite() || average <= 0.0 {
            return None;
        }
        let (mut low, mut high, mut moment) = (values[0], values[0], 0.0);
        let centre = (ROUNDS - 1) as f64 / 2.0;
        let mut spread = 0.0;
        for (i, &value) in values.iter().enumerate() {
            low = low.min(value);
            high = high.max(value);
            let x = i as f64 - centre;
            moment += x * (value - average);
            spread += x * x;
        }
        let slope = moment / spread;
        let excursion = libm::fabs(slope) * (ROUNDS - 1) as f64 / average;
        Some(Self { first, average, range: (high - low) / average, slope, excursion })
    }

    /// True if both conditions of the rule hold.
    #[must_use]
    pub fn is_steady(&self) -> bool {
        self.range <= RANGE_MAX && self.excursion <= EXCURSION_MAX
    }

    /// Index after its last round.
    #[must_use]
    pub const fn end(&self) -> usize {
        self.first + ROUNDS
    }
}

/// Steady state of a series of rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SteadyState {
    /// The series is steady until its end.
    Reached {
        /// First round of the first window that satisfies the rule.
        since: usize,
        /// Last window that satisfies the rule; its average is the steady level.
        window: SteadyWindow,
    },
    /// Fewer than five rounds began after the whole target was written once.
    TooFewRounds {
        /// Rounds that count.
        counting: usize,
        /// Bytes written in all rounds.
        written: Bytes,
    },
    /// No window satisfied the rule, or later rounds left it. Holds the last with an
    /// average.
    NotSteady(Option<SteadyWindow>),
}

impl SteadyState {
    /// The window, if steady.
    #[must_use]
    pub const fn window(&self) -> Option<SteadyWindow> {
        match self {
            Self::Reached { window, .. } => Some(*window),
            _ => None,
        }
    }
}

/// Applies the rule to `rounds` (one value per round: IOPS, MB/s or a latency). Round `i`
/// wrote `bytes_written_per_round[i]` to a target of `target_size`. Rounds before index
/// `settled`, the last knee, do not count.
///
/// Pass `Bytes::ZERO` as `target_size` for a preconditioned target. Rounds missing from
/// `bytes_written_per_round` count as no writes.
#[must_use]
pub fn steady_state(
    rounds: &[f64],
    bytes_written_per_round: &[Bytes],
    target_size: Bytes,
    settled: usize,
) -> SteadyState {
    let mut written = Bytes::ZERO;
    let mut first_counting = rounds.len();
    for i in 0..rounds.len() {
        if i >= settled && written >= target_size && first_counting == rounds.len() {
            first_counting = i;
        }
        written =
            written.saturating_add(bytes_written_per_round.get(i).copied().unwrap_or(Bytes::ZERO));
    }
    let counting = rounds.len() - first_counting;
    if counting < ROUNDS {
        return SteadyState::TooFewRounds { counting, written };
    }
    let windows = || {
        (first_counting..=rounds.len() - ROUNDS).filter_map(|first| SteadyWindow::at(rounds, first))
    };
    let steady = || windows().filter(SteadyWindow::is_steady);
    match (steady().next(), steady().next_back()) {
        (Some(first), Some(window)) if holds(&rounds[rounds.len() - ROUNDS..], window.average) => {
            SteadyState::Reached { since: first.first, window }
        }
        _ => SteadyState::NotSteady(windows().next_back()),
    }
}

/// True if the mean of the last rounds is within the excursion limit of `level`.
fn holds(last: &[f64], level: f64) -> bool {
    let (sum, count) = last
        .iter()
        .filter(|value| value.is_finite())
        .fold((0.0, 0_u32), |(sum, count), value| (sum + value, count + 1));
    libm::fabs(sum / f64::from(count) - level) <= EXCURSION_MAX * level
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    const GB: u64 = 1_000_000_000;

    #[test]
    fn steady_state_needs_range_and_slope() {
        // Range of exactly 20 % and no slope: steady.
        let level = [100.0, 110.0, 90.0, 110.0, 100.0];
        let window = steady_state(&level, &[], Bytes::ZERO, 0).window().unwrap();
        assert_eq!((window.average, window.range, window.excursion), (102.0, 20.0 / 102.0, 0.0));
        assert_eq!((window.first, window.end()), (0, 5));
        // A line from 106 to 94: range 11.8 %, excursion 12 %: only the fit excludes it.
        let falling = [106.0, 103.0, 100.0, 97.0, 94.0];
        let SteadyState::NotSteady(Some(window)) = steady_state(&falling, &[], Bytes::ZERO, 0)
        else {
            panic!("falls")
        };
        assert!(
            window.range <= RANGE_MAX
                && (window.excursion - 0.12).abs() < 1e-12
                && window.slope == -3.0
        );
        // One outlier in the middle: no slope, range 25 %.
        let peak = [100.0, 100.0, 126.0, 100.0, 100.0];
        let SteadyState::NotSteady(Some(window)) = steady_state(&peak, &[], Bytes::ZERO, 0) else {
            panic!("peaks")
        };
        assert!(window.excursion == 0.0 && window.range > RANGE_MAX);
    }

    #[test]
    fn rounds_count_after_the_target_was_written_once() {
        let rounds = [100.0; 20];
        let written = [Bytes(10 * GB); 20];
        let SteadyState::Reached { since, window } =
            steady_state(&rounds, &written, Bytes(95 * GB), 0)
        else {
            panic!("steady")
        };
        assert_eq!(
            (since, window.first),
            (10, 15),
            "100 GB of 95 GB had been written when round 10 began"
        );
        assert_eq!(
            steady_state(&rounds[..14], &written, Bytes(95 * GB), 0),
            SteadyState::TooFewRounds { counting: 4, written: Bytes(140 * GB) }
        );
        assert_eq!(
            steady_state(&rounds, &[], Bytes(1), 0),
            SteadyState::TooFewRounds { counting: 0, written: Bytes::ZERO }
        );
        assert_eq!(
            steady_state(&[], &[], Bytes::ZERO, 0),
            SteadyState::TooFewRounds { counting: 0, written: Bytes::ZERO }
        );
    }

    #[test]
    fn rounds_without_a_value_are_never_steady() {
        assert_eq!(steady_state(&[0.0; 9], &[], Bytes::ZERO, 0), SteadyState::NotSteady(None));
        assert_eq!(steady_state(&[f64::NAN; 5], &[], Bytes::ZERO, 0), SteadyState::NotSteady(None));
        let gap = [1.0, 1.0, f64::NAN, 1.0, 1.0, 1.0, 1.0, 1.0];
        assert!(matches!(
            steady_state(&gap, &[], Bytes::ZERO, 0),
            SteadyState::Reached { since: 3, .. }
        ));
    }

    #[test]
    fn steady_state_begins_where_the_rate_levels_out() {
        let rounds: Vec<f64> =
            (0..30).map(|i| if i < 12 { 193.0 - 3.0 * f64::from(i) } else { 160.0 }).collect();
        let written = vec![Bytes(9_200_000_000); 30];
        let SteadyState::Reached { since, window } =
            steady_state(&rounds, &written, Bytes(120 * GB), 0)
        else {
            panic!("steady")
        };
        assert_eq!((since, window.first, window.average), (14, 25, 160.0));
    }

    #[test]
    fn steady_level_is_that_after_last_knee() {
        // 143 MB/s for 20 rounds, then 64.5 MB/s: the first level was left.
        let rounds: Vec<f64> = (0..40).map(|i| if i < 20 { 143.0 } else { 64.5 }).collect();
        for settled in [0, 20] {
            assert_eq!(
                steady_state(&rounds, &[], Bytes::ZERO, settled).window().map(|w| w.average),
                Some(64.5),
                "{settled}"
            );
        }
        // No level: too short after the knee, still falling after it, falling without a
        // knee.
        assert_eq!(
            steady_state(&rounds[..24], &[], Bytes::ZERO, 20),
            SteadyState::TooFewRounds { counting: 4, written: Bytes::ZERO }
        );
        assert_eq!(steady_state(&rounds[..24], &[], Bytes::ZERO, 0).window(), None);
        let falling: Vec<f64> =
            (0..40).map(|i| 143.0 - 4.0 * f64::from((i - 20_i32).max(0))).collect();
        for settled in [0, 20, 30] {
            assert_eq!(
                steady_state(&falling, &[], Bytes::ZERO, settled).window(),
                None,
                "{settled}"
            );
        }
        // One slow round at the end does not leave the level.
        let outlier: Vec<f64> = (0..20).map(|i| if i == 18 { 70.0 } else { 100.0 }).collect();
        assert_eq!(
            steady_state(&outlier, &[], Bytes::ZERO, 0).window().map(|w| (w.first, w.average)),
            Some((13, 100.0))
        );
    }

    proptest! {
        #[test]
        fn steady_state_does_not_depend_on_the_unit(values in prop::collection::vec(1.0_f64..100.0, 5..40)) {
            // A power of two scales exactly, so comparisons with the limits are
            // identical.
            let scaled: Vec<f64> = values.iter().map(|v| v * 1024.0).collect();
            let (a, b) = (steady_state(&values, &[], Bytes::ZERO, 0), steady_state(&scaled, &[], Bytes::ZERO, 0));
            prop_assert_eq!(a.window().map(|w| w.first), b.window().map(|w| w.first));
        }

        #[test]
        fn steady_state_returns_the_last_steady_window(values in prop::collection::vec(80.0_f64..130.0, 5..40)) {
            let average = |window: &[f64]| window.iter().sum::<f64>() / 5.0;
            let expected = (0..=values.len() - ROUNDS).rfind(|&first| {
                let window = &values[first..first + ROUNDS];
                let average = window.iter().sum::<f64>() / 5.0;
                let high = window.iter().copied().fold(f64::MIN, f64::max);
                let low = window.iter().copied().fold(f64::MAX, f64::min);
                // Least squares over x = 0..4, by the textbook sums.
                let (sx, sxx) = (10.0, 30.0);
                let sxy: f64 = window.iter().enumerate().map(|(x, y)| x as f64 * y).sum();
                let slope = (5.0 * sxy - sx * average * 5.0) / (5.0 * sxx - sx * sx);
                (high - low) / average <= 0.2 && slope.abs() * 4.0 / average <= 0.1
            });
            let level = |first: usize| average(&values[first..first + ROUNDS]);
            let expected = expected.filter(|first| (average(&values[values.len() - ROUNDS..]) / level(*first) - 1.0).abs() <= 0.1);
            prop_assert_eq!(steady_state(&values, &[], Bytes::ZERO, 0).window().map(|w| w.first), expected);
        }
    }
}
