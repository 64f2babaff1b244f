//! Drive properties visible to the host, derived from a specification.

use super::spec::{DriveSpec, TrimmedReads};
use super::trim_shape::TrimShape;

const GRANULARITY_MAX: u64 = 1 << 20;
/// Maximum write that is atomic; larger mapping units may be torn at multiples of this
/// size.
const ATOMIC_WRITE_MAX: u64 = 64 << 10;

/// Drive geometry visible to the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Capacity in bytes.
    pub size: u64,
    /// Logical block size in bytes.
    pub logical_block: u32,
    /// Largest aligned part of a write that is never torn, in bytes.
    pub atomic_write: u32,
    /// Recommended alignment of TRIM ranges in bytes; 0 if TRIM is not supported.
    pub discard_granularity: u32,
    /// Maximum bytes per TRIM range; 0 if TRIM is not supported.
    pub discard_max_bytes: u64,
    /// True if the write cache is volatile, so that flushes matter.
    pub volatile_cache: bool,
}

/// Parameters that a host needs to use a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Geometry.
    pub geometry: Geometry,
    /// Limits of a TRIM command.
    pub trim: TrimShape,
    /// Queue depth.
    pub queue_depth: u32,
    /// True if the drive compresses, so that the data class affects timing.
    pub classify: bool,
    /// Content returned by reads of trimmed space.
    pub trimmed_reads: TrimmedReads,
}

impl Interface {
    /// True if the drive supports TRIM.
    #[must_use]
    pub const fn takes_trim(&self) -> bool {
        self.geometry.discard_granularity > 0
    }

    /// Host parameters of a drive of `spec`.
    #[must_use]
    pub fn of(spec: &DriveSpec) -> Self {
        let (block, flash) = (spec.logical_block_bytes, &spec.flash);
        let unit = |bytes: u64, max: u64| bytes.clamp(block.into(), max) as u32;
        let mut geometry = Geometry {
            size: spec.capacity_bytes,
            logical_block: block,
            // A mapped unit is replaced atomically, by the update of its map entry.
            atomic_write: unit(flash.ftl.mapping_unit_bytes, ATOMIC_WRITE_MAX),
            discard_granularity: 0,
            discard_max_bytes: 0,
            volatile_cache: flash.write_cache.bytes > 0 && !flash.write_cache.power_loss_protection,
        };
        let mut trim = TrimShape { ranges_max: 1, range_bytes_max: spec.capacity_bytes.max(1) };
        if flash.trim.supported {
            trim = TrimShape {
                ranges_max: flash.trim.ranges_per_command_max,
                range_bytes_max: flash.trim.range_bytes_max,
            };
            geometry.discard_granularity = unit(flash.trim.alignment_bytes, GRANULARITY_MAX);
            geometry.discard_max_bytes = trim.command_bytes_max().min(spec.capacity_bytes);
        }
        Self {
            geometry,
            trim,
            queue_depth: spec.interface.queue_depth,
            classify: flash.compression.is_some(),
            trimmed_reads: flash.trim.reads,
        }
    }
}
