//! `trimtab drive …`: modelled drives.

mod attach;
mod check;
mod detach;
mod from_datasheet;
mod learn;
mod list;
mod power;
mod replay;
mod show;
mod simulate;
mod status;
mod trace;

use clap::Subcommand;
use std::process::ExitCode;
use trimtab_linux::output::Context;
use trimtab_linux::session::notes::MountScope;

/// Arguments of `trimtab drive`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the shipped drive specifications and the twins learned here.
    List,
    /// Run a workload on a modelled drive in virtual time, and show its internal state.
    Simulate(simulate::Args),
    /// Show a specification: every figure with its source.
    Show(show::Args),
    /// Make a drive file from the figures of a data sheet.
    FromDatasheet(from_datasheet::Args),
    /// Learn a twin of a drive: probe it, and find the modelled drives that behave the same.
    Learn(learn::Args),
    /// Check a twin: predict workloads that no probe ran, then measure them.
    Check(check::Args),
    /// Attach a modelled drive as a block device.
    Attach(attach::Args),
    /// Show attached drives: requests, latencies, discards, the model's counters.
    Status(status::Args),
    /// Show the status of attached drives, redrawn each second.
    Watch(status::Args),
    /// Cut the power of an attached drive, or restore it.
    Power(power::Args),
    /// Describe a recording or another trace, or print it for fio or in blkparse's format.
    Trace(trace::Args),
    /// Replay a recording or another trace on a modelled drive under any trim policy.
    Replay(replay::Args),
    /// Detach a drive.
    Detach(detach::Args),
}

impl Args {
    /// Mounts that the command works on.
    pub fn reach(&self) -> MountScope {
        match &self.command {
            Command::Learn(learn::Args { target, .. }) | Command::Check(check::Args { target, .. }) => {
                MountScope::of_targets([target.as_str()])
            }
            _ => MountScope::Nothing,
        }
    }
}

/// Runs the subcommand.
pub fn run(args: Args, context: &Context) -> anyhow::Result<ExitCode> {
    match args.command {
        Command::List => list::run(context),
        Command::Simulate(args) => simulate::run(&args, context),
        Command::Show(args) => show::run(&args, context),
        Command::FromDatasheet(args) => from_datasheet::run(&args, context),
        Command::Learn(args) => learn::run(args, context),
        Command::Check(args) => check::run(args, context),
        Command::Attach(args) => attach::run(&args, context),
        Command::Status(args) => status::run(&args, context),
        Command::Watch(args) => status::watch(&args, context),
        Command::Power(args) => power::run(&args, context),
        Command::Trace(args) => trace::run(&args, context),
        Command::Replay(args) => replay::run(&args, context),
        Command::Detach(args) => detach::run(&args, context),
    }
}
