//! A study: the same workloads under each trim policy, and what follows from that.
//!
//! [`cells`] says which runs a modelled study needs, each a plain value that makes its run; [`matrix`] keeps the books while somebody runs them. Everything
//! after that is a pure function of the runs: [`table`], [`verdict`], [`document`].

pub mod advice;
pub mod ageing;
pub mod answer;
pub mod asked;
pub mod beside;
pub mod cells;
mod costs;
pub mod document;
pub mod ensemble;
#[cfg(test)]
pub(crate) mod fixtures;
pub mod job;
pub mod judged;
pub mod kernels;
pub mod light_work;
pub mod matrix;
pub mod modelled;
pub mod months;
pub mod overview;
pub mod pictures;
pub mod policy_events;
pub mod predicted;
pub mod random_writes;
pub mod scale;
pub mod sensitivity;
pub mod small;
pub mod table;
pub mod used;
pub mod verdict;
pub mod waits;
mod why;

use alloc::string::String;
use alloc::vec::Vec;
use sensitivity::Sensitivity;
use trimtab_drive::spec::SpecError;
use trimtab_drive::usage::UsageError;
use trimtab_sim::run::Run;
use trimtab_sim::target::TargetError;
use trimtab_sim::volume::VolumeError;
use trimtab_sim::workload::postmark::SettingsError;
use trimtab_sim::workload::tree::TreeError;

/// Names of policies in runs.
pub mod policy {
    /// Nothing changed; what that means is in the run's policy settings.
    pub const AS_MOUNTED: &str = "as-mounted";
    /// No trimming while files go.
    pub const NONE: &str = "none";
    /// The filesystem discards what it frees, as it frees it.
    pub const ONLINE: &str = "online";
    /// One trim of the whole filesystem after the files are gone.
    pub const BATCHED: &str = "batched";
    /// One trim when enough has been written.
    pub const ADAPTIVE: &str = "adaptive";
    /// Small pieces in idle time.
    pub const IDLE: &str = "idle";
    /// Key of the policy setting that says how the filesystem discards: `nodiscard`, `discard`, `discard=async`.
    pub const DISCARD: &str = "discard";
}

/// Why a run could not be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// There is no such drive.
    #[error(transparent)]
    Drive(#[from] SpecError),
    /// The drive cannot be of another size.
    #[error(transparent)]
    Size(#[from] UsageError),
    /// The filesystem cannot be made.
    #[error(transparent)]
    Volume(#[from] VolumeError),
    /// There is no such tree.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// PostMark cannot be run so.
    #[error(transparent)]
    Postmark(#[from] SettingsError),
    /// The drive or the filesystem could not go on.
    #[error(transparent)]
    Target(#[from] TargetError),
}

/// A policy that was not tried, or not to the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Untried {
    /// Its name.
    pub policy: String,
    /// Why not.
    pub reason: String,
}

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
    pub assumptions: Option<Run>,
    /// Policies that could not be tried.
    pub untried: Vec<Untried>,
    /// False if it was interrupted.
    pub complete: bool,
}

impl Study {
    /// All runs.
    pub fn all(&self) -> impl Iterator<Item = &Run> {
        self.runs.iter().chain(&self.ageing).chain(&self.tuning).chain(&self.kernels).chain(&self.assumptions)
    }

    /// Which assumptions decide, if that was looked at.
    pub fn sensitivity(&self) -> Option<Sensitivity> {
        self.assumptions.as_ref().and_then(Sensitivity::of_run)
    }

    /// Nothing was finished.
    pub fn is_empty(&self) -> bool {
        self.all().next().is_none()
    }
}
