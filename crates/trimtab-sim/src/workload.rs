//! Workloads: deterministic streams of operations, independent of targets and clocks.

pub mod age;
pub mod churn;
pub mod crystal;
pub mod jobs;
pub mod nfs;
pub mod postmark;
pub mod synced;
pub mod synthetic;
pub mod tree;

use crate::op::FileOp;
use alloc::string::String;
use trimtab_drive::Command;
use trimtab_drive::units::{Bytes, Nanos};

/// Next step of a file workload.
#[derive(Clone, Copy, Debug)]
pub enum FileStep<'a> {
    /// Starts a phase of this name, timed separately.
    Phase(&'a str),
    /// Delays the next operation until this long after the phase began: an open-loop
    /// rate. If that has passed, continue at once; latency counts from the due time.
    NotBefore(Nanos),
    /// Executes this operation.
    Op(FileOp<'a>),
}

/// Expected extent of a workload, for announcements, progress and refusals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkloadPlan {
    /// Total bytes to write (an upper bound if random).
    pub written: Bytes,
    /// Most space used by its files at any time (upper bound).
    pub space: Bytes,
    /// Total operations, if known.
    pub ops: Option<u64>,
}

/// A stream of file operations.
pub trait FileWorkload {
    /// Extent of the workload.
    fn plan(&self) -> WorkloadPlan;

    /// Next step, or `None` at the end.
    fn next_step(&mut self) -> Option<FileStep<'_>>;
}

/// End condition of a block phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// After this time on the target's clock.
    Time(Nanos),
    /// After this many bytes.
    Bytes(Bytes),
    /// After this many operations.
    Ops(u64),
    /// When the workload has no more operations.
    Stream,
}

/// A phase of a block workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockPhase {
    /// Name used in results.
    pub name: String,
    /// Operations kept in flight: a sliding window, never fill-and-drain.
    pub queue_depth: u32,
    /// End condition.
    pub limit: Limit,
    /// False for warm-up passes, which are discarded.
    pub record: bool,
    /// Idle time before the phase.
    pub idle_before: Nanos,
}

/// A stream of block operations in phases.
pub trait BlockWorkload {
    /// Extent of the workload.
    fn plan(&self) -> WorkloadPlan;

    /// Ends the current phase and returns the next, or `None` at the end.
    fn next_phase(&mut self) -> Option<BlockPhase>;

    /// Next operation of the current phase; `None` ends it.
    fn next_op(&mut self) -> Option<Command<'static>>;
}
