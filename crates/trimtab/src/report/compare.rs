//! Runs beside each other.

use super::document::{Block, Chart, ChartKind, Document, Section, Table};
use super::run::{instant, quantity};
use trimtab_core::analysis::compare::runs::{Against, Row, Side};
use trimtab_core::analysis::compare::{Comparison, Verdict};
use trimtab_core::run::{Run, Series, Unit, Warning};
use trimtab_core::units::three_digits;

/// A report about sides, the first of which is the baseline, and about the others against it, in their order.
#[must_use]
pub fn document(sides: &[Side<'_>], ids: &[String], confidence: f64, others: &[Against], warnings: &[Warning]) -> Document {
    let mut sections = Vec::new();
    let baseline = sides.first().map_or("", |side| side.label);
    for (side, against) in sides.iter().skip(1).zip(others) {
        let mut blocks = Vec::new();
        for (caption, rows) in [("", &against.figures), ("Latency percentiles, a repeat for each phase of the name", &against.latencies)] {
            if !rows.is_empty() {
                blocks.push(Block::Table(table(caption, baseline, side.label, confidence, rows)));
            }
        }
        if against.figures.iter().any(|row| row.comparison.interval.is_none() && row.comparison.verdict == Verdict::CannotTell) {
            blocks.push(Block::Text(
                "Without an interval nobody can tell: it needs three repeats a side, five of medians, and positive figures.".to_owned(),
            ));
        }
        if against.figures.is_empty() {
            blocks.push(Block::Text("They share no figure.".to_owned()));
        }
        if !against.not_shared.is_empty() {
            blocks.push(Block::Text(format!("Only one of them has: {}", against.not_shared.join(", "))));
        }
        sections.push(Section::new(format!("{} against {baseline}", side.label), blocks));
    }
    if !warnings.is_empty() {
        sections.push(Section::new("Warnings", vec![Block::Warnings(warnings.to_vec())]));
    }
    let names: Vec<&str> = sides.iter().map(|side| side.label).collect();
    let subtitle = sides.iter().zip(ids).map(|(side, ids)| describe(side, ids)).collect();
    Document { title: format!("Comparison of {}", names.join(", ")), subtitle, sections, ..Document::default() }
}

/// Pictures with all sides in one: figures of the same unit as bars, and series that they share as lines.
#[must_use]
pub fn pictures(sides: &[Side<'_>]) -> Vec<Block> {
    let runs: Vec<(&str, &Run)> = sides.iter().filter_map(|side| Some((side.label, side.runs.first()?))).collect();
    let Some((_, base)) = runs.first() else { return Vec::new() };
    let mut blocks: Vec<Block> = UNITS.iter().filter_map(|unit| bars(&runs, base, *unit)).collect();
    blocks.extend(base.series.iter().filter_map(|series| lines(&runs, series)));
    blocks
}

/// Units whose figures are drawn, the most telling first.
const UNITS: [Unit; 5] = [Unit::Seconds, Unit::MegabytesPerSecond, Unit::OpsPerSecond, Unit::Ratio, Unit::Percent];
/// Figures in a picture of bars, at most; the table has all.
const BARS_MAX: usize = 8;

fn bars(runs: &[(&str, &Run)], base: &Run, unit: Unit) -> Option<Block> {
    let mean = |run: &Run, name: &str| {
        let samples = &run.metrics.iter().find(|m| m.name == name && m.unit == unit)?.samples;
        Some(samples.iter().sum::<f64>() / samples.len() as f64)
    };
    let shared = |name: &&String| runs.iter().filter(|(_, run)| mean(run, name).is_some()).count() > 1;
    let names = base.metrics.iter().filter(|m| m.unit == unit).map(|m| &m.name).filter(shared).take(BARS_MAX);
    let categories: Vec<String> = names.cloned().collect();
    let series = |(label, run): &(&str, &Run)| ((*label).to_owned(), categories.iter().map(|name| mean(run, name)).collect());
    (!categories.is_empty()).then(|| {
        Block::Chart(Chart {
            title: format!("Figures in {}", unit.name()),
            x_label: String::new(),
            y_label: unit.name().to_owned(),
            // A word a line below the bars.
            kind: ChartKind::Bars {
                categories: categories.iter().map(|name| name.replace('.', " ")).collect(),
                series: runs.iter().map(series).collect(),
            },
        })
    })
}

/// A series of the first that others have too, all in one picture.
fn lines(runs: &[(&str, &Run)], series: &Series) -> Option<Block> {
    let like = |other: &&Series| (&other.name, other.axis, other.unit) == (&series.name, series.axis, series.unit);
    let found: Vec<(&str, &Series)> =
        runs.iter().filter_map(|(label, run)| Some((*label, run.series.iter().find(like)?))).filter(|(_, s)| !s.x.is_empty()).collect();
    (found.len() > 1).then(|| super::series::together(&series.name, &found))
}

/// What a side is, in a line.
fn describe(side: &Side<'_>, ids: &str) -> String {
    let Some(run) = side.runs.first() else { return side.label.to_owned() };
    let mut line = format!("{} = {ids}: {} on {}", side.label, run.workload, run.target_label);
    if !run.policy.is_empty() {
        line.push_str(&format!(", policy {}", run.policy));
    }
    if run.systems > 1 {
        line.push_str(&format!(", sum of {} systems", run.systems));
    }
    if run.started_unix_ms > 0 {
        line.push_str(&format!(", {}", instant(run.started_unix_ms)));
    }
    line
}

fn table(caption: &str, a: &str, b: &str, confidence: f64, rows: &[Row]) -> Table {
    let interval = format!("{} % interval", three_digits(confidence * 100.0).trim_end_matches(".0"));
    let mut table = Table::new(caption, &["figure", a, b, &format!("{b} / {a}"), &interval, "verdict"]);
    for row in rows {
        table.row(cells(&row.name, row.unit, &row.comparison));
        if let Some(each) = &row.per_system {
            table.row(cells(&format!("{}, per system", row.name), row.unit, each));
        }
    }
    table
}

fn cells(name: &str, unit: Unit, comparison: &Comparison) -> [String; 6] {
    [
        name.to_owned(),
        quantity(comparison.a, unit),
        quantity(comparison.b, unit),
        comparison.ratio.map_or_else(String::new, ratio),
        comparison.interval.map_or_else(String::new, |i| {
            if i.low == i.high { "exact".to_owned() } else { format!("{} to {}", ratio(i.low), ratio(i.high)) }
        }),
        comparison.in_words(unit),
    ]
}

/// A ratio with three digits that say something: 0.0160, 0.983, 64.2.
pub fn ratio(value: f64) -> String {
    let decimals = match value {
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        v if v >= 1.0 => 2,
        v if v >= 0.1 => 3,
        v if v >= 0.01 => 4,
        _ => return format!("{value:.2e}"),
    };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_have_three_digits() {
        assert_eq!([0.00123, 0.0161, 0.1234, 1.0, 12.34, 640.0].map(ratio), ["1.23e-3", "0.0161", "0.123", "1.00", "12.3", "640"]);
    }
}
