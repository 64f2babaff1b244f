//! Runs into the store.

use super::{Result, RunId, Saved, Store, StoreError, blob};
use crate::shape::pictures::PicturesV1;
use crate::shape::run::RunV1;
use rusqlite::{Connection, Transaction, TransactionBehavior, params};
use trimtab_core::run::{DiscardAccount, Field, Phase, Run};

impl Store {
    /// Keeps `run`, as the one saved last. On disk when this returns.
    pub fn save(&mut self, run: &Run) -> Result<Saved> {
        let mut saved = self.save_all(std::slice::from_ref(run), true)?;
        Ok(saved.pop().expect("one run gives one answer"))
    }

    /// Keeps all of `runs`, or none of them. A run that is there already becomes the one saved last only if `touch`.
    pub fn save_all(&mut self, runs: &[Run], touch: bool) -> Result<Vec<Saved>> {
        let path = self.path.clone();
        let error = |source| Self::explain("write to", &path, source, false);
        let mut saved = Vec::new();
        // The transaction borrows the connection; what is there already is compared through a list made before.
        let transaction = Transaction::new_unchecked(&self.connection, TransactionBehavior::Immediate).map_err(error)?;
        for run in runs {
            let id = RunId::of(run);
            let there = self.row_of(id)?;
            match there {
                Some(row) => {
                    if json(&self.load_row(row)?) != json(run) {
                        return Err(StoreError::Conflict { path, id });
                    }
                    if touch {
                        let next = "UPDATE runs SET saved = (SELECT max(saved) + 1 FROM runs), saved_unix_ms = ?2 WHERE run = ?1";
                        transaction.execute(next, params![row, now()]).map_err(error)?;
                    }
                }
                None => insert(&transaction, id, run).map_err(error)?,
            }
            saved.push(Saved { id, new: there.is_none() });
        }
        transaction.commit().map_err(error)?;
        Ok(saved)
    }

    /// Removes the runs of these ids, all or none. Says how many there were.
    pub fn delete(&mut self, ids: &[RunId]) -> Result<usize> {
        let path = self.path.clone();
        let error = |source| Self::explain("delete from", &path, source, false);
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(error)?;
        let mut deleted = 0;
        for id in ids {
            deleted += transaction.execute("DELETE FROM runs WHERE id = ?1", [id.to_string()]).map_err(error)?;
        }
        // A study without runs is none.
        transaction.execute("DELETE FROM studies WHERE study NOT IN (SELECT study FROM study_runs)", []).map_err(error)?;
        transaction.commit().map_err(error)?;
        Ok(deleted)
    }
}

fn json(run: &Run) -> Vec<u8> {
    serde_json::to_vec(&RunV1::from(run)).expect("the shape holds only what JSON can say")
}

fn now() -> i64 {
    signed(crate::runner::unix_ms())
}

/// The same 64 bits with sign: SQLite has no others.
const fn signed(value: u64) -> i64 {
    value.cast_signed()
}

fn insert(connection: &Connection, id: RunId, run: &Run) -> rusqlite::Result<()> {
    connection.prepare_cached(
        "INSERT INTO runs (id, saved, saved_unix_ms, workload, target, target_label, policy, seed, provenance, systems, started_unix_ms, tool_version, complete)
         VALUES (?1, (SELECT coalesce(max(saved), 0) + 1 FROM runs), ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
    )?
    .execute(params![
        id.to_string(),
        now(),
        run.workload,
        run.target.name(),
        run.target_label,
        run.policy,
        signed(run.seed),
        run.provenance.name(),
        run.systems,
        signed(run.started_unix_ms),
        run.tool_version,
        run.complete,
    ])?;
    let row = connection.last_insert_rowid();
    insert_fields(connection, row, "setting", &run.settings)?;
    insert_fields(connection, row, "policy", &run.policy_settings)?;
    insert_fields(connection, row, "environment", &run.environment)?;
    insert_fields(connection, row, "specification", &run.specification)?;
    let mut insert = connection.prepare_cached("INSERT INTO counters VALUES (?1, ?2, ?3, ?4)")?;
    for (position, (name, value)) in run.counters.iter().enumerate() {
        insert.execute(params![row, position, name, signed(*value)])?;
    }
    for (position, phase) in run.phases.iter().enumerate() {
        insert_phase(connection, row, position, phase)?;
    }
    insert_metrics(connection, row, run)?;
    insert_series(connection, row, run)?;
    insert_pictures(connection, row, run)?;
    insert_warnings(connection, row, run)
}

fn insert_pictures(connection: &Connection, row: i64, run: &Run) -> rusqlite::Result<()> {
    if run.pictures.is_empty() {
        return Ok(());
    }
    let json = serde_json::to_string(&PicturesV1::from(&run.pictures)).expect("the shape holds only what JSON can say");
    connection.prepare_cached("INSERT INTO pictures VALUES (?1, ?2)")?.execute(params![row, json]).map(|_| ())
}

fn insert_fields(connection: &Connection, row: i64, scope: &str, fields: &[Field]) -> rusqlite::Result<()> {
    let mut insert = connection.prepare_cached("INSERT INTO fields VALUES (?1, ?2, ?3, ?4, ?5)")?;
    for (position, field) in fields.iter().enumerate() {
        insert.execute(params![row, scope, position, field.key, field.value])?;
    }
    Ok(())
}

fn insert_phase(connection: &Connection, row: i64, at: usize, phase: &Phase) -> rusqlite::Result<()> {
    let times = [phase.started.0, phase.took.0, phase.read.0, phase.written.0].map(signed);
    connection
        .prepare_cached("INSERT INTO phases VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")?
        .execute(params![row, at, phase.name, times[0], times[1], times[2], times[3]])?;
    let mut insert = connection.prepare_cached("INSERT INTO phase_ops VALUES (?1, ?2, ?3, ?4, ?5)")?;
    for (position, (kind, count)) in phase.ops.iter().enumerate() {
        insert.execute(params![row, at, position, kind.name(), signed(*count)])?;
    }
    let mut insert = connection.prepare_cached("INSERT INTO latencies VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")?;
    for (position, latency) in phase.latencies.iter().enumerate() {
        let blob = blob::from_histogram(&latency.histogram);
        let count = signed(latency.histogram.count());
        insert.execute(params![row, at, position, latency.kind.name(), latency.part.name(), count, blob])?;
    }
    phase.discards.as_ref().map_or(Ok(()), |account| insert_discards(connection, row, at, account))
}

fn insert_discards(connection: &Connection, row: i64, phase: usize, account: &DiscardAccount) -> rusqlite::Result<()> {
    let errnos: Vec<String> = account.refused_errnos.iter().map(i32::to_string).collect();
    connection.prepare_cached("INSERT INTO discards VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)")?.execute(params![
        row,
        phase,
        signed(account.asked_commands),
        signed(account.asked.0),
        account.accepted_commands.map(signed),
        account.accepted.map(|b| signed(b.0)),
        signed(account.refused_commands),
        errnos.join(" "),
        account.effective.map(|b| signed(b.0)),
        account.freed.map(|b| signed(b.0)),
    ])?;
    Ok(())
}

fn insert_metrics(connection: &Connection, row: i64, run: &Run) -> rusqlite::Result<()> {
    let mut metric = connection.prepare_cached("INSERT INTO metrics VALUES (?1, ?2, ?3, ?4, ?5)")?;
    let mut sample = connection.prepare_cached("INSERT INTO samples VALUES (?1, ?2, ?3, ?4)")?;
    for (at, m) in run.metrics.iter().enumerate() {
        metric.execute(params![row, at, m.name, m.unit.name(), m.better.name()])?;
        for (position, value) in m.samples.iter().enumerate() {
            sample.execute(params![row, at, position, value])?;
        }
    }
    Ok(())
}

fn insert_series(connection: &Connection, row: i64, run: &Run) -> rusqlite::Result<()> {
    let mut insert = connection.prepare_cached("INSERT INTO series VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")?;
    for (position, s) in run.series.iter().enumerate() {
        let (x, y) = (blob::from_places(&s.x), blob::from_values(&s.y));
        insert.execute(params![row, position, s.name, s.axis.name(), s.unit.name(), x, y])?;
    }
    Ok(())
}

fn insert_warnings(connection: &Connection, row: i64, run: &Run) -> rusqlite::Result<()> {
    let mut warning = connection.prepare_cached("INSERT INTO warnings VALUES (?1, ?2, ?3, ?4, ?5)")?;
    let mut fact = connection.prepare_cached("INSERT INTO warning_facts VALUES (?1, ?2, ?3, ?4, ?5)")?;
    for (at, w) in run.warnings.iter().enumerate() {
        warning.execute(params![row, at, w.code, w.severity.name(), w.text])?;
        for (position, field) in w.facts.iter().enumerate() {
            fact.execute(params![row, at, position, field.key, field.value])?;
        }
    }
    Ok(())
}
