//! The target of the tests: opened and used.

use crate::bench::block_target::{BenchBlocks, RealBlocks};
use crate::bench::finish;
use crate::cmd::bench::crystal::BenchCrystalArgs;
use crate::drives;
use crate::target_spec::TargetSpec;
use trimtab_drive::model;
use trimtab_drive::units::Bytes;
use trimtab_drive::usage::UsageError;
use trimtab_linux::host::memory;
use trimtab_linux::output::Context;
use trimtab_linux::target::block::{BlockFile, BlockOptions, device};
use trimtab_linux::target::null::NullBlocks;
use trimtab_sim::simulate::check_amount;
use trimtab_sim::target::BlockTarget as _;
use trimtab_sim::target::drive::DriveTarget;
use trimtab_sim::workload::crystal::{ASSUMED_RATE, Crystal, CrystalSettings};
use trimtab_sim::workload::{BlockWorkload as _, Limit};

/// Bytes read back to measure the compressibility of the data.
const SAMPLE: Bytes = Bytes(32 << 20);
/// Name of the test file.
const FILE: &str = "data";

/// Checks everything first, then opens the target of `spec`.
pub fn open(
    request: &BenchCrystalArgs,
    context: &Context,
    spec: &TargetSpec,
    settings: &CrystalSettings,
    workload: &Crystal,
) -> anyhow::Result<BenchBlocks> {
    let (queue_depth_max, bytes_in_flight_max) = workload.in_flight_max();
    let options = BlockOptions {
        queue_depth_max,
        bytes_in_flight_max,
        seed: request.seed,
        direct: !request.buffered,
        ..BlockOptions::default()
    };
    let target = match spec {
        TargetSpec::Directory(path) => {
            let (workspace, observer) = finish::begin(
                context,
                request.safety.reserve,
                path,
                &what(workload),
                &workload.plan(),
            )?;
            let (dir, dir_path) = workspace.subdirectory("run")?;
            let file = BlockFile::create(dir, &dir_path, FILE, settings.size, &options)?;
            BenchBlocks::Real(Box::new(RealBlocks::new(file, Some(workspace), observer)))
        }
        TargetSpec::File(path) | TargetSpec::Device(path) => {
            // Content that an earlier run of the same command may have left.
            let own = device::OwnData { seed: request.seed, class: settings.data };
            let destroy = (&request.destroy.named(), Some(own));
            let plan = |size, block: Option<u32>| {
                // A target that is only read has no size yet, and one that is a file no block.
                if let Some(block) = block {
                    check((size, block), request, settings)?;
                }
                Ok((workload.plan().written, options))
            };
            BenchBlocks::open(
                context,
                &what(workload),
                (spec, path),
                destroy,
                settings.writes,
                request.purge,
                plan,
            )?
        }
        TargetSpec::Drive(name) => {
            let spec = drives::load(name)?.spec;
            memory::check_drive(&spec)?;
            let capacity = Bytes(spec.capacity_bytes);
            if let Limit::Bytes(pass) = settings.pass {
                let passes = Bytes(pass.0.saturating_mul(u64::from(settings.passes)));
                check_amount("--bytes", passes, capacity)?;
            }
            let until = settings.until_written.unwrap_or(Bytes::ZERO);
            check_amount("--loop-until-written", until, capacity)?;
            let depth = spec.interface.queue_depth.max(queue_depth_max);
            BenchBlocks::Modelled(DriveTarget::new(model::build(&spec, request.seed)?, depth))
        }
        TargetSpec::Null(size) => BenchBlocks::Null(NullBlocks::new(*size)),
    };
    let info = target.info();
    check((info.size, info.block_size), request, settings)?;
    Ok(target)
}

/// Fails if the tests do not fit on the target.
fn check(
    (size, block): (Bytes, u32),
    request: &BenchCrystalArgs,
    settings: &CrystalSettings,
) -> anyhow::Result<()> {
    if settings.size > size {
        return Err(UsageError::new(format!(
            "{} has {}, but the tests need {}",
            request.target, size, settings.size
        ))
        .hint("set --size")
        .into());
    }
    let smallest = settings.profile.tests().iter().map(|test| test.block).min().unwrap_or(0);
    if !smallest.is_multiple_of(block) {
        let problem = format!(
            "{} has blocks of {} bytes, but the tests use {smallest}",
            request.target, block
        );
        return Err(UsageError::new(problem).into());
    }
    Ok(())
}

/// The compressibility of the written data, read back from the target.
pub fn compressed_share(
    target: &mut BenchBlocks,
    settings: &CrystalSettings,
) -> anyhow::Result<Option<f64>> {
    match target {
        BenchBlocks::Real(real) => real.file.compressed_share(settings.size, SAMPLE).map(Some),
        _ => Ok(None),
    }
}

/// Bytes to write before a level can count as steady: the whole drive, if its size is
/// known.
pub fn steady_size(target: &BenchBlocks, settings: &CrystalSettings) -> Bytes {
    match target {
        BenchBlocks::Real(real) => real.drive_size().unwrap_or(settings.size),
        BenchBlocks::Modelled(target) => target.info().size,
        BenchBlocks::Null(_) => settings.size,
    }
}

/// "bench crystal", with the assumption behind its announced amount.
fn what(workload: &Crystal) -> String {
    if workload.is_timed() {
        format!("bench crystal (at {ASSUMED_RATE}/s)")
    } else {
        "bench crystal".to_owned()
    }
}
