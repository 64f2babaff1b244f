//! Runs workloads on targets, and records what they do. Never prints; says how far it is through [`Events`], which also say when to stop.

pub mod blocks;
pub mod files;
pub mod header;
pub mod passes;
pub mod recorder;

use self::recorder::{Recorded, Recorder};
use crate::target::{TargetError, TargetResult};
use trimtab_drive::units::Bytes;

/// How far a run is.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// Name of the current phase.
    pub phase: &'a str,
    /// Operations done, in all phases.
    pub ops: u64,
    /// Bytes read, in all phases.
    pub read: Bytes,
    /// Bytes written, in all phases.
    pub written: Bytes,
    /// Whoever records it, where one does for all.
    pub recorder: Option<&'a Recorder>,
}

/// Who wants to know, and to act between phases. The target is passed through, so that a trim policy or a counter can use it.
pub trait Events<T: ?Sized> {
    /// Called now and then: at least every 256 operations, and after slow ones. An error ends the run.
    fn progress(&mut self, _progress: Progress<'_>) -> TargetResult {
        Ok(())
    }

    /// Called where something begins that is no phase of the workload's and says nothing until it is over: a trim.
    fn begins(&mut self, _phase: &str) {}

    /// Whether the user wants it to end now. Asked after every operation.
    fn stopped(&self) -> bool;

    /// Called before each phase with its name, and once after the last with `None`. The phases so far are in `recorder`;
    /// phases may be added. The time spent here belongs to no phase but to those.
    fn between(&mut self, _target: &mut T, _recorder: &mut Recorder, _next: Option<&str>) -> TargetResult {
        Ok(())
    }
}

/// Nobody wants to know, and nobody will stop it.
impl<T: ?Sized> Events<T> for () {
    fn stopped(&self) -> bool {
        false
    }
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The workload was done.
    Complete,
    /// The user stopped it.
    Interrupted,
    /// The target could not go on.
    Failed(TargetError),
}

/// What was recorded, and how it ended: what was measured before a failure is kept.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Phases and series.
    pub recorded: Recorded,
    /// How it ended.
    pub end: End,
}

impl Outcome {
    /// What was recorded, if the workload was done; else why not.
    pub fn complete(self) -> Result<Recorded, Stopped> {
        match self.end {
            End::Complete => Ok(self.recorded),
            End::Interrupted => Err(Stopped::Interrupted),
            End::Failed(error) => Err(Stopped::Failed(error)),
        }
    }
}

/// Why a run that had to be complete is not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Stopped {
    /// The user stopped it.
    #[error("interrupted")]
    Interrupted,
    /// The target could not go on.
    #[error(transparent)]
    Failed(#[from] TargetError),
}
