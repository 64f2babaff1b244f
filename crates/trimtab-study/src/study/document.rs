//! A study as a report.

use super::answer::{self, Around};
use super::judged::Judged;
use super::table::{self, policy_title};
use super::verdict::Recommendation;
use super::{Study, ageing, kernels, light_work, months, pictures, policy};
use crate::document::{Block, Chart, ChartKind, Document, Section, Table};
use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec;
use alloc::vec::Vec;
use trimtab_drive::usage::quoted;
use trimtab_sim::policy::PolicySpec;
use trimtab_sim::run::metrics;
use trimtab_sim::run::shown::{readable, readable_place};
use trimtab_sim::run::{Field, Provenance, Run, TargetKind, Warning};

/// The report: the answer, the pictures that carry it, and folded away all else.
pub fn of(study: &Judged<'_>, around: &Around) -> Document {
    let mut sections: Vec<Section> = Vec::new();
    sections.extend(pictures::cost_and_gain(study));
    sections.extend(months::lines(study));
    sections.extend(pictures::drive(study));
    sections.extend(pictures::beside_a_trim(study));
    if sections.is_empty() {
        sections.extend(charts(study));
    }
    sections.extend(around.predicted.iter().flat_map(|predicted| predicted.sections()));
    sections.push(Section::new("Why, in full", vec![Block::Verdict(study.verdict.clone())]).folded());
    sections.extend(in_full(study, around.predicted.is_some()).into_iter().map(Section::folded));
    Document {
        title: format!("Trim policies on {}", study.target),
        subtitle: subtitle(study),
        answer: Some(answer::of(study, around)),
        sections,
    }
}

/// Every table, for those who want to know.
fn in_full(study: &Judged<'_>, predicted: bool) -> Vec<Section> {
    let mut sections = Vec::new();
    if !study.runs.is_empty() {
        sections.push(Section::new("Policies by phase", vec![Block::Table(table::by_phase(study))]));
    }
    let measured = study.all().next().is_some_and(|run| run.provenance == Provenance::Measured);
    let not_measured = |title: &str, why: &str| measured.then(|| Section::new(title, vec![Block::Text(format!("Not measured: {why}"))]));
    sections.extend(months::ageing(study).or_else(|| {
        if predicted {
            return None;
        }
        not_measured("Ageing", "months of use write a drive several times over. 'trimtab bench age' ages it by an amount that you choose, 'trimtab study drive:NAME' a modelled drive of its class.")
    }));
    if !study.runs.is_empty() {
        sections.extend(charts(study));
        sections.push(Section::new("Latency by operation", vec![Block::Table(table::latencies(study))]));
    }
    sections.extend(months::states(study, study.policy()).or_else(|| {
        not_measured("State of the drive's blocks", "a real drive does not say which of its blocks are mapped, stale or free.")
    }));
    sections.extend(months::tuning(study).or_else(|| {
        not_measured(
            "Data and tuning",
            "'trimtab bench crystal --compressible PERCENT' shows what data change; 'trimtab doctor' looks at alignment and access times.",
        )
    }));
    sections.extend(kernels::section(study));
    if let Some(sensitivity) = study.sensitivity() {
        sections.extend((!sensitivity.rows.is_empty()).then(|| sensitivity.section()));
        sections.extend(sensitivity.ensemble.as_ref().map(super::ensemble::Ensemble::section));
    }
    sections.extend(taken(study));
    sections.extend(environment(study));
    let warnings = warnings(study.all());
    if !warnings.is_empty() {
        sections.push(Section::new("Warnings", vec![Block::Warnings(warnings)]));
    }
    sections
}

/// What is waited for, and what others meet beside the trims, as bars.
fn charts(study: &Study) -> Option<Section> {
    let jobs = table::jobs(&study.runs);
    let mut policies: Vec<&str> = Vec::new();
    for run in &study.runs {
        if !policies.contains(&run.policy.as_str()) {
            policies.push(&run.policy);
        }
    }
    let bars = |title: &str, metric: &str| {
        let value = |job: &str, policy: &str| {
            let run = study.runs.iter().find(|run| run.workload == job && run.policy == policy)?;
            table::mean(run, metric)
        };
        let series: Vec<(String, Vec<Option<f64>>)> =
            policies.iter().map(|policy| ((*policy).to_owned(), jobs.iter().map(|job| value(job, policy)).collect())).collect();
        let categories = jobs.iter().map(|job| (*job).to_owned()).collect();
        let any = series.iter().any(|(_, values)| values.iter().any(Option::is_some));
        any.then(|| {
            Block::Chart(Chart {
                title: title.to_owned(),
                x_label: String::new(),
                y_label: "seconds".to_owned(),
                kind: ChartKind::Bars { categories, series },
            })
        })
    };
    let blocks: Vec<Block> = [
        bars("What users wait for, by policy, mean of the repeats", table::FOREGROUND),
        bars("Longest wait of one append beside the trims, one every 5 s, by policy", light_work::SPARSE_WAIT),
        bars("How far 50 appends a second fall behind beside the trims, by policy", light_work::BUSY_BACKLOG),
        bars("Time spent trimming after the work, by policy, mean of the repeats", metrics::TRIM_SECONDS),
    ]
    .into_iter()
    .flatten()
    .collect();
    (!blocks.is_empty()).then(|| Section::new("Pictures", blocks))
}

/// What it was made on, in a line. The rest is in the answer.
fn subtitle(study: &Study) -> Vec<String> {
    let Some(run) = study.all().next() else { return Vec::new() };
    let value = |key: &str| Field::find(&run.environment, key);
    let mut place: Vec<&str> = ["fs.type", "fs.options", "stack", "drive.model", "kernel.release"].into_iter().filter_map(value).collect();
    place.dedup();
    let health = trimtab_sim::run::shown::health(run).unwrap_or_default();
    let lines = vec![format!("{}; trimtab {}", run.provenance.name(), run.tool_version), place.join("; "), health];
    lines.into_iter().filter(|line| !line.is_empty()).collect()
}

/// The settings of the workloads.
fn workloads(study: &Study) -> Block {
    let mut table = Table::new("The workloads.", &["workload", "settings", "seed"]);
    for job in table::jobs(&study.runs) {
        let Some(run) = study.runs.iter().find(|run| run.workload == job) else { continue };
        let settings: Vec<String> = run.settings.iter().map(|f| format!("{} {}", f.key, readable(&f.key, &f.value))).collect();
        table.row([job.to_owned(), settings.join(", "), run.seed.to_string()]);
    }
    Block::Table(table)
}

/// Where it is mounted, as one word of a shell; `None` of a modelled drive.
pub(super) fn place(study: &Study) -> Option<String> {
    let run = study.runs.first().filter(|run| run.target == TargetKind::Directory)?;
    Some(quoted(Field::find(&run.environment, "mount.point").unwrap_or(&study.target)))
}

/// What to type to follow the verdict, on a real filesystem.
pub fn commands(study: &Judged<'_>) -> Vec<String> {
    // Where it is mounted is an absolute path, whatever was named.
    let place = place(study).unwrap_or_else(|| "MOUNTPOINT".to_owned());
    let policy = match study.recommendation {
        Recommendation::Blocked => return vec![format!("trimtab doctor {place}")],
        Recommendation::NoDifference | Recommendation::NeverDone | Recommendation::NotTested | Recommendation::Unknown => {
            return Vec::new();
        }
        Recommendation::Batched => policy::BATCHED,
        Recommendation::Idle => policy::IDLE,
        Recommendation::Adaptive => policy::ADAPTIVE,
        Recommendation::Online => policy::ONLINE,
        Recommendation::NotWorthIt => policy::NONE,
    };
    // With the settings that were tried, where they are not the defaults.
    let tried = study.all().find(|run| run.policy == policy).map_or_else(|| policy.to_owned(), with_settings);
    let mut commands = vec![format!("trimtab apply {tried} {place} --dry-run    # shows what would change; without --dry-run it is done")];
    if policy != policy::BATCHED {
        commands.push("systemctl disable --now fstrim.timer    # so that nothing else trims".to_owned());
    }
    commands
}

/// The policy of a run as `trimtab apply` takes it: `idle:budget=2ms`.
fn with_settings(run: &Run) -> String {
    let written = run.policy_settings.iter().filter_map(|field| Some(format!(":{}={}", field.key.strip_prefix("policy.")?, field.value)));
    let full = core::iter::once(run.policy.clone()).chain(written).collect::<String>();
    match (full.parse::<PolicySpec>(), run.policy.parse::<PolicySpec>()) {
        (Ok(tried), Ok(default)) if tried != default => tried.to_string(),
        _ => run.policy.clone(),
    }
}

/// What was not run now but taken from an interrupted study.
fn taken(study: &Study) -> Option<Section> {
    let mut table = Table::new("Measured earlier, on this filesystem at this fill.", &["workload", "policy", "taken"]);
    let found = |run: &Run| Field::find(&run.environment, trimtab_sim::run::STUDY_TAKEN).map(String::from);
    for (run, taken) in study.all().filter_map(|run| Some((run, found(run)?))) {
        table.row([run.workload.clone(), run.policy.clone(), taken]);
    }
    (!table.rows.is_empty()).then(|| Section::new("Taken from an interrupted study", vec![Block::Table(table)]))
}

/// What the runs were made on; what they do not share is left out.
fn environment(study: &Study) -> Option<Section> {
    let first = study.all().next()?;
    let shared = |field: &&Field| {
        ![trimtab_sim::run::STUDY_CELL, trimtab_sim::run::STUDY_TAKEN].contains(&field.key.as_str())
            && study.all().all(|run| run.environment.iter().all(|other| other.key != field.key || other.value == field.value))
    };
    let mut table = Table::new("The same for all runs.", &["what", "value"]);
    first.environment.iter().filter(shared).for_each(|field| table.row([field.key.clone(), readable_place(&field.key, &field.value)]));
    let mut blocks = vec![Block::Table(table)];
    let mut policies = Table::new("Parameters of the policies.", &["policy", "parameters"]);
    let mut seen: Vec<&str> = Vec::new();
    for run in study.all() {
        if !seen.contains(&run.policy.as_str()) {
            seen.push(&run.policy);
            let fields: Vec<String> = run
                .policy_settings
                .iter()
                .map(|f| format!("{} {}", f.key.trim_start_matches("policy."), readable(&f.key, &f.value)))
                .collect();
            policies.row([run.policy.clone(), fields.join(", ")]);
        }
    }
    blocks.push(Block::Table(policies));
    if !study.runs.is_empty() {
        blocks.push(workloads(study));
    }
    Some(Section::new("Environment", blocks))
}

/// The warnings of all runs, those with the same code and text once.
fn warnings<'a>(runs: impl Iterator<Item = &'a Run>) -> Vec<Warning> {
    let mut all: Vec<Warning> = Vec::new();
    for run in runs {
        for warning in &run.warnings {
            if !all.iter().any(|w| w.code == warning.code) {
                let text = match run.workload.as_str() {
                    ageing::CHURN => format!(
                        "churn under '{}', {} full: {}",
                        policy_title(run),
                        months::spaced(months::setting(run, "fill").unwrap_or("?")),
                        warning.text
                    ),
                    other => format!("{other} under '{}': {}", policy_title(run), warning.text),
                };
                all.push(Warning { text, ..warning.clone() });
            }
        }
    }
    all
}
