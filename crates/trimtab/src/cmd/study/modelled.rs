//! `trimtab study drive:NAME`.

use super::{Args, conclude};
use crate::drives;
use crate::error::UsageError;
use crate::interrupt;
use crate::output::Context;
use crate::study::matrix::{self, Matrix};
use crate::study::modelled::{self, ModelledRig, Setup};
use crate::study::scale::{FULL, QUICK, Scale};
use anyhow::Context as _;
use std::process::ExitCode;
use trimtab_core::data::DataClass;

/// A modelled result does not scatter: once is enough.
const REPEATS: u32 = 1;

/// Runs the study on the drive called `name`.
pub fn run(args: &Args, context: &Context, name: &str) -> anyhow::Result<ExitCode> {
    interrupt::install().context("cannot install signal handlers")?;
    let drive = drives::load(name)?;
    let policies = modelled::policies(&args.policies).map_err(|error| UsageError::new(error.to_string()))?;
    let scale = Scale { repeats: args.repeats.unwrap_or(REPEATS), ..if args.quick { QUICK } else { FULL } };
    let setup = Setup {
        drive,
        label: args.target.clone(),
        volume: modelled::volume_named(&args.filesystem),
        fill: f64::from(args.fill) / 100.0,
        fill_class: DataClass::Compressible(30),
        seed: args.seed,
    };
    let matrix = Matrix {
        target: args.target.clone(),
        jobs: scale.jobs(args.seed)?,
        policies: policies.iter().map(|policy| policy.name().to_owned()).collect(),
        repeats: scale.repeats,
        patience: None,
    };
    let study = matrix::run(&mut ModelledRig::new(context, setup, policies), &matrix)?;
    conclude(args, context, &study)
}
