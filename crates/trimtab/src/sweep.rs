//! Sweeps: read their plans, run their cells on all processors, and store the results.

pub mod calibrate;
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
/// Cells that are examined before the sweep starts, spread over the plan.
const LOOKED_AT: u64 = 20_000;

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
/// The file cannot be read; the plan has an error (with line and key); none of its cells is
/// valid.
pub fn read(path: &Path) -> anyhow::Result<ValidatedPlan> {
    let wrong = |what: String| UsageError::new(format!("{}: {what}", path.display()));
    let hint = "name a plan; 'trimtab sweep --help' shows one";
    let text = named::read_text(path, PLAN_BYTES_MAX).map_err(|error| of_named(error, path, "cannot read the plan", hint))?;
    let plan = Plan::parse(&text).map_err(|error| wrong(error.to_string()))?;
    let files = Files::beside(path);
    plan.check(&files).map_err(|error| wrong(error.to_string()))?;
    Ok(ValidatedPlan { text, plan, files })
}

/// Result of examining the cells of a plan.
#[derive(Debug, Default)]
pub struct Examination {
    /// Cells that were examined.
    pub looked_at: u64,
    /// Number of invalid cells.
    pub impossible: u64,
    /// The first reason.
    pub reason: Option<String>,
    /// Largest memory of a cell, in bytes.
    pub memory_max: u64,
}

impl ValidatedPlan {
    /// Examines cells of the plan: all, or a sample spread over it.
    ///
    /// # Errors
    /// None of them is valid.
    pub fn look(&self) -> anyhow::Result<Examination> {
        let mut looked = Examination::default();
        let cells = self.plan.cells();
        let every = cells.div_ceil(LOOKED_AT).max(1);
        for cell in (0..cells).step_by(usize::try_from(every)?) {
            looked.looked_at += 1;
            match self.plan.cell(&self.plan.place(cell), &self.files) {
                Ok(cell) => looked.memory_max = looked.memory_max.max(cell.memory().0),
                Err(wrong) => {
                    looked.impossible += 1;
                    looked.reason.get_or_insert(wrong.text);
                }
            }
        }
        match looked.reason.take_if(|_| looked.impossible == looked.looked_at) {
            Some(reason) => Err(UsageError::new(format!("no cell of this plan is valid: {reason}")).into()),
            None => Ok(looked),
        }
    }
}

/// Memory for all cells together on this machine.
#[must_use]
pub fn usable_memory() -> trimtab_drive::units::Bytes {
    crate::drives::memory::MemoryBudget::of_this_machine().total()
}
