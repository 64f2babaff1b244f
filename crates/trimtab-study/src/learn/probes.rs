//! The probes, in the order in which they are run: later ones use what earlier ones wrote.

pub mod burst;
pub mod collection;
pub mod compression;
pub mod flush;
pub mod map;
pub mod random_writes;
pub mod reads;
pub mod recovery;
pub mod slc_cache;
pub mod stalls;
pub mod trim_cost;
pub mod trim_effect;
pub mod trimmed_reads;
pub mod whole;

use super::lab::Lab;
use super::{Budget, Observation, Observer, Reported, TrimLimits};
use alloc::string::String;
use alloc::vec::Vec;
use trimtab_drive::data::DataClass;
use trimtab_drive::rng::Stream as Random;
use trimtab_drive::units::Nanos;
use trimtab_drive::{Command, Extent};
use trimtab_sim::target::TargetResult;
use whole::Whole;

/// The least area in which something can be learned by writing.
pub const AREA_MIN: u64 = 8 << 20;
/// As many commands are in flight at once, at most.
pub const DEPTH_MAX: u32 = 257;
/// A larger one would not tell more.
const AREA_MAX: u64 = 256 << 20;
/// All probes together write less than this many times the area.
pub const AREA_WRITES: u64 = 3;
/// Sequential operations.
const SEQUENTIAL: u64 = 128 << 10;
/// What takes less is as good as nothing: nanoseconds of a byte at the fastest link.
pub const SHORTEST_NS: f64 = 0.01;
/// Time after which a drive has done in the background what it does for so little data, where time costs nothing.
const REST: Nanos = Nanos::from_secs(60);

/// For how long a drive is left alone before reads that are not meant to meet writes: where flushes are free, a write cache is still being emptied behind one. Short
/// enough that a drive begins nothing by itself.
const SETTLE: Nanos = Nanos::from_millis(500);

/// How a drive is reached: what stands between the probes and it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reach {
    /// For how long the drive is left alone before it is read.
    pub rest: Nanos,
    /// Ranges that one TRIM can be asked to have; `None` where no TRIM can be asked for.
    pub trim_ranges_max: Option<u32>,
    /// Whether a flush is one of the drive, and no journal is written before.
    pub flushes: bool,
    /// Whether flushes are sent to the drive: the kernel sends one none that says it has no volatile cache.
    pub sends_flushes: bool,
}

/// What a call takes that the kernel makes nothing of tells that nothing need be flushed, and not how long that takes: it may be off by so many powers of e.
const NOT_SENT: f64 = 10.0;

impl Reach {
    /// Nothing stands between.
    #[must_use]
    pub fn bare(reported: &Reported) -> Self {
        Self { rest: REST, trim_ranges_max: reported.trim.map(|limits| limits.ranges_per_command_max), flushes: true, sends_flushes: true }
    }

    /// By what the time of a flush may be off, where it is by `sigma` if there is one.
    fn of_flush(&self, sigma: f64) -> f64 {
        if self.sends_flushes { sigma } else { NOT_SENT }
    }
}

/// What is run, to the last command: the same for the drive and for every candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// How much.
    pub budget: Budget,
    /// What the drive says of itself.
    pub reported: Reported,
    /// How it is reached.
    pub reach: Reach,
    /// First byte of the part of the target that is used.
    pub start: u64,
    /// Bytes of that part.
    pub area: u64,
    /// Seed of the addresses.
    pub seed: u64,
    /// With [`Budget::Full`], what the probes of whole drives use.
    pub whole: Option<Whole>,
}

impl Plan {
    /// The plan for a drive of which at most `write_limit` bytes may be written; `None` if that is too little. `small` probes use the first bytes of the target.
    #[must_use]
    pub fn new(budget: Budget, reported: Reported, write_limit: u64, seed: u64) -> Option<Self> {
        let most = match budget {
            Budget::Reads => reported.capacity_bytes / 2,
            Budget::Small | Budget::Full => (write_limit / AREA_WRITES).min(reported.capacity_bytes / 2),
        };
        if most < AREA_MIN {
            return None;
        }
        let area = 1_u64 << most.min(AREA_MAX).ilog2();
        Some(Self { budget, reported, reach: Reach::bare(&reported), start: 0, area, seed, whole: None })
    }

    /// Most bytes that may be written to a drive of `capacity_bytes` by default: 1 %, and not more than 4 GB.
    #[must_use]
    pub const fn write_limit(capacity_bytes: u64) -> u64 {
        let share = capacity_bytes / 100;
        if share < 4_000_000_000 { share } else { 4_000_000_000 }
    }

    /// What is written at most if nothing else is said. Whoever lets all of a drive be written over lets a little more of a very small one be written before.
    #[must_use]
    pub fn usual_limit(budget: Budget, capacity_bytes: u64) -> u64 {
        let limit = Self::write_limit(capacity_bytes);
        if budget == Budget::Full { limit.max(4 * AREA_MIN * AREA_WRITES) } else { limit }
    }

    /// A part of the area: from `from` to `to` sixteenths of it.
    const fn part(&self, from: u64, to: u64) -> Extent {
        Extent { offset: self.start + self.area / 16 * from, len: self.area / 16 * (to - from) }
    }

    /// The smallest operation: what is called 4 KiB, or a logical block if that is larger.
    fn small(&self) -> u64 {
        u64::from(self.reported.logical_block_bytes).max(4096)
    }

    /// What a TRIM may be, and how many ranges it can be asked to have; `None` if no TRIM is probed.
    fn trims(&self) -> Option<(TrimLimits, u64)> {
        self.reported.trim.zip(self.reach.trim_ranges_max).map(|(limits, most)| (limits, u64::from(most)))
    }

    /// The deepest queue that is tried.
    fn deepest(&self) -> u32 {
        self.reported.queue_depth.clamp(1, 256)
    }
}

/// What the probes found.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Findings {
    /// Figures.
    pub observations: Vec<Observation>,
    /// The shortest TRIM that had an effect, and the longest shorter one that had none; `None` if none had.
    pub trim_least: Option<(u64, u64)>,
    /// What TRIM ranges have to be multiples of.
    pub trim_granularity: Option<u64>,
    /// Bytes written.
    pub written: u64,
    /// Bytes read.
    pub read: u64,
}

impl Findings {
    /// A figure by name, in nanoseconds.
    #[must_use]
    pub fn ns(&self, name: &str) -> Option<f64> {
        self.observations.iter().find(|one| one.name == name).map(|one| one.value_ns)
    }

    /// Adds a figure whose logarithm may be off by `sigma`.
    fn add(&mut self, probe: &'static str, name: impl Into<String>, value_ns: f64, sigma: f64) {
        self.observations.push(Observation { name: name.into(), probe, value_ns: value_ns.max(SHORTEST_NS), sigma });
    }
}

/// One probe.
pub trait Probe {
    /// Its name.
    fn name(&self) -> &'static str;

    /// The fields of a specification that it tells something about.
    fn identifies(&self) -> &'static [&'static str];

    /// Whether it tells nothing where no TRIM can be asked for.
    fn is_of_trims(&self) -> bool {
        false
    }

    /// Runs it, and adds what it finds.
    ///
    /// # Errors
    /// A target that fails.
    fn run(&self, lab: &mut Lab<'_>, plan: &Plan, found: &mut Findings) -> TargetResult;
}

/// Every probe there is, in order.
pub fn every() -> impl Iterator<Item = &'static dyn Probe> {
    of_areas().iter().chain(of_wholes()).copied()
}

/// Those that need little of a drive.
fn of_areas() -> &'static [&'static dyn Probe] {
    &[
        &burst::Burst,
        &flush::Flush,
        &reads::JustWritten,
        &reads::Reads,
        &random_writes::RandomWrites,
        &compression::Compression,
        &stalls::Stalls,
        &trim_cost::TrimCost,
        &trimmed_reads::TrimmedReads,
        &trim_effect::TrimEffect,
    ]
}

/// Those that need as much of it as there is.
fn of_wholes() -> &'static [&'static dyn Probe] {
    &[&slc_cache::SlcCache, &recovery::Recovery, &collection::Collection, &map::Map]
}

/// The probes of a plan that need little of a drive, in order: TRIMs last, so that all others find the area written to.
pub fn of(plan: &Plan) -> impl Iterator<Item = &'static dyn Probe> {
    let all: &[&'static dyn Probe] = match plan.budget {
        Budget::Reads => &[&reads::Reads],
        Budget::Small | Budget::Full => of_areas(),
    };
    let trims = plan.trims().is_some();
    all.iter().copied().filter(move |probe| trims || !probe.is_of_trims())
}

/// All probes of a plan: those too that need a whole drive.
pub fn all_of(plan: &Plan) -> impl Iterator<Item = &'static dyn Probe> {
    of(plan).chain(if plan.whole.is_some() { of_wholes() } else { &[] }.iter().copied())
}

/// Runs all probes of the plan. Those of a modelled drive find on it what [`there_already`] has put there.
pub fn run(lab: &mut Lab<'_>, plan: &Plan, observer: &mut dyn Observer) -> TargetResult<Findings> {
    run_these(of(plan), lab, plan, observer)
}

/// Runs the probes that need a whole drive, on one that holds nothing but what others have there.
///
/// # Errors
/// A target that fails.
pub fn run_whole(lab: &mut Lab<'_>, plan: &Plan, observer: &mut dyn Observer) -> TargetResult<Findings> {
    run_these(of_wholes().iter().copied(), lab, plan, observer)
}

fn run_these(
    probes: impl Iterator<Item = &'static dyn Probe>,
    lab: &mut Lab<'_>,
    plan: &Plan,
    observer: &mut dyn Observer,
) -> TargetResult<Findings> {
    let mut found = Findings::default();
    let before = (lab.written, lab.read);
    for probe in probes {
        if observer.stopped() {
            break;
        }
        let known = found.observations.len();
        probe.run(lab, plan, &mut found)?;
        observer.probed(probe.name(), &found.observations[known..]);
    }
    (found.written, found.read) = (lab.written - before.0, lab.read - before.1);
    Ok(found)
}

/// Gives a new modelled drive the data that a drive in use has, where probes only read.
///
/// # Errors
/// A target that fails.
pub fn there_already(lab: &mut Lab<'_>, plan: &Plan) -> TargetResult {
    if plan.budget != Budget::Reads {
        return Ok(());
    }
    lab.stream(4, sequential(plan.part(0, 16), DataClass::Random))?;
    lab.one(Command::Flush)?;
    lab.idle(plan.reach.rest);
    Ok(())
}

/// Writes all of `extent` in order.
fn sequential(extent: Extent, class: DataClass) -> impl Iterator<Item = Command<'static>> {
    let step = SEQUENTIAL.min(extent.len);
    (0..extent.len / step).map(move |nth| Command::Write(Extent { offset: extent.offset + nth * step, len: step }, class))
}

/// Places of `len` bytes, aligned to that, at random in `within`.
struct Places {
    random: Random,
    within: Extent,
    len: u64,
}

impl Places {
    fn new(plan: &Plan, purpose: &str, within: Extent, len: u64) -> Self {
        Self { random: Random::new(plan.seed, purpose), within, len }
    }
}

impl Iterator for Places {
    type Item = Extent;

    fn next(&mut self) -> Option<Extent> {
        let place = self.random.below((self.within.len / self.len).max(1));
        Some(Extent { offset: self.within.offset + place * self.len, len: self.len })
    }
}

/// Reads at random places.
fn reads(plan: &Plan, purpose: &str, within: Extent, len: u64, count: usize) -> impl Iterator<Item = Command<'static>> + use<> {
    Places::new(plan, purpose, within, len).take(count).map(Command::Read)
}

/// The same, but beginning at any small operation of a [`PIECE`]: how rows of the flash lie below the addresses is not known of a drive that has been used, and
/// reads that are all aligned would be in one row each, or all in two.
fn crossing_reads(plan: &Plan, purpose: &str, within: Extent, len: u64, count: usize) -> impl Iterator<Item = Command<'static>> {
    let small = plan.small();
    let piece = PIECE.min(within.len).max(len);
    let begins = (piece - len) / small + 1;
    let mut random = Random::new(plan.seed, purpose);
    Places::new(plan, &alloc::format!("pieces of {purpose}"), within, piece).take(count).map(move |place| {
        let offset = place.offset + random.below(begins) * small;
        Command::Read(Extent { offset, len })
    })
}

/// A file lies in one piece on the drive for so many bytes at least.
const PIECE: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    /// They stay within pieces of 1 MiB, in which a file lies in order on the drive, and begin anywhere in them.
    #[test]
    fn longer_reads_begin_anywhere_in_a_piece() {
        let trim = None;
        let reported = Reported { capacity_bytes: 1 << 34, logical_block_bytes: 512, queue_depth: 32, full_duplex: false, trim };
        let plan = Plan::new(Budget::Small, reported, 48 << 20, 1).unwrap();
        let within = plan.part(8, 12);
        let mut begun = [0; 4];
        for command in crossing_reads(&plan, "x", within, 16 << 10, 400) {
            let Command::Read(read) = command else { panic!("{command:?}") };
            assert!(
                read.len == 16 << 10 && read.offset >= within.offset && read.offset + read.len <= within.offset + within.len,
                "{read:?}"
            );
            assert_eq!(read.offset % 4096, 0, "{read:?}");
            assert_eq!(read.offset >> 20, (read.offset + read.len - 1) >> 20, "{read:?}");
            begun[(read.offset / 4096 % 4) as usize] += 1;
        }
        assert!(begun.iter().all(|count| (60..140).contains(count)), "{begun:?}");
    }
}
