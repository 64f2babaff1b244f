//! `trimtab results show`.

use crate::output::Context;
use crate::report;
use crate::shape::run::{RunV1, SCHEMA, VERSION};
use crate::store::Reference;
use std::process::ExitCode;

/// Show a stored study, or all of a stored run: figures, phases, latencies, discards, settings, environment, warnings.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  trimtab results show last
  trimtab results show 0c4e5df9
  trimtab results show study:last                              a study with its verdict
  trimtab results show last --json | jq '.metrics[] | {name, samples}'")]
pub struct Args {
    /// The run: first digits of its id, last, last~1 …; a study: study:ID, study:last …
    #[arg(value_name = "RUN", default_value = "last", value_parser = super::reference)]
    run: Reference,
}

/// Shows.
pub fn run(args: &Args, context: &Context) -> anyhow::Result<ExitCode> {
    let store = super::open(context)?;
    if let Some((id, study)) = super::study(&store, &args.run)? {
        return crate::cmd::study::print(context, id, &study).map(|()| ExitCode::SUCCESS);
    }
    let id = store.find(&args.run)?;
    let run = store.load(id)?;
    let mut shape = RunV1::from(&run);
    shape.id = Some(id.to_string());
    context.report_styled(SCHEMA, VERSION, &shape, || {
        let mut document = report::run::everything(&run);
        document.title = format!("{}: {}", id.short(), document.title);
        report::text::render(&document)
    })?;
    Ok(ExitCode::SUCCESS)
}
