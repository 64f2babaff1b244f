//! A model of SSDs, in virtual time and without I/O.
//!
//! A [`spec::DriveSpec`] describes a drive. [`model::Model`] is its state.
//! [`Device::submit`] executes one [`Command`] and returns the time at which the host
//! sees it complete. The crate is `no_std`: floating-point functions come from `libm` and
//! random numbers from [`rng`], so a result is byte-identical on every machine.
#![cfg_attr(doctest, doc = include_str!("../README.md"))]
#![no_std]
#![deny(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod counters;
pub mod data;
pub mod discards;
pub mod histogram;
pub mod interface;
pub mod ledger;
pub mod model;
pub mod named;
mod op_kind;
#[allow(unsafe_code)]
mod prefetch;
pub mod requests;
pub mod rng;
pub mod shipped;
pub mod spec;
pub mod ssd;
pub mod trim_shape;
pub mod units;
pub mod usage;
pub mod varint;

use data::DataClass;
pub use op_kind::OpKind;
use units::{Bytes, Nanos};

/// A range of a drive in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Extent {
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
}

/// A request to a block device, such as a drive, a disk image or a benchmark target.
/// Offsets and lengths are bytes and multiples of the logical block size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command<'a> {
    /// Reads.
    Read(Extent),
    /// Writes fresh data of the given class.
    Write(Extent, DataClass),
    /// TRIMs all these ranges in one command; their data may be discarded.
    Trim(Ranges<'a>),
    /// Makes completed writes durable.
    Flush,
}

/// Ranges of one TRIM command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ranges<'a> {
    /// A single range.
    One(Extent),
    /// Any number of ranges.
    Many(&'a [Extent]),
}

impl core::ops::Deref for Ranges<'_> {
    type Target = [Extent];

    #[inline]
    fn deref(&self) -> &[Extent] {
        match self {
            Self::One(extent) => core::slice::from_ref(extent),
            Self::Many(extents) => extents,
        }
    }
}

impl<'a> Command<'a> {
    /// TRIM of these ranges.
    #[must_use]
    pub const fn trim(ranges: &'a [Extent]) -> Self {
        Self::Trim(Ranges::Many(ranges))
    }

    /// Operation kind.
    #[must_use]
    #[inline]
    pub const fn kind(&self) -> OpKind {
        match self {
            Self::Read(_) => OpKind::Read,
            Self::Write(..) => OpKind::Write,
            Self::Trim(_) => OpKind::Trim,
            Self::Flush => OpKind::Flush,
        }
    }

    /// Range of the command: the first one for a TRIM, `None` for a flush.
    #[must_use]
    #[inline]
    pub fn extent(&self) -> Option<Extent> {
        match self {
            Self::Read(extent) | Self::Write(extent, _) => Some(*extent),
            Self::Trim(ranges) => ranges.first().copied(),
            Self::Flush => None,
        }
    }

    /// Total length in bytes; 0 for a flush.
    #[must_use]
    #[inline]
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Read(extent) | Self::Write(extent, _) => extent.len,
            Self::Trim(ranges) => ranges.iter().map(|range| range.len).sum(),
            Self::Flush => 0,
        }
    }
}

/// End of a drive's clock: 292 years, half the range of a `u64` in nanoseconds. Sums of
/// times saturate, so work that started earlier cannot overflow. A command that would
/// complete later is refused.
pub(crate) const CLOCK_END_NS: u64 = 1 << 63;

/// Reason why a drive refuses a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The range extends past the end of the drive.
    #[error("range goes past the end of the drive")]
    OutOfRange,
    /// Offset or length is not a multiple of the logical block.
    #[error("range is not a multiple of the logical block")]
    Misaligned,
    /// The drive does not support TRIM.
    #[error("the drive does not support TRIM")]
    TrimUnsupported,
    /// The TRIM command has more ranges than the drive accepts.
    #[error("the TRIM command has too many ranges")]
    TooManyRanges,
    /// The drive is worn out and accepts no more writes.
    #[error("the drive is worn out and read-only")]
    ReadOnly,
    /// The command would complete after the end of the drive's clock (292 years).
    #[error("the command would complete after 292 years, the end of the drive's clock")]
    ClockEnd,
}

impl Refusal {
    const EROFS: i32 = 30;

    /// Linux error number for this refusal; `None` if it has no specific one.
    #[must_use]
    pub const fn errno(self) -> Option<i32> {
        match self {
            Self::ReadOnly => Some(Self::EROFS),
            _ => None,
        }
    }
}

/// Completion time and result of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Time at which the host sees the completion; never before the submission time.
    pub done: Nanos,
    /// `Ok` if accepted, otherwise the reason for refusal.
    pub result: Result<(), Refusal>,
}

/// A device that accepts drive commands: SSD, disk, or a recorder in a test.
pub trait Device {
    /// User capacity.
    fn size(&self) -> Bytes;

    /// Size of a logical block in bytes.
    fn logical_block(&self) -> u32;

    /// True if the drive accepts TRIM.
    fn supports_trim(&self) -> bool;

    /// Executes `command`, submitted at `now`. `now` must not decrease from call to call.
    /// Several commands may be in flight and may complete in any order.
    fn submit(&mut self, now: Nanos, command: &Command<'_>) -> Completion;

    /// Notifies the drive that it may run background work (GC, folding) until `until`.
    fn idle(&mut self, until: Nanos);

    /// Prefetches the state for a command at byte `offset`. Has no effect on results.
    fn prefetch(&self, _offset: u64) {}
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

    #[inline]
    fn submit(&mut self, now: Nanos, command: &Command<'_>) -> Completion {
        (**self).submit(now, command)
    }

    fn idle(&mut self, until: Nanos) {
        (**self).idle(until);
    }

    #[inline]
    fn prefetch(&self, offset: u64) {
        (**self).prefetch(offset);
    }
}
