//! `trimtab drive power`.

use std::process::ExitCode;
use trimtab_drive::usage::UsageError;
use trimtab_linux::output::Context;
use trimtab_vssd::control::{Ask, Client};
use trimtab_vssd::runtime::{Runtime, State};

const EXAMPLES: &str = "\
Examples:
  trimtab drive attach crucial-m4-128gb --fault power-cut      so that each cut knows what was only in the cache
  trimtab drive power crucial-m4-128gb cut      what was only in its cache is lost; every request fails
  trimtab drive power crucial-m4-128gb cut --within 500
  trimtab drive power crucial-m4-128gb on       it answers again; unmount and check what is on it first";

/// Arguments of `trimtab drive power`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Id or block device of the drive.
    #[arg(value_name = "DRIVE")]
    drive: String,
    /// Cut the power, or restore it.
    #[arg(value_name = "cut|on")]
    power: Power,
    /// With 'cut': not now, but with a random one of the next N requests that count (see 'power-cut' in 'drive attach --help').
    #[arg(long, value_name = "N")]
    within: Option<u64>,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Power {
    /// The power fails now.
    Cut,
    /// The power is there again.
    On,
}

/// Does it.
pub fn run(args: &Args, context: &Context) -> anyhow::Result<ExitCode> {
    let entry = Runtime::open()?.find(Some(&args.drive))?;
    let State::Running(_) = entry.state else { anyhow::bail!("nobody serves {}", entry.id) };
    let on = matches!(args.power, Power::On);
    if on && args.within.is_some() {
        return Err(UsageError::new("--within belongs to 'cut'").into());
    }
    let answer: serde_json::Value = Client::connect(&entry.home.control())?.ask(&Ask::Power { on, within: args.within })?;
    // Nobody has kept what was replaced before, unless that was asked for.
    let safe = if answer["known"] == false { "; attached without --fault power-cut, it keeps all that was written until now" } else { "" };
    context.report("drive-power", 1, &answer, || match answer["lost_blocks"].as_u64() {
        Some(lost) => format!("the power of {} is off; blocks lost that were only in its cache: {lost}{safe}", entry.id),
        None if args.within.is_some() => format!("the power of {} will fail{safe}", entry.id),
        None => format!("the power of {} is on", entry.id),
    })?;
    Ok(ExitCode::SUCCESS)
}
