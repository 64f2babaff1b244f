//! Requests of front ends, and their results.

use crate::store::Store;
use rustix::io::Errno;
use std::time::Instant;
use trimtab_drive::Extent;
pub use trimtab_drive::interface::Geometry;

/// One request of a host. Offsets and lengths are bytes.
#[derive(Debug)]
pub enum Request<'a> {
    /// Fills the buffer with the data at `offset`.
    Read {
        /// Byte offset.
        offset: u64,
        /// Receives the data; its length is the length of the request.
        into: &'a mut [u8],
    },
    /// Writes data.
    Write {
        /// Byte offset.
        offset: u64,
        /// The data.
        data: &'a [u8],
        /// Durable when answered ("force unit access").
        fua: bool,
    },
    /// TRIM of these ranges in one command, with its effect.
    Trim(&'a [Extent], Effect),
    /// Makes a range read as zeros.
    Zero {
        /// The range.
        extent: Extent,
        /// The drive may unmap the range.
        may_unmap: bool,
        /// Durable when answered.
        fua: bool,
    },
    /// Makes all completed writes durable.
    Flush,
}

/// The effect of a TRIM, which is a hint for a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The drive's usual behaviour.
    Usual,
    /// The ranges count as trimmed, but reads still return their data.
    DataStay,
    /// The command takes its time but has no effect.
    Nothing,
}

/// The result of a request, and the time at which the host may see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the host waits for an answer"]
pub struct RequestResult {
    /// Success, or the error that the host sees.
    pub result: Result<(), Errno>,
    /// Earliest completion; `None` for immediately.
    pub due: Option<Instant>,
}

impl RequestResult {
    /// An immediate error.
    pub const fn refused(errno: Errno) -> Self {
        Self { result: Err(errno), due: None }
    }
}

/// A request server: the engine, or faults around it. Called by several threads at once.
pub trait RequestServer: Send + Sync {
    /// Geometry shown to the host.
    fn geometry(&self) -> Geometry;

    /// Executes the request and returns its completion time.
    fn serve(&self, request: Request<'_>) -> RequestResult;
}

/// A request server that loses the content of its cache on a power cut.
pub trait PowerCutSupport: RequestServer {
    /// The data on the medium, accessible without requests.
    fn store(&self) -> &Store;

    /// Call before the first write if the power may be cut.
    fn expect_power_cuts(&self);

    /// Answers a request with an error, without executing it, and counts it as failed.
    fn refuse(&self, request: &Request<'_>, errno: Errno) -> RequestResult;

    /// Simulates a power cut. Returns the ranges that were only in the volatile cache.
    fn power_cut(&self) -> Vec<Extent>;
}
