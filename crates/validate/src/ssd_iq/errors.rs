//! Intervals of predictions: the spread of draws, or the errors on other units.

use std::collections::BTreeMap;

/// Errors of a comparison of the embedded runs, without and with each thing left out: the
/// rows that `--errors` writes.
const ERRORS: &str = include_str!("errors.csv");
/// Share of the figures below and above intervals, together 10 %.
const TAIL: f64 = 0.05;
/// Standard deviations that hold 90 % of a normal distribution.
const DEVIATIONS: f64 = 1.645;

/// Logarithms of measured over predicted figures, by unit and figure.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Errors(BTreeMap<(String, String), Vec<f64>>);

impl Errors {
    /// Embedded errors of predictions without `left_out`, and of predictions from data
    /// sheets alone: parameters that are fitted to other figures leave few errors.
    pub fn embedded(left_out: &str) -> Self {
        let mut errors = Self::default();
        for line in ERRORS.lines() {
            if let [what, unit, figure, list] = line.split(',').collect::<Vec<_>>()[..]
                && [left_out, "unit"].contains(&what)
            {
                let key = (unit.to_owned(), figure.to_owned());
                let list = list.split(' ').filter_map(|error| error.parse::<f64>().ok());
                errors.0.entry(key).or_default().extend(list);
            }
        }
        errors
    }

    /// True if `unit` has errors.
    pub fn has(&self, unit: &str) -> bool {
        self.0.keys().any(|(one, _)| one == unit)
    }

    /// Factors from a prediction of `figure` of `unit` to the ends of its interval: the
    /// wider of the range of the errors of all other units, without its tails, and that of
    /// draws whose logarithms have the standard deviation `spread`. It holds the
    /// prediction.
    pub fn interval(&self, unit: &str, figure: &str, spread: f64) -> (f64, f64) {
        // Two units count NAND writes. The rate falls as WAF rises, and not faster.
        let (name, sign) = if figure.contains("WAF") {
            ("steady MB/s".to_owned(), -1.0)
        } else {
            (figure.replace(',', ""), 1.0)
        };
        let others = self.0.iter().filter(|((other, figure), _)| other != unit && *figure == name);
        let mut errors: Vec<f64> =
            others.flat_map(|(_, errors)| errors).map(|error| sign * error).collect();
        errors.sort_by(f64::total_cmp);
        // A further figure has each rank with the same probability.
        let rank = ((errors.len() + 1) as f64 * TAIL).floor().max(1.0) as usize;
        let low = errors.get(rank - 1).copied().unwrap_or(0.0);
        let high = errors.get(errors.len().wrapping_sub(rank)).copied().unwrap_or(0.0);
        let drawn = DEVIATIONS * spread;
        (low.min(-drawn).exp(), high.max(drawn).exp())
    }
}

/// Row of all figures, which sorts last.
pub const ALL: &str = "~ all";

/// Embedded errors of each figure without `left_out` that lie in the interval of the other
/// units, and all; the last row sums them.
#[must_use]
pub fn coverage(left_out: &str) -> BTreeMap<String, (usize, usize)> {
    /// Ends of intervals are errors too: their logarithms are not exact.
    const ROUNDED: f64 = 1e-9;
    let errors = Errors::embedded(left_out);
    let mut coverage = BTreeMap::new();
    for line in ERRORS.lines() {
        let [what, unit, figure, list] = line.split(',').collect::<Vec<_>>()[..] else { continue };
        if what != left_out {
            continue;
        }
        let (low, high) = errors.interval(unit, figure, 0.0);
        let (low, high) = (low.ln() - ROUNDED, high.ln() + ROUNDED);
        for error in list.split(' ').filter_map(|error| error.parse::<f64>().ok()) {
            for row in [figure, ALL] {
                let (held, all) = coverage.entry(row.to_owned()).or_insert((0, 0));
                (*held, *all) = (*held + usize::from((low..=high).contains(&error)), *all + 1);
            }
        }
    }
    coverage
}

#[cfg(test)]
mod tests {
    use super::*;
    use trimtab::drives::datasheet;

    #[test]
    fn interval_holds_ninety_percent_of_the_errors_of_other_units() {
        let of = |unit: &str, errors: &[f64]| {
            ((unit.to_owned(), "steady MB/s".to_owned()), errors.to_vec())
        };
        let many: Vec<f64> = (-10..=28).map(|nth| f64::from(nth) / 100.0).collect();
        let errors = Errors([of("a", &many), of("b", &[-5.0])].into());
        let is = |got: (f64, f64), low: f64, high: f64| {
            let near = |got: f64, log: f64| (got.ln() - log).abs() < 1e-12;
            assert!(near(got.0, low) && near(got.1, high), "{got:?}, expected {low} {high}");
        };
        // Ranks 2 and 38 of 39: a fortieth of the probability lies between two ranks.
        is(errors.interval("b", "steady MB/s", 0.0), -0.09, 0.27);
        is(errors.interval("b", "WAF of collection", 0.0), -0.27, 0.09);
        is(errors.interval("b", "steady MB/s", 1.0), -DEVIATIONS, DEVIATIONS);
        is(errors.interval("a", "steady MB/s", 0.0), -5.0, 0.0);
        is(errors.interval("b", "fresh MB/s", 0.0), 0.0, 0.0);
    }

    /// `drive from-datasheet` states these factors.
    #[test]
    fn factors_of_data_sheets_follow_from_the_embedded_errors() {
        let errors = Errors::embedded("unit");
        let figures = ["fresh MB/s", "steady MB/s", "WAF of collection", "knee of write p99 op/s"];
        for (name, figure) in figures.into_iter().zip(datasheet::FIGURES) {
            let (low, high) = errors.interval("a further unit", name, 0.0);
            let near = |stated: f64, computed: f64| (stated - computed).abs() <= 0.005;
            let (stated_low, stated_high) = figure.errors;
            assert!(near(stated_low, low) && near(stated_high, high), "{name}: {low} {high}");
        }
    }

    /// Oracle: a script with the rule in docs/method/ssd-iq.md.
    #[test]
    fn coverage_agrees_with_a_script() {
        let all = |left_out| coverage(left_out)[ALL];
        let found = ["nothing", "experiment", "unit"].map(all);
        assert_eq!(found, [(614, 670), (663, 752), (666, 750)]);
        assert_eq!(coverage("experiment")["zone MB/s"], (54, 64));
    }

    #[test]
    fn embedded_errors_name_every_figure_of_three_comparisons() {
        for left_out in ["nothing", "unit", "experiment"] {
            let errors = Errors::embedded(left_out);
            let knees = errors.0.keys().filter(|(_, figure)| figure.starts_with("knee"));
            assert_eq!(knees.count(), 7, "{left_out}");
            assert!(errors.0.values().flatten().all(|error| error.is_finite()));
            let (low, high) = errors.interval("k4", "steady MB/s", 0.0);
            assert!(
                0.7 < low && low < 0.95 && 1.05 < high && high < 1.4,
                "{left_out} {low} {high}"
            );
        }
    }
}
