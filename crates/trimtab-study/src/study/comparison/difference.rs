//! Significance of a difference between two sets of repeats.

use crate::study::metrics::REPEATS_MIN;
use trimtab_sim::analysis::compare;
use trimtab_sim::run::Better;

/// With fewer repeats than [`REPEATS_MIN`], a difference counts if no repeat of one set
/// lies within the range of the other and the means differ by at least this factor.
pub const DIFFERENCE_FEW: f64 = 1.5;

/// Comparison of two sets of repeats.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Difference {
    /// Mean of the first divided by the mean of the second.
    pub ratio: f64,
    /// True if the difference exceeds the scatter of the repeats.
    pub measurable: bool,
}

/// Compares repeats of the same time. Returns `None` if a set is empty or has a mean of
/// zero.
pub fn compare(a: &[f64], b: &[f64]) -> Option<Difference> {
    if a.is_empty() || b.is_empty() {
        return None;
    }
    let compared = compare::compare(b, a, Better::Lower, &compare::ComparisonOptions::default());
    let ratio = compared.ratio?;
    let least = |x: &[f64]| x.iter().copied().fold(f64::MAX, f64::min);
    let most = |x: &[f64]| x.iter().copied().fold(f64::MIN, f64::max);
    let measurable = if a.len().min(b.len()) >= REPEATS_MIN {
        matches!(
            compared.verdict,
            compare::ComparisonVerdict::Better | compare::ComparisonVerdict::Worse
        )
    } else {
        (least(a) > most(b) || most(a) < least(b))
            && (ratio >= DIFFERENCE_FEW || ratio <= 1.0 / DIFFERENCE_FEW)
    };
    Some(Difference { ratio, measurable })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_repeats_need_a_large_ratio() {
        assert!(!compare(&[1.4], &[1.0]).unwrap().measurable);
        assert!(compare(&[1.6], &[1.0]).unwrap().measurable);
        assert!(
            !compare(&[1.6], &[1.0, 1.7]).unwrap().measurable,
            "within the range of the others"
        );
        assert!(compare(&[1.0, 1.01, 0.99], &[0.9, 0.91, 0.89]).unwrap().measurable);
        assert!(!compare(&[1.0, 1.3, 0.7], &[0.9, 0.91, 0.89]).unwrap().measurable);
        assert_eq!(compare(&[], &[1.0]), None);
    }
}
