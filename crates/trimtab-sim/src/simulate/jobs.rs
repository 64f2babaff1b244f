//! Jobs of a fio file on a modelled drive.

use super::{SimulatedDrive, SimulationPlan, WorkloadResult, check_amount};
use crate::run::{Better, Metric, Unit};
use crate::runner::jobs::{metrics, run as run_jobs};
use crate::runner::recorder::Recorder;
use crate::runner::{Events, Observer, RunProgress};
use crate::target::TargetResult;
use crate::target::drive::DriveTarget;
use crate::workload::jobs::{Job, JobGroup, JobMix, depth_max, groups};
use alloc::format;
use alloc::vec::Vec;
use trimtab_drive::spec::DriveSpec;
use trimtab_drive::units::{Bytes, Nanos};
use trimtab_drive::usage::UsageError;

/// The groups of `jobs` on a drive of `spec`.
///
/// # Errors
/// A job does not fit on the drive, practically never ends, or trims and the drive does not
/// support it.
pub(super) fn prepare<'a, T>(
    spec: &DriveSpec,
    plan: &SimulationPlan<T>,
    jobs: &'a [Job],
) -> Result<Vec<JobGroup<'a>>, UsageError> {
    if !spec.flash.trim.supported
        && let Some(job) =
            jobs.iter().find(|job| matches!(job.mix, JobMix::Trim | JobMix::TrimWrite))
    {
        let problem = format!("job '{}' trims, but {} does not support TRIM", job.name, spec.name);
        return Err(UsageError::new(problem).hint("remove the job, or choose a drive with TRIM"));
    }
    // An amount given apart from the jobs is checked as such.
    for job in jobs.iter().filter(|job| job.runtime.is_none() && plan.until_written.is_none()) {
        let space = spec.capacity_bytes;
        let loops = Bytes(space.saturating_mul(job.loops));
        check_amount(&format!("job '{}': loops", job.name), loops, Bytes(space))?;
        let bytes = Bytes(job.io_size.unwrap_or(0).saturating_mul(job.loops));
        check_amount(&format!("job '{}': io_size", job.name), bytes, Bytes(space))?;
    }
    groups(jobs, Bytes(spec.capacity_bytes), spec.logical_block_bytes, plan.data, plan.seed)
        .map_err(UsageError::new)
}

/// Runs the groups.
pub(super) fn run(
    spec: &DriveSpec,
    jobs: &[Job],
    groups: Vec<JobGroup<'_>>,
    subject: SimulatedDrive,
    now: Nanos,
    observer: &mut dyn Observer,
) -> WorkloadResult {
    let mut target =
        DriveTarget::new(subject, spec.interface.queue_depth.max(depth_max(jobs))).at(now);
    let alone = groups.iter().map(|group| match group.as_slice() {
        [(job, _)] => Some(job.name.as_str()),
        _ => None,
    });
    let mut waf = GroupWaf { observer, alone: alone.collect(), totals: Vec::new() };
    let outcome = run_jobs(groups, &mut target, &mut waf);
    let mut all = metrics(jobs, &outcome.recorded.phases);
    all.extend(waf.metrics());
    WorkloadResult::new(outcome, target.into_drive(), all)
}

/// Write amplification of each job that runs alone.
struct GroupWaf<'a> {
    observer: &'a mut dyn Observer,
    /// The only job of each group.
    alone: Vec<Option<&'a str>>,
    /// Bytes written by the host and to the medium, before each group and after the last.
    totals: Vec<(u64, u64)>,
}

impl GroupWaf<'_> {
    fn metrics(&self) -> impl Iterator<Item = Metric> {
        self.totals.windows(2).zip(&self.alone).filter_map(|(totals, job)| {
            let (host, medium) = (totals[1].0 - totals[0].0, totals[1].1 - totals[0].1);
            let job = job.filter(|_| host > 0 && self.alone.len() > 1)?;
            Some(Metric::single(
                format!("{job}.waf"),
                Unit::Ratio,
                Better::Lower,
                medium as f64 / host as f64,
            ))
        })
    }
}

impl Observer for GroupWaf<'_> {
    fn stopped(&self) -> bool {
        self.observer.stopped()
    }

    fn progress(&mut self, progress: RunProgress<'_>) -> TargetResult {
        self.observer.progress(progress)
    }
}

impl Events<DriveTarget<SimulatedDrive>> for GroupWaf<'_> {
    fn between(
        &mut self,
        target: &mut DriveTarget<SimulatedDrive>,
        _recorder: &mut Recorder,
        next: Option<&str>,
    ) -> TargetResult {
        self.totals.push(target.drive().drive().written());
        next.into_iter().for_each(|name| self.observer.begins(name));
        Ok(())
    }
}
