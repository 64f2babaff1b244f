//! The command line: what can be said, and its help.

use crate::cmd::Command;
use crate::output;
use crate::output::Global;
use clap::Parser;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Exit status: 0 done, 1 failed, 2 wrong usage, 130 interrupted (by SIGINT, SIGTERM or SIGHUP). doctor and verify say their verdict with it,
too: 3 TRIM is blocked, gets lost or does damage, 4 unknown or not proved. 'trimtab COMMAND --help' says more.";

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

/// Prints help and versions to standard output, and usage errors to standard error (status 2). Those quote what was said, which may be anything.
pub fn explain(error: &clap::Error) -> ExitCode {
    let text = error.render();
    if error.use_stderr() {
        anstream::eprint!("{}", output::plain(&text.to_string()));
        return ExitCode::from(crate::error::USAGE);
    }
    anstream::print!("{}", output::styled(&text.ansi().to_string()));
    ExitCode::SUCCESS
}
