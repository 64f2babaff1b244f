//! `trimtab results show`.

use crate::cmd::study;
use crate::store::Reference;
use crate::store::shape::run::{RunV1, SCHEMA, VERSION};
use std::process::ExitCode;
use trimtab_linux::output::Context;
use trimtab_study::study::verdict::Verdict;

/// Show a stored study, or all of a stored run: figures, phases, latencies, discards,
/// settings, environment, warnings.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  trimtab results show last
  trimtab results show 0c4e5df9
  trimtab results show study:last                              the answer of a study; --details for everything
  trimtab results show last --json | jq '.metrics[] | {name, samples}'")]
pub struct ResultsShowArgs {
    /// The run: first digits of its id; a study: study:ID, study:last …; either: last,
    /// last~1 …
    #[arg(value_name = "RUN", default_value = "last")]
    run: Reference,
    /// For a study: show all findings, not only the answer. A run is always shown
    /// completely.
    #[arg(long)]
    details: bool,
}

/// Runs the command.
pub fn run(args: &ResultsShowArgs, context: &Context) -> anyhow::Result<ExitCode> {
    let store = super::open(context)?;
    if let Some(kept) = super::study(&store, &args.run)? {
        let verdicts = Verdict::all(&kept.studies);
        return study::print(context, Some(kept.id), &verdicts, &kept.around(), args.details)
            .map(|()| ExitCode::SUCCESS);
    }
    let id = store.find(&args.run)?;
    let run = store.load(id)?;
    context.report_styled(SCHEMA, VERSION, &RunV1::new(&run, Some(id)), || {
        let mut document = trimtab_report::run::everything(&run);
        document.title = format!("{}: {}", id.short(), document.title);
        trimtab_report::text::render(&document)
    })?;
    Ok(ExitCode::SUCCESS)
}
