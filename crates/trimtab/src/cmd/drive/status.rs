//! `trimtab drive status` and `trimtab drive watch`.

use crate::report::virtual_ssd;
use std::process::ExitCode;
use std::time::Duration;
use trimtab_linux::output::{self, Context};
use trimtab_vssd::control::{Ask, Client};
use trimtab_vssd::runtime::{self, Entry, Runtime, State};
use trimtab_vssd::status::Status;

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
        if self.drives.is_empty() { "no drive is attached\n".to_owned() } else { self.drives.iter().map(virtual_ssd::render).collect() }
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
