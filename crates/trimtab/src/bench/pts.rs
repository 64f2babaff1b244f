//! Tests of SNIA's Performance Test Specification 2.0.2 on a modelled drive: IOPS and write
//! saturation. A new drive stands for a purged one; rounds transfer bytes instead of lasting a
//! minute per test point.

use super::crystal::KEPT;
use super::finish;
use super::job_target::written_max;
use crate::drives;
use crate::report::pts::{self as report, BLOCKS, READS, TRACKED, point_name, tracked_name};
use crate::store::recipe::{self, starts_now};
use crate::target_spec::TargetSpec;
use anyhow::Context as _;
use std::process::ExitCode;
use trimtab_drive::data::DataClass;
use trimtab_drive::model::{self, Model};
use trimtab_drive::rng::derive_seed;
use trimtab_drive::units::Bytes;
use trimtab_drive::usage::UsageError;
use trimtab_linux::output::Context;
use trimtab_linux::sys::{interrupt, privileges};
use trimtab_sim::analysis::steady::{ROUNDS, SteadyState, steady_state};
use trimtab_sim::run::{Axis, Better, Field, Metric, Phase, Run, Series, Severity, TargetKind, Unit, Warning, metrics};
use trimtab_sim::runner::{RunEnd, RunOutcome, jobs};
use trimtab_sim::simulate::worn_out;
use trimtab_sim::target::BlockTarget as _;
use trimtab_sim::target::drive::DriveTarget;
use trimtab_sim::workload::WorkloadPlan;
use trimtab_sim::workload::jobs::{Job, JobAddresses, JobMix, groups};
use trimtab_sim::workload::synthetic::Pattern;

const TAKES: &str = "TARGET is drive:NAME, a modelled drive";
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

/// A test on a drive.
#[derive(Clone, Debug)]
pub struct PtsRequest {
    /// `drive:NAME`.
    pub target: String,
    /// The test.
    pub test: PtsTest,
    /// Size to which the drive is scaled, unless it is smaller.
    pub capacity: Bytes,
    /// Requests in flight.
    pub queue_depth: u32,
    /// Class of written data.
    pub data: DataClass,
    /// Seed.
    pub seed: u64,
}

/// The jobs of a test on a drive.
struct TestPlan {
    precondition: Option<Job>,
    /// Test points of a round, named as their metrics.
    round: Vec<Job>,
    rounds_max: u64,
    /// True to end as soon as the last rounds are steady.
    until_steady: bool,
}

impl TestPlan {
    fn new(request: &PtsRequest, capacity: Bytes, logical_block: u32) -> Result<Self, UsageError> {
        let largest = u64::from(BLOCKS[0].0);
        // Whole requests of every size.
        let share = |parts: u64| capacity.0 / parts / largest * largest;
        if share(POINTS_PER_CAPACITY) == 0 {
            let problem = format!("a drive of {capacity} is too small: each test point transfers 1/{POINTS_PER_CAPACITY} of it");
            return Err(UsageError::new(problem).hint("use at least --capacity 64MiB"));
        }
        let point = |reads: u8, (block, name): (u32, &str), bytes: u64| Job {
            waits: true,
            mix: match reads {
                0 => JobMix::Write,
                100 => JobMix::Read,
                percent => JobMix::ReadWrite(percent),
            },
            addresses: JobAddresses::Drawn(Pattern::Uniform, 100),
            block,
            depth: request.queue_depth,
            // Requests below 4 KiB are as many as those of 4 KiB.
            io_size: Some(bytes / u64::from(block.max(TRACKED.0)) * u64::from(block)),
            ..Job::new(&point_name(reads, name))
        };
        Ok(match request.test {
            PtsTest::Iops => {
                let blocks = || BLOCKS.into_iter().filter(|(block, _)| block.is_multiple_of(logical_block));
                let bytes = share(POINTS_PER_CAPACITY);
                let precondition = Job {
                    mix: JobMix::Write,
                    block: PRECONDITION_BLOCK,
                    depth: request.queue_depth,
                    loops: PRECONDITION_CAPACITIES,
                    ..Job::new("precondition")
                };
                Self {
                    precondition: Some(precondition),
                    round: READS.into_iter().flat_map(|reads| blocks().map(move |block| point(reads, block, bytes))).collect(),
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

    fn written_max(&self, capacity: Bytes) -> Bytes {
        let round = written_max(&self.round, capacity);
        let before = self.precondition.as_ref().map_or(Bytes::ZERO, |job| job.written_max(capacity));
        Bytes(round.0.saturating_mul(self.rounds_max)).saturating_add(before)
    }
}

/// Completed rounds.
struct Rounds {
    /// IOPS of each test point, one list per round.
    rates: Vec<Vec<f64>>,
    /// Bytes written by the host and to the flash before the first round and after each.
    written: Vec<(u64, u64)>,
}

impl Rounds {
    /// IOPS of one test point.
    fn of_point(&self, at: usize) -> Vec<f64> {
        self.rates.iter().map(|round| round[at]).collect()
    }

    /// First round of the last five.
    fn window(&self) -> usize {
        self.rates.len().saturating_sub(ROUNDS)
    }

    /// Write amplification from the end of round `from` (0 for the start) to the end of `to`.
    fn waf(&self, from: usize, to: usize) -> f64 {
        let ((host, flash), (host_end, flash_end)) = (self.written[from], self.written[to]);
        (flash_end - flash) as f64 / (host_end - host).max(1) as f64
    }
}

/// Runs the test and prints the report.
pub fn run(request: &PtsRequest, context: &Context) -> anyhow::Result<ExitCode> {
    privileges::keep_only(KEPT).context("cannot give up privileges")?;
    let spec = TargetSpec::resolve_as(&request.target, TAKES)?;
    let TargetSpec::Drive(name) = &spec else {
        return Err(spec.refused(format!("{spec} is not a modelled drive")).hint(TAKES).into());
    };
    interrupt::install().context("cannot catch signals")?;
    let drive = drives::load(name)?;
    let sized = model::sized(drive.spec.clone(), (request.capacity.0 < drive.spec.capacity_bytes).then_some(request.capacity))?;
    if sized.flash().is_none() {
        return Err(UsageError::new(format!("{name} is a disk, and this specification tests SSDs")).into());
    }
    let capacity = Bytes(sized.capacity_bytes);
    let plan = TestPlan::new(request, capacity, sized.logical_block_bytes)?;
    let depth = request.queue_depth.max(sized.interface.queue_depth);
    let mut target = DriveTarget::new(model::build(&sized, request.seed)?, depth);
    let (workload, unit) = match request.test {
        PtsTest::Iops => (report::IOPS, "point.bytes"),
        PtsTest::WriteSaturation => (report::WRITE_SATURATION, "round.bytes"),
    };
    let fields = vec![
        Field::new(report::CAPACITY, capacity.0.to_string()),
        Field::new(unit, plan.round[0].io_size.unwrap_or(0).to_string()),
        Field::new("rounds-max", plan.rounds_max.to_string()),
        Field::new("queue-depth", request.queue_depth.to_string()),
        Field::new("data", request.data.to_string()),
    ];
    let mut header = starts_now(workload, fields, TargetKind::ModelledDrive, &request.target, "none", request.seed);
    header.specification.extend(recipe::drive_fields(&drive));
    let work = WorkloadPlan { written: plan.written_max(capacity), space: capacity, ops: None };
    let mut watch = finish::ProgressWatch::new(context, "pts", &work, None);
    let (rounds, outcome) = measure(request, &plan, &mut target, &mut watch)?;
    let (mut run, end) = finish::assemble(header, None, outcome, |_: &[Phase]| Vec::new());
    run.counters.extend(target.drive().counters());
    describe(&mut run, &plan, &rounds);
    finish::conclude_as(context, &run, end, report::document)
}

/// Preconditions the target and runs the rounds. Keeps the phases of the preconditioning and of the
/// 4 KiB random writes.
fn measure(
    request: &PtsRequest,
    plan: &TestPlan,
    target: &mut DriveTarget<Box<dyn Model>>,
    watch: &mut finish::ProgressWatch,
) -> anyhow::Result<(Rounds, RunOutcome)> {
    let mut outcome = RunOutcome { recorded: Default::default(), end: RunEnd::Complete };
    if let Some(job) = &plan.precondition {
        outcome = run_jobs(std::slice::from_ref(job), request.data, request.seed, target, watch)?;
        outcome.recorded.series.clear();
    }
    let mut rounds = Rounds { rates: Vec::new(), written: vec![target.drive().written()] };
    let tracked = tracked_at(plan);
    while outcome.end == RunEnd::Complete && (rounds.rates.len() as u64) < plan.rounds_max {
        let seed = derive_seed(request.seed, &format!("pts.round.{}", rounds.rates.len()));
        let mut round = run_jobs(&plan.round, request.data, seed, target, watch)?;
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

fn run_jobs(
    jobs: &[Job],
    data: DataClass,
    seed: u64,
    target: &mut DriveTarget<Box<dyn Model>>,
    watch: &mut finish::ProgressWatch,
) -> anyhow::Result<RunOutcome> {
    let info = target.info();
    let groups = groups(jobs, info.size, info.block_size, data, seed).map_err(UsageError::new)?;
    Ok(worn_out::conclude(jobs::run(groups, target, watch), target.drive().as_ref()))
}

fn tracked_at(plan: &TestPlan) -> usize {
    plan.round.iter().position(|job| job.name == tracked_name()).expect("every test has random writes of 4 KiB")
}

/// The specification's rule for the last five rounds.
fn steady(rates: &[f64]) -> SteadyState {
    steady_state(&rates[rates.len().saturating_sub(ROUNDS)..], &[], Bytes::ZERO, 0)
}

/// Adds figures of the last five rounds, the proof of the steady state, and the rounds as series.
fn describe(run: &mut Run, plan: &TestPlan, rounds: &Rounds) {
    let count = rounds.rates.len();
    if count == 0 {
        return;
    }
    let mut metric = |name: &str, unit, better, samples| run.metrics.push(Metric { name: name.to_owned(), unit, better, samples });
    let x: Vec<u64> = rounds.written[1..].iter().map(|(host, _)| host - rounds.written[0].0).collect();
    let series = |name: &str, unit, y| Series { name: name.to_owned(), axis: Axis::BytesWritten, unit, x: x.clone(), y };
    for (at, job) in plan.round.iter().enumerate() {
        let rates = rounds.of_point(at);
        metric(&job.name, Unit::OpsPerSecond, Better::Higher, rates[rounds.window()..].to_vec());
        run.series.push(series(&job.name, Unit::OpsPerSecond, rates));
    }
    let waf = (0..count).map(|round| rounds.waf(round, round + 1)).collect();
    run.series.push(series(metrics::WAF, Unit::Ratio, waf));
    metric(metrics::WAF, Unit::Ratio, Better::Lower, vec![rounds.waf(rounds.window(), count)]);
    metric(report::ROUNDS, Unit::Count, Better::Neither, vec![count as f64]);
    let state = steady(&rounds.of_point(tracked_at(plan)));
    metric(report::STEADY, Unit::Count, Better::Neither, vec![f64::from(u8::from(state.window().is_some()))]);
    let (SteadyState::Reached { window, .. } | SteadyState::NotSteady(Some(window))) = state else { return };
    metric(report::RANGE, Unit::Percent, Better::Lower, vec![window.range * 100.0]);
    metric(report::SLOPE, Unit::OpsPerSecond, Better::Neither, vec![window.slope]);
    metric(report::EXCURSION, Unit::Percent, Better::Lower, vec![window.excursion * 100.0]);
    if state.window().is_none() {
        let text = format!("not steady after {count} rounds: the figures are the last five rounds, not a steady level");
        run.warnings.push(Warning::new("steady-state.not-reached", Severity::Caution, text));
    }
}
