//! Preconditioning in about one drive write: an order of writes that leaves stale data in
//! every superblock as endless writes of the workload would.
//!
//! Garbage collection of the workload is computed [in the mean](superblocks), by groups of
//! positions that are about equally popular. The order writes the resulting superblocks
//! from the oldest to the youngest. Each write is either the last one to its position, or to
//! a position that a later superblock writes again. Two writes of a position are further
//! apart than the write cache merges overwrites.

mod superblocks;

use super::{Pattern, Synthetic, SyntheticSettings, SyntheticSettingsError, Zipf};
use crate::workload::{BlockPhase, BlockWorkload, Limit, WorkloadPlan};
use alloc::borrow::ToOwned as _;
use alloc::boxed::Box;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use superblocks::{GroupLoad, SteadySuperblock};
use trimtab_drive::data::DataClass;
use trimtab_drive::rng::Stream;
use trimtab_drive::spec::layout::SsdLayout;
use trimtab_drive::spec::{DriveSpec, SlcFull, VictimPolicy};
use trimtab_drive::units::{Bytes, Nanos};
use trimtab_drive::{Command, Extent};

/// Groups of ranks per doubling, under Zipf's and Pareto's law.
const GROUPS_PER_DOUBLING: f64 = 4.0;
/// Largest room, in capacities, of positions of unequal popularity, unless collection is
/// FIFO. Above it, write amplification was 6 % off.
const ROOM_MAX: f64 = 1.4;
/// Most repetitions of a draw that the write cache would merge.
const REDRAWS_MAX: u32 = 1000;
/// Share of the capacity written by the workload itself at the end. It takes the erased
/// superblocks and fills the write cache.
pub const SETTLING: f64 = 0.1;

/// Garbage collection of a drive, as far as it determines the steady state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Collection {
    /// Data, valid and stale, that fit before a collection.
    pub room: Bytes,
    /// Superblocks that a collection frees beyond the one that it needs.
    pub more_free: u32,
    /// Size of a superblock.
    pub superblock: Bytes,
    /// Mapping unit; operations must be multiples of it.
    pub unit: Bytes,
    /// Newest data in which the write cache replaces an overwritten mapping unit.
    pub merged: Bytes,
    /// Victim policy.
    pub victims: VictimPolicy,
    /// True if relocated data go to superblocks of their own.
    pub separate: bool,
}

impl Collection {
    /// The usual collection on a target of `size` with `spare` percent of spare space.
    #[must_use]
    pub fn with_spare(size: Bytes, spare: f64) -> Self {
        let room = Bytes((size.as_f64() * (1.0 + spare / 100.0)) as u64);
        let superblock = Bytes(room.0 / 1000);
        let victims = VictimPolicy::Greedy;
        let (unit, merged) = (Bytes(1), Bytes::ZERO);
        Self { room, more_free: 0, superblock, unit, merged, victims, separate: false }
    }

    /// The collection of a drive for data of `class`.
    ///
    /// # Errors
    /// The reason why its steady state is unknown: compressed data, or an SLC cache
    /// that writes bypass when it is full, whose data are of unknown age.
    pub fn of(spec: &DriveSpec, class: DataClass) -> Result<Self, &'static str> {
        let flash = &spec.flash;
        let layout = SsdLayout::new(spec, flash).map_err(|_| "its specification is impossible")?;
        let bypassed =
            flash.slc_cache.as_ref().is_some_and(|slc| slc.when_full == SlcFull::WriteDirect);
        if bypassed {
            return Err("it writes past its SLC cache when that is full");
        }
        if flash.compression.is_some() && class != DataClass::Random {
            return Err("it compresses these data");
        }
        let superblock = layout.unit_bytes * u64::from(layout.superblock_slots / layout.unit_slots);
        let merged = u64::from(flash.write_cache.merge_bytes);
        // Groups of dies are written in turn.
        let groups = u64::from(layout.groups);
        Ok(Self {
            room: layout.bytes_before_collection(flash),
            more_free: flash.ftl.gc.free_high - flash.ftl.gc.free_low,
            superblock: Bytes(superblock * groups),
            unit: Bytes(layout.unit_bytes),
            merged: Bytes(if flash.compression.is_some() { 0 } else { merged * groups }),
            victims: flash.ftl.victim,
            separate: flash.ftl.streams.separate_gc,
        })
    }
}

/// Writes that leave a drive in the steady state of a workload.
#[derive(Clone, Debug)]
pub struct Preconditioning {
    workload: Synthetic,
    groups: Vec<Group>,
    /// Superblocks to be written, the next one last.
    superblocks: Vec<SteadySuperblock>,
    /// Writes until the end of the present superblock, and of the order.
    in_superblock: u64,
    left: u64,
    /// Operations of the workload after the order.
    settling: u64,
    draws: Stream,
    /// The newest ranks, in which the write cache would replace an overwritten one.
    newest: NewestRanks,
    started: bool,
}

/// The last ranks written, in a ring.
#[derive(Clone, Debug)]
struct NewestRanks {
    ranks: Vec<u64>,
    next: usize,
}

impl NewestRanks {
    fn new(count: usize) -> Self {
        Self { ranks: vec![u64::MAX; count], next: 0 }
    }

    /// Adds `rank`; false if it is there already.
    fn add(&mut self, rank: u64) -> bool {
        let new = !self.ranks.contains(&rank);
        if new && !self.ranks.is_empty() {
            self.ranks[self.next] = rank;
            self.next = (self.next + 1) % self.ranks.len();
        }
        new
    }
}

/// Positions with the same share of the writes: consecutive ranks.
#[derive(Clone, Debug)]
struct Group {
    first: u64,
    places: u64,
    /// Number of positions that have been written for the last time.
    done: u64,
    /// In the present superblock: running sum of the draws, and the part that survives.
    share_end: f64,
    survives: f64,
    /// Survivors due, minus those written.
    owed: f64,
}

impl Group {
    /// True if the next write of the group is the last one to its position.
    fn survives(&mut self) -> bool {
        self.owed += self.survives;
        let survives = self.owed >= 1.0;
        self.owed -= f64::from(u8::from(survives));
        survives
    }
}

impl Preconditioning {
    /// Preconditions for the workload of `settings` under `seed` a drive whose first
    /// `mapped` bytes will hold data.
    ///
    /// # Errors
    /// The settings are invalid, or their steady state is unknown.
    pub fn new(
        settings: SyntheticSettings,
        mapped: Bytes,
        collection: &Collection,
        seed: u64,
    ) -> Result<Self, SyntheticSettingsError> {
        let refused = |text: &str| {
            SyntheticSettingsError(format!("the steady state of this workload is unknown: {text}"))
        };
        if settings.sizes.len() != 1 || settings.mix.trim_percent > 0 || settings.offset > 0 {
            return Err(refused("it must have one operation size, no trims and no offset"));
        }
        let (pattern, mut workload) = (settings.pattern, Synthetic::new(settings, seed)?);
        // The same positions are popular, but the draws differ.
        workload.addresses = Stream::new(seed, "synthetic.settling");
        let Some(mut parts) = parts(pattern, workload.places) else {
            return Err(refused("it must be random, hot-cold or zipf"));
        };
        if !workload.grain.is_multiple_of(collection.unit.0) {
            return Err(refused("operations must be multiples of the drive's mapping unit"));
        }
        let unused = (mapped.0 / workload.grain).saturating_sub(workload.places);
        let places = workload.places + unused;
        if unused > 0 {
            parts.push((unused, 0.0));
        }
        let slots = collection.room.0 / workload.grain;
        if slots <= places {
            return Err(refused("the drive has no spare space"));
        }
        let unknown = match collection.victims {
            VictimPolicy::Greedy | VictimPolicy::Fifo => false,
            // In one log, write amplification was 6 % off.
            VictimPolicy::CostBenefit => parts.len() > 1 && !collection.separate,
            VictimPolicy::DChoices(_) | VictimPolicy::Random => true,
        };
        if unknown {
            return Err(refused(
                "garbage collection must be greedy or FIFO, or cost-benefit with relocated \
                    data apart or equally popular positions",
            ));
        }
        let apart = collection.separate && collection.victims != VictimPolicy::Fifo;
        if apart && parts.len() > 1 && slots as f64 > ROOM_MAX * places as f64 {
            return Err(refused("with this much spare space it must be random"));
        }
        // Only writes of one unit are merged.
        let newest = if workload.grain == collection.unit.0 {
            collection.merged.0 / workload.grain
        } else {
            0
        };
        if 2 * newest > places {
            return Err(refused("most of its data would stay in the write cache"));
        }
        let share = |(places, writes): &(u64, f64)| GroupLoad {
            places: *places as f64,
            rate: writes / *places as f64,
        };
        let load: Vec<GroupLoad> = parts.iter().map(share).collect();
        let superblock = (collection.superblock.0 / workload.grain).max(1);
        let mut superblocks = superblocks::steady(&load, collection, (slots, superblock, newest));
        superblocks.reverse();
        let mut next = 0;
        let group = |(places, _): &(u64, f64)| {
            next += places;
            Group {
                first: next - places,
                places: *places,
                done: 0,
                share_end: 0.0,
                survives: 0.0,
                owed: 0.0,
            }
        };
        let mut order = Self {
            draws: Stream::new(seed, "synthetic.steady"),
            newest: NewestRanks::new(newest as usize),
            groups: parts.iter().map(group).collect(),
            left: superblocks.iter().map(SteadySuperblock::len).sum(),
            superblocks,
            in_superblock: 0,
            settling: (places as f64 * SETTLING) as u64,
            started: false,
            workload,
        };
        order.begin_superblock();
        Ok(order)
    }

    /// Begins the oldest superblock that is left.
    fn begin_superblock(&mut self) {
        let Some(superblock) = self.superblocks.pop() else { return };
        self.in_superblock = superblock.len();
        let all: f64 = superblock.written.iter().sum();
        let (newest, mut share_end) = (self.newest.ranks.len() as f64, 0.0);
        let slots = superblock.written.iter().zip(&superblock.valid);
        for (group, (written, valid)) in self.groups.iter_mut().zip(slots) {
            // Drawn more often, as draws of the newest ranks are repeated.
            let share = written / all;
            share_end += share / (1.0 - newest * share / group.places as f64).max(0.1);
            group.share_end = share_end;
            group.survives = if *written > 0.0 { valid / written } else { 0.0 };
        }
    }

    /// A rank as the present superblock holds them.
    fn draw(&mut self) -> u64 {
        let last = self.groups.len() - 1;
        let draw = self.draws.unit() * self.groups[last].share_end;
        let at = self.groups.partition_point(|group| group.share_end <= draw).min(last);
        let group = &mut self.groups[at];
        let due = group.places - group.done;
        let rank = if due == 0 {
            self.draws.below(group.places)
        } else if group.survives() {
            group.done += 1;
            group.done - 1
        } else {
            group.done + self.draws.below(due)
        };
        group.first + rank
    }

    /// The rank of the next position.
    fn rank(&mut self) -> Option<u64> {
        let Some(left) = self.left.checked_sub(1) else {
            // Chance has left a few.
            let group = self.groups.iter_mut().find(|group| group.done < group.places)?;
            group.done += 1;
            return Some(group.first + group.done - 1);
        };
        self.left = left;
        let mut rank = self.draw();
        for _ in 0..REDRAWS_MAX {
            if self.newest.add(rank) {
                break;
            }
            rank = self.draw();
        }
        self.in_superblock -= 1;
        if self.in_superblock == 0 {
            self.begin_superblock();
        }
        Some(rank)
    }
}

impl BlockWorkload for Preconditioning {
    fn plan(&self) -> WorkloadPlan {
        let ops = self.left + self.settling;
        let places = self.groups.iter().map(|group| group.places).sum::<u64>();
        let [written, space] = [ops, places].map(|count| Bytes(count * self.workload.grain));
        WorkloadPlan { written, space, ops: Some(ops) }
    }

    fn next_phase(&mut self) -> Option<BlockPhase> {
        (!core::mem::replace(&mut self.started, true)).then(|| BlockPhase {
            name: "precondition".to_owned(),
            queue_depth: self.workload.settings.queue_depth,
            limit: Limit::Stream,
            record: false,
            idle_before: Nanos::ZERO,
        })
    }

    fn next_op(&mut self) -> Option<Command<'static>> {
        let Some(rank) = self.rank() else {
            self.settling = self.settling.checked_sub(1)?;
            return self.workload.next_op();
        };
        let Synthetic { settings, spread, places, grain, .. } = &self.workload;
        let place = if rank < *places { spread.place(rank) } else { rank };
        Some(Command::Write(Extent { offset: place * grain, len: *grain }, settings.data))
    }
}

/// Consecutive ranks of about the same popularity: their number and share of the writes.
fn parts(pattern: Pattern, places: u64) -> Option<Vec<(u64, f64)>> {
    // Share of the writes to ranks below this one.
    let below: Box<dyn Fn(u64) -> f64> = match pattern {
        Pattern::Uniform => return Some(vec![(places, 1.0)]),
        Pattern::HotCold { space, ops } => {
            let hot = ((places as f64 * space) as u64).clamp(1, places.max(2) - 1);
            return Some(vec![(hot, ops), (places - hot, 1.0 - ops)]);
        }
        Pattern::Zipf { theta } => {
            let zipf = Zipf::new(places, theta);
            Box::new(move |rank| {
                let area = zipf.integral(rank as f64 + 0.5);
                if rank == 0 { 0.0 } else { (area - zipf.low) / (zipf.high - zipf.low) }
            })
        }
        Pattern::Pareto { share } => {
            let power = libm::log1p(-share) / libm::log(share);
            Box::new(move |rank| libm::pow(rank as f64 / places as f64, power))
        }
        Pattern::Sequential | Pattern::Shuffled => return None,
    };
    let (mut parts, mut from) = (Vec::new(), 0);
    while from < places {
        let wider = from as f64 * libm::exp2(1.0 / GROUPS_PER_DOUBLING);
        let to = (wider as u64).max(from + 1).min(places);
        parts.push((to - from, below(to) - below(from)));
        from = to;
    }
    Some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runner::{RunEnd, blocks};
    use crate::target::Clock as _;
    use crate::target::drive::DriveTarget;
    use crate::workload::synthetic::Mix;
    use alloc::string::String;
    use trimtab_drive::model;
    use trimtab_drive::shipped;
    use trimtab_drive::spec::file::parse;
    use trimtab_drive::ssd::Ssd;

    const HOT_COLD: Pattern = Pattern::HotCold { space: 0.2, ops: 0.8 };
    const ZIPF: Pattern = Pattern::Zipf { theta: 0.99 };

    fn settings(spec: &DriveSpec, pattern: Pattern, drive_writes: f64) -> SyntheticSettings {
        SyntheticSettings {
            pattern,
            mix: Mix::default(),
            sizes: vec![(4096, 1)],
            data: DataClass::Random,
            offset: 0,
            span: spec.capacity_bytes / 4096 * 4096,
            queue_depth: 32,
            limit: Limit::Bytes(Bytes((drive_writes * spec.capacity_bytes as f64) as u64)),
        }
    }

    /// Runs `workload`; returns bytes per second, write amplification and drive writes.
    fn write(target: &mut DriveTarget<Ssd>, workload: &mut dyn BlockWorkload) -> [f64; 3] {
        let (began, before) = (target.now(), target.drive().counters().clone());
        let outcome = blocks::run(workload, target, &mut ());
        assert_eq!(outcome.end, RunEnd::Complete);
        let after = target.drive().counters().host_written_bytes;
        let written = (after - before.host_written_bytes) as f64;
        [
            written / (target.now() - began).as_secs_f64(),
            target.drive().waf_since(&before).unwrap(),
            written / target.drive().spec().capacity_bytes as f64,
        ]
    }

    /// Compares half a drive write after preconditioning with two drive writes after many
    /// by the workload itself.
    fn compare(spec: &DriveSpec, pattern: Pattern, wrong: &mut Vec<String>) {
        let of = |drive_writes: f64, seed: u64| {
            Synthetic::new(settings(spec, pattern, drive_writes), seed).unwrap()
        };
        let new = || DriveTarget::new(Ssd::new(spec, 1).unwrap(), 32);
        let mut drive = new();
        let fill = settings(spec, Pattern::Sequential, 1.0);
        write(&mut drive, &mut Synthetic::new(fill, 1).unwrap());
        write(&mut drive, &mut of(if pattern == Pattern::Uniform { 6.0 } else { 16.0 }, 1));
        let [rate, waf, _] = write(&mut drive, &mut of(2.0, 1));
        let mut drive = new();
        let given = settings(spec, pattern, 1.0);
        let collection = Collection::of(spec, DataClass::Random).unwrap();
        let mut order = Preconditioning::new(given, Bytes::ZERO, &collection, 1).unwrap();
        let [_, _, written] = write(&mut drive, &mut order);
        let warm = write(&mut drive, &mut of(0.5, 1));
        let (rate, of_waf) = (warm[0] / rate, warm[1] / waf);
        let said = format!(
            "{} {pattern:?} {:?} {}: after {written:.2} drive writes rate {rate:.3}, \
                WAF {of_waf:.3} of {waf:.2}",
            spec.name, collection.victims, collection.separate
        );
        std::println!("{said}");
        if (rate - 1.0).abs() > 0.05 || (of_waf - 1.0).abs() > 0.05 {
            wrong.push(said);
        }
    }

    /// `spec` at 1 GB, with superblocks of at most 4 MB.
    fn small(mut spec: DriveSpec) -> DriveSpec {
        let flash = &mut spec.flash;
        let pages = u128::from(flash.geometry.pages_per_block) * 4_000_000;
        let pages = (pages / flash.geometry.superblock_bytes()) as u32;
        model::with_pages(flash, pages.max(4));
        model::sized(spec, Some(Bytes(1_000_000_000))).unwrap()
    }

    #[test]
    fn preconditioned_drive_is_steady() {
        let mut wrong = Vec::new();
        let spec = |name: &str| small(shipped::drive(name).spec);
        compare(&spec("crucial-m4-128gb"), Pattern::Uniform, &mut wrong);
        compare(&spec("ocz-vertex-le-100gb"), HOT_COLD, &mut wrong);
        // Its write cache merges overwrites.
        compare(&spec("micron-7450-pro-960gb"), ZIPF, &mut wrong);
        assert!(wrong.is_empty(), "{wrong:#?}");
    }

    #[test]
    #[ignore = "writes every shipped SSD many times"]
    fn every_preconditioned_shipped_drive_is_steady() {
        let (mut wrong, mut compared) = (Vec::new(), 0);
        for drive in shipped::files().map(|text| parse(text).unwrap()) {
            let spec = small(drive.spec);
            let Ok(collection) = Collection::of(&spec, DataClass::Random) else { continue };
            for pattern in [Pattern::Uniform, HOT_COLD, ZIPF] {
                let given = settings(&spec, pattern, 1.0);
                if Preconditioning::new(given, Bytes::ZERO, &collection, 1).is_ok() {
                    compare(&spec, pattern, &mut wrong);
                    compared += 1;
                }
            }
        }
        assert!(compared >= 136 && wrong.is_empty(), "{compared}: {wrong:#?}");
    }

    #[test]
    #[ignore = "writes thirty SSDs many times"]
    fn drawn_preconditioned_drives_are_steady() {
        let (mut wrong, mut rng) = (Vec::new(), Stream::new(1, "drawn"));
        for nth in 0..30 {
            let mut spec = small(shipped::drive("crucial-m4-128gb").spec);
            spec.name = format!("drawn-{nth}");
            let flash = &mut spec.flash;
            let all = [VictimPolicy::Greedy, VictimPolicy::Fifo, VictimPolicy::CostBenefit];
            flash.ftl.victim = all[rng.below(3) as usize];
            flash.ftl.streams.separate_gc = rng.chance(0.5);
            flash.ftl.gc.free_low = rng.between(2, 4) as u32;
            flash.ftl.gc.free_high = flash.ftl.gc.free_low + rng.below(3) as u32;
            let permille = rng.between(70, 500) as u32;
            let geometry = flash.geometry.clone();
            flash.geometry = geometry.with_over_provisioning(spec.capacity_bytes, permille);
            let patterns = [Pattern::Uniform, HOT_COLD, ZIPF];
            let skewed = match flash.ftl.victim {
                VictimPolicy::Fifo => true,
                VictimPolicy::CostBenefit => flash.ftl.streams.separate_gc && permille <= 400,
                _ => permille <= 400,
            };
            let pattern = patterns[rng.below(if skewed { 3 } else { 1 }) as usize];
            compare(&spec, pattern, &mut wrong);
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
    }
}
