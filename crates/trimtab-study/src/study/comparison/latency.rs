//! Foreground latency measured during discards. The longest latency alone may be chance:
//! a single stall among fifty appends per second proves nothing.
//!
//! An append is *long* if it takes longer than [`BLINK_SECONDS`] and more than twice the
//! median without discards. Fisher's exact test decides whether long appends are more
//! frequent under a policy than without trimming. The result is "too few" if the test
//! could not detect a tenth of long appends, or if a few occurred that may be chance.

use crate::study::light_work::{BUSY, BUSY_WAIT};
use crate::study::metrics::{DiscardCount, Metrics, discard_count, samples};
use crate::study::policy;
use serde::Serialize;
use trimtab_drive::histogram::Histogram;
use trimtab_drive::units::Nanos;
use trimtab_sim::analysis::fisher::{Share, more_often};
use trimtab_sim::run::{LatencyPart, Provenance, Run};

/// Longest delay that a user does not notice.
pub const BLINK_SECONDS: f64 = 0.05;
/// Significance level. Two policies are compared, so each gets half of the usual 5 %.
const CHANCE_MAX: f64 = 0.025;
/// The test must be able to detect one long append in this many.
const TENTH: u64 = 10;
/// Ratio above which one longest time counts as longer than another.
pub const WORSE: f64 = 1.5;

/// Result of the test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TestResult {
    /// Foreground appends take longer under this policy, beyond chance.
    Longer,
    /// No difference, with enough appends to detect one.
    Alike,
    /// Too few appends, or too few long ones, to rule out chance.
    TooFew,
}

/// Why the longest latency does not represent the cost of discards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LatencyDoubt {
    /// No discard was counted during the measurement.
    NoDiscardCounted,
    /// Too few appends.
    TooFew,
    /// The long appends may be chance.
    MayBeChance,
    /// A single event: long appends were not more frequent.
    LongNoMoreOften,
    /// The longest latency is no higher than without trimming, but long appends were more
    /// frequent.
    LongMoreOften,
}

/// Foreground appends under one policy, compared with no trimming.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LatencyTest {
    /// The policy.
    pub policy: &'static str,
    /// Result.
    pub result: TestResult,
    /// Longest append under the policy and without trimming, seconds.
    pub longest: (f64, f64),
    /// Threshold of a long append, seconds.
    pub limit: f64,
    /// Long appends under the policy and without trimming.
    pub long: (Share, Share),
    /// Probability of that many long appends under the policy by chance.
    pub chance: f64,
}

impl LatencyTest {
    /// Tests `policy`; `None` without measurements or counted discards, or if modelled.
    pub fn of(metrics: &Metrics<'_>, policy: &'static str) -> Option<Self> {
        let (with, without) = (appends(metrics, policy)?, appends(metrics, policy::NONE)?);
        if !measured(metrics, policy).any(|run| discard_count(run) == DiscardCount::Counted) {
            return None;
        }
        let seconds = |ns: Nanos| ns.as_secs_f64();
        let limit = (2.0 * seconds(without.percentile(50.0))).max(BLINK_SECONDS);
        let share = |of: &Histogram| {
            let hits = of
                .buckets()
                .filter(|(wait, _)| seconds(*wait) > limit)
                .map(|(_, count)| count)
                .sum();
            Share { hits, of: of.count() }
        };
        let long = (share(&with), share(&without));
        let chance = more_often(long.0, long.1);
        let most = |policy: &str| {
            let all = measured(metrics, policy).filter_map(|run| samples(run, BUSY_WAIT)).flatten();
            all.copied().reduce(f64::max)
        };
        let longest = (most(policy)?, most(policy::NONE)?);
        Some(Self { policy, result: result(long, chance), longest, limit, long, chance })
    }

    /// Why the longest latency is not meaningful; `None` if it is.
    pub fn doubt(&self) -> Option<LatencyDoubt> {
        match (self.result, self.long.0.hits) {
            (TestResult::TooFew, 0) => Some(LatencyDoubt::TooFew),
            (TestResult::TooFew, _) => Some(LatencyDoubt::MayBeChance),
            (TestResult::Alike, _) if self.longest.0 > WORSE * self.longest.1 => {
                Some(LatencyDoubt::LongNoMoreOften)
            }
            (TestResult::Longer, _) if self.longest.0 <= self.longest.1 => {
                Some(LatencyDoubt::LongMoreOften)
            }
            (TestResult::Longer | TestResult::Alike, _) => None,
        }
    }
}

fn result((with, without): (Share, Share), chance: f64) -> TestResult {
    let tenth = Share { hits: with.of.div_ceil(TENTH), of: with.of };
    let enough = more_often(tenth, Share { hits: 0, ..without }) < CHANCE_MAX;
    match () {
        () if chance < CHANCE_MAX => TestResult::Longer,
        // The share of long appends is not higher than without trimming.
        () if enough && with.hits * without.of <= without.hits * with.of => TestResult::Alike,
        () => TestResult::TooFew,
    }
}

fn measured<'a>(metrics: &Metrics<'a>, policy: &str) -> impl Iterator<Item = &'a Run> {
    let is_measured =
        |run: &&Run| run.provenance == Provenance::Measured && samples(run, BUSY_WAIT).is_some();
    metrics.of_policy(policy).filter(is_measured)
}

fn appends(metrics: &Metrics<'_>, policy: &str) -> Option<Histogram> {
    let phases = measured(metrics, policy)
        .flat_map(|run| &run.phases)
        .filter(|phase| phase.name == BUSY.phase);
    let latencies = phases
        .flat_map(|phase| &phase.latencies)
        .filter(|latency| latency.part == LatencyPart::Total);
    let mut all = Histogram::new();
    latencies.for_each(|latency| all.merge(&latency.histogram));
    (all.count() > 0).then_some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn share(hits: u64, of: u64) -> Share {
        Share { hits, of }
    }

    /// Binomial coefficient.
    fn choose(n: u64, k: u64) -> f64 {
        (0..k).map(|i| (n - i) as f64 / (i + 1) as f64).product()
    }

    #[test]
    fn doubt_flags_longest_latency_without_difference() {
        let doubt = |result, with, without| {
            let long = (share(2, 60), share(2, 60));
            LatencyTest {
                policy: policy::ONLINE,
                result,
                longest: (with, without),
                limit: 0.05,
                long,
                chance: 0.6,
            }
            .doubt()
        };
        // 224 ms against 78 ms, although the policy "costs nothing measurable".
        assert_eq!(doubt(TestResult::Alike, 0.224, 0.078), Some(LatencyDoubt::LongNoMoreOften));
        assert_eq!(doubt(TestResult::Alike, 0.08, 0.078), None);
        assert_eq!(doubt(TestResult::Longer, 0.224, 0.078), None);
        assert_eq!(doubt(TestResult::Longer, 0.078, 0.224), Some(LatencyDoubt::LongMoreOften));
    }

    #[test]
    fn result_is_too_few_if_long_appends_may_be_chance() {
        let found = |with: (u64, u64), without: (u64, u64)| {
            let long = (share(with.0, with.1), share(without.0, without.1));
            result(long, more_often(long.0, long.1))
        };
        // None of 52 without trimming. One of 63 is chance in 63 of 115 cases; three
        // occur in 39,711 of 246,905 (16 %), seven in 1.2 %.
        assert_eq!(found((1, 63), (0, 52)), TestResult::TooFew);
        assert!(
            (more_often(share(3, 63), share(0, 52)) - choose(63, 3) / choose(115, 3)).abs() < 1e-12
        );
        assert_eq!(found((3, 63), (0, 52)), TestResult::TooFew);
        assert!(
            choose(63, 7) / choose(115, 7) < CHANCE_MAX
                && choose(63, 5) / choose(115, 5) > CHANCE_MAX
        );
        assert_eq!(
            (found((5, 63), (0, 52)), found((7, 63), (0, 52))),
            (TestResult::TooFew, TestResult::Longer)
        );
        // The rate without discards is the same: the filesystem is slow, not the
        // discards.
        assert_eq!(found((40, 100), (40, 100)), TestResult::Alike);
        assert_eq!(found((0, 63), (0, 52)), TestResult::Alike);
        // Too few to detect a tenth: two of 20 would be long, by chance in 190 of 780
        // cases.
        assert!((more_often(share(2, 20), share(0, 20)) - 190.0 / 780.0).abs() < 1e-12);
        assert_eq!(found((0, 20), (0, 20)), TestResult::TooFew);
        // 5 of 50 against none of 50: 2.8 %. 6 of 51: 1.3 %.
        assert!(
            choose(50, 5) / choose(100, 5) > CHANCE_MAX
                && choose(51, 6) / choose(102, 6) < CHANCE_MAX
        );
        assert_eq!(
            (found((0, 50), (0, 50)), found((0, 51), (0, 51))),
            (TestResult::TooFew, TestResult::Alike)
        );
        // If all appends are long, a few suffice.
        assert_eq!(found((20, 20), (0, 20)), TestResult::Longer);
    }
}
