//! One module per command: its arguments and the function that runs it.

pub mod advise;
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
pub mod report;
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
use trimtab_linux::host;
use trimtab_linux::output::Context;
use trimtab_linux::session::journal::MountScope;
use trimtab_linux::sys::mount_check;
use trimtab_linux::trim::resume::state_directory;

/// The commands.
#[derive(Debug, Subcommand)]
pub enum CliCommand {
    /// Compare trim policies on a directory or a modelled drive, and recommend one.
    Study(study::StudyArgs),
    /// Run one benchmark on one target.
    Bench(bench::BenchArgs),
    /// Simulate thousands of runs from one plan, on all processors.
    Sweep(sweep::SweepArgs),
    /// Run PostMark scripts: its command language, exact operations and reports.
    Postmark(postmark::PostmarkArgs),
    /// Work with modelled drives: specifications, simulation, drives attached as block
    /// devices.
    Drive(drive::DriveArgs),
    /// Check whether TRIM reaches the drive, and say how to fix it if it does not.
    Doctor(doctor::DoctorArgs),
    /// List, show, compare and move stored results.
    Results(results::ResultsArgs),
    /// Watch mounted filesystems and trim each under its policy.
    Daemon(daemon::DaemonArgs),
    /// Write a trim policy into the system's configuration, or undo that.
    Apply(apply::ApplyArgs),
    /// Prove that freed blocks are discarded: write, delete, trim, read the raw blocks.
    Verify(verify::VerifyArgs),
    /// Trim mounted filesystems completely, in idle time if asked, counted at the device.
    Trim(trim::TrimArgs),
    /// Show how worn drives are: data written, write amplification, life left.
    Wear(wear::Args),
    /// Print the discard settings of another program, such as RocksDB or ZFS, for one
    /// drive.
    Advise(advise::AdviseArgs),
    /// Report on many hosts: blocked TRIM, drives that wear too fast.
    Report(report::ReportArgs),
    /// List what was applied and trimmed on this machine, and when.
    History(history::HistoryArgs),
    /// Print a completion script for a shell.
    Completions(completions::CompletionsArgs),
    /// Write man pages into a directory.
    #[command(hide = true)]
    Manual(manual::ManualArgs),
}

impl CliCommand {
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
            Self::Advise(args) => args.reach(),
            Self::Drive(args) => args.reach(),
            Self::Sweep(_)
            | Self::Results(_)
            | Self::Report(_)
            | Self::History(_)
            | Self::Completions(_)
            | Self::Manual(_) => MountScope::Nothing,
        }
    }

    /// Refuses --label for a command that neither stores runs nor selects them by it.
    fn refuse_label(&self, context: &Context) -> Result<(), UsageError> {
        let uses_label = match self {
            Self::Study(_) | Self::Bench(_) | Self::Postmark(_) | Self::Drive(_) => true,
            Self::Results(args) => args.uses_label(),
            _ => false,
        };
        if uses_label || context.label.is_none() {
            return Ok(());
        }
        Err(UsageError::new("this command neither stores runs nor selects them by --label")
            .hint("leave --label out; 'trimtab results list --label' finds labelled runs"))
    }

    /// Refuses --store for a command that works with the history, which is always in the
    /// state directory.
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
        let what = format!(
            "--store names a store of results, and 'trimtab {name}' works with the history, {}",
            history.display()
        );
        Err(UsageError::new(what)
            .hint("leave --store out; TRIMTAB_STATE_DIR names another directory for the history"))
    }
}

/// Runs the command and returns its exit status. `whole` is the full command line, for
/// completion scripts.
pub fn run(
    command: CliCommand,
    whole: clap::Command,
    context: &Context,
) -> anyhow::Result<ExitCode> {
    // The doctor reports silent mounts in its answer.
    let says_itself = matches!(command, CliCommand::Doctor(_));
    command.refuse_label(context)?;
    command.refuse_store(context)?;
    let reach = command.reach();
    let paths: Vec<&Path> = reach.paths().iter().map(PathBuf::as_path).collect();
    let reach = match &command {
        // For the doctor, a mount that does not answer is a finding.
        CliCommand::Doctor(args) if !args.changes_something() => {
            reach.clone().without(&mount_check::silent(&paths))
        }
        _ => {
            host::require_answers(&paths)?;
            reach
        }
    };
    trimtab_linux::session::journal::at_start(context, &reach, says_itself);
    if !matches!(command, CliCommand::Apply(_)) {
        apply::at_start(context);
    }
    if let Ok(directory) = twins::directory(context) {
        drives::know_twins_of(directory);
    }
    match command {
        CliCommand::Study(args) => study::run(&args, context),
        CliCommand::Bench(args) => bench::run(args, context),
        CliCommand::Sweep(args) => sweep::run(&args, context),
        CliCommand::Postmark(args) => postmark::run(&args, context),
        CliCommand::Drive(args) => drive::run(args, context),
        CliCommand::Doctor(args) => doctor::run(&args, context),
        CliCommand::Results(args) => results::run(&args, context),
        CliCommand::Daemon(args) => daemon::run(&args, context),
        CliCommand::Apply(args) => apply::run(&args, context),
        CliCommand::Verify(args) => verify::run(&args, context),
        CliCommand::Trim(args) => trim::run(&args, context),
        CliCommand::Wear(args) => wear::run(&args, context),
        CliCommand::Advise(args) => advise::run(&args, context),
        CliCommand::Report(args) => report::run(&args, context),
        CliCommand::History(args) => history::run(&args, context),
        CliCommand::Completions(args) => completions::run(&args, whole),
        CliCommand::Manual(args) => manual::run(&args, whole),
    }
}
