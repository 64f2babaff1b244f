//! `trimtab results report`.

use crate::output::Context;
use crate::report;
use crate::report::document::{Document, Section};
use crate::report::file::Place;
use crate::store::Reference;
use anyhow::Context as _;
use std::path::PathBuf;
use std::process::ExitCode;
use trimtab_core::run::Run;

/// Write stored runs into one HTML file that opens offline: figures, charts, latencies, environment, warnings.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  trimtab results report last
  trimtab results report last~1 last --output both.html
  trimtab results report 0c4e5df9 --output - | less")]
pub struct Args {
    /// The runs: first digits of their ids, last, last~1 …; study:ID for a study.
    #[arg(value_name = "RUN", required = true, value_parser = super::reference)]
    runs: Vec<Reference>,
    /// The file; - for standard output.
    #[arg(long, short, value_name = "FILE.html", default_value = "trimtab-report.html")]
    output: PathBuf,
    /// Write over a file that is there.
    #[arg(long)]
    force: bool,
}

/// Writes it.
pub fn run(args: &Args, context: &Context) -> anyhow::Result<ExitCode> {
    let store = super::open(context)?;
    let study = match &args.runs[..] {
        [only] => super::study(&store, only)?,
        _ => None,
    };
    let html = match study {
        Some((id, study)) => {
            let around = crate::study::answer::Around { kept: Some(id.short()), ..Default::default() };
            report::html::render(&crate::study::document::of(&study, &around))
        }
        None => {
            let runs = super::load(&store, &args.runs)?;
            report::html::render(&document(&runs.iter().map(|(id, run)| (id.short(), run)).collect::<Vec<_>>()))
        }
    };
    if args.output.as_os_str() == "-" {
        crate::output::print(&html)?;
        return Ok(ExitCode::SUCCESS);
    }
    let place = if args.force { Place::Replace } else { Place::New };
    let written = report::file::write(&args.output, html.as_bytes(), place);
    let written = written.with_context(|| format!("cannot write the report {}", args.output.display()))?;
    context.remark(&format!("report: {}", written.display()));
    Ok(ExitCode::SUCCESS)
}

/// All that is known of the runs, one after the other.
fn document(runs: &[(String, &Run)]) -> Document {
    if let [(id, run)] = runs {
        let mut document = report::run::everything(run);
        document.title = format!("{id}: {}", document.title);
        return document;
    }
    let mut whole = Document { title: format!("{} runs", runs.len()), ..Document::default() };
    for (id, run) in runs {
        let document = report::run::everything(run);
        let policy = if run.policy.is_empty() { String::new() } else { format!(", {}", run.policy) };
        whole.subtitle.push(format!("{id}: {}{policy}: {}", document.title, document.subtitle.join("; ")));
        let named = |section: Section| Section { title: format!("{id}: {} ({}{policy})", section.title, run.workload), ..section };
        whole.sections.extend(document.sections.into_iter().map(named));
    }
    whole
}
