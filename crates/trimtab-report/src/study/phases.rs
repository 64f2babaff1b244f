//! The table of all phases: one column per policy, with ratios to the first policy.

use super::words::title;
use trimtab_drive::units::three_digits;
use trimtab_sim::run::shown::quantity;
use trimtab_sim::run::{Field, Metric, Run, Unit, metrics};
use trimtab_sim::workload::tree::SETTLE;
use trimtab_study::document::Table;
use trimtab_study::study::metrics::{FOREGROUND, distinct, jobs, mean};
use trimtab_study::study::policy_events::TRIM_BEFORE;
use trimtab_study::study::{Study, policy};

/// A policy with its discard option, if the name lacks it.
pub(super) fn policy_title(run: &Run) -> String {
    title(
        &run.policy,
        Field::find(&run.policy_settings, policy::DISCARD)
            .filter(|_| run.policy == policy::AS_MOUNTED),
    )
}

/// Titles of the columns: the policies.
fn titles(study: &Study) -> Vec<String> {
    distinct(study.runs.iter().map(policy_title))
}

/// The run of a job in each column.
fn columns<'a>(study: &'a Study, job: &str, titles: &[String]) -> Vec<Option<&'a Run>> {
    titles
        .iter()
        .map(|title| study.runs.iter().find(|r| r.workload == job && policy_title(r) == *title))
        .collect()
}

pub(super) fn by_phase(study: &Study) -> Table {
    let titles = titles(study);
    let header: Vec<&str> =
        ["phase"].into_iter().chain(titles.iter().map(String::as_str)).collect();
    let caption = "Means: time of each phase and its ratio to the first column; discards counted by \
        the device.";
    let mut table = Table::new(caption, &header);
    for job in jobs(&study.runs) {
        let runs = columns(study, job, &titles);
        for name in row_names(&runs) {
            let cells = runs
                .iter()
                .enumerate()
                .map(|(column, run)| cell(&name, *run, (column > 0).then(|| runs[0]).flatten()));
            table.row(std::iter::once(format!("{job}: {}", row_title(&name))).chain(cells));
        }
    }
    table
}

/// Row names: the metrics of all runs of a job, by phase, totals at the end.
fn row_names(runs: &[Option<&Run>]) -> Vec<String> {
    let skipped = [SETTLE, TRIM_BEFORE].map(|phase| format!("{phase}.seconds"));
    let mut names: Vec<String> = Vec::new();
    let all = || runs.iter().flatten().flat_map(|run| &run.metrics);
    let is_sum = |m: &Metric| m.name == FOREGROUND || m.name.starts_with("discard.");
    for metric in all().filter(|m| !is_sum(m)).chain(all().filter(|m| is_sum(m))) {
        if !skipped.contains(&metric.name) && !names.contains(&metric.name) {
            names.push(metric.name.clone());
        }
    }
    names
}

fn row_title(metric: &str) -> String {
    match metric {
        FOREGROUND => "foreground time".to_owned(),
        metrics::TRIM_SECONDS => "trim, afterwards".to_owned(),
        "load.seconds" => "50 foreground appends a second".to_owned(),
        "load.wait.median.seconds" => "… latency of one, median".to_owned(),
        "load.wait.p95.seconds" => "… 95 %".to_owned(),
        "load.wait.p99.seconds" => "… 99 %".to_owned(),
        "load.wait.longest.seconds" => "… longest".to_owned(),
        "load.backlog.longest.seconds" => "… longest backlog".to_owned(),
        "sparse-load.wait.median.seconds" => "foreground append every 5 s, median".to_owned(),
        "sparse-load.wait.p95.seconds" => "… 95 %".to_owned(),
        "sparse-load.wait.p99.seconds" => "… 99 %".to_owned(),
        "sparse-load.wait.longest.seconds" => "… longest".to_owned(),
        "sparse-load.backlog.longest.seconds" => "… longest backlog".to_owned(),
        "discards-after.seconds" => "discards still running afterwards".to_owned(),
        metrics::DISCARD_COMMANDS => "discards at the device".to_owned(),
        metrics::DISCARD_BYTES => "bytes discarded at the device".to_owned(),
        metrics::DISCARD_AMPLIFICATION => "discard amplification".to_owned(),
        other => other.strip_suffix(".seconds").unwrap_or(other).to_owned(),
    }
}

fn cell(name: &str, run: Option<&Run>, baseline: Option<&Run>) -> String {
    let Some((run, value)) = run.and_then(|run| Some((run, mean(run, name)?))) else {
        return String::new();
    };
    let unit = run.metrics.iter().find(|m| m.name == name).map_or(Unit::Count, |m| m.unit);
    let text = quantity(value, unit);
    match baseline.and_then(|baseline| mean(baseline, name)) {
        Some(base) if unit == Unit::Seconds && base > 0.0 => {
            format!("{text} ({}×)", three_digits(value / base))
        }
        _ => text,
    }
}
