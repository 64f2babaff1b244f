//! Workloads: deterministic streams of operations from settings and a seed. They know no target and no clock.

pub mod age;
pub mod churn;
pub mod crystal;
pub mod nfs;
pub mod postmark;
pub mod synced;
pub mod synthetic;
pub mod tree;

use crate::op::FileOp;
use alloc::string::String;
use trimtab_drive::Command;
use trimtab_drive::units::{Bytes, Nanos};

/// The next thing that a file workload wants.
#[derive(Clone, Copy, Debug)]
pub enum FileStep<'a> {
    /// What follows belongs to a phase of this name, timed apart from the others.
    Phase(&'a str),
    /// What follows is due this long after the phase began, not earlier: an open-loop rate. If that has passed, go on at
    /// once; a driver that records latency counts it from when the operation was due.
    NotBefore(Nanos),
    /// Do this.
    Op(FileOp<'a>),
}

/// What a workload is going to do, for announcements, progress and refusals, before it does anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Bytes that will be written in all (an upper bound where chance decides).
    pub written: Bytes,
    /// The most space that its files occupy at any time (upper bound).
    pub space: Bytes,
    /// Operations in all, where known.
    pub ops: Option<u64>,
}

/// A stream of file operations.
pub trait FileWorkload {
    /// What is going to happen.
    fn plan(&self) -> Plan;

    /// The next step, or `None` at the end.
    fn next_step(&mut self) -> Option<FileStep<'_>>;
}

/// When a block phase ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// After this time, on the target's clock.
    Time(Nanos),
    /// After this many bytes.
    Bytes(Bytes),
    /// After this many operations.
    Ops(u64),
    /// When the workload has no more operations.
    Stream,
}

/// One phase of a block workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockPhase {
    /// Name, as in results.
    pub name: String,
    /// Operations kept in flight: a sliding window, never fill-and-drain.
    pub queue_depth: u32,
    /// When it ends.
    pub limit: Limit,
    /// False for passes that are run and thrown away.
    pub record: bool,
    /// Idle time before the phase.
    pub idle_before: Nanos,
}

/// A stream of block operations in phases.
pub trait BlockWorkload {
    /// What is going to happen.
    fn plan(&self) -> Plan;

    /// The next phase, or `None` at the end. Ends the one before it, wherever that stood.
    fn next_phase(&mut self) -> Option<BlockPhase>;

    /// The next operation of the current phase; `None` ends it.
    fn next_op(&mut self) -> Option<Command<'static>>;
}
