//! What every benchmark does around its run: watching, keeping, reporting.

use crate::host::Observer;
use crate::output::Context;
use crate::progress::{Counting, Progress as Bar};
use crate::report;
use crate::runner::{End, Events, Header, Outcome, Progress};
use crate::safety::Guard;
use crate::shape::run::{RunV1, SCHEMA, VERSION};
use crate::store::{self, RunId};
use anyhow::Context as _;
use std::process::ExitCode;
use trimtab_core::run::{Field, Metric, Phase, Run, Severity, Warning};
use trimtab_core::target::TargetResult;
use trimtab_core::workload::Plan;

/// Shows progress and watches the reserve of free space.
#[derive(Debug)]
pub struct Watch {
    bar: Bar,
    counting: Counting,
    guard: Option<Guard>,
}

impl Watch {
    /// Progress of `what` over `plan`: by operations where their number is known, else by bytes written.
    pub fn new(context: &Context, what: &str, plan: &Plan, guard: Option<Guard>) -> Self {
        let (counting, total) = plan.ops.map_or((Counting::Bytes, plan.written.0), |ops| (Counting::Items, ops));
        Self { bar: Bar::new(context, what, counting, total), counting, guard }
    }
}

impl<T: ?Sized> Events<T> for Watch {
    fn progress(&mut self, progress: Progress<'_>) -> TargetResult {
        self.bar.set(if self.counting == Counting::Items { progress.ops } else { progress.written.0 });
        self.guard.as_mut().map_or(Ok(()), Guard::check)
    }
}

/// The run with its figures, environment and warnings, and how it ended.
pub fn assemble(header: Header, observer: Option<Observer>, outcome: Outcome, metrics: impl Fn(&[Phase]) -> Vec<Metric>) -> (Run, End) {
    let mut run = header.into_run(outcome.recorded, outcome.end == End::Complete);
    run.metrics = metrics(&run.phases);
    if let Some(observer) = observer {
        let (environment, warnings) = observer.finish(None);
        run.environment = environment;
        run.warnings = warnings;
    }
    if let End::Failed(error) = &outcome.end {
        run.warnings.push(Warning {
            code: "run.failed".to_owned(),
            severity: Severity::Serious,
            facts: error.errno.map(|errno| Field::new("errno", errno.to_string())).into_iter().collect(),
            text: format!("the run failed before its end: {error}"),
        });
    }
    (run, outcome.end)
}

/// Keeps the run in the store, prints it, and ends as it ended. Called after each run, because a later one may fail.
///
/// A run that cannot be kept is printed nevertheless; the error that is returned then says so.
pub fn conclude(context: &Context, run: &Run, end: End) -> anyhow::Result<ExitCode> {
    let kept = if run.phases.is_empty() { Ok(()) } else { keep_and_print(context, run) };
    match end {
        End::Complete => kept.map(|()| ExitCode::SUCCESS),
        End::Interrupted => Err(remark_on(context, kept, crate::error::Interrupted.into())),
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

/// Keeps the run in the store, and prints it with the id that it got there, or without.
pub fn keep_and_print(context: &Context, run: &Run) -> anyhow::Result<()> {
    let kept = store::save(context, run);
    let mut shape = RunV1::from(run);
    shape.id = kept.as_ref().ok().map(RunId::to_string);
    context.report(SCHEMA, VERSION, &shape, || report::text::render(&report::run::document(run)))?;
    let id = kept.context("the result above could not be kept")?;
    context.remark(&format!("kept as {id}: trimtab results show {}", id.short()));
    Ok(())
}
