//! `trimtab drive power`.

use super::name_server;
use std::process::ExitCode;
use trimtab_drive::usage::UsageError;
use trimtab_linux::output::Context;
use trimtab_vssd::control::{Client, ControlCommand};
use trimtab_vssd::runtime::{Runtime, RuntimeState};

const EXAMPLES: &str = "\
Examples:
  trimtab drive attach crucial-m4-128gb --fault power-cut      so that a cut loses the blocks in the cache
  trimtab drive power crucial-m4-128gb cut      lose the cached blocks; every request fails
  trimtab drive power crucial-m4-128gb cut --within 500
  trimtab drive power crucial-m4-128gb on       restore the power; unmount and check the filesystem first";

/// Arguments of `trimtab drive power`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct DrivePowerArgs {
    /// Id or block device of the drive.
    #[arg(value_name = "DRIVE")]
    drive: String,
    /// Cut the power, or restore it.
    #[arg(value_name = "cut|on")]
    power: Power,
    /// With 'cut': cut the power at a random one of the next N requests.
    #[arg(long, value_name = "N")]
    within: Option<u64>,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Power {
    /// Cut the power now.
    Cut,
    /// Restore the power.
    On,
}

pub fn run(args: &DrivePowerArgs, context: &Context) -> anyhow::Result<ExitCode> {
    let entry = Runtime::open()?.find(Some(&args.drive))?;
    let RuntimeState::Running(record) = &entry.state else {
        anyhow::bail!("{} has no running server", entry.id)
    };
    let on = matches!(args.power, Power::On);
    if on && args.within.is_some() {
        return Err(UsageError::new("--within only applies to 'cut'").into());
    }
    let answer: serde_json::Value = Client::connect(&entry.home.control())?
        .change(&ControlCommand::Power { on, within: args.within })
        .map_err(|error| name_server(record, error))?;
    // Without --fault power-cut, the server does not keep overwritten blocks.
    let safe = if answer["known"] == false {
        "; attached without --fault power-cut, so nothing written until now is lost"
    } else {
        ""
    };
    context.report("drive-power", 1, &answer, || match answer["lost_blocks"].as_u64() {
        Some(lost) => format!("the power of {} is off; cached blocks lost: {lost}{safe}", entry.id),
        None if args.within.is_some() => format!("the power of {} will fail{safe}", entry.id),
        None => format!("the power of {} is on", entry.id),
    })?;
    Ok(ExitCode::SUCCESS)
}
