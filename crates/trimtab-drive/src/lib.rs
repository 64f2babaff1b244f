//! Models of SSDs and hard disks, in virtual time and without I/O.
//!
//! A [`spec::DriveSpec`] describes a drive. [`model::Model`] is its state. [`Device::submit`] executes one [`Command`]
//! and returns the time at which the host sees it complete. The crate is `no_std`: floating-point functions come from
//! `libm` and random numbers from [`rng`], so a result is byte-identical on every machine.
#![cfg_attr(doctest, doc = include_str!("../README.md"))]
#![no_std]
#![deny(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod counters;
pub mod data;
pub mod discards;
pub mod hdd;
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
mod superblock;
pub mod trim_shape;
pub mod units;
pub mod usage;
pub mod varint;

use data::DataClass;
pub use op_kind::OpKind;
pub use superblock::Superblock;
use units::{Bytes, Nanos};

/// A range of a drive in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Extent {
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
}

/// One request to whatever has blocks: a drive, a file that is one, a target. Offsets and lengths are in bytes and multiples of the block size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command<'a> {
    /// Reads.
    Read(Extent),
    /// Writes fresh data of a class.
    Write(Extent, DataClass),
    /// TRIM of all these ranges in one command: they need not be kept.
    Trim(Ranges<'a>),
    /// Makes completed writes durable.
    Flush,
}

/// Ranges of one TRIM command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ranges<'a> {
    /// One range, as workloads ask for them.
    One(Extent),
    /// Any number of them.
    Many(&'a [Extent]),
}

impl core::ops::Deref for Ranges<'_> {
    type Target = [Extent];

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

    /// What kind of operation this is.
    #[must_use]
    pub const fn kind(&self) -> OpKind {
        match self {
            Self::Read(_) => OpKind::Read,
            Self::Write(..) => OpKind::Write,
            Self::Trim(_) => OpKind::Trim,
            Self::Flush => OpKind::Flush,
        }
    }

    /// The range that it covers: of several the first, of a flush none.
    #[must_use]
    pub fn extent(&self) -> Option<Extent> {
        match self {
            Self::Read(extent) | Self::Write(extent, _) => Some(*extent),
            Self::Trim(ranges) => ranges.first().copied(),
            Self::Flush => None,
        }
    }

    /// Bytes that it covers.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Read(extent) | Self::Write(extent, _) => extent.len,
            Self::Trim(ranges) => ranges.iter().map(|range| range.len).sum(),
            Self::Flush => 0,
        }
    }
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

impl Refusal {
    /// The error number of a worn-out drive: what Linux calls a read-only device.
    const EROFS: i32 = 30;

    /// The error number under which a target reports it, where it has one of its own.
    #[must_use]
    pub const fn errno(self) -> Option<i32> {
        match self {
            Self::ReadOnly => Some(Self::EROFS),
            _ => None,
        }
    }
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

    /// Fetches what a command at byte `offset` will need into the processor's cache. For callers that know their next commands; changes nothing.
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

    fn submit(&mut self, now: Nanos, command: &Command<'_>) -> Completion {
        (**self).submit(now, command)
    }

    fn idle(&mut self, until: Nanos) {
        (**self).idle(until);
    }

    fn prefetch(&self, offset: u64) {
        (**self).prefetch(offset);
    }
}
