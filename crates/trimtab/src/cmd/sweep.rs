//! `trimtab sweep`: simulates thousands of runs from one plan.

use crate::cmd::options::write_to;
use crate::drives::crew;
use crate::sweep::directory::{Directory, Shard};
use crate::sweep::estimate::Estimate;
use crate::sweep::progress::SweepProgress;
use crate::sweep::run::{self, RunOptions};
use crate::sweep::{self, csv};
use anyhow::Context as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use trimtab_drive::units::grouped;
use trimtab_drive::usage::UsageError;
use trimtab_linux::output::Context;
use trimtab_linux::sys::interrupt::{self, InterruptError};
use trimtab_study::sweep::table::{self, SweepRow};

/// Arguments of `trimtab sweep`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A plan is a TOML file. Its base holds the settings shared by all cells; its axes those that vary, in all combinations:

  [base]
  drive.name = \"crucial-m4-128gb\"           # a shipped drive, or a file: ./mine.toml
  drive.capacity = \"8GiB\"                   # the same drive, smaller
  workload.name = \"random\"                  # sequential, hot-cold, zipf, crystal, trace:FILE; \
churn: files on a filesystem
  workload.drive_writes = 4

  [axes]
  drive.over_provisioning_percent = { from = 7, to = 35, steps = 5 }
  policy = [\"none\", \"batched:every=1h\", \"idle\"]

Any field of a drive's specification is a parameter (drive.flash.nand.program_ns, \
drive.flash.ftl.victim), as are settings of policies (policy.budget), of the filesystem under \
churn (volume.atime) and of workloads. docs/method/sweeps.md lists them.

Examples:
  trimtab sweep plan plan.toml                     show the number of cells and their memory
  trimtab sweep run plan.toml --output out         run the cells; run it again to continue
  trimtab sweep run plan.toml --output a --shard 1/2       run half of them; run 2/2 elsewhere
  trimtab sweep merge a b --output all
  trimtab sweep export out --output cells.csv")]
pub struct SweepArgs {
    #[command(subcommand)]
    action: SweepAction,
}

#[derive(Debug, clap::Subcommand)]
enum SweepAction {
    /// Show the cells of a plan, and the memory that they need. Stores nothing.
    Plan(PlanArgs),
    /// Run the cells of a plan on all processors, and store each as it finishes.
    Run(RunArgs),
    /// Merge the shards of a sweep.
    Merge(MergeArgs),
    /// Show the progress of a sweep.
    Status(StatusArgs),
    /// Write a table of a sweep as CSV. Its directory has the tables as Parquet.
    Export(ExportArgs),
}

/// Arguments of `trimtab sweep plan`.
#[derive(Debug, clap::Args)]
pub struct PlanArgs {
    #[arg(value_name = "PLAN.toml")]
    plan: PathBuf,
}

/// Arguments of `trimtab sweep run`.
#[derive(Debug, clap::Args)]
pub struct RunArgs {
    #[arg(value_name = "PLAN.toml")]
    plan: PathBuf,
    /// Write the results to this directory, created if needed. Finished cells in it are
    /// not run again.
    #[arg(long, short, value_name = "DIR")]
    output: PathBuf,
    /// Run only this share of the cells: 1/8 … 8/8.
    #[arg(long, value_name = "I/N", default_value = "1/1")]
    shard: Shard,
    /// Run N cells at once, fewer if memory is short [default: the number of processors].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    threads: Option<u16>,
}

/// Arguments of `trimtab sweep merge`.
#[derive(Debug, clap::Args)]
pub struct MergeArgs {
    /// Directories of the shards.
    #[arg(value_name = "DIR", required = true)]
    from: Vec<PathBuf>,
    /// Write the merged sweep to this directory.
    #[arg(long, short, value_name = "DIR")]
    output: PathBuf,
}

/// Arguments of `trimtab sweep status`.
#[derive(Debug, clap::Args)]
pub struct StatusArgs {
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// Arguments of `trimtab sweep export`.
#[derive(Debug, clap::Args)]
pub struct ExportArgs {
    /// The directory of the sweep, finished or not.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Write to this file; - for standard output.
    #[arg(long, short, value_name = "FILE", default_value = "-")]
    output: PathBuf,
    /// Overwrite an existing file.
    #[arg(long)]
    force: bool,
}

/// Runs the subcommand.
pub fn run(args: &SweepArgs, context: &Context) -> anyhow::Result<ExitCode> {
    interrupt::install().context("cannot install signal handlers")?;
    match &args.action {
        SweepAction::Plan(args) => plan(args, context),
        SweepAction::Run(args) => run_cells(args, context),
        SweepAction::Merge(args) => merge(args, context),
        SweepAction::Status(args) => status(args, context),
        SweepAction::Export(args) => export(args, context),
    }
}

fn plan(args: &PlanArgs, context: &Context) -> anyhow::Result<ExitCode> {
    let checked = sweep::read(&args.plan)?;
    let estimate = Estimate::of(&checked)?;
    context.report("sweep.plan", 2, &estimate, || estimate.text(&checked))?;
    Ok(ExitCode::SUCCESS)
}

fn run_cells(args: &RunArgs, context: &Context) -> anyhow::Result<ExitCode> {
    let checked = sweep::read(&args.plan)?;
    Estimate::of(&checked)?;
    let other = Directory::of_another(&args.output, &checked);
    let directory = Directory::of_plan(&args.output, &checked)?;
    if let Some(other) = other {
        context.remark(&format!(
            "{} held the sweep '{}' of another plan or model, {} cells. Its finished \
                cells are kept for that plan; the plan and the table are now those of this sweep.",
            args.output.display(),
            other.name,
            grouped(other.cells)
        ));
    }
    let asked = RunOptions {
        shard: args.shard,
        threads: args.threads.map_or_else(crew::processors, usize::from),
    };
    let done = run::run(context, &checked, &directory, asked)?;
    if done.found > 0 {
        context.remark(&format!(
            "{} of {} cells were already finished",
            grouped(done.found),
            grouped(done.cells)
        ));
    }
    if interrupt::requested() {
        context.remark(&format!(
            "{} cells are finished; run the same command to continue",
            grouped(done.found + done.run)
        ));
        return Err(InterruptError.into());
    }
    let rows = directory.conclude()?;
    say(context, &args.output, &directory, &rows)
}

/// Reports the progress of a sweep. A failed cell sets the exit status of a failure.
fn say(
    context: &Context,
    path: &Path,
    directory: &Directory,
    rows: &[SweepRow],
) -> anyhow::Result<ExitCode> {
    let progress = SweepProgress::of(path, directory, rows);
    context.report("sweep.status", 1, &progress, || progress.text())?;
    Ok(if progress.failed > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn merge(args: &MergeArgs, context: &Context) -> anyhow::Result<ExitCode> {
    let from: Vec<Directory> =
        args.from.iter().map(|path| Directory::open(path)).collect::<anyhow::Result<_>>()?;
    let (merged, rows) = Directory::merge(&from, &args.output)?;
    say(context, &args.output, &merged, &rows)
}

fn status(args: &StatusArgs, context: &Context) -> anyhow::Result<ExitCode> {
    let directory = Directory::open(&args.directory)?;
    // Showing failures succeeds.
    say(context, &args.directory, &directory, &directory.rows()?).map(|_| ExitCode::SUCCESS)
}

fn export(args: &ExportArgs, context: &Context) -> anyhow::Result<ExitCode> {
    let directory = Directory::open(&args.directory)?;
    let rows = directory.rows()?;
    if rows.is_empty() {
        let what = format!("no cell of {} is finished", args.directory.display());
        return Err(UsageError::missing(what).into());
    }
    let columns = table::table(&directory.plan, &rows);
    let what =
        format!("{} of {} cells", grouped(rows.len() as u64), grouped(directory.about.cells));
    write_to(&args.output, &csv::file(&columns)?, args.force, context, &what)
}
