//! `trimtab results show`.

use super::form::{Form, FormArgs};
use crate::cmd::study;
use crate::report::terse::{TsvTable, number};
use crate::report::{self, markdown};
use crate::store::Reference;
use crate::store::shape::run::{RunV1, SCHEMA, VERSION};
use std::process::ExitCode;
use trimtab_drive::usage::UsageError;
use trimtab_linux::output::Context;
use trimtab_sim::run::Run;
use trimtab_study::study::verdict::Verdict;

/// Show a stored study, or all of a stored run: figures, phases, latencies, discards,
/// settings, environment, warnings.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  trimtab results show last
  trimtab results show 0c4e5df9
  trimtab results show study:last                              the answer of a study; --details for everything
  trimtab results show last --as markdown                      for an issue or a page
  trimtab results show last --as tsv | cut -f 1,5
  trimtab results show last --json | jq '.metrics[] | {name, samples}'")]
pub struct ResultsShowArgs {
    /// The run: first digits of its id; a study: study:ID, study:last …; either: last, last~1 …
    #[arg(value_name = "RUN", default_value = "last", value_parser = super::reference)]
    run: Reference,
    /// For a study: show all findings, not only the answer. A run is always shown completely.
    #[arg(long)]
    details: bool,
    #[command(flatten)]
    form: FormArgs,
}

/// Runs the command.
pub fn run(args: &ResultsShowArgs, context: &Context) -> anyhow::Result<ExitCode> {
    let form = args.form.checked(context)?;
    let store = super::open(context)?;
    if let Some(kept) = super::study(&store, &args.run)? {
        let (id, around, verdicts) = (kept.id, kept.around(), Verdict::all(&kept.restored.studies));
        if form == Form::Markdown {
            return trimtab_linux::output::print(&markdown::render(&report::study::document(&verdicts, &around)))
                .map(|()| ExitCode::SUCCESS);
        }
        if form == Form::Tsv {
            let hint = format!("its runs: trimtab results list --study {} --as tsv", id.short());
            return Err(UsageError::new("a study has no tab-separated form").hint(hint).into());
        }
        return study::print(context, Some(id), &verdicts, &around, args.details).map(|()| ExitCode::SUCCESS);
    }
    let id = store.find(&args.run)?;
    let run = store.load(id)?;
    context.report_styled(SCHEMA, VERSION, &RunV1::new(&run, Some(id)), || {
        let mut document = report::run::everything(&run);
        document.title = format!("{}: {}", id.short(), document.title);
        match form {
            Form::Text => report::text::render(&document),
            Form::Markdown => markdown::render(&document),
            Form::Tsv => terse(&run),
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

/// The run's figures, tab-separated.
fn terse(run: &Run) -> String {
    let mut terse = TsvTable::new(&["figure", "unit", "better", "repeats", "mean", "least", "most"]);
    for metric in &run.metrics {
        let mean = metric.samples.iter().sum::<f64>() / metric.samples.len() as f64;
        terse.row([
            metric.name.clone(),
            metric.unit.name().to_owned(),
            metric.better.name().to_owned(),
            metric.samples.len().to_string(),
            number(Some(mean)),
            number(metric.samples.iter().copied().reduce(f64::min)),
            number(metric.samples.iter().copied().reduce(f64::max)),
        ]);
    }
    terse.into_text()
}
