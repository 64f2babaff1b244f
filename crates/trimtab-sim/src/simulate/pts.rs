//! Tests of SNIA's Performance Test Specification 2.0.2: stages of rounds of test points
//! as data, and one runner for modelled and real drives.

use crate::analysis::steady::{ROUNDS as WINDOW, SteadyState, steady_state};
use crate::run::{
    Axis, Better, Field, LatencyPart, Metric, Phase, Run, Series, Severity, Unit, Warning, metrics,
};
use crate::runner::{RunEnd, RunOutcome};
use crate::target::TargetError;
use crate::workload::jobs::{Job, JobAddresses, JobMix, depth_max, written_max};
use crate::workload::synthetic::Pattern;
use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::ControlFlow;
use trimtab_drive::histogram::Histogram;
use trimtab_drive::named;
use trimtab_drive::rng::derive_seed;
use trimtab_drive::spec::DriveSpec;
use trimtab_drive::spec::layout::SsdLayout;
use trimtab_drive::units::{Bytes, Nanos};
use trimtab_drive::usage::UsageError;

named! {
    "test"
    /// A test, by its name in the specification.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum PtsTest {
        /// Random requests of many sizes and mixes.
        Iops = "iops",
        /// Sequential reads and writes.
        Throughput = "tp",
        /// Latency of single requests.
        Latency = "lat",
        /// 4 KiB random writes to a new drive.
        WriteSaturation = "wsat",
        /// Bursts of writes with idle times between them.
        HostIdleRecovery = "hir",
        /// Sequential writes before and after random ones.
        CrossStimulusRecovery = "xsr",
        /// The mixed sizes of JESD219A at many queue depths.
        CompositeBlockSize = "cbw",
        /// Random 8 KiB requests at many queue depths.
        DemandIntensity = "dirth",
    }
}

impl PtsTest {
    /// Name of its runs.
    #[must_use]
    pub fn workload(self) -> String {
        format!("pts-{self}")
    }

    /// Minutes of the specification that together transfer the capacity of a modelled
    /// drive.
    const fn minutes_per_capacity(self) -> u64 {
        if matches!(self, Self::WriteSaturation) { 32 } else { MINUTES_PER_CAPACITY }
    }

    /// Figures of each test point. The first decides the steady state.
    #[must_use]
    pub const fn figures(self) -> &'static [PtsFigure] {
        use PtsFigure::{Iops, LatencyMax, LatencyMean, LatencyTail, Rate};
        match self {
            Self::Iops | Self::HostIdleRecovery => &[Iops],
            Self::Throughput => &[Rate],
            Self::Latency => &[LatencyMean, LatencyTail, LatencyMax],
            Self::CrossStimulusRecovery => &[Rate, LatencyMean, LatencyMax],
            Self::WriteSaturation | Self::CompositeBlockSize | Self::DemandIntensity => {
                &[Iops, LatencyMean, LatencyTail, LatencyMax]
            }
        }
    }
}

named! {
    "figure"
    /// A figure of a test point in one round, by the suffix of its metric and series.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum PtsFigure {
        /// Requests per second.
        Iops = "iops",
        /// MB/s.
        Rate = "rate",
        /// Mean latency.
        LatencyMean = "mean-latency",
        /// 99.999th percentile of the latency.
        LatencyTail = "p99.999-latency",
        /// Largest latency.
        LatencyMax = "max-latency",
    }
}

impl PtsFigure {
    const fn unit(self) -> (Unit, Better) {
        match self {
            Self::Iops => (Unit::OpsPerSecond, Better::Higher),
            Self::Rate => (Unit::MegabytesPerSecond, Better::Higher),
            Self::LatencyMean | Self::LatencyTail | Self::LatencyMax => {
                (Unit::Nanos, Better::Lower)
            }
        }
    }

    fn of(self, phase: &Phase) -> f64 {
        let seconds = phase.took.as_secs_f64();
        if self == Self::Iops {
            return phase.ops_total() as f64 / seconds;
        }
        if self == Self::Rate {
            return (phase.read.as_f64() + phase.written.as_f64()) / seconds / 1e6;
        }
        let mut all = Histogram::new();
        let latencies = phase.latencies.iter();
        latencies
            .filter(|latency| latency.part == LatencyPart::Total)
            .for_each(|latency| all.merge(&latency.histogram));
        match self {
            Self::LatencyMax => all.max().as_f64(),
            Self::LatencyTail => all.percentile(99.999).as_f64(),
            _ => all.mean_ns(),
        }
    }
}

/// Setting: bytes of the drive.
pub const CAPACITY: &str = "capacity";
/// Setting: bytes that stand for a minute of the specification.
pub const MINUTE_BYTES: &str = "minute.bytes";
/// Setting: time that stands for a minute of the specification.
pub const MINUTE_TIME: &str = "minute.time";
/// Metric: completed rounds.
pub const ROUNDS: &str = "rounds";
/// Metric: 1 if the window is steady, else 0.
pub const STEADY: &str = "steady.reached";
/// Metric: largest minus smallest value of the window, in percent of its mean.
pub const RANGE: &str = "steady.range";
/// Metric: slope of the linear fit, in units of the value from one value to the next.
pub const SLOPE: &str = "steady.slope";
/// Metric: change of the linear fit over the window, in percent of its mean.
pub const EXCURSION: &str = "steady.excursion";
/// Metric of a stage whose queue depth earlier figures chose.
pub const QUEUE_DEPTH: &str = "queue-depth";

const MINUTES_PER_CAPACITY: u64 = 64;
const MINUTE: Nanos = Nanos::from_secs(60);
/// Rounds after which a stage ends without a steady state.
const ROUNDS_MAX: u64 = 25;
/// Largest mean latency of the highest demand.
const DEMAND_LATENCY_MAX_NS: f64 = 5e6;
/// Threads, and requests in flight of each, of the demand tests.
const DEMANDS: [u32; 7] = [32, 16, 8, 6, 4, 2, 1];
/// A minute is short with fewer times as many requests as in flight.
const ROUND_REQUESTS: u64 = 20;
const KIB: u32 = 1024;
const MIB: u32 = KIB * KIB;
/// Size of random writes that decide most steady states, as the specification writes it.
const TRACKED: (u32, &str) = (4 * KIB, "4KiB");

/// Length of a test point by the specification.
#[derive(Clone, Copy, Debug)]
enum PtsLength {
    Time(Nanos),
    /// The capacity of the drive, this many times.
    Capacities(u64),
}

/// A test point.
#[derive(Clone, Debug)]
pub struct PtsPoint {
    /// Row of the report's table.
    pub row: String,
    /// Column of the report's table.
    pub column: String,
    /// Requests; the name begins its metrics.
    pub job: Job,
    length: PtsLength,
    /// Idle time afterwards.
    idle: Nanos,
}

impl PtsPoint {
    fn new(row: &str, column: &str, job: Job) -> Self {
        let (row, column) = (row.to_owned(), column.to_owned());
        Self { row, column, job, length: PtsLength::Time(MINUTE), idle: Nanos::ZERO }
    }
}

/// Condition that ends a stage before its largest number of rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StageEnd {
    Rounds,
    Steady,
    /// The capacity was written this many times.
    Written(u64),
}

/// A demand chosen from the figures of an earlier stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Demand {
    /// One request in flight.
    Least,
    /// IOPS closest to the middle between the other two.
    Middle,
    /// The highest IOPS with a mean latency below 5 ms.
    Most,
}

/// Rounds of test points.
#[derive(Clone, Debug)]
pub struct PtsStage {
    /// Begins the names of its proof; empty if it is the only stage.
    pub name: String,
    /// Purge first. A test begins on a purged drive.
    purged: bool,
    /// Points that run once, before the rounds.
    before: Vec<PtsPoint>,
    /// Points of a round.
    pub points: Vec<PtsPoint>,
    /// Largest number of rounds.
    pub rounds_max: u64,
    end: StageEnd,
    /// Point that decides the steady state.
    pub tracked: Option<usize>,
    demand: Option<Demand>,
}

impl PtsStage {
    fn rounds(name: &str, rounds_max: u64, points: Vec<PtsPoint>) -> Self {
        Self {
            name: name.to_owned(),
            purged: false,
            before: Vec::new(),
            points,
            rounds_max,
            end: StageEnd::Rounds,
            tracked: None,
            demand: None,
        }
    }

    /// Rounds until the figures of `job` are steady.
    fn until_steady(name: &str, job: &str, points: Vec<PtsPoint>) -> Self {
        let tracked = points.iter().position(|point| point.job.name == job);
        Self { tracked, end: StageEnd::Steady, ..Self::rounds(name, ROUNDS_MAX, points) }
    }

    /// Rounds at the end whose figures are reported: the measurement window, or the last
    /// sixth of a stage without one.
    fn window(&self) -> usize {
        if self.tracked.is_some() { WINDOW } else { WINDOW.max(self.rounds_max as usize / 6) }
    }

    /// Rounds that each value of the window stands for, of `count`. Of a fixed amount of
    /// writes, the window is the last capacity: a drive that slows evenly looks steady over
    /// less.
    #[must_use]
    pub fn rounds_per_value(&self, count: usize) -> usize {
        match self.end {
            StageEnd::Written(capacities) => (count / capacities as usize / WINDOW).max(1),
            _ => 1,
        }
    }

    /// Name of one of its metrics.
    #[must_use]
    pub fn metric(&self, name: &str) -> String {
        if self.name.is_empty() { name.to_owned() } else { format!("{}.{name}", self.name) }
    }
}

fn random(name: &str, block: u32, reads: u8, depth: u32) -> Job {
    let (mix, addresses) = (JobMix::of_reads(reads), JobAddresses::Drawn(Pattern::Uniform, 100));
    Job { mix, addresses, block, depth, ..Job::new(name) }
}

fn sequential(name: &str, block: u32, mix: JobMix, depth: u32) -> Job {
    Job { mix, block, depth, ..Job::new(name) }
}

/// Random requests of all sizes and mixes, largest first.
fn grid(sizes: &[(u32, &str)], mixes: &[u8], depth: u32) -> Vec<PtsPoint> {
    let point = |reads: u8, (block, size): (u32, &str)| {
        let name = format!("read-{reads}%.{size}");
        let column = format!("{reads}/{}", 100 - reads);
        PtsPoint::new(size, &column, random(&name, block, reads, depth))
    };
    mixes.iter().flat_map(|reads| sizes.iter().map(move |size| point(*reads, *size))).collect()
}

/// Preconditioning that does not depend on the test: the capacity twice, in order.
fn fill(name: &str, block: u32, depth: u32) -> PtsPoint {
    let job = sequential(name, block, JobMix::Write, depth);
    PtsPoint { length: PtsLength::Capacities(2), ..PtsPoint::new("", "", job) }
}

/// Preconditioning by writes of one kind: rounds of 30 minutes, until those of the last
/// minute are steady.
fn precondition(job: &Job, column: &str) -> PtsStage {
    let name = "precondition";
    let point = |name: &str, row, minutes: u64| PtsPoint {
        length: PtsLength::Time(Nanos(MINUTE.0 * minutes)),
        ..PtsPoint::new(row, column, Job { name: name.to_owned(), ..job.clone() })
    };
    let first = point("precondition.first", "precondition, 29 min", 29);
    PtsStage::until_steady(name, name, vec![first, point(name, "precondition, 30th min", 1)])
}

/// Writes until they are steady; then `mixed` at all demands, until the largest is
/// steady; then the latencies of the least, the middle and the highest demand.
fn demand(writes: &Job, mixed: &Job) -> Vec<PtsStage> {
    let mut depths: Vec<u32> =
        DEMANDS.iter().flat_map(|threads| DEMANDS.map(|each| threads * each)).collect();
    depths.sort_unstable_by_key(|depth| core::cmp::Reverse(*depth));
    depths.dedup();
    let deepest = depths[0];
    let at = |name: &str, row: &str, job: &Job, depth| {
        PtsPoint::new(row, "", Job { name: name.to_owned(), depth, ..job.clone() })
    };
    let name = |depth: u32| format!("outstanding-{depth}");
    let five = PtsLength::Time(Nanos(MINUTE.0 * 5));
    let mut points = vec![PtsPoint { length: five, ..at("pre-write", "writes", writes, deepest) }];
    points.extend(
        depths.iter().map(|depth| at(&name(*depth), &format!("{depth} in flight"), mixed, *depth)),
    );
    let writes = Job { depth: deepest, ..writes.clone() };
    let mut stages =
        vec![precondition(&writes, ""), PtsStage::until_steady("demand", &name(deepest), points)];
    for (demand, name) in
        [(Demand::Least, "least"), (Demand::Middle, "middle"), (Demand::Most, "most")]
    {
        let hour = PtsLength::Time(Nanos(MINUTE.0 * 60));
        let ten = PtsLength::Time(Nanos(MINUTE.0 * 10));
        let pre_write = at(&format!("{name}.pre-write"), "", &writes, 1);
        let measured = at(name, &format!("{name} demand"), mixed, 1);
        stages.push(PtsStage {
            before: vec![PtsPoint { length: hour, ..pre_write }],
            demand: Some(demand),
            ..PtsStage::rounds(name, 1, vec![PtsPoint { length: ten, ..measured }])
        });
    }
    stages
}

/// Sequential reads and writes, of two sizes.
fn throughput(depth: u32) -> Vec<PtsStage> {
    [(128 * KIB, "128KiB"), (MIB, "1MiB")]
        .into_iter()
        .map(|(block, size)| {
            let point = |kind: &str, mix| {
                let job = sequential(&format!("{kind}.{size}"), block, mix, depth);
                PtsPoint::new(size, kind, job)
            };
            let points = vec![point("read", JobMix::Read), point("write", JobMix::Write)];
            PtsStage {
                purged: block == MIB,
                before: vec![fill(&format!("precondition.{size}"), block, depth)],
                ..PtsStage::until_steady(size, &format!("write.{size}"), points)
            }
        })
        .collect()
}

/// Bursts of random writes, with idle time between them and then without.
fn idle_recovery(depth: u32) -> Vec<PtsStage> {
    let burst = Nanos::from_secs(5);
    let (with, without) = ("with idle time", "without idle time");
    let job = |name: &str| random(name, TRACKED.0, 0, depth);
    let mut stages = vec![precondition(&job(""), without)];
    for seconds in [5, 10, 15, 25, 50] {
        let bursts = |name: &str, column: &str, idle| {
            let point = PtsPoint {
                length: PtsLength::Time(burst),
                idle,
                ..PtsPoint::new(&format!("5 s of writes, {seconds} s idle"), column, job(name))
            };
            PtsStage::rounds(name, 360, vec![point])
        };
        stages.push(bursts(&format!("idle-{seconds}s"), with, Nanos::from_secs(seconds)));
        stages.push(bursts(&format!("after-{seconds}s"), without, Nanos::ZERO));
    }
    stages
}

/// Sequential writes before and after hours of random ones.
fn stimulus_recovery(depth: u32) -> Vec<PtsStage> {
    let group = |name: &str, row: &str, rounds, job: Job| {
        let job = Job { name: name.to_owned(), ..job };
        PtsStage::rounds(name, rounds, vec![PtsPoint::new(row, "", job)])
    };
    let large = sequential("", MIB, JobMix::Write, depth);
    vec![
        group("sequential-before", "8 h of 1 MiB sequential", 480, large.clone()),
        group("random", "6 h of 8 KiB random", 360, random("", 8 * KIB, 0, depth)),
        group("sequential-after", "8 h of 1 MiB sequential, again", 480, large),
    ]
}

/// The stages of a test with `depth` requests in flight where the specification leaves
/// it to the tester, on a drive with blocks of `logical_block` bytes.
fn stages(test: PtsTest, depth: u32, logical_block: u32) -> Vec<PtsStage> {
    let fits = |sizes: &[(u32, &'static str)]| -> Vec<(u32, &'static str)> {
        sizes.iter().copied().filter(|(size, _)| size.is_multiple_of(logical_block)).collect()
    };
    let tracked = format!("read-0%.{}", TRACKED.1);
    match test {
        PtsTest::Iops => {
            let sizes = fits(&[
                (MIB, "1MiB"),
                (128 * KIB, "128KiB"),
                (64 * KIB, "64KiB"),
                (32 * KIB, "32KiB"),
                (16 * KIB, "16KiB"),
                (8 * KIB, "8KiB"),
                TRACKED,
                (512, "512B"),
            ]);
            let points = grid(&sizes, &[100, 95, 65, 50, 35, 5, 0], depth);
            vec![PtsStage {
                before: vec![fill("precondition", 128 * KIB, depth)],
                ..PtsStage::until_steady("", &tracked, points)
            }]
        }
        PtsTest::Throughput => throughput(depth),
        PtsTest::Latency => {
            let sizes = fits(&[(8 * KIB, "8KiB"), TRACKED, (512, "512B")]);
            vec![PtsStage {
                before: vec![fill("precondition", 128 * KIB, depth)],
                ..PtsStage::until_steady("", &tracked, grid(&sizes, &[100, 65, 0], 1))
            }]
        }
        PtsTest::WriteSaturation => vec![PtsStage {
            rounds_max: 24 * 60,
            end: StageEnd::Written(4),
            ..PtsStage::until_steady("", &tracked, grid(&[TRACKED], &[0], depth))
        }],
        PtsTest::HostIdleRecovery => idle_recovery(depth),
        PtsTest::CrossStimulusRecovery => stimulus_recovery(depth),
        PtsTest::CompositeBlockSize => {
            let mixed = Job::jesd219("", logical_block);
            demand(&Job { mix: JobMix::Write, ..mixed.clone() }, &mixed)
        }
        PtsTest::DemandIntensity => {
            demand(&random("", 8 * KIB, 0, depth), &random("", 8 * KIB, 65, depth))
        }
    }
}

/// Meaning of a minute of the specification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PtsMinute {
    /// A share of the capacity, on a modelled drive that starts background collection
    /// after this idle time.
    Bytes(Nanos),
    /// This time.
    Time(Nanos),
}

/// The stages of a test on a drive.
#[derive(Clone, Debug)]
pub struct PtsPlan {
    /// The test.
    pub test: PtsTest,
    /// Stages in order.
    pub stages: Vec<PtsStage>,
    minute: PtsMinute,
    capacity: Bytes,
}

impl PtsPlan {
    /// The plan of `test` with `depth` requests in flight, on a drive of `capacity` with
    /// blocks of `logical_block` bytes.
    ///
    /// # Errors
    /// The drive is too small.
    pub fn new(
        test: PtsTest,
        depth: u32,
        minute: PtsMinute,
        capacity: Bytes,
        logical_block: u32,
    ) -> Result<Self, UsageError> {
        if capacity.0 < (MINUTES_PER_CAPACITY << 20) {
            let problem = format!(
                "a drive of {capacity} is too small: the largest request has 1 MiB, and each \
                    test point transfers up to 1/{MINUTES_PER_CAPACITY} of the drive"
            );
            return Err(UsageError::new(problem).hint("use at least --capacity 64MiB"));
        }
        Ok(Self { test, stages: stages(test, depth, logical_block), minute, capacity })
    }

    /// The plan of a stored run, as its report needs it; `None` for other workloads. Points
    /// of requests smaller than the blocks of the drive have no figures in the run.
    pub fn of_run(run: &Run) -> Option<(Self, Bytes)> {
        let test = run.workload.strip_prefix("pts-")?.parse().ok()?;
        let capacity = Bytes(Field::find(&run.settings, CAPACITY)?.parse().ok()?);
        Some((Self::new(test, 1, PtsMinute::Time(MINUTE), capacity, 512).ok()?, capacity))
    }

    /// Bytes that stand for a minute: whole requests of every size.
    #[must_use]
    pub const fn minute_bytes(&self) -> Bytes {
        Bytes((self.capacity.0 / self.test.minutes_per_capacity()) >> 20 << 20)
    }

    /// The job of a point with its length; sequential requests continue at `position`.
    fn job(&self, point: &PtsPoint, position: u64) -> Job {
        let job = Job { waits: true, ..point.job.clone() };
        let block = u64::from(job.block);
        let sequential = job.addresses == JobAddresses::Sequential;
        let starts = if sequential { position % (self.capacity.0 / block * block) } else { 0 };
        match (point.length, self.minute) {
            (PtsLength::Capacities(loops), _) => Job { loops, ..job },
            (PtsLength::Time(time), PtsMinute::Time(minute)) => {
                let runtime = Some(scaled(time, minute));
                Job { runtime, time_based: true, starts, ..job }
            }
            (PtsLength::Time(time), PtsMinute::Bytes(_)) => {
                let bytes = scaled(time, Nanos(self.minute_bytes().0)).0;
                // Requests below 4 KiB are as many as those of 4 KiB.
                let unit = if job.split.is_empty() { block.max(TRACKED.0.into()) } else { block };
                let requests = (bytes / unit).max(1);
                // The queue is full between the rounds of the specification, and a minute
                // of a modelled drive has few requests.
                let fills = u64::from(job.depth.saturating_sub(1)).min(requests / 2);
                Job { io_size: Some(requests * block), latencies_after: fills, starts, ..job }
            }
        }
    }

    /// The jobs of a stage, once before its rounds and once a round.
    fn jobs(&self, stage: &PtsStage) -> (Vec<Job>, Vec<Job>) {
        let jobs = |points: &[PtsPoint]| points.iter().map(|point| self.job(point, 0)).collect();
        (jobs(&stage.before), jobs(&stage.points))
    }

    /// Each job once.
    #[must_use]
    pub fn all_jobs(&self) -> Vec<Job> {
        let jobs = self.stages.iter().map(|stage| self.jobs(stage));
        jobs.flat_map(|(before, round)| before.into_iter().chain(round)).collect()
    }

    /// Largest number of requests in flight.
    #[must_use]
    pub fn depth_max(&self) -> u32 {
        depth_max(&self.all_jobs())
    }

    /// Largest number of requests in flight at a test point.
    #[must_use]
    pub fn point_depth(&self) -> u32 {
        let points = self.stages.iter().flat_map(|stage| &stage.points);
        points.map(|point| point.job.depth).max().unwrap_or(1)
    }

    /// Upper bound on the bytes written.
    #[must_use]
    pub fn written_max(&self) -> Bytes {
        let of = |stage: &PtsStage| {
            let (before, round) = self.jobs(stage);
            let round = written_max(&round, self.capacity).0.max(1);
            let rounds = match stage.end {
                StageEnd::Written(capacities) => {
                    stage.rounds_max.min((self.capacity.0 * capacities).div_ceil(round))
                }
                _ => stage.rounds_max,
            };
            written_max(&before, self.capacity).saturating_add(Bytes(round.saturating_mul(rounds)))
        };
        self.stages.iter().map(of).fold(Bytes::ZERO, Bytes::saturating_add)
    }

    /// Idle time after a point that took `took`.
    fn idle(&self, point: &PtsPoint, took: Nanos) -> Nanos {
        match (self.minute, point.length) {
            (PtsMinute::Time(minute), _) => scaled(point.idle, minute),
            // The drive's own delay does not shrink with its capacity.
            (PtsMinute::Bytes(delay), PtsLength::Time(length)) => {
                let rest = point.idle.saturating_sub(delay).as_f64() * took.as_f64();
                point.idle.min(delay).saturating_add(Nanos((rest / length.as_f64()) as u64))
            }
            (PtsMinute::Bytes(_), PtsLength::Capacities(_)) => point.idle,
        }
    }
}

/// `time` of the specification if its minute is `minute`.
fn scaled(time: Nanos, minute: Nanos) -> Nanos {
    Nanos((u128::from(time.0) * u128::from(minute.0) / u128::from(MINUTE.0)) as u64)
}

/// A drive under test.
pub trait PtsDevice {
    /// Reason why the test ends without a result.
    type Error;

    /// Runs jobs one after the other.
    ///
    /// # Errors
    /// A job does not fit the drive.
    fn run(&mut self, jobs: &[Job], seed: u64) -> Result<RunOutcome, Self::Error>;

    /// Waits without requests.
    fn idle(&mut self, time: Nanos);

    /// Returns the drive to its state before all writes, where that is possible.
    ///
    /// # Errors
    /// The purge failed.
    fn purge(&mut self) -> Result<(), Self::Error>;

    /// Bytes written to the flash, if they are counted.
    fn flash_written(&self) -> Option<u64>;
}

/// A completed round.
#[derive(Clone, Debug)]
struct PtsRound {
    /// Figures of each point.
    figures: Vec<Vec<f64>>,
    /// Bytes written by the host since the first round of the test, before and after it.
    host: (u64, u64),
    /// Bytes written to the flash, before and after it.
    flash: Option<(u64, u64)>,
}

/// Completed rounds of a stage.
#[derive(Clone, Debug, Default)]
pub struct StageRounds {
    rounds: Vec<PtsRound>,
    /// Queue depth of a chosen demand.
    depth: Option<u32>,
}

impl StageRounds {
    /// One figure of one point in all rounds.
    fn of(&self, point: usize, figure: usize) -> Vec<f64> {
        self.rounds.iter().map(|round| round.figures[point][figure]).collect()
    }

    /// Values of the window of `stage`: means, or the largest of tails.
    fn last(&self, stage: &PtsStage, point: usize, test: PtsTest, figure: usize) -> Vec<f64> {
        let values = self.of(point, figure);
        let each = stage.rounds_per_value(values.len());
        let window = &values[values.len().saturating_sub(each * stage.window())..];
        let is_tail =
            matches!(test.figures()[figure], PtsFigure::LatencyTail | PtsFigure::LatencyMax);
        let value = |of: &[f64]| {
            if is_tail {
                of.iter().copied().fold(0.0, f64::max)
            } else {
                of.iter().sum::<f64>() / of.len() as f64
            }
        };
        window.chunks(each).map(value).collect()
    }

    /// Write amplification of `rounds`.
    fn waf(rounds: &[PtsRound]) -> Option<f64> {
        let (first, last) = (rounds.first()?, rounds.last()?);
        let flash = last.flash?.1 - first.flash?.0;
        Some(flash as f64 / (last.host.1 - first.host.0).max(1) as f64)
    }
}

/// Queue depth of `demand` by the figures of the last stage that ended steady or after
/// all its rounds.
fn chosen_depth(plan: &PtsPlan, done: &[StageRounds], demand: Demand) -> u32 {
    let Some((at, stage)) =
        plan.stages[..done.len()].iter().enumerate().rfind(|(_, stage)| stage.points.len() > 1)
    else {
        return 1;
    };
    let figure = |wanted| plan.test.figures().iter().position(|one| *one == wanted);
    let mean = |point, wanted| {
        let values = done[at].last(stage, point, plan.test, figure(wanted).unwrap_or(0));
        values.iter().sum::<f64>() / values.len().max(1) as f64
    };
    let points: Vec<(u32, f64, f64)> = (1..stage.points.len())
        .map(|at| {
            let depth = stage.points[at].job.depth;
            (depth, mean(at, PtsFigure::Iops), mean(at, PtsFigure::LatencyMean))
        })
        .collect();
    let least = points.last().copied().unwrap_or((1, 0.0, 0.0));
    let allowed = points.iter().filter(|(.., latency)| *latency < DEMAND_LATENCY_MAX_NS);
    let most = allowed.clone().copied().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or(least);
    let middle = (least.1 + most.1) / 2.0;
    let distance = |point: &&(u32, f64, f64)| libm::fabs(point.1 - middle);
    match demand {
        Demand::Least => least.0,
        Demand::Most => most.0,
        Demand::Middle => allowed
            .min_by(|a, b| distance(a).total_cmp(&distance(b)))
            .map_or(least.0, |(depth, ..)| *depth),
    }
}

/// A warning if the caches of the modelled drive hold three quarters of the writes of a
/// round that also reads, or if a demand has few requests for those in flight.
#[must_use]
pub fn short_rounds(plan: &PtsPlan, spec: &DriveSpec) -> Option<Warning> {
    let flash = &spec.flash;
    let layout = SsdLayout::new(spec, flash).ok()?;
    let slc = u64::from(layout.slc_superblocks_min) * u64::from(layout.slc_superblock_slots);
    let cache = slc * layout.slot_bytes + flash.write_cache.bytes;
    let reads = |stage: &&PtsStage| {
        stage.tracked.is_some() && stage.points.iter().any(|one| one.job.mix != JobMix::Write)
    };
    let written = |stage: &PtsStage| written_max(&plan.jobs(stage).1, plan.capacity).0;
    let least = plan.stages.iter().filter(reads).map(written).min();
    let requests = plan.minute_bytes().0 / u64::from(TRACKED.0);
    let problem = if let Some(least) = least.filter(|least| cache >= least / 4 * 3) {
        format!(
            "a round writes {}, and the drive's caches hold {}, so its rates are too high",
            Bytes(least),
            Bytes(cache)
        )
    } else if requests < ROUND_REQUESTS * u64::from(plan.point_depth()) {
        format!(
            "a minute has {requests} requests of 4 KiB, less than {ROUND_REQUESTS} times those in \
             flight, so its first and last requests count"
        )
    } else {
        return None;
    };
    let text = format!("{problem}; use a larger --capacity");
    Some(Warning::new("pts.short-rounds", Severity::Caution, text))
}

/// Runs the stages on a purged drive. Keeps the phases of preconditioning and of the
/// points that decide a steady state, else those of the last round.
///
/// # Errors
/// The jobs do not fit the drive, or a purge failed.
pub fn measure<D: PtsDevice>(
    plan: &PtsPlan,
    seed: u64,
    device: &mut D,
) -> Result<(Vec<StageRounds>, RunOutcome), D::Error> {
    let mut outcome = RunOutcome { recorded: Default::default(), end: RunEnd::Complete };
    let mut done: Vec<StageRounds> = Vec::new();
    let mut host: Option<u64> = None;
    for stage in &plan.stages {
        if stage.purged {
            device.purge()?;
        }
        let mut stage = stage.clone();
        let depth = stage.demand.map(|demand| chosen_depth(plan, &done, demand));
        let mut rounds = StageRounds { rounds: Vec::new(), depth };
        if let Some(depth) = depth {
            stage.before.iter_mut().chain(&mut stage.points).for_each(|one| one.job.depth = depth);
        }
        let (before, _) = plan.jobs(&stage);
        if !before.is_empty() {
            let prepared = device.run(&before, seed)?;
            outcome.end = prepared.end;
            host = host.map(|host| host + written(&prepared.recorded.phases));
            outcome.recorded.phases.extend(prepared.recorded.phases);
        }
        let start = *host.get_or_insert(0);
        let mut positions = vec![0; stage.points.len()];
        while outcome.end == RunEnd::Complete && !ended(plan, &stage, &rounds, start) {
            let seed =
                derive_seed(seed, &stage.metric(&format!("pts.round.{}", rounds.rounds.len())));
            let written = host.unwrap_or(0);
            let (round, mut phases) =
                match measure_round(plan, &stage, seed, device, &mut positions, written)? {
                    ControlFlow::Continue(measured) => measured,
                    ControlFlow::Break(end) => {
                        outcome.end = end;
                        done.push(rounds);
                        return Ok((done, outcome));
                    }
                };
            host = Some(round.host.1);
            rounds.rounds.push(round);
            match stage.tracked {
                Some(at) => outcome.recorded.phases.push(phases.swap_remove(at)),
                None if rounds.rounds.len() as u64 == stage.rounds_max => {
                    outcome.recorded.phases.append(&mut phases);
                }
                None => {}
            }
        }
        done.push(rounds);
        if outcome.end != RunEnd::Complete {
            break;
        }
    }
    Ok((done, outcome))
}

/// A round and its phases, or the end of the run.
type MeasuredRound = ControlFlow<RunEnd, (PtsRound, Vec<Phase>)>;

/// Runs the points of a stage once. `positions` holds the bytes that each point has
/// transferred, and the host has written `host` bytes. Breaks if the run ended.
fn measure_round<D: PtsDevice>(
    plan: &PtsPlan,
    stage: &PtsStage,
    seed: u64,
    device: &mut D,
    positions: &mut [u64],
    host: u64,
) -> Result<MeasuredRound, D::Error> {
    let flash = device.flash_written();
    let points = stage.points.iter().zip(&*positions);
    let jobs: Vec<Job> = points.map(|(point, position)| plan.job(point, *position)).collect();
    let RunOutcome { recorded, end } = device.run(&jobs, seed)?;
    if end != RunEnd::Complete {
        return Ok(ControlFlow::Break(end));
    }
    let phases = recorded.phases;
    if let Some(job) = jobs.iter().find(|job| phases.iter().all(|one| one.name != job.name)) {
        // A modelled drive that is worn out completes the run.
        let end = if let PtsMinute::Time(_) = plan.minute {
            let why = "no request completed within its time; set a longer --round-time";
            RunEnd::Failed(TargetError::new("measure", job.name.as_str(), why, None))
        } else {
            RunEnd::Complete
        };
        return Ok(ControlFlow::Break(end));
    }
    let mut figures = Vec::new();
    for ((phase, point), position) in phases.iter().zip(&stage.points).zip(positions) {
        figures.push(plan.test.figures().iter().map(|figure| figure.of(phase)).collect());
        *position += phase.read.0 + phase.written.0;
        if point.idle > Nanos::ZERO {
            device.idle(plan.idle(point, phase.took));
        }
    }
    let round = PtsRound {
        figures,
        host: (host, host + written(&phases)),
        flash: flash.zip(device.flash_written()),
    };
    Ok(ControlFlow::Continue((round, phases)))
}

fn written(phases: &[Phase]) -> u64 {
    phases.iter().map(|phase| phase.written.0).sum()
}

/// True if no further round follows. The host had written `start` bytes before the
/// first.
fn ended(plan: &PtsPlan, stage: &PtsStage, done: &StageRounds, start: u64) -> bool {
    let Some(last) = done.rounds.last() else { return false };
    done.rounds.len() as u64 >= stage.rounds_max
        || match (stage.end, stage.tracked) {
            (StageEnd::Steady, Some(tracked)) => {
                steady(&done.last(stage, tracked, plan.test, 0)).window().is_some()
            }
            (StageEnd::Written(times), _) => last.host.1 - start >= times * plan.capacity.0,
            _ => false,
        }
}

/// The specification's rule for the values of a window.
fn steady(values: &[f64]) -> SteadyState {
    steady_state(values, &[], Bytes::ZERO, 0)
}

/// Adds figures of the last rounds of each stage, the proof of its steady state, and the
/// rounds as series.
pub fn describe(run: &mut Run, plan: &PtsPlan, done: &[StageRounds]) {
    for (stage, rounds) in plan.stages.iter().zip(done) {
        describe_stage(run, plan, stage, rounds);
    }
    let rounds: Vec<&PtsRound> = done.iter().flat_map(|stage| &stage.rounds).collect();
    let waf: Option<Vec<f64>> =
        rounds.iter().map(|round| StageRounds::waf(core::slice::from_ref(round))).collect();
    if let Some(y) = waf.filter(|waf| !waf.is_empty()) {
        let x = rounds.iter().map(|round| round.host.1).collect();
        let (name, axis, unit) = (metrics::WAF.to_owned(), Axis::BytesWritten, Unit::Ratio);
        run.series.push(Series { name, axis, unit, x, y });
    }
}

fn describe_stage(run: &mut Run, plan: &PtsPlan, stage: &PtsStage, done: &StageRounds) {
    let count = done.rounds.len();
    if count == 0 {
        return;
    }
    let x: Vec<u64> = done.rounds.iter().map(|round| round.host.1).collect();
    for (at, point) in stage.points.iter().enumerate() {
        for (nth, figure) in plan.test.figures().iter().enumerate() {
            let (name, (unit, better)) = (format!("{}.{figure}", point.job.name), figure.unit());
            let samples = done.last(stage, at, plan.test, nth);
            run.metrics.push(Metric { name: name.clone(), unit, better, samples });
            let y = done.of(at, nth);
            run.series.push(Series { name, axis: Axis::BytesWritten, unit, x: x.clone(), y });
        }
    }
    let mut metric = |name: &str, unit, better, value| {
        run.metrics.push(Metric::single(stage.metric(name), unit, better, value));
    };
    let window = stage.window() * stage.rounds_per_value(count);
    let window = &done.rounds[count.saturating_sub(window)..];
    if let Some(waf) = StageRounds::waf(window) {
        metric(metrics::WAF, Unit::Ratio, Better::Lower, waf);
    }
    metric(ROUNDS, Unit::Count, Better::Neither, count as f64);
    if let Some(depth) = done.depth {
        metric(QUEUE_DEPTH, Unit::Count, Better::Neither, depth.into());
    }
    let Some(tracked) = stage.tracked else { return };
    let state = steady(&done.last(stage, tracked, plan.test, 0));
    let reached = f64::from(u8::from(state.window().is_some()));
    metric(STEADY, Unit::Count, Better::Neither, reached);
    let (SteadyState::Reached { window, .. } | SteadyState::NotSteady(Some(window))) = state else {
        return;
    };
    metric(RANGE, Unit::Percent, Better::Lower, window.range * 100.0);
    metric(SLOPE, plan.test.figures()[0].unit().0, Better::Neither, window.slope);
    metric(EXCURSION, Unit::Percent, Better::Lower, window.excursion * 100.0);
    if state.window().is_none() {
        let of = if stage.name.is_empty() { String::new() } else { format!("{}: ", stage.name) };
        let text = format!(
            "{of}not steady after {count} rounds: the figures are those of the window, not a \
                steady level"
        );
        run.warnings.push(Warning::new("steady-state.not-reached", Severity::Caution, text));
    }
}
