//! `trimtab manual DIR`.

use anyhow::Context as _;
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `trimtab manual`.
#[derive(Debug, clap::Args)]
pub struct ManualArgs {
    /// An existing directory; pages of the same names are replaced.
    directory: PathBuf,
}

/// Writes a page for the program and for each of its commands.
pub fn run(args: &ManualArgs, whole: clap::Command) -> anyhow::Result<ExitCode> {
    let shown = args.directory.display();
    clap_mangen::generate_to(whole.disable_help_subcommand(true), &args.directory)
        .with_context(|| format!("cannot write pages into {shown}"))?;
    Ok(ExitCode::SUCCESS)
}
