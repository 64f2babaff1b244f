//! `trimtab study drive:NAME`.

use super::{Args, Question, checkpoints, conclude};
use crate::drives;
use crate::output::Context;
use crate::study::checkpoint::Checkpoints;
use crate::study::run::{self, Modelled};
use crate::sys::interrupt;
use anyhow::Context as _;
use std::process::ExitCode;
use std::time::Instant;
use trimtab_core::data::DataClass;
use trimtab_core::policy::PolicySpec;
use trimtab_core::study::cells::{self, Cell, Extent};
use trimtab_core::study::job::Job;
use trimtab_core::study::modelled::{self, Setup};
use trimtab_core::study::scale::{FULL, QUICK, Scale};
use trimtab_core::study::sensitivity::Breadth;
use trimtab_core::study::used::Used;
use trimtab_core::study::{Study, Untried, kernels};
use trimtab_core::usage::UsageError;
use trimtab_core::volume::{Layout, VolumeSpec};

/// A modelled result does not scatter: once is enough.
const REPEATS: u32 = 1;

/// Runs the study on the drive called `name`.
pub fn run(args: &Args, context: &Context, name: &str) -> anyhow::Result<ExitCode> {
    let began = Instant::now();
    interrupt::install().context("cannot install signal handlers")?;
    let target = args.target.as_deref().unwrap_or(name);
    let asked = Asked {
        scale: Scale { repeats: args.repeats.unwrap_or(REPEATS), ..if args.quick { QUICK } else { FULL } },
        extent: Extent { ageing: args.asks(Question::Ageing), tuning: args.asks(Question::Tuning), ..extent(args) },
        only_tree: false,
        // A quick study has no time for it unless asked.
        assumptions: (args.questions.contains(&Question::Assumptions) || (args.questions.is_empty() && !args.quick))
            .then_some(Breadth::All),
    };
    // What is refused makes no store.
    drives::load(name)?;
    let checkpoints = checkpoints(args, context, target)?;
    let used = used(args)?;
    let made = run::modelled(context, vec![study(args, name, target, &asked, &used, &*checkpoints)?])?;
    conclude(args, context, made.first().context("no study was made")?, began)
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

/// How a filesystem lies about after months of use, which is the same on every drive.
pub fn used(args: &Args) -> anyhow::Result<Used> {
    Ok(Used::by_churn(&volume(args), fill(args), args.seed)?)
}

fn volume(args: &Args) -> VolumeSpec {
    modelled::volume_named(args.filesystem.as_deref().unwrap_or("ext4"))
}

fn fill(args: &Args) -> f64 {
    f64::from(args.fill.unwrap_or(60)) / 100.0
}

/// The study of the drive called `name`, whose runs name `target`, before it is made.
pub fn study<'a>(
    args: &Args,
    name: &str,
    target: &str,
    asked: &Asked,
    used: &Used,
    checkpoints: &'a dyn Checkpoints,
) -> anyhow::Result<Modelled<'a>> {
    let policies = modelled::policies(&args.policies).map_err(|e| UsageError::new(e.to_string()))?;
    let setup = Setup {
        drive: drives::load(name)?,
        label: target.to_owned(),
        used: used.clone(),
        volume: volume(args),
        fill: fill(args),
        fill_class: DataClass::Compressible(30),
        seed: args.seed,
    };
    fits(&setup)?;
    let mut study = Study { target: target.to_owned(), complete: true, ..Study::default() };
    study.untried.extend(cells::impossible(&setup, &policies));
    let mut cells = cells(args, &setup, &policies, asked, &mut study)?;
    let only = args.cell.as_deref();
    cells.retain(|cell| only.is_none_or(|only| run::name(cell) == only));
    let mut made = Modelled { cells, repeats: asked.scale.repeats, checkpoints, assumptions: None, study };
    if let Some(breadth) = asked.assumptions {
        made.assume(setup, &policies, breadth, only);
    }
    Ok(made)
}

fn untried(study: &mut Study, what: &str, reason: &str) {
    study.untried.push(Untried { policy: what.to_owned(), reason: reason.to_owned() });
}

/// The runs that answer what is asked. Of the other generation of the filesystem there are none if it cannot be made.
fn cells(args: &Args, setup: &Setup, policies: &[PolicySpec], asked: &Asked, study: &mut Study) -> anyhow::Result<Vec<Cell>> {
    let (deleting, extent) = (args.asks(Question::Deleting), &asked.extent);
    let mut cells = Vec::new();
    if deleting {
        let mut jobs = asked.scale.jobs(args.seed)?;
        jobs.retain(|job| !asked.only_tree || matches!(job, Job::Tree { .. }));
        cells.extend(cells::deleting(setup, &jobs, policies));
    }
    if extent.ageing {
        cells.extend(cells::ageing(setup, policies, extent));
    }
    if extent.tuning {
        cells.extend(cells::tuning(setup, policies, extent));
    }
    if deleting && !asked.only_tree {
        match kernels::cells(setup, policies, asked.scale) {
            Ok(others) => cells.extend(others),
            Err(problem) => untried(study, "the other generation of the filesystem", &problem.to_string()),
        }
    }
    Ok(cells)
}

/// How much churn.
fn extent(args: &Args) -> Extent {
    let (drive_writes, fills) = match (args.quick, args.full) {
        (true, _) => (1.0, vec![0.6]),
        (_, true) => (12.0, vec![0.6, 0.9]),
        _ => (5.0, vec![0.6, 0.9]),
    };
    Extent { drive_writes, aged: args.aged(), fills: args.fills(fills), ageing: true, tuning: true }
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
