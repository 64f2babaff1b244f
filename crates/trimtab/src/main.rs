//! `trimtab`: parse, do, exit. Errors are printed here and nowhere else.

use clap::{CommandFactory as _, Parser as _};
use std::process::ExitCode;
use trimtab::{cli, cmd, error, output};

fn main() -> ExitCode {
    output::restore_default_sigpipe();
    let cli = match cli::Cli::try_parse() {
        Ok(cli) => cli,
        // clap prints help and versions to standard output with status 0, usage errors to standard error with status 2.
        Err(error) => error.exit(),
    };
    let context = output::Context::new(&cli.global);
    match cmd::run(cli.command, cli::Cli::command(), &context) {
        Ok(code) => code,
        Err(error) => error::print_and_exit_code(&error),
    }
}
