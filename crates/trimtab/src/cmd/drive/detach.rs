//! `trimtab drive detach`.

use super::name_server;
use std::process::ExitCode;
use std::time::Duration;
use trimtab_linux::output::Context;
use trimtab_vssd::control::{Client, ControlCommand, SilentServerError};
use trimtab_vssd::runtime::{self, Runtime, RuntimeEntry, RuntimeState, ServerRecord};

const EXAMPLES: &str = "\
Examples:
  trimtab drive detach                     the only attached drive
  trimtab drive detach ocz-vertex-le-100gb
  trimtab drive detach /dev/loop0
  trimtab drive detach --all --force       their remaining users get I/O errors";

/// Arguments of `trimtab drive detach`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct DriveDetachArgs {
    /// Detach this drive, by id or block device. Optional if only one is attached.
    #[arg(value_name = "DRIVE", conflicts_with = "all")]
    drive: Option<String>,
    /// Detach all drives.
    #[arg(long)]
    all: bool,
    /// Detach even if the drive is in use; its users then get I/O errors.
    #[arg(long)]
    force: bool,
}

pub fn run(args: &DriveDetachArgs, context: &Context) -> anyhow::Result<ExitCode> {
    let runtime = Runtime::open()?;
    let entries =
        if args.all { runtime.entries()? } else { vec![runtime.find(args.drive.as_deref())?] };
    let mut detached = Vec::new();
    let mut failed = None;
    for entry in entries {
        let result = match &entry.state {
            RuntimeState::Running(record) => ask_server(&entry, record, args.force),
            RuntimeState::Dead(_) => runtime::remove_remains(&entry, args.force).map(|()| None),
            RuntimeState::Starting => Err(anyhow::anyhow!("its server is still starting")),
        };
        match result {
            Ok(problem) => {
                failed = problem
                    .map(|problem| anyhow::anyhow!("{} is detached, but {problem}", entry.id))
                    .or(failed);
                detached.push(entry.id);
            }
            // One failure does not stop the others.
            Err(error) => failed = Some(error.context(format!("cannot detach {}", entry.id))),
        }
    }
    let text = || detached.iter().map(|id| format!("detached {id}\n")).collect();
    if context.json || !detached.is_empty() {
        context.report("drive-detach", 1, &serde_json::json!({ "detached": &detached }), text)?;
    }
    failed.map_or(Ok(ExitCode::SUCCESS), Err)
}

/// Asks the server to detach, and waits until it has ended, so that its data file can be
/// used again. Returns data that could not be kept.
fn ask_server(
    entry: &RuntimeEntry,
    record: &ServerRecord,
    force: bool,
) -> anyhow::Result<Option<String>> {
    let asked = Client::connect(&entry.home.control()).and_then(|mut client| {
        client.change::<serde_json::Value>(&ControlCommand::Detach { force })
    });
    let answer = match asked {
        Ok(answer) => answer,
        Err(error) if error.is::<SilentServerError>() => return Err(name_server(record, error)),
        Err(error) if runtime::is_running_after(record, Duration::from_secs(1)) => {
            return Err(error);
        }
        // It died since the listing.
        Err(_) => return runtime::remove_remains(entry, force).map(|()| None),
    };
    let _ = runtime::is_running_after(record, Duration::from_secs(60));
    Ok(answer["problem"].as_str().map(str::to_owned))
}
