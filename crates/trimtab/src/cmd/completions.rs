//! `trimtab completions SHELL`.

use crate::cmd::options::one_of;
use clap_complete::Shell;
use std::process::ExitCode;

/// Shells of Linux, by name.
const SHELLS: &[(&str, Shell)] =
    &[("bash", Shell::Bash), ("fish", Shell::Fish), ("zsh", Shell::Zsh)];

/// Arguments of `trimtab completions`.
#[derive(Debug, clap::Args)]
pub struct CompletionsArgs {
    /// Print the script for this shell.
    #[arg(value_parser = one_of(SHELLS))]
    shell: Shell,
}

/// Prints the script.
pub fn run(args: &CompletionsArgs, mut whole: clap::Command) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut whole, "trimtab", &mut script);
    trimtab_linux::output::write_stdout(&script)?;
    Ok(ExitCode::SUCCESS)
}
