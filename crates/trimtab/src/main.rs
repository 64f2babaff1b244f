//! `trimtab`: parses the command line, runs the command, exits. Prints all errors here.

use clap::FromArgMatches as _;
use std::process::ExitCode;
use trimtab::cmd::{self, cli};
use trimtab_linux::output;
use trimtab_linux::output::error;

fn main() -> ExitCode {
    output::restore_default_sigpipe();
    let parsed =
        cli::command().try_get_matches().and_then(|matches| cli::Cli::from_arg_matches(&matches));
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) => return cli::explain(&error),
    };
    let context = cli.global.context();
    match cmd::run(cli.command, cli::command(), &context) {
        Ok(code) => code,
        Err(error) => error::print_and_exit_code(&error, context.json),
    }
}
