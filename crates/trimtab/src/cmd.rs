//! One module per command: its arguments and the function that runs it.

pub mod apply;
pub mod bench;
pub mod cli;
pub mod completions;
pub mod daemon;
pub mod doctor;
pub mod drive;
pub mod history;
pub mod manual;
pub mod options;
pub mod postmark;
pub mod results;
pub mod study;
pub mod sweep;
pub mod trim;
pub mod verify;
pub mod wear;

use crate::drives::{self, twins};
use clap::Subcommand;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use trimtab_drive::usage::UsageError;
use trimtab_linux::output::Context;
use trimtab_linux::session::notes::MountScope;
use trimtab_linux::sys::mount_check;
use trimtab_linux::trim::resume::state_directory;

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Compare trim policies on a directory or a modelled drive, and recommend one.
    Study(study::Args),
    /// Run one benchmark on one target.
    Bench(bench::Args),
    /// Simulate thousands of runs from one plan, on all processors.
    Sweep(sweep::Args),
    /// Run PostMark scripts: its command language, exact operations and reports.
    Postmark(postmark::Args),
    /// Work with modelled drives: specifications, simulation, drives attached as block devices.
    Drive(drive::Args),
    /// Check whether TRIM reaches the drive, and say how to fix it if it does not.
    Doctor(doctor::Args),
    /// List, show, compare and move stored results.
    Results(results::Args),
    /// Watch mounted filesystems and trim each under its policy.
    Daemon(daemon::Args),
    /// Write a trim policy into the system's configuration, or undo that.
    Apply(apply::Args),
    /// Prove that freed blocks are discarded: write, delete, trim, read the raw blocks.
    Verify(verify::Args),
    /// Trim mounted filesystems completely, in idle time if asked, counted at the device.
    Trim(trim::Args),
    /// Show how worn drives are: data written, write amplification, life left.
    Wear(wear::Args),
    /// List what was applied and trimmed on this machine, and when.
    History(history::Args),
    /// Print a completion script for a shell.
    Completions(completions::Args),
    /// Write man pages into a directory.
    #[command(hide = true)]
    Manual(manual::Args),
}

impl Command {
    /// Mounts that the command works on.
    fn reach(&self) -> MountScope {
        match self {
            Self::Study(args) => args.reach(),
            Self::Bench(args) => args.reach(),
            Self::Postmark(_) => MountScope::of_targets(["."]),
            Self::Doctor(args) => args.reach(),
            Self::Daemon(args) => args.reach(),
            Self::Apply(args) => args.reach(),
            Self::Verify(args) => args.reach(),
            Self::Trim(args) => args.reach(),
            Self::Wear(args) => args.reach(),
            Self::Drive(args) => args.reach(),
            Self::Sweep(_) | Self::Results(_) | Self::History(_) | Self::Completions(_) | Self::Manual(_) => MountScope::Nothing,
        }
    }

    /// Refuses --store for a command that works with the history, which is always in the state
    /// directory.
    fn refuse_store(&self, context: &Context) -> Result<(), UsageError> {
        let name = match self {
            Self::Trim(_) => "trim",
            Self::History(_) => "history",
            _ => return Ok(()),
        };
        if context.store.is_none() {
            return Ok(());
        }
        let history = state_directory().join(crate::history::FILE);
        let what = format!("--store names a store of results, and 'trimtab {name}' works with the history, {}", history.display());
        Err(UsageError::new(what).hint("leave --store out; TRIMTAB_STATE_DIR names another directory for the history"))
    }
}

/// Runs the command and returns its exit status. `whole` is the full command line, for
/// completion scripts.
pub fn run(command: Command, whole: clap::Command, context: &Context) -> anyhow::Result<ExitCode> {
    // The doctor reports silent mounts in its answer.
    let says_itself = matches!(command, Command::Doctor(_));
    command.refuse_store(context)?;
    let reach = command.reach();
    let paths: Vec<&Path> = reach.paths().iter().map(PathBuf::as_path).collect();
    let reach = match &command {
        // For the doctor, a mount that does not answer is a finding.
        Command::Doctor(args) if !args.changes_something() => reach.clone().without(&mount_check::silent(&paths)),
        _ => {
            mount_check::require_answers(&paths)?;
            reach
        }
    };
    trimtab_linux::session::notes::at_start(context, &reach, says_itself);
    if !matches!(command, Command::Apply(_)) {
        apply::at_start(context);
    }
    if let Ok(directory) = twins::directory(context) {
        drives::know_twins_of(directory);
    }
    match command {
        Command::Study(args) => study::run(&args, context),
        Command::Bench(args) => bench::run(args, context),
        Command::Sweep(args) => sweep::run(&args, context),
        Command::Postmark(args) => postmark::run(args, context),
        Command::Drive(args) => drive::run(args, context),
        Command::Doctor(args) => doctor::run(&args, context),
        Command::Results(args) => results::run(&args, context),
        Command::Daemon(args) => daemon::run(&args, context),
        Command::Apply(args) => apply::run(&args, context),
        Command::Verify(args) => verify::run(&args, context),
        Command::Trim(args) => trim::run(&args, context),
        Command::Wear(args) => wear::run(&args, context),
        Command::History(args) => history::run(&args, context),
        Command::Completions(args) => completions::run(&args, whole),
        Command::Manual(args) => manual::run(&args, whole),
    }
}
