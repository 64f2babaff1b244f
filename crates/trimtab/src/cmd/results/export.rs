//! `trimtab results export`.

use crate::cmd::options::write_to;
use crate::report::file;
use crate::store::shape::run::{RUNS_SCHEMA, RunV1, RunsV1, VERSION};
use crate::store::{self, Filter, Reference, RunId, Store};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::ExitCode;
use trimtab_drive::usage::UsageError;
use trimtab_linux::output::Context;
use trimtab_sim::run::Run;

/// Write stored runs as JSON.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  trimtab results export > all.json
  trimtab results export --label kernel-6.19 > some.json
  trimtab results export last last~1 --output two.json")]
pub struct ResultsExportArgs {
    /// The runs: first digits of an id, last, last~1 … (a study stands for all its runs);
    /// study:ID [default: all]
    #[arg(value_name = "RUN")]
    runs: Vec<Reference>,
    /// Write to this file; - for standard output.
    #[arg(long, short, value_name = "FILE", default_value = "-")]
    output: PathBuf,
    /// Replace an existing file after the new one is complete.
    #[arg(long)]
    force: bool,
}

/// Runs the command.
pub fn run(args: &ResultsExportArgs, context: &Context) -> anyhow::Result<ExitCode> {
    if args.output.as_os_str() != "-" {
        file::check(&args.output, args.force)?;
    }
    if context.label.is_some() && !args.runs.is_empty() {
        let problem = "--label selects runs, and these runs are named";
        return Err(UsageError::new(problem).hint("leave one of both out").into());
    }
    let store = super::open(context)?;
    let runs: Vec<(RunId, Run)> = if args.runs.is_empty() {
        let found = store.list(&Filter { label: context.label.clone(), ..Filter::default() })?;
        if let (Some(label), true) = (&context.label, found.is_empty()) {
            return Err(
                UsageError::missing(format!("no stored run has the label '{label}'")).into()
            );
        }
        found
            .iter()
            .map(|summary| Ok((summary.id, store.load(summary.id)?)))
            .collect::<store::Result<_>>()?
    } else {
        super::load(&store, &args.runs)?
    };
    let document = document(&store, &runs)?;
    let text = trimtab_linux::output::document(RUNS_SCHEMA, VERSION, &document)?;
    let what = if runs.len() == 1 { "1 run".to_owned() } else { format!("{} runs", runs.len()) };
    write_to(&args.output, text.as_bytes(), args.force, context, &what)
}

/// The runs with their labels, and the studies all of whose runs are included.
fn document<'a>(store: &'a Store, runs: &'a [(RunId, Run)]) -> store::Result<RunsV1<'a>> {
    let labels: BTreeMap<RunId, Option<String>> = store
        .list(&Filter::default())?
        .into_iter()
        .map(|summary| (summary.id, summary.label))
        .collect();
    let ids: BTreeSet<RunId> = runs.iter().map(|(id, _)| *id).collect();
    let labelled = |(id, run): &'a (RunId, Run)| RunV1 {
        label: labels.get(id).cloned().flatten(),
        ..RunV1::new(run, Some(*id))
    };
    let studies = store.studies().iter().map(|(_, study)| study);
    Ok(RunsV1 {
        runs: runs.iter().map(labelled).collect(),
        studies: studies
            .filter(|study| study.runs.iter().all(|of| ids.contains(&of.run)))
            .collect(),
    })
}
