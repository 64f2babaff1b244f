//! Latency against offered load: a closed loop for the highest rate, then steps of an
//! open loop.

use super::block_target::BenchBlocks;
use super::crystal::KEPT;
use super::finish::{self, ProgressWatch};
use super::job_target::{self, TAKES};
use crate::cmd::bench::load::{BenchLoadArgs, LoadPreconditioning};
use crate::drives::{self, Drive};
use crate::store::recipe::{self, starts_now};
use crate::target_spec::TargetSpec;
use anyhow::Context as _;
use std::process::ExitCode;
use trimtab_drive::model;
use trimtab_drive::spec::DriveSpec;
use trimtab_drive::spec::layout::SsdLayout;
use trimtab_drive::units::{Bytes, Nanos, three_digits};
use trimtab_drive::usage::UsageError;
use trimtab_linux::host::memory;
use trimtab_linux::output::Context;
use trimtab_linux::sys::privileges;
use trimtab_report::load;
use trimtab_sim::analysis::{LATENCY_KNEE, latency_knee};
use trimtab_sim::run::{Better, Field, Metric, Run, Severity, Unit, Warning};
use trimtab_sim::runner::{RunEnd, RunOutcome, jobs};
use trimtab_sim::target::Clock as _;
use trimtab_sim::target::drive::DriveTarget;
use trimtab_sim::workload::jobs::load::{CLOSED, CLOSED_AGAIN, LoadSettings};
use trimtab_sim::workload::jobs::{Job, JobAddresses, JobMix, depth_max, written_max};
use trimtab_sim::workload::synthetic::{
    Collection, Mix, Pattern, Preconditioning, SETTLING, SyntheticSettings,
};
use trimtab_sim::workload::{Limit, WorkloadPlan};
use trimtab_study::document::Document;

/// Idle time of a modelled drive after its fill.
const PAUSE: Nanos = Nanos::from_secs(60);
const P99: &str = jobs::FIGURES[4];
/// A target is saturated if it completes a smaller share of the operations offered.
const SATURATED: f64 = 0.95;
/// A target whose closed loop changes by a larger share has no knee.
const CHANGED: f64 = 0.2;

impl BenchLoadArgs {
    fn precondition(&self, size: Bytes) -> Option<Job> {
        let block = u64::from(self.size);
        let bytes = match self.precondition? {
            LoadPreconditioning::Random(amount) => amount.of(size),
            LoadPreconditioning::Steady(spare) => {
                let room = Collection::with_spare(size, spare.unwrap_or(0.0)).room;
                Bytes(room.0 + (size.as_f64() * SETTLING) as u64)
            }
        };
        let bytes = bytes.0.div_ceil(block) * block;
        let addresses = JobAddresses::Drawn(Pattern::Uniform, 100);
        let job = Job::new("precondition");
        Some(Job {
            mix: JobMix::Write,
            addresses,
            block: self.size,
            depth: self.queue_depth,
            io_size: Some(bytes),
            ..job
        })
    }

    /// The collection of a drive of `spec`.
    fn collection(&self, spec: Option<&DriveSpec>) -> Result<Collection, UsageError> {
        let target = &self.target;
        let Some(spec) = spec else {
            let problem = format!("the spare space of {target} is not known");
            return Err(UsageError::new(problem)
                .hint("give it in percent of the capacity, as in --precondition steady:7%"));
        };
        Collection::of(spec, self.data).map_err(|problem| {
            UsageError::new(format!("{target} cannot start steady: {problem}"))
                .hint("write several drive capacities, as in --precondition 3x")
        })
    }

    /// The order of writes that leaves `target`, on a drive of `spec`, in steady state, if
    /// asked for.
    ///
    /// # Errors
    /// The steady state is not known, or the spare space less than an operation.
    fn order(
        &self,
        size: Bytes,
        spec: Option<&DriveSpec>,
    ) -> Result<Option<Preconditioning>, UsageError> {
        let Some(LoadPreconditioning::Steady(spare)) = self.precondition else { return Ok(None) };
        let collection = match spare {
            Some(spare) => Collection::with_spare(size, spare),
            None => self.collection(spec)?,
        };
        let settings = SyntheticSettings {
            pattern: Pattern::Uniform,
            mix: Mix::default(),
            sizes: vec![(self.size, 1)],
            data: self.data,
            offset: 0,
            span: size.0,
            queue_depth: self.queue_depth,
            limit: Limit::Stream,
        };
        Preconditioning::new(settings, Bytes::ZERO, &collection, self.seed)
            .map(Some)
            .map_err(|error| UsageError::new(error.to_string()))
    }

    fn fields(&self, percents: &[u32]) -> Vec<Field> {
        let percents: Vec<String> = percents.iter().map(u32::to_string).collect();
        let mut fields = vec![
            Field::new(load::READ_PERCENT, self.reads.to_string()),
            Field::new("size-bytes", self.size.to_string()),
            Field::new("queue-depth", self.queue_depth.to_string()),
            Field::new("steps-percent", percents.join(",")),
            Field::new("step-time", self.time.to_string()),
            Field::new("data", self.data.to_string()),
        ];
        fields
            .extend(self.precondition.map(|amount| Field::new("precondition", amount.to_string())));
        fields
    }
}

/// The target of a load.
struct LoadTarget<'a> {
    request: &'a BenchLoadArgs,
    blocks: BenchBlocks,
    /// The model, if the target is one.
    drive: Option<Drive>,
}

impl<'a> LoadTarget<'a> {
    fn open(
        request: &'a BenchLoadArgs,
        settings: &LoadSettings,
        context: &Context,
    ) -> anyhow::Result<Self> {
        let spec = TargetSpec::resolve_as(&request.target, TAKES)?;
        let load = all_jobs(settings);
        let seed = request.seed;
        let (blocks, drive) = if let TargetSpec::Drive(name) = &spec {
            let drive = drives::load(name)?;
            memory::check_drive(&drive.spec)?;
            let depth = depth_max(&load).max(drive.spec.interface.queue_depth);
            let model = model::build(&drive.spec, seed)?;
            (BenchBlocks::Modelled(DriveTarget::new(model, depth)), Some(drive))
        } else {
            // Fails before the consent; the size does not matter.
            request.order(Bytes(1 << 40), None)?;
            let jobs = |size| load.iter().cloned().chain(request.precondition(size)).collect();
            let named = request.destroy.named();
            (job_target::open(context, "bench load", &spec, &jobs, seed, &named)?, None)
        };
        Ok(Self { request, blocks, drive })
    }

    fn run(&mut self, jobs: &[Job], watch: &mut ProgressWatch) -> anyhow::Result<RunOutcome> {
        job_target::run(&mut self.blocks, jobs, self.request.data, self.request.seed, watch)
    }

    /// Runs `before`, or else the operations of `order`. Returns the outcome if it is not
    /// complete.
    fn precondition(
        &mut self,
        before: Vec<Job>,
        mut order: Option<Preconditioning>,
        watch: &mut ProgressWatch,
    ) -> anyhow::Result<Option<RunOutcome>> {
        let rests = order.is_none();
        for job in before {
            let outcome = match order.take() {
                Some(mut order) => self.blocks.run(&mut order, watch),
                None => self.run(&[job], watch)?,
            };
            if outcome.end != RunEnd::Complete {
                return Ok(Some(RunOutcome { recorded: Default::default(), ..outcome }));
            }
            if let BenchBlocks::Modelled(drive) = &mut self.blocks
                && rests
            {
                let until = drive.now() + PAUSE;
                drive.idle_until(until);
            }
        }
        Ok(None)
    }

    /// Runs the closed loop, the steps and the closed loop again: the jobs, their outcome and
    /// the rate of the first closed loop.
    fn measure(
        &mut self,
        settings: &LoadSettings,
        watch: &mut ProgressWatch,
    ) -> anyhow::Result<(Vec<Job>, RunOutcome, f64)> {
        let mut jobs = vec![settings.closed_loop()];
        let mut outcome = self.run(&jobs, watch)?;
        let max = rate_of(CLOSED, &jobs::metrics(&jobs, &outcome.recorded.phases));
        let mut steps = settings.steps(max);
        steps.push(settings.closed_again());
        if outcome.end == RunEnd::Complete && max > 0.0 {
            let open = self.run(&steps, watch)?;
            outcome.recorded.phases.extend(open.recorded.phases);
            (outcome.recorded.series, outcome.end) = (open.recorded.series, open.end);
        }
        jobs.extend(steps);
        Ok((jobs, outcome, max))
    }

    fn header(&self, settings: &LoadSettings) -> Run {
        let request = self.request;
        let mut fields = request.fields(&settings.percents);
        fields.extend(self.blocks.settings());
        let (kind, name) = (self.blocks.kind(), &request.target);
        let mut header = starts_now(load::WORKLOAD, fields, kind, name, "as-mounted", request.seed);
        header.specification.extend(self.drive.iter().flat_map(recipe::drive_fields));
        header
    }
}

/// Runs the sweep and prints the report.
pub fn run(request: &BenchLoadArgs, context: &Context) -> anyhow::Result<ExitCode> {
    privileges::keep_only(KEPT).context("cannot give up privileges")?;
    let settings = &request.settings();
    let mut target = LoadTarget::open(request, settings, context)?;
    let size = target.blocks.info().size;
    let order = request.order(size, target.drive.as_ref().map(|drive| &drive.spec))?;
    let header = target.header(settings);
    let fill = Job { mix: JobMix::Write, block: 1 << 20, depth: 4, ..Job::new("fill") };
    let fill = (target.drive.is_some() && order.is_none()).then_some(fill);
    let before: Vec<Job> = fill.into_iter().chain(request.precondition(size)).collect();
    let announced: Vec<Job> =
        all_jobs(settings).into_iter().chain(before.iter().cloned()).collect();
    let plan = WorkloadPlan { written: written_max(&announced, size), space: size, ops: None };
    let mut watch = ProgressWatch::new(context, "load", &plan, None);
    if let Some(outcome) = target.precondition(before, order, &mut watch)? {
        let (run, end) = job_target::close(target.blocks, header, outcome, &[]);
        return finish::conclude(context, &run, end);
    }
    let (jobs, outcome, max) = target.measure(settings, &mut watch)?;
    let (mut run, end) = job_target::close(target.blocks, header, outcome, &jobs);
    describe(&mut run, settings, max);
    let spec = target.drive.as_ref().map(|drive| &drive.spec);
    let short = spec.and_then(|spec| short_steps(&run, settings, max, spec));
    run.warnings.extend(short);
    finish::conclude_as(context, &run, end, first_screen)
}

/// The steps, the knee and the warnings. `trimtab results show` prints the rest.
fn first_screen(run: &Run) -> Document {
    let mut document = trimtab_report::run::document(run);
    document.sections.retain(|section| [load::TITLE, "Warnings"].contains(&section.title.as_str()));
    document
}

/// Both closed loops and the steps, at an unknown rate.
fn all_jobs(settings: &LoadSettings) -> Vec<Job> {
    let loops = [settings.closed_loop(), settings.closed_again()];
    loops.into_iter().chain(settings.steps(1.0)).collect()
}

/// Completed operations per second of a job, reads and writes.
fn rate_of(job: &str, metrics: &[Metric]) -> f64 {
    let of_job = |name: &str| {
        name.ends_with(jobs::RATE) && name.split_once('.').is_some_and(|(first, _)| first == job)
    };
    metrics.iter().filter(|figure| of_job(&figure.name)).map(|figure| figure.samples[0]).sum()
}

/// A warning if a step is shorter than the collection cycle of the modelled drive of `spec`:
/// its latency then depends on the part of the cycle that it meets.
fn short_steps(run: &Run, settings: &LoadSettings, max: f64, spec: &DriveSpec) -> Option<Warning> {
    let lowest = *settings.percents.first()?;
    let collects = |(name, count): &(String, u64)| name == "gc_superblocks" && *count > 0;
    if !run.complete || !run.counters.iter().any(collects) {
        return None;
    }
    let flash = &spec.flash;
    let cycle = SsdLayout::new(spec, flash).ok()?.cycle_bytes(flash).as_f64();
    let share = f64::from(lowest) * f64::from(100 - settings.read_percent) / 1e4;
    // The first quarter of a step is not recorded.
    let seconds = cycle / (max * share * f64::from(settings.block)) / 0.75;
    let enough = seconds.ceil() as u64;
    if settings.read_percent == 100 || seconds * 1e9 <= settings.time.as_f64() {
        return None;
    }
    let text = format!(
        "the step at {lowest} % writes less than the {} from one garbage collection to the next, \
         so its latency depends on where the step falls; set --time {enough}s or more, or higher \
         --steps",
        Bytes(cycle as u64)
    );
    let facts = vec![Field::new("enough-seconds", enough.to_string())];
    Some(Warning::new("load.short-steps", Severity::Caution, text).with(facts))
}

/// Adds offered rates and the knee: of writes if there are any, else of reads.
fn describe(run: &mut Run, settings: &LoadSettings, max: f64) {
    let metric = |name: String, unit, value| Metric::single(name, unit, Better::Neither, value);
    let kind = if settings.read_percent == 100 { "read" } else { "write" };
    let value = |run: &Run, step: &str, figure: &str| {
        let name = format!("{step}.{kind}{figure}");
        run.metrics.iter().find(|metric| metric.name == name).map(|metric| metric.samples[0])
    };
    let mut p99 = Vec::new();
    let mut offered = Vec::new();
    for percent in &settings.percents {
        let step = LoadSettings::step_name(*percent);
        let Some(latency) = value(run, &step, P99) else { continue };
        p99.push(latency);
        let rate = max * f64::from(*percent) / 100.0;
        offered
            .push((*percent, metric(format!("{step}{}", load::OFFERED), Unit::OpsPerSecond, rate)));
    }
    let again = rate_of(CLOSED_AGAIN, &run.metrics);
    let changed = run.complete && (again / max - 1.0).abs() > CHANGED;
    if changed {
        // A drive that speeds up empties its cache at low loads, however much was written.
        let (how, advice) = if again < max {
            ("slowed", ". Write more of it first (--precondition)")
        } else {
            ("sped up", "")
        };
        let text = format!(
            "the target {how} from {} to {} IOPS while it was measured; no knee is stated{advice}",
            three_digits(max),
            three_digits(again)
        );
        run.warnings.push(Warning::new(load::CHANGED, Severity::Caution, text));
    }
    let saturated = !changed
        && settings.percents.first().zip(p99.first()).is_some_and(|(percent, p99)| {
            let step = LoadSettings::step_name(*percent);
            let share = f64::from(if kind == "read" { 100 } else { 100 - settings.read_percent });
            let due = max * f64::from(*percent) / 100.0 * share / 100.0;
            // Random arrivals vary by the root of their number.
            let seconds = settings.time.as_f64() * 0.75 / 1e9;
            let chance = 3.0 * (due / seconds).sqrt();
            value(run, &step, jobs::RATE)
                .is_some_and(|completed| completed + chance < SATURATED * due)
                || value(run, CLOSED, P99).is_some_and(|closed| *p99 > LATENCY_KNEE * closed)
        });
    if saturated {
        let percent = settings.percents[0];
        let text = format!(
            "the lowest step, {percent} % of the closed loop, already saturates the target: the \
                knee is there or below; set lower --steps"
        );
        run.warnings.push(Warning::new("load.saturated", Severity::Caution, text));
    }
    let knee = if saturated { Some(0) } else { latency_knee(&p99).filter(|_| !changed) };
    if let Some((percent, rate)) = knee.map(|at| &offered[at]) {
        run.metrics.push(metric(load::KNEE_RATE.to_owned(), Unit::OpsPerSecond, rate.samples[0]));
        run.metrics.push(metric(load::KNEE_PERCENT.to_owned(), Unit::Percent, f64::from(*percent)));
    }
    run.metrics.push(metric(format!("{CLOSED}{}", load::OFFERED), Unit::OpsPerSecond, max));
    run.metrics.extend(offered.into_iter().map(|(_, offered)| offered));
}
