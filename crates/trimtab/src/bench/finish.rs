//! The end of every benchmark: stores the run, prints the report, and returns the run's
//! end as a status.

pub use trimtab_linux::session::{ProgressWatch, assemble};

use crate::store;
use crate::store::shape::run::{RunV1, SCHEMA, VERSION};
use anyhow::Context as _;
use std::path::Path;
use std::process::ExitCode;
use trimtab_drive::units::Bytes;
use trimtab_linux::host::EnvironmentRecorder;
use trimtab_linux::output::Context;
use trimtab_linux::session::discard_option::DiscardOption;
use trimtab_linux::session::safety::{self, Workspace};
use trimtab_sim::run::{Field, Run};
use trimtab_sim::runner::RunEnd;
use trimtab_sim::workload::WorkloadPlan;
use trimtab_study::document::Document;
use trimtab_study::study::policy;

/// Asks for consent and creates a workspace in the directory `path` for the benchmark
/// `what`; then observes the machine.
pub fn begin(
    context: &Context,
    reserve: Option<Bytes>,
    path: &Path,
    what: &str,
    plan: &WorkloadPlan,
) -> anyhow::Result<(Workspace, EnvironmentRecorder)> {
    let workspace = safety::prepare(context, reserve, path, what, plan)?;
    let observer = EnvironmentRecorder::start(path)
        .with_context(|| format!("cannot access {}", path.display()))?;
    workspace.require_on(observer.place().mount.as_ref())?;
    Ok((workspace, observer))
}

/// Adds the mount's discard option to the header; returns true if it discards online.
pub fn note_discard(header: &mut Run, observer: &EnvironmentRecorder) -> bool {
    let Some(discard) = observer.place().mount.as_ref().map(DiscardOption::of) else {
        return false;
    };
    header.policy_settings.push(Field::new(policy::DISCARD, discard.to_string()));
    discard.is_on()
}

/// Stores the run, prints it, and returns its status. Called after each run, because a
/// later one may fail.
///
/// A run that cannot be stored is still printed; the returned error reports the failure.
pub fn conclude(context: &Context, run: &Run, end: RunEnd) -> anyhow::Result<ExitCode> {
    conclude_as(context, run, end, trimtab_report::run::document)
}

/// Removes the run's directory, if any, after the run was stored and printed
/// (`concluded`).
pub fn clean_up(
    workspace: Option<Workspace>,
    concluded: anyhow::Result<ExitCode>,
) -> anyhow::Result<ExitCode> {
    match workspace {
        Some(workspace) => workspace.close_after(concluded),
        None => concluded,
    }
}

/// Like [`conclude`], with the command's own document.
pub fn conclude_as(
    context: &Context,
    run: &Run,
    end: RunEnd,
    document: impl FnOnce(&Run) -> Document,
) -> anyhow::Result<ExitCode> {
    let kept =
        if run.phases.is_empty() { Ok(()) } else { keep_and_print_as(context, run, document) };
    match end {
        RunEnd::Complete => kept.map(|()| ExitCode::SUCCESS),
        RunEnd::Interrupted => {
            Err(remark_on(context, kept, trimtab_linux::sys::interrupt::InterruptError.into()))
        }
        RunEnd::Failed(error) => Err(remark_on(context, kept, error.into())),
    }
}

/// The end of the run decides the status; a failure to store it is only reported.
fn remark_on(context: &Context, kept: anyhow::Result<()>, end: anyhow::Error) -> anyhow::Error {
    if let Err(error) = kept {
        context.remark(&format!("{error:#}"));
    }
    end
}

/// Stores the run and prints it as `document`, with its id if it was stored.
pub fn keep_and_print_as(
    context: &Context,
    run: &Run,
    document: impl FnOnce(&Run) -> Document,
) -> anyhow::Result<()> {
    let kept = store::save(context, run);
    let shape = RunV1::new(run, kept.as_ref().ok().copied());
    context
        .report_styled(SCHEMA, VERSION, &shape, || trimtab_report::text::render(&document(run)))?;
    let id = kept.context("the result above could not be stored")?;
    context.remark(&format!("kept as {id}: trimtab results show {}", id.short()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_that_cannot_be_stored_is_still_printed() {
        let dir = tempfile::tempdir().unwrap();
        let context = Context {
            json: true,
            quiet: true,
            store: Some(dir.path().join("gone/r.db")),
            ..Context::default()
        };
        let error = keep_and_print_as(
            &context,
            &crate::store::shape::any_run::example(),
            trimtab_report::run::document,
        )
        .unwrap_err();
        assert_eq!(error.to_string(), "the result above could not be stored");
    }
}
