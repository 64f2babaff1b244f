//! A small drive with a used filesystem and file turnover.

use trimtab_drive::data::DataClass;
use trimtab_drive::model::{Model, build};
use trimtab_drive::rng::Stream;
use trimtab_drive::spec::file::Drive;
use trimtab_drive::units::{Bytes, Nanos};
use trimtab_drive::{Command, Device as _, Extent};
use trimtab_sim::op::Payload;
use trimtab_sim::policy::{PolicySpec, PolicyState};
use trimtab_sim::target::{Clock as _, FileTarget as _, TargetResult};
use trimtab_sim::volume::{Age, BLOCK, Discard, SteeredVolume, Volume, VolumeSpec, WRITTEN_STEP};
use trimtab_study::study::small::SmallDrive;

pub(super) type PeerTarget = SteeredVolume<Box<dyn Model>>;

/// Size of the small drives, if that is valid for the drive.
const SIZE: Bytes = Bytes(1_000_000_000);
const FILL: f64 = 0.6;
/// Length of free extents in blocks.
const EXTENTS: (u64, u64) = (4, 4096);
/// Length of turnover files in blocks.
const FILES: (u64, u64) = (4, 1024);
/// Approximate share of the drive in turnover files.
const FILES_SHARE: f64 = 0.1;
/// Share of the drive in the file that is written at random.
const DATABASE_SHARE: f64 = 0.08;
pub(super) const DATABASE: &str = "database";
pub(super) const MAILS: u64 = 500;
/// Interval at which one file is replaced.
const REPLACE_INTERVAL: Nanos = Nanos::from_millis(100);
const SEED: u64 = 1;

/// Draws a length between `least` and `most`, with equal total bytes per octave.
pub(super) fn length(rng: &mut Stream, (least, most): (u64, u64)) -> u64 {
    let (least, most) = (least as f64, most as f64);
    (least / (1.0 - rng.unit() * (1.0 - least / most))) as u64
}

pub(super) const fn fill(len: u64) -> Payload<'static> {
    Payload::Fill { len, class: DataClass::Random }
}

/// Remounts as the policy requests.
fn mount(target: &mut PeerTarget) {
    let wanted = if target.policy().online() { Discard::FreedAndFollowing } else { Discard::Off };
    if target.volume().spec().discard != wanted {
        target.volume_mut().set_discard(wanted);
    }
}

/// State of the foreground load and of the file turnover.
#[derive(Clone)]
pub(super) struct TurnoverState {
    rng: Stream,
    /// Numbers of the turnover files.
    files: Vec<u64>,
    pub(super) mails: Vec<u64>,
    next: u64,
    /// Time of the next file replacement.
    due: Nanos,
    blocks: u64,
}

impl TurnoverState {
    pub(super) const fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn come(&mut self, target: &mut PeerTarget) -> TargetResult {
        let (number, len) = (self.number(), length(&mut self.rng, FILES) * BLOCK);
        self.files.push(number);
        target.create(&format!("files/{number}"), &fill(len))
    }

    fn change(&mut self, target: &mut PeerTarget) -> TargetResult {
        let at = self.rng.below(self.files.len() as u64) as usize;
        let gone = self.files.swap_remove(at);
        target.delete(&format!("files/{gone}"))?;
        self.come(target)
    }

    /// Starts the turnover at `now`.
    pub(super) fn begin(&mut self, now: Nanos) {
        self.due = now + REPLACE_INTERVAL;
    }

    /// Runs file turnover and the policy until `instant`, unless that is past.
    pub(super) fn until(&mut self, target: &mut PeerTarget, instant: Nanos) -> TargetResult {
        while self.due <= instant {
            target.idle_until(self.due);
            mount(target);
            self.change(target)?;
            self.due += REPLACE_INTERVAL;
        }
        target.idle_until(instant);
        mount(target);
        Ok(())
    }

    /// Draws the offset of the next database write.
    pub(super) fn place(&self, rng: &mut Stream) -> u64 {
        rng.below(self.blocks) * BLOCK
    }
}

/// Common initial state for all policies.
pub(super) struct PeerStart {
    pub(super) name: String,
    pub(super) small: SmallDrive,
    pub(super) target: PeerTarget,
    pub(super) work: TurnoverState,
}

impl PeerStart {
    /// Prepares a small `drive`: filled once, then worn by `wear` drive writes without
    /// trims.
    pub(super) fn of(drive: &Drive, wear: f64) -> anyhow::Result<Self> {
        let small = SmallDrive::of(&drive.spec, SIZE)?;
        let mut spec = VolumeSpec::ext4();
        spec.mkfs.discard = false;
        // Scale the dirty limit with the drive.
        spec.writeback.memory = Bytes(128 << 20);
        let volume = Volume::format(build(&small.spec, SEED)?, spec, Nanos::ZERO)?;
        let none = PolicySpec::None.build(&PolicyState::default());
        let mut target = SteeredVolume::new(volume, none, WRITTEN_STEP);
        let blocks = (small.spec.capacity_bytes as f64 * DATABASE_SHARE) as u64 / BLOCK;
        let mut work = TurnoverState {
            rng: Stream::new(SEED, "files"),
            files: Vec::new(),
            mails: Vec::new(),
            next: 0,
            due: Nanos::ZERO,
            blocks,
        };
        work.fill_up(&mut target, &small)?;
        work.wear(&mut target, (small.spec.capacity_bytes as f64 * wear) as u64)?;
        Ok(Self { name: drive.spec.name.clone(), small, target, work })
    }

    /// Time of TRIM commands; `None` if it depends on the units they unmap.
    pub(super) fn trim_ns(&self, commands: u64, ranges: u64) -> Option<u64> {
        let trim = &self.small.spec.flash.trim;
        ((trim.unit_ns, trim.gb_ns) == (0, 0))
            .then(|| commands * trim.command_ns + ranges * trim.range_ns)
    }
}

impl TurnoverState {
    /// Fills the volume with files and with previously written free extents of all
    /// lengths.
    fn fill_up(&mut self, target: &mut PeerTarget, small: &SmallDrive) -> anyhow::Result<()> {
        for dir in ["files", "mail"] {
            target.make_dir(dir)?;
        }
        target.create(DATABASE, &fill(self.blocks * BLOCK))?;
        let files = (small.spec.capacity_bytes as f64 * FILES_SHARE) as u64;
        let before = target.volume().free_space().0;
        while before - target.volume().free_space().0 < files {
            self.come(target)?;
        }
        for _ in 0..MAILS {
            let number = self.number();
            target.create(&format!("mail/{number}"), &fill(BLOCK))?;
            self.mails.push(number);
        }
        target.sync()?;
        let mut rng = Stream::new(SEED, "extents");
        let lengths: Vec<u32> = (0..10_000).map(|_| length(&mut rng, EXTENTS) as u32).collect();
        let age = Age {
            fill: FILL,
            free_extent: Bytes::ZERO,
            class: DataClass::Random,
            write: true,
            seed: SEED,
        };
        target.volume_mut().age_like(&age, &lengths)?;
        target.volume_mut().write_free(1.0, DataClass::Random, SEED);
        Ok(())
    }

    /// Runs random writes and file turnover until the drive has been written `bytes`
    /// more.
    fn wear(&mut self, target: &mut PeerTarget, bytes: u64) -> TargetResult {
        let written = |target: &PeerTarget| target.volume().written().0;
        let (from, mut rng) = (written(target), Stream::new(SEED, "wear"));
        while written(target) - from < bytes {
            self.change(target)?;
            for _ in 0..20 {
                let place = self.place(&mut rng);
                target.volume_mut().overwrite(DATABASE, place, &fill(BLOCK))?;
            }
        }
        target.sync()?;
        let quiet = target.now() + Nanos::from_secs(60);
        target.idle_until(quiet);
        Ok(())
    }
}

/// Share of the free space that a full trim would not unmap.
pub(super) fn known(target: &PeerTarget, now: Nanos) -> anyhow::Result<f64> {
    let volume = target.volume();
    let mut copy = volume.drive().boxed_clone();
    let (mut at, mut all) = (0, 0);
    for needed in volume.needed().chain([Extent { offset: volume.size().0, len: 0 }]) {
        let free = Extent { offset: at, len: needed.offset - at };
        if free.len > 0 {
            copy.submit(now, &Command::trim(&[free])).result?;
        }
        (at, all) = (needed.offset + needed.len, all + free.len);
    }
    let unmapped =
        copy.counters()["trim_effective_bytes"] - volume.drive().counters()["trim_effective_bytes"];
    Ok(1.0 - unmapped as f64 / all as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_have_equal_bytes_per_octave() {
        let mut rng = Stream::new(1, "lengths");
        let mut octaves = [0_u64; 10];
        for _ in 0..100_000 {
            let blocks = length(&mut rng, EXTENTS);
            octaves[(blocks.ilog2() - EXTENTS.0.ilog2()) as usize] += blocks;
        }
        // Rounding to whole blocks shortens the shortest lengths, and the longest are
        // rare.
        let all = octaves.iter().sum::<u64>() as f64;
        assert!(
            octaves.iter().all(|octave| (0.08..0.12).contains(&(*octave as f64 / all))),
            "{octaves:?}"
        );
    }

    #[test]
    fn used_volume_has_stated_fill_and_drive_is_full() {
        let mut used =
            PeerStart::of(&trimtab_drive::shipped::drive("corsair-force-3-120gb"), 0.05).unwrap();
        let now = used.target.now();
        let volume = used.target.volume();
        let full = 1.0 - volume.free_space().as_f64() / volume.size().as_f64();
        assert!((full - FILL).abs() < 0.02, "{full}");
        let known = known(&used.target, now).unwrap();
        assert!((0.0..0.05).contains(&known), "{known}");
        let extents = volume.free_extents();
        let large = extents
            .iter()
            .filter(|blocks| **blocks >= 256)
            .map(|blocks| f64::from(*blocks))
            .sum::<f64>();
        let all = extents.iter().map(|blocks| f64::from(*blocks)).sum::<f64>();
        assert!(
            extents.len() > 1000 && (0.2..0.7).contains(&(large / all)),
            "{} extents, {:.2} in large ones",
            extents.len(),
            large / all
        );
    }
}
