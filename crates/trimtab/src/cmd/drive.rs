//! `trimtab drive …`: modelled drives.

mod attach;
mod detach;
mod from_datasheet;
pub mod learn;
mod list;
mod power;
mod show;
mod simulate;
mod status;
mod trace;

use crate::twin;
use clap::Subcommand;
use std::process::ExitCode;
use trimtab_linux::output::Context;
use trimtab_linux::session::journal::MountScope;

/// Arguments of `trimtab drive`.
#[derive(Debug, clap::Args)]
pub struct DriveArgs {
    #[command(subcommand)]
    command: DriveSubcommand,
}

#[derive(Debug, Subcommand)]
enum DriveSubcommand {
    /// List the shipped drive specifications and the twins learned here.
    List,
    /// Run a workload or a trace on a modelled drive in virtual time, and show its internal state.
    Simulate(Box<simulate::DriveSimulateArgs>),
    /// Show a specification: every figure with its source.
    Show(show::DriveShowArgs),
    /// Make a drive file from the figures of a data sheet.
    FromDatasheet(from_datasheet::Args),
    /// Learn a twin of a drive: probe it, and find the modelled drives that behave the
    /// same.
    Learn(learn::DriveLearnArgs),
    /// Attach a modelled drive as a block device.
    Attach(attach::DriveAttachArgs),
    /// Show attached drives: requests, latencies, discards, the model's counters.
    Status(status::DriveStatusArgs),
    /// Cut the power of an attached drive, or restore it.
    Power(power::DrivePowerArgs),
    /// Describe a recording or another trace.
    Trace(trace::DriveTraceArgs),
    /// Detach a drive.
    Detach(detach::DriveDetachArgs),
}

impl DriveArgs {
    /// Mounts that the command works on.
    pub fn reach(&self) -> MountScope {
        match &self.command {
            DriveSubcommand::Learn(learn::DriveLearnArgs { target, .. }) => {
                MountScope::of_targets([target.as_str()])
            }
            _ => MountScope::Nothing,
        }
    }
}

/// Runs the subcommand.
pub fn run(args: DriveArgs, context: &Context) -> anyhow::Result<ExitCode> {
    match args.command {
        DriveSubcommand::List => list::run(context),
        DriveSubcommand::Simulate(args) => simulate::run(&args, context),
        DriveSubcommand::Show(args) => show::run(&args, context),
        DriveSubcommand::FromDatasheet(args) => from_datasheet::run(&args, context),
        DriveSubcommand::Learn(args) => twin::learn::run(&args, context),
        DriveSubcommand::Attach(args) => attach::run(&args, context),
        DriveSubcommand::Status(args) => status::run(&args, context),
        DriveSubcommand::Power(args) => power::run(&args, context),
        DriveSubcommand::Trace(args) => trace::run(&args, context),
        DriveSubcommand::Detach(args) => detach::run(&args, context),
    }
}
