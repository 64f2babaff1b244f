//! The probes, in the order in which they are run: later ones use what earlier ones wrote.

pub mod burst;
pub mod compression;
pub mod flush;
pub mod random_writes;
pub mod reads;
pub mod stalls;
pub mod trim_cost;
pub mod trim_effect;
pub mod trimmed_reads;

use super::lab::Lab;
use super::{Budget, Observation, Observer, Reported};
use crate::data::DataClass;
use crate::drive::{Command, Extent};
use crate::rng::Stream as Random;
use crate::target::TargetResult;
use crate::units::Nanos;
use alloc::string::String;
use alloc::vec::Vec;

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
const SHORTEST_NS: f64 = 0.01;
/// Time after which a drive has done in the background what it does for so little data.
const REST: Nanos = Nanos::from_secs(60);

/// What is run, to the last command: the same for the drive and for every candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// How much.
    pub budget: Budget,
    /// What the drive says of itself.
    pub reported: Reported,
    /// First byte of the part of the target that is used.
    pub start: u64,
    /// Bytes of that part.
    pub area: u64,
    /// Seed of the addresses.
    pub seed: u64,
}

impl Plan {
    /// The plan for a drive of which at most `write_limit` bytes may be written; `None` if that is too little. `small` probes use the first bytes of the target.
    #[must_use]
    pub fn new(budget: Budget, reported: Reported, write_limit: u64, seed: u64) -> Option<Self> {
        let most = match budget {
            Budget::Reads => reported.capacity_bytes / 2,
            Budget::Small => (write_limit / AREA_WRITES).min(reported.capacity_bytes / 2),
        };
        if most < AREA_MIN {
            return None;
        }
        let area = 1_u64 << most.min(AREA_MAX).ilog2();
        Some(Self { budget, reported, start: 0, area, seed })
    }

    /// Most bytes that may be written to a drive of `capacity_bytes` by default: 1 %, and not more than 4 GB.
    #[must_use]
    pub const fn write_limit(capacity_bytes: u64) -> u64 {
        let share = capacity_bytes / 100;
        if share < 4_000_000_000 { share } else { 4_000_000_000 }
    }

    /// A part of the area: from `from` to `to` sixteenths of it.
    const fn part(&self, from: u64, to: u64) -> Extent {
        Extent { offset: self.start + self.area / 16 * from, len: self.area / 16 * (to - from) }
    }

    /// The smallest operation: what is called 4 KiB, or a logical block if that is larger.
    fn small(&self) -> u64 {
        u64::from(self.reported.logical_block_bytes).max(4096)
    }

    /// The deepest queue that is tried.
    fn deepest(&self) -> u32 {
        self.reported.queue_depth.clamp(1, 256)
    }
}

/// What the probes found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Findings {
    /// Figures.
    pub observations: Vec<Observation>,
    /// The shortest TRIM that had an effect, and the longest shorter one that had none; `None` if none had.
    pub trim_least: Option<(u64, u64)>,
    /// What TRIM ranges have to be multiples of.
    pub trim_granularity: Option<u64>,
    /// Bytes written.
    pub written: u64,
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

    /// Runs it, and adds what it finds.
    ///
    /// # Errors
    /// A target that fails.
    fn run(&self, lab: &mut Lab<'_>, plan: &Plan, found: &mut Findings) -> TargetResult;
}

/// The probes of a budget, in order.
#[must_use]
pub fn of(budget: Budget) -> &'static [&'static dyn Probe] {
    match budget {
        Budget::Reads => &[&reads::Reads],
        Budget::Small => &[
            &burst::Burst,
            &flush::Flush,
            &reads::JustWritten,
            &reads::Reads,
            &trim_cost::TrimCost,
            &trimmed_reads::TrimmedReads,
            &trim_effect::TrimEffect,
            &random_writes::RandomWrites,
            &compression::Compression,
            &stalls::Stalls,
        ],
    }
}

/// Runs all probes of the plan's budget.
pub fn run(lab: &mut Lab<'_>, plan: &Plan, observer: &mut dyn Observer) -> TargetResult<Findings> {
    let mut found = Findings::default();
    if plan.budget == Budget::Reads {
        there_already(lab, plan)?;
    }
    let before = lab.written;
    for probe in of(plan.budget) {
        if observer.stopped() {
            break;
        }
        let known = found.observations.len();
        probe.run(lab, plan, &mut found)?;
        observer.probed(probe.name(), &found.observations[known..]);
    }
    found.written = lab.written - before;
    Ok(found)
}

/// Gives a new modelled drive the data that a drive in use would have.
fn there_already(lab: &mut Lab<'_>, plan: &Plan) -> TargetResult {
    lab.stream(4, sequential(plan.part(0, 16), DataClass::Random))?;
    lab.one(Command::Flush)?;
    lab.idle(REST);
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
fn reads(plan: &Plan, purpose: &str, within: Extent, len: u64, count: usize) -> impl Iterator<Item = Command<'static>> {
    Places::new(plan, purpose, within, len).take(count).map(Command::Read)
}
