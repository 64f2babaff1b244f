//! Tests of SNIA's Performance Test Specification 2.0.2 on a modelled drive: IOPS and
//! write saturation. A new drive stands for a purged one; rounds transfer bytes instead
//! of lasting a minute per test point.

use super::worn_out;
use crate::analysis::steady::{ROUNDS as WINDOW, SteadyState, steady_state};
use crate::run::{Axis, Better, Metric, Phase, Run, Series, Severity, Unit, Warning, metrics};
use crate::runner::{Events, RunEnd, RunOutcome, jobs};
use crate::target::BlockTarget as _;
use crate::target::drive::DriveTarget;
use crate::workload::jobs::{Job, JobAddresses, JobMix, groups, written_max};
use crate::workload::synthetic::Pattern;
use alloc::borrow::ToOwned as _;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use trimtab_drive::data::DataClass;
use trimtab_drive::model::Model;
use trimtab_drive::rng::derive_seed;
use trimtab_drive::units::Bytes;
use trimtab_drive::usage::UsageError;

/// The drive of a test.
pub type PtsTarget = DriveTarget<Box<dyn Model>>;

/// Name of runs of the IOPS test.
pub const IOPS: &str = "pts-iops";
/// Name of runs of the write saturation test.
pub const WRITE_SATURATION: &str = "pts-wsat";
/// Setting: bytes of the drive.
pub const CAPACITY: &str = "capacity";
/// Setting: bytes of a test point.
pub const POINT_BYTES: &str = "point.bytes";
/// Setting: bytes of a round of write saturation.
pub const ROUND_BYTES: &str = "round.bytes";
/// Metric: completed rounds.
pub const ROUNDS: &str = "rounds";
/// Metric: 1 if the last five rounds are steady, else 0.
pub const STEADY: &str = "steady.reached";
/// Metric: largest minus smallest value of the last five rounds, in percent of their
/// mean.
pub const RANGE: &str = "steady.range";
/// Metric: slope of the linear fit, in IOPS per round.
pub const SLOPE: &str = "steady.slope";
/// Metric: change of the linear fit over the last five rounds, in percent of their mean.
pub const EXCURSION: &str = "steady.excursion";

/// Percentages of reads, in the order of the specification.
pub const READS: [u8; 7] = [100, 95, 65, 50, 35, 5, 0];
/// Sizes of requests with their names, in the order of the specification.
pub const BLOCKS: [(u32, &str); 8] = [
    (1 << 20, "1MiB"),
    (128 << 10, "128KiB"),
    (64 << 10, "64KiB"),
    (32 << 10, "32KiB"),
    (16 << 10, "16KiB"),
    (8 << 10, "8KiB"),
    TRACKED,
    (512, "512B"),
];
/// Size of the random writes that decide the steady state.
pub const TRACKED: (u32, &str) = (4 << 10, "4KiB");

/// Name of the metric and series of a test point.
#[must_use]
pub fn point_name(read_percent: u8, block: &str) -> String {
    format!("read-{read_percent}.{block}.iops")
}

/// Name of the metric and series of the 4 KiB random writes.
#[must_use]
pub fn tracked_name() -> String {
    point_name(0, TRACKED.1)
}

const PRECONDITION_BLOCK: u32 = 128 << 10;
const PRECONDITION_CAPACITIES: u64 = 2;
/// Test points of one round that together transfer the capacity of the drive.
const POINTS_PER_CAPACITY: u64 = 64;
/// Rounds of write saturation that together write the capacity of the drive.
const ROUNDS_PER_CAPACITY: u64 = 32;
const SATURATION_CAPACITIES: u64 = 4;
const IOPS_ROUNDS_MAX: u64 = 25;

/// A test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PtsTest {
    /// Random requests of many sizes and mixes, after preconditioning.
    Iops,
    /// 4 KiB random writes to a new drive.
    WriteSaturation,
}

/// The jobs of a test on a drive.
#[derive(Clone, Debug)]
pub struct PtsPlan {
    precondition: Option<Job>,
    /// Test points of a round, named as their metrics.
    round: Vec<Job>,
    /// Largest number of rounds.
    pub rounds_max: u64,
    /// True to end as soon as the last rounds are steady.
    until_steady: bool,
}

impl PtsPlan {
    /// The plan of `test` with `queue_depth` requests in flight, on a drive of `capacity`
    /// with blocks of `logical_block` bytes.
    ///
    /// # Errors
    /// The drive is too small.
    pub fn new(
        test: PtsTest,
        queue_depth: u32,
        capacity: Bytes,
        logical_block: u32,
    ) -> Result<Self, UsageError> {
        let largest = u64::from(BLOCKS[0].0);
        // Whole requests of every size.
        let share = |parts: u64| capacity.0 / parts / largest * largest;
        if share(POINTS_PER_CAPACITY) == 0 {
            let problem = format!(
                "a drive of {capacity} is too small: each test point transfers \
                    1/{POINTS_PER_CAPACITY} of it"
            );
            return Err(UsageError::new(problem).hint("use at least --capacity 64MiB"));
        }
        let point = |reads: u8, (block, name): (u32, &str), bytes: u64| Job {
            waits: true,
            mix: JobMix::of_reads(reads),
            addresses: JobAddresses::Drawn(Pattern::Uniform, 100),
            block,
            depth: queue_depth,
            // Requests below 4 KiB are as many as those of 4 KiB.
            io_size: Some(bytes / u64::from(block.max(TRACKED.0)) * u64::from(block)),
            ..Job::new(&point_name(reads, name))
        };
        Ok(match test {
            PtsTest::Iops => {
                let blocks =
                    || BLOCKS.into_iter().filter(|(block, _)| block.is_multiple_of(logical_block));
                let bytes = share(POINTS_PER_CAPACITY);
                let precondition = Job {
                    mix: JobMix::Write,
                    block: PRECONDITION_BLOCK,
                    depth: queue_depth,
                    loops: PRECONDITION_CAPACITIES,
                    ..Job::new("precondition")
                };
                Self {
                    precondition: Some(precondition),
                    round: READS
                        .into_iter()
                        .flat_map(|reads| blocks().map(move |block| point(reads, block, bytes)))
                        .collect(),
                    rounds_max: IOPS_ROUNDS_MAX,
                    until_steady: true,
                }
            }
            PtsTest::WriteSaturation => Self {
                precondition: None,
                round: vec![point(0, TRACKED, share(ROUNDS_PER_CAPACITY))],
                rounds_max: SATURATION_CAPACITIES * ROUNDS_PER_CAPACITY,
                until_steady: false,
            },
        })
    }

    /// Bytes of a test point, or of a round of write saturation.
    #[must_use]
    pub fn point_bytes(&self) -> u64 {
        self.round[0].io_size.unwrap_or(0)
    }

    /// Upper bound on the bytes written to a drive of `capacity`.
    #[must_use]
    pub fn written_max(&self, capacity: Bytes) -> Bytes {
        let round = written_max(&self.round, capacity);
        let before =
            self.precondition.as_ref().map_or(Bytes::ZERO, |job| job.written_max(capacity));
        Bytes(round.0.saturating_mul(self.rounds_max)).saturating_add(before)
    }
}

/// Completed rounds.
#[derive(Clone, Debug)]
pub struct PtsRounds {
    /// IOPS of each test point, one list per round.
    rates: Vec<Vec<f64>>,
    /// Bytes written by the host and to the flash before the first round and after each.
    written: Vec<(u64, u64)>,
}

impl PtsRounds {
    /// IOPS of one test point.
    fn of_point(&self, at: usize) -> Vec<f64> {
        self.rates.iter().map(|round| round[at]).collect()
    }

    /// First round of the last five.
    fn window(&self) -> usize {
        self.rates.len().saturating_sub(WINDOW)
    }

    /// Write amplification from the end of round `from` (0 for the start) to the end of
    /// `to`.
    fn waf(&self, from: usize, to: usize) -> f64 {
        let ((host, flash), (host_end, flash_end)) = (self.written[from], self.written[to]);
        (flash_end - flash) as f64 / (host_end - host).max(1) as f64
    }
}

/// Preconditions the target and runs the rounds. Keeps the phases of the preconditioning
/// and of the 4 KiB random writes.
///
/// # Errors
/// The jobs do not fit the drive.
pub fn measure<E: Events<PtsTarget>>(
    plan: &PtsPlan,
    data: DataClass,
    seed: u64,
    target: &mut PtsTarget,
    events: &mut E,
) -> Result<(PtsRounds, RunOutcome), UsageError> {
    let mut outcome = RunOutcome { recorded: Default::default(), end: RunEnd::Complete };
    if let Some(job) = &plan.precondition {
        outcome = run_jobs(core::slice::from_ref(job), data, seed, target, events)?;
        outcome.recorded.series.clear();
    }
    let mut rounds = PtsRounds { rates: Vec::new(), written: vec![target.drive().written()] };
    let tracked = tracked_at(plan);
    while outcome.end == RunEnd::Complete && (rounds.rates.len() as u64) < plan.rounds_max {
        let seed = derive_seed(seed, &format!("pts.round.{}", rounds.rates.len()));
        let mut round = run_jobs(&plan.round, data, seed, target, events)?;
        outcome.end = round.end;
        if outcome.end != RunEnd::Complete {
            break;
        }
        let rate = |phase: &Phase| phase.ops_total() as f64 / phase.took.as_secs_f64();
        rounds.rates.push(round.recorded.phases.iter().map(rate).collect());
        rounds.written.push(target.drive().written());
        outcome.recorded.phases.push(round.recorded.phases.swap_remove(tracked));
        if plan.until_steady && steady(&rounds.of_point(tracked)).window().is_some() {
            break;
        }
    }
    Ok((rounds, outcome))
}

fn run_jobs<E: Events<PtsTarget>>(
    jobs: &[Job],
    data: DataClass,
    seed: u64,
    target: &mut PtsTarget,
    events: &mut E,
) -> Result<RunOutcome, UsageError> {
    let info = target.info();
    let groups = groups(jobs, info.size, info.block_size, data, seed).map_err(UsageError::new)?;
    Ok(worn_out::conclude(jobs::run(groups, target, events), target.drive().as_ref()))
}

fn tracked_at(plan: &PtsPlan) -> usize {
    plan.round
        .iter()
        .position(|job| job.name == tracked_name())
        .expect("every test has random writes of 4 KiB")
}

/// The specification's rule for the last five rounds.
fn steady(rates: &[f64]) -> SteadyState {
    steady_state(&rates[rates.len().saturating_sub(WINDOW)..], &[], Bytes::ZERO, 0)
}

/// Adds figures of the last five rounds, the proof of the steady state, and the rounds as
/// series.
pub fn describe(run: &mut Run, plan: &PtsPlan, rounds: &PtsRounds) {
    let count = rounds.rates.len();
    if count == 0 {
        return;
    }
    let mut metric = |name: &str, unit, better, samples| {
        run.metrics.push(Metric { name: name.to_owned(), unit, better, samples })
    };
    let x: Vec<u64> =
        rounds.written[1..].iter().map(|(host, _)| host - rounds.written[0].0).collect();
    let series = |name: &str, unit, y| Series {
        name: name.to_owned(),
        axis: Axis::BytesWritten,
        unit,
        x: x.clone(),
        y,
    };
    for (at, job) in plan.round.iter().enumerate() {
        let rates = rounds.of_point(at);
        metric(&job.name, Unit::OpsPerSecond, Better::Higher, rates[rounds.window()..].to_vec());
        run.series.push(series(&job.name, Unit::OpsPerSecond, rates));
    }
    let waf = (0..count).map(|round| rounds.waf(round, round + 1)).collect();
    run.series.push(series(metrics::WAF, Unit::Ratio, waf));
    metric(metrics::WAF, Unit::Ratio, Better::Lower, vec![rounds.waf(rounds.window(), count)]);
    metric(ROUNDS, Unit::Count, Better::Neither, vec![count as f64]);
    let state = steady(&rounds.of_point(tracked_at(plan)));
    metric(
        STEADY,
        Unit::Count,
        Better::Neither,
        vec![f64::from(u8::from(state.window().is_some()))],
    );
    let (SteadyState::Reached { window, .. } | SteadyState::NotSteady(Some(window))) = state else {
        return;
    };
    metric(RANGE, Unit::Percent, Better::Lower, vec![window.range * 100.0]);
    metric(SLOPE, Unit::OpsPerSecond, Better::Neither, vec![window.slope]);
    metric(EXCURSION, Unit::Percent, Better::Lower, vec![window.excursion * 100.0]);
    if state.window().is_none() {
        let text = format!(
            "not steady after {count} rounds: the figures are the last five rounds, \
                not a steady level"
        );
        run.warnings.push(Warning::new("steady-state.not-reached", Severity::Caution, text));
    }
}
