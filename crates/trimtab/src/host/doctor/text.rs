//! A diagnosis as text. Words carry the meaning; colour and marks only repeat it.

use super::{Diagnosis, Finding, Gate, LayerReport, Severity, VerdictKind};
use owo_colors::OwoColorize as _;
use std::fmt::Write as _;

/// The diagnosis for a terminal.
#[must_use]
pub fn render(diagnosis: &Diagnosis) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "{}", diagnosis.subject.bold());
    if let Some(filesystem) = &diagnosis.filesystem {
        layer(&mut text, filesystem, 1);
        below(&mut text, diagnosis, &filesystem.below, 2, &mut vec![false; diagnosis.layers.len()]);
    } else {
        let tops: Vec<usize> = (0..diagnosis.layers.len().min(1)).collect();
        below(&mut text, diagnosis, &tops, 1, &mut vec![false; diagnosis.layers.len()]);
    }
    if !diagnosis.trimmed_by.is_empty() {
        let _ = writeln!(text, "  trimmed by  {}", diagnosis.trimmed_by.join("; "));
    }
    for one in &diagnosis.mechanisms {
        finding(&mut text, one, 1);
    }
    for counter in &diagnosis.write_counters {
        let _ = writeln!(text, "  writes counted by  {counter}");
    }
    for more in &diagnosis.root_would_add {
        let _ = writeln!(text, "  root would add  {more}");
    }
    let verdict = match diagnosis.verdict.kind {
        VerdictKind::Reaches | VerdictKind::NotNeeded => diagnosis.verdict.text.green().to_string(),
        VerdictKind::Blocked => diagnosis.verdict.text.red().to_string(),
        VerdictKind::Unknown => diagnosis.verdict.text.yellow().to_string(),
    };
    let _ = writeln!(text, "{} {verdict}", "verdict:".bold());
    for step in &diagnosis.to_do {
        let _ = writeln!(text, "  to do: {step}");
    }
    text
}

/// The layers below, each once, the deeper the further in.
fn below(text: &mut String, diagnosis: &Diagnosis, indices: &[usize], depth: usize, shown: &mut Vec<bool>) {
    for &i in indices {
        let Some(one) = diagnosis.layers.get(i) else { continue };
        if std::mem::replace(&mut shown[i], true) {
            continue;
        }
        layer(text, one, depth);
        // Below a file begins another filesystem, with a diagnosis of its own.
        if !one.kind.starts_with("file on ") {
            below(text, diagnosis, &one.below, depth + 1, shown);
        }
    }
}

fn layer(text: &mut String, report: &LayerReport, depth: usize) {
    let indent = "  ".repeat(depth.min(20));
    let gate = match report.gate {
        Gate::Passes => "passes".green().to_string(),
        Gate::Blocks => "BLOCKS".red().to_string(),
        Gate::NotNeeded => "not needed".green().to_string(),
        Gate::Unknown => "unknown".yellow().to_string(),
    };
    let _ = writeln!(text, "{indent}{} [{}]  {gate}: {}", report.name, report.kind, report.why);
    if !report.evidence.0.is_empty() {
        let evidence: Vec<String> = report.evidence.0.iter().map(|(key, value)| format!("{key} {value}")).collect();
        let _ = writeln!(text, "{indent}    {}", evidence.join(", ").dimmed());
    }
    // What is the reason for the gate has been said.
    for one in report.findings.iter().filter(|f| f.text != report.why) {
        finding(text, one, depth + 1);
    }
}

fn finding(text: &mut String, finding: &Finding, depth: usize) {
    let indent = "  ".repeat(depth.min(20));
    let mark = match finding.severity {
        Severity::Note => "note".dimmed().to_string(),
        Severity::Caution => "caution".yellow().to_string(),
        Severity::Serious => "serious".red().to_string(),
    };
    let _ = writeln!(text, "{indent}{mark}: {}", finding.text);
}
