//! Jobs on a device or a file, on a modelled drive, or on nothing.

use super::block_target::BenchBlocks;
use super::finish;
use crate::target_spec::TargetSpec;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use trimtab_drive::data::DataClass;
use trimtab_drive::units::Bytes;
use trimtab_drive::usage::UsageError;
use trimtab_linux::output::Context;
use trimtab_linux::target::block::BlockOptions;
use trimtab_linux::target::block::device::DestroyConsent;
use trimtab_linux::target::null::NullBlocks;
use trimtab_sim::run::{Phase, Run, Severity, Warning};
use trimtab_sim::runner::{RunEnd, RunOutcome, jobs};
use trimtab_sim::simulate::worn_out;
use trimtab_sim::workload::jobs::{Job, JobMix, depth_max, groups, written_max};
use trimtab_vssd::pace::minimise_timer_slack;

/// Targets of commands that run jobs.
pub const TAKES: &str = "TARGET is a block device, a file, drive:NAME or null:";

/// Unit of a file's number of blocks, in bytes.
const BLOCKS_UNIT: u64 = 512;

/// Opens the device or file of `spec`, or nothing, for the `jobs` of a target of its
/// size; after consent if they write.
pub fn open(
    context: &Context,
    what: &str,
    spec: &TargetSpec,
    jobs: &dyn Fn(Bytes) -> Vec<Job>,
    seed: u64,
    destroy: &DestroyConsent,
) -> anyhow::Result<BenchBlocks> {
    let path = match spec {
        TargetSpec::File(path) | TargetSpec::Device(path) => path,
        TargetSpec::Null(size) => return Ok(BenchBlocks::Null(NullBlocks::new(*size))),
        other => {
            return Err(other
                .refused(format!("{other} is neither a device nor a file"))
                .hint(TAKES)
                .into());
        }
    };
    let writes = jobs(Bytes::ZERO).iter().any(Job::writes);
    let mut announced = Vec::new();
    let mut target = BenchBlocks::open(
        context,
        what,
        (spec, path),
        (destroy, None),
        writes,
        None,
        |size, _| {
            announced = jobs(size);
            Ok((written_max(&announced, size), options(&announced, seed)))
        },
    )?;
    if let BenchBlocks::Real(real) = &mut target {
        real.found.extend(holes(path, &announced));
    }
    Ok(target)
}

/// Options of a target for `jobs`.
pub fn options(jobs: &[Job], seed: u64) -> BlockOptions {
    let queue_depth_max = depth_max(jobs);
    let largest = jobs.iter().map(|job| u64::from(job.block)).max().unwrap_or(0);
    let bytes_in_flight_max = largest * u64::from(queue_depth_max);
    BlockOptions { queue_depth_max, bytes_in_flight_max, seed, ..BlockOptions::default() }
}

/// Runs `jobs`.
///
/// # Errors
/// A job does not fit on the target.
pub fn run(
    target: &mut BenchBlocks,
    jobs: &[Job],
    data: DataClass,
    seed: u64,
    watch: &mut finish::ProgressWatch,
) -> anyhow::Result<RunOutcome> {
    // Due times are waited for: the default slack of 50 µs would delay each request.
    minimise_timer_slack();
    let info = target.info();
    let groups = groups(jobs, info.size, info.block_size, data, seed).map_err(UsageError::new)?;
    Ok(match target {
        BenchBlocks::Real(real) => jobs::run_dyn(groups, &mut real.file, watch),
        BenchBlocks::Modelled(target) => {
            worn_out::conclude(target.run_jobs(groups, watch), target.drive().as_ref())
        }
        BenchBlocks::Null(target) => jobs::run_dyn(groups, target, watch),
    })
}

/// Closes the target; returns the run with the figures of `jobs`.
pub fn close(target: BenchBlocks, header: Run, outcome: RunOutcome, jobs: &[Job]) -> (Run, RunEnd) {
    let (warnings, counters) = target.facts();
    let (observer, _) = target.close();
    let (mut run, end) =
        finish::assemble(header, observer, outcome, |phases: &[Phase]| jobs::metrics(jobs, phases));
    run.warnings.extend(warnings);
    run.counters.extend(counters);
    (run, end)
}

/// A warning if jobs read from a file with holes: these reads do not reach the drive.
fn holes(path: &Path, jobs: &[Job]) -> Option<Warning> {
    let found = path
        .metadata()
        .ok()
        .filter(|found| found.is_file() && found.blocks() * BLOCKS_UNIT < found.len())?;
    let reads = jobs.iter().any(|job| matches!(job.mix, JobMix::Read | JobMix::ReadWrite(_)));
    let (stored, size) = (Bytes(found.blocks() * BLOCKS_UNIT), Bytes(found.len()));
    let text = format!(
        "the filesystem stores only {stored} of the file's {size}: reads of the rest \
            do not reach the drive; write the whole file first"
    );
    reads.then(|| Warning::new("target.holes", Severity::Serious, text))
}
