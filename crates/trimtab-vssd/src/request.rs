//! What front ends ask, and what they are answered.

use crate::store::Store;
use rustix::io::Errno;
use std::time::Instant;
use trimtab_drive::Extent;
pub use trimtab_drive::interface::Geometry;

/// One request of a host. Offsets and lengths are bytes.
#[derive(Debug)]
pub enum Request<'a> {
    /// Fills the buffer from `offset` on.
    Read {
        /// First byte.
        offset: u64,
        /// Receives the data; its length is the length of the request.
        into: &'a mut [u8],
    },
    /// Writes.
    Write {
        /// First byte.
        offset: u64,
        /// The data.
        data: &'a [u8],
        /// Durable when answered ("force unit access").
        fua: bool,
    },
    /// TRIM of these ranges in one command, and what becomes of it.
    Trim(&'a [Extent], Effect),
    /// Makes a range read as zeros.
    Zero {
        /// The range.
        extent: Extent,
        /// The drive may do so by unmapping it.
        may_unmap: bool,
        /// Durable when answered.
        fua: bool,
    },
    /// Makes everything answered so far durable.
    Flush,
}

/// What becomes of a TRIM: for a drive it is a hint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// What this drive does.
    Usual,
    /// The ranges count as trimmed, and what was in them can still be read.
    DataStay,
    /// The command costs what one does, and nothing else happens.
    Nothing,
}

/// How a request ended and when the host may hear of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the host waits for an answer"]
pub struct Served {
    /// Done, or the error that the host sees.
    pub result: Result<(), Errno>,
    /// Not before this; `None`: at once.
    pub due: Option<Instant>,
}

impl Served {
    /// Refused at once.
    pub const fn refused(errno: Errno) -> Self {
        Self { result: Err(errno), due: None }
    }
}

/// A stretch of a drive that is alike, as far as its host can know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// Bytes.
    pub len: u64,
    /// The drive holds data for it: it was written and not trimmed since.
    pub mapped: bool,
    /// It is known to read as zeros.
    pub zeros: bool,
}

/// Anything that serves requests: the engine, or faults around it. Called from several threads at once.
pub trait Serve: Send + Sync {
    /// What the drive looks like.
    fn geometry(&self) -> Geometry;

    /// What of `extent` is mapped and what reads as zeros: the first `most` stretches from its beginning on, at least one. `EINVAL` for an
    /// empty range and one that is not on the drive.
    fn stretches(&self, extent: Extent, most: usize) -> Result<Vec<Stretch>, Errno>;

    /// Does it, and says when to answer.
    fn serve(&self, request: Request<'_>) -> Served;
}

/// Whatever serves requests and loses what was only in its cache when the power fails.
pub trait Powered: Serve {
    /// The data, as they lie on the medium: a look at them is no request.
    fn store(&self) -> &Store;

    /// To be called before the first write if the power may be cut.
    fn expect_power_cuts(&self);

    /// The power fails: gives the ranges that were only in the volatile cache.
    fn power_cut(&self) -> Vec<Extent>;
}
