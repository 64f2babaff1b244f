//! Writes runs to the store.

use super::{Result, RunId, SaveOutcome, Store, StoreError, body};
use rusqlite::{Connection, Transaction, TransactionBehavior, params};
use trimtab_sim::run::Run;

impl Store {
    /// Saves `run` as the most recent one. It is on disk when this returns.
    pub fn save(&mut self, run: &Run) -> Result<SaveOutcome> {
        let mut saved = self.save_all(std::slice::from_ref(run), true)?;
        Ok(saved.pop().expect("one run gives one answer"))
    }

    /// Saves all `runs` or none. A run already stored becomes the most recent one only if
    /// `touch`.
    pub fn save_all(&mut self, runs: &[Run], touch: bool) -> Result<Vec<SaveOutcome>> {
        let path = self.path.clone();
        let error = |source| Self::explain("write to", &path, source, false);
        let mut saved = Vec::new();
        // The transaction borrows the connection, so stored runs are compared through a
        // list made earlier.
        let transaction =
            Transaction::new_unchecked(&self.connection, TransactionBehavior::Immediate)
                .map_err(error)?;
        for run in runs {
            let id = RunId::of(run);
            let there = self.row_of(id)?;
            match there {
                Some(row) => {
                    if body::json(&self.load_row(row)?) != body::json(run) {
                        return Err(StoreError::Other(format!(
                            "store {} has another run with the id {id}",
                            path.display()
                        )));
                    }
                    if touch {
                        let next = "UPDATE runs SET saved = (SELECT max(saved) + 1 FROM runs), \
                            saved_unix_ms = ?2 WHERE run = ?1";
                        transaction.execute(next, params![row, now()]).map_err(error)?;
                    }
                }
                None => drop(insert(&transaction, id, run).map_err(error)?),
            }
            saved.push(SaveOutcome { id, new: there.is_none() });
        }
        transaction.commit().map_err(error)?;
        Ok(saved)
    }

    /// Removes the runs with these ids, all or none. Returns the number removed.
    pub fn delete(&mut self, ids: &[RunId]) -> Result<usize> {
        let path = self.path.clone();
        let error = |source| Self::explain("delete from", &path, source, false);
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(error)?;
        let mut deleted = 0;
        for id in ids {
            deleted += transaction
                .execute("DELETE FROM runs WHERE id = ?1", [id.to_string()])
                .map_err(error)?;
        }
        // A study without runs is removed.
        transaction
            .execute("DELETE FROM studies WHERE study NOT IN (SELECT study FROM study_runs)", [])
            .map_err(error)?;
        transaction.commit().map_err(error)?;
        Ok(deleted)
    }
}

fn now() -> i64 {
    trimtab_linux::sys::clock::unix_ms().cast_signed()
}

fn insert(connection: &Connection, id: RunId, run: &Run) -> rusqlite::Result<usize> {
    let insert = "INSERT INTO runs (id, saved, saved_unix_ms, workload, target_label, policy, started_unix_ms, head, body)
                  VALUES (?1, (SELECT coalesce(max(saved), 0) + 1 FROM runs), ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    let started_unix_ms = run.started_unix_ms.cast_signed();
    connection.prepare_cached(insert)?.execute(params![
        id.to_string(),
        now(),
        run.workload,
        run.target_label,
        run.policy,
        started_unix_ms,
        body::head(run),
        body::pack(run)
    ])
}
