//! Studies: groups of runs, with notes that belong to no single run.

use super::{Reference, Result, RunId, Store, StoreError, ambiguous};
use rusqlite::{Transaction, TransactionBehavior, params};
use serde::{Deserialize, Serialize};
use trimtab_sim::run::{Field, json::entries};

/// A study, with references to its runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StudyRecord {
    /// The studied target, as the user named it.
    pub target: String,
    /// False if the study was interrupted.
    pub complete: bool,
    /// The part of the study that each run belongs to (`runs`, `1/ageing`,
    /// `twin/ageing`), in order.
    #[serde(with = "parts")]
    pub runs: Vec<(String, RunId)>,
    /// Additional notes: the target or twin of each, and JSON.
    #[serde(default, with = "entries")]
    pub notes: Vec<Field>,
}

/// Serializes each run of a study with its part, as an object.
mod parts {
    use crate::store::RunId;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct StoredStudyPart {
        part: String,
        run: RunId,
    }

    pub fn serialize<S: Serializer>(
        runs: &[(String, RunId)],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(
            runs.iter().map(|(part, run)| StoredStudyPart { part: part.clone(), run: *run }),
        )
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<(String, RunId)>, D::Error> {
        Ok(Vec::<StoredStudyPart>::deserialize(deserializer)?
            .into_iter()
            .map(|StoredStudyPart { part, run }| (part, run))
            .collect())
    }
}

impl StudyRecord {
    /// Id derived from the content: saving or importing the same study again gives the
    /// same entry.
    pub fn id(&self) -> RunId {
        let runs: Vec<String> = self.runs.iter().map(|(part, id)| format!("{part} {id}")).collect();
        let notes: Vec<String> =
            self.notes.iter().map(|field| format!("{}: {}", field.key, field.value)).collect();
        RunId::of_text(&[self.target.as_str(), &runs.join("\n"), &notes.join("\n")].join("\n\n"))
    }
}

impl Store {
    /// Saves a study whose runs are already stored. Deletes an earlier interrupted study
    /// of the same target if this one contains all its runs.
    pub fn save_study(&mut self, study: &StudyRecord) -> Result<RunId> {
        let path = self.path.clone();
        let error = |source| Self::explain("write to", &path, source, false);
        let id = study.id();
        let transaction =
            Transaction::new_unchecked(&self.connection, TransactionBehavior::Immediate)
                .map_err(error)?;
        transaction
            .execute("DELETE FROM studies WHERE id = ?1", [id.to_string()])
            .map_err(error)?;
        let insert = "INSERT INTO studies (id, saved, saved_unix_ms, target, complete)
                      VALUES (?1, (SELECT coalesce(max(saved), 0) + 1 FROM studies), ?2, ?3, ?4)";
        let now = trimtab_linux::sys::clock::unix_ms().cast_signed();
        transaction
            .execute(insert, params![id.to_string(), now, study.target, study.complete])
            .map_err(error)?;
        let row = transaction.last_insert_rowid();
        for (position, (part, run)) in study.runs.iter().enumerate() {
            let insert = "INSERT INTO study_runs SELECT ?1, ?2, ?3, run FROM runs WHERE id = ?4";
            transaction
                .execute(insert, params![row, position, part, run.to_string()])
                .map_err(error)?;
        }
        for (position, field) in study.notes.iter().enumerate() {
            let insert = "INSERT INTO study_notes VALUES (?1, ?2, ?3, ?4)";
            transaction
                .execute(insert, params![row, position, field.key, field.value])
                .map_err(error)?;
        }
        let superseded = "DELETE FROM studies WHERE study != ?1 AND NOT complete AND target = ?2 AND NOT EXISTS
            (SELECT 1 FROM study_runs s WHERE s.study = studies.study AND s.run NOT IN (SELECT run FROM study_runs WHERE study = ?1))";
        transaction.execute(superseded, params![row, study.target]).map_err(error)?;
        transaction.commit().map_err(error)?;
        Ok(id)
    }

    /// All studies, oldest first.
    pub fn studies(&self) -> Result<Vec<(RunId, StudyRecord)>> {
        let read =
            |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?));
        let heads: Vec<(i64, String, String, bool)> =
            self.rows("SELECT study, id, target, complete FROM studies ORDER BY saved", [], read)?;
        let mut studies = Vec::new();
        for (row, id, target, complete) in heads {
            let sql = "SELECT part, id FROM study_runs JOIN runs USING (run) WHERE study = ?1 \
                ORDER BY position";
            let runs: Vec<(String, String)> =
                self.rows(sql, [row], |row| Ok((row.get(0)?, row.get(1)?)))?;
            let runs = runs
                .into_iter()
                .map(|(part, id)| Ok((part, self.id(&id)?)))
                .collect::<Result<Vec<_>>>()?;
            let sql = "SELECT name, value FROM study_notes WHERE study = ?1 ORDER BY position";
            let notes =
                self.rows(sql, [row], |row| Ok(Field { key: row.get(0)?, value: row.get(1)? }))?;
            studies.push((self.id(&id)?, StudyRecord { target, complete, runs, notes }));
        }
        Ok(studies)
    }

    /// Finds the study that `reference` names.
    pub fn find_study(&self, reference: &Reference) -> Result<(RunId, StudyRecord)> {
        let path = self.path.display();
        let missing = || {
            StoreError::Other(format!(
                "store {path} has no study '{reference}'; see trimtab results list --studies"
            ))
        };
        let mut all = self.studies()?;
        if let Reference::LastStudy(back) = reference {
            let at = all.len().checked_sub(1 + *back as usize).ok_or_else(missing)?;
            return Ok(all.swap_remove(at));
        }
        let (Reference::Study(prefix) | Reference::Prefix(prefix)) = reference else {
            return Err(missing());
        };
        all.retain(|(id, _)| id.to_string().starts_with(prefix.as_str()));
        match all.len() {
            0 => Err(missing()),
            1 => Ok(all.swap_remove(0)),
            _ => Err(ambiguous(
                reference,
                &all.iter().map(|(id, _)| id.to_string()).collect::<Vec<_>>(),
            )),
        }
    }

    /// Finds the runs that `reference` names: one run, or all runs of a study.
    pub fn find_all(&self, reference: &Reference) -> Result<Vec<RunId>> {
        let reference = &self.resolve(reference)?;
        let of_study = |store: &Self| {
            Ok(store.find_study(reference)?.1.runs.into_iter().map(|(_, id)| id).collect())
        };
        match reference {
            Reference::Study(_) | Reference::LastStudy(_) => of_study(self),
            _ => match self.find(reference) {
                Err(StoreError::Study { .. }) => of_study(self),
                other => Ok(vec![other?]),
            },
        }
    }

    /// Sets or removes a run's label.
    pub fn set_label(&mut self, id: RunId, label: Option<&str>) -> Result<()> {
        let set = "UPDATE runs SET label = ?2 WHERE id = ?1";
        self.connection
            .execute(set, params![id.to_string(), label])
            .map_err(self.error("write to"))?;
        Ok(())
    }

    pub(super) fn id(&self, text: &str) -> Result<RunId> {
        text.parse().map_err(|detail: String| self.damaged(detail))
    }
}
