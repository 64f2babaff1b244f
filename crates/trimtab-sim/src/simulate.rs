//! Workloads on modelled drives, with records of the drive's internal state.

pub mod few;
mod jobs;
pub mod loops;
pub mod passes;
pub mod pts;
pub mod replay;
pub mod sampled;
pub mod steered;
pub mod timing;
pub mod worn_out;

use crate::analysis::change_points::{ChangePointOptions, knees};
use crate::analysis::steady::steady_state;
use crate::policy::PolicySpec;
use crate::run::RunRecording;
use crate::run::metrics;
use crate::run::{Better, Field, Metric, Run, Severity, Unit, Warning};
use crate::runner::{Observer, RunEnd, RunOutcome, StopReason, blocks};
use crate::target::Clock as _;
use crate::target::drive::DriveTarget;
use crate::workload::jobs::{Job, JobGroup};
use crate::workload::synthetic::{
    Collection, Mix, Pattern, Preconditioning, Synthetic, SyntheticSettings, TrimPattern,
};
use crate::workload::{BlockWorkload, Limit};
use alloc::borrow::ToOwned as _;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;
use loops::Loops;
use passes::RequestSource;
use sampled::SampledDrive;
use steered::{Account, SteeredDrive};
use timing::Timing;
use trimtab_drive::data::DataClass;
use trimtab_drive::interface::Interface;
use trimtab_drive::model::{self, Model, TransientRateReason};
use trimtab_drive::spec::{DriveSpec, SpecError};
use trimtab_drive::units::{Bytes, Nanos, grouped, three_digits};
use trimtab_drive::usage::UsageError;

/// Samples of the drive's internal state per simulation.
const SAMPLES: u64 = 400;
/// Largest queue depth of a workload.
const QUEUE_DEPTH_MAX: u32 = 65_536;
/// Most drive writes of a simulation.
const DRIVE_WRITES_MAX: u64 = 1_000_000;
/// Operation size and depth of the fill before the workload.
const FILL_BLOCK: u32 = 1 << 20;

/// Definition of a simulation.
#[derive(Clone, Debug, PartialEq)]
pub struct SimulationPlan<T> {
    /// Name of the run in results.
    pub name: String,
    /// Operations.
    pub load: SimulationLoad<T>,
    /// Class of written data.
    pub data: DataClass,
    /// Permille of the drive written sequentially before the workload.
    pub fill_permille: u32,
    /// Replaces the fill by one that leaves the drive in the steady state of the workload.
    pub steady: bool,
    /// Amount to write; `None` ends with the workload, so a trace is replayed once.
    pub until_written: Option<Amount>,
    /// Trim policy that decides when the drive learns of frees; `None` for at once.
    pub trim: Option<PolicySpec>,
    /// Seed.
    pub seed: u64,
}

/// A workload.
#[derive(Clone, Debug, PartialEq)]
pub enum SimulationLoad<T> {
    /// Synthetic addresses.
    Synthetic(Addresses),
    /// CrystalDiskMark test sets, repeated.
    Crystal(Loops),
    /// A block trace, read by its owner.
    Trace(T),
    /// Jobs of a fio file.
    Jobs(Vec<Job>),
}

/// A synthetic workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Addresses {
    /// Distribution of addresses.
    pub pattern: Pattern,
    /// Mix of operations.
    pub mix: Mix,
    /// Address distribution of trims.
    pub trims_of: TrimPattern,
    /// Sizes in bytes with weights.
    pub sizes: Vec<(u32, u32)>,
    /// Operations in flight.
    pub queue_depth: u32,
    /// Permille of the drive in use.
    pub span_permille: u32,
}

/// An amount of data, absolute or in capacities of the drive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Amount {
    /// Bytes.
    Bytes(Bytes),
    /// Multiple of the capacity.
    Capacities(f64),
}

impl Amount {
    /// Bytes on a drive of `capacity`.
    pub fn of(self, capacity: Bytes) -> Bytes {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Capacities(times) => Bytes((times * capacity.as_f64()) as u64),
        }
    }
}

/// Refuses an `amount` to write to a modelled drive of `capacity` that takes more than a
/// million drive writes and would practically never end; `setting` is its name.
///
/// # Errors
/// The amount is larger.
pub fn check_amount(setting: &str, amount: Bytes, capacity: Bytes) -> Result<(), UsageError> {
    let times = amount.0 / capacity.0.max(1);
    if times <= DRIVE_WRITES_MAX {
        return Ok(());
    }
    let problem = format!(
        "{setting}: {amount} is {} times the capacity of the drive, {capacity}; at most {} \
            times are simulated",
        grouped(times),
        grouped(DRIVE_WRITES_MAX)
    );
    Err(UsageError::new(problem))
}

impl core::str::FromStr for Amount {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(times) = text.strip_suffix(['x', '×']) {
            let times: f64 = times
                .trim()
                .parse()
                .map_err(|_| format!("'{text}' is not a number of drive capacities such as 3x"))?;
            if times.is_finite() && times > 0.0 && times <= 1e6 {
                return Ok(Self::Capacities(times));
            }
            return Err(format!("'{text}' must be above 0x and at most 1000000x"));
        }
        match text.parse() {
            Ok(Bytes::ZERO) => Err("the amount to be written must be above 0".to_owned()),
            Ok(bytes) => Ok(Self::Bytes(bytes)),
            Err(error) => Err(trimtab_drive::units::ParseQuantityError::to_string(&error)),
        }
    }
}

impl core::fmt::Display for Amount {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Bytes(bytes) => bytes.fmt(f),
            Self::Capacities(times) => write!(f, "{times}x"),
        }
    }
}

/// A replayable trace.
pub trait Trace {
    /// Failure to read the trace or to simulate.
    type Error: From<UsageError> + From<SpecError> + From<StopReason>;

    /// Its requests.
    type Requests<'a>: RequestSource<Error = Self::Error>
    where
        Self: 'a;

    /// Timing of its requests.
    fn timing(&self) -> Timing;

    /// Settings of the run.
    fn fields(&self) -> Vec<Field> {
        self.timing().setting().map(|(key, value)| Field::new(key, value)).into_iter().collect()
    }

    /// Name for messages.
    fn name(&self) -> String;

    /// Opens the trace, once per pass.
    ///
    /// # Errors
    /// The trace cannot be read.
    fn open(&self) -> Result<Self::Requests<'_>, Self::Error>;
}

/// Drive under simulation.
pub type SimulatedDrive = SteeredDrive<SampledDrive>;

/// Result of a workload.
pub struct WorkloadResult {
    /// Phases and series.
    pub recorded: RunRecording,
    /// End of the run.
    pub end: RunEnd,
    /// The drive.
    pub subject: SimulatedDrive,
    /// Metrics specific to this workload.
    pub metrics: Vec<Metric>,
    /// Warnings about its trace.
    pub warnings: Vec<String>,
}

impl WorkloadResult {
    fn new(outcome: RunOutcome, subject: SimulatedDrive, metrics: Vec<Metric>) -> Self {
        let RunOutcome { recorded, end } = outcome;
        Self { recorded, end, subject, metrics, warnings: Vec::new() }
    }
}

/// A completed or stopped simulation.
pub struct SimulationResult {
    /// Settings of the run.
    pub settings: Vec<Field>,
    /// Trim policy as on the command line, and its settings.
    pub policy: (String, Vec<Field>),
    /// End of the run.
    pub end: RunEnd,
    /// Phases and series.
    pub recorded: RunRecording,
    sampled: SampledDrive,
    account: Option<Account>,
    metrics: Vec<Metric>,
    warnings: Vec<String>,
    capacity: Bytes,
    /// Bytes that the flash accepts before its erase limit.
    flash_life: Option<f64>,
    in_rounds: bool,
}

impl SimulationResult {
    /// Adds the drive's internal state and the trims sent to the run.
    pub fn describe(mut self, run: &mut Run) {
        describe(run, &mut self.sampled, self.capacity, self.in_rounds);
        if let (Some(life), Some(waf)) = (self.flash_life, self.sampled.waf_last_quarter()) {
            let (name, better) = (metrics::ENDURANCE_WRITTEN, Better::Higher);
            run.metrics.push(Metric::single(name, Unit::Bytes, better, life / waf));
        }
        run.metrics.append(&mut self.metrics);
        let warning = |text| Warning::new("trace.read", Severity::Note, text);
        run.warnings.extend(self.warnings.into_iter().map(warning));
        if let Some(account) = &self.account {
            account_for(run, account);
        }
    }
}

/// Checks without running that `plan` is possible on a drive of `spec`.
///
/// # Errors
/// The refusal that [`run`] would return first. Only the run reads a trace.
pub fn check<T: Trace>(spec: &DriveSpec, plan: &SimulationPlan<T>) -> Result<(), UsageError> {
    let total = total(spec, plan)?;
    check_policy(spec, plan)?;
    PreparedWorkload::new(spec, plan, total)?;
    fill(spec, plan).map(drop)
}

/// The amount to be written, if there is one.
fn total<T>(spec: &DriveSpec, plan: &SimulationPlan<T>) -> Result<Option<Bytes>, UsageError> {
    let capacity = Bytes(spec.capacity_bytes);
    let total = plan.until_written.map(|amount| amount.of(capacity));
    total.map_or(Ok(()), |total| check_amount("until-written", total, capacity))?;
    Ok(total)
}

fn check_policy<T>(spec: &DriveSpec, plan: &SimulationPlan<T>) -> Result<(), UsageError> {
    match &plan.trim {
        Some(policy)
            if !matches!(policy, PolicySpec::None) && !Interface::of(spec).takes_trim() =>
        {
            Err(UsageError::new(format!(
                "{} does not support TRIM, so it can only run under policy none: {policy}",
                spec.name
            )))
        }
        _ => Ok(()),
    }
}

/// Runs `plan` on a new drive of `spec`. An interrupt keeps the results so far.
///
/// # Errors
/// Settings that are invalid for this drive, or an unreadable trace.
pub fn run<T: Trace>(
    spec: &DriveSpec,
    plan: &SimulationPlan<T>,
    observer: &mut dyn Observer,
) -> Result<SimulationResult, T::Error> {
    let capacity = Bytes(spec.capacity_bytes);
    let total = total(spec, plan)?;
    check_policy(spec, plan)?;
    // Fail before the slow fill.
    let workload = PreparedWorkload::new(spec, plan, total)?;
    let fill = fill(spec, plan)?;
    let drive = model::build(spec, plan.seed)?;
    let (drive, now, mapped) = match fill {
        None => (drive, Nanos::ZERO, Bytes::ZERO),
        Some((mut fill, bytes)) => {
            // Idle time writes caches out, but would end the steady state.
            let pause = if plan.steady { Nanos::ZERO } else { Nanos::from_secs(60) };
            let (drive, now) = filled(drive, fill.as_mut(), pause, observer)?;
            (drive, now, bytes)
        }
    };
    let every = total.map_or(capacity.0 / 2000, |total| total.0 / SAMPLES);
    let sampled = SampledDrive::new(drive, now, Bytes(every.max(1)));
    let subject = match &plan.trim {
        None => SteeredDrive::not(sampled),
        Some(policy) => SteeredDrive::new(sampled, Interface::of(spec), Some(policy), now, mapped),
    };
    let finished = workload.run(spec, plan, subject, now, observer)?;
    let policy = plan.trim.as_ref().map_or_else(|| "online".to_owned(), ToString::to_string);
    let (mut sampled, account) = finished.subject.into_parts();
    Ok(SimulationResult {
        settings: settings(plan, total),
        policy: (policy, plan.trim.as_ref().map(PolicySpec::settings).unwrap_or_default()),
        end: worn_out::concluded(finished.end, sampled.finish()),
        recorded: finished.recorded,
        sampled,
        account,
        metrics: finished.metrics,
        warnings: finished.warnings,
        capacity,
        flash_life: (spec.flash.ftl.wear.erase_limit)
            .map(|limit| f64::from(limit) * spec.flash.geometry.raw_bytes() as f64),
        in_rounds: matches!(plan.load, SimulationLoad::Crystal(_) | SimulationLoad::Jobs(_)),
    })
}

enum PreparedWorkload<'a, T> {
    Synthetic(Synthetic, u32),
    Crystal(&'a Loops, loops::LoopWorkload),
    Trace(&'a T),
    Jobs(&'a [Job], Vec<JobGroup<'a>>),
}

impl<'a, T: Trace> PreparedWorkload<'a, T> {
    fn new(
        spec: &DriveSpec,
        plan: &'a SimulationPlan<T>,
        total: Option<Bytes>,
    ) -> Result<Self, UsageError> {
        Ok(match &plan.load {
            SimulationLoad::Synthetic(addresses) => {
                let total = total.unwrap_or(Bytes(spec.capacity_bytes));
                Self::Synthetic(synthetic(spec, plan, addresses, total)?, addresses.queue_depth)
            }
            SimulationLoad::Crystal(loops) => {
                Self::Crystal(loops, loops.workload(spec, plan, total)?)
            }
            SimulationLoad::Trace(trace) => Self::Trace(trace),
            SimulationLoad::Jobs(given) => Self::Jobs(given, jobs::prepare(spec, plan, given)?),
        })
    }

    fn run(
        self,
        spec: &DriveSpec,
        plan: &SimulationPlan<T>,
        subject: SimulatedDrive,
        now: Nanos,
        observer: &mut dyn Observer,
    ) -> Result<WorkloadResult, T::Error> {
        match self {
            Self::Synthetic(workload, depth) => {
                let target =
                    DriveTarget::new(subject, spec.interface.queue_depth.max(depth)).at(now);
                Ok(run_synthetic(workload, target, observer))
            }
            Self::Crystal(loops, workload) => Ok(loops.run(spec, workload, subject, now, observer)),
            Self::Jobs(given, groups) => Ok(jobs::run(spec, given, groups, subject, now, observer)),
            Self::Trace(trace) => {
                let until = plan.until_written.map(|amount| amount.of(Bytes(spec.capacity_bytes)));
                passes::replay(trace, plan.data, until, subject, now, observer)
            }
        }
    }
}

/// Compiled once, in this crate.
#[inline(never)]
fn run_synthetic(
    mut workload: Synthetic,
    mut target: DriveTarget<SimulatedDrive>,
    observer: &mut dyn Observer,
) -> WorkloadResult {
    let outcome = blocks::run(&mut workload, &mut target, observer);
    WorkloadResult::new(outcome, target.into_drive(), Vec::new())
}

fn share(spec: &DriveSpec, permille: u32, grain: u64) -> u64 {
    (u128::from(spec.capacity_bytes) * u128::from(permille) / 1000) as u64 / grain * grain
}

fn settings_of<T>(
    spec: &DriveSpec,
    plan: &SimulationPlan<T>,
    addresses: &Addresses,
    limit: Limit,
) -> SyntheticSettings {
    let smallest =
        addresses.sizes.iter().map(|(size, _)| u64::from(*size)).min().unwrap_or(1).max(1);
    SyntheticSettings {
        pattern: addresses.pattern,
        mix: addresses.mix,
        sizes: addresses.sizes.clone(),
        data: plan.data,
        offset: 0,
        span: share(spec, addresses.span_permille, smallest),
        queue_depth: addresses.queue_depth,
        limit,
    }
}

fn synthetic<T>(
    spec: &DriveSpec,
    plan: &SimulationPlan<T>,
    addresses: &Addresses,
    total: Bytes,
) -> Result<Synthetic, UsageError> {
    let writes_percent = 100_u64.saturating_sub(
        u64::from(addresses.mix.read_percent) + u64::from(addresses.mix.trim_percent),
    );
    if writes_percent == 0 {
        return Err(UsageError::new("a workload without writes never ends")
            .hint("leave a share for writes; for reads alone, use 'bench load --reads 100'"));
    }
    // The budget of a phase counts all bytes, and writes are only a share of them.
    let budget = (u128::from(total.0) * 100 / u128::from(writes_percent)) as u64;
    let settings = settings_of(spec, plan, addresses, Limit::Bytes(Bytes(budget)));
    let workload = Synthetic::new(settings, plan.seed);
    let workload = match addresses.trims_of {
        TrimPattern::All => workload,
        TrimPattern::InUse => workload
            .and_then(|workload| workload.trimming_in_use(share(spec, plan.fill_permille, 1))),
    };
    workload.map_err(|error| UsageError::new(error.to_string()))
}

/// A workload that fills the drive, and the bytes it writes.
type Filling = (Box<dyn BlockWorkload>, Bytes);

fn fill<T>(spec: &DriveSpec, plan: &SimulationPlan<T>) -> Result<Option<Filling>, UsageError> {
    let filled = share(spec, plan.fill_permille, u64::from(spec.logical_block_bytes));
    if plan.steady {
        let (order, mapped) = precondition(spec, plan, Bytes(filled))?;
        return Ok(Some((Box::new(order), mapped)));
    }
    if filled == 0 {
        return Ok(None);
    }
    let settings = SyntheticSettings {
        pattern: Pattern::Sequential,
        mix: Mix::default(),
        sizes: vec![(FILL_BLOCK.min(u32::try_from(filled).unwrap_or(u32::MAX)), 1)],
        data: plan.data,
        offset: 0,
        span: filled,
        queue_depth: 4.min(spec.interface.queue_depth),
        limit: Limit::Bytes(Bytes(filled)),
    };
    let fill =
        Synthetic::new(settings, plan.seed).map_err(|error| UsageError::new(error.to_string()))?;
    Ok(Some((Box::new(fill), Bytes(filled))))
}

/// The order that leaves the drive as endless writes of the workload would, and the bytes
/// mapped afterwards.
fn precondition<T>(
    spec: &DriveSpec,
    plan: &SimulationPlan<T>,
    filled: Bytes,
) -> Result<(Preconditioning, Bytes), UsageError> {
    let refused = |problem: &str| {
        UsageError::new(format!("{} cannot start steady: {problem}", spec.name))
            .hint("write several drive capacities with the workload instead")
    };
    let SimulationLoad::Synthetic(addresses) = &plan.load else {
        return Err(refused("the workload is not random, hot-cold or zipf"));
    };
    let collection = Collection::of(spec, plan.data).map_err(refused)?;
    let settings = settings_of(spec, plan, addresses, Limit::Stream);
    let mapped = filled.max(Bytes(settings.span));
    let order = Preconditioning::new(settings, mapped, &collection, plan.seed);
    Ok((order.map_err(|error| refused(&error.to_string()))?, mapped))
}

/// The drive after `fill` and `pause`, and the time then.
fn filled(
    drive: Box<dyn Model>,
    fill: &mut dyn BlockWorkload,
    pause: Nanos,
    observer: &dyn Observer,
) -> Result<(Box<dyn Model>, Nanos), StopReason> {
    let mut target = DriveTarget::new(drive, QUEUE_DEPTH_MAX);
    let outcome = blocks::run(fill, &mut target, &mut { observer });
    worn_out::conclude(outcome, target.drive().as_ref()).complete()?;
    let now = target.now() + pause;
    target.idle_until(now);
    Ok((target.into_drive(), now))
}

fn settings<T: Trace>(plan: &SimulationPlan<T>, total: Option<Bytes>) -> Vec<Field> {
    let mut fields =
        vec![Field::new("workload", plan.name.clone()), Field::new("data", plan.data.to_string())];
    match &plan.load {
        SimulationLoad::Synthetic(addresses) => fields.extend(addresses.fields()),
        SimulationLoad::Crystal(loops) => fields.extend(loops.fields()),
        SimulationLoad::Trace(trace) => fields.extend(trace.fields()),
        SimulationLoad::Jobs(jobs) => fields.extend(
            jobs.iter().map(|job| Field::new(format!("job.{}", job.name), job.to_string())),
        ),
    }
    fields.push(Field::new("fill-permille", plan.fill_permille.to_string()));
    fields.extend(plan.steady.then(|| Field::new("start", "steady")));
    fields.push(Field::new(
        "until-written",
        total.map_or_else(|| "the end".to_owned(), |total| total.to_string()),
    ));
    fields
}

impl Addresses {
    fn fields(&self) -> [Field; 6] {
        let one = |(size, weight): &(u32, u32)| {
            if self.sizes.len() == 1 { size.to_string() } else { format!("{size}:{weight}") }
        };
        let sizes: Vec<String> = self.sizes.iter().map(one).collect();
        [
            Field::new("size-bytes", sizes.join(",")),
            Field::new("read-percent", self.mix.read_percent.to_string()),
            Field::new("trim-percent", self.mix.trim_percent.to_string()),
            Field::new("trims-of", self.trims_of.name()),
            Field::new("queue-depth", self.queue_depth.to_string()),
            Field::new("span-permille", self.span_permille.to_string()),
        ]
    }
}

/// Adds series, counters, levels and warnings. Rounds have their own trends.
fn describe(run: &mut Run, sampled: &mut SampledDrive, capacity: Bytes, in_rounds: bool) {
    let counters = sampled.finish().counters();
    let (written, _) = sampled.written();
    run.series.extend(sampled.series());
    let mut all = Vec::new();
    if let Some(waf) = sampled.waf_total() {
        all.push(Metric::single(metrics::WAF, Unit::Ratio, Better::Lower, waf));
    }
    if let Some(waf) = sampled.waf_last_quarter() {
        all.push(Metric::single(metrics::WAF_LAST_QUARTER, Unit::Ratio, Better::Lower, waf));
    }
    all.push(Metric::single("written", Unit::Bytes, Better::Neither, written as f64));
    // The first collection means that no erased blocks are left.
    for (name, counter) in [
        ("spare-blocks.gone.written", "gc_superblocks"),
        ("moving.began.written", "nand_written_gc_slots"),
    ] {
        if let Some(when) = sampled.first_growth(counter) {
            all.push(Metric::single(name, Unit::Bytes, Better::Neither, when.as_f64()));
        }
    }
    run.counters.extend(counters);
    worn_out::describe(run);
    if !in_rounds {
        run.metrics.extend(levels(sampled, capacity));
        if !worn_out::is_worn_out(run)
            && !run.metrics.iter().any(|metric| metric.name == metrics::WRITE_RATE_STEADY)
        {
            let later = sampled.unlasting(group_of(sampled.write_rates().len())).pop().flatten();
            run.warnings.push(not_steady(written, capacity, later));
        }
    }
    run.metrics.extend(all);
    run.environment.push(Field::new("drive.size", capacity.to_string()));
}

/// Steps per round: a fiftieth of all, to average noise.
const fn group_of(steps: usize) -> usize {
    let group = steps.div_ceil(50);
    if group == 0 { 1 } else { group }
}

/// Steady rate, and the knees before it.
fn levels(sampled: &SampledDrive, capacity: Bytes) -> Vec<Metric> {
    let rates = sampled.write_rates();
    let bytes = sampled.written_per_sample();
    let rate =
        |name: &str, value| Metric::single(name, Unit::MegabytesPerSecond, Better::Higher, value);
    let mut metrics: Vec<Metric> = Vec::new();
    let group = group_of(rates.len());
    let mut rounds: Vec<f64> = rates
        .chunks(group)
        .map(|rates| rates.len() as f64 / rates.iter().map(|r| 1.0 / r).sum::<f64>())
        .collect();
    // Excludes rates that heat or flash wear will lower.
    rounds
        .iter_mut()
        .zip(sampled.unlasting(group))
        .filter(|(_, later)| later.is_some())
        .for_each(|(round, _)| *round = f64::NAN);
    let round_bytes: Vec<Bytes> =
        bytes.chunks(group).map(|bytes| bytes.iter().copied().sum()).collect();
    let knees = knees(&rates, &ChangePointOptions::default());
    let settled = knees.last().map_or(0, |knee| knee.index.div_ceil(group));
    if let Some(window) = steady_state(&rounds, &round_bytes, capacity, settled).window() {
        metrics.push(rate(metrics::WRITE_RATE_STEADY, window.average));
    }
    for (n, knee) in (1..).zip(knees) {
        let before: Bytes = bytes[..knee.index].iter().copied().sum();
        metrics.push(Metric::single(
            format!("write.rate.knee-{n}.written"),
            Unit::Bytes,
            Better::Neither,
            before.as_f64(),
        ));
        metrics.push(Metric::single(
            format!("write.rate.knee-{n}.rate"),
            Unit::MegabytesPerSecond,
            Better::Neither,
            knee.after,
        ));
    }
    metrics
}

fn not_steady(written: u64, capacity: Bytes, later: Option<TransientRateReason>) -> Warning {
    let (code, facts, text) = match later {
        Some(TransientRateReason::Heat { heads_for_c, throttles_c }) => (
            "steady-state.warming-up",
            vec![
                Field::new("heads-for-celsius", three_digits(heads_for_c)),
                Field::new("throttles-at-celsius", three_digits(throttles_c)),
            ],
            format!(
                "no steady rate: the drive is still warming up, to {heads_for_c:.0} \
                    degrees Celsius at this load, and throttles at {throttles_c:.0}; write more"
            ),
        ),
        Some(TransientRateReason::Life { credit_bytes }) => (
            "steady-state.life-throttle",
            vec![Field::new("credit-left-bytes", credit_bytes.to_string())],
            format!(
                "no steady rate: after {} more of flash writes the drive throttles \
                    to preserve its life; write more",
                Bytes(credit_bytes)
            ),
        ),
        Some(TransientRateReason::Resumes) => (
            "steady-state.swings",
            Vec::new(),
            "no steady rate: at this load the drive alternates between throttled and \
                full speed; write more, so that each fiftieth covers whole cycles"
                .to_owned(),
        ),
        None => (
            "steady-state.not-reached",
            vec![Field::new(
                "written-capacities",
                three_digits(written as f64 / capacity.as_f64()),
            )],
            "steady state (SNIA PTS: five rounds, range within 20 %, slope within 10 \
                %, after one capacity written and after the last knee) was not reached; \
                write more"
                .to_owned(),
        ),
    };
    Warning::new(code, Severity::Note, text).with(facts)
}

/// Adds the trims sent to the drive and those withheld.
fn account_for(run: &mut Run, account: &Account) {
    let discards = &account.discards;
    let counted = [
        ("trim.commands", discards.commands),
        ("trim.asked.bytes", discards.ranges.asked.bytes.0),
        ("trim.effective.bytes", discards.effective_bytes()),
        ("trim.repeated.bytes", discards.repeated_bytes),
        ("trim.refused.bytes", discards.ranges.refused.bytes.0),
        ("trim.never-told.bytes", account.never_told.0),
    ];
    run.counters.extend(counted.map(|(name, value)| (name.to_owned(), value)));
}

/// A shipped drive at another size with the same proportions.
#[cfg(test)]
fn shipped(name: &str, size: trimtab_drive::units::Bytes) -> trimtab_drive::spec::DriveSpec {
    trimtab_drive::model::sized(trimtab_drive::shipped::drive(name).spec, Some(size)).unwrap()
}
