//! The [`Model`] trait: a modelled SSD with state and counters.

use super::spec::{CAPACITY_MAX, SpecError};
use crate::spec::{DriveSpec, Flash, Geometry, SlcSize, Thermal};
use crate::ssd::Ssd;
use crate::units::{Bytes, Nanos};
use crate::usage::UsageError;
use crate::{Device, Extent};
use alloc::borrow::ToOwned as _;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Resizes `spec` to `size`. Over-provisioning, SLC cache, mapping cache and the
/// endurance-throttle credit scale in proportion. Channels, dies and the write cache
/// determine speed and stay unchanged. Superblocks shrink if there would be too few of
/// them.
///
/// # Errors
/// If no drive of this size is possible; the hint names the nearest possible sizes.
pub fn sized(spec: DriveSpec, size: Option<Bytes>) -> Result<DriveSpec, UsageError> {
    let Some(size) = size else { return Ok(spec) };
    possible(&spec, size).map_err(|problem| {
        let nearest =
            |larger| Some(three_digits_of(nearest_possible(&spec, size, larger)?, larger));
        // The size in the problem is rounded to blocks.
        let error = UsageError::new(match problem.field {
            "capacity_bytes" => format!("a size of {size} is not possible"),
            _ => format!("a size of {size} is not possible: {problem}"),
        });
        match (nearest(false), nearest(true)) {
            (Some(smaller), Some(larger)) => {
                error.hint(format!("{smaller} and {larger} are possible for this drive"))
            }
            (Some(size), None) | (None, Some(size)) => {
                error.hint(format!("{size} is possible for this drive"))
            }
            (None, None) => error,
        }
    })
}

/// A size for an argument, rounded up or down: 13.7TB.
fn three_digits_of(Bytes(size): Bytes, up: bool) -> String {
    let unit = 10_u64.pow(size.max(1).ilog10().saturating_sub(2));
    let rounded = Bytes(if up { size.div_ceil(unit) } else { size / unit } * unit);
    format!("{rounded}").replace([' ', ','], "")
}

/// An SSD `spec` with erase blocks of `pages` pages and proportionally less capacity. The
/// number of superblocks, the share of spare space and all rates stay, so the steady
/// state of a large drive needs few writes.
///
/// # Errors
/// If the result is invalid.
pub fn with_short_blocks(spec: &DriveSpec, pages: u32) -> Result<DriveSpec, SpecError> {
    let mut small = spec.clone();
    let flash = &mut small.flash;
    let unit = flash.ftl.mapping_unit_bytes.max(u64::from(spec.logical_block_bytes));
    let whole = u128::from(flash.geometry.pages_per_block.max(1));
    let shrunk = |value: u64| {
        u64::try_from(u128::from(value) * u128::from(pages) / whole).unwrap_or(u64::MAX)
    };
    small.capacity_bytes = shrunk(spec.capacity_bytes) / unit * unit;
    flash.nand.erase_ns = shrunk(flash.nand.erase_ns);
    flash.ftl.gc.step_ns =
        u32::try_from(shrunk(u64::from(flash.ftl.gc.step_ns))).unwrap_or(u32::MAX);
    flash.geometry.pages_per_block = pages;
    small.validate()?;
    Ok(small)
}

/// `spec` at `size`, with the largest superblocks that make it valid.
fn possible(spec: &DriveSpec, size: Bytes) -> Result<DriveSpec, SpecError> {
    let as_is = scaled(spec.clone(), size);
    let Err(problem) = as_is.validate() else { return Ok(as_is) };
    let smaller = smaller_superblocks(spec).map(|spec| scaled(spec, size));
    smaller.into_iter().find(|spec| spec.validate().is_ok()).ok_or(problem)
}

/// Nearest size in whole MiB at which `spec` is valid, searched in steps of 1/32 of the
/// size.
fn nearest_possible(spec: &DriveSpec, Bytes(size): Bytes, larger: bool) -> Option<Bytes> {
    const MIB: u64 = 1 << 20;
    const STEP_SHARE: u64 = 32;
    let start = Some(size.min(CAPACITY_MAX)).filter(|start| !larger || *start == size);
    let next = |size: &u64| {
        let step = (size / STEP_SHARE).max(MIB);
        if larger {
            size.checked_add(step).filter(|size| *size <= CAPACITY_MAX)
        } else {
            size.checked_sub(step).filter(|size| *size > 0)
        }
    };
    let whole = |size: u64| Bytes(if larger { size.div_ceil(MIB) } else { size / MIB } * MIB);
    core::iter::successors(start, next)
        .map(whole)
        .find(|size| size.0 > 0 && possible(spec, *size).is_ok())
}

/// `spec` with superblocks of 1/2, 1/4, ... the size and the same capacity.
pub fn smaller_superblocks(spec: &DriveSpec) -> impl Iterator<Item = DriveSpec> {
    let pages = spec.flash.geometry.pages_per_block;
    let fewer = core::iter::successors(Some(pages / 2), |pages| Some(pages / 2))
        .take_while(|pages| *pages > 0);
    fewer.map(|pages| {
        let mut spec = spec.clone();
        with_pages(&mut spec.flash, pages);
        spec
    })
}

/// Sets about `pages` pages per block and raises the number of blocks per plane to
/// compensate. Returns the new block size as a fraction of the old one.
pub fn with_pages(flash: &mut Flash, pages: u32) -> f64 {
    let geometry = &mut flash.geometry;
    let before = geometry.pages_per_block;
    // SLC mode needs a multiple of `bits` pages: 26 TLC pages would leave only 8, 512
    // leave 170.
    let bits = if flash.slc_cache.is_some() { u32::from(geometry.bits_per_cell.max(1)) } else { 1 };
    geometry.pages_per_block = (pages / bits * bits).clamp(bits.min(before), before);
    let (left, whole) = (u64::from(geometry.pages_per_block), u64::from(before));
    geometry.blocks_per_plane =
        u32::try_from((u64::from(geometry.blocks_per_plane) * whole).div_ceil(left))
            .unwrap_or(u32::MAX);
    // Keep the erase time per page constant.
    flash.nand.erase_ns =
        (u128::from(flash.nand.erase_ns) * u128::from(left) / u128::from(whole)) as u64;
    left as f64 / whole as f64
}

/// Over-provisioning (T - U) / U of a geometry, in per mille, rounded up.
pub fn over_provisioning_permille(geometry: &Geometry, capacity_bytes: u64) -> u32 {
    let permille = (geometry.raw_bytes() * 1000)
        .div_ceil(u128::from(capacity_bytes.max(1)))
        .saturating_sub(1000);
    u32::try_from(permille).unwrap_or(u32::MAX)
}

/// `spec` scaled to another capacity as in [`sized`], with the superblock size unchanged.
/// The result may have too few superblocks to be valid.
pub fn scaled(mut spec: DriveSpec, Bytes(size): Bytes) -> DriveSpec {
    let block = u64::from(spec.logical_block_bytes);
    let capacity = size / block * block;
    let flash = &mut spec.flash;
    let permille = over_provisioning_permille(&flash.geometry, spec.capacity_bytes);
    flash.geometry = flash.geometry.clone().with_over_provisioning(capacity, permille);
    let whole = u128::from(spec.capacity_bytes.max(1));
    let share = |bytes: u64| {
        (u128::from(bytes) * u128::from(capacity) / whole).min(u128::from(u64::MAX)) as u64
    };
    if let Some(slc) = &mut flash.slc_cache {
        slc.size = match slc.size {
            SlcSize::Fixed { bytes } => SlcSize::Fixed { bytes: share(bytes) },
            SlcSize::Dynamic { bytes_min, bytes_max } => {
                SlcSize::Dynamic { bytes_min: share(bytes_min), bytes_max: share(bytes_max) }
            }
        };
    }
    if let Some(bytes) = &mut flash.ftl.mapping_cache_bytes {
        *bytes = share(*bytes).max(flash.geometry.page_bytes);
    }
    if let Some(life) = &mut flash.life_throttle {
        (life.credit_bytes, life.earned_bytes_per_s) =
            (share(life.credit_bytes).max(1), share(life.earned_bytes_per_s));
    }
    spec.capacity_bytes = capacity;
    spec
}

/// Creates a new drive from `spec`.
pub fn build(spec: &DriveSpec, seed: u64) -> Result<Box<dyn Model>, SpecError> {
    Ok(Box::new(Ssd::new(spec, seed)?))
}

/// A modelled drive with counters and power cuts.
pub trait Model: Device + Send {
    /// All counters and the current occupancy of the medium, by name.
    fn counters(&self) -> BTreeMap<String, u64>;

    /// Bytes written by the host, and bytes written to the medium, since the drive was
    /// new.
    fn written(&self) -> (u64, u64);

    /// Time after `now` that the medium stays busy with already counted work; zero if
    /// unknown.
    fn backlog(&self, _now: Nanos) -> Nanos {
        Nanos::ZERO
    }

    /// Thermal specification and temperature in 0.001 degrees Celsius; `None` if not
    /// modelled.
    fn heat(&self) -> Option<(&Thermal, i32)> {
        None
    }

    /// Current state that may slow the drive down later; default if not modelled.
    fn strain(&self) -> ThrottleState {
        ThrottleState::default()
    }

    /// Enables durability tracking. Call it before the first write if power cuts may
    /// follow.
    fn expect_power_cuts(&mut self) {}

    /// Independent copy of the drive in the same state.
    fn boxed_clone(&self) -> Box<dyn Model>;

    /// Cuts power at `now`. Returns the ranges whose latest content is lost.
    fn power_cut(&mut self, now: Nanos) -> Vec<Extent>;
}

/// State that may change a drive's speed later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThrottleState {
    /// Total time throttled so far, in nanoseconds.
    pub throttled_ns: u64,
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

/// Reason why a measured rate will not last.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TransientRateReason {
    /// At this load the drive will heat up to `heads_for_c` and throttle at
    /// `throttles_c`.
    Heat {
        /// Equilibrium temperature in degrees Celsius.
        heads_for_c: f64,
        /// Throttling temperature in degrees Celsius.
        throttles_c: f64,
    },
    /// The endurance-throttle credit is shrinking.
    Life {
        /// Remaining bytes that may be written to flash before throttling.
        credit_bytes: u64,
    },
    /// The drive is throttled, but will cool down or regain its credit.
    Resumes,
}

impl ThrottleState {
    /// Predicts a speed change of `drive` under continued load, from the `took_ns`
    /// between `from` and `self`. Returns `None` for an interval that was only partly
    /// throttled.
    pub fn unlasting(
        &self,
        drive: &dyn Model,
        from: &Self,
        took_ns: u64,
    ) -> Option<TransientRateReason> {
        self.unlasting_heat(drive, from, took_ns).or_else(|| self.unlasting_life(from))
    }

    fn unlasting_heat(
        &self,
        drive: &dyn Model,
        from: &Self,
        took_ns: u64,
    ) -> Option<TransientRateReason> {
        let (thermal, _) = drive.heat()?;
        let heads_for =
            thermal.heads_for_mc(from.temperature_mc?, self.temperature_mc?, took_ns)?;
        let throttled = self.throttled_ns - from.throttled_ns;
        let (throttles, resumes) = (f64::from(thermal.throttle_mc), f64::from(thermal.resume_mc));
        match (from.throttled_by_heat, self.throttled_by_heat) {
            (false, false)
                if heads_for >= throttles && (throttled == 0 || self.throttled_for_life) =>
            {
                Some(TransientRateReason::Heat {
                    heads_for_c: heads_for / 1e3,
                    throttles_c: throttles / 1e3,
                })
            }
            // Throttled throughout, allowing for the last step, which is not counted yet.
            (true, true) if heads_for < resumes && throttled >= took_ns / 10 * 9 => {
                Some(TransientRateReason::Resumes)
            }
            _ => None,
        }
    }

    fn unlasting_life(&self, from: &Self) -> Option<TransientRateReason> {
        let (before, credit_bytes) = (from.life_credit_bytes?, self.life_credit_bytes?);
        match (from.throttled_for_life, self.throttled_for_life) {
            (false, false) if credit_bytes < before => {
                Some(TransientRateReason::Life { credit_bytes })
            }
            (true, true) if credit_bytes > before => Some(TransientRateReason::Resumes),
            _ => None,
        }
    }
}

impl Clone for Box<dyn Model> {
    fn clone(&self) -> Self {
        (**self).boxed_clone()
    }
}

fn named(counters: impl IntoIterator<Item = (&'static str, u64)>) -> BTreeMap<String, u64> {
    counters.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

impl Model for Ssd {
    fn counters(&self) -> BTreeMap<String, u64> {
        let mut all = named(self.counters().fields());
        let now = self.occupancy();
        let (unit, slot) = (self.layout().unit_bytes, self.layout().slot_bytes);
        let mut erases = self.erase_counts().to_vec();
        erases.sort_unstable();
        // Erase count at a percentile of the superblocks.
        let erases_at = |percent: usize| {
            u64::from(
                erases.get((erases.len().saturating_sub(1)) * percent / 100).copied().unwrap_or(0),
            )
        };
        let counted = self.counters();
        all.extend(named([
            ("now_mapped_bytes", now.mapped_units * unit),
            ("now_trimmed_bytes", now.trimmed_units * unit),
            ("now_unwritten_bytes", now.unwritten_units * unit),
            ("now_stale_bytes", now.stale_slots * slot),
            ("now_free_bytes", now.free_slots * slot),
            ("now_free_superblocks", now.free_superblocks.into()),
            ("now_slc_superblocks", now.slc_superblocks.into()),
            ("now_worn_out_superblocks", now.worn_out_superblocks.into()),
            ("now_read_only", now.read_only.into()),
            ("now_throttled", now.throttled().into()),
            ("erases_of_a_superblock_min", erases_at(0)),
            ("erases_of_a_superblock_p10", erases_at(10)),
            ("erases_of_a_superblock_median", erases_at(50)),
            ("erases_of_a_superblock_p90", erases_at(90)),
            ("erases_of_a_superblock_max", erases_at(100)),
            ("trim_effective_bytes", counted.trim_effective_units * unit),
            ("trim_repeated_bytes", counted.trim_repeated_units * unit),
            ("nand_written_bytes", self.nand_written().0),
        ]));
        all
    }

    fn written(&self) -> (u64, u64) {
        (self.counters().host_written_bytes, self.nand_written().0)
    }

    fn backlog(&self, now: Nanos) -> Nanos {
        self.backlog(now)
    }

    fn heat(&self) -> Option<(&Thermal, i32)> {
        self.spec().flash.thermal.as_ref().zip(self.occupancy().temperature_mc)
    }

    fn strain(&self) -> ThrottleState {
        let now = self.occupancy();
        ThrottleState {
            throttled_ns: self.counters().throttled_ns,
            temperature_mc: now.temperature_mc,
            throttled_by_heat: now.throttled_by_heat,
            life_credit_bytes: now.life_credit_bytes,
            throttled_for_life: now.throttled_for_life,
        }
    }

    fn boxed_clone(&self) -> Box<dyn Model> {
        Box::new(self.clone())
    }

    fn expect_power_cuts(&mut self) {
        self.track_durability();
    }

    fn power_cut(&mut self, now: Nanos) -> Vec<Extent> {
        // A range may have been written several times; only the fate of the last write
        // counts.
        let mut last: BTreeMap<Extent, bool> = BTreeMap::new();
        for fate in self.power_cut(now) {
            last.insert(fate.extent, fate.survives);
        }
        last.into_iter().filter(|(_, survives)| !survives).map(|(extent, _)| extent).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Command;
    use crate::data::DataClass;
    use crate::shipped;
    use crate::spec::file::parse;
    use alloc::string::ToString as _;

    const MIB: u64 = 1 << 20;

    #[test]
    fn sized_supports_shipped_drives_from_256_mib() {
        for text in shipped::files() {
            let full = parse(text).unwrap().spec;
            let sizes =
                [256, 257, 300, 333, 512, 1000, 1024, 1500, 2048, 3000, 4096, 8192, 16_384, 65_536]
                    .map(|mib| mib * MIB);
            for size in sizes.into_iter().chain([
                1_000_000_000,
                2_000_000_000,
                full.capacity_bytes,
                2 * full.capacity_bytes,
            ]) {
                let spec = sized(full.clone(), Some(Bytes(size)))
                    .unwrap_or_else(|error| panic!("{} at {size}: {error:?}", full.name));
                assert_eq!(
                    spec.capacity_bytes,
                    size / u64::from(full.logical_block_bytes)
                        * u64::from(full.logical_block_bytes)
                );
                let (flash, of_full) = (&spec.flash, &full.flash);
                assert_eq!(spec, sized(full.clone(), Some(Bytes(size))).unwrap());
                let spare = |geometry: &Geometry, capacity: u64| {
                    geometry.raw_bytes() as f64 / capacity as f64
                };
                let (small, large) = (
                    spare(&flash.geometry, spec.capacity_bytes),
                    spare(&of_full.geometry, full.capacity_bytes),
                );
                assert!(small >= large - 0.001, "{} at {size}: {small} of {large} raw", full.name);
                assert_eq!(flash.geometry.dies(), of_full.geometry.dies(), "{}", full.name);
            }
        }
    }

    #[test]
    fn sized_refuses_sizes_up_to_the_largest_number() {
        for drive in shipped::drives() {
            for size in [u64::MAX, u64::MAX - 4095, 1 << 63, CAPACITY_MAX + 65_536] {
                let error = sized(drive.spec.clone(), Some(Bytes(size))).unwrap_err().to_string();
                let largest = error.rsplit_once("; ").unwrap().1;
                let largest = largest.split(' ').next().unwrap().parse::<Bytes>().unwrap();
                sized(drive.spec.clone(), Some(largest)).unwrap();
            }
        }
    }

    #[test]
    fn small_shipped_drives_accept_sustained_writes() {
        for drive in shipped::drives() {
            let spec = sized(drive.spec, Some(Bytes(256 * MIB))).unwrap();
            let flash = &spec.flash;
            let mut ssd = Ssd::new(&spec, 1).unwrap();
            let (unit, mut now) = (flash.ftl.mapping_unit_bytes.max(1 << 16), Nanos::ZERO);
            let mut rng = crate::rng::Stream::new(1, "small");
            for nth in 0..12_000 {
                let at = if nth < 4096 {
                    nth * unit
                } else {
                    rng.below(spec.capacity_bytes / unit) * unit
                };
                let extent = Extent { offset: at % spec.capacity_bytes, len: unit };
                let done = ssd.submit(now, &Command::Write(extent, DataClass::Random));
                assert_eq!(done.result, Ok(()), "{} write {nth}", spec.name);
                now = done.done;
            }
            ssd.check_invariants().unwrap_or_else(|broken| panic!("{}: {broken}", spec.name));
        }
    }

    #[test]
    fn sized_impossible_size_hints_nearest_sizes() {
        let spec = shipped::drive("crucial-m4-128gb").spec;
        let refused = |size: u64| {
            sized(spec.clone(), Some(Bytes(size))).unwrap_err().advice().unwrap().to_string()
        };
        for (size, larger) in [(MIB / 2, true), (1 << 49, false)] {
            let hint = refused(size);
            let named: Bytes = hint.split(' ').next().unwrap().parse().unwrap();
            assert!(
                (named.0 > size) == larger && hint.ends_with("B is possible for this drive"),
                "{hint}"
            );
            assert!(!hint.contains("MiB") && sized(spec.clone(), Some(named)).is_ok(), "{hint}");
        }
        let tiny = sized(spec.clone(), Some(Bytes(1))).unwrap_err();
        assert!(tiny.to_string().starts_with("a size of 1 B is not possible; "), "{tiny}");
    }
}
