//! `trimtab report`: reports over many hosts.

use crate::cmd::options::{positive, write_to};
use crate::fleet;
use crate::sweep::parquet;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::ExitCode;
use trimtab_drive::usage::UsageError;
use trimtab_linux::output::{self, Context};
use trimtab_linux::sys::clock::unix_now;
use trimtab_report::{fleet as view, html, text};
use trimtab_study::fleet::Fleet;

const EXAMPLES: &str = "\
Examples:
  trimtab report fleet hosts                 the counts and the worst problems
  trimtab report fleet hosts -o all.html     all problems and drives: a page that opens offline
  trimtab report fleet hosts -o all.parquet  one row per drive, for DuckDB and other programs
  trimtab report fleet hosts --json | jq .counts

Collect the files first. On every host, run:
  trimtab doctor --all --json > doctor.json
  trimtab wear --all --json > wear.json
and copy both to hosts/HOST/, or to hosts/HOST-doctor.json and hosts/HOST-wear.json. Of a \
directory, only files that end in .json are read.

The age of a drive is its time under power. A drive wears too fast if its rated life ends before \
--years of service, at the present rate that 'trimtab wear' found on the host; without one, at \
the mean rate so far. Of two readings of a host, the newest is used.

Exit status: 0 all files are in the report, 1 at least one is not, 2 wrong usage.";

/// Arguments of `trimtab report`.
#[derive(Debug, clap::Args)]
pub struct ReportArgs {
    #[command(subcommand)]
    action: ReportAction,
}

#[derive(Debug, clap::Subcommand)]
enum ReportAction {
    /// Join what doctor and wear found on many hosts: blocked TRIM, drives that wear too
    /// fast.
    Fleet(FleetArgs),
}

/// Arguments of `trimtab report fleet`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct FleetArgs {
    /// Directories or files of the hosts' JSON documents.
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    /// Plan N years of service for every drive.
    #[arg(long, value_name = "N", default_value_t = 5.0, value_parser = positive)]
    years: f64,
    /// Also write a page (*.html) or a table of the drives (*.parquet) to this file.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Overwrite an existing file.
    #[arg(long)]
    force: bool,
}

/// Runs the subcommand.
pub fn run(args: &ReportArgs, context: &Context) -> anyhow::Result<ExitCode> {
    match &args.action {
        ReportAction::Fleet(args) => run_fleet(args, context),
    }
}

fn run_fleet(args: &FleetArgs, context: &Context) -> anyhow::Result<ExitCode> {
    let extension = args
        .output
        .as_ref()
        .map(|output| output.extension().and_then(OsStr::to_str).unwrap_or_default());
    if let (Some(output), Some(extension)) = (&args.output, extension)
        && !["html", "parquet"].contains(&extension)
    {
        let what = format!("--output '{}' ends in neither .html nor .parquet", output.display());
        return Err(UsageError::new(what).hint("name a file such as fleet.html").into());
    }
    let fleet = Fleet::of(fleet::read(&args.paths)?, args.years, unix_now().as_secs_f64());
    if fleet.counts.hosts == 0 {
        let first = fleet.files_unread.first();
        let why = first.map_or_else(
            || "no file ends in .json".to_owned(),
            |first| format!("'{}' {}", first.file, first.why),
        );
        let hint = "collect files of 'trimtab doctor --json' and 'trimtab wear --json'";
        return Err(UsageError::missing(format!("no document of a host: {why}")).hint(hint).into());
    }
    context.report_styled("fleet", 1, &fleet, || text::render(&view::first_screen(&fleet)))?;
    if let Some(output) = &args.output {
        let bytes = match extension {
            Some("parquet") => parquet::file("drives", &view::columns(&fleet), &[])?,
            _ => html::render(&view::document(&fleet)).into_bytes(),
        };
        write_to(output, &bytes, args.force, context, "report")?;
    }
    let Some(first) = fleet.files_unread.first() else { return Ok(ExitCode::SUCCESS) };
    let count = fleet.files_unread.len();
    output::complain(&format!(
        "{count} of the files cannot be used: '{}' {}",
        first.file, first.why
    ));
    Ok(ExitCode::FAILURE)
}
