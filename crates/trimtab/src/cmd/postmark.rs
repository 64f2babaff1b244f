//! `trimtab postmark [CONFIG]`.

pub mod announce;
pub mod classic;
pub mod command;
pub mod config;
pub mod details;
pub mod directories;
pub mod execution;
pub mod memory;
pub mod session;

use crate::cmd::options::Choice;
use crate::cmd::postmark::config::{Config, THREADS_MAX, interval_of_rate};
use crate::cmd::postmark::execution::{Live, Record};
use crate::cmd::postmark::session::{DEFAULT_FILE, Session, Voice};
use crate::report;
use crate::store::shape::run::RunV1;
use crate::store::{self, RunId};
use anyhow::Context as _;
use rustix::event::{PollFd, PollFlags, poll};
use serde::Serialize;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use trimtab_linux::output::{self, Context};
use trimtab_linux::sys::interrupt;
use trimtab_linux::sys::interrupt::Interrupted;
use trimtab_linux::target::dir::Fsync;
use trimtab_sim::run::Run;

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

/// A run in JSON.
#[derive(Serialize)]
struct RunShape {
    /// The reports that the original would have printed; none if files ran out.
    verbose: Option<String>,
    terse: Option<String>,
    run: RunV1,
}

#[derive(Serialize)]
struct Shape {
    runs: Vec<RunShape>,
}

/// Runs the session.
pub fn run(args: &Args, context: &Context) -> anyhow::Result<ExitCode> {
    let mut config = Config { fsync: args.fsync.0, direct: args.direct, threads: args.threads, ..Config::default() };
    if let Some(rate) = args.rate {
        config.settings.interval = interval_of_rate(rate);
    }
    let mut shape = Shape { runs: Vec::new() };
    let failed = session(args, context, config, &mut shape.runs)?;
    if context.json {
        context.report("postmark", 1, &shape, String::new)?;
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// True if a run failed.
fn session(args: &Args, context: &Context, config: Config, shapes: &mut Vec<RunShape>) -> anyhow::Result<bool> {
    let mut finished = |record: Record| -> anyhow::Result<()> {
        if context.json || args.keep || !context.quiet {
            let run = record.to_run();
            let id = if args.keep { Some(store::save(context, &run).context("cannot keep the run")?) } else { None };
            if context.json {
                shapes.push(shape_of(&record, &run, id));
            } else {
                let kept = id.map(|id| format!("\nkept as {id}: trimtab results show {}", id.short())).unwrap_or_default();
                context.remark_styled(&(report::text::render(&report::run::document(&run)).trim_end().to_owned() + &kept));
            }
        }
        Ok(())
    };
    let mut classic: Box<dyn Write + Send> =
        if context.json { Box::new(io::sink()) } else { Box::new(BufWriter::new(output::unlocked_stdout()?)) };
    let mut complain = |text: &str| trimtab_linux::output::complain(text);
    let voice = Voice { out: &mut *classic, complain: &mut complain, shell_to_stderr: context.json };
    let mut live = Live::new(context, args.keep, &mut finished);
    let file = args.config.as_deref().unwrap_or(Path::new(DEFAULT_FILE));
    let ended = Session::new(config, voice, &mut live).execute(file, &mut BufReader::new(Typed));
    match ended {
        Err(_) if interrupt::requested() => Err(Interrupted.into()),
        Err(error) => Err(error),
        Ok(ended) => Ok(ended.failed),
    }
}

fn shape_of(record: &Record, run: &Run, id: Option<RunId>) -> RunShape {
    let reported = !record.out_of_files();
    let mut shape = RunV1::from(run);
    shape.id = id.map(|id| id.to_string());
    RunShape {
        verbose: reported.then(|| classic::verbose(&record.totals, record.stamps)),
        terse: reported.then(|| classic::terse(&record.totals, record.stamps)),
        run: shape,
    }
}

/// Standard input that an interrupt ends, also while it waits for a line.
struct Typed;

impl Read for Typed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let stdin = io::stdin();
        loop {
            if interrupt::requested() {
                return Err(io::Error::other(Interrupted));
            }
            match poll(&mut [PollFd::new(&stdin, PollFlags::IN)], None) {
                Ok(_) => return Ok(rustix::io::read(&stdin, buffer)?),
                Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}
