//! Before and after: the ratio of two sets of repeats, how sure it is, and what may be said.
//!
//! The interval of the ratio of means covers all of these, on a logarithmic scale:
//! * a bootstrap (each set resampled with replacement, 10,000 times, from the given seed), as a percentile interval that
//!   is expanded for the number of repeats (Hesterberg 2015, section 4.3.3): a plain one covers the truth in only 83 % of
//!   cases at three repeats a side, because resampling understates the spread by sqrt((n - 1) / n) and knows no t distribution;
//! * the interval of Student's t with Welch's degrees of freedom, by the delta method: with three or four repeats a
//!   bootstrap cannot reach beyond the extremes that were seen, this can. Beside two repeats it has at most two degrees of freedom;
//! * the interval of the rank sum test (Hodges and Lehmann 1963) of up to 40 repeats in all: whatever the distribution, equal ones are called
//!   different no more often than the confidence allows. Of so few repeats that ranks alone never tell, no repeat of one side may lie within the other.
//!
//! By simulation, equal distributions (normal, log-normal, exponential, uniform) are called different in at most 5 % of cases at 2 to 10 repeats a side,
//! and a factor of nine between two repeats each that scatter by 10 % is told in 99 % of cases (the tests repeat it).
//!
//! By simulation, intervals of a nominal 95 % cover the true ratio of means in 94 to 96 % of cases, for normal, log-normal
//! and exponential repeats at 3 to 10 a side (the tests repeat it). The ratio of medians has the bootstrap alone and covers
//! in 97 to 99 %.
//!
//! Too few repeats give no interval, and the verdict is that nobody can tell. "No measurable difference" is said only of an interval that lies
//! within [`SAME_WITHIN`] of 1 as a whole (a test of equivalence, Schuirmann 1987): one that merely contains 1 says nothing.
//!
//! Modelled runs have no spread: the same settings and seed give the same figures. They are compared exactly ([`exactly`]).

mod ranks;
pub mod runs;

use super::student::{normal_cdf, t_quantile};
use crate::run::{Better, Unit};
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Ordering;
use trimtab_drive::rng::Stream;
use trimtab_drive::units::three_digits;

/// "No measurable difference" means that the whole interval lies between one over this and this: a difference of more than 10 % is excluded.
pub const SAME_WITHIN: f64 = 1.1;

/// Fewest repeats a side from which it counts that one side is zero each time: zeros have no spread to judge by.
const ZEROS_MIN: usize = 3;

/// A difference of less than this share of the baseline does not matter, however surely it is there.
pub const MATTERS_FROM: f64 = 0.01;

/// What stands for a set of repeats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Statistic {
    /// The arithmetic mean.
    #[default]
    Mean,
    /// The median: for repeats with outliers.
    Median,
}

impl Statistic {
    /// Fewest repeats a side that give an interval.
    #[must_use]
    pub const fn repeats_min(self) -> usize {
        match self {
            Self::Mean => 2,
            Self::Median => 5,
        }
    }

    /// Of `samples`, which are reordered.
    fn of(self, samples: &mut [f64]) -> f64 {
        match self {
            Self::Mean => mean(samples),
            Self::Median => {
                let n = samples.len();
                let (below, &mut middle, _) = samples.select_nth_unstable_by(n / 2, f64::total_cmp);
                if n % 2 == 1 { middle } else { (below.iter().copied().fold(f64::NEG_INFINITY, f64::max) + middle) / 2.0 }
            }
        }
    }
}

/// How to compare.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// What is compared.
    pub statistic: Statistic,
    /// How often the interval is to cover the truth, 0 to 1.
    pub confidence: f64,
    /// Bootstrap resamples.
    pub resamples: usize,
    /// Seed of the bootstrap.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { statistic: Statistic::Mean, confidence: 0.95, resamples: 10_000, seed: 1 }
    }
}

/// Where the true ratio is, with the confidence asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// What may be said about B against A.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// B is better.
    Better,
    /// B is worse.
    Worse,
    /// B is different, in a figure that has no better and worse.
    Different,
    /// There is a difference, surely of less than [`MATTERS_FROM`].
    Negligible,
    /// The whole interval lies within [`SAME_WITHIN`] of 1.
    NoDifference,
    /// Exactly the same, of figures that have no spread.
    Same,
    /// Too few repeats, too much spread, or figures without a ratio.
    CannotTell,
}

impl Verdict {
    /// In words, for a figure of this unit: times and rates are faster or slower, the rest is better or worse.
    #[must_use]
    pub const fn words(self, unit: Unit) -> &'static str {
        let speed = matches!(unit, Unit::Seconds | Unit::Nanos | Unit::MegabytesPerSecond | Unit::OpsPerSecond);
        match (self, speed) {
            (Self::Better, true) => "faster",
            (Self::Better, false) => "better",
            (Self::Worse, true) => "slower",
            (Self::Worse, false) => "worse",
            (Self::Different, _) => "different",
            (Self::Negligible, _) => "does not matter",
            (Self::NoDifference, _) => "no measurable difference",
            (Self::Same, _) => "exactly the same",
            (Self::CannotTell, _) => "cannot tell",
        }
    }
}

/// B against A.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// Statistic of A, the baseline.
    pub a: f64,
    /// Statistic of B.
    pub b: f64,
    /// B / A; `None` unless both are positive and finite.
    pub ratio: Option<f64>,
    /// Where the true ratio is; `None` with fewer than [`Statistic::repeats_min`] repeats a side.
    pub interval: Option<Interval>,
    /// What may be said.
    pub verdict: Verdict,
}

impl Comparison {
    /// The verdict; of a difference that does not matter how large it is as well: `0.020 % more: does not matter`.
    #[must_use]
    pub fn in_words(&self, unit: Unit) -> String {
        let words = self.verdict.words(unit);
        match (self.verdict, self.ratio) {
            (Verdict::Negligible, Some(ratio)) => format!("{} {}: {words}", percent_off(ratio), if ratio > 1.0 { "more" } else { "less" }),
            _ => words.to_owned(),
        }
    }
}

/// How far a ratio is from 1: `0.020 %`.
#[must_use]
pub fn percent_off(ratio: f64) -> String {
    match libm::fabs(ratio - 1.0) * 100.0 {
        tiny if tiny < 0.001 => "less than 0.001 %".to_owned(),
        percent => format!("{} %", three_digits(percent)),
    }
}

/// Compares the repeats `b` with the baseline `a`. Neither is empty.
#[must_use]
pub fn compare(a: &[f64], b: &[f64], better: Better, options: &Options) -> Comparison {
    let (sa, sb) = (options.statistic.of(&mut a.to_vec()), options.statistic.of(&mut b.to_vec()));
    let positive = |v: f64| v.is_finite() && v > 0.0;
    let ratio = (positive(sa) && positive(sb)).then(|| sb / sa).filter(|r| positive(*r));
    let interval = ratio.and_then(|_| interval(a, b, options));
    // Zero against zero, often enough to believe it.
    let zeros_count = a.len().min(b.len()) >= options.statistic.repeats_min().max(ZEROS_MIN);
    let both_zero = zeros_count && a.iter().chain(b).all(|v| *v == 0.0);
    let verdict = match interval {
        Some(interval) => verdict(interval, better),
        None if both_zero => Verdict::NoDifference,
        None if zeros_count && never_and_always(a, b) => direction(better, sb > sa),
        None => Verdict::CannotTell,
    };
    Comparison { a: sa, b: sb, ratio, interval, verdict }
}

/// Whether one side is zero each time and the other never: there is no ratio, and yet a difference.
fn never_and_always(a: &[f64], b: &[f64]) -> bool {
    let never = |side: &[f64]| side.iter().all(|value| *value == 0.0);
    let always = |side: &[f64]| side.iter().all(|value| value.is_finite() && *value > 0.0);
    never(a) && always(b) || always(a) && never(b)
}

fn verdict(interval: Interval, better: Better) -> Verdict {
    let more = interval.low > 1.0;
    if !more && interval.high >= 1.0 {
        let within = interval.low >= 1.0 / SAME_WITHIN && interval.high <= SAME_WITHIN;
        return if within { Verdict::NoDifference } else { Verdict::CannotTell };
    }
    if negligible(interval.low) && negligible(interval.high) { Verdict::Negligible } else { direction(better, more) }
}

/// Whether figures of this ratio are as good as the same.
fn negligible(ratio: f64) -> bool {
    (1.0 - MATTERS_FROM..1.0 + MATTERS_FROM).contains(&ratio)
}

const fn direction(better: Better, more: bool) -> Verdict {
    match (better, more) {
        (Better::Higher, true) | (Better::Lower, false) => Verdict::Better,
        (Better::Higher, false) | (Better::Lower, true) => Verdict::Worse,
        (Better::Neither, _) => Verdict::Different,
    }
}

/// Compares figures that would come out the same to the last digit if they were taken again: any difference is one, and one of less than
/// [`MATTERS_FROM`] does not matter. Neither is empty.
/// Repeats are then rounds of one deterministic history, not draws of anything; their statistic is exact, too.
#[must_use]
pub fn exactly(a: &[f64], b: &[f64], better: Better, statistic: Statistic) -> Comparison {
    let (sa, sb) = (statistic.of(&mut a.to_vec()), statistic.of(&mut b.to_vec()));
    let positive = |v: f64| v.is_finite() && v > 0.0;
    let ratio = (positive(sa) && positive(sb)).then(|| sb / sa).filter(|r| positive(*r));
    let verdict = match sa.partial_cmp(&sb) {
        None => Verdict::CannotTell,
        Some(Ordering::Equal) => Verdict::Same,
        Some(_) if ratio.is_some_and(negligible) => Verdict::Negligible,
        Some(order) => direction(better, order == Ordering::Less),
    };
    Comparison { a: sa, b: sb, ratio, interval: ratio.map(|r| Interval { low: r, high: r }), verdict }
}

fn mean(samples: &[f64]) -> f64 {
    samples.iter().sum::<f64>() / samples.len() as f64
}

/// The squared relative standard error of the mean.
fn relative_variance(samples: &[f64]) -> f64 {
    let n = samples.len() as f64;
    let m = mean(samples);
    samples.iter().map(|v| (v - m) * (v - m)).sum::<f64>() / (n - 1.0) / n / (m * m)
}

fn interval(a: &[f64], b: &[f64], options: &Options) -> Option<Interval> {
    if a.len().min(b.len()) < options.statistic.repeats_min() || a.iter().chain(b).any(|v| !v.is_finite()) {
        return None;
    }
    let (va, vb) = (relative_variance(a), relative_variance(b));
    let (na, nb) = (a.len() as f64, b.len() as f64);
    // Welch and Satterthwaite. Without any spread there is nothing to be unsure about.
    let welch = if va + vb > 0.0 { (va + vb) * (va + vb) / (va * va / (na - 1.0) + vb * vb / (nb - 1.0)) } else { na + nb - 2.0 };
    let least = na.min(nb);
    // Two values say too little of their spread to weigh it against that of the other side.
    let df = if least < 3.0 { welch.min(2.0) } else { welch };
    let t = t_quantile(0.5 + options.confidence / 2.0, df);
    let mut logs = bootstrap(a, b, options)?;
    logs.sort_unstable_by(f64::total_cmp);
    let tail = normal_cdf(-t * libm::sqrt(least / (least - 1.0)));
    let cut = ((logs.len() as f64 * tail) as usize).min((logs.len() - 1) / 2);
    let (mut low, mut high) = (logs[cut], logs[logs.len() - 1 - cut]);
    if options.statistic == Statistic::Mean {
        let centre = libm::log(mean(b) / mean(a));
        let reach = t * libm::sqrt(va + vb);
        low = low.min(centre - reach);
        high = high.max(centre + reach);
        if let Some(ranks) = ranks::interval(a, b, options.confidence) {
            low = low.min(libm::log(ranks.low));
            high = high.max(libm::log(ranks.high));
        }
    }
    let interval = Interval { low: libm::exp(low), high: libm::exp(high) };
    (interval.low.is_finite() && interval.high.is_finite()).then_some(interval)
}

/// Logarithms of the ratio over resamples; `None` if one of them has no ratio.
fn bootstrap(a: &[f64], b: &[f64], options: &Options) -> Option<Vec<f64>> {
    let mut rng = Stream::new(options.seed, "bootstrap");
    let mut scratch = Vec::new();
    let mut draw = |from: &[f64]| {
        scratch.clear();
        scratch.extend((0..from.len()).map(|_| from[rng.below(from.len() as u64) as usize]));
        options.statistic.of(&mut scratch)
    };
    (0..options.resamples.max(1))
        .map(|_| {
            let (a, b) = (draw(a), draw(b));
            (a > 0.0 && b > 0.0).then(|| libm::log(b / a))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    mod arithmetic;

    use super::*;
    use proptest::prelude::*;

    fn normal(rng: &mut Stream) -> f64 {
        libm::sqrt(-2.0 * libm::log(1.0 - rng.unit())) * libm::cos(2.0 * core::f64::consts::PI * rng.unit())
    }

    /// Seen: from no discard to 72, and "cannot tell".
    #[test]
    fn what_is_never_there_and_always_there_differs() {
        let said = |a: &[f64], b: &[f64], better| compare(a, b, better, &Options::default()).verdict;
        assert_eq!(said(&[0.0; 3], &[72.0, 70.0, 75.0], Better::Neither), Verdict::Different);
        assert_eq!(said(&[0.0; 3], &[72.0, 70.0, 75.0], Better::Lower), Verdict::Worse);
        assert_eq!(said(&[72.0, 70.0, 75.0], &[0.0; 3], Better::Lower), Verdict::Better);
        // One of three may be chance, and one repeat says nothing.
        assert_eq!(said(&[0.0; 3], &[72.0, 0.0, 75.0], Better::Neither), Verdict::CannotTell);
        assert_eq!(said(&[0.0], &[72.0], Better::Neither), Verdict::CannotTell);
        assert_eq!(said(&[0.0; 2], &[72.0, 70.0], Better::Neither), Verdict::CannotTell, "and of two as well");
    }

    type Draw<'a> = &'a dyn Fn(&mut Stream) -> f64;

    fn skewed(rng: &mut Stream) -> f64 {
        libm::exp(0.3 * normal(rng))
    }

    fn exponential(rng: &mut Stream) -> f64 {
        -libm::log(1.0 - rng.unit())
    }

    /// Shares of verdicts of a difference among `tries` pairs of `repeats` draws, the second times `ratio`.
    fn told(draw: Draw<'_>, repeats: (usize, usize), ratio: f64, tries: u32) -> f64 {
        let mut rng = Stream::new(3, "verdicts");
        let options = Options { resamples: 200, ..Options::default() };
        let differs = |_: &u32| {
            let a: Vec<f64> = (0..repeats.0).map(|_| draw(&mut rng)).collect();
            let b: Vec<f64> = (0..repeats.1).map(|_| ratio * draw(&mut rng)).collect();
            matches!(compare(&a, &b, Better::Higher, &options).verdict, Verdict::Better | Verdict::Worse | Verdict::Negligible)
        };
        f64::from((0..tries).filter(differs).count() as u32) / f64::from(tries)
    }

    #[test]
    fn compare_of_equal_distributions_rarely_differs() {
        let draws: [(Draw<'_>, &str); 4] = [
            (&|rng| 1.0 + 0.02 * normal(rng), "normal"),
            (&skewed, "log-normal"),
            (&exponential, "exponential"),
            (&|rng| 1.0 + rng.unit(), "uniform"),
        ];
        for (draw, name) in draws {
            for repeats in [(2, 2), (2, 3), (2, 5), (2, 10), (3, 3), (3, 10), (4, 4), (6, 6), (10, 10)] {
                // One standard deviation of 4000 draws of 5 % is 0.34 %.
                let share = told(draw, repeats, 1.0, 4000);
                assert!(share <= 0.055, "{name} {repeats:?}: {share}");
            }
        }
    }

    #[test]
    fn compare_of_two_repeats_tells_a_factor_of_nine() {
        let told_nine = |spread: f64| told(&|rng| libm::exp(spread * normal(rng)), (2, 2), 9.0, 1000);
        for (spread, least) in [(0.02, 1.0), (0.05, 0.999), (0.1, 0.97), (0.2, 0.8)] {
            assert!(told_nine(spread) >= least, "{spread}: {}", told_nine(spread));
        }
        let c = compare(&[5_130.0, 5_021.0], &[550.0, 563.0], Better::Higher, &Options::default());
        let interval = c.interval.unwrap();
        assert_eq!(c.verdict, Verdict::Worse);
        assert!(0.08 < interval.low && interval.low < 0.1097 && 0.1097 < interval.high && interval.high < 0.15, "{interval:?}");
    }

    #[test]
    fn intervals_cover_the_truth_as_often_as_they_say() {
        let quick = |statistic| Options { statistic, resamples: 1000, ..Options::default() };
        let normal_repeats = |rng: &mut Stream| 1.0 + 0.05 * normal(rng);
        for (statistic, least) in [(Statistic::Mean, 0.91), (Statistic::Median, 0.95)] {
            for (draw, name) in [(&normal_repeats as Draw<'_>, "normal"), (&skewed, "log-normal"), (&exponential, "exponential")] {
                let least_repeats = statistic.repeats_min();
                for (na, nb) in [(least_repeats, least_repeats), (6, 6), (10, 10), (least_repeats, 10)] {
                    let mut rng = Stream::new(9, "coverage");
                    let tries = 400;
                    let covered = (0..tries).filter(|_| {
                        let a: Vec<f64> = (0..na).map(|_| draw(&mut rng)).collect();
                        let b: Vec<f64> = (0..nb).map(|_| 1.7 * draw(&mut rng)).collect();
                        let interval = compare(&a, &b, Better::Higher, &quick(statistic)).interval.unwrap();
                        interval.low <= 1.7 && 1.7 <= interval.high
                    });
                    let share = covered.count() as f64 / f64::from(tries);
                    assert!(share >= least, "{statistic:?} {name} {na},{nb}: {share}");
                }
            }
        }
    }

    #[test]
    fn differences_are_found_and_named_by_direction_and_unit() {
        let (slow, fast) = ([40.6, 40.9, 40.4], [0.65, 0.64, 0.66]);
        let c = compare(&slow, &fast, Better::Lower, &Options::default());
        assert_eq!((c.verdict, c.verdict.words(Unit::Seconds)), (Verdict::Better, "faster"));
        assert!((c.ratio.unwrap() - 0.016).abs() < 1e-4);
        let interval = c.interval.unwrap();
        assert!(interval.low < 0.016 && 0.016 < interval.high && interval.high < 0.017, "{interval:?}");
        assert_eq!(compare(&slow, &fast, Better::Higher, &Options::default()).verdict, Verdict::Worse);
        assert_eq!(compare(&slow, &fast, Better::Neither, &Options::default()).verdict, Verdict::Different);
        assert_eq!(Verdict::Worse.words(Unit::Ratio), "worse");
    }

    #[test]
    fn what_cannot_be_told_is_not() {
        let verdict = |a: &[f64], b: &[f64]| compare(a, b, Better::Lower, &Options::default()).verdict;
        assert_eq!(verdict(&[10.0], &[20.0]), Verdict::CannotTell);
        assert_eq!(verdict(&[10.0], &[20.0, 20.1, 20.2]), Verdict::CannotTell);
        assert_eq!(verdict(&[10.0, 14.0], &[15.0, 21.0]), Verdict::CannotTell, "two repeats each that scatter as much as they differ");
        assert_eq!(verdict(&[0.0; 2], &[0.0; 2]), Verdict::CannotTell, "two zeros may be chance");
        assert_eq!(verdict(&[10.0, 10.5, 9.8], &[10.1, 10.4, 9.9]), Verdict::NoDifference);
        assert_eq!(verdict(&[1.0, 10.0, 3.0], &[2.0, 9.0, 4.0]), Verdict::CannotTell, "far too wide to say that there is none");
        // An interval from 0.83 to 1.89 contains 1, and a difference of 89 % as well.
        let wide = compare(&[1.0, 1.2, 0.9, 1.1], &[1.0, 1.7, 1.4, 1.4], Better::Lower, &Options::default());
        let interval = wide.interval.unwrap();
        assert!(interval.low < 1.0 && interval.high > 1.5 && interval.high < 2.0, "{interval:?}");
        assert_eq!(wide.verdict, Verdict::CannotTell);
        assert_eq!(super::verdict(Interval { low: 0.95, high: 1.78 }, Better::Lower), Verdict::CannotTell);
        assert_eq!(super::verdict(Interval { low: 0.92, high: 1.09 }, Better::Lower), Verdict::NoDifference);
        assert_eq!(verdict(&[0.0; 3], &[0.0; 3]), Verdict::NoDifference);
        let from_nothing = compare(&[0.0; 3], &[1.0; 3], Better::Lower, &Options::default());
        assert_eq!((from_nothing.verdict, from_nothing.ratio), (Verdict::Worse, None), "nothing is a multiple of zero");
        assert_eq!(verdict(&[f64::NAN; 3], &[1.0; 3]), Verdict::CannotTell);
        let exact = compare(&[5.0; 3], &[5.0; 3], Better::Lower, &Options::default());
        assert_eq!((exact.verdict, exact.interval), (Verdict::NoDifference, Some(Interval { low: 1.0, high: 1.0 })));
        let one = compare(&[10.0], &[20.0], Better::Lower, &Options::default());
        assert_eq!((one.ratio, one.interval), (Some(2.0), None), "the ratio is shown all the same");
    }

    #[test]
    fn a_difference_that_does_not_matter_is_called_so() {
        let said = |a: f64, b: f64| exactly(&[a], &[b], Better::Lower, Statistic::Mean).in_words(Unit::Ratio);
        assert_eq!(said(1.0, 1.0002), "0.020 % more: does not matter");
        assert_eq!(said(1.0, 1.0 - 1e-9), "less than 0.001 % less: does not matter");
        assert_eq!([said(1.0, 1.02), said(1.0, 1.0)], ["worse", "exactly the same"]);
    }

    #[test]
    fn what_has_no_spread_is_compared_exactly() {
        let verdict = |a: &[f64], b: &[f64]| exactly(a, b, Better::Lower, Statistic::Mean).verdict;
        assert_eq!(verdict(&[10.0], &[10.0]), Verdict::Same);
        // Seen: "better" of 0.02 %.
        assert_eq!([9.91, 9.998, 10.000_001, 10.099].map(|b| verdict(&[10.0], &[b])), [Verdict::Negligible; 4]);
        assert_eq!([9.89, 10.11].map(|b| verdict(&[10.0], &[b])), [Verdict::Better, Verdict::Worse]);
        let sure = |b: f64| compare(&[10.0, 10.001, 9.999], &[b, b + 0.001, b - 0.001], Better::Lower, &Options::default()).verdict;
        assert_eq!((sure(10.02), sure(10.2)), (Verdict::Negligible, Verdict::Worse), "also where the interval excludes 1");
        assert_eq!(verdict(&[0.0], &[1.0]), Verdict::Worse, "no ratio is needed to see that");
        assert_eq!(verdict(&[1.0, 3.0], &[3.0, 1.0]), Verdict::Same);
        assert_eq!(verdict(&[f64::NAN], &[1.0]), Verdict::CannotTell);
        let half = exactly(&[4.0], &[2.0], Better::Higher, Statistic::Mean);
        assert_eq!((half.verdict, half.ratio, half.interval), (Verdict::Worse, Some(0.5), Some(Interval { low: 0.5, high: 0.5 })));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn a_comparison_is_the_same_again_and_holds_its_ratio(
            a in prop::collection::vec(0.1_f64..10.0, 5..12),
            b in prop::collection::vec(0.1_f64..10.0, 5..12),
            median in any::<bool>(),
        ) {
            let statistic = if median { Statistic::Median } else { Statistic::Mean };
            let options = Options { statistic, resamples: 500, ..Options::default() };
            let c = compare(&a, &b, Better::Higher, &options);
            prop_assert_eq!(c, compare(&a, &b, Better::Higher, &options));
            let (ratio, interval) = (c.ratio.unwrap(), c.interval.unwrap());
            prop_assert!(interval.low <= ratio * (1.0 + 1e-12) && ratio <= interval.high * (1.0 + 1e-12), "{c:?}");
            let scaled: Vec<f64> = b.iter().map(|v| v * 4.0).collect();
            let d = compare(&a, &scaled, Better::Higher, &options).interval.unwrap();
            prop_assert!((d.low / interval.low - 4.0).abs() < 1e-9 && (d.high / interval.high - 4.0).abs() < 1e-9);
        }

        #[test]
        fn any_samples_are_answered(
            a in prop::collection::vec(prop::num::f64::ANY, 1..8),
            b in prop::collection::vec(prop::num::f64::ANY, 1..8),
        ) {
            let options = Options { resamples: 100, ..Options::default() };
            let c = compare(&a, &b, Better::Higher, &options);
            prop_assert!(c.interval.is_none_or(|i| i.low <= i.high && i.low >= 0.0));
        }
    }
}
