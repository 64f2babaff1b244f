//! Runs out of the store.

use super::{Reference, Result, RunId, Store, StoreError, blob};
use crate::shape::Named;
use crate::shape::pictures::PicturesV1;
use rusqlite::{Connection, OptionalExtension as _, Params, Row, Transaction, TransactionBehavior, params};
use trimtab_core::analysis::histogram::Histogram;
use trimtab_core::op::OpKind;
use trimtab_core::run::pictures::Pictures;
use trimtab_core::run::{DiscardAccount, Field, Latency, Metric, Phase, Provenance, Run, Series, TargetKind, Warning};
use trimtab_core::units::{Bytes, Nanos};

/// Which runs to list. An empty filter lists all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Of this workload.
    pub workload: Option<String>,
    /// Under this policy.
    pub policy: Option<String>,
    /// Whose target's name contains this.
    pub target: Option<String>,
    /// That began at this time or later, milliseconds since 1970 UTC.
    pub since_unix_ms: Option<u64>,
    /// Whose label contains this.
    pub label: Option<String>,
    /// Of this study.
    pub study: Option<RunId>,
    /// No more than these many, the newest.
    pub limit: Option<usize>,
}

/// A stored run in a line.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// Its id.
    pub id: RunId,
    /// When it began, milliseconds since 1970 UTC.
    pub started_unix_ms: u64,
    /// Workload.
    pub workload: String,
    /// Kind of target.
    pub target: TargetKind,
    /// The target as the user named it.
    pub target_label: String,
    /// Trim policy.
    pub policy: String,
    /// Where the figures come from.
    pub provenance: Provenance,
    /// Independent systems summed.
    pub systems: u32,
    /// False if it was interrupted.
    pub complete: bool,
    /// What the user calls it.
    pub label: Option<String>,
    /// The study that it belongs to; of several the latest.
    pub study: Option<RunId>,
    /// Its settings.
    pub settings: Vec<Field>,
    /// How full the filesystem was, if that was set.
    pub fill: Option<String>,
    /// The figure that matters, if it has any.
    pub metric: Option<Metric>,
    /// How many warnings it has.
    pub warnings: u64,
    /// It is not what was saved: its content does not have the hash that is its id, or cannot be read. Only [`Store::list_checked`] looks.
    pub altered: bool,
}

impl Store {
    /// The runs that fit, oldest first.
    pub fn list(&self, filter: &Filter) -> Result<Vec<Summary>> {
        let _snapshot = self.snapshot()?;
        let error = self.error("read");
        let sql = "
            SELECT run, id FROM runs
            WHERE (?1 IS NULL OR workload = ?1) AND (?2 IS NULL OR policy = ?2)
              AND (?3 IS NULL OR instr(lower(target_label), lower(?3)) > 0) AND (?4 IS NULL OR started_unix_ms >= ?4)
              AND (?6 IS NULL OR instr(lower(coalesce(label, '')), lower(?6)) > 0)
              AND (?7 IS NULL OR run IN (SELECT run FROM study_runs JOIN studies USING (study) WHERE studies.id = ?7))
            ORDER BY saved DESC LIMIT ?5";
        let limit = filter.limit.map_or(-1, |n| i64::try_from(n).unwrap_or(i64::MAX));
        let study = filter.study.map(|id| id.to_string());
        let since = filter.since_unix_ms.map(u64::cast_signed);
        let mut statement = self.connection.prepare(sql).map_err(&error)?;
        let rows = statement
            .query_map(params![filter.workload, filter.policy, filter.target, since, limit, filter.label, study], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })
            .and_then(Iterator::collect::<rusqlite::Result<Vec<(i64, String)>>>)
            .map_err(&error)?;
        let mut list = rows.into_iter().map(|(row, id)| self.summary(row, &id)).collect::<Result<Vec<_>>>()?;
        list.reverse();
        Ok(list)
    }

    /// As [`Store::list`], with the content of each run checked against its id: all of it is read.
    pub fn list_checked(&self, filter: &Filter) -> Result<Vec<Summary>> {
        let mut list = self.list(filter)?;
        for summary in &mut list {
            match self.load(summary.id) {
                Err(StoreError::Altered { .. } | StoreError::Damaged { .. }) => summary.altered = true,
                // Deleted meanwhile.
                Err(StoreError::NoSuchRun { .. }) => {}
                loaded => drop(loaded?),
            }
        }
        Ok(list)
    }

    /// The run that `reference` means.
    pub fn find(&self, reference: &Reference) -> Result<RunId> {
        let ids: Vec<String> = match reference {
            Reference::Study(_) | Reference::LastStudy(_) | Reference::Other(_) => Vec::new(),
            Reference::Last(back) => self.rows("SELECT id FROM runs ORDER BY saved DESC LIMIT 1 OFFSET ?1", [back], |row| row.get(0))?,
            // A glob of hexadecimal digits and a star means exactly "begins with".
            Reference::Prefix(prefix) => {
                self.rows("SELECT id FROM runs WHERE id GLOB ?1 || '*' ORDER BY saved LIMIT 9", [prefix], |row| row.get(0))?
            }
        };
        match &ids[..] {
            [] => Err(self.no_run(reference)),
            [id] => id.parse().map_err(|detail: String| self.damaged(detail)),
            several => Err(StoreError::Ambiguous { reference: reference.to_string(), ids: several.join(", ") }),
        }
    }

    /// Why `reference` means no run: another command may take all of a study.
    fn no_run(&self, reference: &Reference) -> StoreError {
        match self.find_study(reference) {
            Ok((id, study)) => StoreError::Study { reference: reference.to_string(), id: id.short(), runs: study.runs.len() },
            Err(_) => StoreError::NoSuchRun { path: self.path.clone(), reference: reference.to_string() },
        }
    }

    /// The run of this id.
    pub fn load(&self, id: RunId) -> Result<Run> {
        let _snapshot = self.snapshot()?;
        match self.row_of(id)? {
            Some(row) => self.load_row(row).and_then(|run| self.check(id, run)),
            None => Err(StoreError::NoSuchRun { path: self.path.clone(), reference: id.to_string() }),
        }
    }

    /// The run, if it is what was saved: its id follows from its content.
    fn check(&self, id: RunId, run: Run) -> Result<Run> {
        let found = RunId::of(&run);
        if found == id { Ok(run) } else { Err(StoreError::Altered { path: self.path.clone(), id, found }) }
    }

    /// Keeps what is read of one moment while it lives.
    fn snapshot(&self) -> Result<Transaction<'_>> {
        Transaction::new_unchecked(&self.connection, TransactionBehavior::Deferred).map_err(self.error("read"))
    }

    pub(super) fn row_of(&self, id: RunId) -> Result<Option<i64>> {
        let found = self.connection.query_row("SELECT run FROM runs WHERE id = ?1", [id.to_string()], |row| row.get(0));
        found.optional().map_err(self.error("read"))
    }

    pub(super) fn rows<T>(&self, sql: &str, params: impl Params, read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>) -> Result<Vec<T>> {
        rows(&self.connection, sql, params, read).map_err(self.error("read"))
    }

    fn named<T: Named>(&self, name: &str) -> Result<T> {
        T::from_name(name).map_err(|detail| self.damaged(detail))
    }

    fn summary(&self, row: i64, id: &str) -> Result<Summary> {
        let run = self.head(row)?;
        let count = self.rows("SELECT count(*) FROM warnings WHERE run = ?1", [row], |r| r.get::<_, i64>(0))?;
        let settings = self.fields(row, "setting")?;
        let environment = self.fields(row, "environment")?;
        let known = |key: &str| settings.iter().chain(&environment).find(|field| field.key == key).map(|field| field.value.clone());
        let label = self.rows("SELECT label FROM runs WHERE run = ?1", [row], |r| r.get::<_, Option<String>>(0))?.pop().flatten();
        let of_study = "SELECT studies.id FROM study_runs JOIN studies USING (study) WHERE run = ?1 ORDER BY studies.saved DESC LIMIT 1";
        let study = self.rows(of_study, [row], |r| r.get::<_, String>(0))?.pop();
        let id = id.parse().map_err(|detail: String| self.damaged(detail))?;
        Ok(Summary {
            label,
            altered: false,
            study: study.map(|id| id.parse()).transpose().map_err(|detail: String| self.damaged(detail))?,
            fill: known("fill").or_else(|| known("fs.fill")),
            settings,
            id,
            started_unix_ms: run.started_unix_ms,
            workload: run.workload,
            target: run.target,
            target_label: run.target_label,
            policy: run.policy,
            provenance: run.provenance,
            systems: run.systems,
            complete: run.complete,
            metric: headline(self.metrics(row, i64::MAX)?),
            warnings: count.first().map_or(0, |n| n.cast_unsigned()),
        })
    }

    /// The run without its lists.
    fn head(&self, row: i64) -> Result<Run> {
        let sql = "SELECT workload, target, target_label, policy, seed, provenance, systems, started_unix_ms, tool_version, complete
                   FROM runs WHERE run = ?1";
        let read = |r: &Row<'_>| {
            let names: (String, String) = (r.get("target")?, r.get("provenance")?);
            let run = Run {
                workload: r.get("workload")?,
                settings: Vec::new(),
                target: TargetKind::Elsewhere,
                target_label: r.get("target_label")?,
                policy: r.get("policy")?,
                policy_settings: Vec::new(),
                seed: unsigned(r, "seed")?,
                provenance: Provenance::Entered,
                systems: r.get("systems")?,
                started_unix_ms: unsigned(r, "started_unix_ms")?,
                tool_version: r.get("tool_version")?,
                complete: r.get("complete")?,
                environment: Vec::new(),
                specification: Vec::new(),
                phases: Vec::new(),
                metrics: Vec::new(),
                series: Vec::new(),
                counters: Vec::new(),
                warnings: Vec::new(),
                pictures: Pictures::default(),
            };
            Ok((run, names))
        };
        let (mut run, (target, provenance)) = self.connection.query_row(sql, [row], read).map_err(self.error("read"))?;
        run.target = self.named(&target)?;
        run.provenance = self.named(&provenance)?;
        Ok(run)
    }

    pub(super) fn load_row(&self, row: i64) -> Result<Run> {
        let mut run = self.head(row)?;
        run.settings = self.fields(row, "setting")?;
        run.policy_settings = self.fields(row, "policy")?;
        run.environment = self.fields(row, "environment")?;
        run.specification = self.fields(row, "specification")?;
        run.counters = self.rows("SELECT name, value FROM counters WHERE run = ?1 ORDER BY position", [row], |r| {
            Ok((r.get("name")?, unsigned(r, "value")?))
        })?;
        run.phases = self.phases(row)?;
        run.metrics = self.metrics(row, i64::MAX)?;
        run.series = self.series(row)?;
        run.warnings = self.warnings(row)?;
        run.pictures = self.pictures(row)?;
        Ok(run)
    }

    fn fields(&self, row: i64, scope: &str) -> Result<Vec<Field>> {
        let sql = "SELECT key, value FROM fields WHERE run = ?1 AND scope = ?2 ORDER BY position";
        self.rows(sql, params![row, scope], field)
    }

    fn phases(&self, row: i64) -> Result<Vec<Phase>> {
        let sql = "SELECT name, started_ns, took_ns, read_bytes, written_bytes FROM phases WHERE run = ?1 ORDER BY position";
        let mut phases = self.rows(sql, [row], |r| {
            Ok(Phase {
                name: r.get("name")?,
                started: Nanos(unsigned(r, "started_ns")?),
                took: Nanos(unsigned(r, "took_ns")?),
                ops: Vec::new(),
                read: Bytes(unsigned(r, "read_bytes")?),
                written: Bytes(unsigned(r, "written_bytes")?),
                latencies: Vec::new(),
                discards: None,
            })
        })?;
        for (at, phase) in phases.iter_mut().enumerate() {
            let sql = "SELECT kind, count FROM phase_ops WHERE run = ?1 AND phase = ?2 ORDER BY position";
            let ops = self.rows(sql, params![row, at], |r| Ok((r.get::<_, String>("kind")?, unsigned(r, "count")?)))?;
            phase.ops = ops.iter().map(|(kind, count)| Ok((self.named(kind)?, *count))).collect::<Result<_>>()?;
            phase.latencies = self.latencies(row, at)?;
            phase.discards = self.discards(row, at)?;
        }
        Ok(phases)
    }

    fn latencies(&self, row: i64, phase: usize) -> Result<Vec<Latency>> {
        let sql = "SELECT kind, part, histogram FROM latencies WHERE run = ?1 AND phase = ?2 ORDER BY position";
        let read = |r: &Row<'_>| Ok((r.get("kind")?, r.get("part")?, r.get("histogram")?));
        let list: Vec<(String, String, Vec<u8>)> = self.rows(sql, params![row, phase], read)?;
        let latency = |(kind, part, histogram): (String, String, Vec<u8>)| {
            let kind: OpKind = self.named(&kind)?;
            let histogram: Histogram =
                blob::to_histogram(&histogram).map_err(|error| self.damaged(format!("a histogram of run {row} {error}")))?;
            Ok(Latency { kind, part: self.named(&part)?, histogram })
        };
        list.into_iter().map(latency).collect()
    }

    fn discards(&self, row: i64, phase: usize) -> Result<Option<DiscardAccount>> {
        let sql = "SELECT * FROM discards WHERE run = ?1 AND phase = ?2";
        let mut found = self.rows(sql, params![row, phase], |r| {
            let maybe = |name: &str| Ok::<_, rusqlite::Error>(r.get::<_, Option<i64>>(name)?.map(i64::cast_unsigned));
            let account = DiscardAccount {
                asked_commands: unsigned(r, "asked_commands")?,
                asked: Bytes(unsigned(r, "asked_bytes")?),
                accepted_commands: maybe("accepted_commands")?,
                accepted: maybe("accepted_bytes")?.map(Bytes),
                refused_commands: unsigned(r, "refused_commands")?,
                refused_errnos: Vec::new(),
                effective: maybe("effective_bytes")?.map(Bytes),
                freed: maybe("freed_bytes")?.map(Bytes),
            };
            Ok((account, r.get::<_, String>("refused_errnos")?))
        })?;
        let Some((mut account, errnos)) = found.pop() else { return Ok(None) };
        let errnos: Result<Vec<i32>, _> = errnos.split_whitespace().map(str::parse).collect();
        account.refused_errnos = errnos.map_err(|_| self.damaged(format!("an error number of run {row} is none")))?;
        Ok(Some(account))
    }

    fn metrics(&self, row: i64, limit: i64) -> Result<Vec<Metric>> {
        let sql = "SELECT name, unit, better FROM metrics WHERE run = ?1 ORDER BY position LIMIT ?2";
        let heads: Vec<(String, String, String)> =
            self.rows(sql, params![row, limit], |r| Ok((r.get("name")?, r.get("unit")?, r.get("better")?)))?;
        let metric = |(at, (name, unit, better)): (usize, (String, String, String))| {
            let sql = "SELECT value FROM samples WHERE run = ?1 AND metric = ?2 ORDER BY position";
            let samples = self.rows(sql, params![row, at], |r| Ok(r.get::<_, Option<f64>>(0)?.unwrap_or(f64::NAN)))?;
            Ok(Metric { name, unit: self.named(&unit)?, better: self.named(&better)?, samples })
        };
        heads.into_iter().enumerate().map(metric).collect()
    }

    fn series(&self, row: i64) -> Result<Vec<Series>> {
        let sql = "SELECT name, axis, unit, x, y FROM series WHERE run = ?1 ORDER BY position";
        type Columns = (String, String, String, Vec<u8>, Vec<u8>);
        let read = |r: &Row<'_>| Ok((r.get("name")?, r.get("axis")?, r.get("unit")?, r.get("x")?, r.get("y")?));
        let list: Vec<Columns> = self.rows(sql, [row], read)?;
        let series = |(name, axis, unit, x, y): Columns| {
            let damaged = |error| self.damaged(format!("a series of run {row} {error}"));
            let (x, y) = (blob::to_places(&x).map_err(damaged)?, blob::to_values(&y).map_err(damaged)?);
            Ok(Series { name, axis: self.named(&axis)?, x, unit: self.named(&unit)?, y })
        };
        list.into_iter().map(series).collect()
    }

    fn pictures(&self, row: i64) -> Result<Pictures> {
        let found = self.rows("SELECT json FROM pictures WHERE run = ?1", [row], |r| r.get::<_, String>(0))?;
        let Some(json) = found.first() else { return Ok(Pictures::default()) };
        let shape: PicturesV1 = serde_json::from_str(json).map_err(|error| self.damaged(format!("the pictures of run {row}: {error}")))?;
        Ok(shape.into())
    }

    fn warnings(&self, row: i64) -> Result<Vec<Warning>> {
        let sql = "SELECT code, severity, text FROM warnings WHERE run = ?1 ORDER BY position";
        let heads: Vec<(String, String, String)> = self.rows(sql, [row], |r| Ok((r.get("code")?, r.get("severity")?, r.get("text")?)))?;
        let warning = |(at, (code, severity, text)): (usize, (String, String, String))| {
            let sql = "SELECT key, value FROM warning_facts WHERE run = ?1 AND warning = ?2 ORDER BY position";
            let facts = self.rows(sql, params![row, at], field)?;
            Ok(Warning { code, severity: self.named(&severity)?, facts, text })
        };
        heads.into_iter().enumerate().map(warning).collect()
    }
}

/// The figure that matters: of those that sum a workload up the first that there is, else the first of all.
pub fn headline(metrics: Vec<Metric>) -> Option<Metric> {
    const SUMS: [&str; 9] = [
        "random-write.steady",
        "foreground.seconds",
        "delete+sync.seconds",
        "transactions.rate",
        "write.rate.steady",
        "waf.last-quarter",
        "waf",
        "peak.rate",
        "random-write.rate",
    ];
    let sum = SUMS.iter().find_map(|name| metrics.iter().position(|metric| metric.name == *name));
    metrics.into_iter().nth(sum.unwrap_or(0))
}

fn rows<T>(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Vec<T>> {
    connection.prepare_cached(sql)?.query_map(params, read)?.collect()
}

fn field(row: &Row<'_>) -> rusqlite::Result<Field> {
    Ok(Field { key: row.get("key")?, value: row.get("value")? })
}

/// The 64 bits of a column without their sign.
fn unsigned(row: &Row<'_>, name: &str) -> rusqlite::Result<u64> {
    Ok(row.get::<_, i64>(name)?.cast_unsigned())
}
