//! `trimtab results export`.

use crate::cmd::options::write_to;
use crate::report::file;
use crate::store::shape::csv;
use crate::store::shape::import::{RUNS_SCHEMA, Results, RunsV1};
use crate::store::shape::run::VERSION;
use crate::store::{self, Filter, Reference, RunId, Store};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::ExitCode;
use trimtab_drive::usage::UsageError;
use trimtab_linux::output::Context;
use trimtab_sim::run::Run;

/// Write stored runs as JSON (everything) or CSV (figures, settings, environment).
#[derive(Debug, clap::Args)]
#[command(after_help = "\
JSON holds everything, and trimtab results import gives exactly the same runs back. CSV has
a row for every repeat of every figure; docs/method/stored-results.md explains its columns.

Examples:
  trimtab results export > all.json
  trimtab results export last last~1 --output two.json
  trimtab results export --format csv --output figures.csv")]
pub struct ResultsExportArgs {
    /// The runs: first digits of an id, last, last~1 … (a study stands for all its runs);
    /// study:ID [default: all]
    #[arg(value_name = "RUN")]
    runs: Vec<Reference>,
    /// The format.
    #[arg(long, value_enum, default_value_t = ResultFormat::Json)]
    format: ResultFormat,
    /// Write to this file; - for standard output.
    #[arg(long, short, value_name = "FILE", default_value = "-")]
    output: PathBuf,
    /// Replace an existing file after the new one is complete.
    #[arg(long)]
    force: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum ResultFormat {
    /// The complete run.
    Json,
    /// Figures, settings and environment.
    Csv,
}

/// Runs the command.
pub fn run(args: &ResultsExportArgs, context: &Context) -> anyhow::Result<ExitCode> {
    if args.format != ResultFormat::Json && context.json {
        return Err(UsageError::new("--json and --format csv exclude each other").into());
    }
    if args.output.as_os_str() != "-" {
        file::check(&args.output, args.force)?;
    }
    let store = super::open(context)?;
    let runs: Vec<(RunId, Run)> = if args.runs.is_empty() {
        store
            .list(&Filter::default())?
            .iter()
            .map(|summary| Ok((summary.id, store.load(summary.id)?)))
            .collect::<store::Result<_>>()?
    } else {
        super::load(&store, &args.runs)?
    };
    let ids: BTreeSet<RunId> = runs.iter().map(|(id, _)| *id).collect();
    let runs: Vec<Run> = runs.into_iter().map(|(_, run)| run).collect();
    let text = match args.format {
        ResultFormat::Json => trimtab_linux::output::document(
            RUNS_SCHEMA,
            VERSION,
            &RunsV1::new(&results(&store, &runs, &ids)?),
        )?,
        ResultFormat::Csv => csv::write(&runs),
    };
    let rows = match args.format {
        ResultFormat::Json => runs.len(),
        // A run without a figure has no row.
        ResultFormat::Csv => runs.iter().filter(|run| !run.metrics.is_empty()).count(),
    };
    let without = runs.len() - rows;
    let left_out = if without > 0 {
        format!(" ({without} without a figure have no row)")
    } else {
        String::new()
    };
    write_to(
        &args.output,
        text.as_bytes(),
        args.force,
        context,
        &format!("{}{left_out}", counted(rows)),
    )
}

/// The runs with their labels, and the studies all of whose runs are included.
fn results(store: &Store, runs: &[Run], ids: &BTreeSet<RunId>) -> anyhow::Result<Results> {
    let labels: BTreeMap<RunId, Option<String>> = store
        .list(&Filter::default())?
        .into_iter()
        .map(|summary| (summary.id, summary.label))
        .collect();
    let label = |run: &Run| labels.get(&RunId::of(run)).cloned().flatten();
    let studies = store.studies()?.into_iter().map(|(_, study)| study);
    Ok(Results {
        runs: runs.iter().map(|run| (run.clone(), label(run))).collect(),
        studies: studies
            .filter(|study| study.runs.iter().all(|(_, id)| ids.contains(id)))
            .collect(),
    })
}

pub(super) fn counted(n: usize) -> String {
    if n == 1 { "1 run".to_owned() } else { format!("{n} runs") }
}
