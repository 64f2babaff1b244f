//! `trimtab completions SHELL`.

use std::process::ExitCode;

/// Arguments of `trimtab completions`.
#[derive(Debug, clap::Args)]
pub struct CompletionsArgs {
    /// Print the script for this shell.
    shell: clap_complete::Shell,
}

/// Prints the script.
pub fn run(args: &CompletionsArgs, mut whole: clap::Command) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut whole, "trimtab", &mut script);
    trimtab_linux::output::write_stdout(&script)?;
    Ok(ExitCode::SUCCESS)
}
