//! Free space of a filesystem in use: the free extents that churn leaves behind.

use super::problem::StudyError;
use super::small;
use alloc::vec::Vec;
use trimtab_drive::units::{Bytes, Nanos};
use trimtab_drive::{Command, Completion, Device};
use trimtab_sim::target::FileTarget as _;
use trimtab_sim::volume::{BLOCK, Volume, VolumeSpec};
use trimtab_sim::workload::churn::{Churn, Settings};
use trimtab_sim::workload::{FileStep, FileWorkload as _};

/// Sessions per drive-write.
pub const SESSIONS_PER_DRIVE_WRITE: u64 = 100;

/// Drive-writes of churn before the free space is recorded.
const DRIVE_WRITES: u64 = 2;

/// Lengths of the free extents of a filesystem in use, in blocks.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct FreeExtentLengths(Vec<u32>);

/// Short form that still distinguishes values.
impl core::fmt::Debug for FreeExtentLengths {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} free extents of {} on average", self.0.len(), self.mean())
    }
}

/// A device without delays, because file placement does not depend on the drive.
struct InstantDrive(Bytes);

impl Device for InstantDrive {
    fn size(&self) -> Bytes {
        self.0
    }
    fn logical_block(&self) -> u32 {
        512
    }
    fn supports_trim(&self) -> bool {
        false
    }
    fn submit(&mut self, now: Nanos, _command: &Command<'_>) -> Completion {
        Completion { done: now, result: Ok(()) }
    }
    fn idle(&mut self, _until: Nanos) {}
}

/// Returns the layout of a filesystem at a fill level and seed, as
/// [`FreeExtentLengths::by_churn`] does.
pub type LayoutSource<'a> =
    dyn FnMut(&VolumeSpec, f64, u64) -> Result<FreeExtentLengths, StudyError> + 'a;

impl FreeExtentLengths {
    /// Runs the ageing churn on a filesystem like `volume`, filled to `fill`. Empty if
    /// `fill` is 0.
    ///
    /// # Errors
    /// The filesystem cannot be created.
    pub fn by_churn(volume: &VolumeSpec, fill: f64, seed: u64) -> Result<Self, StudyError> {
        if fill <= 0.0 { Ok(Self::default()) } else { Self::at(volume, fill, small::SIZE, seed) }
    }

    fn at(volume: &VolumeSpec, fill: f64, size: Bytes, seed: u64) -> Result<Self, StudyError> {
        let spec = VolumeSpec { start: Bytes::ZERO, size: None, ..volume.clone() };
        let mut volume = Volume::format(InstantDrive(size), spec, Nanos::ZERO)?;
        let kept_free = (volume.size().as_f64() * (1.0 - fill)) as u64;
        let settings = Settings {
            live: Bytes(volume.free_space().0.saturating_sub(kept_free)),
            written: Bytes(size.0 * DRIVE_WRITES),
            session: Bytes(size.0 / SESSIONS_PER_DRIVE_WRITE),
            ..Settings::default()
        };
        let mut churn = Churn::new(settings, seed);
        while let Some(step) = churn.next_step() {
            match step {
                FileStep::Op(op) => volume.execute(&op)?,
                FileStep::Phase(_) | FileStep::NotBefore(_) => {}
            }
        }
        Ok(Self(volume.free_extents()))
    }

    /// The lengths, in blocks.
    pub fn lengths(&self) -> &[u32] {
        &self.0
    }

    /// Their mean.
    pub fn mean(&self) -> Bytes {
        let blocks: u64 = self.0.iter().copied().map(u64::from).sum();
        Bytes(blocks * BLOCK / (self.0.len() as u64).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_extent_length_depends_on_fill_not_size() {
        let of = |fill: f64, gb: u64| {
            FreeExtentLengths::at(&VolumeSpec::ext4(), fill, Bytes(gb * 1_000_000_000), 1).unwrap()
        };
        for fill in [0.6, 0.9] {
            let means: Vec<f64> = [1, 2, 4].map(|gb| of(fill, gb).mean().as_f64()).into();
            let (low, high) = means
                .iter()
                .fold((f64::MAX, 0.0_f64), |(low, high), mean| (low.min(*mean), high.max(*mean)));
            assert!(high < low * 1.6, "{fill}: {means:?}");
        }
        let (emptier, fuller) = (of(0.6, 2), of(0.9, 2));
        assert!(emptier.mean() > fuller.mean(), "{emptier:?} {fuller:?}");
        // The total free space depends only on the fill level.
        let free: u64 = fuller.lengths().iter().copied().map(u64::from).sum::<u64>() * BLOCK;
        assert!((free as f64 / 0.2e9 - 1.0).abs() < 0.1, "{free}");
    }
}
