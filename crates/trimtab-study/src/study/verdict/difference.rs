//! When two sets of repeats differ.

use trimtab_sim::analysis::compare;
use trimtab_sim::run::Better;

/// With fewer repeats than [`REPEATS_MIN`], a difference counts if no repeat of one is within the range of
/// the other and one mean is at least this many times the other.
pub(super) const DIFFERENCE_FEW: f64 = 1.5;
/// Repeats from which the confidence interval decides, and a recommendation may rest on it.
pub(super) const REPEATS_MIN: usize = 3;

/// How two sets of repeats compare.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Comparison {
    /// Mean of the first divided by the mean of the second.
    pub ratio: f64,
    /// Whether that is more than the repeats scatter.
    pub measurable: bool,
}

/// Compares repeats of the same time. `None` if one has no repeats or no time.
pub fn compare(a: &[f64], b: &[f64]) -> Option<Comparison> {
    if a.is_empty() || b.is_empty() {
        return None;
    }
    let compared = compare::compare(b, a, Better::Lower, &compare::Options::default());
    let ratio = compared.ratio?;
    let least = |x: &[f64]| x.iter().copied().fold(f64::MAX, f64::min);
    let most = |x: &[f64]| x.iter().copied().fold(f64::MIN, f64::max);
    let measurable = if a.len().min(b.len()) >= REPEATS_MIN {
        matches!(compared.verdict, compare::Verdict::Better | compare::Verdict::Worse)
    } else {
        (least(a) > most(b) || most(a) < least(b)) && (ratio >= DIFFERENCE_FEW || ratio <= 1.0 / DIFFERENCE_FEW)
    };
    Some(Comparison { ratio, measurable })
}
