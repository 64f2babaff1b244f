//! Support for measuring commands: progress, the free-space reserve, environment and
//! warnings.

pub mod directories;
pub mod discard_change;
pub mod discard_option;
pub mod journal;
pub mod runner;
pub mod safety;

use crate::host::EnvironmentRecorder;
use crate::output::Context;
use crate::output::progress::{Progress as Bar, ProgressPart, ProgressUnit};
use crate::session::safety::Guard;
use trimtab_drive::units::Bytes;
use trimtab_sim::run::{Field, Metric, Phase, Run, Severity, Warning};
use trimtab_sim::runner::{Events, Observer, RunEnd, RunOutcome, RunProgress};
use trimtab_sim::target::TargetResult;
use trimtab_sim::workload::WorkloadPlan;

/// Shows progress and watches the reserve of free space.
#[derive(Debug)]
pub struct ProgressWatch {
    bar: Bar,
    guard: Option<Guard>,
    /// Bytes written by completed parts of the command.
    written: Bytes,
}

impl ProgressWatch {
    /// Adds the bytes of a completed part; the next part counts from zero.
    pub fn part_written(&mut self, written: Bytes) {
        self.written = self.written.saturating_add(written);
    }

    /// Shows the progress of `what` over `plan`: by operations if their number is known,
    /// otherwise by bytes written.
    pub fn new(context: &Context, what: &str, plan: &WorkloadPlan, guard: Option<Guard>) -> Self {
        let (counting, total) = amount(plan);
        Self::of(Bar::new(context, what, counting, total), guard)
    }

    /// Like [`Self::new`], for one part of a larger command.
    pub fn part(
        context: &Context,
        part: &ProgressPart,
        plan: &WorkloadPlan,
        guard: Option<Guard>,
    ) -> Self {
        let (counting, total) = amount(plan);
        Self::of(Bar::part(context, part, counting, total), guard)
    }

    fn of(bar: Bar, guard: Option<Guard>) -> Self {
        Self { bar, guard, written: Bytes::ZERO }
    }
}

fn amount(plan: &WorkloadPlan) -> (ProgressUnit, u64) {
    plan.ops.map_or((ProgressUnit::Bytes, plan.written.0), |ops| (ProgressUnit::Items, ops))
}

impl<T: ?Sized> Events<T> for ProgressWatch {}

impl Observer for ProgressWatch {
    fn progress(&mut self, progress: RunProgress<'_>) -> TargetResult {
        let written = self.written.saturating_add(progress.written);
        self.bar.progress(RunProgress { written, ..progress })?;
        self.guard.as_mut().map_or(Ok(()), Guard::check)
    }

    fn begins(&mut self, phase: &str) {
        self.bar.begins(phase);
    }

    fn stopped(&self) -> bool {
        self.bar.stopped()
    }
}

/// Returns the run with its metrics, environment and warnings, and the reason why it
/// ended.
pub fn assemble(
    header: Run,
    observer: Option<EnvironmentRecorder>,
    outcome: RunOutcome,
    metrics: impl Fn(&[Phase]) -> Vec<Metric>,
) -> (Run, RunEnd) {
    let mut run = header.into_run(outcome.recorded, outcome.end == RunEnd::Complete);
    run.metrics = metrics(&run.phases);
    if let Some(observer) = observer {
        let (environment, warnings) = observer.finish(None);
        run.environment = environment;
        run.warnings = warnings;
    }
    if let RunEnd::Failed(error) = &outcome.end {
        let text = format!("the run failed before its end: {error}");
        let errno = error.errno.map(|errno| Field::new("errno", errno.to_string()));
        let warning = Warning::new("run.failed", Severity::Serious, text);
        run.warnings.push(warning.with(errno.into_iter().collect()));
    }
    (run, outcome.end)
}
