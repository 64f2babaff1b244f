//! Runs workloads on targets and records the results.

pub mod blocks;
pub mod files;
pub mod jobs;
pub mod passes;
pub mod recorder;

use self::recorder::Recorder;
use crate::run::RunRecording;
use crate::target::{TargetError, TargetResult};
use trimtab_drive::units::Bytes;

/// Progress of long work.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunProgress<'a> {
    /// Name of the current phase.
    pub phase: &'a str,
    /// Operations, or candidates of a fit, done in all phases.
    pub ops: u64,
    /// Bytes read, in all phases.
    pub read: Bytes,
    /// Bytes written, in all phases.
    pub written: Bytes,
}

/// Observes long work: runs, simulations, learning.
pub trait Observer {
    /// Called at least every 256 operations and after slow ones. An error ends the work.
    fn progress(&mut self, _progress: RunProgress<'_>) -> TargetResult {
        Ok(())
    }

    /// Called before a phase or another step, such as a trim.
    fn begins(&mut self, _phase: &str) {}

    /// True if the user wants to stop. Polled after every operation.
    fn stopped(&self) -> bool;
}

/// An observer that also acts on the target between phases: trim policies, counters.
pub trait Events<T: ?Sized>: Observer {
    /// Called with the name of the next phase, and with `None` after the last. `recorder`
    /// holds the phases so far and accepts new ones. Time spent here belongs to those
    /// only.
    fn between(
        &mut self,
        _target: &mut T,
        _recorder: &mut Recorder,
        next: Option<&str>,
    ) -> TargetResult {
        next.into_iter().for_each(|phase| self.begins(phase));
        Ok(())
    }
}

/// Ignores progress and never stops.
impl Observer for () {
    fn stopped(&self) -> bool {
        false
    }
}

/// Forwards only the stop request.
impl Observer for &dyn Observer {
    fn stopped(&self) -> bool {
        (**self).stopped()
    }
}

impl<T: ?Sized> Events<T> for () {}
impl<T: ?Sized> Events<T> for dyn Observer + '_ {}
impl<T: ?Sized> Events<T> for &dyn Observer {}

/// End of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunEnd {
    /// The workload completed.
    Complete,
    /// The user stopped it.
    Interrupted,
    /// The target failed.
    Failed(TargetError),
}

/// Recorded data and the end of the run. Measurements before a failure are kept.
#[derive(Clone, Debug, PartialEq)]
pub struct RunOutcome {
    /// Phases and series.
    pub recorded: RunRecording,
    /// End of the run.
    pub end: RunEnd,
}

impl RunOutcome {
    /// Recorded data of a complete run, or the reason why it is incomplete.
    pub fn complete(self) -> Result<RunRecording, StopReason> {
        match self.end {
            RunEnd::Complete => Ok(self.recorded),
            RunEnd::Interrupted => Err(StopReason::Interrupted),
            RunEnd::Failed(error) => Err(StopReason::Failed(error)),
        }
    }
}

/// Reason why a run is incomplete.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StopReason {
    /// The user stopped it.
    #[error("interrupted")]
    Interrupted,
    /// The target failed.
    #[error(transparent)]
    Failed(#[from] TargetError),
}
