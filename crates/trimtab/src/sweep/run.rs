//! Runs the cells of a sweep: threads that take one cell after another, each within the
//! memory budget.

use super::ValidatedPlan;
use super::directory::{Directory, Shard};
use super::journal::SweepJournal;
use crate::drives::crew;
use crate::drives::memory::MemoryBudget;
use crate::drives::simulate::traced::TraceInput;
use anyhow::Context as _;
use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};
use trimtab_drive::units::Bytes;
use trimtab_drive::usage::UsageError;
use trimtab_linux::output::Context;
use trimtab_linux::output::progress::{Progress, ProgressUnit};
use trimtab_linux::session::runner::SilentObserver;
use trimtab_linux::sys::interrupt;
use trimtab_sim::runner::RunEnd;
use trimtab_study::sweep::table::{CellOutcome, SweepRow, outcome};
use trimtab_study::sweep::{SweepCell, id_of_impossible};

/// Options for running.
#[derive(Clone, Copy, Debug)]
pub struct RunOptions {
    /// The share to run.
    pub shard: Shard,
    /// Largest number of concurrent cells.
    pub threads: usize,
}

/// The result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SweepOutcome {
    /// Cells of the share.
    pub cells: u64,
    /// Cells that were already finished.
    pub found: u64,
    /// Cells that were run now.
    pub run: u64,
}

/// Runs the unfinished cells, and stores each result immediately.
///
/// # Errors
/// The directory cannot be written; a cell needs more memory than this machine has. An
/// interrupt is not an error: unfinished cells are simply missing.
pub fn run(
    context: &Context,
    checked: &ValidatedPlan,
    directory: &Directory,
    asked: RunOptions,
) -> anyhow::Result<SweepOutcome> {
    let found = directory.found()?;
    let (journal, rows) = directory.journal(asked.shard)?;
    let there: BTreeSet<u64> = rows.iter().map(|row| row.cell).collect();
    let cells: Vec<u64> = asked.shard.cells(directory.about.cells).collect();
    let todo: Vec<u64> = cells.iter().copied().filter(|cell| !there.contains(cell)).collect();
    let bar = Progress::new(context, "cells", ProgressUnit::Items, todo.len() as u64);
    let crew = CellRunner {
        checked,
        found: &found,
        budget: MemoryBudget::of_this_machine(),
        books: Mutex::new(SweepQueue {
            todo: todo.iter(),
            journal,
            done: SweepOutcome { cells: cells.len() as u64, found: there.len() as u64, run: 0 },
            too_large: None,
        }),
        bar,
    };
    let threads = asked.threads.min(todo.len());
    let ran = crew::run(threads, |_| crew.books().todo.next().copied(), |cell| crew.cell(cell));
    crew.end(ran)
}

struct SweepQueue<'a> {
    todo: std::slice::Iter<'a, u64>,
    journal: SweepJournal,
    done: SweepOutcome,
    /// The first cell that does not fit in memory, and its size.
    too_large: Option<(u64, Bytes)>,
}

struct CellRunner<'a> {
    checked: &'a ValidatedPlan,
    found: &'a BTreeMap<String, CellOutcome>,
    budget: MemoryBudget,
    books: Mutex<SweepQueue<'a>>,
    bar: Progress,
}

impl<'a> CellRunner<'a> {
    /// Each change of the state is complete, so the lock is usable after a panic.
    fn books(&self) -> MutexGuard<'_, SweepQueue<'a>> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cell(&self, number: u64) -> anyhow::Result<()> {
        let plan = &self.checked.plan;
        let place = plan.place(number);
        let (id, outcome, fresh) = match plan.cell(&place, &self.checked.files) {
            Err(wrong) => {
                (id_of_impossible(&place, &wrong.text), CellOutcome::Failed(wrong.text), true)
            }
            Ok(cell) => {
                let id = cell.id();
                match self.found.get(&id) {
                    Some(outcome) => (id, outcome.clone(), false),
                    None => match self.make(number, &cell) {
                        Some(outcome) => (id, outcome, true),
                        None => return Ok(()),
                    },
                }
            }
        };
        let mut books = self.books();
        books
            .journal
            .put(&SweepRow { cell: number, id, outcome })
            .context("cannot store a finished cell")?;
        *(if fresh { &mut books.done.run } else { &mut books.done.found }) += 1;
        drop(books);
        self.bar.advance(1);
        Ok(())
    }

    /// Runs a cell; `None` if it was stopped, or does not fit in memory.
    fn make(&self, number: u64, cell: &SweepCell<TraceInput>) -> Option<CellOutcome> {
        let memory = cell.memory();
        let Some(_part) = self.budget.take(memory.0) else {
            self.books().too_large.get_or_insert((number, memory));
            return None;
        };
        match catch_unwind(AssertUnwindSafe(|| cell.run(&mut SilentObserver))) {
            Ok(Ok((run, RunEnd::Complete))) => Some(outcome(cell, &run)),
            Ok(Ok((_, RunEnd::Failed(error)))) => Some(CellOutcome::Failed(error.to_string())),
            Ok(Ok((_, RunEnd::Interrupted))) => None,
            Ok(Err(_)) if interrupt::requested() => None,
            Ok(Err(reason)) => Some(CellOutcome::Failed(reason)),
            Err(panic) => {
                Some(CellOutcome::Failed(format!("the model panicked: {}", words(panic.as_ref()))))
            }
        }
    }
}

/// The message of a panic.
fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

impl CellRunner<'_> {
    fn end(self, ran: anyhow::Result<()>) -> anyhow::Result<SweepOutcome> {
        drop(self.bar);
        let mut books = self.books.into_inner().unwrap_or_else(PoisonError::into_inner);
        ran?;
        books.journal.sync().context("cannot store finished cells")?;
        match books.too_large {
            Some((cell, memory)) => {
                let what = format!(
                    "cell {cell} needs {memory} of memory, but only {} can be used here",
                    self.budget.total()
                );
                Err(UsageError::missing(what)
                    .hint(
                        "all other cells are finished; run the sweep again on a machine \
                        with more memory",
                    )
                    .into())
            }
            None => Ok(books.done),
        }
    }
}
