//! Runs workloads on targets and records the results. [`Events`] reports progress and stops
//! runs.

pub mod blocks;
pub mod files;
pub mod header;
pub mod passes;
pub mod recorder;

use self::recorder::{Recorder, RunRecording};
use crate::target::{TargetError, TargetResult};
use trimtab_drive::units::Bytes;

/// Progress of a run.
#[derive(Clone, Copy, Debug)]
pub struct RunProgress<'a> {
    /// Name of the current phase.
    pub phase: &'a str,
    /// Operations done, in all phases.
    pub ops: u64,
    /// Bytes read, in all phases.
    pub read: Bytes,
    /// Bytes written, in all phases.
    pub written: Bytes,
    /// The recorder, if one records all phases.
    pub recorder: Option<&'a Recorder>,
}

/// Callbacks of a run. The target is passed along for trim policies and counters.
pub trait Events<T: ?Sized> {
    /// Called at least every 256 operations and after slow ones. An error ends the run.
    fn progress(&mut self, _progress: RunProgress<'_>) -> TargetResult {
        Ok(())
    }

    /// Called before a step outside the workload's phases that reports no progress: a trim.
    fn begins(&mut self, _phase: &str) {}

    /// True if the user wants to stop. Polled after every operation.
    fn stopped(&self) -> bool;

    /// Called with the name of the next phase, and with `None` after the last. `recorder` holds
    /// the phases so far and accepts new ones. Time spent here belongs to those only.
    fn between(&mut self, _target: &mut T, _recorder: &mut Recorder, _next: Option<&str>) -> TargetResult {
        Ok(())
    }
}

/// Ignores progress and never stops.
impl<T: ?Sized> Events<T> for () {
    fn stopped(&self) -> bool {
        false
    }
}

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
