//! Outcome of a trim.

use serde::Serialize;
use std::process::ExitCode;
use std::time::Instant;
use trimtab_drive::units::{Bytes, Nanos};
use trimtab_linux::host::discards::LayerDiscards;
use trimtab_linux::output::error::{BLOCKED, NOT_PROVED};
use trimtab_linux::trim::delivery::Delivery;
use trimtab_linux::trim::surface::Account;

#[derive(Debug, Serialize)]
pub struct RefusedWindow {
    pub start: u64,
    pub len: u64,
    pub errno: i32,
    pub why: String,
}

/// Amount that a trim would send.
#[derive(Debug, Serialize)]
pub struct SendEstimate {
    pub bytes: u64,
    pub extents: u64,
    /// The amount is an upper bound: ext4 does not show which groups it regards as
    /// trimmed.
    pub at_most: bool,
}

/// Outcome for one filesystem.
#[derive(Debug, Default, Serialize)]
pub struct FilesystemOutcome {
    pub path: String,
    /// The named directory, if it is not the mount point.
    pub named: Option<String>,
    pub fs_type: String,
    pub policy: String,
    pub min_extent: u64,
    pub unit: String,
    pub windows: u64,
    pub requests: u64,
    pub complete: bool,
    pub resumed: bool,
    /// The policy may have skipped free extents.
    #[serde(skip)]
    pub skipped: bool,
    /// Time to write out pending changes; absent if that was not done.
    pub sync_seconds: Option<f64>,
    pub free_bytes: u64,
    pub asked_bytes: u64,
    pub returned_bytes: u64,
    /// Bytes counted by the lowest of `layers`, summed; absent if they do not count.
    pub sent_bytes: Option<u64>,
    pub sent_commands: Option<u64>,
    /// The counts are a minimum: discards were in flight at the end or belonged to failed
    /// requests.
    pub sent_is_minimum: bool,
    /// Part of these bytes that was sent twice: alone, to measure the cost of a command,
    /// and with its window.
    pub sent_twice_bytes: u64,
    /// For a dry run: the amount to send, if the filesystem reports its free space.
    pub would_send: Option<SendEstimate>,
    /// Whether all of it arrived, on every leg. For a dry run, set only if a trim could
    /// not prove it.
    pub delivery: Option<Delivery>,
    /// Counts of each layer during requests.
    pub layers: Vec<LayerDiscards>,
    pub refused: Vec<RefusedWindow>,
    pub seconds: f64,
    pub trimming_seconds: f64,
    pub longest_request_seconds: f64,
    pub foreground_latency_during_ms: Option<f64>,
    pub foreground_latency_otherwise_ms: Option<f64>,
    pub remarks: Vec<String>,
}

/// A path that was not trimmed.
#[derive(Debug, Serialize)]
pub struct SkippedPath {
    pub path: String,
    pub why: String,
}

/// Outcomes of all filesystems.
#[derive(Debug, Serialize)]
pub struct TrimReport {
    pub dry_run: bool,
    pub filesystems: Vec<FilesystemOutcome>,
    /// Skipped paths, which is not a fault.
    pub passed_by: Vec<SkippedPath>,
    pub failed: Vec<SkippedPath>,
}

/// The exit status of the worst outcome.
pub fn exit_code(report: &TrimReport) -> ExitCode {
    let failed = |f: &FilesystemOutcome| !f.complete && f.delivery != Some(Delivery::NotProved);
    if report.filesystems.iter().any(failed) && !report.dry_run {
        return ExitCode::FAILURE;
    }
    let statuses: Vec<u8> =
        report.filesystems.iter().filter_map(|f| f.delivery).map(Delivery::exit_status).collect();
    // Blocked is worse than not proved.
    let worst = [BLOCKED, NOT_PROVED].into_iter().find(|status| statuses.contains(status));
    worst.map_or(ExitCode::SUCCESS, ExitCode::from)
}

/// One line about refused requests.
pub fn refusal(outcome: &FilesystemOutcome) -> Option<String> {
    let first = outcome.refused.first()?;
    let (refused, all) =
        (outcome.refused.len() as u64, outcome.refused.len() as u64 + outcome.requests);
    Some(format!(
        "{}: {refused} of {all} requests refused, the first at {}+{}: {}; the \
            kernel's log says more (dmesg)",
        outcome.path, first.start, first.len, first.why
    ))
}

pub fn finish(outcome: &mut FilesystemOutcome, account: &Account, started: Instant) {
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
            "{} of this were parts of block groups sent first to measure the cost of \
                a command; they are sent once more with the rest of their groups, unless the \
                pass ends before that",
            account.trials
        ));
    }
    outcome.seconds = started.elapsed().as_secs_f64();
    outcome.trimming_seconds = account.trimming.as_secs_f64();
    outcome.longest_request_seconds = account.longest.as_secs_f64();
    outcome.foreground_latency_during_ms = ms(account.wait_during);
    outcome.foreground_latency_otherwise_ms = ms(account.wait_otherwise);
    let refused = account.refusals.iter().map(|(w, r)| RefusedWindow {
        start: w.start,
        len: w.len,
        errno: r.errno.raw_os_error(),
        why: r.to_string(),
    });
    outcome.refused = refused.collect();
    if account.excess > Bytes::ZERO {
        outcome.remarks.push(format!(
            "the device counted {} more than was requested: another trim ran at the \
                same time (fstrim), the filesystem's own discards were still draining, or a \
                layer counts twice",
            account.excess
        ));
    }
}
