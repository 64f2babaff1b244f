//! Sweeps: read their plans, run their cells on all processors, and store the results.

pub mod csv;
pub mod directory;
pub mod estimate;
mod files;
mod journal;
pub mod parquet;
pub mod progress;
pub mod run;

pub use files::Files;

use std::path::Path;
use trimtab_drive::usage::UsageError;
use trimtab_study::sweep::Plan;

use trimtab_linux::output::error::of_named;
use trimtab_linux::sys::beneath::named;

/// Largest plan, in bytes.
const PLAN_BYTES_MAX: u64 = 1 << 20;

/// A validated plan with its files.
#[derive(Debug)]
pub struct ValidatedPlan {
    /// Its text.
    pub text: String,
    /// The plan.
    pub plan: Plan,
    /// Drives and traces.
    pub files: Files,
}

/// Reads and validates a plan.
///
/// # Errors
/// The file cannot be read; the plan has an error (with line and key); none of its cells
/// is valid.
pub fn read(path: &Path) -> anyhow::Result<ValidatedPlan> {
    let wrong = |what: String| UsageError::new(format!("{}: {what}", path.display()));
    let hint = "name a plan; 'trimtab sweep --help' shows one";
    let text = named::read_text(path, PLAN_BYTES_MAX)
        .map_err(|error| of_named(error, path, "cannot read the plan", hint))?;
    let plan = Plan::parse(&text).map_err(|error| wrong(error.to_string()))?;
    let files = Files::beside(path);
    plan.check(&files).map_err(|error| wrong(error.to_string()))?;
    Ok(ValidatedPlan { text, plan, files })
}
