//! Workload × target → run. Never prints; says how far it is through [`Events`].

pub mod blocks;
pub mod files;
pub mod nfs;
pub mod overhead;
pub mod passes;
pub mod recorder;
pub mod together;

use self::recorder::{Recorded, Recorder};
use std::time::{SystemTime, UNIX_EPOCH};
use trimtab_core::run::pictures::Pictures;
use trimtab_core::run::{Field, Provenance, Run, TargetKind};
use trimtab_core::target::{TargetError, TargetResult};
use trimtab_core::units::Bytes;

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

    /// Called before each phase with its name, and once after the last with `None`. The phases so far are in `recorder`;
    /// phases may be added. The time spent here belongs to no phase but to those.
    fn between(&mut self, _target: &mut T, _recorder: &mut Recorder, _next: Option<&str>) -> TargetResult {
        Ok(())
    }
}

/// Nobody wants to know.
impl<T: ?Sized> Events<T> for () {}

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
    pub fn complete(self) -> anyhow::Result<Recorded> {
        match self.end {
            End::Complete => Ok(self.recorded),
            End::Interrupted => Err(crate::error::Interrupted.into()),
            End::Failed(error) => Err(error.into()),
        }
    }
}

/// What is known about a run before it starts.
#[derive(Clone, Debug, PartialEq)]
pub struct Header {
    /// Workload name.
    pub workload: String,
    /// Its settings.
    pub settings: Vec<Field>,
    /// Kind of target.
    pub target: TargetKind,
    /// The target as the user named it.
    pub target_label: String,
    /// Trim policy.
    pub policy: String,
    /// The policy's settings.
    pub policy_settings: Vec<Field>,
    /// Seed.
    pub seed: u64,
    /// When it began, milliseconds since 1970 UTC.
    pub started_unix_ms: u64,
    /// What the run is made from.
    pub specification: Vec<Field>,
}

impl Header {
    /// A run that starts now.
    pub fn new(workload: &str, settings: Vec<Field>, target: TargetKind, target_label: &str, policy: &str, seed: u64) -> Self {
        Self {
            workload: workload.to_owned(),
            settings,
            target,
            target_label: target_label.to_owned(),
            policy: policy.to_owned(),
            policy_settings: Vec::new(),
            seed,
            started_unix_ms: unix_ms(),
            specification: vec![crate::recipe::command_field()],
        }
    }

    /// The run, from what was recorded. Metrics, environment and warnings are for others to add.
    pub fn into_run(self, recorded: Recorded, complete: bool) -> Run {
        let provenance = match self.target {
            TargetKind::ModelledDrive | TargetKind::ModelledVolume => Provenance::Modelled,
            TargetKind::Elsewhere => Provenance::Entered,
            TargetKind::Directory | TargetKind::BlockDevice | TargetKind::File | TargetKind::Null => Provenance::Measured,
        };
        Run {
            workload: self.workload,
            settings: self.settings,
            target: self.target,
            target_label: self.target_label,
            policy: self.policy,
            policy_settings: self.policy_settings,
            seed: self.seed,
            provenance,
            systems: 1,
            started_unix_ms: self.started_unix_ms,
            tool_version: env!("CARGO_PKG_VERSION").to_owned(),
            complete,
            environment: Vec::new(),
            specification: self.specification,
            phases: recorded.phases,
            metrics: Vec::new(),
            series: recorded.series,
            counters: Vec::new(),
            warnings: Vec::new(),
            pictures: Pictures::default(),
        }
    }
}

/// Now, in milliseconds since 1970 UTC; 0 on a clock set before that.
pub fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX))
}
