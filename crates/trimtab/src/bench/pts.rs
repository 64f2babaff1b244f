//! `bench pts`: a test of SNIA's Performance Test Specification 2.0.2 on a modelled
//! drive, a device or a file.

use super::block_target::{BenchBlocks, RealBlocks};
use super::crystal::KEPT;
use super::{finish, job_target, purge};
use crate::cmd::bench::pts::BenchPtsArgs;
use crate::drives;
use crate::store::recipe::{self, starts_now};
use crate::target_spec::TargetSpec;
use anyhow::Context as _;
use std::process::ExitCode;
use trimtab_drive::data::DataClass;
use trimtab_drive::model;
use trimtab_drive::spec::DriveSpec;
use trimtab_drive::units::{Bytes, Nanos};
use trimtab_drive::usage::UsageError;
use trimtab_linux::host::memory;
use trimtab_linux::output::Context;
use trimtab_linux::session::safety::Workspace;
use trimtab_linux::sys::privileges;
use trimtab_linux::target::block::BlockFile;
use trimtab_report::run::document;
use trimtab_sim::run::{Field, Severity, Warning};
use trimtab_sim::runner::RunOutcome;
use trimtab_sim::simulate::pts::{self, PtsDevice, PtsMinute, PtsPlan};
use trimtab_sim::simulate::{few, worn_out};
use trimtab_sim::target::drive::DriveTarget;
use trimtab_sim::target::{BlockTarget as _, Clock as _};
use trimtab_sim::workload::WorkloadPlan;
use trimtab_sim::workload::jobs::Job;

const TAKES: &str = "TARGET is a block device, a file, a directory or drive:NAME";
const MINUTE: Nanos = Nanos::from_secs(60);
/// Sections that repeat the test points.
const REST: [&str; 4] = ["Figures", "Phases", "Latency", "Series"];
/// Size of a scaled drive or of a file.
const CAPACITY: Bytes = Bytes(8 << 30);
/// Smallest block of a target that is not open yet.
const SMALLEST_BLOCK: u32 = 512;

impl BenchPtsArgs {
    fn plan(&self, minute: PtsMinute, size: Bytes, block: u32) -> Result<PtsPlan, UsageError> {
        PtsPlan::new(self.test, self.queue_depth, minute, size, block)
    }
}

/// Runs the test and prints the report.
pub fn run(request: &BenchPtsArgs, context: &Context) -> anyhow::Result<ExitCode> {
    privileges::keep_only(KEPT | purge::capabilities(request.purge))
        .context("cannot give up privileges")?;
    let spec = TargetSpec::resolve_as(&request.target, TAKES)?;
    purge::check(&spec, request.purge)?;
    let (mut specification, mut few) = (Vec::new(), None);
    let (target, plan, modelled) = match &spec {
        TargetSpec::Drive(name) => {
            let drive = drives::load(name)?;
            specification.extend(recipe::drive_fields(&drive));
            let (target, plan, spec) = modelled(request, name, drive.spec.clone())?;
            few = few::superblocks(&drive.spec, &spec);
            (target, plan, Some(spec))
        }
        _ => {
            let minute = PtsMinute::Time(request.round_time.unwrap_or(MINUTE));
            let target = open(request, context, &spec, minute)?;
            let info = target.info();
            let plan = request.plan(minute, info.size, info.block_size)?;
            (target, plan, None)
        }
    };
    let capacity = target.info().size;
    let minute = match &modelled {
        Some(_) => Field::new(pts::MINUTE_BYTES, plan.minute_bytes().0.to_string()),
        None => Field::new(pts::MINUTE_TIME, request.round_time.unwrap_or(MINUTE).to_string()),
    };
    let mut fields = vec![
        Field::new(pts::CAPACITY, capacity.0.to_string()),
        minute,
        Field::new("queue-depth", plan.point_depth().to_string()),
        Field::new("data", request.data.to_string()),
    ];
    fields.extend(target.settings());
    let workload = request.test.workload();
    let mut header =
        starts_now(&workload, fields, target.kind(), &request.target, "none", request.seed);
    header.specification.extend(specification);
    let work = WorkloadPlan { written: plan.written_max(), space: capacity, ops: None };
    let guard =
        target.real().and_then(|real| real.workspace.as_ref()).map(Workspace::guard).transpose()?;
    let watch = finish::ProgressWatch::new(context, "pts", &work, guard);
    let mut device =
        Device { context, target, modelled, data: request.data, seed: request.seed, watch };
    let (rounds, outcome) = pts::measure(&plan, request.seed, &mut device)?;
    let Device { target, watch, modelled: device_spec, .. } = device;
    drop(watch);
    let (warnings, counters) = target.facts();
    let (observer, workspace) = target.close();
    let (mut run, end) = finish::assemble(header, observer, outcome, |_| Vec::new());
    run.warnings.extend(warnings);
    run.counters.extend(counters);
    worn_out::describe(&mut run);
    pts::describe(&mut run, &plan, &rounds);
    let short = device_spec.as_ref().and_then(|spec| pts::short_rounds(&plan, spec));
    run.warnings.extend(shortened(request).into_iter().chain(few).chain(short));
    let concluded = finish::conclude_as(context, &run, end, |run| {
        let mut document = document(run);
        // 'trimtab results show' prints the rest.
        document.sections.retain(|section| !REST.contains(&section.title.as_str()));
        document
    });
    finish::clean_up(workspace, concluded)
}

fn modelled(
    request: &BenchPtsArgs,
    name: &str,
    spec: DriveSpec,
) -> anyhow::Result<(BenchBlocks, PtsPlan, DriveSpec)> {
    if request.round_time.is_some() {
        let problem = "--round-time is for devices and files; a modelled drive has rounds of bytes";
        return Err(UsageError::new(problem).hint("set --capacity instead").into());
    }
    let own = Bytes(spec.capacity_bytes);
    if let Some(capacity) = request.capacity.filter(|capacity| *capacity > own) {
        let problem = format!("--capacity {capacity}: {name} has only {own}");
        return Err(UsageError::new(problem).into());
    }
    let capacity = request.capacity.unwrap_or(CAPACITY);
    let spec = model::sized(spec, (capacity < own).then_some(capacity))?;
    let minute = PtsMinute::Bytes(Nanos(spec.flash.ftl.gc.idle_delay_ns.unwrap_or(0)));
    let plan = request.plan(minute, Bytes(spec.capacity_bytes), spec.logical_block_bytes)?;
    let depth = plan.depth_max().max(spec.interface.queue_depth);
    memory::check_drive(&spec)?;
    let target = DriveTarget::new(model::build(&spec, request.seed)?, depth);
    Ok((BenchBlocks::Modelled(target), plan, spec))
}

/// Opens a device or a file after consent, or creates a file in a directory.
fn open(
    request: &BenchPtsArgs,
    context: &Context,
    spec: &TargetSpec,
    minute: PtsMinute,
) -> anyhow::Result<BenchBlocks> {
    let path = match spec {
        TargetSpec::Directory(path) => path,
        TargetSpec::File(_) | TargetSpec::Device(_) if request.capacity.is_some() => {
            let problem = format!("--capacity is for directories and modelled drives, not {spec}");
            return Err(UsageError::new(problem).into());
        }
        TargetSpec::File(path) | TargetSpec::Device(path) => {
            // The plan is made again for the blocks of an open file.
            let plan = |size, block: Option<u32>| {
                let plan = request.plan(minute, size, block.unwrap_or(SMALLEST_BLOCK))?;
                Ok((plan.written_max(), job_target::options(&plan.all_jobs(), request.seed)))
            };
            let destroy = (&request.destroy.named(), None);
            let target = (spec, path.as_path());
            return BenchBlocks::open(
                context,
                "bench pts",
                target,
                destroy,
                true,
                request.purge,
                plan,
            );
        }
        other => {
            let problem = format!("{other} stores nothing, so it has no steady state");
            return Err(other.refused(problem).hint(TAKES).into());
        }
    };
    let capacity = request.capacity.unwrap_or(CAPACITY);
    let plan = request.plan(minute, capacity, SMALLEST_BLOCK)?;
    let work = WorkloadPlan { written: plan.written_max(), space: capacity, ops: None };
    let (workspace, observer) =
        finish::begin(context, request.safety.reserve, path, "bench pts", &work)?;
    let (dir, dir_path) = workspace.subdirectory("run")?;
    let options = job_target::options(&plan.all_jobs(), request.seed);
    let file = BlockFile::create(dir, &dir_path, "data", capacity, &options)?;
    let workspace = Some(workspace);
    Ok(BenchBlocks::Real(Box::new(RealBlocks::new(file, workspace, observer))))
}

/// A warning if a minute was shorter than the specification's.
fn shortened(request: &BenchPtsArgs) -> Option<Warning> {
    let time = request.round_time.filter(|time| *time < MINUTE)?;
    let text = format!(
        "each minute of the specification lasted {time} (--round-time): the result is not \
            comparable with that of a full test"
    );
    Some(Warning::new("pts.shortened", Severity::Caution, text))
}

/// The drive under test.
struct Device<'a> {
    context: &'a Context,
    target: BenchBlocks,
    /// Specification of a modelled drive.
    modelled: Option<DriveSpec>,
    data: DataClass,
    seed: u64,
    watch: finish::ProgressWatch,
}

impl PtsDevice for Device<'_> {
    type Error = anyhow::Error;

    fn run(&mut self, jobs: &[Job], seed: u64) -> anyhow::Result<RunOutcome> {
        let outcome = job_target::run(&mut self.target, jobs, self.data, seed, &mut self.watch)?;
        let phases = &outcome.recorded.phases;
        self.watch.part_written(phases.iter().map(|phase| phase.written).sum());
        Ok(outcome)
    }

    fn idle(&mut self, time: Nanos) {
        match &mut self.target {
            BenchBlocks::Real(real) => {
                let until = real.file.now().saturating_add(time);
                real.file.idle_until(until);
            }
            BenchBlocks::Modelled(target) => {
                let until = target.now().saturating_add(time);
                target.idle_until(until);
            }
            BenchBlocks::Null(_) => {}
        }
    }

    /// Repeats the purge before the test; a real drive without one keeps its data.
    fn purge(&mut self) -> anyhow::Result<()> {
        match (&mut self.target, &self.modelled) {
            (BenchBlocks::Modelled(target), Some(spec)) => {
                let (now, depth) = (target.now(), target.info().queue_depth_max);
                *target = DriveTarget::new(model::build(spec, self.seed)?, depth).at(now);
            }
            (BenchBlocks::Real(real), _) => {
                if let Some((purge, _)) = &real.purge {
                    purge.run(self.context)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn flash_written(&self) -> Option<u64> {
        match &self.target {
            BenchBlocks::Modelled(target) => Some(target.drive().written().1),
            _ => None,
        }
    }
}
