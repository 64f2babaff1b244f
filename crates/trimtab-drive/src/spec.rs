//! Drive specification: plain data, checked by [`DriveSpec::validate`] before a model is
//! built from it.
//!
//! Every field has one meaning, stated here with its unit. Sizes are in bytes, durations
//! in nanoseconds, shares in per mille. All are integers, so a specification means the
//! same on every machine. `docs/method/ssd.md` defines the timing arithmetic.

pub mod datasheet;
pub mod file;
mod flash;
pub mod layout;
pub mod source;
pub mod text;
pub mod twin;
mod validate;

pub use flash::{
    Compression, Flash, FlushBehaviour, Ftl, GarbageCollection, Geometry, LifeThrottle, NandTiming,
    SlcCache, SlcFull, SlcSize, Streams, Thermal, Trim, TrimmedReads, VictimPolicy, Wear,
    WriteCache,
};

pub(crate) use validate::wrong;

pub use validate::{BITS_PER_CELL_MAX, CAPACITY_MAX, IDENTIFIER_MAX, is_identifier};

use alloc::string::String;
use core::fmt;
use serde::{Deserialize, Serialize};

/// A drive specification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriveSpec {
    /// Short name, as in `drive:NAME`: lower-case letters, digits and hyphens.
    pub name: String,
    /// One-sentence description.
    pub description: String,
    /// User capacity in bytes; a multiple of the logical block.
    pub capacity_bytes: u64,
    /// Logical block (sector) in bytes: a power of two from 512 to 65536.
    pub logical_block_bytes: u32,
    /// Host link and command processor.
    pub interface: Interface,
    /// Flash and its controller.
    pub flash: Flash,
}

/// Host link and command processor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Interface {
    /// Payload rate of the link in bytes per second.
    pub rate_bytes_per_s: u64,
    /// True if reads and writes each get the full rate (PCIe), false if they share it
    /// (SATA).
    pub full_duplex: bool,
    /// Queue depth: further commands wait until one completes.
    pub queue_depth: u32,
    /// Command-processor time per read or write, serialised: its inverse is the maximum
    /// IOPS.
    pub command_overhead_ns: u64,
    /// Command-processor time per write if it differs from a read, because a write
    /// updates the mapping; `None` means `command_overhead_ns`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_overhead_ns: Option<u64>,
    /// Additional fixed latency per command, which overlaps with other commands.
    pub latency_ns: u64,
}

impl Default for Interface {
    /// SATA 6 Gbit/s with native command queuing.
    fn default() -> Self {
        Self {
            rate_bytes_per_s: 550_000_000,
            full_duplex: false,
            queue_depth: 32,
            command_overhead_ns: 5_000,
            write_overhead_ns: None,
            latency_ns: 20_000,
        }
    }
}

impl Interface {
    /// Command-processor time per write.
    #[must_use]
    pub fn overhead_of_writes_ns(&self) -> u64 {
        self.write_overhead_ns.unwrap_or(self.command_overhead_ns)
    }
}

/// Error in a specification: the field, its value and the expected value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecError {
    /// Dotted name of the field: `flash.geometry.page_bytes`.
    pub field: &'static str,
    /// Actual value.
    pub value: String,
    /// Expected value and reason.
    pub expected: String,
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is {}, but {}", self.field, self.value, self.expected)
    }
}

impl core::error::Error for SpecError {}
