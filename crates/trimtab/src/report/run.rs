//! One run: its phases, its latencies, its figures.

use super::document::{Block, Document, Section, Table};
use trimtab_core::analysis::histogram::Histogram;
use trimtab_core::op::OpKind;
use trimtab_core::run::{LatencyPart, Metric, Phase, Run, Unit};
use trimtab_core::units::{Bytes, Nanos, three_digits};

/// A report about one run.
pub fn document(run: &Run) -> Document {
    let mut sections = vec![Section::new("Figures", vec![Block::Table(metrics(&run.metrics))])];
    sections.push(Section::new("Phases", vec![Block::Table(phases(&run.phases))]));
    let latencies = latencies(&run.phases);
    if !latencies.rows.is_empty() {
        sections.push(Section::new("Latency", vec![Block::Table(latencies)]));
    }
    let charts = super::series::charts(run);
    if !charts.is_empty() {
        sections.push(Section::new("Series", charts));
    }
    if !run.counters.is_empty() {
        let mut table = Table::new("", &["count", "value"]);
        run.counters.iter().for_each(|(name, value)| table.row([name.clone(), value.to_string()]));
        sections.push(Section::new("Counts", vec![Block::Table(table)]));
    }
    if !run.warnings.is_empty() {
        sections.push(Section::new("Warnings", vec![Block::Warnings(run.warnings.clone())]));
    }
    if run.metrics.is_empty() {
        sections.remove(0);
    }
    Document { title: format!("{} on {}", run.workload, run.target_label), subtitle: subtitle(run), sections }
}

fn subtitle(run: &Run) -> Vec<String> {
    let settings: Vec<String> = run.settings.iter().map(|f| format!("{} {}", f.key, f.value)).collect();
    let value = |key: &str| run.environment.iter().find(|f| f.key == key).map(|f| f.value.as_str());
    let mut place: Vec<&str> = ["fs.type", "fs.options", "stack", "drive.model", "kernel.release"].into_iter().filter_map(value).collect();
    place.dedup();
    let mut lines = vec![format!("{}; seed {}; policy {}", settings.join(", "), run.seed, run.policy)];
    if !place.is_empty() {
        lines.push(place.join("; "));
    }
    if !run.complete {
        lines.push("cut short: figures are of what was done until then".to_owned());
    }
    lines
}

/// A value with its unit.
pub fn quantity(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Seconds => Nanos((value * 1e9).max(0.0) as u64).to_string(),
        Unit::Nanos => Nanos(value.max(0.0) as u64).to_string(),
        Unit::Bytes => Bytes(value.max(0.0) as u64).to_string(),
        Unit::MegabytesPerSecond => format!("{} MB/s", three_digits(value)),
        Unit::OpsPerSecond => format!("{}/s", three_digits(value)),
        Unit::Count => format!("{value:.0}"),
        Unit::Ratio => format!("{}×", three_digits(value)),
        Unit::Percent => format!("{} %", three_digits(value)),
    }
}

/// Figures with their repeats.
pub fn metrics(metrics: &[Metric]) -> Table {
    let repeats = metrics.iter().map(|m| m.samples.len()).max().unwrap_or(0);
    let header: &[&str] = if repeats > 1 { &["figure", "mean", "each"] } else { &["figure", "value"] };
    let mut table = Table::new("", header);
    for metric in metrics {
        let mean = metric.samples.iter().sum::<f64>() / metric.samples.len().max(1) as f64;
        let mut row = vec![metric.name.clone(), quantity(mean, metric.unit)];
        if repeats > 1 {
            row.push(metric.samples.iter().map(|v| quantity(*v, metric.unit)).collect::<Vec<_>>().join(", "));
        }
        table.row(row);
    }
    table
}

/// Names of the phases in order of first appearance, with all phases of each name.
fn by_name(phases: &[Phase]) -> Vec<(&str, Vec<&Phase>)> {
    let mut groups: Vec<(&str, Vec<&Phase>)> = Vec::new();
    for phase in phases {
        match groups.iter_mut().find(|(name, _)| *name == phase.name) {
            Some((_, group)) => group.push(phase),
            None => groups.push((&phase.name, vec![phase])),
        }
    }
    groups
}

/// One row a phase; those of the same name (tries, rounds) together.
pub fn phases(phases: &[Phase]) -> Table {
    let groups = by_name(phases);
    let discards = phases.iter().any(|p| p.discards.is_some());
    let mut header = vec!["phase", "times", "mean time", "operations", "operations/s", "MB/s"];
    if discards {
        header.extend(["discards", "discarded"]);
    }
    let mut table = Table::new("", &header);
    for (name, group) in groups {
        let seconds: f64 = group.iter().map(|p| p.took.as_secs_f64()).sum();
        let ops: u64 = group.iter().map(|p| p.ops_total()).sum();
        let bytes: u64 = group.iter().map(|p| p.read.0.saturating_add(p.written.0)).sum();
        let rate = |amount: f64| if seconds > 0.0 && amount > 0.0 { three_digits(amount / seconds) } else { String::new() };
        let mut row = vec![
            name.to_owned(),
            group.len().to_string(),
            quantity(seconds / group.len() as f64, Unit::Seconds),
            ops.to_string(),
            rate(ops as f64),
            rate(bytes as f64 / 1e6),
        ];
        if discards {
            let known: Vec<_> = group.iter().filter_map(|p| p.discards.as_ref()).collect();
            let commands: Option<u64> = known.iter().map(|d| d.accepted_commands).sum();
            let bytes: Option<Bytes> = known.iter().map(|d| d.accepted).sum();
            row.push(commands.filter(|_| !known.is_empty()).map_or_else(String::new, |n| n.to_string()));
            row.push(bytes.filter(|_| !known.is_empty()).map_or_else(String::new, |b| b.to_string()));
        }
        table.row(row);
    }
    table
}

/// One row a phase and kind of operation, from issue to completion; tries and rounds merged.
pub fn latencies(phases: &[Phase]) -> Table {
    let mut table = Table::new("", &["phase and operation", "count", "median", "90 %", "99 %", "99.9 %", "99.99 %", "most"]);
    for (name, histogram) in histograms(phases) {
        let mut row = vec![name, histogram.count().to_string()];
        row.extend([50.0, 90.0, 99.0, 99.9, 99.99].map(|p| histogram.percentile(p).to_string()));
        row.push(histogram.max().to_string());
        table.row(row);
    }
    table
}

/// Latencies from issue to completion by phase and kind of operation, named `PHASE KIND`; tries and rounds merged.
/// Phases of one operation are left out: they have no distribution, and their time says it all.
pub fn histograms(phases: &[Phase]) -> Vec<(String, Histogram)> {
    let mut histograms = Vec::new();
    for (name, group) in by_name(phases) {
        for kind in OpKind::ALL {
            let mut merged = Histogram::new();
            for phase in &group {
                for latency in phase.latencies.iter().filter(|l| l.kind == *kind && l.part == LatencyPart::Total) {
                    merged.merge(&latency.histogram);
                }
            }
            if merged.count() > group.len() as u64 {
                histograms.push((format!("{name} {}", kind.name()), merged));
            }
        }
    }
    histograms
}
