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
use trimtab_vssd::control::{PATIENCE, SilentServerError};
use trimtab_vssd::runtime::ServerRecord;

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

/// The error of a request; of a silent server, with its process and how to continue it.
fn name_server(record: &ServerRecord, error: anyhow::Error) -> anyhow::Error {
    if !error.is::<SilentServerError>() {
        return error;
    }
    anyhow::anyhow!(
        "the server of {} (process {pid}) does not answer within {} s; the drive is unchanged; \
            if the server is stopped, run 'kill -CONT {pid}'",
        record.id,
        PATIENCE.as_secs(),
        pid = record.pid
    )
}
