//! `trimtab.comparison`, version 1.

use super::{Entries, Float, Name};
use crate::store::RunId;
use serde::Serialize;
use trimtab_sim::analysis::compare::Comparison;
use trimtab_sim::analysis::compare::runs::{Against, Row};
use trimtab_sim::run::{Better, Run, Severity, Unit, Warning};

/// Version of the shape.
pub const VERSION: u32 = 1;

/// Sides, the comparisons of the others with the first, and warnings.
#[derive(Debug, Serialize)]
pub struct ComparisonV1 {
    confidence: f64,
    sides: Vec<SideV1>,
    comparisons: Vec<AgainstV1>,
    warnings: Vec<WarningV1>,
}

#[derive(Debug, Serialize)]
struct SideV1 {
    label: String,
    runs: Vec<HeadV1>,
}

#[derive(Debug, Serialize)]
struct HeadV1 {
    id: String,
    workload: String,
    target_label: String,
    policy: String,
    started_unix_ms: u64,
    systems: u32,
}

#[derive(Debug, Serialize)]
struct AgainstV1 {
    side: String,
    baseline: String,
    figures: Vec<RowV1>,
    latencies: Vec<RowV1>,
    not_shared: Vec<String>,
}

#[derive(Debug, Serialize)]
struct RowV1 {
    name: String,
    unit: Name<Unit>,
    better: Name<Better>,
    baseline_repeats: usize,
    repeats: usize,
    #[serde(flatten)]
    comparison: FiguresV1,
    per_system: Option<FiguresV1>,
}

#[derive(Debug, Serialize)]
struct FiguresV1 {
    baseline_value: Float,
    value: Float,
    ratio: Option<f64>,
    interval: Option<[f64; 2]>,
    verdict: &'static str,
}

#[derive(Debug, Serialize)]
struct WarningV1 {
    code: String,
    severity: Name<Severity>,
    facts: Entries<String, String>,
    text: String,
}

impl ComparisonV1 {
    /// Of sides (label, runs), the first of which is the baseline, and of the others' results in their order.
    #[must_use]
    pub fn new(sides: &[(String, Vec<(RunId, Run)>)], confidence: f64, others: &[Against], warnings: &[Warning]) -> Self {
        let baseline = sides.first().map(|(label, _)| label.clone()).unwrap_or_default();
        let comparisons = sides.iter().skip(1).zip(others).map(|((label, _), against)| AgainstV1 {
            side: label.clone(),
            baseline: baseline.clone(),
            figures: against.figures.iter().map(RowV1::new).collect(),
            latencies: against.latencies.iter().map(RowV1::new).collect(),
            not_shared: against.not_shared.clone(),
        });
        Self {
            confidence,
            sides: sides.iter().map(|(label, runs)| SideV1::new(label, runs)).collect(),
            comparisons: comparisons.collect(),
            warnings: warnings.iter().map(WarningV1::new).collect(),
        }
    }
}

impl SideV1 {
    fn new(label: &str, runs: &[(RunId, Run)]) -> Self {
        let head = |(id, run): &(RunId, Run)| HeadV1 {
            id: id.to_string(),
            workload: run.workload.clone(),
            target_label: run.target_label.clone(),
            policy: run.policy.clone(),
            started_unix_ms: run.started_unix_ms,
            systems: run.systems,
        };
        Self { label: label.to_owned(), runs: runs.iter().map(head).collect() }
    }
}

impl RowV1 {
    fn new(row: &Row) -> Self {
        Self {
            name: row.name.clone(),
            unit: Name(row.unit),
            better: Name(row.better),
            baseline_repeats: row.repeats.0,
            repeats: row.repeats.1,
            comparison: FiguresV1::new(&row.comparison, row.unit),
            per_system: row.per_system.as_ref().map(|c| FiguresV1::new(c, row.unit)),
        }
    }
}

impl FiguresV1 {
    fn new(comparison: &Comparison, unit: Unit) -> Self {
        Self {
            baseline_value: Float(comparison.a),
            value: Float(comparison.b),
            ratio: comparison.ratio,
            interval: comparison.interval.map(|i| [i.low, i.high]),
            verdict: comparison.verdict.words(unit),
        }
    }
}

impl WarningV1 {
    fn new(warning: &Warning) -> Self {
        Self {
            code: warning.code.clone(),
            severity: Name(warning.severity),
            facts: Entries(warning.facts.iter().map(|f| (f.key.clone(), f.value.clone())).collect()),
            text: warning.text.clone(),
        }
    }
}
