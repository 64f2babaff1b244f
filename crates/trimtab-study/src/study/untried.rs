//! Parts of a study that were not run, with reasons.

use alloc::string::String;
use serde::{Deserialize, Serialize};

/// A part of a study.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "part", rename_all = "snake_case")]
pub enum StudyPart {
    /// Deleting under a policy.
    Policy {
        /// The policy.
        policy: String,
    },
    /// One workload under a policy.
    Workload {
        /// The policy.
        policy: String,
        /// The workload.
        workload: String,
    },
    /// Months of use under a policy.
    Ageing {
        /// The policy.
        policy: String,
    },
    /// Changed assumptions.
    Assumptions,
}

impl StudyPart {
    /// Deleting under `policy`.
    pub fn policy(policy: impl Into<String>) -> Self {
        Self::Policy { policy: policy.into() }
    }
}

/// Why a part was not run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OmissionReason {
    /// The drive does not support TRIM.
    NoTrim,
    /// A quick study had no time for it.
    NoTime,
    /// Adaptive and idle trimming are only available on modelled drives here.
    ModelledOnly,
    /// It failed, or this machine prevents it; the text says why.
    Obstacle(String),
}

/// A part that was not run, or not completed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OmittedPart {
    /// The part.
    #[serde(flatten)]
    pub part: StudyPart,
    /// Why not.
    pub reason: OmissionReason,
}
