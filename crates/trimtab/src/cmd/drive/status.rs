//! `trimtab drive status`.

use crate::report::virtual_ssd;
use serde::Serialize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use trimtab_linux::output::Context;
use trimtab_vssd::control::{Client, ControlCommand, PATIENCE, is_timeout};
use trimtab_vssd::runtime::{self, Runtime, RuntimeEntry, RuntimeState, ServerRecord};
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

/// Status of the attached drives, and those whose server does not answer.
#[derive(Default, Serialize)]
struct DriveStatusReport {
    drives: Vec<Status>,
    crashed: Vec<CrashedDrive>,
    silent: Vec<SilentDrive>,
    #[serde(skip)]
    remarks: Vec<String>,
}

#[derive(Serialize)]
struct CrashedDrive {
    id: String,
    device: Option<PathBuf>,
}

/// A drive whose server runs but does not answer.
#[derive(Serialize)]
struct SilentDrive {
    id: String,
    device: Option<PathBuf>,
    pid: u32,
}

impl DriveStatusReport {
    fn in_words(&self) -> String {
        if self.drives.is_empty() && self.crashed.is_empty() && self.silent.is_empty() {
            return "no drive is attached\n".to_owned();
        }
        let crashed = |drive: &CrashedDrive| {
            format!(
                "{0}: its server has crashed; run 'trimtab drive detach {0}' to clean up\n",
                drive.id
            )
        };
        let silent = |drive: &SilentDrive| {
            format!(
                "{}: its server (process {}) does not answer within {} s\n",
                drive.id,
                drive.pid,
                PATIENCE.as_secs()
            )
        };
        let running = self.drives.iter().map(virtual_ssd::render);
        let running = running.chain(self.silent.iter().map(silent));
        running.chain(self.crashed.iter().map(crashed)).collect()
    }
}

pub fn run(args: &DriveStatusArgs, context: &Context) -> anyhow::Result<ExitCode> {
    let report = ask(args)?;
    report.remarks.iter().for_each(|remark| context.remark(remark));
    context.report("drive-status", 2, &report, || report.in_words())?;
    let all_answer = report.crashed.is_empty() && report.silent.is_empty();
    Ok(if all_answer { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn ask(args: &DriveStatusArgs) -> anyhow::Result<DriveStatusReport> {
    let runtime = Runtime::open()?;
    let entries = match &args.drive {
        Some(drive) => vec![runtime.find(Some(drive))?],
        None => runtime.entries()?,
    };
    let mut report = DriveStatusReport::default();
    for entry in &entries {
        let crashed = |record: Option<&ServerRecord>| CrashedDrive {
            id: entry.id.clone(),
            device: record.and_then(|record| record.device.clone()),
        };
        match &entry.state {
            RuntimeState::Running(record) => match status_of(entry) {
                Ok(status) => report.drives.push(status),
                Err(error) if is_timeout(&error) && runtime::is_running(record) => {
                    let (id, device) = (entry.id.clone(), record.device.clone());
                    report.silent.push(SilentDrive { id, device, pid: record.pid });
                }
                // A server that is ending takes a moment.
                Err(error) if runtime::is_running_after(record, Duration::from_secs(1)) => {
                    return Err(error);
                }
                Err(_) => report.crashed.push(crashed(Some(record))),
            },
            RuntimeState::Starting => {
                report.remarks.push(format!("trimtab: {}: its server is still starting", entry.id))
            }
            RuntimeState::Dead(record) => report.crashed.push(crashed(record.as_ref())),
        }
    }
    Ok(report)
}

fn status_of(entry: &RuntimeEntry) -> anyhow::Result<Status> {
    Client::connect(&entry.home.control())?.ask(&ControlCommand::Status)
}
