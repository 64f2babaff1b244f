//! Predictions against measurements.

use super::cases::{Case, KNEE, Kind, RELATIVE, Value};
use super::errors::Errors;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use trimtab_sim::analysis::middle;

/// Distance between bins of the measured curves, in drive writes.
const CLIFF_RESOLUTION: f64 = 0.05;

/// Rows whose figures decided a parameter of a shipped drive: unit, experiment, start of
/// the place in the case, start of the figure.
const FITTED: [(&str, &str, &str, &str); 19] = [
    ("h0", "wa14", "uniform", "steady"),
    ("s0", "wa14", "uniform", "steady"),
    ("wd", "wa14", "uniform", "steady"),
    ("mp0", "wa14", "uniform", "steady"),
    ("i1", "init07", "uniform", "steady"),
    ("i1", "init07", "uniform", "WAF"),
    ("i1", "init07", "zipf", "steady"),
    ("i1", "init07", "zipf", "WAF"),
    ("wd", "wa14", "read-only share s0.4", "steady"),
    ("wd", "wa14", "read-only share s0.4", RELATIVE),
    ("i4i", "i4i-aws", "uniform", "steady"),
    // The size of superblocks.
    ("h0", "wa28", "", "zone"),
    ("s0", "wa28", "", "zone"),
    ("wd", "wa28", "", "zone"),
    ("mp0", "wa28", "", "zone"),
    ("i1", "wa28", "", "zone"),
    ("i1", "wa30", "zones of 8192 MiB, 1 open", "zone"),
    // The steps of relocation.
    ("mp0", "lat10", "", "write p99"),
    ("mp0", "lat10", "", "knee"),
];
/// Units whose runs with 80 and 90 % read-only pages decided the static wear levelling of
/// the class.
const FITTED_LEVELLING: [&str; 3] = ["h0", "s0", "wd"];
/// Figures for which all units together decided a value of the class.
const FITTED_CLASS: [&str; 2] = ["read p99 us", "write p50 us"];

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
    /// Interval of the prediction.
    pub interval: (f64, f64),
    /// Largest deviation of a hit, in per cent.
    pub limit_percent: f64,
    /// True within the limit.
    pub hit: bool,
    /// True if this figure decided a parameter of the unit.
    pub fitted: bool,
    /// False if the drive was still changing: shown, not counted.
    pub counted: bool,
    /// True if the figure is counted and decided no parameter of its unit.
    pub judged: bool,
}

impl Figure {
    /// Deviation of the prediction in per cent.
    #[must_use]
    pub fn off_percent(&self) -> f64 {
        (self.predicted / self.measured - 1.0) * 100.0
    }

    /// Logarithm of measured over predicted.
    #[must_use]
    pub fn error(&self) -> f64 {
        let from = origin(self.figure);
        ((self.measured + from) / (self.predicted + from)).ln()
    }

    /// True if the measured value lies in the interval.
    #[must_use]
    pub fn covered(&self) -> bool {
        (self.interval.0..=self.interval.1).contains(&self.measured)
    }
}

/// A prediction with its interval.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// The prediction of the drive.
    pub value: Value,
    /// The interval.
    pub interval: (f64, f64),
}

/// The predictions `values` for `unit`, with intervals from `draws` of the same case and
/// from `errors`.
#[must_use]
pub fn with_intervals(
    unit: &str,
    values: &[Value],
    draws: &[&[Value]],
    errors: &Errors,
) -> Vec<Prediction> {
    let of = |value: &Value| {
        let same = |other: &&Value| (&other.at, other.figure) == (&value.at, value.figure);
        let from = origin(value.figure);
        let drawn = draws.iter().filter_map(|draw| draw.iter().find(same));
        let spread = deviation(&drawn.map(|one| (one.value + from).ln()).collect::<Vec<_>>());
        let (low, high) = errors.interval(unit, value.figure, spread);
        let at = value.value + from;
        let interval = ((at * low - from).max(0.0), at * high - from);
        Prediction { value: value.clone(), interval }
    };
    values.iter().map(of).collect()
}

/// Standard deviation of `values`, 0 with less than two.
fn deviation(values: &[f64]) -> f64 {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|one| (one - mean).powi(2)).sum();
    if count < 2.0 { 0.0 } else { (squares / (count - 1.0)).sqrt() }
}

/// Value from which factors of `figure` count: cliffs are the starts of bins and may be
/// 0.
fn origin(figure: &str) -> f64 {
    if figure.starts_with("cliff") { CLIFF_RESOLUTION } else { 0.0 }
}

/// Largest deviation of a hit in per cent.
fn limit_percent(value: &Value) -> f64 {
    match value.figure {
        "fresh MB/s" => 10.0,
        "steady MB/s" if value.at == "uniform" => 10.0,
        "WAF of collection" | "zone WAF of collection" => 5.0,
        figure if figure.starts_with("cliff") || figure.ends_with("us") => 25.0,
        _ => 15.0,
    }
}

/// Measured figures of `case` against `predictions`. `shipped` tells that the drive is
/// the shipped one, which some figures decided.
#[must_use]
pub fn figures(
    case: &Case,
    predictions: &[Prediction],
    measured: &[(Value, bool)],
    shipped: bool,
) -> Vec<Figure> {
    let one = |(measured, counted): &(Value, bool)| {
        let found = predictions
            .iter()
            .find(|one| (&one.value.at, one.value.figure) == (&measured.at, measured.figure))?;
        let (predicted, limit) = (found.value.value, limit_percent(measured));
        let near = (measured.value - predicted).abs();
        let cliff = measured.figure.starts_with("cliff") && near <= CLIFF_RESOLUTION + 1e-9;
        let hit = match &case.kind {
            Kind::Sweep(_, offered) if measured.figure == KNEE => {
                step(offered, measured.value).abs_diff(step(offered, predicted)) <= 1
            }
            _ => ((predicted / measured.value - 1.0) * 100.0).abs() <= limit || cliff,
        };
        let fitted = |row: &(&str, &str, &str, &str)| {
            (row.0, row.1) == (&*case.unit, &*case.experiment)
                && measured.at.starts_with(row.2)
                && measured.figure.starts_with(row.3)
        };
        let levelling = FITTED_LEVELLING.contains(&&*case.unit)
            && case.read_only_percent.is_some_and(|share| share >= 80.0)
            && ["steady MB/s", RELATIVE].contains(&measured.figure);
        let class = FITTED_CLASS.contains(&measured.figure);
        let own = levelling || FITTED.iter().any(fitted);
        Some(Figure {
            unit: case.unit.clone(),
            experiment: case.experiment.clone(),
            pattern: measured.at.clone(),
            figure: measured.figure,
            measured: measured.value,
            predicted,
            interval: found.interval,
            limit_percent: limit,
            hit,
            fitted: shipped && (own || class),
            counted: *counted,
            judged: *counted && !(shipped && own),
        })
    };
    measured.iter().filter_map(one).collect()
}

/// Index of the step at `rate` or the first above it.
fn step(offered: &[f64], rate: f64) -> usize {
    offered.iter().position(|one| *one >= rate).unwrap_or(offered.len())
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
    /// Judged values within the interval, and all.
    pub covered: (usize, usize),
    /// Median deviation of predicted figures in per cent.
    pub median_off_percent: f64,
    /// Ends of the interval of a further unit over its prediction.
    pub interval_factors: (f64, f64),
}

/// Counts hits of `figures` per figure, over all units. `errors` give the intervals.
#[must_use]
pub fn hits(figures: &[Figure], errors: &Errors) -> Vec<Hits> {
    let mut names: Vec<&'static str> = Vec::new();
    for figure in figures {
        if !names.contains(&figure.figure) {
            names.push(figure.figure);
        }
    }
    let count = |of: &[&Figure], hit: fn(&Figure) -> bool| {
        (of.iter().filter(|one| hit(one)).count(), of.len())
    };
    let of_name = |name: &'static str| {
        let counted: Vec<&Figure> =
            figures.iter().filter(|one| one.figure == name && one.counted).collect();
        let (fitted, predicted): (Vec<&Figure>, Vec<&Figure>) =
            counted.iter().partition(|one| one.fitted);
        let judged: Vec<&Figure> = counted.iter().copied().filter(|one| one.judged).collect();
        let mut off: Vec<f64> = predicted.iter().map(|one| one.off_percent().abs()).collect();
        off.sort_by(f64::total_cmp);
        Hits {
            unit: "all".to_owned(),
            figure: name,
            fitted: count(&fitted, |one| one.hit),
            predicted: count(&predicted, |one| one.hit),
            covered: count(&judged, Figure::covered),
            median_off_percent: if off.is_empty() { 0.0 } else { middle(&off) },
            interval_factors: errors.interval("", name, 0.0),
        }
    };
    names.into_iter().map(of_name).collect()
}

/// Errors of `figures` as rows for `errors.csv`.
pub fn error_rows(figures: &[Figure], left_out: &str) -> String {
    let mut by_figure: BTreeMap<(&str, &str), String> = BTreeMap::new();
    for one in figures.iter().filter(|one| one.judged) {
        let errors = by_figure.entry((one.unit.as_str(), one.figure)).or_default();
        let gap = if errors.is_empty() { "" } else { " " };
        let _ = write!(errors, "{gap}{:.3}", one.error());
    }
    let row = |((unit, figure), errors): (&(&str, &str), &String)| {
        format!("{left_out},{unit},{},{errors}\n", figure.replace(',', ""))
    };
    by_figure.iter().map(row).collect()
}
