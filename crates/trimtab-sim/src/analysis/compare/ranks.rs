//! Interval of a ratio by ranks, without assumptions about the distribution.

use super::Interval;
use alloc::vec;
use alloc::vec::Vec;

/// Maximum total repeats; with more, means are as good.
const REPEATS_MAX: usize = 40;

/// Ratios of `b` to `a` that the rank sum test does not reject: the sorted quotients of
/// all pairs, without as many at either end as chance explains. `None` for many repeats,
/// or if one is not positive.
pub(super) fn interval(a: &[f64], b: &[f64], confidence: f64) -> Option<Interval> {
    if a.len() + b.len() > REPEATS_MAX || a.iter().chain(b).any(|value| *value <= 0.0) {
        return None;
    }
    let mut quotients: Vec<f64> = b.iter().flat_map(|b| a.iter().map(move |a| b / a)).collect();
    quotients.sort_unstable_by(f64::total_cmp);
    let excluded = excluded(a.len(), b.len(), 1.0 - confidence).min((quotients.len() - 1) / 2);
    Some(Interval { low: quotients[excluded], high: quotients[quotients.len() - 1 - excluded] })
}

/// Quotients excluded at each end: one less than the largest rank sum count that equal
/// distributions show with probability at most `alpha`, two-sided.
fn excluded(na: usize, nb: usize, alpha: f64) -> usize {
    let arrangements = arrangements(na, nb);
    let all: f64 = arrangements.iter().sum();
    let mut tail = 0.0;
    let beyond = arrangements.iter().take_while(|count| {
        tail += **count;
        2.0 * tail / all <= alpha
    });
    beyond.count().saturating_sub(1)
}

/// Number of orders of `na` and `nb` repeats with 0, 1, 2 … inverted pairs (Mann and
/// Whitney 1947): coefficients of the Gaussian binomial, integers below 2^53.
fn arrangements(na: usize, nb: usize) -> Vec<f64> {
    let mut counts = vec![0.0; na * nb + 1];
    counts[0] = 1.0;
    for i in 1..=nb {
        for pairs in (na + i..counts.len()).rev() {
            counts[pairs] -= counts[pairs - na - i];
        }
        for pairs in i..counts.len() {
            counts[pairs] += counts[pairs - i];
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrangements_are_those_of_mann_and_whitney() {
        assert_eq!(arrangements(2, 2), [1.0, 1.0, 2.0, 1.0, 1.0]);
        assert_eq!(arrangements(3, 2), [1.0, 1.0, 2.0, 2.0, 2.0, 1.0, 1.0]);
        assert_eq!(arrangements(20, 20).iter().sum::<f64>(), 137_846_528_820.0);
    }

    /// Critical values of printed tables, two-sided 5 %: 0 for (4, 4), 2 for (5, 5), 8
    /// for (7, 7), 23 for (10, 10); none for (3, 3).
    #[test]
    fn excluded_follows_from_printed_critical_values() {
        let cases =
            [((2, 2), 0), ((3, 3), 0), ((4, 4), 0), ((5, 5), 2), ((7, 7), 8), ((10, 10), 23)];
        for ((na, nb), expected) in cases {
            assert_eq!(excluded(na, nb, 0.05), expected, "{na} {nb}");
        }
    }

    #[test]
    fn interval_of_few_repeats_spans_all_quotients() {
        let interval = interval(&[2.0, 1.0], &[4.0, 6.0], 0.95).unwrap();
        assert_eq!((interval.low, interval.high), (2.0, 6.0));
        assert!(super::interval(&[0.0, 1.0], &[4.0, 6.0], 0.95).is_none());
        assert!(super::interval(&[1.0; 21], &[1.0; 21], 0.95).is_none());
    }
}
