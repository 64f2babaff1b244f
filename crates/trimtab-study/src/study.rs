//! A study: the same workloads under each trim policy, and what follows from that.
//!
//! | stage | type | module |
//! |---|---|---|
//! | runs, from cells | [`Study`] | [`cells`], [`matrix`] |
//! | metrics | [`metrics::Metrics`] | [`metrics`] |
//! | comparison | [`comparison::Comparison`] | [`comparison`] |
//! | verdict | [`verdict::Verdict`] | [`verdict`] |
//!
//! Each stage is a function of the one before. Words come after the verdict, in the program.

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
pub mod twin_months;
pub mod untried;
pub mod used;
pub mod verdict;

use alloc::string::String;
use alloc::vec::Vec;
use sensitivity::Sensitivity;
use trimtab_sim::run::Run;
use untried::Untried;

/// The runs of a study: one a job and policy, repeats merged.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Study {
    /// What was studied, as the user named it.
    pub target: String,
    /// Runs, in the order of the matrix.
    pub runs: Vec<Run>,
    /// Months of churn, each policy at each fill.
    pub ageing: Vec<Run>,
    /// What data and tuning change, one thing at a time.
    pub tuning: Vec<Run>,
    /// Deleting with another generation of the filesystem, without discards and with.
    pub kernels: Vec<Run>,
    /// Which assumptions decide, if that was looked at.
    pub sensitivity: Option<Sensitivity>,
    /// Parts that could not be tried.
    pub untried: Vec<Untried>,
    /// False if it was interrupted.
    pub complete: bool,
}

impl Study {
    /// All runs.
    pub fn all(&self) -> impl Iterator<Item = &Run> {
        self.runs.iter().chain(&self.ageing).chain(&self.tuning).chain(&self.kernels)
    }

    /// Nothing was finished.
    pub fn is_empty(&self) -> bool {
        self.all().next().is_none()
    }
}
