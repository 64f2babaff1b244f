//! Predictions against measurements.

use super::cases::{Case, KNEE, Kind, RELATIVE, Value};
use serde::Serialize;

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
    /// Interval: the figures of all draws of the assumed values.
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

/// A prediction with its interval.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// The prediction of the drive.
    pub value: Value,
    /// Least and largest figure of the draws, the prediction among them.
    pub interval: (f64, f64),
}

/// The predictions `values`, with intervals from `draws` of the same case.
#[must_use]
pub fn with_intervals(values: &[Value], draws: &[&[Value]]) -> Vec<Prediction> {
    let of = |value: &Value| {
        let same = |other: &&Value| (&other.at, other.figure) == (&value.at, value.figure);
        let drawn = draws.iter().filter_map(|draw| draw.iter().find(same)).map(|other| other.value);
        let all = || drawn.clone().chain([value.value]);
        let interval =
            (all().fold(f64::INFINITY, f64::min), all().fold(f64::NEG_INFINITY, f64::max));
        Prediction { value: value.clone(), interval }
    };
    values.iter().map(of).collect()
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
        // A bin is the resolution of both cliffs.
        let slack =
            if measured.figure.starts_with("cliff") { CLIFF_RESOLUTION + 1e-9 } else { 0.0 };
        Some(Figure {
            unit: case.unit.clone(),
            experiment: case.experiment.clone(),
            pattern: measured.at.clone(),
            figure: measured.figure,
            measured: measured.value,
            predicted,
            interval: (found.interval.0 - slack, found.interval.1 + slack),
            limit_percent: limit,
            hit,
            fitted: shipped
                && (levelling
                    || FITTED.iter().any(fitted)
                    || FITTED_CLASS.contains(&measured.figure)),
            counted: *counted,
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
    let count = |of: &[&Figure], hit: fn(&Figure) -> bool| {
        (of.iter().filter(|one| hit(one)).count(), of.len())
    };
    let of_name = |name: &'static str| {
        let counted: Vec<&Figure> =
            figures.iter().filter(|one| one.figure == name && one.counted).collect();
        let (fitted, predicted): (Vec<&Figure>, Vec<&Figure>) =
            counted.iter().partition(|one| one.fitted);
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
