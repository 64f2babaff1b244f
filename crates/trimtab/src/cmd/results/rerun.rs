//! `trimtab results rerun`.

use crate::rerun;
use crate::store::Reference;
use std::path::PathBuf;
use std::process::ExitCode;
use trimtab_linux::output::Context;

/// Repeat a modelled run from the specification, settings and seed stored in it, and
/// check that every byte is the same.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The drive is the one in the result, whatever its name means today and whether its file is still there. When the run began is taken
from the result, too: all else has to come out again. Nothing is stored. What was measured gives other figures each time; its command is shown.
A result may come from anywhere, so a file that it names is read only if --input names it, too.

Exit status: 0 the same to the byte, 1 it differs or cannot be made again.

Examples:
  trimtab results rerun last
  trimtab results rerun 0c4e5df9 --json > again.json")]
pub struct ResultsRerunArgs {
    /// The run: first digits of its id, or last, last~1 …
    #[arg(value_name = "RUN")]
    run: Reference,
    /// A file named by the run that may be read, such as its trace or archive. May be
    /// given several times.
    #[arg(long = "input", value_name = "FILE")]
    inputs: Vec<PathBuf>,
}

/// Repeats the run.
pub fn run(args: &ResultsRerunArgs, context: &Context) -> anyhow::Result<ExitCode> {
    rerun::run(&super::open(context)?, &args.run, &args.inputs, context)
}
