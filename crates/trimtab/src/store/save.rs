//! Writes to the store.

use super::log::Log;
use super::{Entry, Result, RunId, SaveOutcome, Store, StoreError, StudyRecord, body};
use serde_json::value::to_raw_value;
use trimtab_sim::run::Run;

/// Entries of one change, and the bodies of its runs.
#[derive(Default)]
struct NewChange {
    entries: Vec<u8>,
    bodies: Vec<u8>,
}

impl NewChange {
    fn of(entry: &Entry) -> Self {
        let mut change = Self::default();
        change.push(entry);
        change
    }

    fn push(&mut self, entry: &Entry) {
        serde_json::to_writer(&mut self.entries, entry).expect("an entry has a form in JSON");
        self.entries.push(b'\n');
    }
}

impl Store {
    /// Saves `run` as the most recent one. It is on disk when this returns.
    pub fn save(&mut self, run: &Run) -> Result<SaveOutcome> {
        let mut saved = self.save_all(std::slice::from_ref(run))?;
        Ok(saved.pop().expect("one run gives one answer"))
    }

    /// Saves all `runs` or none. A run already stored becomes the most recent one.
    pub fn save_all(&mut self, runs: &[Run]) -> Result<Vec<SaveOutcome>> {
        self.change(|store| {
            let (mut saved, mut change) = (Vec::new(), NewChange::default());
            for run in runs {
                let id = RunId::of(run);
                let is_new =
                    store.run(id).is_none() && !saved.contains(&SaveOutcome { id, new: true });
                if is_new {
                    let head = to_raw_value(&body::head(run)).expect("a head has a form in JSON");
                    let packed = body::pack(run);
                    change.push(&Entry::Run { id, head, bytes: packed.len() as u64 });
                    change.bodies.extend(packed);
                } else if let Some(stored) = store.run(id) {
                    if body::json(&store.unpack(stored)?) != body::json(run) {
                        return Err(StoreError::Other(format!(
                            "store {} has another run with the id {id}",
                            store.path().display()
                        )));
                    }
                    change.push(&Entry::Again(id));
                }
                saved.push(SaveOutcome { id, new: is_new });
            }
            Ok((saved, change))
        })
    }

    /// Removes the runs with these ids, all or none, and studies without runs. Returns the
    /// number removed.
    pub fn delete(&mut self, ids: &[RunId]) -> Result<usize> {
        let deleted = self.change(|store| {
            let deleted: Vec<RunId> =
                ids.iter().copied().filter(|id| store.run(*id).is_some()).collect();
            let entry = Entry::Delete(deleted.clone());
            Ok((deleted.len(), NewChange::of(&entry)))
        })?;
        // Half the file at most is of deleted runs, so that deleting costs what saving does.
        let live: u64 = self.runs.iter().map(|run| run.body.1).sum();
        if self.bodies > 2 * live {
            self.rewrite()?;
        }
        Ok(deleted)
    }

    /// Saves a study whose runs are already stored. Deletes an earlier interrupted study
    /// of the same target if this one contains all its runs.
    pub fn save_study(&mut self, study: &StudyRecord) -> Result<RunId> {
        let id = study.id();
        let entry = Entry::Study { id, study: study.clone() };
        self.change(|_| Ok((id, NewChange::of(&entry))))
    }

    /// Sets or removes a run's label.
    pub fn set_label(&mut self, run: RunId, label: Option<&str>) -> Result<()> {
        let entry = Entry::Label { run, label: label.map(str::to_owned) };
        self.change(|_| Ok(((), NewChange::of(&entry))))
    }

    /// Makes the change that `decide` makes of the newest state, while no other process
    /// writes.
    fn change<T>(&mut self, decide: impl FnOnce(&Self) -> Result<(T, NewChange)>) -> Result<T> {
        self.locked(|store| {
            let (answer, change) = decide(store)?;
            if !change.entries.is_empty() {
                store.log.append(&change.entries, &change.bodies)?;
                store.refresh()?;
            }
            Ok(answer)
        })
    }

    fn locked<T>(&mut self, act: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        while !self.log.lock()? {
            *self = Self::of(Log::open_or_create(self.path())?)?;
        }
        let done = self.refresh().and_then(|()| act(self));
        self.log.unlock()?;
        done
    }

    /// Writes the file again without deleted runs.
    fn rewrite(&mut self) -> Result<()> {
        self.locked(|store| {
            let runs = store.runs.iter().map(|run| {
                let (at, bytes) = run.body;
                let mut change =
                    NewChange::of(&Entry::Run { id: run.id, head: run.head.clone(), bytes });
                if run.label.is_some() {
                    change.push(&Entry::Label { run: run.id, label: run.label.clone() });
                }
                (change.entries, at, bytes)
            });
            let studies = store.studies.iter().map(|(id, study)| {
                (NewChange::of(&Entry::Study { id: *id, study: study.clone() }).entries, 0, 0)
            });
            store.log.rewrite(runs.chain(studies))
        })?;
        *self = Self::of(Log::open_or_create(self.path())?)?;
        Ok(())
    }
}
