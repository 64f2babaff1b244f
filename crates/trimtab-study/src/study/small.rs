//! A drive and its months of use, scaled down by the same factor.
//!
//! A drive with a thirtieth of the capacity that receives the same bytes per second is
//! overwritten thirty times as fast, so a day becomes 48 minutes. Everything proportional
//! to the capacity shrinks by that factor: bytes written, free extents, TRIM commands and
//! time of a trim, pauses between sessions, and the intervals of policies. Rates and
//! per-command costs stay the same. Bytes, commands and times of the small drive
//! multiplied by the factor are those of the full drive, and a trim finishes before the
//! next one is due in both or in neither. Delays unrelated to an amount do not shrink: a
//! commit every 5 s, an idle second before garbage collection.

use super::problem::StudyError;
use alloc::format;
use trimtab_drive::model;
use trimtab_drive::spec::{DriveSpec, Flash, Thermal};
use trimtab_drive::units::{Bytes, Nanos};
use trimtab_drive::usage::UsageError;
use trimtab_sim::policy::{BatchedSettings, PolicySpec, Schedule};

/// A capacity at which a drive-write takes seconds.
pub const SIZE: Bytes = Bytes(2_000_000_000);
/// Minimum number of superblocks, so that the few under collection carry little weight.
const SUPERBLOCKS_MIN: u64 = 160;
const CACHE_MIN: u64 = 1 << 20;
/// Minimum thermal time constant that a specification may have.
const COOLING_NS_MIN: f64 = 1e6;
const RISE_MC_PER_GB_MAX: f64 = 1e6;
const PAGES_MIN: u32 = 4;

/// A small drive that represents a large one.
#[derive(Debug, Clone, PartialEq)]
pub struct SmallDrive {
    /// The small drive.
    pub spec: DriveSpec,
    /// Capacity of the large drive divided by that of the small one.
    pub factor: f64,
    /// Relative superblock size; below 1 if the small drive would have too few.
    pub block_share: f64,
}

impl SmallDrive {
    /// Scales `full` to about `size`, or to the smallest possible size above it.
    ///
    /// # Errors
    /// The specification cannot be scaled down and is not small already.
    pub fn of(full: &DriveSpec, size: Bytes) -> Result<Self, StudyError> {
        if full.capacity_bytes <= size.0 {
            return Ok(Self { spec: full.clone(), factor: 1.0, block_share: 1.0 });
        }
        let mut smaller = full.clone();
        let block_share = shrink_flash(&mut smaller.flash, full.capacity_bytes, size);
        let larger = |size: &u64| {
            Some(size.saturating_add(size / 4)).filter(|size| *size < full.capacity_bytes)
        };
        let mut error = None;
        for size in core::iter::successors(Some(size.0), larger) {
            match model::sized(smaller.clone(), Some(Bytes(size))) {
                Ok(mut spec) => {
                    let factor = full.capacity_bytes as f64 / spec.capacity_bytes as f64;
                    calendar_faster(&mut spec.flash, full, factor);
                    return Ok(Self { spec, factor, block_share });
                }
                Err(refused) => error = error.or(Some(refused)),
            }
        }
        Err(error
            .unwrap_or_else(|| UsageError::new(format!("{} cannot be made smaller", full.name)))
            .into())
    }

    /// Converts a time of the large drive to the small one.
    pub fn sooner(&self, time: Nanos) -> Nanos {
        Nanos(((time.0 as f64 / self.factor) as u64).max(1))
    }

    /// `policy` with its calendar scaled: hours and days shrink, delays within seconds do
    /// not.
    pub fn faster(&self, policy: &PolicySpec) -> PolicySpec {
        const DAY: Nanos = Nanos::from_secs(86_400);
        const POLL_MIN: Nanos = Nanos::from_millis(100);
        match *policy {
            PolicySpec::Batched(settings) => PolicySpec::Batched(BatchedSettings {
                schedule: match settings.schedule {
                    Schedule::Every(period) => Schedule::Every(self.sooner(period)),
                    // The hour of the day is meaningless when a day lasts minutes.
                    Schedule::Nightly(_) => Schedule::Every(self.sooner(DAY)),
                },
                ..settings
            }),
            PolicySpec::Adaptive(mut settings) => {
                settings.at_most_every = self.sooner(settings.at_most_every);
                settings.at_least_every = self.sooner(settings.at_least_every);
                settings.poll = self.sooner(settings.poll).max(POLL_MIN.min(settings.poll));
                PolicySpec::Adaptive(settings)
            }
            PolicySpec::Idle(mut settings) => {
                settings.at_least_every = self.sooner(settings.at_least_every);
                settings.poll = self.sooner(settings.poll).max(POLL_MIN.min(settings.poll));
                // Rests end as often as on the full drive, with proportionally fewer
                // commands.
                settings.rests_shorter = libm::round(self.factor).max(1.0) as u32;
                PolicySpec::Idle(settings)
            }
            PolicySpec::None | PolicySpec::Online => *policy,
        }
    }
}

/// Makes superblocks smaller if there would be too few at `size`, and scales the related
/// fields. Returns the remaining share of a superblock.
fn shrink_flash(flash: &mut Flash, capacity: u64, size: Bytes) -> f64 {
    let geometry = &flash.geometry;
    let raw = geometry.raw_bytes() as f64 * size.as_f64() / capacity as f64;
    let wanted = raw / SUPERBLOCKS_MIN as f64;
    let pages = geometry.pages_per_block;
    let fewer = (f64::from(pages) * wanted / geometry.superblock_bytes() as f64) as u32;
    if fewer >= pages {
        return 1.0;
    }
    let share = model::with_pages(flash, fewer.max(PAGES_MIN.min(pages)));
    // The buffer keeps its ratio to the superblocks but still holds one write for all
    // dies.
    flash.write_cache.bytes = ((flash.write_cache.bytes as f64 * share) as u64)
        .max(CACHE_MIN.min(flash.write_cache.bytes));
    share
}

fn calendar_faster(flash: &mut Flash, full: &DriveSpec, factor: f64) {
    if let Some(thermal) = &mut flash.thermal {
        heat_sooner(thermal, factor);
    }
    // The small drive earns proportionally less in proportionally less time.
    if let (Some(life), Some(of_full)) = (&mut flash.life_throttle, &full.flash.life_throttle) {
        life.earned_bytes_per_s = of_full.earned_bytes_per_s;
    }
}

/// Scales heating and cooling. The bytes that heat the drive arrive sooner by `factor`,
/// so it reaches the same temperatures at the same rates in less time.
fn heat_sooner(thermal: &mut Thermal, factor: f64) {
    let factor = factor
        .min(thermal.cooling_ns as f64 / COOLING_NS_MIN)
        .min(RISE_MC_PER_GB_MAX / f64::from(thermal.rise_mc_per_gb.max(1)));
    thermal.cooling_ns = (thermal.cooling_ns as f64 / factor) as u64;
    thermal.rise_mc_per_gb = (f64::from(thermal.rise_mc_per_gb) * factor) as u32;
}

#[cfg(test)]
mod tests {
    use super::*;
    use trimtab_drive::shipped::{drive, drives};

    #[test]
    fn shipped_drive_scales_down_and_keeps_fixed_fields() {
        for drive in drives() {
            let (name, full) = (&drive.spec.name, drive.spec.clone());
            let small = SmallDrive::of(&full, SIZE).unwrap();
            assert!(
                small.spec.capacity_bytes < 8_000_000_000,
                "{name}: {}",
                small.spec.capacity_bytes
            );
            let (a, b) = (&full.flash, &small.spec.flash);
            let (whole, spare) = (a.geometry.raw_bytes() as f64, full.capacity_bytes as f64);
            let ratio =
                b.geometry.raw_bytes() as f64 / small.spec.capacity_bytes as f64 / (whole / spare);
            assert!((0.995..1.03).contains(&ratio), "{name}: spare space {ratio}");
            let superblocks = b.geometry.superblocks();
            assert!(superblocks >= SUPERBLOCKS_MIN, "{name}: {superblocks}");
            // The erase time per byte stays the same.
            let erase = |flash: &Flash| {
                flash.nand.erase_ns as f64 / f64::from(flash.geometry.pages_per_block)
            };
            assert!((erase(b) / erase(a) - 1.0).abs() < 0.01, "{name}");
        }
    }

    /// Newton's law of cooling at a constant write rate: final temperature and time
    /// constant.
    #[test]
    fn small_drive_heats_up_proportionally_sooner() {
        let full = drive("nvme-tlc-500gb").spec;
        let small = SmallDrive::of(&full, SIZE).unwrap();
        let thermal = |spec: &DriveSpec| spec.flash.thermal.clone().unwrap();
        let (large, little) = (thermal(&full), thermal(&small.spec));
        let goes_to = |thermal: &Thermal, gb_per_s: f64| {
            f64::from(thermal.ambient_mc)
                + f64::from(thermal.rise_mc_per_gb) * gb_per_s * thermal.cooling_ns as f64 / 1e9
        };
        for gb_per_s in [0.1, 0.9, 3.5] {
            let (a, b) = (goes_to(&large, gb_per_s), goes_to(&little, gb_per_s));
            assert!((a / b - 1.0).abs() < 1e-3, "{a} {b} at {gb_per_s} GB/s");
        }
        assert!(
            (large.cooling_ns as f64 / little.cooling_ns as f64 / small.factor - 1.0).abs() < 1e-3
        );
        assert_eq!(
            (large.throttle_mc, large.resume_mc, large.ambient_mc),
            (little.throttle_mc, little.resume_mc, little.ambient_mc)
        );
    }

    /// The cost of folding depends on the SLC share of a block's pages, which must match.
    #[test]
    fn small_drive_keeps_slc_share_of_blocks() {
        for name in ["sata-tlc-500gb", "nvme-tlc-500gb", "nvme-qlc-dramless-500gb"] {
            let full = drive(name).spec;
            let share = |spec: &DriveSpec| {
                let geometry = &spec.flash.geometry;
                f64::from(geometry.pages_per_block)
                    / f64::from(geometry.pages_per_block / u32::from(geometry.bits_per_cell))
            };
            let (large, small) = (share(&full), share(&SmallDrive::of(&full, SIZE).unwrap().spec));
            assert!((small / large - 1.0).abs() < 0.01, "{name}: {small} of {large}");
        }
    }

    #[test]
    fn calendar_scales_and_seconds_do_not() {
        let spec = drive("ocz-vertex-le-100gb").spec;
        let small = SmallDrive { factor: 100.0, ..SmallDrive::of(&spec, SIZE).unwrap() };
        let policy = |text: &str| text.parse::<PolicySpec>().unwrap();
        assert_eq!(small.faster(&policy("batched:every=100h")), policy("batched:every=1h"));
        let PolicySpec::Idle(idle) = small.faster(&policy("idle")) else { panic!() };
        assert_eq!(
            (idle.at_least_every, idle.poll, idle.patience),
            (Nanos::from_secs(864), Nanos::from_millis(100), Nanos::from_secs(60))
        );
        assert_eq!((idle.met_per_mille, idle.rests_shorter), (5, 100));
    }
}
