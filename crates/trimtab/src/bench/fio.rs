//! The jobs of a fio job file on a device, a file or a modelled drive.

use super::crystal::KEPT;
use super::finish;
use super::job_target::{self, TAKES};
use crate::cmd::bench::fio::BenchFioArgs;
use crate::drives::simulate::{DriveLoad, DriveSimulationPlan};
use crate::drives::{self, job_file, simulate};
use crate::store::recipe::{self, starts_now};
use crate::target_spec::TargetSpec;
use anyhow::Context as _;
use std::process::ExitCode;
use trimtab_drive::units::Bytes;
use trimtab_linux::output::Context;
use trimtab_linux::sys::privileges;
use trimtab_sim::run::Field;
use trimtab_sim::workload::WorkloadPlan;
use trimtab_sim::workload::jobs::written_max;

/// Runs the jobs and prints the report.
pub fn run(request: &BenchFioArgs, context: &Context) -> anyhow::Result<ExitCode> {
    privileges::keep_only(KEPT).context("cannot give up privileges")?;
    let spec = TargetSpec::resolve_as(&request.target, TAKES)?;
    let jobs = job_file::read(&request.file, context)?;
    let name = format!("fio:{}", request.file.display());
    let watch = |size| {
        let plan = WorkloadPlan { written: written_max(&jobs, size), space: size, ops: None };
        finish::ProgressWatch::new(context, "fio", &plan, None)
    };
    if let TargetSpec::Drive(drive) = &spec {
        let drive = drives::load(drive)?;
        let mut watch = watch(Bytes(drive.spec.capacity_bytes));
        let plan = DriveSimulationPlan {
            name,
            load: DriveLoad::Jobs(jobs),
            data: request.data,
            fill_permille: 1000,
            steady: false,
            until_written: None,
            trim: None,
            seed: request.seed,
        };
        let (mut run, end) = simulate::run(&drive.spec, &request.target, &plan, &mut watch)?;
        recipe::note_drive(&mut run, &drive);
        return finish::conclude(context, &run, end);
    }
    let mut target = job_target::open(
        context,
        "bench fio",
        &spec,
        &|_| jobs.clone(),
        request.seed,
        &request.destroy.named(),
    )?;
    let mut fields =
        vec![Field::new("workload", name), Field::new("data", request.data.to_string())];
    fields.extend(jobs.iter().map(|job| Field::new(format!("job.{}", job.name), job.to_string())));
    fields.extend(target.settings());
    let header =
        starts_now("fio", fields, target.kind(), &request.target, "as-mounted", request.seed);
    let mut watch = watch(target.info().size);
    let outcome = job_target::run(&mut target, &jobs, request.data, request.seed, &mut watch)?;
    let (run, end) = job_target::close(target, header, outcome, &jobs);
    finish::conclude(context, &run, end)
}
