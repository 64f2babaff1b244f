//! SSD model.

#[cfg(any(test, feature = "checks"))]
#[path = "ssd/tests/check.rs"]
mod check;
mod clock;
mod commands;
mod ftl;
mod gc;
mod heat;
mod idle;
mod journal;
mod lane;
mod life;
mod mapcache;
mod packed;
mod partial;
mod place;
mod pool;
mod reads;
mod transfers;
mod trim;
mod victims;

pub use journal::WriteFate;

use super::counters::Counters;
use super::prefetch::prefetch;
use super::spec::layout::SsdLayout;
use super::spec::{DriveSpec, Flash, SpecError};
use super::{CLOCK_END_NS, Command, Completion, Device, Extent, Refusal};
use crate::units::{Bytes, Nanos};
use clock::Clock;
use ftl::Ftl;
use heat::ThermalState;
use journal::DurabilityJournal;
use life::EnduranceCredit;
use mapcache::MapCache;
use partial::PartialUnits;
use reads::ReadAhead;

/// Map entry of a unit that was never written.
const NEVER: u32 = 0;
/// Map entry of a unit that was trimmed.
const TRIMMED: u32 = 1;

/// Per-superblock state that every overwrite needs, stored together for locality.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SuperblockState {
    valid: u32,
    /// Position in the victim list.
    pos: u32,
}

/// A modelled SSD, determined by its specification, its state and the commands it
/// receives.
#[derive(Clone, Debug)]
pub struct Ssd {
    spec: DriveSpec,
    flash: Flash,
    layout: SsdLayout,
    seed: u64,
    ftl: Ftl,
    clock: Clock,
    partial: PartialUnits,
    heat: Option<ThermalState>,
    life: Option<EnduranceCredit>,
    map_cache: Option<MapCache>,
    read_ahead: ReadAhead,
    /// Time of the last submission, or end of the last idle period.
    now: u64,
    /// Time at which all submitted commands have completed.
    quiet_since: u64,
    /// Background work is complete up to this time.
    idled_until: u64,
    /// Shortest idle time after which the drive starts background work.
    idle_delay: u64,
    /// Time at which the queued-TRIM engine is free.
    trim_free: u64,
    /// True if [`Ftl::put_one`] is the only path for writing a whole unit.
    simple: bool,
}

/// Flash occupancy at one point in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Occupancy {
    /// Units that hold data.
    pub mapped_units: u64,
    /// Units that were mapped, then trimmed and not rewritten.
    pub trimmed_units: u64,
    /// Units that were never written.
    pub unwritten_units: u64,
    /// Slots with invalid data.
    pub stale_slots: u64,
    /// Erased slots.
    pub free_slots: u64,
    /// Erased superblocks.
    pub free_superblocks: u32,
    /// Superblocks in SLC mode.
    pub slc_superblocks: u32,
    /// Worn-out superblocks.
    pub worn_out_superblocks: u32,
    /// True if the drive accepts no more writes.
    pub read_only: bool,
    /// Temperature in thousandths of a degree Celsius; `None` if not modelled.
    pub temperature_mc: Option<i32>,
    /// True while the drive is throttled by heat.
    pub throttled_by_heat: bool,
    /// Bytes that may still be written to flash before endurance throttling starts; while
    /// throttled, the credit earned so far. `None` without endurance throttling.
    pub life_credit_bytes: Option<u64>,
    /// True while the drive is throttled to preserve endurance.
    pub throttled_for_life: bool,
}

impl Occupancy {
    /// True while the drive is throttled for any reason.
    #[must_use]
    pub const fn throttled(&self) -> bool {
        self.throttled_by_heat || self.throttled_for_life
    }
}

impl Ssd {
    /// Creates a new drive. `seed` determines all random draws of the model.
    ///
    /// # Errors
    /// If the specification is invalid.
    pub fn new(spec: &DriveSpec, seed: u64) -> Result<Self, SpecError> {
        spec.validate()?;
        let flash = &spec.flash;
        let layout = SsdLayout::new(spec, flash)?;
        let ftl = Ftl::new(flash, &layout, seed);
        let delays = [
            flash.ftl.gc.idle_delay_ns,
            flash.write_cache.idle_write_out_ns,
            flash.slc_cache.as_ref().and_then(|slc| slc.idle_fold_ns),
        ];
        Ok(Self {
            clock: Clock::new(spec, flash, &layout),
            partial: PartialUnits::new(flash, &layout),
            heat: flash.thermal.as_ref().map(ThermalState::new),
            life: flash.life_throttle.map(EnduranceCredit::new),
            map_cache: flash
                .ftl
                .mapping_cache_bytes
                .and_then(|bytes| MapCache::new(bytes, flash, &layout)),
            read_ahead: ReadAhead::new(flash.nand.read_ahead_bytes),
            now: 0,
            quiet_since: 0,
            idled_until: 0,
            idle_delay: delays.into_iter().flatten().min().unwrap_or(u64::MAX),
            trim_free: 0,
            simple: Self::is_simple(flash, &layout),
            ftl,
            layout,
            seed,
            flash: flash.clone(),
            spec: spec.clone(),
        })
    }

    fn is_simple(flash: &Flash, layout: &SsdLayout) -> bool {
        let all_mapped_in_memory = flash
            .ftl
            .mapping_cache_bytes
            .is_none_or(|bytes| MapCache::new(bytes, flash, layout).is_none());
        flash.compression.is_none()
            && flash.slc_cache.is_none()
            && flash.write_cache.merge_bytes == 0
            && all_mapped_in_memory
    }

    /// Seed of all random draws.
    #[must_use]
    pub const fn seed(&self) -> u64 {
        self.seed
    }

    /// The specification.
    #[must_use]
    pub const fn spec(&self) -> &DriveSpec {
        &self.spec
    }

    /// Sizes derived from the specification.
    #[must_use]
    pub const fn layout(&self) -> &SsdLayout {
        &self.layout
    }

    /// Counts since the drive was new.
    #[must_use]
    pub const fn counters(&self) -> &Counters {
        &self.ftl.counters
    }

    /// Bytes written to flash for any reason.
    #[must_use]
    pub fn nand_written(&self) -> Bytes {
        self.ftl.counters.nand_written(&self.layout, self.flash.geometry.page_bytes)
    }

    /// Write amplification factor since the drive was new; `None` before the first write.
    #[must_use]
    pub fn waf(&self) -> Option<f64> {
        self.ftl.counters.waf(&self.layout, self.flash.geometry.page_bytes)
    }

    /// Write amplification factor since `earlier`; `None` without host writes.
    #[must_use]
    pub fn waf_since(&self, earlier: &Counters) -> Option<f64> {
        self.ftl.counters.since(earlier).waf(&self.layout, self.flash.geometry.page_bytes)
    }

    /// Erase count of each superblock.
    #[must_use]
    pub fn erase_counts(&self) -> &[u32] {
        &self.ftl.pool.erases[1..]
    }

    /// Current flash occupancy.
    #[must_use]
    pub fn occupancy(&self) -> Occupancy {
        let ftl = &self.ftl;
        Occupancy {
            mapped_units: ftl.mapped,
            trimmed_units: ftl.trimmed,
            unwritten_units: u64::from(self.layout.units) - ftl.mapped - ftl.trimmed,
            stale_slots: ftl.stale_slots(),
            free_slots: ftl.free_slots,
            free_superblocks: ftl.pool.free(),
            slc_superblocks: ftl.slc_used,
            worn_out_superblocks: ftl.pool.worn_out,
            read_only: ftl.read_only,
            temperature_mc: self.heat.as_ref().map(ThermalState::temperature_mc),
            throttled_by_heat: self.heat.as_ref().is_some_and(ThermalState::is_throttled),
            life_credit_bytes: self.life.as_ref().map(|life| life.credit),
            throttled_for_life: self.life.as_ref().is_some_and(EnduranceCredit::is_throttled),
        }
    }

    /// Time after `now` that the flash stays busy with cached writes and scheduled
    /// background work (collection, folding, wear levelling). Counters already include
    /// this work, but its time lies after `now`.
    #[must_use]
    pub fn backlog(&self, now: Nanos) -> Nanos {
        Nanos(self.clock.backlog(now.0))
    }

    /// Starts tracking write durability; see [`power_cut`](Self::power_cut).
    pub fn track_durability(&mut self) {
        if self.ftl.journal.is_none() {
            // Untracked units left in open rows would be mistaken for later writes.
            self.write_out(self.now);
            self.ftl.journal = Some(DurabilityJournal::new(self.ftl.frontiers.len()));
            self.simple = false;
        }
    }
}

impl Device for Ssd {
    fn size(&self) -> Bytes {
        Bytes(self.spec.capacity_bytes)
    }

    fn logical_block(&self) -> u32 {
        self.spec.logical_block_bytes
    }

    fn supports_trim(&self) -> bool {
        self.flash.trim.supported
    }

    #[inline]
    fn submit(&mut self, now: Nanos, command: &Command<'_>) -> Completion {
        let now = now.0.max(self.now);
        if now >= CLOCK_END_NS {
            return Completion { done: Nanos(now), result: Err(Refusal::ClockEnd) };
        }
        self.now = now;
        if now.saturating_sub(self.quiet_since) > self.idle_delay {
            self.background(now);
        }
        if self.heat.is_some() || self.life.is_some() {
            self.throttle(now);
        }
        let result = match *command {
            Command::Write(extent, class) => self.write(now, extent, class),
            Command::Read(extent) => self.read(now, extent),
            Command::Trim(ranges) => self.trim(now, &ranges),
            Command::Flush => Ok(self.flush(now)),
        };
        match result {
            Ok(done) if done >= CLOCK_END_NS => {
                Completion { done: Nanos(now), result: Err(Refusal::ClockEnd) }
            }
            Ok(done) => {
                self.clock.complete(done);
                self.quiet_since = self.quiet_since.max(done);
                Completion { done: Nanos(done), result: Ok(()) }
            }
            Err(refusal) => Completion {
                done: Nanos(now.saturating_add(self.clock.latency)),
                result: Err(refusal),
            },
        }
    }

    #[inline]
    fn prefetch(&self, offset: u64) {
        prefetch(&self.ftl.map, self.layout.unit_at(offset) as usize);
    }

    fn idle(&mut self, until: Nanos) {
        if until.0 > self.now {
            self.now = until.0;
            self.background(until.0);
            if self.heat.is_some() || self.life.is_some() {
                self.throttle(until.0);
            }
        }
    }
}

impl Ssd {
    /// Checks that `extent` lies within the drive and is aligned to logical blocks.
    #[inline]
    fn check(&self, extent: Extent) -> Result<(), Refusal> {
        if extent.offset > self.spec.capacity_bytes
            || extent.len > self.spec.capacity_bytes - extent.offset
        {
            return Err(Refusal::OutOfRange);
        }
        if (extent.offset | extent.len) & u64::from(self.spec.logical_block_bytes - 1) != 0 {
            return Err(Refusal::Misaligned);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
