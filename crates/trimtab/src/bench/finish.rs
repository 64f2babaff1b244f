//! What every benchmark does after its run: keeping, reporting, ending as the run ended.

pub use trimtab_linux::session::{Watch, assemble};

use crate::report;
use crate::store;
use crate::store::shape::run::{RunV1, SCHEMA, VERSION};
use anyhow::Context as _;
use std::process::ExitCode;
use trimtab_linux::output::Context;
use trimtab_linux::session::safety::Workspace;
use trimtab_sim::run::Run;
use trimtab_sim::runner::End;
use trimtab_study::document::Document;

/// Keeps the run in the store, prints it, and ends as it ended. Called after each run, because a later one may fail.
///
/// A run that cannot be kept is printed nevertheless; the error that is returned then says so.
pub fn conclude(context: &Context, run: &Run, end: End) -> anyhow::Result<ExitCode> {
    conclude_as(context, run, end, report::run::document)
}

/// Removes the directory that the run was made in, if there is one: after the run was kept and printed (`concluded`).
pub fn clean_up(context: &Context, workspace: Option<Workspace>, concluded: anyhow::Result<ExitCode>) -> anyhow::Result<ExitCode> {
    match workspace {
        Some(workspace) => workspace.close_after(context, concluded),
        None => concluded,
    }
}

/// As [`conclude`], with a document of the command's own.
pub fn conclude_as(context: &Context, run: &Run, end: End, document: impl FnOnce(&Run) -> Document) -> anyhow::Result<ExitCode> {
    let kept = if run.phases.is_empty() { Ok(()) } else { keep_and_print_as(context, run, document) };
    match end {
        End::Complete => kept.map(|()| ExitCode::SUCCESS),
        End::Interrupted => Err(remark_on(context, kept, trimtab_linux::sys::interrupt::Interrupted.into())),
        End::Failed(error) => Err(remark_on(context, kept, error.into())),
    }
}

/// How the run ended matters more than that it could not be kept, which is remarked.
fn remark_on(context: &Context, kept: anyhow::Result<()>, end: anyhow::Error) -> anyhow::Error {
    if let Err(error) = kept {
        context.remark(&format!("{error:#}"));
    }
    end
}

/// Keeps the run in the store, and prints it as `document`, with the id that it got there, or without.
pub fn keep_and_print_as(context: &Context, run: &Run, document: impl FnOnce(&Run) -> Document) -> anyhow::Result<()> {
    let kept = store::save(context, run);
    if let Some(collected) = &context.collected {
        kept.context("a result could not be kept")?;
        collected.add(run.clone());
        return Ok(());
    }
    let shape = RunV1::new(run, kept.as_ref().ok().copied());
    context.report_styled(SCHEMA, VERSION, &shape, || report::text::render(&document(run)))?;
    let id = kept.context("the result above could not be kept")?;
    context.remark(&format!("kept as {id}: trimtab results show {}", id.short()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_that_cannot_be_kept_is_printed_all_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let context = Context { json: true, quiet: true, store: Some(dir.path().join("gone/r.db")), ..Context::default() };
        let error = keep_and_print_as(&context, &crate::store::shape::any_run::example(), report::run::document).unwrap_err();
        assert_eq!(error.to_string(), "the result above could not be kept");
    }
}
