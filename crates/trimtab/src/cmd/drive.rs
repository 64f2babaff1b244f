//! `trimtab drive …`: modelled drives.

mod list;
mod show;

use crate::output::Context;
use clap::Subcommand;
use std::process::ExitCode;

/// Arguments of `trimtab drive`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the shipped drive specifications.
    List,
    /// Show a specification: every figure with its source.
    Show(show::Args),
}

/// Runs it.
pub fn run(args: &Args, context: &Context) -> anyhow::Result<ExitCode> {
    match &args.command {
        Command::List => list::run(context),
        Command::Show(args) => show::run(args, context),
    }
}
