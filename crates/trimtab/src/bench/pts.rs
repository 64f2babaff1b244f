//! `bench pts`: a test of SNIA's Performance Test Specification 2.0.2 on a modelled
//! drive.

use super::crystal::KEPT;
use super::finish;
use crate::cmd::bench::pts::BenchPtsArgs;
use crate::drives;
use crate::store::recipe::{self, starts_now};
use crate::target_spec::TargetSpec;
use anyhow::Context as _;
use std::process::ExitCode;
use trimtab_drive::model;
use trimtab_drive::units::Bytes;
use trimtab_drive::usage::UsageError;
use trimtab_linux::output::Context;
use trimtab_linux::sys::privileges;
use trimtab_report::pts as report;
use trimtab_sim::run::{Field, Phase, TargetKind};
use trimtab_sim::simulate::pts::{self, PtsPlan, PtsTest};
use trimtab_sim::target::drive::DriveTarget;
use trimtab_sim::workload::WorkloadPlan;

const TAKES: &str = "TARGET is drive:NAME, a modelled drive";

/// Runs the test and prints the report.
pub fn run(request: &BenchPtsArgs, context: &Context) -> anyhow::Result<ExitCode> {
    privileges::keep_only(KEPT).context("cannot give up privileges")?;
    let spec = TargetSpec::resolve_as(&request.target, TAKES)?;
    let TargetSpec::Drive(name) = &spec else {
        return Err(spec.refused(format!("{spec} is not a modelled drive")).hint(TAKES).into());
    };
    let drive = drives::load(name)?;
    let sized = model::sized(
        drive.spec.clone(),
        (request.capacity.0 < drive.spec.capacity_bytes).then_some(request.capacity),
    )?;
    if sized.flash().is_none() {
        return Err(UsageError::new(format!(
            "{name} is a disk, and this specification tests SSDs"
        ))
        .into());
    }
    let capacity = Bytes(sized.capacity_bytes);
    let plan =
        PtsPlan::new(request.test, request.queue_depth, capacity, sized.logical_block_bytes)?;
    let depth = request.queue_depth.max(sized.interface.queue_depth);
    let mut target = DriveTarget::new(model::build(&sized, request.seed)?, depth);
    let (workload, unit) = match request.test {
        PtsTest::Iops => (pts::IOPS, pts::POINT_BYTES),
        PtsTest::WriteSaturation => (pts::WRITE_SATURATION, pts::ROUND_BYTES),
    };
    let fields = vec![
        Field::new(pts::CAPACITY, capacity.0.to_string()),
        Field::new(unit, plan.point_bytes().to_string()),
        Field::new("rounds-max", plan.rounds_max.to_string()),
        Field::new("queue-depth", request.queue_depth.to_string()),
        Field::new("data", request.data.to_string()),
    ];
    let mut header = starts_now(
        workload,
        fields,
        TargetKind::ModelledDrive,
        &request.target,
        "none",
        request.seed,
    );
    header.specification.extend(recipe::drive_fields(&drive));
    let work = WorkloadPlan { written: plan.written_max(capacity), space: capacity, ops: None };
    let mut watch = finish::ProgressWatch::new(context, "pts", &work, None);
    let (rounds, outcome) =
        pts::measure(&plan, request.data, request.seed, &mut target, &mut watch)?;
    let (mut run, end) = finish::assemble(header, None, outcome, |_: &[Phase]| Vec::new());
    run.counters.extend(target.drive().counters());
    pts::describe(&mut run, &plan, &rounds);
    let point_bytes = Bytes(plan.point_bytes());
    finish::conclude_as(context, &run, end, |run| report::document(run, capacity, point_bytes))
}
