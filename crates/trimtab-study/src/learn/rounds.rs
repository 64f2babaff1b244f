//! Combines several rounds of the same probes. Real drives never show the same figures
//! twice.

use super::Observation;
use super::probes::Findings;
use alloc::string::String;
use alloc::vec::Vec;

/// A figure whose logarithm varies more than this between rounds is unsteady: 15 %.
const UNSTEADY: f64 = 0.14;

/// Combined findings of several rounds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CombinedFindings {
    /// Medians. The error of each is its own error combined with half the range between
    /// rounds.
    pub found: Findings,
    /// Unsteady figures: name, minimum and maximum in nanoseconds.
    pub unsteady: Vec<(String, f64, f64)>,
    /// Median relative slowdown of the last round over the first: 0.1 is a tenth.
    pub drift: f64,
}

/// Combines rounds of one plan. Omits figures that a round lacks.
#[must_use]
pub fn together(rounds: &[Findings]) -> CombinedFindings {
    let Some(first) = rounds.first() else { return CombinedFindings::default() };
    let mut all = CombinedFindings::default();
    let mut drifts = Vec::new();
    for one in &first.observations {
        let values: Option<Vec<f64>> = rounds.iter().map(|round| round.ns(&one.name)).collect();
        let Some(values) = values else { continue };
        drifts.push(values[values.len() - 1] / values[0] - 1.0);
        let (value_ns, low, high) = spread(values);
        let half = libm::log(high / low) / 2.0;
        if 2.0 * half > UNSTEADY {
            all.unsteady.push((one.name.clone(), low, high));
        }
        let sigma = libm::sqrt(one.sigma * one.sigma + half * half);
        all.found.observations.push(Observation { value_ns, sigma, ..one.clone() });
    }
    all.drift = if drifts.is_empty() { 0.0 } else { spread(drifts).0 };
    // A value on which rounds disagree is unknown.
    let same = |of: fn(&Findings) -> Option<u64>| {
        of(first).filter(|value| rounds.iter().all(|round| of(round) == Some(*value)))
    };
    let least = same(|round| round.trim_least.map(|(_, least)| least));
    all.found.trim_least = first.trim_least.filter(|_| least.is_some());
    all.found.trim_granularity = same(|round| round.trim_granularity);
    all.found.written = rounds.iter().map(|round| round.written).sum();
    all.found.read = rounds.iter().map(|round| round.read).sum();
    all
}

/// The median (mean of the middle two), minimum and maximum.
fn spread(mut values: Vec<f64>) -> (f64, f64, f64) {
    values.sort_by(f64::total_cmp);
    let last = values.len() - 1;
    (f64::midpoint(values[last / 2], values[values.len() / 2]), values[0], values[last])
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn round(read_ns: f64, least: u64) -> Findings {
        let one =
            Observation { name: "read".into(), probe: "reads", value_ns: read_ns, sigma: 0.03 };
        Findings {
            observations: vec![one],
            trim_least: Some((0, least)),
            trim_granularity: Some(4096),
            written: 10,
            read: 20,
        }
    }

    #[test]
    fn together_widens_and_lists_unsteady_figures() {
        // Half of the range is ln(1.08 / 0.96) / 2 = 0.0589.
        let all = together(&[round(108.0, 4096), round(96.0, 4096), round(100.0, 8192)]);
        assert_eq!(all.found.observations[0].value_ns, 100.0);
        let expected = libm::sqrt(0.03 * 0.03 + 0.0589 * 0.0589);
        assert!((all.found.observations[0].sigma - expected).abs() < 1e-4);
        assert!(all.unsteady.is_empty() && (all.drift + 0.0741).abs() < 1e-4, "{all:?}");
        assert_eq!(
            (all.found.trim_least, all.found.trim_granularity, all.found.written),
            (None, Some(4096), 30)
        );
        let all = together(&[round(100.0, 4096), round(130.0, 4096)]);
        assert_eq!(
            (all.found.observations[0].value_ns, all.found.trim_least),
            (115.0, Some((0, 4096)))
        );
        assert_eq!(all.unsteady, [("read".into(), 100.0, 130.0)]);
    }

    #[test]
    fn together_keeps_single_round_and_accepts_none() {
        let one = round(100.0, 4096);
        assert_eq!(together(core::slice::from_ref(&one)).found, one);
        assert_eq!(together(&[]), CombinedFindings::default());
    }
}
