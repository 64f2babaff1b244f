//! `trimtab drive status` and `trimtab drive watch`.

mod counters;

use crate::report::layout::on_screen;
use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::Duration;
use trimtab_drive::ledger::SIZE_CLASSES;
use trimtab_drive::units::{Bytes, Nanos, grouped, three_digits};
use trimtab_linux::output::lines::prose;
use trimtab_linux::output::{self, Context};
use trimtab_study::document::Table;
use trimtab_vssd::control::{Ask, Client};
use trimtab_vssd::runtime::{self, Entry, Runtime, State};
use trimtab_vssd::status::Status;
use trimtab_vssd::transport::Transport;

const EXAMPLES: &str = "\
Examples:
  trimtab drive status                     every attached drive
  trimtab drive status --json              every counter by its name, in bytes and nanoseconds
  trimtab drive status /dev/loop0
  trimtab drive watch /dev/loop0           the same, redrawn each second until Ctrl-C

Without a terminal, 'drive watch' prints the status once.";

/// Arguments of `trimtab drive status` and `trimtab drive watch`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Id or block device of the drive [default: all].
    #[arg(value_name = "DRIVE")]
    drive: Option<String>,
}

/// What the servers of drives report, and remarks about servers that report nothing.
struct Report {
    drives: Vec<Status>,
    remarks: Vec<String>,
}

impl Report {
    fn in_words(&self) -> String {
        if self.drives.is_empty() { "no drive is attached\n".to_owned() } else { self.drives.iter().map(in_words).collect() }
    }
}

/// Prints the status of attached drives.
pub fn run(args: &Args, context: &Context) -> anyhow::Result<ExitCode> {
    let report = ask(args)?;
    report.remarks.iter().for_each(|remark| context.remark(remark));
    context.report("drive-status", 1, &serde_json::json!({ "drives": &report.drives }), || report.in_words())?;
    Ok(ExitCode::SUCCESS)
}

/// Redraws the status each second until the user interrupts it. Without a terminal, prints it once.
pub fn watch(args: &Args, context: &Context) -> anyhow::Result<ExitCode> {
    if context.json || !output::is_on_terminal() {
        return run(args, context);
    }
    loop {
        let report = ask(args)?;
        output::redraw(&format!("{}{}", report.in_words(), report.remarks.join("\n")))?;
        std::thread::sleep(Duration::from_secs(1));
    }
}

fn ask(args: &Args) -> anyhow::Result<Report> {
    let runtime = Runtime::open()?;
    let entries = match &args.drive {
        Some(drive) => vec![runtime.find(Some(drive))?],
        None => runtime.entries()?,
    };
    let mut report = Report { drives: Vec::new(), remarks: Vec::new() };
    for entry in &entries {
        match &entry.state {
            State::Running(record) => match status_of(entry) {
                Ok(status) => report.drives.push(status),
                // It may be dying, which takes a moment.
                Err(error) if runtime::is_running_after(record, Duration::from_secs(1)) => return Err(error),
                Err(_) => report.remarks.push(crashed(entry)),
            },
            State::Starting => report.remarks.push(format!("trimtab: {}: its server is just being started", entry.id)),
            State::Dead(_) => report.remarks.push(crashed(entry)),
        }
    }
    Ok(report)
}

fn crashed(entry: &Entry) -> String {
    format!("trimtab: {0}: its server has crashed; 'trimtab drive detach {0}' removes what it left", entry.id)
}

/// Asks the server of `entry`.
fn status_of(entry: &Entry) -> anyhow::Result<Status> {
    Client::connect(&entry.home.control())?.ask(&Ask::Status)
}

fn in_words(status: &Status) -> String {
    let mut text = String::new();
    let record = &status.record;
    let place = record.device.iter().chain(&record.nbd).map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ");
    let _ = writeln!(text, "{}  {}  {} ({} bytes)", record.id, place, Bytes(record.size), record.size);
    let how = format!(
        "speed {}{}, attached for {}, model time {}, data {} ({} stored)",
        status.speed,
        status.record.transport.map_or_else(String::new, |transport| format!(", requests over {transport}")),
        Nanos((status.uptime_s * 1e9) as u64),
        Nanos(status.model_time_ns),
        Bytes(status.mapped_bytes),
        Bytes(status.stored_bytes)
    );
    text.push_str(&prose(&how));
    for fault in &status.faults {
        let _ = writeln!(text, "fault: {fault}");
    }
    let mut requests = Table::new("", &["requests", "count", "bytes", "last second", "failed", "mean", "p50", "p99", "max"]);
    let last = status.seconds.last().map(|second| second.requests).unwrap_or_default();
    for ((name, kind), (_, now)) in status.requests.named().into_iter().zip(last.named()) {
        let latency = kind.latency;
        let shown = [latency.mean_ns as u64, latency.p50_ns, latency.p99_ns, latency.max_ns].map(|ns| Nanos(ns).to_string());
        let mut row = vec![
            name.to_owned(),
            grouped(kind.count),
            Bytes(kind.bytes).to_string(),
            format!("{}/s", Bytes(now.bytes)),
            grouped(kind.failed),
        ];
        row.extend(shown);
        requests.row(row);
    }
    let _ = writeln!(text, "{}", on_screen(&requests).trim_end_matches('\n'));
    text.push_str(&ledger_in_words(status));
    if let Some(wait) = &status.host_wait {
        let [all, beside] = [wait.all_ns, wait.beside_trims_ns].map(|ns| Nanos(ns).to_string());
        let looped = record.transport == Some(Transport::Device);
        let why = if looped { " (the loop device passes nothing on while a TRIM is under way)" } else { "" };
        text.push_str(&prose(&format!(
            "before the drive had them, reads and writes waited {all} in the kernel, {beside} of it in seconds with TRIM{why}"
        )));
        text.push('\n');
    }
    text.push_str(&counters::in_words(&status.model));
    let waf = status.waf.map_or("-".to_owned(), three_digits);
    let _ = writeln!(text, "write amplification since new: {waf}");
    text
}

fn ledger_in_words(status: &Status) -> String {
    let discards = &status.discards;
    if discards.commands == 0 {
        return String::new();
    }
    let mut ledger = Table::new("", &["discards", "ranges", "bytes"]);
    ledger.row(["asked", &grouped(discards.ranges.asked.count), &discards.ranges.asked.bytes.to_string()]);
    for ((_, class), tally) in SIZE_CLASSES.iter().zip(&discards.by_size) {
        if tally.count > 0 {
            ledger.row([format!("  {class}"), grouped(tally.count), tally.bytes.to_string()]);
        }
    }
    ledger.row(["effective", "", &Bytes(discards.effective_bytes()).to_string()]);
    ledger.row(["held no data before", &grouped(discards.repeated_ranges), &Bytes(discards.repeated_bytes).to_string()]);
    ledger.row(["part of a block only", "", &Bytes(discards.partial_bytes).to_string()]);
    ledger.row(["refused", &grouped(discards.ranges.refused.count), &discards.ranges.refused.bytes.to_string()]);
    ledger.row(["ignored (fault)", &grouped(discards.ignored.count), &discards.ignored.bytes.to_string()]);
    let amplification = status.discard_amplification.map_or("-".to_owned(), three_digits);
    format!("{}discard amplification (bytes discarded / bytes freed): {amplification}\n", on_screen(&ledger))
}
