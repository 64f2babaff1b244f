//! `trimtab study drive:NAME`.

use super::{QuestionArg, StudyArgs, checkpoints, conclude};
use crate::drives;
use crate::study::checkpoint::Checkpoints;
use crate::study::run::{self, ModelledStudy};
use anyhow::Context as _;
use std::process::ExitCode;
use std::time::Instant;
use trimtab_drive::units::Bytes;
use trimtab_drive::usage::UsageError;
use trimtab_linux::output::Context;
use trimtab_linux::sys::interrupt;
use trimtab_study::study::Study;
use trimtab_study::study::cells::StudyExtent;
use trimtab_study::study::modelled::{self, Setup};
use trimtab_study::study::request::{StudyRequest, Thoroughness};
use trimtab_study::study::trials::Breadth;
use trimtab_study::study::used::FreeExtentLengths;

/// Runs the study on the drive called `name`.
pub fn run(args: &StudyArgs, context: &Context, name: &str) -> anyhow::Result<ExitCode> {
    let began = Instant::now();
    interrupt::install().context("cannot install signal handlers")?;
    let target = args.target.as_deref().unwrap_or(name);
    let mut asked = asked(args);
    // An unknown drive must not create a store.
    let drive = drives::load(name)?;
    require_aged_size(args.aged_size, target, Bytes(drive.spec.capacity_bytes))?;
    // A quick study skips the assumptions, except that a twin is always predicted with
    // several drives.
    if drive.twin.is_some() && args.questions.is_empty() {
        asked.assumptions = asked.assumptions.or(Some(Breadth::Drives));
    }
    let checkpoints = checkpoints(args, context, target)?;
    let used = used(args)?;
    let made =
        run::modelled(context, vec![study(args, name, target, &asked, &used, &checkpoints)?])?;
    conclude(args, context, &made, began)
}

fn asked(args: &StudyArgs) -> StudyRequest {
    let thoroughness = match (args.quick, args.full) {
        (true, _) => Thoroughness::Quick,
        (_, true) => Thoroughness::Full,
        _ => Thoroughness::Usual,
    };
    let mut asked = StudyRequest::of_one(thoroughness);
    asked.deleting = args.asks(QuestionArg::Deleting);
    asked.scale.repeats = args.repeats.unwrap_or(asked.scale.repeats);
    let (aged, fills) = (args.aged(), args.fills(asked.extent.fills));
    asked.extent =
        StudyExtent { aged, fills, ageing: args.asks(QuestionArg::Ageing), ..asked.extent };
    if !args.questions.is_empty() {
        asked.assumptions =
            args.questions.contains(&QuestionArg::Assumptions).then_some(Breadth::All);
    }
    asked
}

/// Refuses to model use at a larger capacity than the drive's.
fn require_aged_size(aged: Option<Bytes>, target: &str, capacity: Bytes) -> Result<(), UsageError> {
    match aged.filter(|aged| *aged > capacity) {
        None => Ok(()),
        Some(aged) => Err(UsageError::new(format!(
            "--aged-size {aged} is more than the {capacity} of {target}"
        ))
        .hint("write at most the drive's capacity")),
    }
}

/// The filesystem's layout after months of use, which is the same on every drive.
pub fn used(args: &StudyArgs) -> anyhow::Result<FreeExtentLengths> {
    Ok(FreeExtentLengths::by_churn(
        &modelled::volume_named(filesystem(args)),
        fill(args),
        args.seed,
    )?)
}

fn filesystem(args: &StudyArgs) -> &str {
    args.filesystem.as_deref().unwrap_or("ext4")
}

fn fill(args: &StudyArgs) -> f64 {
    f64::from(args.fill.unwrap_or(60)) / 100.0
}

/// The prepared study of the drive `name`; its runs carry `target` as their name.
pub fn study<'a>(
    args: &StudyArgs,
    name: &str,
    target: &str,
    asked: &StudyRequest,
    used: &FreeExtentLengths,
    checkpoints: &'a Checkpoints,
) -> anyhow::Result<ModelledStudy<'a>> {
    let policies =
        modelled::policies(&args.policies).map_err(|e| UsageError::new(e.to_string()))?;
    let drive = drives::load(name)?;
    require_aged_size(args.aged_size, target, Bytes(drive.spec.capacity_bytes))?;
    let setup = Setup::new(drive, target, filesystem(args), fill(args), used.clone(), args.seed)?;
    let (cells, untried) = asked.cells(&setup, &policies)?;
    let study = Study { target: setup.label.clone(), complete: true, untried, ..Study::default() };
    let mut made = ModelledStudy {
        cells,
        repeats: asked.scale.repeats,
        checkpoints,
        assumptions: None,
        study,
    };
    if let Some(breadth) = asked.assumptions {
        made.assume(setup, &policies, (breadth, &asked.extent));
    }
    Ok(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aged_size_above_the_capacity_is_refused() {
        let check = |aged: Option<u64>| {
            require_aged_size(aged.map(Bytes), "drive:x", Bytes(500_000_000_000))
        };
        assert_eq!((check(None), check(Some(500_000_000_000))), (Ok(()), Ok(())));
        assert_eq!(
            check(Some(900_000_000_000)).unwrap_err().to_string(),
            "--aged-size 900 GB is more than the 500 GB of drive:x; write at most the drive's \
                capacity"
        );
    }
}
