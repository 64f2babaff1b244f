//! A test of SNIA's specification: IOPS by size and mix, or write saturation; the proof
//! of the steady state.

use super::layout::NOT_STEADY;
use super::run::document as of_run;
use trimtab_drive::units::{Bytes, three_digits};
use trimtab_sim::analysis::steady::{EXCURSION_MAX, RANGE_MAX, ROUNDS as WINDOW};
use trimtab_sim::run::{Run, Series, metrics, shown};
use trimtab_sim::simulate::pts::{
    BLOCKS, EXCURSION, IOPS, RANGE, READS, ROUNDS, SLOPE, STEADY, point_name, tracked_name,
};
use trimtab_study::document::{Chart, ChartLine, Document, Section, SectionBlock, Table};
use trimtab_study::study::metrics::mean;

/// A report about one run on a drive of `capacity`, whose test points or rounds transfer
/// `point_bytes` each. `trimtab results show` prints the rest.
#[must_use]
pub fn document(run: &Run, capacity: Bytes, point_bytes: Bytes) -> Document {
    let mut document = of_run(run);
    document.sections.retain(|section| section.title == "Warnings");
    let points = if run.workload == IOPS { points(run) } else { Vec::new() };
    let sections = [
        ("IOPS by size and mix of requests", points),
        ("Steady state", proof(run, capacity, point_bytes)),
        ("Rounds", charts(run, capacity)),
    ];
    let sections = sections.into_iter().filter(|(_, blocks)| !blocks.is_empty());
    document.sections.splice(0..0, sections.map(|(title, blocks)| Section::new(title, blocks)));
    document
}

/// Mean IOPS of each test point, marked if its range is above the limit.
fn points(run: &Run) -> Vec<SectionBlock> {
    let mixes: Vec<String> = READS.iter().map(|reads| format!("{reads}/{}", 100 - reads)).collect();
    let header: Vec<&str> =
        ["reads/writes, %"].into_iter().chain(mixes.iter().map(String::as_str)).collect();
    let mut table = Table::new("", &header);
    let cell = |name: &str| {
        let samples = &run.metrics.iter().find(|metric| metric.name == name)?.samples;
        let (low, high) = samples
            .iter()
            .fold((f64::MAX, f64::MIN), |(low, high), rate| (low.min(*rate), high.max(*rate)));
        let mean = mean(run, name)?;
        Some(format!(
            "{}{}",
            three_digits(mean),
            if high - low > RANGE_MAX * mean { NOT_STEADY } else { "" }
        ))
    };
    for (_, block) in BLOCKS {
        let rates: Vec<String> =
            READS.iter().filter_map(|reads| cell(&point_name(*reads, block))).collect();
        if !rates.is_empty() {
            table.row([block.to_owned()].into_iter().chain(rates));
        }
    }
    if table.rows.is_empty() {
        return Vec::new();
    }
    let marked = table.rows.iter().flatten().any(|cell| cell.ends_with(NOT_STEADY));
    let legend =
        format!("{NOT_STEADY} range over the window above {:.0} % of the mean", RANGE_MAX * 100.0);
    std::iter::once(SectionBlock::Table(table))
        .chain(marked.then_some(SectionBlock::Text(legend)))
        .collect()
}

fn proof(run: &Run, capacity: Bytes, point_bytes: Bytes) -> Vec<SectionBlock> {
    let value = |name: &str| mean(run, name);
    let Some(rounds) = value(ROUNDS) else { return Vec::new() };
    let (Some(range), Some(slope), Some(excursion)) =
        (value(RANGE), value(SLOPE), value(EXCURSION))
    else {
        return vec![SectionBlock::Text(format!(
            "Not tested: the rule needs {WINDOW} rounds, and {rounds} were completed."
        ))];
    };
    let mut table = Table::new("", &["4 KiB random writes", "value", "limit"]);
    let percent = |value: f64| format!("{} %", three_digits(value));
    let limit = |limit: f64| format!("{:.0} %", limit * 100.0);
    let mut row =
        |name: &str, value: String, limit: String| table.row([name.to_owned(), value, limit]);
    row("mean IOPS", value(&tracked_name()).map(three_digits).unwrap_or_default(), String::new());
    row("range (largest minus smallest)", percent(range), limit(RANGE_MAX));
    let sign = if slope < 0.0 { "-" } else { "" };
    row(
        "slope of the linear fit, IOPS per round",
        format!("{sign}{}", three_digits(slope.abs())),
        String::new(),
    );
    row("change of the linear fit", percent(excursion), limit(EXCURSION_MAX));
    row(
        "write amplification, all requests",
        value(metrics::WAF).map(shown::ratio).unwrap_or_default(),
        String::new(),
    );
    let verdict = if value(STEADY) == Some(1.0) { "Steady" } else { "Not steady" };
    let text = format!(
        "{verdict} in rounds {} to {rounds}, the measurement window.",
        rounds - WINDOW as f64 + 1.0
    );
    vec![
        SectionBlock::Text(text),
        SectionBlock::Table(table),
        SectionBlock::Text(conditions(run, capacity, point_bytes)),
    ]
}

/// Differences from a test of a real drive.
fn conditions(run: &Run, capacity: Bytes, point_bytes: Bytes) -> String {
    let rounds = if run.workload == IOPS {
        format!(
            "Two sequential capacities of 128 KiB writes came first. Each test point \
                transferred {point_bytes}"
        )
    } else {
        format!("Each round wrote {point_bytes}")
    };
    format!(
        "A new drive of {capacity} stands for a purged one. {rounds} instead of lasting one minute."
    )
}

fn charts(run: &Run, capacity: Bytes) -> Vec<SectionBlock> {
    let chart = |name: &str, title: &str, label: &str| {
        let Series { x, y, .. } = run.series.iter().find(|series| series.name == name)?;
        let points = x.iter().zip(y).map(|(x, y)| (*x as f64 / capacity.as_f64(), *y)).collect();
        let line = ChartLine { name: label.to_owned(), points };
        Some(SectionBlock::Chart(Chart::lines(
            title,
            "drive writes since the first round",
            label,
            vec![line],
            Vec::new(),
        )))
    };
    [
        chart(&tracked_name(), "4 KiB random writes", "IOPS"),
        chart(metrics::WAF, "Write amplification, all requests", "WAF"),
    ]
    .into_iter()
    .flatten()
    .collect()
}
