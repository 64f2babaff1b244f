//! `trimtab results import`.

use super::export::counted;
use crate::store::{self, Filter, RunId, Store, StoreError};
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;
use trimtab_linux::output::Context;
use trimtab_sim::run::Run;

/// Copy the runs and studies of another store, such as that of another machine.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Runs that already exist stay as they are.

Example:
  scp server:.local/share/trimtab/results.db server.db
  trimtab results import server.db")]
pub struct ResultsImportArgs {
    /// The file of the other store.
    #[arg(value_name = "STORE")]
    from: PathBuf,
}

/// Runs the command.
pub fn run(args: &ResultsImportArgs, context: &Context) -> anyhow::Result<ExitCode> {
    // An empty file is a store to write to, but nobody copies one.
    if std::fs::metadata(&args.from).is_ok_and(|file| file.is_file() && file.len() == 0) {
        return Err(StoreError::Foreign(args.from.clone()).into());
    }
    let from = Store::open(&args.from)?;
    let found = from.list(&Filter::default())?;
    let runs: Vec<Run> = found.iter().map(|run| from.load(run.id)).collect::<store::Result<_>>()?;
    let mut store = store::open_to_write(context)?;
    let saved = store.save_all(&runs, false)?;
    for (saved, run) in saved.iter().zip(&found) {
        // A run that was already stored keeps its label.
        if let Some(label) = context.label.as_ref().or(run.label.as_ref()).filter(|_| saved.new) {
            store.set_label(saved.id, Some(label))?;
        }
    }
    for (_, study) in from.studies() {
        store.save_study(study)?;
    }
    let ids = |new| -> Vec<RunId> { saved.iter().filter(|s| s.new == new).map(|s| s.id).collect() };
    let (imported, there_already) = (ids(true), ids(false));
    let document = json!({ "imported": imported, "there_already": there_already });
    context.report("runs-imported", 1, &document, || {
        let there = match there_already.len() {
            0 => String::new(),
            n => format!("; {n} there already"),
        };
        format!("{} imported{there}", counted(imported.len()))
    })?;
    Ok(ExitCode::SUCCESS)
}
