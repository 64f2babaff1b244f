//! A diagnosis in one line of at most 80 columns.

use super::{Diagnosis, Finding, Severity, VerdictKind};
use crate::output::plain;

/// Widths of verdict, subject and kind; the rest is the reason.
const COLUMNS: [usize; 3] = [10, 32, 10];
/// The width of a line.
const WIDTH: usize = 80;

/// `blocked    /home                            ext4       crypt.no-allow-discards`
#[must_use]
pub fn line(diagnosis: &Diagnosis) -> String {
    let verdict = match diagnosis.verdict.kind {
        VerdictKind::Reaches => "reaches",
        VerdictKind::Blocked => "blocked",
        VerdictKind::NotNeeded => "not needed",
        VerdictKind::Unknown => "unknown",
    };
    let kind = diagnosis.filesystem.as_ref().map_or("device", |filesystem| filesystem.kind.as_str());
    let mut text = String::new();
    for (word, width) in [verdict, &diagnosis.subject, kind].iter().zip(COLUMNS) {
        text += &format!("{:<width$} ", cut(word, width));
    }
    let used = COLUMNS.iter().map(|width| width + 1).sum::<usize>();
    text += &cut(&reason(diagnosis), WIDTH - used);
    text.trim_end().to_owned()
}

/// What keeps discards back; else what trims the filesystem.
fn reason(diagnosis: &Diagnosis) -> String {
    if diagnosis.is_verdict_accepted {
        return "accepted".to_owned();
    }
    let reports = diagnosis.filesystem.iter().chain(&diagnosis.layers);
    let findings: Vec<&Finding> = reports.flat_map(|report| &report.findings).chain(&diagnosis.mechanisms).collect();
    let of = |severity: Severity| findings.iter().find(|finding| finding.severity == severity).map(|finding| finding.code.to_owned());
    let serious = of(Severity::Serious);
    let trims = || diagnosis.trimmed_by.first().map(|by| by.split([':', ',', '(']).next().unwrap_or(by).trim().to_owned());
    let mechanism = || diagnosis.mechanisms.iter().find(|finding| finding.severity > Severity::Note).map(|finding| finding.code.to_owned());
    serious.or_else(mechanism).or_else(trims).or_else(|| of(Severity::Caution)).unwrap_or_default()
}

/// At most so many characters, with a mark where some are missing.
fn cut(text: &str, width: usize) -> String {
    let text = plain(text);
    if text.chars().count() <= width {
        return text.into_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}
