//! What the engine needs of a modelled drive beyond commands.

use crate::error::UsageError;
use crate::memory;
use crate::serve::engine::{Settings, TrimShape};
use crate::serve::pace::Speed;
use crate::serve::request::Geometry;
use std::collections::BTreeMap;
use trimtab_core::drive::hdd::Hdd;
use trimtab_core::drive::spec::{DriveSpec, Medium};
use trimtab_core::drive::ssd::Ssd;
use trimtab_core::drive::{Device, Extent};
use trimtab_core::units::{Bytes, Nanos};

/// The largest discard granularity that is passed on.
const GRANULARITY_MAX: u64 = 1 << 20;
/// Larger mapping units are torn between pieces of this size.
const ATOMIC_WRITE_MAX: u64 = 64 << 10;

/// `spec` with another capacity: over-provisioning, and everything else, stays in proportion.
pub fn sized(mut spec: DriveSpec, size: Option<Bytes>) -> anyhow::Result<DriveSpec> {
    let Some(Bytes(size)) = size else { return Ok(spec) };
    let block = u64::from(spec.logical_block_bytes);
    let capacity = size / block * block;
    if let Medium::Flash(flash) = &mut spec.medium {
        let raw = flash.geometry.raw_bytes();
        let permille = (raw * 1000).div_ceil(u128::from(spec.capacity_bytes.max(1))).saturating_sub(1000);
        flash.geometry = flash.geometry.clone().with_over_provisioning(capacity, permille as u32);
    }
    spec.capacity_bytes = capacity;
    spec.validate().map_err(|problem| UsageError::new(format!("--size {}: {problem}", Bytes(size))))?;
    Ok(spec)
}

/// How to serve a drive of `spec`.
pub fn settings(spec: &DriveSpec, speed: Speed) -> Settings {
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
    Settings { geometry, trim, speed, queue_depth: spec.interface.queue_depth, classify }
}

/// A new drive of `spec`.
pub fn build(spec: &DriveSpec, seed: u64) -> anyhow::Result<Box<dyn Model>> {
    let model: Box<dyn Model> = match &spec.medium {
        Medium::Disk(_) => Box::new(Hdd::new(spec)?),
        Medium::Flash(_) => {
            let drive = Ssd::new(spec, seed)?;
            memory::prefer_huge_pages(&drive);
            Box::new(drive)
        }
    };
    Ok(model)
}

/// The drive of `spec` whose [`Model::snapshot`] is `saved`.
pub fn resume(spec: &DriveSpec, saved: &[u8]) -> anyhow::Result<Box<dyn Model>> {
    let model: Box<dyn Model> = match &spec.medium {
        Medium::Disk(_) => Box::new(Hdd::new(spec)?),
        Medium::Flash(_) => Box::new(Ssd::restore(spec, saved)?),
    };
    Ok(model)
}

/// A modelled drive that can be served.
pub trait Model: Device + Send {
    /// Every counter by name, and how the medium is used now.
    fn counters(&self) -> BTreeMap<String, u64>;

    /// Bytes that the host wrote, and bytes that were written to the medium for it, so far.
    fn written(&self) -> (u64, u64);

    /// Everything that has to be kept between attachments; empty if there is nothing of that kind.
    fn snapshot(&self) -> Vec<u8>;

    /// To be called before the first write if the power may be cut.
    fn expect_power_cuts(&mut self);

    /// The power fails at `now`; gives the ranges whose latest content was only in the write cache and is lost.
    fn power_cut(&mut self, now: Nanos) -> Vec<Extent>;
}

impl Model for Hdd {
    fn counters(&self) -> BTreeMap<String, u64> {
        let c = self.counters();
        let named = [
            ("host_read_bytes", c.host_read_bytes),
            ("host_write_bytes", c.host_write_bytes),
            ("media_write_bytes", c.media_write_bytes),
            ("buffer_hits", c.buffer_hits),
            ("seeks", c.seeks),
            ("seek_ns", c.seek_ns),
            ("rotation_wait_ns", c.rotation_wait_ns),
            ("flushes", c.flushes),
            ("cache_stall_ns", c.cache_stall_ns),
        ];
        named.map(|(name, value)| (name.to_owned(), value)).into()
    }

    fn written(&self) -> (u64, u64) {
        (self.counters().host_write_bytes, self.counters().media_write_bytes)
    }

    fn snapshot(&self) -> Vec<u8> {
        Vec::new()
    }

    fn expect_power_cuts(&mut self) {}

    fn power_cut(&mut self, _now: Nanos) -> Vec<Extent> {
        self.power_cut()
    }
}

impl Model for Ssd {
    fn counters(&self) -> BTreeMap<String, u64> {
        let mut named: BTreeMap<String, u64> = self.counters().fields().into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let now = self.occupancy();
        let (unit, slot) = (self.layout().unit_bytes, self.layout().slot_bytes);
        let erases = self.erase_counts();
        for (name, value) in [
            ("now_mapped_bytes", now.mapped_units * unit),
            ("now_trimmed_bytes", now.trimmed_units * unit),
            ("now_unwritten_bytes", now.unwritten_units * unit),
            ("now_stale_bytes", now.stale_slots * slot),
            ("now_free_bytes", now.free_slots * slot),
            ("now_free_superblocks", now.free_superblocks.into()),
            ("now_slc_superblocks", now.slc_superblocks.into()),
            ("now_worn_out_superblocks", now.worn_out_superblocks.into()),
            ("now_read_only", now.read_only.into()),
            ("now_throttled", now.throttled.into()),
            ("erases_of_a_superblock_min", erases.iter().min().copied().unwrap_or(0).into()),
            ("erases_of_a_superblock_max", erases.iter().max().copied().unwrap_or(0).into()),
            ("nand_written_bytes", self.nand_written().0),
        ] {
            named.insert(name.to_owned(), value);
        }
        named
    }

    fn written(&self) -> (u64, u64) {
        (self.counters().host_written_bytes, self.nand_written().0)
    }

    fn snapshot(&self) -> Vec<u8> {
        self.snapshot()
    }

    fn expect_power_cuts(&mut self) {
        self.track_durability();
    }

    fn power_cut(&mut self, now: Nanos) -> Vec<Extent> {
        // A range may have been written several times; what counts is what became of the last one.
        let mut last: BTreeMap<Extent, bool> = BTreeMap::new();
        for fate in self.power_cut(now) {
            last.insert(fate.extent, fate.survives);
        }
        last.into_iter().filter(|(_, survives)| !survives).map(|(extent, _)| extent).collect()
    }
}
