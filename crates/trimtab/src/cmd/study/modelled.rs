//! `trimtab study drive:NAME`.

use super::{Args, Question, checkpoints, conclude};
use crate::drives;
use crate::output::Context;
use crate::study::cells::{self, Extent};
use crate::study::checkpoint::Checkpoints;
use crate::study::job::Job;
use crate::study::matrix::{self, Matrix};
use crate::study::modelled::{self, ModelledRig, Setup};
use crate::study::scale::{FULL, QUICK, Scale};
use crate::study::sensitivity::{self, Breadth};
use crate::study::used::Used;
use crate::study::{Study, Untried, kernels};
use crate::sys::interrupt;
use anyhow::Context as _;
use std::process::ExitCode;
use std::time::Instant;
use trimtab_core::data::DataClass;
use trimtab_core::policy::PolicySpec;
use trimtab_core::usage::UsageError;
use trimtab_core::volume::Layout;

/// A modelled result does not scatter: once is enough.
const REPEATS: u32 = 1;

/// Runs the study on the drive called `name`.
pub fn run(args: &Args, context: &Context, name: &str) -> anyhow::Result<ExitCode> {
    let began = Instant::now();
    interrupt::install().context("cannot install signal handlers")?;
    let target = args.target.as_deref().unwrap_or(name);
    let asked = Asked {
        scale: Scale { repeats: args.repeats.unwrap_or(REPEATS), ..if args.quick { QUICK } else { FULL } },
        extent: Extent {
            ageing: args.asks(Question::Ageing),
            tuning: args.asks(Question::Tuning),
            only: args.cell.clone(),
            ..extent(args)
        },
        only_tree: false,
        // A quick study has no time for it unless asked.
        assumptions: (args.questions.contains(&Question::Assumptions) || (args.questions.is_empty() && !args.quick))
            .then_some(Breadth::All),
    };
    // What is refused makes no store.
    drives::load(name)?;
    let study = study(args, context, name, target, &asked, &*checkpoints(args, context, target)?)?;
    conclude(args, context, &study, began)
}

/// How much of a study is done.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The size of the workloads that delete.
    pub scale: Scale,
    /// Months of churn.
    pub extent: Extent,
    /// Of the workloads that delete, only the tree.
    pub only_tree: bool,
    /// How many assumptions are changed.
    pub assumptions: Option<Breadth>,
}

/// The study of the drive called `name`, whose runs name `target`.
pub fn study(
    args: &Args,
    context: &Context,
    name: &str,
    target: &str,
    asked: &Asked,
    checkpoints: &dyn Checkpoints,
) -> anyhow::Result<Study> {
    let drive = drives::load(name)?;
    let policies = modelled::policies(&args.policies).map_err(|e| UsageError::new(e.to_string()))?;
    let volume = modelled::volume_named(args.filesystem.as_deref().unwrap_or("ext4"));
    let fill = f64::from(args.fill.unwrap_or(60)) / 100.0;
    let setup = Setup {
        drive,
        label: target.to_owned(),
        used: Used::by_churn(&volume, fill, args.seed)?,
        volume,
        fill,
        fill_class: DataClass::Compressible(30),
        seed: args.seed,
    };
    fits(&setup)?;
    let mut jobs = if args.asks(Question::Deleting) { asked.scale.jobs(args.seed)? } else { Vec::new() };
    jobs.retain(|job| !asked.only_tree || matches!(job, Job::Tree { .. }));
    let matrix = Matrix {
        target: target.to_owned(),
        jobs,
        policies: policies.iter().map(|policy| policy.name().to_owned()).collect(),
        repeats: asked.scale.repeats,
        only: args.cell.clone(),
        patience: None,
    };
    let mut study = matrix::run(&mut ModelledRig::new(context, setup.clone(), policies.clone()), &matrix, checkpoints)?;
    cells::run(context, &setup, &policies, &asked.extent, checkpoints, &mut study)?;
    beside(args, context, &setup, &policies, (asked, checkpoints), &mut study);
    Ok(study)
}

/// What else the verdict needs: the other generation of the filesystem, and which assumption decides. What cannot be tried costs no run that is there.
fn beside(
    args: &Args,
    context: &Context,
    setup: &Setup,
    policies: &[PolicySpec],
    (asked, checkpoints): (&Asked, &dyn Checkpoints),
    study: &mut Study,
) {
    let only = args.cell.as_deref();
    let mut untried = |what: &str, error: &anyhow::Error| {
        let reason = format!("{error:#}");
        study.untried.push(Untried { policy: what.to_owned(), reason });
    };
    if args.asks(Question::Deleting) && !asked.only_tree && !interrupt::requested() {
        match kernels::run(setup, policies, asked.scale, checkpoints, only) {
            Ok(kernels) => study.kernels = kernels,
            Err(error) => untried("the other generation of the filesystem", &error),
        }
    }
    if let Some(breadth) = asked.assumptions.filter(|_| !interrupt::requested()) {
        match sensitivity::run(context, setup, policies, breadth, checkpoints, only) {
            Ok(assumptions) => study.assumptions = assumptions,
            Err(error) => untried("other assumptions", &error),
        }
    }
    study.complete &= !interrupt::requested();
}

/// How much churn.
fn extent(args: &Args) -> Extent {
    let (drive_writes, fills) = match (args.quick, args.full) {
        (true, _) => (1.0, vec![0.6]),
        (_, true) => (12.0, vec![0.6, 0.9]),
        _ => (5.0, vec![0.6, 0.9]),
    };
    Extent { drive_writes, fills, ageing: true, tuning: true, only: None }
}

/// Refuses a drive that the filesystem does not fit on, before anything is run.
fn fits(setup: &Setup) -> Result<(), UsageError> {
    let room = setup.drive.spec.capacity_bytes.saturating_sub(setup.volume.start.0);
    let size = setup.volume.size.map_or(room, |size| size.0);
    Layout::new(&setup.volume, size).map(|_| ()).map_err(|error| {
        UsageError::new(format!("the filesystem does not fit on {}: {error} bytes", setup.label))
            .hint("a study needs a drive of 64 MiB at least; a specification's size is its capacity_bytes")
    })
}
