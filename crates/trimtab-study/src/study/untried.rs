//! Parts of a study that were not tried, and why.

use alloc::string::String;
use serde::{Deserialize, Serialize};

/// A part of a study.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "part", rename_all = "snake_case")]
pub enum Part {
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
    /// Data and tuning.
    Tuning {
        /// The policy.
        policy: String,
    },
    /// Deleting with the other generation of the filesystem.
    Generation,
    /// Other assumptions.
    Assumptions,
}

impl Part {
    /// Deleting under `policy`.
    pub fn policy(policy: impl Into<String>) -> Self {
        Self::Policy { policy: policy.into() }
    }
}

/// Why a part was not tried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The drive does not know TRIM.
    NoTrim,
    /// No time was left in a quick study.
    NoTime,
    /// Trimming by need or in idle time is for modelled drives here.
    ModelledOnly,
    /// It failed, or something on this machine stands in the way.
    Obstacle(String),
}

/// A part that was not tried, or not to the end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Untried {
    /// The part.
    #[serde(flatten)]
    pub part: Part,
    /// Why not.
    pub reason: Reason,
}
