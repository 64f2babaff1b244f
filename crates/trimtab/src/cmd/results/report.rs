//! `trimtab results report`.

use crate::cmd::options::{file_name, write_to};
use crate::store::Reference;
use std::path::PathBuf;
use std::process::ExitCode;
use trimtab_drive::usage::UsageError;
use trimtab_linux::output::Context;
use trimtab_sim::analysis::compare::ComparisonOptions;
use trimtab_sim::analysis::compare::runs::{Side, against, warnings};
use trimtab_sim::run::Run;
use trimtab_study::document::{Document, Section};
use trimtab_study::study::verdict::Verdict;

/// Write stored runs, or a study, into one HTML file that opens offline: figures, charts,
/// latencies, environment, warnings. Further runs are compared with the first.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  trimtab results report last
  trimtab results report last~1 last --output both.html       ratio, interval and verdict, and pictures with both in one
  trimtab results report study:last
  trimtab results report 0c4e5df9 --output - | less")]
pub struct ResultsReportArgs {
    /// The runs: first digits of their ids; study:ID for a study; last, last~1 … for
    /// either.
    #[arg(value_name = "RUN", required = true)]
    runs: Vec<Reference>,
    /// The file; - for standard output.
    #[arg(long, short, value_name = "FILE.html", default_value = "trimtab-report.html",
        value_parser = file_name("html"))]
    output: PathBuf,
    /// Overwrite an existing file.
    #[arg(long)]
    force: bool,
}

/// Runs the command.
pub fn run(args: &ResultsReportArgs, context: &Context) -> anyhow::Result<ExitCode> {
    let store = super::open(context)?;
    let studies: Vec<_> = args
        .runs
        .iter()
        .map(|reference| super::study(&store, reference))
        .collect::<Result<_, _>>()?;
    let html = trimtab_report::html::render(&match &studies[..] {
        [Some(kept)] => {
            trimtab_report::study::document(&Verdict::all(&kept.studies), &kept.around())
        }
        all if all.iter().any(Option::is_some) => {
            let hint = "their runs are in 'trimtab results list --study study:ID'";
            return Err(UsageError::new("a report shows one study").hint(hint).into());
        }
        _ => {
            let runs = super::load(&store, &args.runs)?;
            document(&runs.iter().map(|(id, run)| (id.short(), run)).collect::<Vec<_>>())?
        }
    });
    write_to(&args.output, html.as_bytes(), args.force, context, "report")
}

/// Renders one run completely. For several runs: the differences first, then charts of
/// all runs combined, then the details of each run, folded.
fn document(runs: &[(String, &Run)]) -> anyhow::Result<Document> {
    if let [(id, run)] = runs {
        let mut document = trimtab_report::run::everything(run);
        document.title = format!("{id}: {}", document.title);
        return Ok(document);
    }
    let labels: Vec<String> = (0..runs.len()).map(super::compare::label).collect();
    let sides: Vec<Side<'_>> = runs
        .iter()
        .zip(&labels)
        .map(|((_, run), label)| Side { label, runs: std::slice::from_ref(*run) })
        .collect();
    super::compare::check_workloads(&sides)?;
    let ids: Vec<String> = runs.iter().map(|(id, _)| id.clone()).collect();
    let options = ComparisonOptions::default();
    let others: Vec<_> =
        sides.iter().skip(1).map(|side| against(sides[0], *side, &options)).collect();
    let mut whole = trimtab_report::compare::document(&sides, &ids, &others, &warnings(&sides));
    let pictures = trimtab_report::compare::pictures(&sides);
    if !pictures.is_empty() {
        whole.sections.push(Section::new("All in one picture", pictures));
    }
    for ((id, run), label) in runs.iter().zip(&labels) {
        let document = trimtab_report::run::everything(run);
        let policy =
            if run.policy.is_empty() { String::new() } else { format!(", {}", run.policy) };
        let named = |section: Section| Section {
            title: format!("{label} = {id}: {} ({}{policy})", section.title, run.workload),
            ..section
        };
        whole.sections.extend(document.sections.into_iter().map(|section| named(section).folded()));
    }
    Ok(whole)
}
