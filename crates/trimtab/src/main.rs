//! `trimtab`: parse, do, exit. Errors are printed here and nowhere else.

use clap::{CommandFactory as _, Parser as _};
use std::process::ExitCode;
use trimtab::{cli, cmd, error, output};

fn main() -> ExitCode {
    output::restore_default_sigpipe();
    let cli = match cli::Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return cli::explain(&error),
    };
    let context = output::Context::new(&cli.global);
    match cmd::run(cli.command, cli::Cli::command(), &context) {
        Ok(code) => code,
        Err(error) => error::print_and_exit_code(&error),
    }
}
