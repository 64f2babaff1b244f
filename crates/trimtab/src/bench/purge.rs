//! Purges a device before a benchmark by discarding all of it, proved by samples read
//! back.

use crate::target_spec::TargetSpec;
use std::path::Path;
use std::time::Instant;
use trimtab_drive::units::Nanos;
use trimtab_drive::usage::UsageError;
use trimtab_linux::output::Context;
use trimtab_linux::output::progress::{Progress, ProgressUnit};
use trimtab_linux::session::safety::consent;
use trimtab_linux::target::block::device::Claim;
use trimtab_sim::run::Field;

/// Fails for a target that is not a device.
///
/// # Errors
/// It is not.
pub fn check(spec: &TargetSpec) -> Result<(), UsageError> {
    if let TargetSpec::Device(_) = spec {
        return Ok(());
    }
    let problem = format!("--purge is for block devices, and {spec} is not one");
    Err(spec.refused(problem).hint("leave --purge out"))
}

/// Discards the whole device at `path` after consent, and returns the facts for the run's
/// settings.
///
/// # Errors
/// The device does not support discards, or samples still hold data.
pub fn run(
    context: &Context,
    what: &str,
    path: &Path,
    claim: &Claim,
) -> anyhow::Result<Vec<Field>> {
    let path = path.display();
    if !claim.takes_discards() {
        let problem = format!("--purge: {path} does not support discards; nothing was written");
        return Err(UsageError::new(problem).into());
    }
    let question = format!("{what} discards all of {path}: everything on it is erased. Continue?");
    if !consent::ask(context, &question)? {
        return Err(UsageError::new(format!("{what} would erase everything on {path}"))
            .hint("say --yes to allow it")
            .into());
    }
    let started = Instant::now();
    let mut bar = Progress::new(context, "purge", ProgressUnit::Bytes, claim.size().0);
    claim.discard_all(|done| bar.set(done))?;
    drop(bar);
    let took = Nanos(started.elapsed().as_nanos() as u64);
    let proof = claim.discard_proof()?;
    anyhow::ensure!(
        proof.holding == 0,
        "--purge: {} of {} samples of {path} still hold data: the drive is not purged",
        proof.holding,
        proof.samples
    );
    context.remark(&format!(
        "discarded all of {path} in {took}: {} samples read back hold no data",
        proof.samples
    ));
    Ok(vec![
        Field::new("purge", "discard"),
        Field::new("purge.time", took.to_string()),
        Field::new("purge.samples", proof.samples.to_string()),
    ])
}
