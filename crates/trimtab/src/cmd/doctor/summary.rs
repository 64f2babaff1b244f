//! A diagnosis in one line.

use trimtab_linux::doctor::{Diagnosis, Finding, Severity};
use trimtab_linux::output::plain_line;

/// Widths of verdict, subject and kind; the reason fills the rest.
const COLUMNS: [usize; 3] = [10, 32, 10];

/// Formats `blocked    /home                            ext4      
/// crypt.no-allow-discards`, cut to the width of the terminal, or in full without one.
pub fn line(diagnosis: &Diagnosis, width: Option<usize>) -> String {
    let verdict = diagnosis.verdict.kind.name().replace('-', " ");
    let kind =
        diagnosis.filesystem.as_ref().map_or("device", |filesystem| filesystem.kind.as_str());
    let mut text = String::new();
    for (word, column) in [verdict.as_str(), &diagnosis.subject, kind].iter().zip(COLUMNS) {
        text += &format!("{:<column$} ", cut(word, width.map(|_| column)));
    }
    let used = COLUMNS.iter().map(|column| column + 1).sum::<usize>();
    text += &cut(&reason(diagnosis), width.map(|width| width.saturating_sub(used)));
    text.trim_end().to_owned()
}

/// The code of the finding that causes the verdict; without one, the mechanism that trims
/// the filesystem or the reason why none does.
fn reason(diagnosis: &Diagnosis) -> String {
    if diagnosis.is_verdict_accepted {
        return "accepted".to_owned();
    }
    let reports: Vec<_> = diagnosis.filesystem.iter().chain(&diagnosis.layers).collect();
    let decides =
        |name: &str, kind: &str| diagnosis.verdict.at.contains(&format!("{name} [{kind}]"));
    let of_verdict = reports
        .iter()
        .filter(|report| decides(&report.name, &report.kind))
        .flat_map(|report| &report.findings);
    // The first among the most severe.
    let worst = |findings: &mut dyn Iterator<Item = &Finding>, least: Severity| {
        let found = findings
            .filter(|finding| finding.severity >= least)
            .reduce(|a, b| if b.severity > a.severity { b } else { a });
        found.map(|finding| finding.code.to_owned())
    };
    let serious =
        || worst(&mut reports.iter().flat_map(|report| &report.findings), Severity::Serious);
    let mechanism = || worst(&mut diagnosis.mechanisms.iter(), Severity::Caution);
    let trims = || {
        diagnosis
            .trimmed_by
            .first()
            .map(|by| by.split([':', ',', '(']).next().unwrap_or(by).trim().to_owned())
    };
    let caution =
        || worst(&mut reports.iter().flat_map(|report| &report.findings), Severity::Caution);
    worst(&mut of_verdict.into_iter(), Severity::Note)
        .or_else(serious)
        .or_else(mechanism)
        .or_else(trims)
        .or_else(caution)
        .unwrap_or_default()
}

/// Cuts the text to a number of characters; an ellipsis marks the cut.
fn cut(text: &str, width: Option<usize>) -> String {
    let text = plain_line(text);
    match width {
        Some(width) if text.chars().count() > width => {
            text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
        }
        _ => text.into_owned(),
    }
}
