//! One module a command: its arguments, and what it does with them.

pub mod apply;
pub mod bench;
pub mod completions;
pub mod daemon;
pub mod doctor;
pub mod drive;
pub mod postmark;
pub mod results;
pub mod study;
pub mod trim;
pub mod verify;
pub mod volume;

use crate::cli::Command;
use crate::output::Context;
use std::process::ExitCode;

/// Runs the command and says with which status to exit.
pub fn run(command: Command, context: &Context) -> anyhow::Result<ExitCode> {
    match command {
        Command::Study(args) => study::run(&args, context),
        Command::Bench(args) => bench::run(&args, context),
        Command::Postmark(args) => postmark::run(&args, context),
        Command::Drive(args) => drive::run(&args, context),
        Command::Doctor(args) => doctor::run(&args, context),
        Command::Results(args) => results::run(&args, context),
        Command::Daemon(args) => daemon::run(&args, context),
        Command::Apply(args) => apply::run(&args, context),
        Command::Verify(args) => verify::run(&args, context),
        Command::Trim(args) => trim::run(&args, context),
        Command::Volume(args) => volume::run(&args, context),
        Command::Completions(args) => completions::run(&args, context),
    }
}
