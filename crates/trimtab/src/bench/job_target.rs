//! A target of jobs: a device or a file, a modelled drive, or nothing.

use super::finish;
use crate::target_spec::TargetSpec;
use anyhow::Context as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use trimtab_drive::data::DataClass;
use trimtab_drive::model::Model;
use trimtab_drive::units::Bytes;
use trimtab_drive::usage::UsageError;
use trimtab_linux::host::EnvironmentRecorder;
use trimtab_linux::output::Context;
use trimtab_linux::session::safety::consent;
use trimtab_linux::target::block::device::{self, DestroyConsent};
use trimtab_linux::target::block::{BlockFile, BlockOptions};
use trimtab_linux::target::null::NullBlocks;
use trimtab_sim::run::{Field, Phase, Run, Severity, TargetKind, Warning};
use trimtab_sim::runner::header::RunHeader;
use trimtab_sim::runner::{RunEnd, RunOutcome, jobs};
use trimtab_sim::simulate::worn_out;
use trimtab_sim::target::drive::DriveTarget;
use trimtab_sim::target::{BlockInfo, BlockTarget as _};
use trimtab_sim::workload::jobs::{Job, JobMix, depth_max, groups, written_max};
use trimtab_vssd::pace::minimise_timer_slack;

/// Targets of commands that run jobs.
pub const TAKES: &str = "TARGET is a block device, a file, drive:NAME or null:";

/// Unit of a file's number of blocks, in bytes.
const BLOCKS_UNIT: u64 = 512;

/// An open target.
pub enum JobTarget {
    /// A device or a file, with warnings from its opening.
    Real(Box<BlockFile>, Box<EnvironmentRecorder>, Vec<Warning>),
    /// A modelled drive.
    Modelled(DriveTarget<Box<dyn Model>>),
    /// Nothing.
    Null(NullBlocks),
}

impl JobTarget {
    /// Opens the device or file of `spec`, or nothing, for the `jobs` of a target of its size; after
    /// consent if they write.
    pub fn open(
        context: &Context,
        what: &str,
        spec: &TargetSpec,
        jobs: &dyn Fn(Bytes) -> Vec<Job>,
        seed: u64,
        destroy: &DestroyConsent,
    ) -> anyhow::Result<Self> {
        let path = match spec {
            TargetSpec::File(path) | TargetSpec::Device(path) => path,
            TargetSpec::Null(size) => return Ok(Self::Null(NullBlocks::new(*size))),
            other => return Err(other.refused(format!("{other} is neither a device nor a file")).hint(TAKES).into()),
        };
        let writes = jobs(Bytes::ZERO).iter().any(Job::writes);
        let claim = match spec {
            TargetSpec::Device(_) => Some(device::claim(path, writes, destroy, None)?),
            _ => writes.then(|| device::claim_file(path, destroy, None)).transpose()?,
        };
        let observer = EnvironmentRecorder::start(path).with_context(|| format!("cannot access {}", path.display()))?;
        let size = claim.as_ref().map_or(Bytes::ZERO, device::Claim::size);
        let jobs = jobs(size);
        if writes {
            let drive = observer.place().stack.drives().map(|layer| layer.size).filter(|size| *size > Bytes::ZERO).min();
            consent::to_destroy(context, what, path, written_max(&jobs, size), drive)?;
        }
        let queue_depth_max = depth_max(&jobs);
        let largest = jobs.iter().map(|job| u64::from(job.block)).max().unwrap_or(0);
        let bytes_in_flight_max = largest * u64::from(queue_depth_max);
        let options = BlockOptions { queue_depth_max, bytes_in_flight_max, seed, ..BlockOptions::default() };
        let target = match claim {
            Some(claim) => BlockFile::open_claim(claim, &options)?,
            None => BlockFile::open_file(path, false, &options)?,
        };
        Ok(Self::Real(Box::new(target), Box::new(observer), holes(path, &jobs).into_iter().collect()))
    }

    /// Properties of the target.
    pub fn info(&self) -> &BlockInfo {
        match self {
            Self::Real(target, ..) => target.info(),
            Self::Modelled(target) => target.info(),
            Self::Null(target) => target.info(),
        }
    }

    /// Kind of the target.
    pub fn kind(&self) -> TargetKind {
        match self {
            Self::Real(target, ..) => target.kind(),
            Self::Modelled(_) => TargetKind::ModelledDrive,
            Self::Null(_) => TargetKind::Null,
        }
    }

    /// The engine of a real target, as a setting of the run.
    pub fn engine(&self) -> Option<Field> {
        match self {
            Self::Real(target, ..) => Some(Field::new("engine", target.engine())),
            _ => None,
        }
    }

    /// Runs `jobs`.
    ///
    /// # Errors
    /// A job does not fit on the target.
    pub fn run(&mut self, jobs: &[Job], data: DataClass, seed: u64, watch: &mut finish::ProgressWatch) -> anyhow::Result<RunOutcome> {
        // Due times are waited for: the default slack of 50 µs would delay each request.
        minimise_timer_slack();
        let info = self.info();
        let groups = groups(jobs, info.size, info.block_size, data, seed).map_err(UsageError::new)?;
        Ok(match self {
            Self::Real(target, ..) => jobs::run(groups, target.as_mut(), watch),
            Self::Modelled(target) => worn_out::conclude(jobs::run(groups, target, watch), target.drive().as_ref()),
            Self::Null(target) => jobs::run(groups, target, watch),
        })
    }

    /// Closes the target; returns the run with the figures of `jobs`.
    pub fn close(self, header: RunHeader, outcome: RunOutcome, jobs: &[Job]) -> (Run, RunEnd) {
        let (observer, warnings, counters) = match self {
            Self::Real(target, observer, opened) => (Some(*observer), [target.warnings(), opened.as_slice()].concat(), Vec::new()),
            Self::Modelled(target) => (None, Vec::new(), target.drive().counters().into_iter().collect()),
            Self::Null(_) => (None, Vec::new(), Vec::new()),
        };
        let (mut run, end) = finish::assemble(header, observer, outcome, |phases: &[Phase]| jobs::metrics(jobs, phases));
        run.warnings.extend(warnings);
        run.counters.extend(counters);
        (run, end)
    }
}

/// A warning if jobs read from a file with holes: these reads do not reach the drive.
fn holes(path: &Path, jobs: &[Job]) -> Option<Warning> {
    let found = path.metadata().ok().filter(|found| found.is_file() && found.blocks() * BLOCKS_UNIT < found.len())?;
    let reads = jobs.iter().any(|job| matches!(job.mix, JobMix::Read | JobMix::ReadWrite(_)));
    let (stored, size) = (Bytes(found.blocks() * BLOCKS_UNIT), Bytes(found.len()));
    let text = format!(
        "the filesystem stores only {stored} of the file's {size}: reads of the rest do not reach the drive; write the whole file first"
    );
    reads.then(|| Warning::new("target.holes", Severity::Serious, text))
}
