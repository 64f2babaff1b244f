//! One run: its phases, latencies and figures.

use super::{load, pts};
use trimtab_drive::discards::Amount;
use trimtab_drive::units::{Bytes, Nanos, grouped, three_digits};
use trimtab_sim::run::shown::{self, by_name, health, histograms, quantity, readable_place};
use trimtab_sim::run::{
    Better, COMMAND, DRIVE, Field, LatencyPart, Metric, Phase, Provenance, Run, Series, Unit,
};
use trimtab_sim::runner::jobs;
use trimtab_study::document::{Document, Section, SectionBlock, Table};

/// A report about one run.
pub fn document(run: &Run) -> Document {
    let (jobs, others): (Vec<Metric>, Vec<Metric>) =
        run.metrics.iter().cloned().partition(|metric| jobs::is_figure(&metric.name));
    let mut sections = pts::sections(run);
    sections.push(Section::new("Figures", vec![SectionBlock::Table(metrics(&others))]));
    if run.workload == load::WORKLOAD {
        sections.insert(0, load::section(run));
    } else if !jobs.is_empty() {
        sections.insert(0, Section::new("Jobs", vec![SectionBlock::Table(job_figures(&jobs))]));
    }
    sections.push(Section::new("Phases", vec![SectionBlock::Table(phases(&run.phases))]));
    let latencies = latencies(&run.phases);
    if !latencies.rows.is_empty() {
        sections.push(Section::new("Latency", vec![SectionBlock::Table(latencies)]));
    }
    let charts = super::series::charts(run);
    if !charts.is_empty() {
        sections.push(Section::new("Series", charts));
    }
    if !run.warnings.is_empty() {
        sections.push(Section::new("Warnings", vec![SectionBlock::Warnings(run.warnings.clone())]));
    }
    if others.is_empty() {
        sections.retain(|section| section.title != "Figures");
    }
    let job_file = Field::find(&run.settings, "workload").filter(|name| name.starts_with("fio:"));
    Document {
        title: format!("{} on {}", job_file.unwrap_or(&run.workload), run.target_label),
        subtitle: subtitle(run),
        sections,
        ..Document::default()
    }
}

fn subtitle(run: &Run) -> Vec<String> {
    let settings: Vec<String> =
        run.settings.iter().map(|f| format!("{} {}", f.key, readable(&f.key, &f.value))).collect();
    let mut what = vec![settings.join(", ")];
    what.push(format!("seed {}", run.seed));
    if !run.policy.is_empty() {
        what.push(format!("policy {}", run.policy));
    }
    what.push(match run.provenance {
        Provenance::Measured => String::new(),
        Provenance::Modelled => "modelled, in virtual time".to_owned(),
    });
    what.push(instant(run.started_unix_ms));
    let joined = |parts: Vec<String>| {
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ")
    };
    let mut lines = vec![joined(what), place(run)];
    lines.retain(|line| !line.is_empty());
    lines.extend(health(run));
    if !run.complete {
        lines.push("interrupted: figures cover the part until then".to_owned());
    }
    lines
}

/// The filesystem, the drive and the kernel, in one line.
pub(super) fn place(run: &Run) -> String {
    let keys = ["fs.type", "fs.options", "stack", "drive.model", "kernel.release"];
    let mut place: Vec<&str> =
        keys.into_iter().filter_map(|key| Field::find(&run.environment, key)).collect();
    place.dedup();
    place.join("; ")
}

/// A setting in readable form; a structured value is summarised.
fn readable(key: &str, value: &str) -> String {
    structured(value).unwrap_or_else(|| shown::readable(key, value))
}

/// Summary of a JSON document: its texts and numbers, and the lengths of its lists.
fn structured(value: &str) -> Option<String> {
    use serde_json::Value;
    let shown = |(key, value): (&String, &Value)| match value {
        Value::Array(items) => format!("{} {key}", items.len()),
        Value::Object(fields) => format!("{} {key}", fields.len()),
        Value::String(text) => format!("{key} {text}"),
        other => format!("{key} {other}"),
    };
    match serde_json::from_str(value).ok()? {
        Value::Object(fields) => Some(fields.iter().map(shown).collect::<Vec<_>>().join("; ")),
        Value::Array(items) => Some(format!("{} entries", items.len())),
        _ => None,
    }
}

/// A report about one run with all its details.
pub fn everything(run: &Run) -> Document {
    let mut document = document(run);
    let at = document
        .sections
        .iter()
        .position(|section| section.title == "Warnings")
        .unwrap_or(document.sections.len());
    let tables = [
        ("Discards", discards(&run.phases)),
        ("Parts of the latency", latency_parts(&run.phases)),
        ("Series in figures", series(&run.series)),
        ("Settings", fields(&run.settings, readable)),
        ("Settings of the policy", fields(&run.policy_settings, readable)),
        ("Environment", fields(&run.environment, readable_place)),
        ("Made from", specification(&run.specification)),
    ];
    let filled = tables.into_iter().filter(|(_, table)| !table.rows.is_empty());
    let sections: Vec<Section> = counts(run)
        .into_iter()
        .chain(filled.map(|(title, table)| Section::new(title, vec![SectionBlock::Table(table)])))
        .collect();
    document.sections.splice(at..at, sections);
    document.sections.retain(|section| section.title != "Phases" || !run.phases.is_empty());
    document
}

/// The counters of the modelled drive.
fn counts(run: &Run) -> Option<Section> {
    if run.counters.is_empty() {
        return None;
    }
    let mut table = Table::new("", &["count", "value"]);
    run.counters.iter().for_each(|(name, value)| table.row([name.clone(), grouped(*value)]));
    // Months, and quick studies of large drives, are modelled on a smaller drive.
    let smaller = Field::find(&run.environment, trimtab_study::study::modelled::AGED_SIZE);
    let of_smaller = |size| {
        SectionBlock::Text(format!(
            "Of the drive as modelled, at {size}; bytes and trim times above are \
                converted to its own size."
        ))
    };
    let blocks = [SectionBlock::Table(table)].into_iter().chain(smaller.map(of_smaller));
    Some(Section::new("Counts", blocks.collect()))
}

/// A time in UTC; empty for 0, which means unknown.
pub fn instant(unix_ms: u64) -> String {
    let timestamp = i64::try_from(unix_ms).ok().and_then(chrono::DateTime::from_timestamp_millis);
    timestamp
        .filter(|_| unix_ms > 0)
        .map_or_else(String::new, |at| at.format("%Y-%m-%d %H:%M:%S UTC").to_string())
}

fn fields(fields: &[Field], readable: fn(&str, &str) -> String) -> Table {
    let mut table = Table::new("", &["what", "value"]);
    fields
        .iter()
        .for_each(|field| table.row([field.key.clone(), readable(&field.key, &field.value)]));
    table
}

/// Sources of the run; a drive only by name and hash. JSON has everything.
fn specification(specification: &[Field]) -> Table {
    let mut table = Table::new("", &["what", "value"]);
    for field in specification {
        match (field.key.as_str(), serde_json::from_str::<Vec<String>>(&field.value)) {
            (COMMAND, Ok(command)) => {
                table.row([field.key.as_str(), &format!("trimtab {}", command.join(" "))])
            }
            (DRIVE, _) => {
                let name = field
                    .value
                    .lines()
                    .find_map(|line| line.strip_prefix("name = "))
                    .unwrap_or("?")
                    .trim_matches('"');
                table.row([
                    field.key.as_str(),
                    &format!(
                        "specification of {name}; print it with 'trimtab results show --json'"
                    ),
                ]);
            }
            _ => table.row([field.key.as_str(), field.value.as_str()]),
        }
    }
    table
}

fn series(series: &[Series]) -> Table {
    let mut table = Table::new("", &["series", "points", "first", "lowest", "highest", "last"]);
    for s in series {
        let finite = || s.y.iter().copied().filter(|v| v.is_finite());
        let shown = |v: Option<f64>| v.map_or_else(String::new, |v| quantity(v, s.unit));
        let values = [
            finite().next(),
            finite().reduce(f64::min),
            finite().reduce(f64::max),
            finite().next_back(),
        ];
        table.row([s.name.clone(), grouped(s.y.len() as u64)].into_iter().chain(values.map(shown)));
    }
    table
}

/// Discards requested, their time and their effect, one row per phase with counts.
pub fn discards(phases: &[Phase]) -> Table {
    let mut table = Table::new(
        "",
        &["phase", "asked", "accepted", "refused", "effective", "freed", "amplification"],
    );
    let not_known = || "unknown".to_owned();
    let of = |amount: Amount| format!("{}: {}", grouped(amount.count), amount.bytes);
    let bytes = |bytes: Option<Bytes>| bytes.map_or_else(not_known, |bytes| bytes.to_string());
    for phase in phases {
        let Some(account) = &phase.discards else { continue };
        let reasons: Vec<String> = account
            .errnos
            .iter()
            .map(|&n| std::io::Error::from_raw_os_error(n).to_string())
            .collect();
        let refused =
            if reasons.is_empty() { String::new() } else { format!(": {}", reasons.join(", ")) };
        let amplification = match (account.accepted, account.freed) {
            (Some(accepted), Some(freed)) if freed > Bytes::ZERO => {
                quantity(accepted.bytes.as_f64() / freed.as_f64(), Unit::Ratio)
            }
            _ => String::new(),
        };
        table.row([
            phase.name.clone(),
            of(account.asked),
            account.accepted.map_or_else(not_known, of),
            format!("{}{refused}", grouped(account.refused.count)),
            bytes(account.effective),
            bytes(account.freed),
            amplification,
        ]);
    }
    table
}

/// Figures with their repeats: the best, the mean, and the range in percent of the mean.
pub fn metrics(metrics: &[Metric]) -> Table {
    /// Largest number of repeats that are listed.
    const SHOWN_MAX: usize = 100;
    let repeats = metrics.iter().map(|m| m.samples.len()).max().unwrap_or(0);
    let header: &[&str] = if repeats > 1 {
        &["figure", "best", "mean", "spread", "each"]
    } else {
        &["figure", "value"]
    };
    let mut table = Table::new("", header);
    for metric in metrics {
        let mean = metric.samples.iter().sum::<f64>() / metric.samples.len().max(1) as f64;
        let mut row = vec![metric.name.clone()];
        if repeats > 1 {
            let (low, high) = metric
                .samples
                .iter()
                .fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(*v), h.max(*v)));
            row.push(match metric.better {
                Better::Higher => quantity(high, metric.unit),
                Better::Lower => quantity(low, metric.unit),
                Better::Neither => String::new(),
            });
            row.push(quantity(mean, metric.unit));
            let several = metric.samples.len() > 1 && mean > 0.0;
            row.push(if several {
                quantity((high - low) / mean * 100.0, Unit::Percent)
            } else {
                String::new()
            });
            let each: Vec<String> =
                metric.samples.iter().take(SHOWN_MAX).map(|v| quantity(*v, metric.unit)).collect();
            let more = metric.samples.len() - each.len();
            let more = if more > 0 {
                format!(" and {} more (--json has all)", grouped(more as u64))
            } else {
                String::new()
            };
            row.push(each.join(", ") + &more);
        } else {
            row.push(quantity(mean, metric.unit));
        }
        table.row(row);
    }
    table
}

/// One row per job and kind of request.
fn job_figures(figures: &[Metric]) -> Table {
    let mut table =
        Table::new("", &["job and operation", "IOPS", "MB/s", "mean", "p50", "p99", "p99.9"]);
    let value = |name: String| {
        let metric = figures.iter().find(|metric| metric.name == name);
        metric.map_or_else(String::new, |metric| match metric.unit {
            Unit::Nanos => Nanos(metric.samples[0] as u64).to_string(),
            _ => three_digits(metric.samples[0]),
        })
    };
    for job in figures.iter().filter_map(|metric| metric.name.strip_suffix(jobs::RATE)) {
        let of = |figure: &&str| value(format!("{job}{figure}"));
        table.row([job.to_owned()].into_iter().chain(jobs::FIGURES.iter().map(of)));
    }
    table
}

/// One row per phase; phases of the same name (repeats, rounds) are combined.
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
        // Imported figures may be absurd; they must not panic.
        let ops = group.iter().fold(0_u64, |sum, p| sum.saturating_add(p.ops_total()));
        let bytes = group
            .iter()
            .fold(Bytes::ZERO, |sum, p| sum.saturating_add(p.read).saturating_add(p.written))
            .0;
        let rate = |amount: f64| {
            if seconds > 0.0 && amount > 0.0 {
                three_digits(amount / seconds)
            } else {
                String::new()
            }
        };
        let mut row = vec![
            name.to_owned(),
            group.len().to_string(),
            quantity(seconds / group.len() as f64, Unit::Seconds),
            grouped(ops),
            rate(ops as f64),
            rate(bytes as f64 / 1e6),
        ];
        if discards {
            let known: Vec<_> = group.iter().filter_map(|p| p.discards.as_ref()).collect();
            let accepted = known
                .iter()
                .map(|d| d.accepted)
                .sum::<Option<Amount>>()
                .filter(|_| !known.is_empty());
            row.push(accepted.map_or_else(String::new, |a| grouped(a.count)));
            row.push(accepted.map_or_else(String::new, |a| a.bytes.to_string()));
        }
        table.row(row);
    }
    table
}

/// One row per phase and kind of operation, from issue to completion; repeats and rounds
/// combined.
pub fn latencies(phases: &[Phase]) -> Table {
    latencies_of(phases, &[LatencyPart::Total])
}

/// Submission and completion separately.
fn latency_parts(phases: &[Phase]) -> Table {
    latencies_of(phases, &[LatencyPart::Submission, LatencyPart::Completion])
}

fn latencies_of(phases: &[Phase], parts: &[LatencyPart]) -> Table {
    let mut table = Table::new(
        "",
        &["phase and operation", "count", "median", "90 %", "99 %", "99.9 %", "99.99 %", "max"],
    );
    for (name, histogram) in histograms(phases, parts) {
        let mut row = vec![name, grouped(histogram.count())];
        row.extend([50.0, 90.0, 99.0, 99.9, 99.99].map(|p| histogram.percentile(p).to_string()));
        row.push(histogram.max().to_string());
        table.row(row);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::any_run::{any_run, example};
    use crate::text::render;
    use proptest::prelude::*;

    #[test]
    fn run_report_matches_snapshot() {
        let text = anstream::adapter::strip_str(&render(&everything(&example()))).to_string();
        insta::assert_snapshot!(text);
    }

    #[test]
    fn counts_are_details() {
        let run = example();
        let has = |document: &Document| document.sections.iter().any(|one| one.title == "Counts");
        assert!(!run.counters.is_empty() && has(&everything(&run)) && !has(&document(&run)));
    }

    #[test]
    fn readable_formats_settings() {
        let times = ["172747756213ns", "500ns", "10ms", "36706", "xns"]
            .map(|value| readable("every", value));
        assert_eq!(times, ["2 min 52 s", "500 ns", "10ms", "36,706", "xns"]);
        assert_eq!(readable("live", "1029118362"), "1.03 GB");
        let kept = r#"{"recommended":"idle","rows":[{"assumption":"a"},{"assumption":"b"}],"n":3}"#;
        let shown = readable("sensitivity", kept);
        let parts: std::collections::BTreeSet<&str> = shown.split("; ").collect();
        assert_eq!(parts, ["2 rows", "n 3", "recommended idle"].into());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn run_report_of_any_run_has_no_control_characters(run in any_run()) {
            let text = anstream::adapter::strip_str(&render(&everything(&run))).to_string();
            prop_assert!(text.chars().all(|c| c == '\n' || c == '\t' || !c.is_control()), "{text:?}");
        }
    }
}
