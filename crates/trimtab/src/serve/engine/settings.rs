//! How a drive is served, from its specification.

use super::{Settings, TrimShape};
use crate::serve::pace::Speed;
use crate::serve::request::Geometry;
use trimtab_core::drive::spec::{DriveSpec, Medium};

/// The largest discard granularity that is passed on.
const GRANULARITY_MAX: u64 = 1 << 20;
/// Larger mapping units are torn between pieces of this size.
const ATOMIC_WRITE_MAX: u64 = 64 << 10;

impl Settings {
    /// How to serve a drive of `spec`.
    pub fn of(spec: &DriveSpec, speed: Speed) -> Self {
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
        match &spec.medium {
            Medium::Flash(flash) => {
                classify = flash.compression.is_some();
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
        Self { geometry, trim, speed, queue_depth: spec.interface.queue_depth, classify }
    }
}
