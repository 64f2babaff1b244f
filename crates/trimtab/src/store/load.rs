//! Reads runs from the store.

use super::{Reference, Result, RunId, Store, StoreError, ambiguous, body};
use rusqlite::{Params, Row, Transaction, TransactionBehavior, params};
use serde::{Serialize, Serializer};
use trimtab_sim::run::json::entries;
use trimtab_sim::run::shown::headline;
use trimtab_sim::run::{Field, Metric, Provenance, Run, TargetKind, Unit};

/// Selects the runs to list. An empty filter lists all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Exact workload.
    pub workload: Option<String>,
    /// Substring of the target's name.
    pub target: Option<String>,
    /// Earliest start time, in milliseconds since 1970 UTC.
    pub since_unix_ms: Option<u64>,
    /// Substring of the label.
    pub label: Option<String>,
    /// Study that contains the run.
    pub study: Option<RunId>,
    /// Maximum number of runs; the newest are listed.
    pub limit: Option<usize>,
}

/// One-line summary of a stored run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Its id.
    pub id: RunId,
    /// Start time, in milliseconds since 1970 UTC.
    pub started_unix_ms: u64,
    /// Workload.
    pub workload: String,
    /// Kind of target.
    pub target: TargetKind,
    /// The target as the user named it.
    pub target_label: String,
    /// Trim policy.
    pub policy: String,
    /// Source of the figures.
    pub provenance: Provenance,
    /// Number of independent systems summed.
    pub systems: u32,
    /// False if the run was interrupted.
    pub complete: bool,
    /// Number of warnings.
    pub warnings: u64,
    /// User-assigned label.
    pub label: Option<String>,
    /// The latest study that contains it.
    pub study: Option<RunId>,
    /// Fill level of the filesystem, if it was set.
    pub fill: Option<String>,
    /// Its settings.
    #[serde(serialize_with = "entries::serialize")]
    pub settings: Vec<Field>,
    /// The headline figure, if there is one.
    #[serde(serialize_with = "figure")]
    pub metric: Option<Metric>,
}

impl Summary {
    /// The mean of the headline figure; `None` without a figure or if the mean is not
    /// finite.
    pub fn mean(&self) -> Option<f64> {
        self.metric.as_ref().and_then(mean)
    }
}

fn mean(metric: &Metric) -> Option<f64> {
    Some(metric.samples.iter().sum::<f64>() / metric.samples.len() as f64)
        .filter(|mean| mean.is_finite())
}

fn figure<S: Serializer>(metric: &Option<Metric>, serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct StoredFigure<'a> {
        name: &'a str,
        unit: Unit,
        mean: Option<f64>,
        repeats: usize,
    }
    let figure = metric.as_ref().map(|m| StoredFigure {
        name: &m.name,
        unit: m.unit,
        mean: mean(m),
        repeats: m.samples.len(),
    });
    figure.serialize(serializer)
}

impl Store {
    /// The matching runs, oldest first. Only [`Store::load`] checks a run against its id.
    pub fn list(&self, filter: &Filter) -> Result<Vec<Summary>> {
        let _snapshot = self.snapshot()?;
        let sql = "
            SELECT id, workload, target_label, policy, started_unix_ms, label, head,
                (SELECT studies.id FROM study_runs JOIN studies USING (study) WHERE study_runs.run = runs.run
                 ORDER BY studies.saved DESC LIMIT 1) AS study
            FROM runs
            WHERE (?1 IS NULL OR workload = ?1)
              AND (?2 IS NULL OR instr(lower(target_label), lower(?2)) > 0) AND (?3 IS NULL OR started_unix_ms >= ?3)
              AND (?5 IS NULL OR instr(lower(coalesce(label, '')), lower(?5)) > 0)
              AND (?6 IS NULL OR run IN (SELECT run FROM study_runs JOIN studies USING (study) WHERE studies.id = ?6))
            ORDER BY saved DESC, run DESC LIMIT ?4";
        let limit = filter.limit.map_or(-1, |n| i64::try_from(n).unwrap_or(i64::MAX));
        let study = filter.study.map(|id| id.to_string());
        let since = filter.since_unix_ms.map(u64::cast_signed);
        let params = params![filter.workload, filter.target, since, limit, filter.label, study];
        let rows = self.rows(sql, params, |row| Ok(self.summary(row)))?;
        rows.into_iter().rev().collect()
    }

    /// Resolves `last`, `last~1` … to the run or whole study that one command saved.
    /// Returns any other reference unchanged.
    pub fn resolve(&self, reference: &Reference) -> Result<Reference> {
        let Reference::Last(back) = reference else { return Ok(reference.clone()) };
        // A study is as recent as its newest run.
        let sql = "SELECT id, study FROM (
                SELECT id, saved, 0 AS study, 0 AS nth FROM runs WHERE run NOT IN (SELECT run FROM study_runs)
                UNION ALL
                SELECT studies.id, max(runs.saved), 1, studies.saved FROM studies JOIN study_runs USING (study) JOIN runs USING (run) GROUP BY studies.study
            ) ORDER BY saved DESC, nth DESC LIMIT 1 OFFSET ?1";
        let found: Option<(String, bool)> =
            self.rows(sql, [back], |row| Ok((row.get(0)?, row.get(1)?)))?.pop();
        Ok(found.map_or_else(
            || reference.clone(),
            |(id, study)| if study { Reference::Study(id) } else { Reference::Prefix(id) },
        ))
    }

    /// Finds the run that `reference` names.
    pub fn find(&self, reference: &Reference) -> Result<RunId> {
        let meant = self.resolve(reference)?;
        let ids: Vec<String> = match &meant {
            Reference::Study(_)
            | Reference::LastStudy(_)
            | Reference::Last(_)
            | Reference::Other(_) => Vec::new(),
            // A glob of hexadecimal digits and a star matches exactly as a prefix.
            Reference::Prefix(prefix) => self.rows(
                "SELECT id FROM runs WHERE id GLOB ?1 || '*' ORDER BY saved LIMIT 9",
                [prefix],
                |row| row.get(0),
            )?,
        };
        match &ids[..] {
            [] => Err(self.no_single_run(reference, &meant)),
            [id] => id.parse().map_err(|detail: String| self.damaged(detail)),
            several => Err(ambiguous(reference, several)),
        }
    }

    /// The error for a reference that names no single run; it mentions a study, which
    /// other commands accept.
    fn no_single_run(&self, reference: &Reference, meant: &Reference) -> StoreError {
        match self.find_study(meant) {
            Ok((id, study)) => StoreError::Study {
                reference: reference.to_string(),
                id: id.short(),
                runs: study.runs.len(),
            },
            Err(_) => self.no_run(&reference.to_string()),
        }
    }

    /// Loads the run with this id.
    pub fn load(&self, id: RunId) -> Result<Run> {
        let _snapshot = self.snapshot()?;
        match self.row_of(id)? {
            Some(row) => self.load_row(row).and_then(|run| self.check(id, run)),
            None => Err(self.no_run(&id.to_string())),
        }
    }

    /// Returns the run if its content matches its id.
    fn check(&self, id: RunId, run: Run) -> Result<Run> {
        let found = RunId::of(&run);
        if found == id {
            return Ok(run);
        }
        let path = self.path.display();
        Err(StoreError::Other(format!(
            "run {id} in store {path} was altered: its present content has the id \
                {found}; remove it with trimtab results delete {id}"
        )))
    }

    /// Keeps all reads consistent while the transaction lives.
    fn snapshot(&self) -> Result<Transaction<'_>> {
        Transaction::new_unchecked(&self.connection, TransactionBehavior::Deferred)
            .map_err(self.error("read"))
    }

    pub(super) fn row_of(&self, id: RunId) -> Result<Option<i64>> {
        Ok(self
            .rows("SELECT run FROM runs WHERE id = ?1", [id.to_string()], |row| row.get(0))?
            .pop())
    }

    pub(super) fn rows<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>> {
        let rows = || -> rusqlite::Result<_> {
            self.connection.prepare_cached(sql)?.query_map(params, read)?.collect()
        };
        rows().map_err(self.error("read"))
    }

    fn summary(&self, row: &Row<'_>) -> Result<Summary> {
        let read = || -> rusqlite::Result<_> {
            let strings = (row.get::<_, String>("id")?, row.get::<_, Option<String>>("study")?);
            Ok((strings, with_columns(row)?, row.get::<_, String>("head")?, row.get("label")?))
        };
        let ((id, study), columns, head, label) = read().map_err(self.error("read"))?;
        let head =
            body::parse(&head).map_err(|detail| self.damaged(format!("run {id}: {detail}")))?;
        let run = columns(head);
        let known = |key: &str| {
            Field::find(&run.settings, key)
                .or_else(|| Field::find(&run.environment, key))
                .map(str::to_owned)
        };
        Ok(Summary {
            label,
            study: study.map(|id| self.id(&id)).transpose()?,
            fill: known("fill").or_else(|| known("fs.fill")),
            id: self.id(&id)?,
            started_unix_ms: run.started_unix_ms,
            target: run.target,
            provenance: run.provenance,
            systems: run.systems,
            complete: run.complete,
            warnings: run.warnings.len() as u64,
            workload: run.workload,
            target_label: run.target_label,
            policy: run.policy,
            settings: run.settings,
            metric: headline(run.metrics),
        })
    }

    /// Reads a run. Columns override the body; they differ only if either was altered, and
    /// the hash detects that.
    pub(super) fn load_row(&self, row: i64) -> Result<Run> {
        let sql = "SELECT workload, target_label, policy, started_unix_ms, body FROM runs \
            WHERE run = ?1";
        let read = |row: &Row<'_>| Ok((row.get::<_, Vec<u8>>("body")?, with_columns(row)?));
        let (body, columns) = self
            .connection
            .prepare_cached(sql)
            .and_then(|mut sql| sql.query_row([row], read))
            .map_err(self.error("read"))?;
        let run =
            body::unpack(&body).map_err(|detail| self.damaged(format!("run {row}: {detail}")))?;
        Ok(columns(run))
    }
}

/// Sets what a row of `runs` has as columns.
fn with_columns(row: &Row<'_>) -> rusqlite::Result<impl FnOnce(Run) -> Run + use<>> {
    let (workload, target_label) = (row.get("workload")?, row.get("target_label")?);
    let policy = row.get("policy")?;
    let started_unix_ms = row.get::<_, i64>("started_unix_ms")?.cast_unsigned();
    Ok(move |run| Run { workload, target_label, policy, started_unix_ms, ..run })
}
