//! Support for measuring commands: progress, the free-space reserve, environment and
//! warnings.

pub mod directories;
pub mod discard_change;
pub mod discard_option;
pub mod notes;
pub mod runner;
pub mod safety;

use crate::host::Observer;
use crate::output::Context;
use crate::output::progress::{Progress as Bar, ProgressPart, ProgressUnit};
use crate::session::safety::Guard;
use trimtab_sim::run::{Field, Metric, Phase, Run, Severity, Warning};
use trimtab_sim::runner::header::RunHeader;
use trimtab_sim::runner::recorder::Recorder;
use trimtab_sim::runner::{Events, RunEnd, RunOutcome, RunProgress};
use trimtab_sim::target::TargetResult;
use trimtab_sim::workload::WorkloadPlan;

/// Shows progress and watches the reserve of free space.
#[derive(Debug)]
pub struct ProgressWatch {
    bar: Bar,
    counting: ProgressUnit,
    guard: Option<Guard>,
}

impl ProgressWatch {
    /// Shows the progress of `what` over `plan`: by operations if their number is known,
    /// otherwise by bytes written.
    pub fn new(context: &Context, what: &str, plan: &WorkloadPlan, guard: Option<Guard>) -> Self {
        let (counting, total) = amount(plan);
        Self::of(Bar::new(context, what, counting, total), counting, guard)
    }

    /// Like [`Self::new`], for one part of a larger command.
    pub fn part(context: &Context, part: &ProgressPart, plan: &WorkloadPlan, guard: Option<Guard>) -> Self {
        let (counting, total) = amount(plan);
        Self::of(Bar::part(context, part, counting, total), counting, guard)
    }

    fn of(bar: Bar, counting: ProgressUnit, guard: Option<Guard>) -> Self {
        Self { bar: bar.with_discards(|| guard.as_ref().and_then(Guard::meter)), counting, guard }
    }
}

fn amount(plan: &WorkloadPlan) -> (ProgressUnit, u64) {
    plan.ops.map_or((ProgressUnit::Bytes, plan.written.0), |ops| (ProgressUnit::Items, ops))
}

impl<T: ?Sized> Events<T> for ProgressWatch {
    fn stopped(&self) -> bool {
        crate::sys::interrupt::requested()
    }

    fn progress(&mut self, progress: RunProgress<'_>) -> TargetResult {
        self.bar.run(if self.counting == ProgressUnit::Items { progress.ops } else { progress.written.0 }, &progress);
        self.guard.as_mut().map_or(Ok(()), Guard::check)
    }

    fn begins(&mut self, phase: &str) {
        self.bar.phase(phase);
    }

    fn between(&mut self, _target: &mut T, _recorder: &mut Recorder, next: Option<&str>) -> TargetResult {
        if let Some(name) = next {
            self.bar.phase(name);
        }
        Ok(())
    }
}

/// Returns the run with its metrics, environment and warnings, and the reason why it ended.
pub fn assemble(
    header: RunHeader,
    observer: Option<Observer>,
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
        run.warnings.push(Warning {
            code: "run.failed".to_owned(),
            severity: Severity::Serious,
            facts: error.errno.map(|errno| Field::new("errno", errno.to_string())).into_iter().collect(),
            text: format!("the run failed before its end: {error}"),
        });
    }
    (run, outcome.end)
}
