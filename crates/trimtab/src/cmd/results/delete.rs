//! `trimtab results delete`.

use crate::store::{self, Reference};
use serde_json::json;
use std::process::ExitCode;
use trimtab_drive::usage::UsageError;
use trimtab_linux::output::Context;
use trimtab_linux::session::safety::consent;
use trimtab_report::escape::clean;

/// Delete stored runs: all named runs, or none if one of them does not exist. Asks before
/// it deletes a study.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  trimtab results delete last
  trimtab results delete 0c4e5df9 bd7f9406
  trimtab results delete study:last")]
pub struct ResultsDeleteArgs {
    /// The runs: first digits of an id, last, last~1 … (a study stands for all its runs);
    /// study:ID for a whole study.
    #[arg(value_name = "RUN", required = true)]
    runs: Vec<Reference>,
}

/// Runs the command.
pub fn run(args: &ResultsDeleteArgs, context: &Context) -> anyhow::Result<ExitCode> {
    drop(super::open(context)?);
    let mut store = store::open_to_write(context)?;
    let mut ids = Vec::new();
    let mut lines = Vec::new();
    for reference in &args.runs {
        for id in store.find_all(reference)? {
            if !ids.contains(&id) {
                let run = store.load(id)?;
                lines.push(format!(
                    "deleted {id}: {} on {}",
                    clean(&run.workload),
                    clean(&run.target_label)
                ));
                ids.push(id);
            }
        }
    }
    let studies: Vec<String> = args
        .runs
        .iter()
        .filter_map(|reference| {
            let (id, study) = store.find_study(&store.resolve(reference)).ok()?;
            store.find(reference).is_err().then(|| {
                format!("'{reference}' is study {} of {} runs", id.short(), study.runs.len())
            })
        })
        .collect();
    if !studies.is_empty() {
        let studies = studies.join(", ");
        let question = format!("{studies}. Delete all {} runs?", ids.len());
        if !consent::ask(context, &question)? {
            return Err(UsageError::new(studies).hint("say --yes to delete all of them").into());
        }
    }
    // A study without runs is deleted, too.
    store.delete(&ids)?;
    context.report("runs-deleted", 1, &json!({ "deleted": ids }), || lines.join("\n"))?;
    Ok(ExitCode::SUCCESS)
}
