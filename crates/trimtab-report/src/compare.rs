//! Comparison of runs.

use super::run::instant;
use trimtab_sim::analysis::compare::runs::{BaselineComparison, ComparisonRow, Side};
use trimtab_sim::analysis::compare::{ComparisonVerdict, MetricComparison};
use trimtab_sim::run::shown::{quantity, ratio};
use trimtab_sim::run::{Run, Series, Severity, Unit, Warning};
use trimtab_study::document::{Document, Section, SectionBlock, Table};

/// A report that compares `others` with the first side, the baseline.
#[must_use]
pub fn document(
    sides: &[Side<'_>],
    ids: &[String],
    others: &[BaselineComparison],
    warnings: &[Warning],
) -> Document {
    let mut sections = Vec::new();
    let baseline = sides.first().map_or("", |side| side.label);
    for (side, against) in sides.iter().skip(1).zip(others) {
        let mut blocks = Vec::new();
        for (caption, rows) in [
            ("", &against.figures),
            ("Latency percentiles; each phase of that name is a repeat", &against.latencies),
        ] {
            if !rows.is_empty() {
                blocks.push(SectionBlock::Table(table(caption, baseline, side.label, rows)));
            }
        }
        if against.figures.iter().any(|row| {
            row.comparison.interval.is_none()
                && row.comparison.verdict == ComparisonVerdict::CannotTell
                && row.comparison.a != row.comparison.b
        }) {
            blocks.push(SectionBlock::Text(
                "No verdict without an interval. An interval needs two repeats per \
                    side and positive figures."
                    .to_owned(),
            ));
        }
        if against.figures.is_empty() {
            blocks.push(SectionBlock::Text("They share no figure.".to_owned()));
        }
        if !against.not_shared.is_empty() {
            blocks.push(SectionBlock::Text(format!(
                "Only one of them has: {}",
                against.not_shared.join(", ")
            )));
        }
        sections.push(Section::new(format!("{} against {baseline}", side.label), blocks));
    }
    if !warnings.is_empty() {
        // Warnings that may invalidate a ratio come before the ratios.
        let first = warnings.iter().any(|warning| warning.severity > Severity::Note);
        let at = if first { 0 } else { sections.len() };
        sections
            .insert(at, Section::new("Warnings", vec![SectionBlock::Warnings(warnings.to_vec())]));
    }
    let names: Vec<&str> = sides.iter().map(|side| side.label).collect();
    let subtitle = sides.iter().zip(ids).map(|(side, ids)| describe(side, ids)).collect();
    Document {
        title: format!("Comparison of {}", names.join(", ")),
        subtitle,
        sections,
        ..Document::default()
    }
}

/// The series that the first run shares with others, each in one picture.
#[must_use]
pub fn pictures(sides: &[Side<'_>]) -> Vec<SectionBlock> {
    let runs: Vec<(&str, &Run)> =
        sides.iter().filter_map(|side| Some((side.label, side.runs.first()?))).collect();
    let Some((_, base)) = runs.first() else { return Vec::new() };
    base.series.iter().filter_map(|series| lines(&runs, series)).collect()
}

/// A series that the first run shares with others, in one chart.
fn lines(runs: &[(&str, &Run)], series: &Series) -> Option<SectionBlock> {
    let like = |other: &&Series| {
        (&other.name, other.axis, other.unit) == (&series.name, series.axis, series.unit)
    };
    let found: Vec<(&str, &Series)> = runs
        .iter()
        .filter_map(|(label, run)| Some((*label, run.series.iter().find(like)?)))
        .filter(|(_, s)| !s.x.is_empty())
        .collect();
    (found.len() > 1).then(|| super::series::together(&series.name, &found))
}

/// A side in one line.
fn describe(side: &Side<'_>, ids: &str) -> String {
    let Some(run) = side.runs.first() else { return side.label.to_owned() };
    let mut line = format!("{} = {ids}: {} on {}", side.label, run.workload, run.target_label);
    if !run.policy.is_empty() {
        line.push_str(&format!(", policy {}", run.policy));
    }
    if run.started_unix_ms > 0 {
        line.push_str(&format!(", {}", instant(run.started_unix_ms)));
    }
    line
}

fn table(caption: &str, a: &str, b: &str, rows: &[ComparisonRow]) -> Table {
    let mut table =
        Table::new(caption, &["figure", a, b, &format!("{b} / {a}"), "95 % interval", "verdict"]);
    for row in rows {
        table.row(cells(&row.name, row.unit, &row.comparison));
    }
    table
}

/// Name, both values, ratio, interval and verdict of a comparison.
pub(super) fn cells(name: &str, unit: Unit, comparison: &MetricComparison) -> [String; 6] {
    [
        name.to_owned(),
        quantity(comparison.a, unit),
        quantity(comparison.b, unit),
        comparison.ratio.map_or_else(String::new, ratio),
        comparison.interval.map_or_else(String::new, |i| {
            if i.low == i.high {
                "exact".to_owned()
            } else {
                format!("{} to {}", ratio(i.low), ratio(i.high))
            }
        }),
        comparison.in_words(unit),
    ]
}
