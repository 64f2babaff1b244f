//! Intervals calculated by hand.

use crate::analysis::compare::*;

#[test]
fn relative_variance_is_that_of_the_mean() {
    // (1 + 0 + 1) / 2 / 3 / 10^2.
    assert!((relative_variance(&[9.0, 10.0, 11.0]) - 1.0 / 300.0).abs() < 1e-15);
}

/// Relative variances of 1/300 and 1/1200 give 50/17 degrees of freedom by
/// Welch-Satterthwaite. Student's t then stays below 3.218758614 in 97.5 % (numeric
/// integration of its density), so the interval is 2 exp(-+ 3.218758614 sqrt(5/1200)).
/// The bootstrap stays within it: no resample has a ratio above 21/9 or below 19/11.
#[test]
fn interval_of_few_repeats_matches_welch() {
    let c = compare(
        &[9.0, 10.0, 11.0],
        &[19.0, 20.0, 21.0],
        Better::Higher,
        &ComparisonOptions::default(),
    );
    let interval = c.interval.unwrap();
    assert_eq!((c.a, c.b, c.ratio, c.verdict), (10.0, 20.0, Some(2.0), ComparisonVerdict::Better));
    assert!(
        (interval.low - 1.624_787_772).abs() < 1e-8 && (interval.high - 2.461_859_985).abs() < 1e-8,
        "{interval:?}"
    );
}

/// Every resample of one value is that value.
#[test]
fn interval_without_spread_is_a_point() {
    let c = compare(
        &[4.0; 5],
        &[6.0; 5],
        Better::Lower,
        &ComparisonOptions { resamples: 50, ..ComparisonOptions::default() },
    );
    let interval = c.interval.unwrap();
    assert!(
        (interval.low - 1.5).abs() < 1e-12 && (interval.high - 1.5).abs() < 1e-12,
        "{interval:?}"
    );
}

#[test]
fn interval_ends_are_ordered_or_absent() {
    // With zero confidence, the interval is the middle of the resamples: of two, both.
    let of = |seed| {
        let options = ComparisonOptions { confidence: 0.0, resamples: 2, seed };
        compare(
            &[1.0, 2.0, 3.0, 4.0, 5.0],
            &[10.0, 23.0, 31.0, 47.0, 59.0],
            Better::Higher,
            &options,
        )
        .interval
        .unwrap()
    };
    assert!(
        (1..=20).all(|seed| of(seed).low <= of(seed).high)
            && (1..=20).any(|seed| of(seed).low < of(seed).high)
    );
    // A ratio of 1e307 is finite; its upper bound, fifty times as much, is not.
    let c = compare(
        &[1e-154, 1e-154, 30e-154],
        &[1.2e154; 3],
        Better::Higher,
        &ComparisonOptions::default(),
    );
    assert!(c.ratio.is_some_and(|ratio| ratio > 1e307));
    assert_eq!((c.interval, c.verdict), (None, ComparisonVerdict::CannotTell));
}

#[test]
fn non_positive_values_have_a_verdict_without_ratio() {
    let c = exactly(&[-1.0], &[-2.0], Better::Lower);
    assert_eq!((c.ratio, c.interval, c.verdict), (None, None, ComparisonVerdict::Better));
    let c = exactly(&[1.0], &[f64::INFINITY], Better::Lower);
    assert_eq!((c.ratio, c.interval, c.verdict), (None, None, ComparisonVerdict::Worse));
}
