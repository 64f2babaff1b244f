//! Modelled drives: a specification, a state and one call.

pub mod counters;
pub mod hdd;
pub mod interface;
pub mod layout;
pub mod ledger;
pub mod model;
pub mod requests;
#[cfg(test)]
pub(crate) mod shipped;
pub mod spec;
pub mod ssd;
pub mod theory;
pub mod trim_shape;
pub mod validation;

use crate::data::DataClass;
use crate::units::{Bytes, Nanos};

/// A range of a drive in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Extent {
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
}

/// A command to a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command<'a> {
    /// Reads.
    Read(Extent),
    /// Writes data of a class.
    Write(Extent, DataClass),
    /// TRIM of all these ranges in one command.
    Trim(&'a [Extent]),
    /// Makes completed writes durable.
    Flush,
}

/// When the clock of a drive ends: after 292 years, in half the range of its numbers. Sums of times saturate, so that nothing that was begun before goes past that
/// range; a command that would end later is refused.
pub(crate) const CLOCK_END_NS: u64 = 1 << 63;

/// Why a drive refuses a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The range goes past the end of the drive.
    #[error("range goes past the end of the drive")]
    OutOfRange,
    /// Offset or length is no multiple of the logical block.
    #[error("range is not a multiple of the logical block")]
    Misaligned,
    /// The drive does not know TRIM.
    #[error("the drive does not support TRIM")]
    TrimUnsupported,
    /// More ranges than one command may carry.
    #[error("more ranges than one TRIM command may carry")]
    TooManyRanges,
    /// The drive is worn out and takes no more writes.
    #[error("the drive is worn out and read-only")]
    ReadOnly,
    /// It would not be done before the drive's clock ends, 292 years after it began.
    #[error("the command would end after 292 years, which is as far as the drive's clock goes")]
    ClockEnd,
}

/// When and how a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// When the host sees it complete; never before the `now` of its submission.
    pub done: Nanos,
    /// Accepted, or why not.
    pub result: Result<(), Refusal>,
}

/// Anything that takes drive commands: SSD, disk, or a recorder in a test.
pub trait Device {
    /// Usable size.
    fn size(&self) -> Bytes;

    /// Size of a logical block in bytes.
    fn logical_block(&self) -> u32;

    /// Whether TRIM is accepted.
    fn supports_trim(&self) -> bool;

    /// Executes `command`, submitted at `now`. `now` never decreases from call to call; several commands may be
    /// in flight, and complete in any order.
    fn submit(&mut self, now: Nanos, command: &Command<'_>) -> Completion;

    /// Tells the drive that no command arrives before `until`, so that it can use the time (GC, folding).
    fn idle(&mut self, until: Nanos);
}

impl<D: Device + ?Sized> Device for alloc::boxed::Box<D> {
    fn size(&self) -> Bytes {
        (**self).size()
    }

    fn logical_block(&self) -> u32 {
        (**self).logical_block()
    }

    fn supports_trim(&self) -> bool {
        (**self).supports_trim()
    }

    fn submit(&mut self, now: Nanos, command: &Command<'_>) -> Completion {
        (**self).submit(now, command)
    }

    fn idle(&mut self, until: Nanos) {
        (**self).idle(until);
    }
}
