//! What a host sees of a drive, from its specification.

use super::spec::{DriveSpec, Medium, TrimmedReads};
use super::trim_shape::TrimShape;

/// The largest discard granularity that is passed on.
const GRANULARITY_MAX: u64 = 1 << 20;
/// Larger mapping units are torn between pieces of this size.
const ATOMIC_WRITE_MAX: u64 = 64 << 10;

/// What a drive looks like to its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Bytes.
    pub size: u64,
    /// Logical block in bytes.
    pub logical_block: u32,
    /// The largest aligned piece of a write that the drive never tears, in bytes.
    pub atomic_write: u32,
    /// What TRIM ranges should be multiples of, in bytes; 0 if TRIM is not supported.
    pub discard_granularity: u32,
    /// The most bytes of one TRIM range; 0 if TRIM is not supported.
    pub discard_max_bytes: u64,
    /// A volatile write cache: flushes matter.
    pub volatile_cache: bool,
    /// A disk with heads to move.
    pub rotational: bool,
}

/// How a host uses a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interface {
    /// What the host sees.
    pub geometry: Geometry,
    /// What the drive takes in one TRIM command.
    pub trim: TrimShape,
    /// Commands that the drive holds at once.
    pub queue_depth: u32,
    /// The drive compresses, so what data are like makes a difference.
    pub classify: bool,
    /// What reads of trimmed space return.
    pub trimmed_reads: TrimmedReads,
}

impl Interface {
    /// Whether the drive knows TRIM.
    #[must_use]
    pub const fn takes_trim(&self) -> bool {
        self.geometry.discard_granularity > 0
    }

    /// That of a drive of `spec`.
    #[must_use]
    pub fn of(spec: &DriveSpec) -> Self {
        let mut geometry = Geometry {
            size: spec.capacity_bytes,
            logical_block: spec.logical_block_bytes,
            atomic_write: spec.logical_block_bytes,
            discard_granularity: 0,
            discard_max_bytes: 0,
            volatile_cache: false,
            rotational: false,
        };
        let mut trim = TrimShape { ranges_max: 1, range_bytes_max: spec.capacity_bytes.max(1) };
        let mut classify = false;
        let mut trimmed_reads = TrimmedReads::Zeros;
        match &spec.medium {
            Medium::Flash(flash) => {
                classify = flash.compression.is_some();
                trimmed_reads = flash.trim.reads;
                // A mapped unit is replaced as a whole: its entry in the map points to the old place or to the new one.
                let unit = flash.ftl.mapping_unit_bytes.clamp(spec.logical_block_bytes.into(), ATOMIC_WRITE_MAX);
                geometry.atomic_write = unit as u32;
                geometry.volatile_cache = flash.write_cache.bytes > 0 && !flash.write_cache.power_loss_protection;
                if flash.trim.supported {
                    trim = TrimShape { ranges_max: flash.trim.ranges_per_command_max, range_bytes_max: flash.trim.range_bytes_max };
                    let unit = flash.trim.alignment_bytes.clamp(spec.logical_block_bytes.into(), GRANULARITY_MAX);
                    geometry.discard_granularity = unit as u32;
                    geometry.discard_max_bytes = trim.command_bytes_max().min(spec.capacity_bytes);
                }
            }
            Medium::Disk(disk) => {
                geometry.volatile_cache = disk.write_cache;
                geometry.rotational = true;
            }
        }
        Self { geometry, trim, queue_depth: spec.interface.queue_depth, classify, trimmed_reads }
    }
}
