//! How a drive is served, from its specification.

use super::{Settings, TrimShape};
use crate::serve::pace::Speed;
use crate::serve::request::Geometry;
use trimtab_core::drive::spec::{DriveSpec, Medium, TrimmedReads};

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
        Self { geometry, trim, speed, queue_depth: spec.interface.queue_depth, classify, trimmed_reads }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drives::model;
    use crate::serve::engine::Engine;
    use crate::serve::persist;
    use crate::serve::request::{Request, Serve as _};
    use trimtab_core::drive::Extent;
    use trimtab_core::units::Bytes;

    #[test]
    fn trimmed_space_reads_as_the_specification_says_and_zeroed_space_as_zeros() {
        for (reads, expected) in [(TrimmedReads::Zeros, 0), (TrimmedReads::Ones, 0xFF), (TrimmedReads::OldData, 7)] {
            let mut spec = model::sized(crate::drives::load("ocz-vertex-le-100gb").unwrap().spec, Some(Bytes(512 << 20))).unwrap();
            let Medium::Flash(flash) = &mut spec.medium else { panic!("an SSD") };
            flash.trim.reads = reads;
            let settings = Settings::of(&spec, Speed::Unpaced);
            let engine = Engine::new(persist::in_memory(&spec, &settings, 1).unwrap(), settings, None);
            let byte = |offset| {
                let mut data = [0xEE; 4096];
                engine.serve(Request::Read { offset, into: &mut data }).result.unwrap();
                assert!(data.iter().all(|byte| *byte == data[0]));
                data[0]
            };
            for offset in [0, 4096, 8192] {
                engine.serve(Request::Write { offset, data: &[7; 4096], fua: false }).result.unwrap();
            }
            engine.serve(Request::Trim(&[Extent { offset: 0, len: 4096 }, Extent { offset: 1 << 20, len: 64 << 20 }])).result.unwrap();
            engine.serve(Request::Zero { extent: Extent { offset: 4096, len: 4096 }, may_unmap: true, fua: false }).result.unwrap();
            assert_eq!([byte(0), byte(4096), byte(8192), byte(1 << 20)], [expected, 0, 7, 0], "{reads:?}");
        }
    }
}
