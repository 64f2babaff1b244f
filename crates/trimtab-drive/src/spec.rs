//! What a drive is: plain data, checked by [`DriveSpec::validate`] before a model is made of it.
//!
//! Every field has one meaning, stated here with its unit. Sizes are in bytes, durations in nanoseconds, shares in
//! per mille: integers only, so that a specification means the same on every machine. `docs/method/ssd.md` says how the
//! fields enter the timing arithmetic.

mod disk;
pub mod file;
mod flash;
pub mod layout;
pub mod source;
pub mod text;
pub mod twin;
mod validate;

pub use disk::{Disk, Zone};
pub use flash::{
    ChannelOrder, Compression, EraseCommands, Flash, FlushBehaviour, Ftl, GarbageCollection, GcPacing, Geometry, HotCold, LifeThrottle,
    NandTiming, SlcCache, SlcFull, SlcSize, Streams, Thermal, Trim, TrimInvalidation, TrimmedReads, VictimPolicy, Wear, WriteCache,
};

pub(crate) use validate::wrong;

pub use validate::{IDENTIFIER_MAX, is_identifier};

use alloc::string::String;
use core::fmt;
use serde::{Deserialize, Serialize};

/// A drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriveSpec {
    /// Short name, as in `drive:NAME`: lower case, digits and hyphens.
    pub name: String,
    /// What it stands for, in a sentence.
    pub description: String,
    /// User capacity in bytes; a multiple of the logical block.
    pub capacity_bytes: u64,
    /// Logical block (sector) in bytes: a power of two from 512 to 65536.
    pub logical_block_bytes: u32,
    /// The link to the host and the command processor.
    pub interface: Interface,
    /// What stores the data.
    pub medium: Medium,
}

/// What stores the data.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "there are few specifications, and boxes would be in the way of whoever writes one")]
pub enum Medium {
    /// An SSD.
    Flash(Flash),
    /// A disk.
    Disk(Disk),
}

/// The link to the host and the command processor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Interface {
    /// Payload bytes per second that the link carries.
    pub rate_bytes_per_s: u64,
    /// True if reads and writes do not share that rate (PCIe), false if they do (SATA).
    pub full_duplex: bool,
    /// Commands that the drive holds at once; a further one waits until one of them completes.
    pub queue_depth: u32,
    /// Time that the command processor spends on each read or write, one command after another: its inverse is the
    /// highest rate of commands.
    pub command_overhead_ns: u64,
    /// The same of each write, where it differs (a write is entered in the mapping, a read looked up); `None` is `command_overhead_ns`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_overhead_ns: Option<u64>,
    /// Time that each command takes besides, which overlaps that of other commands.
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
    /// What the command processor spends on each write.
    #[must_use]
    pub fn overhead_of_writes_ns(&self) -> u64 {
        self.write_overhead_ns.unwrap_or(self.command_overhead_ns)
    }
}

/// What is wrong with a specification: which field, what it says, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecError {
    /// Dotted name of the field: `flash.geometry.page_bytes`.
    pub field: &'static str,
    /// What it says.
    pub value: String,
    /// What would be right, and why.
    pub expected: String,
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is {}, but {}", self.field, self.value, self.expected)
    }
}

impl core::error::Error for SpecError {}
