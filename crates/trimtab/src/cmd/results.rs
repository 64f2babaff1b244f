//! `trimtab results`: lists, compares and exports stored results.

mod compare;
mod delete;
mod export;
mod list;
mod report;
mod show;

use crate::store::{self, Reference, RunId, Store, StoreError};
use crate::study::record;
use clap::Subcommand;
use std::process::ExitCode;
use trimtab_linux::output::Context;
use trimtab_report::study::Surroundings;
use trimtab_sim::run::Run;
use trimtab_study::study::Study;

/// Arguments of `trimtab results`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A run is named by the first digits of its id, a study by study: and the first digits of its id. last \
is the newest run or study, last~1 the one before. study:last is the newest study.

Examples:
  trimtab results list
  trimtab results show last
  trimtab results show study:last
  trimtab results compare last~1 last
  trimtab results report last~1 last --output both.html
  trimtab results export --output results.json")]
pub struct ResultsArgs {
    #[command(subcommand)]
    action: ResultsAction,
}

#[derive(Debug, Subcommand)]
enum ResultsAction {
    List(list::ResultsListArgs),
    Show(show::ResultsShowArgs),
    Compare(compare::ResultsCompareArgs),
    Report(report::ResultsReportArgs),
    Export(export::ResultsExportArgs),
    Delete(delete::ResultsDeleteArgs),
}

impl ResultsArgs {
    /// True if the command stores runs with a label or selects them by it.
    pub const fn uses_label(&self) -> bool {
        matches!(self.action, ResultsAction::List(_) | ResultsAction::Export(_))
    }
}

/// Runs the command.
pub fn run(args: &ResultsArgs, context: &Context) -> anyhow::Result<ExitCode> {
    match &args.action {
        ResultsAction::List(args) => list::run(args, context),
        ResultsAction::Show(args) => show::run(args, context),
        ResultsAction::Compare(args) => compare::run(args, context),
        ResultsAction::Report(args) => report::run(args, context),
        ResultsAction::Export(args) => export::run(args, context),
        ResultsAction::Delete(args) => delete::run(args, context),
    }
}

/// Opens the store for a command that names a run in it; fails if nothing has been
/// stored.
fn open(context: &Context) -> anyhow::Result<Store> {
    let store = store::open_to_read(context)?;
    store.ok_or_else(|| {
        anyhow::anyhow!(
            "nothing has been stored yet; trimtab bench and trimtab study store what they measure"
        )
    })
}

/// Parses a reference where only a study is accepted: `study:ID`, the id alone, or
/// `last`.
fn study_reference(text: &str) -> Result<Reference, std::convert::Infallible> {
    text.parse().map(|reference| match reference {
        Reference::Last(back) => Reference::LastStudy(back),
        other => other,
    })
}

/// Loads the runs that `references` name, in order; a study stands for all its runs.
fn load(store: &Store, references: &[Reference]) -> anyhow::Result<Vec<(RunId, Run)>> {
    let mut runs = Vec::new();
    for reference in references {
        for id in store.find_all(reference)? {
            runs.push((id, store.load(id)?));
        }
    }
    Ok(runs)
}

/// A stored study of one target, or of several targets studied together.
struct StoredStudy {
    id: RunId,
    studies: Vec<Study>,
}

impl StoredStudy {
    /// Context for rendering the study.
    fn around(&self) -> Surroundings {
        Surroundings { kept: Some(self.id.short()), ..Surroundings::default() }
    }
}

/// Loads the study that `reference` names, with its runs; `None` if it names no study.
fn study(store: &Store, reference: &Reference) -> anyhow::Result<Option<StoredStudy>> {
    let reference = &store.resolve(reference);
    let found = match reference {
        Reference::Study(_) | Reference::LastStudy(_) => store.find_study(reference)?,
        Reference::Last(_) | Reference::Other(_) => return Ok(None),
        // A run takes precedence over a study.
        Reference::Prefix(_) => match store.find(reference) {
            Err(StoreError::Study { .. }) => store.find_study(reference)?,
            _ => return Ok(None),
        },
    };
    let (id, record) = found;
    Ok(Some(StoredStudy { id, studies: record::restored(&record, |run| store.load(run))? }))
}
