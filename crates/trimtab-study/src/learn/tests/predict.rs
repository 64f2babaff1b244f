//! Workloads that no probe runs, to verify the predictions of a twin.
//!
//! They run on a drive of the same design with less capacity (`study::small`). The twin
//! and the drive it represents are scaled down alike.

use crate::learn::fit::FitResult;
use crate::learn::lab::{ProbeSession, Stream};
use crate::learn::probes::DEPTH_MAX;
use crate::study::small::SmallDrive;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use trimtab_drive::data::DataClass;
use trimtab_drive::model::{self, Model};
use trimtab_drive::named;
use trimtab_drive::rng::Stream as Random;
use trimtab_drive::spec::DriveSpec;
use trimtab_drive::units::{Bytes, Nanos};
use trimtab_drive::{Command, Extent, Ranges};
use trimtab_sim::analysis;
use trimtab_sim::policy::{PolicySpec, PolicyState};
use trimtab_sim::runner::{RunEnd, files};
use trimtab_sim::target::TargetResult;
use trimtab_sim::target::drive::DriveTarget;
use trimtab_sim::volume::{SteeredVolume, Volume, VolumeSpec, WRITTEN_STEP};
use trimtab_sim::workload::postmark::{Postmark, PostmarkSettings};
use trimtab_sim::workload::synced::SyncedWorkload;
use trimtab_sim::workload::tree::{Tree, TreeList};

/// Capacity of the scaled-down drives.
pub const SIZE: Bytes = Bytes(1 << 30);
const SMALL: u64 = 4096;
/// Sustained random writes on a full drive.
const IN_THE_END: &str = "random writes in the end";
const MIXED: usize = 6000;

/// One figure of a workload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WorkloadFigure {
    /// Name of the workload.
    pub workload: &'static str,
    /// Kind of the figure.
    pub what: What,
    /// Operations per second, nanoseconds, seconds or a ratio, according to `what`.
    pub value: f64,
}

named! {
    "kind of figure"
    /// The kind of a figure.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum What {
        /// Operations per second.
        Rate = "operations/s",
        /// Mean latency in nanoseconds.
        Mean = "mean latency",
        /// The 99th percentile of the latency, in nanoseconds.
        P99 = "p99 latency",
        /// Seconds.
        Time = "time",
        /// Flash bytes per host byte.
        Ratio = "write amplification",
    }
}

/// Figures of a drive of `spec` under all workloads. `None` if it cannot be scaled down,
/// or fails.
pub fn figures(spec: &DriveSpec, seed: u64) -> Option<Vec<WorkloadFigure>> {
    let small = SmallDrive::of(spec, SIZE).ok()?.spec;
    let mut all = Vec::new();
    blocks(&small, seed, &mut all).ok()?;
    tree(&small, seed, &mut all)?;
    postmark(&small, &mut all)?;
    Some(all)
}

/// Nine in ten values lie within this many standard deviations.
const NINE_OF_TEN: f64 = 1.645;

/// Residual deviation of the best drive of an ensemble, as a standard deviation of
/// logarithms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ResidualDeviation {
    /// From the probes of a small part.
    pub part: f64,
    /// From the probes of the whole drive.
    pub whole: f64,
}

impl ResidualDeviation {
    /// Residual deviation of `fitted`.
    pub fn of(fitted: &FitResult) -> Self {
        Self { part: fitted.off, whole: fitted.whole.map_or(fitted.off, |whole| whole.off) }
    }
}

/// Prediction of an ensemble for one figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    /// Name of the workload.
    pub workload: &'static str,
    /// Kind of the figure.
    pub what: What,
    /// Median of the members.
    pub median: f64,
    /// 5th percentile.
    pub low: f64,
    /// 95th percentile.
    pub high: f64,
}

impl Prediction {
    /// Widens the interval by the residual deviation of the model. The spread of the
    /// members only covers what is unknown about a drive that the model reproduces
    /// perfectly.
    pub fn widened(self, unexplained: ResidualDeviation) -> Self {
        let Self { median, low, high, .. } = self;
        let more = NINE_OF_TEN * if self.collects() { unexplained.whole } else { unexplained.part };
        if low <= 0.0 || more <= 0.0 {
            return self;
        }
        let half = |ratio: f64| libm::sqrt(libm::log(ratio) * libm::log(ratio) + more * more);
        Self {
            low: median / libm::exp(half(median / low)),
            high: median * libm::exp(half(high / median)),
            ..self
        }
    }

    fn collects(&self) -> bool {
        self.workload == IN_THE_END || self.workload.starts_with("churn")
    }

    /// True if `value` lies in the interval, extended by `share` for clock resolution.
    pub fn holds(&self, value: f64, share: f64) -> bool {
        value >= self.low * (1.0 - share) && value <= self.high * (1.0 + share)
    }
}

/// Predictions from the figures of the members; empty without members.
pub fn predictions(shown: &[Vec<WorkloadFigure>]) -> Vec<Prediction> {
    let Some(first) = shown.first() else { return Vec::new() };
    let one = |(nth, figure): (usize, &WorkloadFigure)| {
        let mut values: Vec<f64> =
            shown.iter().filter_map(|all| all.get(nth)).map(|one| one.value).collect();
        values.sort_by(f64::total_cmp);
        let (low, high) = interval(&values);
        Prediction {
            workload: figure.workload,
            what: figure.what,
            median: analysis::middle(&values),
            low,
            high,
        }
    };
    first.iter().enumerate().map(one).collect()
}

/// 95th percentile of Student's t for 1 to 17 degrees of freedom.
const STUDENT: [f64; 17] = [
    6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833, 1.812, 1.796, 1.782, 1.771,
    1.761, 1.753, 1.746, 1.740,
];

/// Bounds that the next value exceeds with a probability of one in twenty per side.
///
/// The next value lies below the k-th of n values with a probability of k / (n + 1).
/// Fewer than nineteen values do not reach that far; their logarithms are then assumed to
/// be normal, with a spread estimated from these few.
fn interval(sorted: &[f64]) -> (f64, f64) {
    let count = sorted.len();
    let (least, most) = (sorted[0], sorted[count - 1]);
    let place = (count + 1) as f64 / 20.0;
    if place >= 1.0 {
        let below = place as usize;
        let share = place - below as f64;
        let between = |near: f64, far: f64| near + (far - near) * share;
        return (
            between(sorted[below - 1], sorted[below]),
            between(sorted[count - below], sorted[count - below - 1]),
        );
    }
    let Some(student) =
        count.checked_sub(2).and_then(|freedom| STUDENT.get(freedom)).filter(|_| least > 0.0)
    else {
        return (least, most);
    };
    let mean = sorted.iter().map(|value| libm::log(*value)).sum::<f64>() / count as f64;
    let squares = sorted
        .iter()
        .map(|value| (libm::log(*value) - mean) * (libm::log(*value) - mean))
        .sum::<f64>();
    let half = student * libm::sqrt(squares / (count - 1) as f64 * (1.0 + 1.0 / count as f64));
    (least.min(libm::exp(mean - half)), most.max(libm::exp(mean + half)))
}

fn add(all: &mut Vec<WorkloadFigure>, workload: &'static str, stream: &Stream) {
    let count = stream.latencies.len().max(1) as f64;
    let mean = stream.latencies.iter().map(|latency| latency.0 as f64).sum::<f64>() / count;
    all.push(WorkloadFigure {
        workload,
        what: What::Rate,
        value: count * 1e9 / stream.took.0.max(1) as f64,
    });
    all.push(WorkloadFigure { workload, what: What::Mean, value: mean });
    all.push(WorkloadFigure { workload, what: What::P99, value: stream.percentile_ns(99) });
}

/// Mixed reads and writes at three depths on a half-full drive, and sustained random
/// writes.
fn blocks(spec: &DriveSpec, seed: u64, all: &mut Vec<WorkloadFigure>) -> TargetResult {
    let Ok(drive) = model::build(spec, seed) else { return Ok(()) };
    let mut target = DriveTarget::new(drive, DEPTH_MAX);
    let mut lab = ProbeSession::new(&mut target);
    let capacity = spec.capacity_bytes / FILL * FILL;
    fill(&mut lab, 0, capacity / 2)?;
    for (depth, name) in
        [(1, "mixed, 1 in flight"), (4, "mixed, 4 in flight"), (32, "mixed, 32 in flight")]
    {
        lab.idle(Nanos::from_secs(60));
        let mut random = Random::new(seed, name);
        let commands = (0..MIXED).map(|_| {
            let place = random.below(capacity / 2 / SMALL) * SMALL;
            let extent = Extent { offset: place, len: SMALL };
            if random.chance(0.7) {
                Command::Read(extent)
            } else {
                Command::Write(extent, DataClass::Random)
            }
        });
        add(all, name, &lab.stream(depth, commands)?);
    }
    fill(&mut lab, capacity / 2, capacity)?;
    let mut random = Random::new(seed, "random writes");
    let writes = (capacity * 2 / SMALL) as usize;
    let mut places = (0..writes).map(|_| {
        Command::Write(
            Extent { offset: random.below(capacity / SMALL) * SMALL, len: SMALL },
            DataClass::Random,
        )
    });
    lab.stream(32, places.by_ref().take(writes * 3 / 4))?;
    add(all, IN_THE_END, &lab.stream(32, places)?);
    if spec.flash.trim.supported {
        trims(&mut lab, capacity, seed, all)?;
    }
    Ok(())
}

/// Sequential TRIMs of many sizes, with one read in flight during each.
fn trims(
    lab: &mut ProbeSession<'_>,
    capacity: u64,
    seed: u64,
    all: &mut Vec<WorkloadFigure>,
) -> TargetResult {
    lab.idle(Nanos::from_secs(60));
    let mut random = Random::new(seed, "trims");
    let commands = (0..TRIMS).map(|nth| {
        // Each piece has its own part of the first half, so that nothing is trimmed
        // twice.
        let part = capacity / 2 / TRIMS / SMALL * SMALL;
        let len = (random.between(1, part / SMALL) * SMALL).min(part);
        Command::Trim(Ranges::One(Extent { offset: nth * part, len }))
    });
    let mut places = Random::new(seed, "reads beside trims");
    let beside = || {
        Some(Command::Read(Extent {
            offset: capacity / 2 + places.below(capacity / 2 / SMALL) * SMALL,
            len: SMALL,
        }))
    };
    let (trims, reads) = lab.streams(1, commands, beside)?;
    add(all, "trims", &trims);
    add(all, "reads beside trims", &reads);
    Ok(())
}

const TRIMS: u64 = 400;
const FILL: u64 = 1 << 20;

fn fill(lab: &mut ProbeSession<'_>, from: u64, to: u64) -> TargetResult {
    write(lab, from, to)?;
    lab.idle(Nanos::from_secs(60));
    Ok(())
}

fn write(lab: &mut ProbeSession<'_>, from: u64, to: u64) -> TargetResult {
    if to < from + FILL {
        return Ok(());
    }
    let commands = (from / FILL..to / FILL)
        .map(|nth| Command::Write(Extent { offset: nth * FILL, len: FILL }, DataClass::Random));
    lab.stream(4, commands)?;
    lab.one(Command::Flush)?;
    Ok(())
}

fn volume(spec: &DriveSpec) -> Option<SteeredVolume<Box<dyn Model>>> {
    let drive = model::build(spec, 1).ok()?;
    let volume = Volume::format(drive, VolumeSpec::ext4(), Nanos::ZERO).ok()?;
    Some(SteeredVolume::new(volume, PolicySpec::None.build(&PolicyState::default()), WRITTEN_STEP))
}

fn tree(spec: &DriveSpec, seed: u64, all: &mut Vec<WorkloadFigure>) -> Option<()> {
    let list =
        TreeList::synthetic(3000, Bytes(60_000_000), DataClass::Compressible(30), seed).ok()?;
    let outcome = files::run(&mut Tree::new(Arc::new(list), 1), &mut volume(spec)?, &mut ());
    let took = outcome.recorded.phases.iter().map(|phase| phase.took.as_secs_f64()).sum();
    (outcome.end == RunEnd::Complete)
        .then(|| all.push(WorkloadFigure { workload: "tree", what: What::Time, value: took }))
}

fn postmark(spec: &DriveSpec, all: &mut Vec<WorkloadFigure>) -> Option<()> {
    let settings = PostmarkSettings {
        number: 1000,
        transactions: 2000,
        size_high: 60_000,
        ..PostmarkSettings::default()
    };
    let outcome = files::run(
        &mut SyncedWorkload::new(Postmark::new(&settings).ok()?),
        &mut volume(spec)?,
        &mut (),
    );
    let took = outcome.recorded.phases.iter().map(|phase| phase.took.as_secs_f64()).sum();
    (outcome.end == RunEnd::Complete)
        .then(|| all.push(WorkloadFigure { workload: "postmark", what: What::Time, value: took }))
}
