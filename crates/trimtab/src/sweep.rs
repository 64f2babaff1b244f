//! Sweeps: who reads their plans, runs their cells on all processors, and keeps what came of them.

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

use trimtab_linux::sys::beneath::named;

/// No plan is longer.
const PLAN_BYTES_MAX: u64 = 1 << 20;
/// Cells that are looked at before anything runs, spread over the plan.
const LOOKED_AT: u64 = 20_000;

/// A plan whose values have all been tried, with what it names.
#[derive(Debug)]
pub struct Checked {
    /// Its text.
    pub text: String,
    /// The plan.
    pub plan: Plan,
    /// Drives and traces.
    pub files: Files,
}

/// Reads a plan and tries its values.
///
/// # Errors
/// A file that cannot be read; what is wrong with the plan, by line and key; a plan of which no cell can be made.
pub fn read(path: &Path) -> anyhow::Result<Checked> {
    let wrong = |what: String| UsageError::new(format!("{}: {what}", path.display()));
    let text = named::read_text(path, PLAN_BYTES_MAX)
        .map_err(|error| anyhow::Error::from(error).context(format!("cannot read the plan {}", path.display())))?;
    let plan = Plan::parse(&text).map_err(|error| wrong(error.to_string()))?;
    let files = Files::beside(path);
    plan.check(&files).map_err(|error| wrong(error.to_string()))?;
    Ok(Checked { text, plan, files })
}

/// What the cells of a plan are, as far as they were looked at.
#[derive(Debug, Default)]
pub struct Looked {
    /// Cells that were made.
    pub looked_at: u64,
    /// Those that cannot be, and why the first of them cannot.
    pub impossible: u64,
    /// The first reason.
    pub reason: Option<String>,
    /// The most memory that one takes, in bytes.
    pub memory_max: u64,
}

impl Checked {
    /// Makes cells of the plan, all or some that are spread over it.
    ///
    /// # Errors
    /// None of them can be made.
    pub fn look(&self) -> anyhow::Result<Looked> {
        let mut looked = Looked::default();
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
            Some(reason) => Err(UsageError::new(format!("no cell of this plan can be made: {reason}")).into()),
            None => Ok(looked),
        }
    }
}

/// What cells may take together on this machine.
#[must_use]
pub fn usable_memory() -> trimtab_drive::units::Bytes {
    crate::drives::memory::Budget::of_this_machine().total()
}
