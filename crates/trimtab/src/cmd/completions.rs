//! `trimtab completions SHELL`.

use crate::cli::Cli;
use crate::output::Context;
use clap::CommandFactory as _;
use std::process::ExitCode;

/// Arguments of `trimtab completions`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The shell.
    shell: clap_complete::Shell,
}

/// Prints the script.
pub fn run(args: &Args, _context: &Context) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "trimtab", &mut script);
    crate::output::write_stdout(&script)?;
    Ok(ExitCode::SUCCESS)
}
