//! A test of SNIA's specification: a table of its test points, the proof of each steady
//! state, the rounds.

use super::layout::NOT_STEADY;
use trimtab_drive::units::{Bytes, three_digits};
use trimtab_sim::analysis::steady::{EXCURSION_MAX, RANGE_MAX, ROUNDS as WINDOW};
use trimtab_sim::run::{Run, Series, Unit, metrics, shown};
use trimtab_sim::simulate::pts::{
    EXCURSION, MINUTE_TIME, PtsFigure, PtsPlan, PtsPoint, PtsStage, PtsTest, QUEUE_DEPTH, RANGE,
    ROUNDS, SLOPE, STEADY,
};
use trimtab_sim::workload::jobs::JobMix;
use trimtab_study::document::{Chart, ChartLine, Section, SectionBlock, Table};
use trimtab_study::study::metrics::mean;

/// Percentage points around a limit within which a verdict is uncertain.
const NEAR_LIMIT: f64 = 2.0;

/// The sections of a test's run; none for other workloads.
pub fn sections(run: &Run) -> Vec<Section> {
    let Some((plan, capacity)) = PtsPlan::of_run(run) else { return Vec::new() };
    let proofs: Vec<SectionBlock> =
        plan.stages.iter().flat_map(|stage| proof(run, &plan, stage)).collect();
    let sections = [
        ("Test points", points(run, &plan)),
        ("Steady state", proofs),
        ("Conditions", vec![SectionBlock::Text(conditions(run, &plan, capacity))]),
        ("Rounds", charts(run, &plan, capacity)),
    ];
    let sections = sections.into_iter().filter(|(_, blocks)| !blocks.is_empty());
    sections.map(|(title, blocks)| Section::new(title, blocks)).collect()
}

const fn title(figure: PtsFigure) -> &'static str {
    match figure {
        PtsFigure::Iops => "IOPS",
        PtsFigure::Rate => "MB/s",
        PtsFigure::LatencyMean => "mean latency",
        PtsFigure::LatencyTail => "99.999 % latency",
        PtsFigure::LatencyMax => "largest latency",
    }
}

/// Means over the last rounds: a table of rows and columns for each figure, or one table
/// of all figures if the test has one column.
fn points(run: &Run, plan: &PtsPlan) -> Vec<SectionBlock> {
    let points: Vec<&PtsPoint> = plan.stages.iter().flat_map(|stage| &stage.points).collect();
    let distinct = |label: fn(&PtsPoint) -> &str| {
        let mut labels: Vec<&str> = Vec::new();
        for point in &points {
            if !labels.contains(&label(point)) {
                labels.push(label(point));
            }
        }
        labels
    };
    let (rows, columns) = (distinct(|point| &point.row), distinct(|point| &point.column));
    let cell = |row: &str, column: &str, figure| {
        let of = |point: &&&PtsPoint| point.row == row && point.column == column;
        points.iter().find(of).and_then(|point| value(run, point, figure)).unwrap_or_default()
    };
    let figures = plan.test.figures();
    let mut tables = Vec::new();
    let mut table = |heading: &str, columns: &[&str], cells: &dyn Fn(&str) -> Vec<String>| {
        let header: Vec<&str> = [heading].into_iter().chain(columns.iter().copied()).collect();
        let mut table = Table::new("", &header);
        for row in &rows {
            let cells = cells(row);
            if cells.iter().any(|cell| !cell.is_empty()) {
                table.row([(*row).to_owned()].into_iter().chain(cells));
            }
        }
        if !table.rows.is_empty() {
            tables.push(table);
        }
    };
    if columns.len() > 1 {
        let mixes = if matches!(plan.test, PtsTest::Iops | PtsTest::Latency) {
            ", reads/writes in %"
        } else {
            ""
        };
        for figure in figures {
            table(&format!("{}{mixes}", title(*figure)), &columns, &|row| {
                columns.iter().map(|column| cell(row, column, *figure)).collect()
            });
        }
    } else {
        let titles: Vec<&str> = figures.iter().map(|figure| title(*figure)).collect();
        table("", &titles, &|row| {
            figures.iter().map(|figure| cell(row, columns[0], *figure)).collect()
        });
    }
    let marked = tables
        .iter()
        .flat_map(|table| table.rows.iter().flatten())
        .any(|c| c.ends_with(NOT_STEADY));
    let legend =
        format!("{NOT_STEADY} range over the window above {:.0} % of the mean", RANGE_MAX * 100.0);
    let legend = marked.then_some(SectionBlock::Text(legend));
    tables.into_iter().map(SectionBlock::Table).chain(legend).collect()
}

/// Mean of one figure, marked if its range is above the limit.
fn value(run: &Run, point: &PtsPoint, figure: PtsFigure) -> Option<String> {
    let name = format!("{}.{figure}", point.job.name);
    let of = |name: &str| run.metrics.iter().find(|metric| metric.name == name);
    let metric = of(&name)?;
    // Fewer than 100,000 requests have no such percentile: it is their largest latency.
    if figure == PtsFigure::LatencyTail
        && let Some(largest) = of(&format!("{}.{}", point.job.name, PtsFigure::LatencyMax))
        && metric.samples.iter().zip(&largest.samples).all(|(tail, largest)| tail >= largest)
    {
        return Some("-".to_owned());
    }
    let (low, high) = metric
        .samples
        .iter()
        .fold((f64::MAX, f64::MIN), |(low, high), one| (low.min(*one), high.max(*one)));
    let mean = mean(run, &name)?;
    let peak = matches!(figure, PtsFigure::LatencyMax | PtsFigure::LatencyTail);
    let shown = match metric.unit {
        Unit::Nanos => shown::quantity(if peak { high } else { mean }, metric.unit),
        _ => three_digits(mean),
    };
    let unsteady = !peak && metric.samples.len() == WINDOW && high - low > RANGE_MAX * mean;
    Some(format!("{shown}{}", if unsteady { NOT_STEADY } else { "" }))
}

fn proof(run: &Run, plan: &PtsPlan, stage: &PtsStage) -> Vec<SectionBlock> {
    let value = |name: &str| mean(run, &stage.metric(name));
    let (Some(tracked), Some(rounds)) = (stage.tracked, value(ROUNDS)) else { return Vec::new() };
    let stage_name =
        if stage.name.is_empty() { String::new() } else { format!("{}: ", stage.name) };
    let (Some(range), Some(slope), Some(excursion)) =
        (value(RANGE), value(SLOPE), value(EXCURSION))
    else {
        return vec![SectionBlock::Text(format!(
            "{stage_name}Not tested: the rule needs {WINDOW} rounds, and {rounds} were completed."
        ))];
    };
    let (point, figure) = (&stage.points[tracked], plan.test.figures()[0]);
    let kind = match point.job.mix {
        JobMix::Write => "writes",
        _ => "requests",
    };
    let mut table = Table::new("", &[&format!("{}, {kind}", point.row), "value", "limit"]);
    let quantity = |value: f64| match figure {
        PtsFigure::LatencyMean => shown::quantity(value, Unit::Nanos),
        _ => three_digits(value),
    };
    let percent = |value: f64| format!("{} %", three_digits(value));
    let limit = |limit: f64| format!("{:.0} %", limit * 100.0);
    let mut row = |name: &str, value: String, limit: String| {
        table.row([name.to_owned(), value, limit]);
    };
    let level = mean(run, &format!("{}.{figure}", point.job.name));
    row(
        &format!("mean {}", title(figure).trim_start_matches("mean ")),
        level.map(quantity).unwrap_or_default(),
        String::new(),
    );
    row("range (largest minus smallest)", percent(range), limit(RANGE_MAX));
    let sign = if slope < 0.0 { "-" } else { "" };
    row(
        "slope of the linear fit, per round",
        format!("{sign}{}", quantity(slope.abs())),
        String::new(),
    );
    row("change of the linear fit", percent(excursion), limit(EXCURSION_MAX));
    if let Some(waf) = value(metrics::WAF) {
        row("write amplification, all requests", shown::ratio(waf), String::new());
    }
    let verdict = if value(STEADY) == Some(1.0) { "Steady" } else { "Not steady" };
    let each = stage.rounds_per_value(rounds as usize);
    let means = if each > 1 { format!(" (means of {each})") } else { String::new() };
    let spare = (100.0 * RANGE_MAX - range).min(100.0 * EXCURSION_MAX - excursion);
    let near = if spare.abs() < NEAR_LIMIT {
        format!(" Within {NEAR_LIMIT} points of a limit: another seed may decide otherwise.")
    } else {
        String::new()
    };
    let text = format!(
        "{stage_name}{verdict} in rounds {} to {rounds}, the measurement window{means}.{near}",
        rounds - (WINDOW * each) as f64 + 1.0
    );
    vec![SectionBlock::Text(text), SectionBlock::Table(table)]
}

/// Chosen queue depths, and differences from a full test of a real drive.
fn conditions(run: &Run, plan: &PtsPlan, capacity: Bytes) -> String {
    let chosen = plan.stages.iter().filter_map(|stage| {
        let depth = mean(run, &stage.metric(QUEUE_DEPTH))?;
        Some(format!("{} demand: {depth} in flight. ", stage.name))
    });
    let chosen: String = chosen.collect();
    match run.settings.iter().find(|field| field.key == MINUTE_TIME) {
        Some(minute) => format!(
            "{chosen}A minute of the specification lasted {}.",
            shown::readable(MINUTE_TIME, &minute.value)
        ),
        None => format!(
            "{chosen}A new drive of {capacity} stands for a purged one, and requests of {} for a \
                minute of the specification.",
            plan.minute_bytes()
        ),
    }
}

/// The first figure of each stage, and the write amplification, over the bytes written.
fn charts(run: &Run, plan: &PtsPlan, capacity: Bytes) -> Vec<SectionBlock> {
    let points = |name: &str| {
        let Series { x, y, .. } = run.series.iter().find(|series| series.name == name)?;
        let points: Vec<(f64, f64)> =
            x.iter().zip(y).map(|(x, y)| (*x as f64 / capacity.as_f64(), *y)).collect();
        (points.len() > 1).then_some(points)
    };
    let chart = |title: &str, label: &str, lines: Vec<ChartLine>| {
        let x = "drive writes since the first round";
        (!lines.is_empty())
            .then(|| SectionBlock::Chart(Chart::lines(title, x, label, lines, Vec::new())))
    };
    let figure = plan.test.figures()[0];
    let rates = plan.stages.iter().filter_map(|stage| {
        let point = &stage.points[stage.tracked.unwrap_or(0)];
        let points = points(&format!("{}.{figure}", point.job.name))?;
        let comma = if point.column.is_empty() { "" } else { ", " };
        Some(ChartLine { name: format!("{}{comma}{}", point.row, point.column), points })
    });
    let waf = points(metrics::WAF).map(|points| ChartLine { name: "WAF".to_owned(), points });
    let label = if figure == PtsFigure::LatencyMean { "ns" } else { title(figure) };
    [
        chart("Each round", label, rates.collect()),
        chart("Write amplification, all requests", "WAF", waf.into_iter().collect()),
    ]
    .into_iter()
    .flatten()
    .collect()
}
