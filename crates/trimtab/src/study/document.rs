//! A study as a report.

use super::table::{self, policy_title};
use super::verdict::{self, Recommendation, effective_policy};
use super::{Study, policy};
use crate::report::document::{Block, Document, Section};
use trimtab_core::run::{Run, TargetKind, Warning};

/// The report.
pub fn of(study: &Study) -> Document {
    let mut verdict = vec![Block::Verdict(verdict::of(study))];
    let commands = commands(study);
    if !commands.is_empty() {
        verdict.push(Block::Text("To apply it:".to_owned()));
        verdict.push(Block::Commands(commands));
    }
    let mut sections = vec![Section::new("Verdict", verdict)];
    if !study.runs.is_empty() {
        sections.push(Section::new("Policies by phase", vec![Block::Table(table::by_phase(study))]));
        sections.push(Section::new("Latency by operation", vec![Block::Table(table::latencies(study))]));
    }
    let warnings = warnings(&study.runs);
    if !warnings.is_empty() {
        sections.push(Section::new("Warnings", vec![Block::Warnings(warnings)]));
    }
    Document { title: format!("Trim policies on {}", study.target), subtitle: subtitle(study), sections }
}

fn subtitle(study: &Study) -> Vec<String> {
    let Some(run) = study.runs.first() else { return Vec::new() };
    let value = |key: &str| run.environment.iter().find(|f| f.key == key).map(|f| f.value.as_str());
    let mut place: Vec<&str> = ["fs.type", "fs.options", "stack", "drive.model", "kernel.release"].into_iter().filter_map(value).collect();
    place.dedup();
    let mut lines = vec![format!("{}; trimtab {}", run.provenance.name(), run.tool_version)];
    if !place.is_empty() {
        lines.push(place.join("; "));
    }
    for job in table::jobs(&study.runs) {
        let Some(run) = study.runs.iter().find(|run| run.workload == job) else { continue };
        let settings: Vec<String> = run.settings.iter().map(|f| format!("{} {}", f.key, f.value)).collect();
        lines.push(format!("{job}: {}; seed {}", settings.join(", "), run.seed));
    }
    lines
}

/// What to type to follow the verdict, on a real filesystem.
fn commands(study: &Study) -> Vec<String> {
    if study.runs.first().is_none_or(|run| run.target != TargetKind::Directory) {
        return Vec::new();
    }
    let mounted_online = study.runs.iter().any(|run| run.policy == policy::AS_MOUNTED && effective_policy(run) == policy::ONLINE);
    match verdict::recommendation(study) {
        Recommendation::Batched if mounted_online => vec![
            "systemctl enable --now fstrim.timer".to_owned(),
            "mount -o remount,nodiscard MOUNTPOINT    # and take 'discard' out of /etc/fstab".to_owned(),
        ],
        Recommendation::Batched => vec!["systemctl enable --now fstrim.timer".to_owned()],
        Recommendation::Blocked => vec![format!("trimtab doctor {}", study.target)],
        Recommendation::NoDifference | Recommendation::Unknown => Vec::new(),
    }
}

/// The warnings of all runs, those with the same code and text once.
fn warnings(runs: &[Run]) -> Vec<Warning> {
    let mut all: Vec<Warning> = Vec::new();
    for run in runs {
        for warning in &run.warnings {
            if !all.iter().any(|w| w.code == warning.code) {
                let text = format!("{} under '{}': {}", run.workload, policy_title(run), warning.text);
                all.push(Warning { text, ..warning.clone() });
            }
        }
    }
    all
}
