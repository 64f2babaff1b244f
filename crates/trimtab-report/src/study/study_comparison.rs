//! Compares studies run by run.

use crate::compare::cells;
use trimtab_sim::analysis::compare::ComparisonOptions;
use trimtab_sim::analysis::compare::runs::{ComparisonRow, Side, against};
use trimtab_sim::run::Run;
use trimtab_sim::run::shown::headline;
use trimtab_study::document::{SectionBlock, Table};
use trimtab_study::study::Study;
use trimtab_study::study::metrics::setting;

/// Identifies a run within its study.
fn cell(run: &Run) -> String {
    let parts: Vec<&str> = [run.workload.as_str(), run.policy.as_str()]
        .into_iter()
        .chain(setting(run, "fill"))
        .filter(|part| !part.is_empty())
        .collect();
    parts.join(", ")
}

/// Runs that both studies have, each with its headline metric.
#[must_use]
pub fn headlines(
    base: &Study,
    other: &Study,
    options: &ComparisonOptions,
) -> Vec<(String, ComparisonRow)> {
    let mut pairs = Vec::new();
    for a in base.all() {
        let Some(b) = other.all().find(|b| cell(b) == cell(a)) else { continue };
        let Some(metric) = headline(a.metrics.clone()) else { continue };
        let side = |label, run| Side { label, runs: std::slice::from_ref(run) };
        let rows = against(side("A", a), side("B", b), options).figures;
        pairs.extend(
            rows.into_iter().filter(|row| row.name == metric.name).map(|row| (cell(a), row)),
        );
    }
    pairs
}

/// Runs that only one of the studies has.
#[must_use]
pub fn only_in_one(base: &Study, other: &Study) -> Vec<String> {
    let lacks = |of: &Study, run: &Run| !of.all().any(|other| cell(other) == cell(run));
    base.all()
        .filter(|run| lacks(other, run))
        .chain(other.all().filter(|run| lacks(base, run)))
        .map(cell)
        .collect()
}

/// A table of matching runs of two studies, and the unmatched runs.
#[must_use]
pub fn blocks(
    [base, other]: [&str; 2],
    rows: &[(String, ComparisonRow)],
    only: &[String],
) -> Vec<SectionBlock> {
    let title = "The figure that matters of each run; compare two runs for all others.";
    let mut table = Table::new(title, &["run", "figure", base, other, "ratio", "verdict"]);
    for (cell, row) in rows {
        let [name, a, b, ratio, _, verdict] = cells(&row.name, row.unit, &row.comparison);
        table.row([cell.clone(), name, a, b, ratio, verdict]);
    }
    let mut blocks = vec![if rows.is_empty() {
        SectionBlock::Text("They share no run.".to_owned())
    } else {
        SectionBlock::Table(table)
    }];
    if !only.is_empty() {
        blocks.push(SectionBlock::Text(format!("Only one of them has: {}", only.join("; "))));
    }
    blocks
}
