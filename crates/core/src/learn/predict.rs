//! Workloads that no probe runs, and what a drive shows under them: what a twin predicts, and what is measured to see whether it is right.
//!
//! They are run on a drive of the same make and of less capacity (`study::small`), where the twin and what it is a twin of are made smaller alike.

pub mod churn;

use super::lab::{Lab, Stream};
use super::probes::DEPTH_MAX;
use crate::data::DataClass;
use crate::drive::model::{self, Model};
use crate::drive::spec::DriveSpec;
use crate::drive::{Command, Extent, Ranges};
use crate::policy::{PolicySpec, State};
use crate::rng::Stream as Random;
use crate::runner::{End, files};
use crate::study::small::Small;
use crate::target::TargetResult;
use crate::target::drive::DriveTarget;
use crate::units::{Bytes, Nanos};
use crate::volume::{Steered, Volume, VolumeSpec, WRITTEN_STEP};
use crate::workload::postmark::{Postmark, Settings};
use crate::workload::synced::Synced;
use crate::workload::tree::{Tree, TreeList};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// The size at which drives are tried.
pub const SIZE: Bytes = Bytes(1 << 30);
/// Small operations.
const SMALL: u64 = 4096;
/// Operations of each mix.
const MIXED: usize = 6000;

/// One figure of a workload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// Which workload.
    pub workload: &'static str,
    /// What of it.
    pub what: What,
    /// A second, or nanoseconds, or as many times.
    pub value: f64,
}

/// What a figure is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Operations a second.
    Rate,
    /// Mean latency in nanoseconds.
    Mean,
    /// The latency that one in a hundred exceeds, in nanoseconds.
    P99,
    /// Seconds.
    Time,
    /// Bytes to flash for each byte of the host.
    Ratio,
}

impl What {
    /// As it is shown.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rate => "operations/s",
            Self::Mean => "mean latency",
            Self::P99 => "p99 latency",
            Self::Time => "time",
            Self::Ratio => "write amplification",
        }
    }
}

/// What a drive of `spec` shows under all workloads. `None` if it cannot be made small, or fails.
#[must_use]
pub fn figures(spec: &DriveSpec, seed: u64) -> Option<Vec<Figure>> {
    let small = Small::of(spec, SIZE).ok()?.spec;
    let mut all = Vec::new();
    blocks(&small, seed, &mut all).ok()?;
    tree(&small, seed, &mut all)?;
    postmark(&small, &mut all)?;
    Some(all)
}

/// Part of a drive that is there, on which workloads are run that no probe runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Area {
    /// Bytes, which have been written before.
    pub bytes: u64,
    /// Whether it may be written to.
    pub writes: bool,
    /// For how long the drive is left alone before each workload.
    pub rest: Nanos,
}

impl Area {
    /// Most bytes that [`Area::run`] writes.
    #[must_use]
    pub const fn written_max(&self) -> u64 {
        if self.writes { (MIXED as u64 / 4) * 3 * SMALL + LARGE_COUNT as u64 * LARGE } else { 0 }
    }

    /// Runs the workloads.
    ///
    /// # Errors
    /// A target that fails.
    pub fn run(&self, lab: &mut Lab<'_>, seed: u64) -> TargetResult<Vec<Figure>> {
        let mut all = Vec::new();
        let mut mix = |name: &'static str, depth: u32, len: u64, count: usize, reads: f64| {
            lab.idle(self.rest);
            let mut random = Random::new(seed, name);
            let commands = (0..count).map(|_| {
                let extent = Extent { offset: random.below(self.bytes / len) * len, len };
                if random.chance(reads) { Command::Read(extent) } else { Command::Write(extent, DataClass::Random) }
            });
            let stream = lab.stream(depth, commands)?;
            if self.writes {
                lab.one(Command::Flush)?;
            }
            add(&mut all, name, &stream);
            TargetResult::Ok(())
        };
        for (name, depth) in [("reads, 4 in flight", 4), ("reads, 16 in flight", 16)] {
            mix(name, depth, SMALL, MIXED / 4, 1.0)?;
        }
        mix("reads of 32 KiB, 4 in flight", 4, 32 << 10, MIXED / 8, 1.0)?;
        if self.writes {
            for (name, depth) in [("mixed, 1 in flight", 1), ("mixed, 4 in flight", 4), ("mixed, 32 in flight", 32)] {
                mix(name, depth, SMALL, MIXED / 4, 0.7)?;
            }
            mix("mixed, 32 KiB, 8 in flight", 8, LARGE, LARGE_COUNT, 0.5)?;
        }
        Ok(all)
    }

    /// What a drive of `spec` shows. `None` if it cannot be made, or fails.
    #[must_use]
    pub fn figures(&self, spec: &DriveSpec, seed: u64) -> Option<Vec<Figure>> {
        let small = Small::of(spec, AREA_SIZE).ok()?.spec;
        let mut target = DriveTarget::new(model::build(&small, seed).ok()?, DEPTH_MAX);
        let mut lab = Lab::new(&mut target);
        fill(&mut lab, 0, self.bytes).ok()?;
        self.run(&mut lab, seed).ok()
    }
}

/// The size at which drives are tried beside one that is there: an SLC cache holds the area there, as it does on the drive.
const AREA_SIZE: Bytes = Bytes(8 << 30);
/// Larger operations, and how many of them.
const LARGE: u64 = 32 << 10;
const LARGE_COUNT: usize = 400;

/// What an ensemble says of one figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    /// Which workload.
    pub workload: &'static str,
    /// What of it.
    pub what: What,
    /// The median of the members.
    pub median: f64,
    /// One member in twenty shows less.
    pub low: f64,
    /// One in twenty shows more.
    pub high: f64,
}

impl Prediction {
    /// Whether a measured value lies in the interval, but for `share` of it: what no clock tells apart.
    #[must_use]
    pub fn holds(&self, value: f64, share: f64) -> bool {
        value >= self.low * (1.0 - share) && value <= self.high * (1.0 + share)
    }
}

/// What members that show `shown` predict; nothing without any.
#[must_use]
pub fn predictions(shown: &[Vec<Figure>]) -> Vec<Prediction> {
    let Some(first) = shown.first() else { return Vec::new() };
    let one = |(nth, figure): (usize, &Figure)| {
        let mut values: Vec<f64> = shown.iter().filter_map(|all| all.get(nth)).map(|one| one.value).collect();
        values.sort_by(f64::total_cmp);
        let at = |permille: usize| values[(values.len() - 1) * permille / 1000];
        Prediction {
            workload: figure.workload,
            what: figure.what,
            median: at(500),
            low: at(50),
            high: values[values.len() - 1 - (values.len() - 1) * 50 / 1000],
        }
    };
    first.iter().enumerate().map(one).collect()
}

fn add(all: &mut Vec<Figure>, workload: &'static str, stream: &Stream) {
    let count = stream.latencies.len().max(1) as f64;
    let mean = stream.latencies.iter().map(|latency| latency.0 as f64).sum::<f64>() / count;
    all.push(Figure { workload, what: What::Rate, value: count * 1e9 / stream.took.0.max(1) as f64 });
    all.push(Figure { workload, what: What::Mean, value: mean });
    all.push(Figure { workload, what: What::P99, value: stream.percentile_ns(99) });
}

/// Mixed reads and writes at three depths on a drive that is half full, and random writes until they are as fast as they stay.
fn blocks(spec: &DriveSpec, seed: u64, all: &mut Vec<Figure>) -> TargetResult {
    let Ok(drive) = model::build(spec, seed) else { return Ok(()) };
    let mut target = DriveTarget::new(drive, DEPTH_MAX);
    let mut lab = Lab::new(&mut target);
    let capacity = spec.capacity_bytes / FILL * FILL;
    fill(&mut lab, 0, capacity / 2)?;
    for (depth, name) in [(1, "mixed, 1 in flight"), (4, "mixed, 4 in flight"), (32, "mixed, 32 in flight")] {
        lab.idle(Nanos::from_secs(60));
        let mut random = Random::new(seed, name);
        let commands = (0..MIXED).map(|_| {
            let place = random.below(capacity / 2 / SMALL) * SMALL;
            let extent = Extent { offset: place, len: SMALL };
            if random.chance(0.7) { Command::Read(extent) } else { Command::Write(extent, DataClass::Random) }
        });
        add(all, name, &lab.stream(depth, commands)?);
    }
    fill(&mut lab, capacity / 2, capacity)?;
    let mut random = Random::new(seed, "random writes");
    let writes = (capacity * 2 / SMALL) as usize;
    let mut places =
        (0..writes).map(|_| Command::Write(Extent { offset: random.below(capacity / SMALL) * SMALL, len: SMALL }, DataClass::Random));
    lab.stream(32, places.by_ref().take(writes * 3 / 4))?;
    add(all, "random writes in the end", &lab.stream(32, places)?);
    if spec.flash().is_some_and(|flash| flash.trim.supported) {
        trims(&mut lab, capacity, seed, all)?;
    }
    Ok(())
}

/// TRIMs of pieces of many sizes one after another, with a read under way beside them.
fn trims(lab: &mut Lab<'_>, capacity: u64, seed: u64, all: &mut Vec<Figure>) -> TargetResult {
    lab.idle(Nanos::from_secs(60));
    let mut random = Random::new(seed, "trims");
    let commands = (0..TRIMS).map(|nth| {
        // Each in a part of its own, in the first half, so that no place is trimmed twice.
        let part = capacity / 2 / TRIMS / SMALL * SMALL;
        let len = (random.between(1, part / SMALL) * SMALL).min(part);
        Command::Trim(Ranges::One(Extent { offset: nth * part, len }))
    });
    let mut places = Random::new(seed, "reads beside trims");
    let beside = || Some(Command::Read(Extent { offset: capacity / 2 + places.below(capacity / 2 / SMALL) * SMALL, len: SMALL }));
    let (trims, reads) = lab.streams(1, commands, beside)?;
    add(all, "trims", &trims);
    add(all, "reads beside trims", &reads);
    Ok(())
}

/// How many.
const TRIMS: u64 = 400;
/// What drives are filled with.
const FILL: u64 = 1 << 20;

fn fill(lab: &mut Lab<'_>, from: u64, to: u64) -> TargetResult {
    let commands = (from / FILL..to / FILL).map(|nth| Command::Write(Extent { offset: nth * FILL, len: FILL }, DataClass::Random));
    lab.stream(4, commands)?;
    lab.one(Command::Flush)?;
    lab.idle(Nanos::from_secs(60));
    Ok(())
}

/// A new filesystem, which nobody trims.
fn volume(spec: &DriveSpec) -> Option<Steered<Box<dyn Model>>> {
    let drive = model::build(spec, 1).ok()?;
    let volume = Volume::format(drive, VolumeSpec::ext4(), Nanos::ZERO).ok()?;
    Some(Steered::new(volume, PolicySpec::None.build(&State::default()), WRITTEN_STEP))
}

/// A tree is unpacked, made durable, deleted, and that made durable.
fn tree(spec: &DriveSpec, seed: u64, all: &mut Vec<Figure>) -> Option<()> {
    let list = TreeList::synthetic(3000, Bytes(60_000_000), DataClass::Compressible(30), seed).ok()?;
    let outcome = files::run(&mut Tree::new(Arc::new(list), 1), &mut volume(spec)?, &mut ());
    let took = outcome.recorded.phases.iter().map(|phase| phase.took.as_secs_f64()).sum();
    (outcome.end == End::Complete).then(|| all.push(Figure { workload: "tree", what: What::Time, value: took }))
}

/// PostMark, small, with a sync before and after.
fn postmark(spec: &DriveSpec, all: &mut Vec<Figure>) -> Option<()> {
    let settings = Settings { number: 1000, transactions: 2000, size_high: 60_000, ..Settings::default() };
    let outcome = files::run(&mut Synced::new(Postmark::new(&settings).ok()?), &mut volume(spec)?, &mut ());
    let took = outcome.recorded.phases.iter().map(|phase| phase.took.as_secs_f64()).sum();
    (outcome.end == End::Complete).then(|| all.push(Figure { workload: "postmark", what: What::Time, value: took }))
}
