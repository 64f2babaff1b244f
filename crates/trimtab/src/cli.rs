//! The command line: what can be said, and its help.

use crate::cmd;
use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Exit status: 0 done, 1 failed, 2 wrong usage.";

/// Finds out what TRIM, fill and time do to a drive, says which trim policy suits it, and keeps it trimmed.
#[derive(Debug, Parser)]
#[command(name = "trimtab", version, about, after_help = EXAMPLES, propagate_version = true, disable_help_subcommand = true)]
pub struct Cli {
    /// Options of every command.
    #[command(flatten)]
    pub global: Global,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Options that every command takes.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Options of every command")]
pub struct Global {
    /// Print one JSON document on standard output instead of text.
    #[arg(long, global = true)]
    pub json: bool,
    /// No progress on standard error.
    #[arg(long, short, global = true)]
    pub quiet: bool,
    /// Answer yes to every question (large amounts of data, remounting).
    #[arg(long, short, global = true)]
    pub yes: bool,
    /// The store of results [default: trimtab/results.db in the XDG data directory].
    #[arg(long, global = true, value_name = "FILE")]
    pub store: Option<PathBuf>,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Find out what each trim policy does here, and which to use.
    Study(cmd::study::Args),
    /// Run one benchmark on one target.
    Bench(cmd::bench::Args),
    /// PostMark's own command language, exact operations and reports.
    Postmark(cmd::postmark::Args),
    /// Modelled drives: specifications, simulation, and drives attached as block devices.
    Drive(cmd::drive::Args),
    /// Say whether TRIM reaches the drive, and what to do if it does not.
    Doctor(cmd::doctor::Args),
    /// Stored results: list, show, compare, move.
    Results(cmd::results::Args),
    /// Watch mounted filesystems and trim each under its policy.
    Daemon(cmd::daemon::Args),
    /// Write a trim policy into the system's configuration, or take that back.
    Apply(cmd::apply::Args),
    /// Prove that freed blocks are discarded: write, delete, trim, read the raw blocks back.
    Verify(cmd::verify::Args),
    /// Trim mounted filesystems: complete, counted on the device, in pauses if asked.
    Trim(cmd::trim::Args),
    /// The modelled filesystem: check it against the real one.
    Volume(cmd::volume::Args),
    /// Print a completion script for a shell.
    Completions(cmd::completions::Args),
}
