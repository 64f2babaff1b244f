//! What became of a trim: for programs, and in words.

use crate::report::layout;
use serde::Serialize;
use std::process::ExitCode;
use std::time::Instant;
use trimtab_drive::units::{Bytes, Nanos, grouped};
use trimtab_linux::host::discards::LayerDiscards;
use trimtab_linux::output::error::{BLOCKED, NOT_PROVED};
use trimtab_linux::output::lines::prose;
use trimtab_linux::trim::delivery::Delivery;
use trimtab_linux::trim::surface::{Account, at_least};
use trimtab_study::document::{Narrow, Table};

#[derive(Debug, Serialize)]
pub struct RefusedWindow {
    pub start: u64,
    pub len: u64,
    pub errno: i32,
    pub why: String,
}

/// What a trim would send.
#[derive(Debug, Serialize)]
pub struct WouldSend {
    pub bytes: u64,
    pub extents: u64,
    /// It may be less: ext4 does not show which groups it takes for trimmed.
    pub at_most: bool,
}

/// What became of one filesystem.
#[derive(Debug, Serialize)]
pub struct Outcome {
    pub path: String,
    /// The directory that was named, where it is not the mount point.
    pub named: Option<String>,
    pub fs_type: String,
    pub policy: String,
    pub min_extent: u64,
    pub unit: String,
    pub windows: u64,
    pub requests: u64,
    pub complete: bool,
    pub resumed: bool,
    /// How long it took to write out what was pending; absent if that was not done.
    pub sync_seconds: Option<f64>,
    pub free_bytes: u64,
    pub asked_bytes: u64,
    pub returned_bytes: u64,
    /// What the lowest of `layers` counted, all of them together; absent if they do not count.
    pub sent_bytes: Option<u64>,
    pub sent_commands: Option<u64>,
    /// Discards were in flight at the end or belonged to requests that failed, so that the counts are a minimum.
    pub sent_is_minimum: bool,
    /// Of these bytes, what was sent twice: by itself, to learn what a command costs, and with its window.
    pub sent_twice_bytes: u64,
    /// For a dry run: what would be sent, where the filesystem says where its free space lies.
    pub would_send: Option<WouldSend>,
    /// Whether that is all of it, on every leg; for a dry run only where it is known that a trim would not prove that.
    pub delivery: Option<Delivery>,
    /// What each layer counted while requests ran.
    pub layers: Vec<LayerDiscards>,
    pub refused: Vec<RefusedWindow>,
    pub seconds: f64,
    pub trimming_seconds: f64,
    pub longest_request_seconds: f64,
    pub others_waited_during_ms: Option<f64>,
    pub others_waited_otherwise_ms: Option<f64>,
    pub remarks: Vec<String>,
}

/// A path that was not trimmed, which is no fault.
#[derive(Debug, Serialize)]
pub struct PassedBy {
    pub path: String,
    pub why: String,
}

/// A path that could not be trimmed.
#[derive(Debug, Serialize)]
pub struct Failed {
    pub path: String,
    pub why: String,
}

#[derive(Serialize)]
pub struct Report {
    pub dry_run: bool,
    pub filesystems: Vec<Outcome>,
    pub passed_by: Vec<PassedBy>,
    pub failed: Vec<Failed>,
}

/// The worst of all filesystems.
pub fn exit_code(report: &Report) -> ExitCode {
    if report.filesystems.iter().any(|f| !f.complete) && !report.dry_run {
        return ExitCode::FAILURE;
    }
    let statuses: Vec<u8> = report.filesystems.iter().filter_map(|f| f.delivery).map(Delivery::exit_status).collect();
    // Blocked is worse than not proved.
    let worst = [BLOCKED, NOT_PROVED].into_iter().find(|status| statuses.contains(status));
    worst.map_or(ExitCode::SUCCESS, ExitCode::from)
}

/// What was refused, in a line.
pub fn refusal(outcome: &Outcome) -> Option<String> {
    let first = outcome.refused.first()?;
    let (refused, all) = (outcome.refused.len() as u64, outcome.refused.len() as u64 + outcome.requests);
    Some(format!(
        "{}: {refused} of {all} requests refused, the first at {}+{}: {}; the kernel's log says more (dmesg)",
        outcome.path, first.start, first.len, first.why
    ))
}

pub fn finish(outcome: &mut Outcome, account: &Account, started: Instant) {
    let ms = |wait: Option<Nanos>| wait.map(|w| w.as_secs_f64() * 1e3);
    let carried_out = account.discards.carried_out();
    outcome.requests = carried_out.count;
    outcome.asked_bytes = carried_out.bytes.0;
    outcome.returned_bytes = account.returned.0;
    outcome.sent_bytes = account.discards.accepted.map(|s| s.bytes.0);
    outcome.sent_commands = account.discards.accepted.map(|s| s.count);
    outcome.sent_is_minimum = account.is_minimum;
    if account.is_minimum {
        outcome.remarks.push(account.minimum_remark());
    }
    outcome.sent_twice_bytes = account.trials.0;
    if account.trials > Bytes::ZERO {
        outcome.remarks.push(format!(
            "{} of this were parts of block groups that were sent first, to learn what a command costs here; what was sent of these groups later has them in it once more",
            account.trials
        ));
    }
    outcome.seconds = started.elapsed().as_secs_f64();
    outcome.trimming_seconds = account.trimming.as_secs_f64();
    outcome.longest_request_seconds = account.longest.as_secs_f64();
    outcome.others_waited_during_ms = ms(account.wait_during);
    outcome.others_waited_otherwise_ms = ms(account.wait_otherwise);
    let refused = account.refusals.iter().map(|(w, r)| RefusedWindow {
        start: w.start,
        len: w.len,
        errno: r.errno.raw_os_error(),
        why: r.to_string(),
    });
    outcome.refused = refused.collect();
    if account.excess > Bytes::ZERO {
        outcome.remarks.push(format!(
            "the device counted {} more than was asked: another trim ran at the same time (fstrim), the filesystem's own discards were still draining, or a layer counts twice",
            account.excess
        ));
    }
}

pub fn text(report: &Report) -> String {
    let passed_by = report.passed_by.iter().map(|p| prose(&format!("{}: passed by: {}", p.path, p.why))).collect::<String>();
    match (report.filesystems.is_empty(), report.dry_run) {
        (true, _) => passed_by,
        (_, true) => format!("{}\n{passed_by}", dry_text(report)),
        _ => format!("{}{passed_by}", table_text(report)),
    }
}

fn table_text(report: &Report) -> String {
    let mut table =
        Table::new("", &["filesystem", "reached the drives", "commands", "free", "requests", "refused", "time", "others waited"])
            .when_narrow(Narrow::Records);
    for f in &report.filesystems {
        let wait = match (f.others_waited_during_ms, f.others_waited_otherwise_ms) {
            (Some(during), Some(otherwise)) => format!("{} (else {})", of_ms(during), of_ms(otherwise)),
            (Some(during), None) => of_ms(during),
            _ => "-".to_owned(),
        };
        table.row([
            format!("{} [{}]", f.path, f.fs_type),
            f.sent_bytes.map_or("not counted".to_owned(), |b| at_least(f.sent_is_minimum, &Bytes(b).to_string())),
            f.sent_commands.map_or("-".to_owned(), |n| at_least(f.sent_is_minimum, &grouped(n))),
            Bytes(f.free_bytes).to_string(),
            grouped(f.requests),
            grouped(f.refused.len() as u64),
            Nanos((f.seconds * 1e9) as u64).to_string(),
            wait,
        ]);
    }
    let mut lines = Vec::new();
    for f in &report.filesystems {
        lines.extend(sync_line(f));
        lines.extend(f.refused.iter().take(10).map(|r| format!("{}: refused at {}+{}: {}", f.path, r.start, r.len, r.why)));
        if f.refused.len() > 10 {
            lines.push(format!("{}: and {} more refused", f.path, f.refused.len() - 10));
        }
        lines.extend(f.remarks.iter().map(|r| format!("{}: {r}", f.path)));
    }
    let first = report.filesystems.iter().filter_map(named_line).map(|line| prose(&line));
    first.chain(std::iter::once(layout::on_screen(&table))).chain(lines.iter().map(|line| prose(line))).collect()
}

fn of_ms(ms: f64) -> String {
    Nanos((ms * 1e6) as u64).to_string()
}

/// Whoever names a directory may take it for all that is trimmed.
fn named_line(f: &Outcome) -> Option<String> {
    let named = f.named.as_ref()?;
    Some(format!("{named} is on the filesystem mounted at {}: all of that is trimmed", f.path))
}

/// A sync that somebody may have waited for.
fn sync_line(f: &Outcome) -> Option<String> {
    let seconds = f.sync_seconds.filter(|seconds| *seconds >= 0.1)?;
    let took = Nanos((seconds * 1e9) as u64);
    Some(format!("{}: what was pending was written out first, in {took} (--no-sync leaves that out)", f.path))
}

fn dry_text(report: &Report) -> String {
    let line = |f: &Outcome| {
        // More than any filesystem: one request without an end.
        let asked = if f.asked_bytes >= 1 << 60 { "all".to_owned() } else { Bytes(f.asked_bytes).to_string() };
        let mut text = format!(
            "{} [{}]: {} {}, {}, over {asked} of addresses, {} free",
            f.path,
            f.fs_type,
            f.windows,
            if f.windows == 1 { "request" } else { "requests" },
            f.unit,
            Bytes(f.free_bytes)
        );
        text += &match &f.would_send {
            Some(w) => format!(
                "\n  would send {}{} in {} {}",
                if w.at_most { "at most " } else { "" },
                Bytes(w.bytes),
                w.extents,
                if w.extents == 1 { "extent" } else { "extents" }
            ),
            None => "\n  how much would be sent is not known: this filesystem does not say where its free space lies".to_owned(),
        };
        if f.would_send.as_ref().is_some_and(|w| w.at_most) {
            text += " (less where it has been trimmed since it was mounted: ext4 does not show where)";
        }
        for remark in sync_line(f).iter().chain(&f.remarks) {
            text += &format!("\n  {remark}");
        }
        named_line(f).map_or(text.clone(), |first| format!("{first}\n{text}"))
    };
    let text = report.filesystems.iter().map(line).collect::<Vec<_>>().join("\n");
    on_screen(&text, trimtab_linux::output::width())
}

/// Lines that go on behind an indentation of their own.
fn on_screen(text: &str, width: Option<usize>) -> String {
    let line = |line: &str| {
        let indent = &line[..line.len() - line.trim_start().len()];
        trimtab_linux::output::lines::paragraph(line.trim_start(), width, indent, &format!("{indent}    "))
    };
    text.lines().map(line).collect::<String>().trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_be_sent_breaks_between_words() {
        let text = "/mnt/x [ext4]: 24 requests, block groups of 128 MiB\n  would send at most 3.09 GB in 24 extents";
        let narrow = "/mnt/x [ext4]: 24\n    requests, block groups of\n    128 MiB\n  would send at most\n      3.09 GB in 24 extents";
        assert_eq!(on_screen(text, Some(30)), narrow);
        assert_eq!(on_screen(text, None), text);
    }
}
