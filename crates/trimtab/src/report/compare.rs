//! Comparison of runs.

use super::run::instant;
use trimtab_drive::units::three_digits;
use trimtab_sim::analysis::compare::runs::{BaselineComparison, ComparisonRow, Side};
use trimtab_sim::analysis::compare::{ComparisonVerdict, MATTERS_FROM, MetricComparison};
use trimtab_sim::run::shown::{quantity, ratio};
use trimtab_sim::run::{Run, Series, Severity, Unit, Warning};
use trimtab_study::document::{Chart, Document, Section, SectionBlock, Table};

/// A report that compares `others` with the first side, the baseline.
#[must_use]
pub fn document(sides: &[Side<'_>], ids: &[String], confidence: f64, others: &[BaselineComparison], warnings: &[Warning]) -> Document {
    let mut sections = Vec::new();
    let baseline = sides.first().map_or("", |side| side.label);
    for (side, against) in sides.iter().skip(1).zip(others) {
        let mut blocks = Vec::new();
        for (caption, rows) in [("", &against.figures), ("Latency percentiles; each phase of that name is a repeat", &against.latencies)] {
            if !rows.is_empty() {
                blocks.push(SectionBlock::Table(table(caption, baseline, side.label, confidence, rows)));
            }
        }
        if against.figures.iter().any(|row| row.comparison.interval.is_none() && row.comparison.verdict == ComparisonVerdict::CannotTell) {
            blocks.push(SectionBlock::Text(
                "No verdict without an interval. An interval needs two repeats per side and positive figures.".to_owned(),
            ));
        }
        if against.figures.is_empty() {
            blocks.push(SectionBlock::Text("They share no figure.".to_owned()));
        }
        if !against.not_shared.is_empty() {
            blocks.push(SectionBlock::Text(format!("Only one of them has: {}", against.not_shared.join(", "))));
        }
        sections.push(Section::new(format!("{} against {baseline}", side.label), blocks));
    }
    if !warnings.is_empty() {
        // Warnings that may invalidate a ratio come before the ratios.
        let first = warnings.iter().any(|warning| warning.severity > Severity::Note);
        let at = if first { 0 } else { sections.len() };
        sections.insert(at, Section::new("Warnings", vec![SectionBlock::Warnings(warnings.to_vec())]));
    }
    let names: Vec<&str> = sides.iter().map(|side| side.label).collect();
    let subtitle = sides.iter().zip(ids).map(|(side, ids)| describe(side, ids)).collect();
    Document { title: format!("Comparison of {}", names.join(", ")), subtitle, sections, ..Document::default() }
}

/// Pictures with all sides in one: figures of the same unit as bars, shared series as lines.
#[must_use]
pub fn pictures(sides: &[Side<'_>]) -> Vec<SectionBlock> {
    let runs: Vec<(&str, &Run)> = sides.iter().filter_map(|side| Some((side.label, side.runs.first()?))).collect();
    let Some((_, base)) = runs.first() else { return Vec::new() };
    let mut blocks: Vec<SectionBlock> = UNITS.iter().flat_map(|unit| bars(&runs, base, *unit)).collect();
    blocks.extend(base.series.iter().filter_map(|series| lines(&runs, series)));
    blocks
}

/// Units that are drawn, in order of importance.
const UNITS: [Unit; 5] = [Unit::Seconds, Unit::MegabytesPerSecond, Unit::OpsPerSecond, Unit::Ratio, Unit::Percent];
/// Largest number of figures in a bar chart; the table has all.
const BARS_MAX: usize = 8;

/// Figures below this share of the chart's maximum get a chart of their own, where their bars
/// are visible.
const SEEN_FROM: f64 = 1.0 / 30.0;

/// Name of a figure, and its mean in each run.
type FigureMeans<'a> = (&'a String, Vec<Option<f64>>);

/// Bar charts of the figures that differ between runs, grouped by magnitude. The table has
/// the others.
fn bars(runs: &[(&str, &Run)], base: &Run, unit: Unit) -> Vec<SectionBlock> {
    let mean = |run: &Run, name: &str| {
        let samples = &run.metrics.iter().find(|m| m.name == name && m.unit == unit)?.samples;
        Some(samples.iter().sum::<f64>() / samples.len() as f64).filter(|mean| mean.is_finite())
    };
    let of_all = |name: &str| -> Vec<Option<f64>> { runs.iter().map(|(_, run)| mean(run, name)).collect() };
    let high = |values: &[Option<f64>]| values.iter().flatten().copied().fold(0.0, f64::max);
    let differ = |(_, values): &FigureMeans<'_>| {
        let low = values.iter().flatten().copied().fold(f64::MAX, f64::min);
        values.iter().flatten().count() > 1 && high(values) - low >= MATTERS_FROM * high(values) && high(values) > 0.0
    };
    let names = base.metrics.iter().filter(|m| m.unit == unit).map(|m| (&m.name, of_all(&m.name)));
    let mut figures: Vec<FigureMeans<'_>> = names.filter(differ).collect();
    figures.sort_by(|a, b| high(&b.1).total_cmp(&high(&a.1)));
    let mut pictures: Vec<Vec<FigureMeans<'_>>> = Vec::new();
    for figure in figures {
        match pictures.last_mut().filter(|of| of.len() < BARS_MAX && high(&figure.1) >= SEEN_FROM * high(&of[0].1)) {
            Some(picture) => picture.push(figure),
            None => pictures.push(vec![figure]),
        }
    }
    let drawn = |picture: Vec<FigureMeans<'_>>| {
        let (scale, name) = scale_of(high(&picture[0].1), unit);
        let series = runs.iter().enumerate().map(|(at, (label, _))| {
            ((*label).to_owned(), picture.iter().map(|(_, values)| values[at].map(|value| value * scale)).collect())
        });
        // One word per line below the bars.
        let categories = picture.iter().map(|(name, _)| without_unit(name).replace('.', " ")).collect();
        SectionBlock::Chart(Chart::bars(format!("Figures in {name}"), name, categories, series.collect()))
    };
    pictures.into_iter().map(drawn).collect()
}

/// The name of a figure without its storage unit; the picture has its own.
fn without_unit(name: &str) -> &str {
    [".seconds", ".bytes", ".ns"].iter().find_map(|unit| name.strip_suffix(unit)).unwrap_or(name)
}

/// Factor and name of the unit for a picture of figures up to `high`.
fn scale_of(high: f64, unit: Unit) -> (f64, &'static str) {
    match (unit, high) {
        (Unit::Seconds, h) if h < 1e-3 => (1e6, "µs"),
        (Unit::Seconds, h) if h < 1.0 => (1e3, "ms"),
        (Unit::Seconds, h) if h >= 7_200.0 => (1.0 / 3_600.0, "hours"),
        _ => (1.0, unit.name()),
    }
}

/// A series that the first run shares with others, in one chart.
fn lines(runs: &[(&str, &Run)], series: &Series) -> Option<SectionBlock> {
    let like = |other: &&Series| (&other.name, other.axis, other.unit) == (&series.name, series.axis, series.unit);
    let found: Vec<(&str, &Series)> =
        runs.iter().filter_map(|(label, run)| Some((*label, run.series.iter().find(like)?))).filter(|(_, s)| !s.x.is_empty()).collect();
    (found.len() > 1).then(|| super::series::together(&series.name, &found))
}

/// A side in one line.
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

fn table(caption: &str, a: &str, b: &str, confidence: f64, rows: &[ComparisonRow]) -> Table {
    let mut table = Table::new(caption, &["figure", a, b, &format!("{b} / {a}"), &interval_heading(confidence), "verdict"]);
    for row in rows {
        table.row(cells(&row.name, row.unit, &row.comparison));
        if let Some(each) = &row.per_system {
            table.row(cells(&format!("{}, per system", row.name), row.unit, each));
        }
    }
    table
}

/// `95 % interval`.
pub(super) fn interval_heading(confidence: f64) -> String {
    format!("{} % interval", three_digits(confidence * 100.0).trim_end_matches(".0"))
}

/// Name, both values, ratio, interval and verdict of a comparison.
pub(super) fn cells(name: &str, unit: Unit, comparison: &MetricComparison) -> [String; 6] {
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

#[cfg(test)]
mod tests {
    use super::*;
    use trimtab_sim::run::{Better, Metric};
    use trimtab_study::document::ChartKind;

    /// Regression: a picture of eight figures looked empty, because one of 30 s on both sides set
    /// the scale.
    #[test]
    fn bars_skip_equal_and_invisible_figures() {
        let run = |values: [f64; 5]| {
            let metrics = ["load", "wait.p99", "wait.longest", "late", "tiny"].iter().zip(values);
            let metric = |(name, value): (&&str, f64)| Metric {
                name: format!("{name}.seconds"),
                unit: Unit::Seconds,
                better: Better::Lower,
                samples: vec![value],
            };
            Run { metrics: metrics.map(metric).collect(), series: Vec::new(), ..crate::store::shape::any_run::example() }
        };
        let (a, b) = (run([30.0, 0.002_67, 0.002_67, 0.0, 1e-5]), run([30.001, 0.0667, 1.8, 3.74, 2e-5]));
        let drawn = bars(&[("A", &a), ("B", &b)], &a, Unit::Seconds);
        let seen = |block: &SectionBlock| match block {
            SectionBlock::Chart(Chart { y_label, kind: ChartKind::Bars { categories, series }, .. }) => (
                y_label.clone(),
                categories.join("; "),
                series[1].1.iter().map(|v| v.map(three_digits)).collect::<Option<Vec<_>>>().unwrap().join(" "),
            ),
            other => panic!("{other:?}"),
        };
        let own = |text: (&str, &str, &str)| (text.0.to_owned(), text.1.to_owned(), text.2.to_owned());
        assert_eq!(
            drawn.iter().map(seen).collect::<Vec<_>>(),
            [own(("s", "late; wait longest", "3.74 1.80")), own(("ms", "wait p99", "66.7")), own(("µs", "tiny", "20.0"))]
        );
        assert!(bars(&[("A", &a), ("A", &a)], &a, Unit::Seconds).is_empty());
    }
}
