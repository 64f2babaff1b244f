//! A study: the same workloads under each trim policy, and what follows from that.
//!
//! [`matrix`] makes runs from a [`Rig`], real or modelled. Everything after that is a pure function of the runs:
//! [`table`], [`verdict`], [`document`].

pub mod advice;
pub mod ageing;
pub mod answer;
pub mod beside;
pub mod cells;
pub mod checkpoint;
pub mod document;
pub mod job;
pub mod kernels;
pub mod light_work;
pub mod matrix;
pub mod modelled;
pub mod months;
pub mod others;
pub mod overview;
pub mod pictures;
pub mod policy_events;
pub mod published;
pub mod random_writes;
pub mod real;
pub mod scale;
pub mod sensitivity;
pub mod small;
pub mod table;
pub mod used;
pub mod verdict;
pub mod waits;

use job::Job;
use sensitivity::Sensitivity;
use trimtab_core::run::Run;
use trimtab_core::runner::End;

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

/// A policy that can be tried, or why it cannot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// Its name.
    pub policy: String,
    /// Why it cannot be tried here; `None` if it can.
    pub obstacle: Option<String>,
}

/// What a study runs on: something that can run a job under a policy.
pub trait Rig {
    /// All policies, in the order of the table; the one that others are compared with comes first.
    fn offers(&self) -> Vec<Offer>;

    /// Whether the first run differs from later ones, so that one has to be thrown away.
    fn needs_warm_up(&self) -> bool;

    /// A name for all that decides the result of `job` under `policy`, under which finished runs are kept; `None` if they are not.
    fn cell(&self, _job: &Job, _policy: &str) -> Option<String> {
        None
    }

    /// Runs `job` once under `policy`, from a state that is the same for all policies as far as that is possible.
    /// `part` is for progress. An error means that nothing was measured.
    fn run(&mut self, job: &Job, policy: &str, part: &crate::output::progress::Part) -> anyhow::Result<(Run, End)>;
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
