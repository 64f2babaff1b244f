//! A study: the same workloads under each trim policy, and the verdict that follows.
//!
//! | stage | type | module |
//! |---|---|---|
//! | runs, from cells | [`Study`] | [`cells`], [`matrix`] |
//! | metrics | [`metrics::Metrics`] | [`metrics`] |
//! | comparison | [`comparison::Comparison`] | [`comparison`] |
//! | verdict | [`verdict::Verdict`] | [`verdict`] |
//!
//! Each stage is a function of the previous one. The program puts the verdict into words.

pub mod ageing;
pub mod cells;
pub mod comparison;
pub mod ensemble;
pub mod job;
pub mod light_work;
pub mod matrix;
pub mod metrics;
pub mod modelled;
pub mod policy;
pub mod policy_events;
pub mod problem;
pub mod random_writes;
pub mod recommendation;
pub mod request;
pub mod scale;
pub mod sensitivity;
pub mod small;
pub mod trials;
pub mod untried;
pub mod used;
pub mod verdict;

use alloc::string::String;
use alloc::vec::Vec;
use sensitivity::Sensitivity;
use trimtab_sim::run::Run;
use untried::OmittedPart;

/// The runs of a study: one per job and policy, with repeats merged.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Study {
    /// Target, as the user named it.
    pub target: String,
    /// Runs, in the order of the matrix.
    pub runs: Vec<Run>,
    /// Months of churn: one run per policy and fill level.
    pub ageing: Vec<Run>,
    /// Assumptions that change the recommendation; `None` if not tested.
    pub sensitivity: Option<Sensitivity>,
    /// Parts that were not tested.
    pub untried: Vec<OmittedPart>,
    /// False if the study was interrupted.
    pub complete: bool,
}

impl Study {
    /// All runs.
    pub fn all(&self) -> impl Iterator<Item = &Run> {
        self.runs.iter().chain(&self.ageing)
    }

    /// True if no run finished.
    pub fn is_empty(&self) -> bool {
        self.all().next().is_none()
    }
}
