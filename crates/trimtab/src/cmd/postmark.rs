//! `trimtab postmark [CONFIG]`.

use crate::cmd::options::Choice;
use crate::postmark::config::{self, THREADS_MAX};
use crate::postmark::{self, PostmarkRequest};
use std::path::PathBuf;
use std::process::ExitCode;
use trimtab_linux::output::Context;
use trimtab_linux::target::dir::Fsync;

/// Run PostMark scripts: its command language, operations and reports.
///
/// Reads commands from CONFIG (or from .pmrc in the current directory), then from standard
/// input until 'quit'. Standard output matches the original, so old scripts run unchanged.
/// Exact counts, sub-second times and latencies follow on standard error (not with --quiet).
/// Files are created directly in the configured locations, named 1, 2, 3 …; a run does not
/// start if one of these names exists.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Commands: 'help' lists them. The options below set the initial values of a session; 'set fsync', 'set direct', 'set threads' and 'set rate' change them.

Examples:
  trimtab postmark old.conf                     run an old script
  printf 'set location /mnt/ssd\\nset number 10000\\nrun\\nquit\\n' | trimtab postmark
  trimtab postmark --fsync close --threads 4    type commands at the prompt
  trimtab postmark --json old.conf              print the runs as JSON, without the classic report")]
pub struct PostmarkArgs {
    /// Read commands from this file [default: .pmrc, if it exists].
    config: Option<PathBuf>,
    /// Make written files durable: never, or before closing each one.
    #[arg(long, value_enum, default_value_t = Choice(Fsync::Never))]
    fsync: Choice<Fsync>,
    /// Bypass the page cache (needs 'set buffering false' and block sizes in multiples of 4096).
    #[arg(long)]
    direct: bool,
    /// Run N independent streams at once, each with its own files and seed.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=i64::from(THREADS_MAX)))]
    threads: u32,
    /// Start at most N transactions a second in each stream. Latency then counts from the due
    /// time of a transaction.
    #[arg(long, value_name = "N", value_parser = config::rate_option)]
    rate: Option<f64>,
    /// Keep each run in the store of results, with the machine and its activity.
    #[arg(long)]
    keep: bool,
}

/// Runs the session.
pub fn run(args: PostmarkArgs, context: &Context) -> anyhow::Result<ExitCode> {
    let PostmarkArgs { config, fsync, direct, threads, rate, keep } = args;
    postmark::run(&PostmarkRequest { config, fsync: fsync.0, direct, threads, rate, keep }, context)
}
