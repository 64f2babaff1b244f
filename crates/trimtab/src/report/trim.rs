//! The outcome of a trim, as text.

use crate::trim::outcome::{FilesystemOutcome, TrimReport};
use trimtab_drive::units::{Bytes, Nanos, grouped};
use trimtab_linux::output::lines::prose;
use trimtab_linux::trim::surface::at_least;
use trimtab_report::layout;
use trimtab_study::document::Table;

/// The whole report.
pub fn text(report: &TrimReport) -> String {
    let passed_by = report
        .passed_by
        .iter()
        .map(|p| prose(&format!("{}: skipped: {}", p.path, p.why)))
        .collect::<String>();
    match (report.filesystems.is_empty(), report.dry_run) {
        (true, _) if passed_by.is_empty() && report.failed.is_empty() => {
            prose("fstab lists no filesystem that can be trimmed")
        }
        (true, _) => passed_by,
        (_, true) => format!("{}\n{passed_by}", dry_text(report)),
        _ => format!("{}{passed_by}", table_text(report)),
    }
}

fn table_text(report: &TrimReport) -> String {
    let mut table = Table::new(
        "",
        &[
            "filesystem",
            "reached the drives",
            "commands",
            "free",
            "requests",
            "refused",
            "time",
            "worst foreground mean",
        ],
    );
    for f in &report.filesystems {
        let wait = match (f.foreground_latency_during_ms, f.foreground_latency_otherwise_ms) {
            (Some(during), Some(otherwise)) => {
                format!("{} (otherwise {})", of_ms(during), of_ms(otherwise))
            }
            (Some(during), None) => of_ms(during),
            _ => "-".to_owned(),
        };
        table.row([
            format!("{} [{}]", f.path, f.fs_type),
            f.sent_bytes.map_or("not counted".to_owned(), |b| {
                at_least(f.sent_is_minimum, &Bytes(b).to_string())
            }),
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
        lines.extend(
            f.refused
                .iter()
                .take(10)
                .map(|r| format!("{}: refused at {}+{}: {}", f.path, r.start, r.len, r.why)),
        );
        if f.refused.len() > 10 {
            lines.push(format!("{}: and {} more refused", f.path, f.refused.len() - 10));
        }
        lines.extend(skipped_line(f));
        lines.extend(f.remarks.iter().map(|r| format!("{}: {r}", f.path)));
    }
    let first = report.filesystems.iter().filter_map(named_line).map(|line| prose(&line));
    first
        .chain(std::iter::once(layout::on_screen(&table)))
        .chain(lines.iter().map(|line| prose(line)))
        .collect()
}

fn of_ms(ms: f64) -> String {
    match (ms * 1e6) as u64 {
        0 => "none".to_owned(),
        ns => Nanos(ns).to_string(),
    }
}

/// Line about free space that ext4 did not send again; `None` if the trim itself skipped
/// free extents.
fn skipped_line(f: &FilesystemOutcome) -> Option<String> {
    let why = "ext4 skips block groups that were trimmed since mounting";
    let is_over = f.fs_type == "ext4" && f.requests > 0 && f.refused.is_empty();
    match f.returned_bytes {
        _ if !is_over => None,
        0 => Some(format!("{}: nothing to trim: {why}", f.path)),
        sent if f.min_extent == 0
            && f.complete
            && !f.resumed
            && !f.skipped
            && sent < f.free_bytes / 2 =>
        {
            let (sent, free) = (Bytes(sent), Bytes(f.free_bytes));
            Some(format!(
                "{}: only {sent} of {free} free were trimmed: {why}, and extents too small for \
                    the drive",
                f.path
            ))
        }
        _ => None,
    }
}

/// Line for a named directory, which is not all that is trimmed.
fn named_line(f: &FilesystemOutcome) -> Option<String> {
    let named = f.named.as_ref()?;
    Some(format!(
        "{named} is on the filesystem mounted at {}: the whole filesystem is trimmed",
        f.path
    ))
}

/// Line about the sync, which may have delayed other processes.
fn sync_line(f: &FilesystemOutcome) -> Option<String> {
    let seconds = f.sync_seconds.filter(|seconds| *seconds >= 0.1)?;
    let took = Nanos((seconds * 1e9) as u64);
    Some(format!(
        "{}: pending changes were written out first, in {took} (--no-sync skips this)",
        f.path
    ))
}

fn dry_text(report: &TrimReport) -> String {
    let line = |f: &FilesystemOutcome| {
        // The remarks say why.
        if f.asked_bytes == 0 {
            let nothing = format!("{} [{}]: no request would be sent", f.path, f.fs_type);
            return [nothing]
                .iter()
                .chain(&f.remarks)
                .map(String::as_str)
                .collect::<Vec<_>>()
                .join("\n  ");
        }
        // A larger size than any filesystem's is a request without an end.
        let asked = if f.asked_bytes >= 1 << 60 {
            "all addresses".to_owned()
        } else {
            format!("{} of addresses", Bytes(f.asked_bytes))
        };
        let mut text = format!(
            "{} [{}]: {} {}, {}, over {asked}, {} free (blocks reserved \
                for root included)",
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
            None => "\n  the amount to send is unknown: this filesystem does not report its \
                free extents"
                .to_owned(),
        };
        if f.would_send.as_ref().is_some_and(|w| w.at_most) {
            text += " (less if parts were trimmed since mounting; ext4 does not show which)";
        }
        for remark in sync_line(f).iter().chain(&f.remarks) {
            text += &format!("\n  {remark}");
        }
        named_line(f).map_or(text.clone(), |first| format!("{first}\n{text}"))
    };
    let text = report.filesystems.iter().map(line).collect::<Vec<_>>().join("\n");
    on_screen(&text, trimtab_linux::output::width())
}

/// Continuation lines keep their indentation.
fn on_screen(text: &str, width: Option<usize>) -> String {
    let line = |line: &str| {
        let indent = &line[..line.len() - line.trim_start().len()];
        trimtab_linux::output::lines::paragraph(
            line.trim_start(),
            width,
            indent,
            &format!("{indent}    "),
        )
    };
    text.lines().map(line).collect::<String>().trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Once, a dry run above a crashed server claimed requests over 0 B of addresses.
    #[test]
    fn dry_run_without_requests_states_only_the_reason() {
        let outcome = FilesystemOutcome {
            path: "/a".to_owned(),
            fs_type: "ext4".to_owned(),
            windows: 24,
            remarks: vec!["the server has crashed".to_owned()],
            ..FilesystemOutcome::default()
        };
        let report = TrimReport {
            dry_run: true,
            filesystems: vec![outcome],
            passed_by: Vec::new(),
            failed: Vec::new(),
        };
        let expected = "/a [ext4]: no request would be sent\n  the server has crashed";
        assert_eq!(dry_text(&report), expected);
    }

    #[test]
    fn latency_of_zero_is_none() {
        assert_eq!([0.0, 1.5].map(of_ms), ["none", "1.50 ms"]);
    }

    #[test]
    fn ext4_trim_of_little_free_space_names_the_reason() {
        let outcome = |returned_bytes: u64, fs_type: &str, min_extent: u64| FilesystemOutcome {
            path: "/a".to_owned(),
            fs_type: fs_type.to_owned(),
            min_extent,
            requests: 24,
            complete: true,
            free_bytes: 2_840_000_000,
            returned_bytes,
            ..FilesystemOutcome::default()
        };
        let said = |returned, fs_type, min| skipped_line(&outcome(returned, fs_type, min));
        let reason = "ext4 skips block groups that were trimmed since mounting";
        assert_eq!(said(0, "ext4", 0), Some(format!("/a: nothing to trim: {reason}")));
        assert_eq!(
            said(4_710_000, "ext4", 0),
            Some(format!(
                "/a: only 4.71 MB of 2.84 GB free were trimmed: {reason}, and extents too small \
                    for the drive"
            ))
        );
        assert_eq!(said(2_700_000_000, "ext4", 0), None);
        assert_eq!(said(4_710_000, "ext4", 1 << 20), None, "small extents were not wanted");
        let skipped = FilesystemOutcome { skipped: true, ..outcome(4_710_000, "ext4", 0) };
        assert_eq!(skipped_line(&skipped), None, "an idle trim skipped extents");
        assert_eq!((said(0, "xfs", 0), said(4_710_000, "xfs", 0)), (None, None));
    }

    #[test]
    fn on_screen_breaks_between_words() {
        let text = "/mnt/x [ext4]: 24 requests, block groups of 128 MiB\n  would send at most \
            3.09 GB in 24 extents";
        let narrow = "/mnt/x [ext4]: 24\n    requests, block groups of\n    128 MiB\n  would send \
            at most\n      3.09 GB in 24 extents";
        assert_eq!(on_screen(text, Some(30)), narrow);
        assert_eq!(on_screen(text, None), text);
    }
}
