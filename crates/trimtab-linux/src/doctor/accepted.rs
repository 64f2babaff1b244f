//! Findings that an administrator accepts: they are omitted and do not affect the exit
//! status.

use super::faults::FORBID_TRIM;
use super::{Diagnosis, Finding, Severity, VerdictKind, to_do};
use std::path::PathBuf;

/// The codes of all findings, and the verdicts that can be accepted.
const CODES: &str = "
    ata.forced-off ata.queued-trim-harms ata.trim-unknown ata.unqueued
    btrfs.async-data-only btrfs.sync-discard cache.no-passdown cloud.no-discard
    crypt.integrity crypt.leaks-free-space crypt.no-allow-discards crypt.wrong-parameter
    device.kind-unknown device.no-discards device.read-only dm.member-without-discards
    dm.no-discards dm.stale-limits drive.known-fault drive.no-trim drive.provisioning-mode
    drive.trim-fails drive.trim-hangs drive.trim-loses-data ext4.discard-amplification
    ext4.discard-by-default f2fs.sends-later file.deleted file.second-filesystem
    fs.covered fs.does-not-answer fs.fuse-untried fs.no-discards fs.no-recovery
    fs.passes-through fs.trim-whole-only fstrim.does-not-run fstrim.may-be
    fstrim.no-device fstrim.no-discards fstrim.no-fitrim fstrim.not-in-fstab
    fstrim.not-listed fstrim.notrim fstrim.other-path fstrim.quiet fstrim.skipped
    integrity.no-allow-discards integrity.of-crypt limits.switched-off limits.tiny
    loop.no-holes loop.on-device lun.no-unmap md.mismatch md.parity md.parity-stripe
    md.parity-trusts-members md.raid0-switch nothing-trims ntfs3.no-discard
    nvme.no-deallocate partition.misaligned raid-controller.no-discard raid.parity
    scsi.limit-above-device scsi.mode-against-device scsi.no-unmap scsi.unmap-not-asked
    scsi.unmap-not-used snapshot.no-discards snapshot.of-this-volume stacked
    swap.no-discard thin-pool.broken thin-pool.ignores thin-pool.no-passdown
    thin.large-chunks trimtab.not-configured vdo.keeps virtio.no-discard
    virtual.host-unknown virtual.no-discard xfs.fstrim-incomplete xfs.realtime-not-trimmed
    blocked unknown";

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
        if code.is_empty() || path.as_ref().is_some_and(|path| !path.is_absolute()) {
            return Err(format!(
                "'{}' is neither CODE nor CODE:/PATH, as in nothing-trims:/srv",
                text.escape_debug()
            ));
        }
        if !CODES.split_ascii_whitespace().any(|known| known == code) {
            return Err(format!(
                "'{}' is the code of no finding; trimtab doctor --json shows codes",
                code.escape_debug()
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
        for wrong in ["", ":/srv", "stacked:srv"] {
            let error = wrong.parse::<AcceptedFinding>().unwrap_err();
            assert!(error.contains("CODE:/PATH"), "{wrong}: {error}");
        }
        for wrong in ["nothing-trim", "Nothing", "x y", "a\nb"] {
            let error = wrong.parse::<AcceptedFinding>().unwrap_err();
            assert!(
                error.contains("is the code of no finding") && !error.contains('\n'),
                "{error}"
            );
        }
    }

    /// The sources of the doctor as text, without tests.
    fn sources() -> String {
        let mut all =
            vec![std::path::PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/src/doctor"))];
        let mut text = include_str!("../doctor.rs").to_owned();
        while let Some(path) = all.pop() {
            if path.is_dir() {
                all.extend(std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
            } else if !path.ends_with("accepted.rs") && path.extension().is_some_and(|e| e == "rs")
            {
                let source = std::fs::read_to_string(path).unwrap();
                text += source.split("#[cfg(test)]\nmod tests {").next().unwrap();
            }
        }
        text
    }

    #[test]
    fn codes_are_those_of_the_sources() {
        let sources = sources();
        for code in
            CODES.split_ascii_whitespace().filter(|code| !["blocked", "unknown"].contains(code))
        {
            assert!(sources.contains(&format!("\"{code}\"")), "{code} is of no finding");
        }
        let calls = [".note(", ".caution(", ".serious(", ".block(", "Finding::new(", "Answer::no("];
        for (call, rest) in
            calls.iter().flat_map(|call| sources.split(call).skip(1).map(move |rest| (call, rest)))
        {
            let Some(rest) = rest.trim_start().strip_prefix('"') else { continue };
            let code = rest.split('"').next().unwrap();
            assert!(code.parse::<AcceptedFinding>().is_ok(), "{call}{code}");
        }
    }
}
