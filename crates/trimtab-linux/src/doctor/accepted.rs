//! Findings that an administrator accepts: they are omitted and do not affect the exit
//! status.

use super::faults::FORBID_TRIM;
use super::{Diagnosis, Finding, Severity, VerdictKind, to_do};
use std::path::PathBuf;

/// One accepted finding: `CODE` everywhere, or `CODE:PATH` for one filesystem or device.
/// The codes `blocked` and `unknown` accept the verdicts of that name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcceptedFinding {
    code: String,
    path: Option<PathBuf>,
}

impl std::str::FromStr for AcceptedFinding {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (code, path) = text
            .split_once(':')
            .map_or((text, None), |(code, path)| (code, Some(PathBuf::from(path))));
        let is_code = !code.is_empty()
            && code
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b".-".contains(&b));
        if !is_code || path.as_ref().is_some_and(|path| !path.is_absolute()) {
            return Err(format!(
                "'{}' is neither CODE nor CODE:/PATH, as in nothing-trims:/srv",
                text.escape_debug()
            ));
        }
        Ok(Self { code: code.to_owned(), path })
    }
}

impl AcceptedFinding {
    pub(super) fn covers(&self, code: &str, subject: &str) -> bool {
        self.code == code && self.path.as_ref().is_none_or(|path| path.as_os_str() == subject)
    }
}

impl Diagnosis {
    /// Removes accepted findings and their steps.
    pub fn accept(&mut self, accepted: &[AcceptedFinding]) {
        let subject = self.subject.clone();
        let is_accepted = |code: &str| accepted.iter().any(|one| one.covers(code, &subject));
        let mut taken: Vec<(String, Severity)> = Vec::new();
        let mut keep = |finding: &Finding| {
            let keeps = !is_accepted(finding.code);
            if !keeps {
                taken.push((finding.code.to_owned(), finding.severity));
            }
            keeps
        };
        for report in self.layers.iter_mut().chain(&mut self.filesystem) {
            report.findings.retain(&mut keep);
        }
        self.mechanisms.retain(&mut keep);
        let verdict = match self.verdict.kind {
            VerdictKind::Blocked => "blocked",
            VerdictKind::Unknown => "unknown",
            VerdictKind::Reaches | VerdictKind::NotNeeded => "",
        };
        let has_serious = self.findings().any(|finding| finding.severity == Severity::Serious);
        let all_taken =
            taken.iter().any(|(_, severity)| *severity == Severity::Serious) && !has_serious;
        self.is_verdict_accepted = !verdict.is_empty() && is_accepted(verdict)
            || self.verdict.kind == VerdictKind::Blocked && all_taken;
        if !verdict.is_empty() && is_accepted(verdict) {
            taken.push((verdict.to_owned(), Severity::Serious));
        }
        self.accepted = taken.into_iter().map(|(code, _)| code).collect();
        self.accepted.dedup();
        if !self.accepted.is_empty() {
            self.to_do = if self.is_verdict_accepted { Vec::new() } else { to_do(self) };
            self.fix = self.fix.take().filter(|_| self.actionable().next().is_some());
        }
    }

    /// Exit status of `trimtab doctor`: an accepted verdict counts as success, a drive
    /// that TRIM harms as blocked.
    pub fn exit_status(&self) -> u8 {
        let harms = self.findings().any(|finding| FORBID_TRIM.contains(&finding.code));
        match self.verdict.kind {
            VerdictKind::Reaches if harms => VerdictKind::Blocked.exit_status(),
            _ if self.is_verdict_accepted => 0,
            kind => kind.exit_status(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepted_finding_parses_code_and_optional_path() {
        let one: AcceptedFinding = "nothing-trims:/srv".parse().unwrap();
        assert!(
            one.covers("nothing-trims", "/srv")
                && !one.covers("nothing-trims", "/")
                && !one.covers("stacked", "/srv")
        );
        let everywhere: AcceptedFinding = "swap.no-discard".parse().unwrap();
        assert!(everywhere.covers("swap.no-discard", "/dev/sda2"));
        for wrong in ["", ":/srv", "Nothing", "x y", "stacked:srv", "a\nb"] {
            assert!(
                wrong.parse::<AcceptedFinding>().unwrap_err().contains("CODE:/PATH"),
                "{wrong}"
            );
        }
    }
}
