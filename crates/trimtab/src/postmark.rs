//! PostMark: its command language, exact operations and reports.

pub mod announce;
pub mod classic;
pub mod command;
pub mod config;
pub mod details;
pub mod directories;
pub mod execution;
pub mod session;

use self::config::PostmarkConfig;
use self::execution::PostmarkRunRecord;
use self::session::{DEFAULT_FILE, PostmarkResult, Session, SessionOutput};
use crate::store::shape::run::RunV1;
use crate::store::{self, RunId};
use anyhow::Context as _;
use rustix::event::{PollFd, PollFlags, poll};
use serde::Serialize;
use std::borrow::Cow;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::Path;
use std::process::ExitCode;
use trimtab_drive::usage::UsageError;
use trimtab_linux::host::memory;
use trimtab_linux::output::{self, Context};
use trimtab_linux::sys::interrupt;
use trimtab_linux::sys::interrupt::InterruptError;
use trimtab_sim::run::Run;
use trimtab_sim::workload::postmark::PostmarkSettings;

/// Fails if these settings need more memory than is available.
pub fn check_memory(settings: &PostmarkSettings) -> Result<(), UsageError> {
    memory::check(
        "the table of files and the text",
        settings.memory(),
        "use fewer or smaller files",
    )
}

/// The JSON shape of a run.
#[derive(Serialize)]
struct RunShape {
    /// The original's reports; `None` if the files ran out.
    verbose: Option<String>,
    terse: Option<String>,
    run: RunV1<'static>,
}

#[derive(Serialize)]
struct Shape {
    runs: Vec<RunShape>,
}

/// Runs the session: the commands in `file` (`.pmrc`, if it exists, by default), then
/// those on standard input. With `keep`, each run is stored.
pub fn run(file: Option<&Path>, keep: bool, context: &Context) -> anyhow::Result<ExitCode> {
    let mut shape = Shape { runs: Vec::new() };
    let failed = session(file, keep, context, &mut shape.runs)?;
    if context.json {
        context.report("postmark", 1, &shape, String::new)?;
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Runs the session; returns true if a run failed.
fn session(
    file: Option<&Path>,
    keep: bool,
    context: &Context,
    shapes: &mut Vec<RunShape>,
) -> anyhow::Result<bool> {
    let mut live = |config: &PostmarkConfig, out: &mut dyn Write| {
        let record = execution::run(context, config, keep, out)?;
        if context.json || keep || !context.quiet {
            let run = record.to_run();
            let id = if keep {
                Some(store::save(context, &run).context("cannot store the run")?)
            } else {
                None
            };
            if context.json {
                shapes.push(shape_of(&record, run, id));
            } else {
                let kept = id
                    .map(|id| format!("\nkept as {id}: trimtab results show {}", id.short()))
                    .unwrap_or_default();
                context.remark_styled(
                    &(trimtab_report::text::render(&trimtab_report::run::document(&run))
                        .trim_end()
                        .to_owned()
                        + &kept),
                );
            }
        }
        Ok(PostmarkResult {
            totals: record.totals,
            stamps: record.stamps,
            all_done: !record.counts.out_of_files,
        })
    };
    let mut classic: Box<dyn Write> = if context.json {
        Box::new(io::sink())
    } else {
        Box::new(BufWriter::new(output::unlocked_stdout()?))
    };
    let mut complain = |text: &str| trimtab_linux::output::complain(text);
    let voice = SessionOutput {
        out: &mut *classic,
        complain: &mut complain,
        shell_to_stderr: context.json,
    };
    let file = file.unwrap_or(Path::new(DEFAULT_FILE));
    let ended = Session::new(PostmarkConfig::default(), voice, &mut live)
        .execute(file, &mut BufReader::new(InterruptibleInput));
    match ended {
        Err(_) if interrupt::requested() => Err(InterruptError.into()),
        ended => ended,
    }
}

fn shape_of(record: &PostmarkRunRecord, run: Run, id: Option<RunId>) -> RunShape {
    let reported = !record.counts.out_of_files;
    RunShape {
        verbose: reported.then(|| classic::verbose(&record.totals, record.stamps)),
        terse: reported.then(|| classic::terse(&record.totals, record.stamps)),
        run: RunV1 { id: id.map(|id| id.to_string()), label: None, run: Cow::Owned(run) },
    }
}

/// Standard input that an interrupt ends, even while waiting for a line.
struct InterruptibleInput;

impl Read for InterruptibleInput {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let stdin = io::stdin();
        loop {
            if interrupt::requested() {
                return Err(io::Error::other(InterruptError));
            }
            match poll(&mut [PollFd::new(&stdin, PollFlags::IN)], None) {
                Ok(_) => return Ok(rustix::io::read(&stdin, buffer)?),
                Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}
