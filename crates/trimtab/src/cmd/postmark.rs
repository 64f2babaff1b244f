//! `trimtab postmark [CONFIG]`.

use crate::postmark;
use std::path::PathBuf;
use std::process::ExitCode;
use trimtab_linux::output::Context;

/// Run PostMark scripts: its command language, operations and reports.
///
/// Reads commands from CONFIG (or from .pmrc in the current directory), then from
/// standard input until 'quit'. Standard output matches the original, so old scripts run
/// unchanged. Exact counts, sub-second times and latencies follow on standard error (not
/// with --quiet). Files are created directly in the configured locations, named 1, 2, 3
/// …; a run does not start if one of these names exists.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Commands: 'help' lists them. As in the original, a line that begins with '!' runs the rest in \
/bin/sh, also in CONFIG; a lone '!' starts $SHELL. 'trimtab bench postmark' runs the same operations with options, \
also with fsync or a rate.

Examples:
  trimtab postmark old.conf                     run an old script
  printf 'set location /mnt/ssd\\nset number 10000\\nrun\\nquit\\n' | trimtab postmark
  trimtab postmark --json old.conf              print the runs as JSON, without the classic report")]
pub struct PostmarkArgs {
    /// Read commands from this file [default: .pmrc, if it exists].
    config: Option<PathBuf>,
    /// Keep each run in the store of results, with the machine and its activity.
    #[arg(long)]
    keep: bool,
}

/// Runs the session.
pub fn run(args: &PostmarkArgs, context: &Context) -> anyhow::Result<ExitCode> {
    postmark::run(args.config.as_deref(), args.keep, context)
}
