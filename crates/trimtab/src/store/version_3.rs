//! Stores of version 3 and older, in which a run is spread over twelve tables: read once, when such a store is brought up to date.

use super::{blob, body};
use crate::store::shape::Named;
use crate::store::shape::pictures::PicturesV1;
use rusqlite::{Connection, Params, Row, params};
use trimtab_core::discards::{Amount, Discards};
use trimtab_core::op::OpKind;
use trimtab_core::run::histogram::Histogram;
use trimtab_core::run::pictures::Pictures;
use trimtab_core::run::{Field, Latency, Metric, Phase, Run, Series, Warning};
use trimtab_core::units::{Bytes, Nanos};

/// Gives every run its body. One that cannot be read has the reason instead, and is said to be damaged whenever it is asked for.
///
/// # Errors
/// What SQLite says; nothing is changed then if this is part of a transaction.
pub fn to_bodies(connection: &Connection) -> rusqlite::Result<()> {
    let old = Old(connection);
    let all: Vec<i64> = connection.prepare("SELECT run FROM runs")?.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    let mut set = connection.prepare("UPDATE runs SET body = ?2 WHERE run = ?1")?;
    for row in all {
        let body = match old.run(row) {
            Ok(run) => body::pack(&run),
            Err(Bad::Content(detail)) => body::why_not(&detail),
            Err(Bad::Sqlite(error)) => return Err(error),
        };
        set.execute(params![row, body])?;
    }
    Ok(())
}

/// Why a run cannot be read.
enum Bad {
    /// It was altered, or damaged in itself.
    Content(String),
    /// The file is.
    Sqlite(rusqlite::Error),
}

impl From<rusqlite::Error> for Bad {
    fn from(error: rusqlite::Error) -> Self {
        use rusqlite::Error::{FromSqlConversionFailure, IntegralValueOutOfRange, InvalidColumnType, Utf8Error};
        match error {
            FromSqlConversionFailure(..) | IntegralValueOutOfRange(..) | InvalidColumnType(..) | Utf8Error(..) => {
                Self::Content(error.to_string())
            }
            other => Self::Sqlite(other),
        }
    }
}

type Result<T, E = Bad> = std::result::Result<T, E>;

fn named<T: Named>(name: &str) -> Result<T> {
    T::from_name(name).map_err(Bad::Content)
}

struct Old<'a>(&'a Connection);

impl Old<'_> {
    fn rows<T>(&self, sql: &str, params: impl Params, read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>) -> Result<Vec<T>> {
        Ok(self.0.prepare_cached(sql)?.query_map(params, read)?.collect::<rusqlite::Result<_>>()?)
    }

    /// The run without its lists.
    fn head(&self, row: i64) -> Result<Run> {
        let sql = "SELECT workload, target, target_label, policy, seed, provenance, systems, started_unix_ms, tool_version, complete
                   FROM runs WHERE run = ?1";
        let read = |r: &Row<'_>| {
            let names: (String, String) = (r.get("target")?, r.get("provenance")?);
            let run = Run {
                workload: r.get("workload")?,
                target_label: r.get("target_label")?,
                policy: r.get("policy")?,
                seed: unsigned(r, "seed")?,
                systems: r.get("systems")?,
                started_unix_ms: unsigned(r, "started_unix_ms")?,
                tool_version: r.get("tool_version")?,
                complete: r.get("complete")?,
                ..Run::empty()
            };
            Ok((run, names))
        };
        let (mut run, (target, provenance)) = self.0.query_row(sql, [row], read)?;
        run.target = named(&target)?;
        run.provenance = named(&provenance)?;
        Ok(run)
    }

    fn run(&self, row: i64) -> Result<Run> {
        let mut run = self.head(row)?;
        run.settings = self.fields(row, "setting")?;
        run.policy_settings = self.fields(row, "policy")?;
        run.environment = self.fields(row, "environment")?;
        run.specification = self.fields(row, "specification")?;
        run.counters = self.rows("SELECT name, value FROM counters WHERE run = ?1 ORDER BY position", [row], |r| {
            Ok((r.get("name")?, unsigned(r, "value")?))
        })?;
        run.phases = self.phases(row)?;
        run.metrics = self.metrics(row)?;
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
            phase.ops = ops.iter().map(|(kind, count)| Ok((named(kind)?, *count))).collect::<Result<_>>()?;
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
            let kind: OpKind = named(&kind)?;
            let histogram: Histogram =
                blob::to_histogram(&histogram).map_err(|error| Bad::Content(format!("a histogram of run {row} {error}")))?;
            Ok(Latency { kind, part: named(&part)?, histogram })
        };
        list.into_iter().map(latency).collect()
    }

    fn discards(&self, row: i64, phase: usize) -> Result<Option<Discards>> {
        let sql = "SELECT * FROM discards WHERE run = ?1 AND phase = ?2";
        let mut found = self.rows(sql, params![row, phase], |r| {
            let maybe = |name: &str| Ok::<_, rusqlite::Error>(r.get::<_, Option<i64>>(name)?.map(i64::cast_unsigned));
            let discards = Discards {
                asked: Amount::new(unsigned(r, "asked_commands")?, unsigned(r, "asked_bytes")?),
                accepted: maybe("accepted_commands")?.zip(maybe("accepted_bytes")?).map(|(count, bytes)| Amount::new(count, bytes)),
                refused: Amount::new(unsigned(r, "refused_commands")?, 0),
                errnos: Vec::new(),
                effective: maybe("effective_bytes")?.map(Bytes),
                freed: maybe("freed_bytes")?.map(Bytes),
            };
            Ok((discards, r.get::<_, String>("refused_errnos")?))
        })?;
        let Some((mut discards, errnos)) = found.pop() else { return Ok(None) };
        let errnos: Result<Vec<i32>, _> = errnos.split_whitespace().map(str::parse).collect();
        discards.errnos = errnos.map_err(|_| Bad::Content(format!("an error number of run {row} is none")))?;
        Ok(Some(discards))
    }

    fn metrics(&self, row: i64) -> Result<Vec<Metric>> {
        let sql = "SELECT name, unit, better FROM metrics WHERE run = ?1 ORDER BY position";
        let heads: Vec<(String, String, String)> = self.rows(sql, [row], |r| Ok((r.get("name")?, r.get("unit")?, r.get("better")?)))?;
        let metric = |(at, (name, unit, better)): (usize, (String, String, String))| {
            let sql = "SELECT value FROM samples WHERE run = ?1 AND metric = ?2 ORDER BY position";
            let samples = self.rows(sql, params![row, at], |r| Ok(r.get::<_, Option<f64>>(0)?.unwrap_or(f64::NAN)))?;
            Ok(Metric { name, unit: named(&unit)?, better: named(&better)?, samples })
        };
        heads.into_iter().enumerate().map(metric).collect()
    }

    fn series(&self, row: i64) -> Result<Vec<Series>> {
        let sql = "SELECT name, axis, unit, x, y FROM series WHERE run = ?1 ORDER BY position";
        type Columns = (String, String, String, Vec<u8>, Vec<u8>);
        let read = |r: &Row<'_>| Ok((r.get("name")?, r.get("axis")?, r.get("unit")?, r.get("x")?, r.get("y")?));
        let list: Vec<Columns> = self.rows(sql, [row], read)?;
        let series = |(name, axis, unit, x, y): Columns| {
            let damaged = |error| Bad::Content(format!("a series of run {row} {error}"));
            let (x, y) = (blob::to_places(&x).map_err(damaged)?, blob::to_values(&y).map_err(damaged)?);
            Ok(Series { name, axis: named(&axis)?, x, unit: named(&unit)?, y })
        };
        list.into_iter().map(series).collect()
    }

    fn pictures(&self, row: i64) -> Result<Pictures> {
        let found = self.rows("SELECT json FROM pictures WHERE run = ?1", [row], |r| r.get::<_, String>(0))?;
        let Some(json) = found.first() else { return Ok(Pictures::default()) };
        let shape: PicturesV1 = serde_json::from_str(json).map_err(|error| Bad::Content(format!("the pictures of run {row}: {error}")))?;
        Ok(shape.into())
    }

    fn warnings(&self, row: i64) -> Result<Vec<Warning>> {
        let sql = "SELECT code, severity, text FROM warnings WHERE run = ?1 ORDER BY position";
        let heads: Vec<(String, String, String)> = self.rows(sql, [row], |r| Ok((r.get("code")?, r.get("severity")?, r.get("text")?)))?;
        let warning = |(at, (code, severity, text)): (usize, (String, String, String))| {
            let sql = "SELECT key, value FROM warning_facts WHERE run = ?1 AND warning = ?2 ORDER BY position";
            let facts = self.rows(sql, params![row, at], field)?;
            Ok(Warning { code, severity: named(&severity)?, facts, text })
        };
        heads.into_iter().enumerate().map(warning).collect()
    }
}

fn field(row: &Row<'_>) -> rusqlite::Result<Field> {
    Ok(Field { key: row.get("key")?, value: row.get("value")? })
}

/// The 64 bits of a column without their sign.
fn unsigned(row: &Row<'_>, name: &str) -> rusqlite::Result<u64> {
    Ok(row.get::<_, i64>(name)?.cast_unsigned())
}
