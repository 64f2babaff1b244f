//! `trimtab.comparison`, version 1.

use crate::store::RunId;
use serde::Serialize;
use trimtab_sim::analysis::compare::MetricComparison;
use trimtab_sim::analysis::compare::runs::{BaselineComparison, ComparisonRow};
use trimtab_sim::run::json::Float;
use trimtab_sim::run::{Better, Run, Unit, Warning};

/// Version of the format.
pub const VERSION: u32 = 1;

/// Sides, comparisons of each further side with the first, and warnings.
#[derive(Debug, Serialize)]
pub struct ComparisonV1<'a> {
    confidence: f64,
    sides: Vec<SideV1<'a>>,
    comparisons: Vec<BaselineComparisonV1<'a>>,
    warnings: &'a [Warning],
}

#[derive(Debug, Serialize)]
struct SideV1<'a> {
    label: &'a str,
    runs: Vec<HeadV1<'a>>,
}

#[derive(Debug, Serialize)]
struct HeadV1<'a> {
    id: RunId,
    workload: &'a str,
    target_label: &'a str,
    policy: &'a str,
    started_unix_ms: u64,
    systems: u32,
}

#[derive(Debug, Serialize)]
struct BaselineComparisonV1<'a> {
    side: &'a str,
    baseline: &'a str,
    figures: Vec<RowV1<'a>>,
    latencies: Vec<RowV1<'a>>,
    not_shared: &'a [String],
}

#[derive(Debug, Serialize)]
struct RowV1<'a> {
    name: &'a str,
    unit: Unit,
    better: Better,
    baseline_repeats: usize,
    repeats: usize,
    #[serde(flatten)]
    comparison: FiguresV1,
    per_system: Option<FiguresV1>,
}

/// Both values of a figure, and the verdict on them.
#[derive(Debug, Serialize)]
pub struct FiguresV1 {
    baseline_value: Float,
    value: Float,
    ratio: Option<f64>,
    interval: Option<[f64; 2]>,
    verdict: &'static str,
}

impl<'a> ComparisonV1<'a> {
    /// Builds it from sides (label, runs), the first being the baseline, and from the results of
    /// the further sides in their order.
    #[must_use]
    pub fn new(
        sides: &'a [(String, Vec<(RunId, Run)>)],
        confidence: f64,
        others: &'a [BaselineComparison],
        warnings: &'a [Warning],
    ) -> Self {
        let baseline = sides.first().map_or("", |(label, _)| label);
        let comparisons = sides.iter().skip(1).zip(others).map(|((side, _), against)| BaselineComparisonV1 {
            side,
            baseline,
            figures: against.figures.iter().map(RowV1::new).collect(),
            latencies: against.latencies.iter().map(RowV1::new).collect(),
            not_shared: &against.not_shared,
        });
        let sides = sides.iter().map(|(label, runs)| SideV1 { label, runs: runs.iter().map(HeadV1::new).collect() });
        Self { confidence, sides: sides.collect(), comparisons: comparisons.collect(), warnings }
    }
}

impl<'a> HeadV1<'a> {
    fn new((id, run): &'a (RunId, Run)) -> Self {
        let Run { workload, target_label, policy, started_unix_ms, systems, .. } = run;
        Self { id: *id, workload, target_label, policy, started_unix_ms: *started_unix_ms, systems: *systems }
    }
}

impl<'a> RowV1<'a> {
    fn new(row: &'a ComparisonRow) -> Self {
        Self {
            name: &row.name,
            unit: row.unit,
            better: row.better,
            baseline_repeats: row.repeats.0,
            repeats: row.repeats.1,
            comparison: FiguresV1::new(&row.comparison, row.unit),
            per_system: row.per_system.as_ref().map(|c| FiguresV1::new(c, row.unit)),
        }
    }
}

impl FiguresV1 {
    /// Builds it from a comparison of figures in that unit.
    pub fn new(comparison: &MetricComparison, unit: Unit) -> Self {
        Self {
            baseline_value: Float(comparison.a),
            value: Float(comparison.b),
            ratio: comparison.ratio,
            interval: comparison.interval.map(|i| [i.low, i.high]),
            verdict: comparison.verdict.words(unit),
        }
    }
}
