//! `trimtab postmark [CONFIG]`.

use crate::cmd::options::Choice;
use crate::postmark::config::{self, THREADS_MAX};
use crate::postmark::{self, Request};
use std::path::PathBuf;
use std::process::ExitCode;
use trimtab_linux::output::Context;
use trimtab_linux::target::dir::Fsync;

/// PostMark: its command language, its operations, its reports.
///
/// Reads commands from CONFIG (or .pmrc in the current directory, if there is one), then from standard input until 'quit'. Standard output is what
/// the original prints, so old scripts run unchanged; exact counts, sub-second times and latencies follow on standard error (not with --quiet).
/// Files go straight into the locations that were set, under the names 1, 2, 3 …; a run does not start where one of them is taken.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Commands: 'help' lists them. The options below set what a session begins with; 'set fsync', 'set direct', 'set threads' and 'set rate' change it.

Examples:
  trimtab postmark old.conf                     as always
  printf 'set location /mnt/ssd\\nset number 10000\\nrun\\nquit\\n' | trimtab postmark
  trimtab postmark --fsync close --threads 4    type commands at the prompt
  trimtab postmark --json old.conf              the runs as JSON, without the classic report")]
pub struct Args {
    /// File of commands [default: .pmrc, if it exists].
    config: Option<PathBuf>,
    /// Make written files durable: never, or before each is closed.
    #[arg(long, value_enum, default_value_t = Choice(Fsync::Never))]
    fsync: Choice<Fsync>,
    /// Bypass the page cache (needs 'set buffering false' and block sizes in multiples of 4096).
    #[arg(long)]
    direct: bool,
    /// Independent streams that run at once, each with files and a seed of its own.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=i64::from(THREADS_MAX)))]
    threads: u32,
    /// Start at most N transactions a second in each stream; latency then counts from when a transaction was due.
    #[arg(long, value_name = "N", value_parser = config::rate_option)]
    rate: Option<f64>,
    /// Keep each run in the store of results, with the machine and what else it did.
    #[arg(long)]
    keep: bool,
}

/// Runs the session.
pub fn run(args: Args, context: &Context) -> anyhow::Result<ExitCode> {
    let Args { config, fsync, direct, threads, rate, keep } = args;
    postmark::run(&Request { config, fsync: fsync.0, direct, threads, rate, keep }, context)
}
