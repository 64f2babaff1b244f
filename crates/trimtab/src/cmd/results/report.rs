//! `trimtab results report`.

use super::StoredStudy;
use crate::report;
use crate::report::file::OverwriteMode;
use crate::report::study::study_comparison::{self, LabelledStudy};
use crate::store::Reference;
use std::path::PathBuf;
use std::process::ExitCode;
use trimtab_drive::usage::UsageError;
use trimtab_linux::output::Context;
use trimtab_sim::analysis::compare::ComparisonOptions;
use trimtab_sim::analysis::compare::runs::{Side, against, warnings};
use trimtab_sim::run::Run;
use trimtab_study::document::{Document, Section};
use trimtab_study::study::Study;
use trimtab_study::study::verdict::Verdict;

/// Write stored runs into one HTML file that opens offline: figures, charts, latencies,
/// environment, warnings. Further runs are compared with the first.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  trimtab results report last
  trimtab results report last~1 last --output both.html       ratio, interval and verdict, and pictures with both in one
  trimtab results report study:last~1 study:last       two studies: what each recommends, run by run, in the same pictures
  trimtab results report 0c4e5df9 --output - | less")]
pub struct ResultsReportArgs {
    /// The runs: first digits of their ids; study:ID for a study; last, last~1 … for either.
    #[arg(value_name = "RUN", required = true, value_parser = super::reference)]
    runs: Vec<Reference>,
    /// The file; - for standard output.
    #[arg(long, short, value_name = "FILE.html", default_value = "trimtab-report.html")]
    output: PathBuf,
    /// Overwrite an existing file.
    #[arg(long)]
    force: bool,
}

/// Runs the command.
pub fn run(args: &ResultsReportArgs, context: &Context) -> anyhow::Result<ExitCode> {
    let store = super::open(context)?;
    let found: Vec<Option<StoredStudy>> = args.runs.iter().map(|reference| super::study(&store, reference)).collect::<Result<_, _>>()?;
    let studies: Vec<StoredStudy> = found.into_iter().flatten().collect();
    let html = report::html::render(&match &studies[..] {
        [] => {
            let runs = super::load(&store, &args.runs)?;
            document(&runs.iter().map(|(id, run)| (id.short(), run)).collect::<Vec<_>>())?
        }
        _ if studies.len() < args.runs.len() => {
            let hint = "its runs are in 'trimtab results list --study'";
            return Err(UsageError::new("a study can be compared with another study only").hint(hint).into());
        }
        [kept] => report::study::document(&Verdict::all(&kept.restored.studies), &kept.around()),
        several => comparison(several),
    });
    if args.output.as_os_str() == "-" {
        trimtab_linux::output::print(&html)?;
        return Ok(ExitCode::SUCCESS);
    }
    let place = if args.force { OverwriteMode::Replace } else { OverwriteMode::New };
    let written = report::file::write(&args.output, html.as_bytes(), place)?;
    context.remark(&format!("report: {}", written.display()));
    Ok(ExitCode::SUCCESS)
}

/// Compares studies, target by target if any of them has several targets.
fn comparison(studies: &[StoredStudy]) -> Document {
    let single = studies.iter().all(|kept| kept.restored.studies.len() == 1);
    if single {
        return compared(studies, &|_| true);
    }
    let mut targets: Vec<&str> = Vec::new();
    for study in studies.iter().flat_map(|kept| &kept.restored.studies) {
        if !targets.contains(&study.target.as_str()) {
            targets.push(&study.target);
        }
    }
    let mut whole = Document { title: format!("Comparison of {} studies", studies.len()), ..Document::default() };
    for target in targets {
        let part = compared(studies, &|study| study.target == target);
        whole.subtitle.extend(part.subtitle);
        let named = |section: Section| Section { title: format!("{target}: {}", section.title), ..section };
        whole.sections.extend(part.sections.into_iter().map(named));
    }
    whole
}

/// Compares the first matching study of each.
fn compared(studies: &[StoredStudy], wanted: &dyn Fn(&Study) -> bool) -> Document {
    let labels: Vec<String> = (0..studies.len()).map(super::compare::label).collect();
    let ids: Vec<String> = studies.iter().map(|kept| kept.id.short()).collect();
    let verdicts: Vec<Option<Verdict<'_>>> =
        studies.iter().map(|kept| kept.restored.studies.iter().find(|study| wanted(study)).map(Verdict::of)).collect();
    let named = ids
        .iter()
        .zip(&verdicts)
        .zip(&labels)
        .filter_map(|((id, verdict), label)| Some(LabelledStudy { label, id, verdict: verdict.as_ref()? }));
    study_comparison::document(&named.collect::<Vec<_>>(), &ComparisonOptions::default())
}

/// Renders one run completely. For several runs: the differences first, then charts of all
/// runs combined, then the details of each run, folded.
fn document(runs: &[(String, &Run)]) -> anyhow::Result<Document> {
    if let [(id, run)] = runs {
        let mut document = report::run::everything(run);
        document.title = format!("{id}: {}", document.title);
        return Ok(document);
    }
    let labels: Vec<String> = (0..runs.len()).map(super::compare::label).collect();
    let sides: Vec<Side<'_>> = runs.iter().zip(&labels).map(|((_, run), label)| Side { label, runs: std::slice::from_ref(*run) }).collect();
    super::compare::check_workloads(&sides)?;
    let ids: Vec<String> = runs.iter().map(|(id, _)| id.clone()).collect();
    let options = ComparisonOptions::default();
    let others: Vec<_> = sides.iter().skip(1).map(|side| against(sides[0], *side, &options)).collect();
    let mut whole = report::compare::document(&sides, &ids, options.confidence, &others, &warnings(&sides));
    let pictures = report::compare::pictures(&sides);
    if !pictures.is_empty() {
        whole.sections.push(Section::new("All in one picture", pictures));
    }
    for ((id, run), label) in runs.iter().zip(&labels) {
        let document = report::run::everything(run);
        let policy = if run.policy.is_empty() { String::new() } else { format!(", {}", run.policy) };
        let named =
            |section: Section| Section { title: format!("{label} = {id}: {} ({}{policy})", section.title, run.workload), ..section };
        whole.sections.extend(document.sections.into_iter().map(|section| named(section).folded()));
    }
    Ok(whole)
}
