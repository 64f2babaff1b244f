//! `trimtab results import`.

use super::export::counted;
use crate::store::shape::import::{Results, TEXT_MAX, read};
use crate::store::{self, RunId};
use anyhow::Context as _;
use serde_json::json;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use trimtab_linux::output::Context;
use trimtab_linux::output::error::of_named;
use trimtab_linux::sys::beneath::named;

/// Import runs from JSON files: those of export, or figures from elsewhere.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
All files are checked first; if anything in them is wrong, nothing is imported. Runs that
already exist stay as they are. docs/method/stored-results.md has an example of figures
from elsewhere.

Examples:
  trimtab results import all.json
  ssh server trimtab results export | trimtab results import -
  trimtab results import published.json")]
pub struct ResultsImportArgs {
    /// Files, or - for standard input.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
}

/// Runs the command.
pub fn run(args: &ResultsImportArgs, context: &Context) -> anyhow::Result<ExitCode> {
    let mut results = Results::default();
    for path in &args.files {
        let name = if path == Path::new("-") {
            "standard input".to_owned()
        } else {
            path.display().to_string()
        };
        let hint = "name a JSON file, such as one of 'trimtab results export'";
        let bytes =
            bytes(path).map_err(|error| of_named(error, Path::new(&name), "cannot read", hint))?;
        let read = read(&bytes).with_context(|| format!("cannot import {name}"))?;
        results.runs.extend(read.runs);
        results.studies.extend(read.studies);
    }
    let (runs, labels): (Vec<_>, Vec<_>) = results.runs.into_iter().unzip();
    let mut store = store::open_to_write(context)?;
    let saved = store.save_all(&runs, false)?;
    for (saved, label) in saved.iter().zip(&labels) {
        // A run that was already stored keeps its label.
        if let Some(label) = context.label.as_ref().or(label.as_ref()).filter(|_| saved.new) {
            store.set_label(saved.id, Some(label))?;
        }
    }
    for study in &results.studies {
        store.save_study(study)?;
    }
    let ids = |new| -> Vec<RunId> { saved.iter().filter(|s| s.new == new).map(|s| s.id).collect() };
    let (imported, there_already) = (ids(true), ids(false));
    context.report(
        "runs-imported",
        1,
        &json!({ "imported": imported, "there_already": there_already }),
        || {
            let there = if there_already.is_empty() {
                String::new()
            } else {
                format!("; {} there already", there_already.len())
            };
            format!("{} imported{there}", counted(imported.len()))
        },
    )?;
    Ok(ExitCode::SUCCESS)
}

fn bytes(path: &Path) -> std::io::Result<Vec<u8>> {
    if path == Path::new("-") {
        return named::read_all(std::io::stdin().as_fd().try_clone_to_owned()?.into(), TEXT_MAX);
    }
    named::read(path, TEXT_MAX)
}
