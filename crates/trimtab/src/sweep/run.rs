//! Whoever runs the cells of a sweep: threads that take one after another, each within the memory that is left.

use super::Checked;
use super::directory::{Directory, Shard};
use super::journal::Journal;
use crate::drives::crew;
use crate::drives::memory::Budget;
use crate::drives::simulate::Unwatched;
use crate::drives::simulate::traced::Traced;
use anyhow::Context as _;
use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};
use trimtab_drive::units::Bytes;
use trimtab_drive::usage::UsageError;
use trimtab_linux::output::Context;
use trimtab_linux::output::progress::Tally;
use trimtab_linux::sys::interrupt;
use trimtab_sim::runner::End;
use trimtab_study::sweep::table::{Outcome, Row, outcome};
use trimtab_study::sweep::{Cell, id_of_impossible};

/// How to run it.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// Which share.
    pub shard: Shard,
    /// How many cells at once, if there is memory.
    pub threads: usize,
}

/// What was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Cells of the share.
    pub cells: u64,
    /// Those that had been finished before.
    pub found: u64,
    /// Those that were run now.
    pub run: u64,
}

/// Runs what is not finished yet, and keeps each result at once.
///
/// # Errors
/// A directory that cannot be written; cells that need more memory than this machine has. An interrupt is none: what was not finished is not there.
pub fn run(context: &Context, checked: &Checked, directory: &Directory, asked: Asked) -> anyhow::Result<Done> {
    let found = directory.found()?;
    let (journal, rows) = directory.journal(asked.shard)?;
    let there: BTreeSet<u64> = rows.iter().map(|row| row.cell).collect();
    let cells: Vec<u64> = asked.shard.cells(directory.about.cells).collect();
    let todo: Vec<u64> = cells.iter().copied().filter(|cell| !there.contains(cell)).collect();
    let bar = Tally::new(context, "cells", todo.len() as u64);
    let crew = Crew {
        context,
        checked,
        found: &found,
        budget: Budget::of_this_machine(),
        books: Mutex::new(Books {
            todo: todo.iter(),
            journal,
            done: Done { cells: cells.len() as u64, found: there.len() as u64, run: 0 },
            too_large: None,
        }),
        bar,
    };
    let threads = asked.threads.min(todo.len());
    let ran = crew::run(threads, |_| crew.books().todo.next().copied(), |cell| crew.cell(cell));
    crew.end(ran)
}

struct Books<'a> {
    todo: std::slice::Iter<'a, u64>,
    journal: Journal,
    done: Done,
    /// The first cell that this machine has too little memory for, and how much it takes.
    too_large: Option<(u64, Bytes)>,
}

struct Crew<'a> {
    context: &'a Context,
    checked: &'a Checked,
    found: &'a BTreeMap<String, Outcome>,
    budget: Budget,
    books: Mutex<Books<'a>>,
    bar: Tally,
}

impl<'a> Crew<'a> {
    /// Each change of the books is whole: a thread that panicked left them as good as before.
    fn books(&self) -> MutexGuard<'_, Books<'a>> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cell(&self, number: u64) -> anyhow::Result<()> {
        let plan = &self.checked.plan;
        let place = plan.place(number);
        let (id, outcome, fresh) = match plan.cell(&place, &self.checked.files) {
            Err(wrong) => (id_of_impossible(&place, &wrong.text), Outcome::Failed(wrong.text), true),
            Ok(cell) => {
                let id = plan.keep.id(cell.id());
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
        books.journal.put(&Row { cell: number, id, outcome }).context("cannot keep a finished cell")?;
        *(if fresh { &mut books.done.run } else { &mut books.done.found }) += 1;
        drop(books);
        self.bar.count();
        Ok(())
    }

    /// Runs it; `None` if it was stopped, or cannot be begun here.
    fn make(&self, number: u64, cell: &Cell<Traced>) -> Option<Outcome> {
        let memory = cell.memory();
        let Some(_part) = self.budget.take(memory.0) else {
            self.books().too_large.get_or_insert((number, memory));
            return None;
        };
        let _underway = self.context.doing.begin(&format!("cell {number}"));
        match catch_unwind(AssertUnwindSafe(|| cell.run(&mut Unwatched))) {
            Ok(Ok((run, End::Complete))) => Some(outcome(cell, &run, &self.checked.plan.keep)),
            Ok(Ok((_, End::Failed(error)))) => Some(Outcome::Failed(error.to_string())),
            Ok(Ok((_, End::Interrupted))) => None,
            Ok(Err(_)) if interrupt::requested() => None,
            Ok(Err(reason)) => Some(Outcome::Failed(reason)),
            Err(panic) => Some(Outcome::Failed(format!("the model stopped: {}", words(panic.as_ref())))),
        }
    }
}

/// What was said in a panic.
fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("it did not say why")
}

impl Crew<'_> {
    fn end(self, ran: anyhow::Result<()>) -> anyhow::Result<Done> {
        drop(self.bar);
        let mut books = self.books.into_inner().unwrap_or_else(PoisonError::into_inner);
        ran?;
        books.journal.sync().context("cannot keep finished cells")?;
        match books.too_large {
            Some((cell, memory)) => {
                let what = format!("cell {cell} needs {memory} of memory, and {} can be used here", self.budget.total());
                Err(UsageError::missing(what).hint("all others are done; run it again where there is more").into())
            }
            None => Ok(books.done),
        }
    }
}
