//! Predictions against measurements.

use super::data::Measured;
use super::model::Outcome;
use serde::Serialize;

/// Distance between bins of the measured curves, in drive writes.
const CLIFF_RESOLUTION: f64 = 0.05;

/// Rows whose figures decided a parameter of the unit: (unit, experiment, start of the
/// pattern). Their steady rate and WAF are fitted, not predicted.
const FITTED: [(&str, &str, &str); 8] = [
    ("h0", "wa14", "uniform"),
    ("s0", "wa14", "uniform"),
    ("wd", "wa14", "uniform"),
    ("mp0", "wa14", "uniform"),
    ("i1", "init07", "uniform"),
    ("i1", "init07", "zipf"),
    ("wd", "wa14", "read-only share s0.4"),
    ("i4i", "i4i-aws", "uniform"),
];
/// Units whose runs with 80 and 90 % read-only pages decided the static wear levelling of the
/// class.
const FITTED_LEVELLING: [&str; 3] = ["h0", "s0", "wd"];

/// A figure of a run, measured and predicted.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// Unit.
    pub unit: String,
    /// Experiment.
    pub experiment: String,
    /// Pattern.
    pub pattern: String,
    /// Name of the figure.
    pub figure: &'static str,
    /// Measured value.
    pub measured: f64,
    /// Value of the model.
    pub predicted: f64,
    /// Interval that holds nine of ten open rows of this figure.
    pub interval: (f64, f64),
    /// Largest deviation of a hit, in per cent.
    pub limit_percent: f64,
    /// True within the limit.
    pub hit: bool,
    /// True if this figure decided a parameter of the unit.
    pub fitted: bool,
    /// False if the drive was still changing: shown, not counted.
    pub counted: bool,
}

impl Figure {
    /// Deviation of the prediction in per cent.
    #[must_use]
    pub fn off_percent(&self) -> f64 {
        (self.predicted / self.measured - 1.0) * 100.0
    }

    /// True if the measured value lies in the interval.
    #[must_use]
    pub fn covered(&self) -> bool {
        (self.interval.0..=self.interval.1).contains(&self.measured)
    }
}

/// Rates of a unit under uniform writes, measured and predicted, to which shares of read-only
/// pages are related.
pub type Uniform = Option<(f64, f64)>;

/// Figures of `row` against the prediction `of_model`. With `open`, no row of the unit was used
/// for a fit.
#[must_use]
pub fn figures(row: &Measured, of_model: &Outcome, uniform: Uniform, open: bool) -> Vec<Figure> {
    let is_uniform = row.pattern == "uniform";
    let fit = |list: &(&str, &str, &str)| list.0 == row.unit && list.1 == row.experiment && row.pattern.starts_with(list.2);
    let fitted = !open && FITTED.iter().any(fit);
    let levelling = !open && row.read_only_percent.is_some_and(|share| share >= 80.0) && FITTED_LEVELLING.contains(&row.unit.as_str());
    let one = |figure, measured: f64, predicted: f64, limit: f64, half: f64, fitted: bool| Figure {
        unit: row.unit.clone(),
        experiment: row.experiment.clone(),
        pattern: row.pattern.clone(),
        figure,
        measured,
        predicted,
        interval: (predicted * (1.0 - half), predicted * (1.0 + half)),
        limit_percent: limit,
        hit: ((predicted / measured - 1.0) * 100.0).abs() <= limit,
        fitted,
        counted: row.steady,
    };
    let measured = &row.outcome;
    let mut all = vec![one("fresh MB/s", measured.fresh_mbs, of_model.fresh_mbs, 10.0, 0.12, false)];
    let (limit, half) = if is_uniform { (10.0, 0.10) } else { (15.0, 0.18) };
    all.push(one("steady MB/s", measured.steady_mbs, of_model.steady_mbs, limit, half, fitted || levelling));
    if let (Some(_), Some((measured_uniform, predicted_uniform))) = (row.read_only_percent, uniform) {
        let relative = (measured.steady_mbs / measured_uniform, of_model.steady_mbs / predicted_uniform);
        all.push(one("rate over uniform", relative.0, relative.1, 15.0, 0.18, fitted || levelling));
    }
    if let (Some(measured), Some(predicted)) = (measured.gc_waf, of_model.gc_waf) {
        all.push(one("WAF of collection", measured, predicted, 5.0, 0.05, fitted));
    }
    if let (Some(measured), Some(predicted)) = (measured.cliff_at, of_model.cliff_at) {
        let mut cliff = one("cliff in drive writes", measured, predicted, 25.0, 0.25, false);
        let resolution = CLIFF_RESOLUTION + 1e-9;
        cliff.hit |= (measured - predicted).abs() <= resolution;
        cliff.interval = (cliff.interval.0.min(predicted - resolution), cliff.interval.1.max(predicted + resolution));
        all.push(cliff);
    }
    all.push(one("slowest bin MB/s", measured.trough_mbs, of_model.trough_mbs, 15.0, 0.20, false));
    all
}

/// Hits of one kind of figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Hits {
    /// Unit, or "all".
    pub unit: String,
    /// Name of the figure.
    pub figure: &'static str,
    /// Fitted figures within the limit, and all.
    pub fitted: (usize, usize),
    /// Predicted figures within the limit, and all.
    pub predicted: (usize, usize),
    /// Measured values within the interval, and all.
    pub covered: (usize, usize),
    /// Median deviation of predicted figures in per cent.
    pub median_off_percent: f64,
}

/// Counts hits of `figures` per figure, over all units.
#[must_use]
pub fn hits(figures: &[Figure]) -> Vec<Hits> {
    let mut names: Vec<&'static str> = Vec::new();
    for figure in figures {
        if !names.contains(&figure.figure) {
            names.push(figure.figure);
        }
    }
    let count = |of: &[&Figure], hit: fn(&Figure) -> bool| (of.iter().filter(|one| hit(one)).count(), of.len());
    let of_name = |name: &'static str| {
        let counted: Vec<&Figure> = figures.iter().filter(|one| one.figure == name && one.counted).collect();
        let (fitted, predicted): (Vec<&Figure>, Vec<&Figure>) = counted.iter().partition(|one| one.fitted);
        let mut off: Vec<f64> = predicted.iter().map(|one| one.off_percent().abs()).collect();
        off.sort_by(f64::total_cmp);
        Hits {
            unit: "all".to_owned(),
            figure: name,
            fitted: count(&fitted, |one| one.hit),
            predicted: count(&predicted, |one| one.hit),
            covered: count(&counted, Figure::covered),
            median_off_percent: off.get(off.len() / 2).copied().unwrap_or(0.0),
        }
    };
    names.into_iter().map(of_name).collect()
}
