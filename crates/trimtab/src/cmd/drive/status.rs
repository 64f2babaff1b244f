//! `trimtab drive status`.

use crate::report::virtual_ssd;
use std::process::ExitCode;
use std::time::Duration;
use trimtab_linux::output::Context;
use trimtab_vssd::control::{Client, ControlCommand};
use trimtab_vssd::runtime::{self, Runtime, RuntimeEntry, RuntimeState};
use trimtab_vssd::status::Status;

const EXAMPLES: &str = "\
Examples:
  trimtab drive status                     show every attached drive
  trimtab drive status --json              print every counter, in bytes and nanoseconds
  trimtab drive status /dev/loop0
  watch --interval 1 trimtab drive status  redraw each second until Ctrl-C";

/// Arguments of `trimtab drive status`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct DriveStatusArgs {
    /// Show this drive, by id or block device [default: all].
    #[arg(value_name = "DRIVE")]
    drive: Option<String>,
}

/// Status of the attached drives, and remarks about those whose server does not answer.
struct DriveStatusReport {
    drives: Vec<Status>,
    remarks: Vec<String>,
}

impl DriveStatusReport {
    fn in_words(&self) -> String {
        if self.drives.is_empty() {
            "no drive is attached\n".to_owned()
        } else {
            self.drives.iter().map(virtual_ssd::render).collect()
        }
    }
}

pub fn run(args: &DriveStatusArgs, context: &Context) -> anyhow::Result<ExitCode> {
    let report = ask(args)?;
    report.remarks.iter().for_each(|remark| context.remark(remark));
    context.report("drive-status", 1, &serde_json::json!({ "drives": &report.drives }), || {
        report.in_words()
    })?;
    Ok(ExitCode::SUCCESS)
}

fn ask(args: &DriveStatusArgs) -> anyhow::Result<DriveStatusReport> {
    let runtime = Runtime::open()?;
    let entries = match &args.drive {
        Some(drive) => vec![runtime.find(Some(drive))?],
        None => runtime.entries()?,
    };
    let mut report = DriveStatusReport { drives: Vec::new(), remarks: Vec::new() };
    for entry in &entries {
        match &entry.state {
            RuntimeState::Running(record) => match status_of(entry) {
                Ok(status) => report.drives.push(status),
                // A server that is ending takes a moment.
                Err(error) if runtime::is_running_after(record, Duration::from_secs(1)) => {
                    return Err(error);
                }
                Err(_) => report.remarks.push(crashed(entry)),
            },
            RuntimeState::Starting => {
                report.remarks.push(format!("trimtab: {}: its server is still starting", entry.id))
            }
            RuntimeState::Dead(_) => report.remarks.push(crashed(entry)),
        }
    }
    Ok(report)
}

fn crashed(entry: &RuntimeEntry) -> String {
    format!(
        "trimtab: {0}: its server has crashed; run 'trimtab drive detach {0}' to clean up",
        entry.id
    )
}

fn status_of(entry: &RuntimeEntry) -> anyhow::Result<Status> {
    Client::connect(&entry.home.control())?.ask(&ControlCommand::Status)
}
