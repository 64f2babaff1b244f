//! `trimtab.comparison`, version 1.

use crate::store::RunId;
use serde_json::{Map, Value, json};
use trimtab_sim::analysis::compare::MetricComparison;
use trimtab_sim::analysis::compare::runs::{BaselineComparison, ComparisonRow};
use trimtab_sim::run::json::Float;
use trimtab_sim::run::{Run, Unit, Warning};

/// Version of the format.
pub const VERSION: u32 = 1;

/// The document: sides (label, runs), the comparisons of each further side with the
/// first, in their order, and warnings.
pub fn document(
    sides: &[(String, Vec<(RunId, Run)>)],
    confidence: f64,
    others: &[BaselineComparison],
    warnings: &[Warning],
) -> Value {
    let baseline = sides.first().map_or("", |(label, _)| label);
    let compared = |(label, against): (&String, &BaselineComparison)| {
        json!({
            "side": label,
            "baseline": baseline,
            "figures": against.figures.iter().map(row).collect::<Value>(),
            "latencies": against.latencies.iter().map(row).collect::<Value>(),
            "not_shared": against.not_shared,
        })
    };
    let labels = sides.iter().map(|(label, _)| label);
    json!({
        "confidence": confidence,
        "sides": sides.iter().map(|(label, runs)| json!({ "label": label, "runs": runs.iter().map(head).collect::<Value>() })).collect::<Value>(),
        "comparisons": labels.skip(1).zip(others).map(compared).collect::<Value>(),
        "warnings": warnings,
    })
}

fn head((id, run): &(RunId, Run)) -> Value {
    json!({
        "id": id,
        "workload": run.workload,
        "target_label": run.target_label,
        "policy": run.policy,
        "started_unix_ms": run.started_unix_ms,
    })
}

fn row(row: &ComparisonRow) -> Map<String, Value> {
    let named = [
        ("name", json!(row.name)),
        ("unit", json!(row.unit)),
        ("better", json!(row.better)),
        ("baseline_repeats", json!(row.repeats.0)),
        ("repeats", json!(row.repeats.1)),
    ];
    let named = named.into_iter().map(|(key, value)| (key.to_owned(), value));
    named.chain(figures(&row.comparison, row.unit)).collect()
}

/// Both values of a figure in that unit, and the verdict on them.
pub fn figures(comparison: &MetricComparison, unit: Unit) -> impl Iterator<Item = (String, Value)> {
    let all = [
        ("baseline_value", json!(Float(comparison.a))),
        ("value", json!(Float(comparison.b))),
        ("ratio", json!(comparison.ratio)),
        ("interval", json!(comparison.interval.map(|interval| [interval.low, interval.high]))),
        ("verdict", json!(comparison.verdict.words(unit))),
    ];
    all.into_iter().map(|(key, value)| (key.to_owned(), value))
}
