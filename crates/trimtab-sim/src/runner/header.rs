//! Description of a run before it starts.

use crate::run::{Field, Provenance, Run, TargetKind};
use crate::runner::recorder::RunRecording;
use alloc::borrow::ToOwned as _;
use alloc::string::String;
use alloc::vec::Vec;

/// Description of a run before it starts.
#[derive(Clone, Debug, PartialEq)]
pub struct RunHeader {
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
    /// Start time in milliseconds since 1970 UTC.
    pub started_unix_ms: u64,
    /// Inputs that define the run.
    pub specification: Vec<Field>,
}

impl RunHeader {
    /// A header without start time and specification, which the caller sets.
    pub fn new(workload: &str, settings: Vec<Field>, target: TargetKind, target_label: &str, policy: &str, seed: u64) -> Self {
        Self {
            workload: workload.to_owned(),
            settings,
            target,
            target_label: target_label.to_owned(),
            policy: policy.to_owned(),
            policy_settings: Vec::new(),
            seed,
            started_unix_ms: 0,
            specification: Vec::new(),
        }
    }

    /// Creates the run from recorded data; the caller adds metrics, environment and warnings.
    pub fn into_run(self, recorded: RunRecording, complete: bool) -> Run {
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
            started_unix_ms: self.started_unix_ms,
            tool_version: env!("CARGO_PKG_VERSION").to_owned(),
            complete,
            specification: self.specification,
            phases: recorded.phases,
            series: recorded.series,
            ..Run::empty()
        }
    }
}
