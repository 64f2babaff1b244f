//! Plans of sweeps: their cells, run here on threads, or wherever a caller sends their numbers.

use crate::crew::{Crew, available};
use crate::trace::{Timed, Trace};
use crate::values::{Threads, Whole};
use crate::{aside, drive, error, table};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyDict, PyType};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use trimtab_drive::spec::file::{Drive, parse};
use trimtab_sim::runner::End;
use trimtab_study::sweep::detail;
use trimtab_study::sweep::keep::Keep;
use trimtab_study::sweep::settings::is_path;
use trimtab_study::sweep::table::{Outcome, Row, SCHEMA, outcome};
use trimtab_study::sweep::{Asked, Cell, MODEL, Sources, id_of_impossible, short_hash};

/// A plan.
#[pyclass(frozen, module = "trimtab")]
pub struct Plan {
    text: String,
    plan: trimtab_study::sweep::Plan,
    directory: PathBuf,
    /// Drives and traces by the paths that the plan has, where they were given and are not to be looked for.
    given: Option<BTreeMap<String, PyBackedBytes>>,
    /// What was read already.
    traces: Mutex<Vec<Known>>,
}

/// A trace that was read, by its path and how it was to be read; or why it cannot be.
type Known = (String, Asked, Result<Trace, String>);

/// Text, directory, and files that were given.
type Again<'py> = (String, PathBuf, Option<Bound<'py, PyDict>>);

/// Drives and traces beside the plan, or as they were given.
impl Sources for Plan {
    type Trace = Timed;

    fn drive(&self, name: &str) -> Result<Drive, String> {
        match &self.given {
            Some(given) if is_path(name) => {
                let text = std::str::from_utf8(sent(given, name)?).map_err(|wrong| format!("{name}: {wrong}"))?;
                parse(text).map_err(|wrong| format!("{name}: {wrong}"))
            }
            _ => drive::load(name, &self.directory),
        }
    }

    fn trace(&self, path: &str, asked: &Asked) -> Result<(Timed, String), String> {
        let mut known = self.traces.lock().unwrap_or_else(PoisonError::into_inner);
        let same = |(name, other, _): &&Known| name == path && other.reading == asked.reading;
        let found = known.iter().find(same).map(|(.., trace)| trace.clone());
        let trace = found.unwrap_or_else(|| {
            let trace = match &self.given {
                Some(given) => sent(given, path).and_then(|text| Trace::parse(Path::new(path), text, &asked.reading)),
                None => Trace::read(&self.directory.join(path), &asked.reading),
            };
            known.push((path.to_owned(), asked.clone(), trace.clone()));
            trace
        })?;
        Ok(trace.timed(asked.timing))
    }
}

fn sent<'a>(given: &'a BTreeMap<String, PyBackedBytes>, path: &str) -> Result<&'a [u8], String> {
    given.get(path).map(AsRef::as_ref).ok_or_else(|| format!("{path} is not among the files that were given"))
}

impl Plan {
    /// The row of a cell; `None` if it was stopped.
    fn row(&self, number: u64, mut signs: &aside::Signs) -> Option<Row> {
        let place = self.plan.place(number);
        let (id, outcome) = match self.plan.cell(&place, self) {
            Err(wrong) => (id_of_impossible(&place, &wrong.text), Outcome::Failed(wrong.text)),
            Ok(cell) => (self.plan.keep.id(cell.id()), made(&cell, &self.plan.keep, &mut signs)?),
        };
        Some(Row { cell: number, id, outcome })
    }
}

fn made(cell: &Cell<Timed>, keep: &Keep, signs: &mut &aside::Signs) -> Option<Outcome> {
    match catch_unwind(AssertUnwindSafe(|| cell.run(signs))) {
        Ok(Ok((run, End::Complete))) => Some(outcome(cell, &run, keep)),
        Ok(Ok((_, End::Failed(failed)))) => Some(Outcome::Failed(failed.to_string())),
        Ok(Ok((_, End::Interrupted))) => None,
        Ok(Err(_)) if signs.stop.load(Ordering::Relaxed) => None,
        Ok(Err(reason)) => Some(Outcome::Failed(reason)),
        Err(_) => Some(Outcome::Failed("the model stopped".to_owned())),
    }
}

#[pymethods]
impl Plan {
    /// The plan of this text. Drives and traces that it names by path are below `directory`, or are what `files` has for these paths.
    #[new]
    #[pyo3(signature = (text, directory=PathBuf::new(), files=None))]
    fn new(text: String, directory: PathBuf, files: Option<BTreeMap<String, PyBackedBytes>>) -> PyResult<Self> {
        let plan = trimtab_study::sweep::Plan::parse(&text).map_err(|wrong| error(wrong.to_string()))?;
        let made = Self { text, plan, directory, given: files, traces: Mutex::default() };
        made.plan.check(&made).map_err(|wrong| error(wrong.to_string()))?;
        Ok(made)
    }

    /// What it is made of again, for copies and other processes.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyType>, Again<'py>)> {
        let files = self.given.as_ref().map(|_| self.files(py)).transpose()?;
        Ok((py.get_type::<Self>(), (self.text.clone(), self.directory.clone(), files)))
    }

    /// The files that the plan names, by the paths that it has for them: all that it needs besides its text.
    #[getter]
    fn files<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let all = PyDict::new(py);
        for path in self.plan.paths() {
            all.set_item(&path, PyBytes::new(py, &self.content(&path).map_err(error)?))?;
        }
        Ok(all)
    }

    /// How many cells it has.
    #[getter]
    fn cells(&self) -> u64 {
        self.plan.cells()
    }

    #[getter]
    fn name(&self) -> &str {
        &self.plan.name
    }

    #[getter]
    fn text(&self) -> &str {
        &self.text
    }

    #[getter]
    fn directory(&self) -> &Path {
        &self.directory
    }

    /// About the memory that a cell takes, in bytes.
    fn memory_bytes(&self, cell: u64) -> PyResult<u64> {
        let place = self.plan.place(self.known(cell)?);
        Ok(self.plan.cell(&place, self).map_err(|wrong| error(drive::said(wrong)))?.memory().0)
    }

    /// Runs these cells on so many threads, as far as `memory_bytes` (or four fifths of what is free) take them, and gives a row each, in their order, in a form that can be sent anywhere.
    #[pyo3(signature = (cells, *, threads=Threads(1), memory_bytes=None, progress=None))]
    fn run<'py>(
        &self,
        py: Python<'py>,
        cells: Vec<u64>,
        threads: Threads,
        memory_bytes: Option<Whole>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        cells.iter().try_for_each(|cell| self.known(*cell).map(drop))?;
        let rows = aside::run(py, progress.as_ref(), |signs| {
            self.rows(&cells, &Crew { threads: threads.0, memory_bytes: memory_bytes.map_or_else(available, |bytes| bytes.0), signs })
        })?;
        let rows = rows.ok_or_else(|| error("it was stopped"))?;
        Ok(rows.iter().map(|row| PyBytes::new(py, &packed(row))).collect())
    }

    /// The table of rows that `run` gave, here or elsewhere, in the order of their cells.
    fn table(&self, rows: Vec<Vec<u8>>) -> PyResult<table::Table> {
        let mut rows = rows.iter().map(|row| unpacked(row)).collect::<Result<Vec<Row>, String>>().map_err(error)?;
        rows.sort_by_key(|row| row.cell);
        rows.iter().try_for_each(|row| self.known(row.cell).map(drop))?;
        if let Some(pair) = rows.windows(2).find(|pair| pair[0].cell == pair[1].cell) {
            return Err(error(format!("there are two rows of cell {}", pair[0].cell)));
        }
        let metadata = [
            ("schema", "trimtab.sweep".to_owned()),
            ("version", SCHEMA.to_string()),
            ("name", self.plan.name.clone()),
            ("provenance", "modelled".to_owned()),
            ("tool_version", env!("CARGO_PKG_VERSION").to_owned()),
            ("model", MODEL.to_owned()),
            ("plan_hash", short_hash(&self.text)),
            ("inputs", self.inputs().map_err(error)?),
            ("cells", self.plan.cells().to_string()),
            ("plan", self.text.clone()),
        ];
        let metadata = metadata.map(|(key, value)| (format!("trimtab.{key}"), value)).into();
        let keep = &self.plan.keep;
        Ok(table::Table {
            columns: trimtab_study::sweep::table::table(&self.plan, &rows),
            series: keep.series().then(|| Arc::new(detail::series(&rows))),
            histograms: keep.histograms().then(|| Arc::new(detail::histograms(&rows))),
            metadata,
        })
    }
}

impl Plan {
    /// A file that the plan names.
    fn content(&self, path: &str) -> Result<Cow<'_, [u8]>, String> {
        let read = |path: &Path| std::fs::read(path).map_err(|wrong| format!("cannot read {}: {wrong}", path.display()));
        match &self.given {
            Some(given) => sent(given, path).map(Cow::Borrowed),
            None => read(&self.directory.join(path)).map(Cow::Owned),
        }
    }

    /// What the files hold that the plan names, by their paths: hashes, as JSON.
    fn inputs(&self) -> Result<String, String> {
        let hash = |path: String| self.content(&path).map(|content| (path, short_hash(&content)));
        let all = self.plan.paths().into_iter().map(hash).collect::<Result<BTreeMap<String, String>, String>>()?;
        Ok(serde_json::to_string(&all).expect("texts are JSON"))
    }

    fn known(&self, cell: u64) -> PyResult<u64> {
        let cells = self.plan.cells();
        if cell < cells { Ok(cell) } else { Err(error(format!("the plan has {cells} cells, and none of number {cell}"))) }
    }

    /// The rows of cells; `None` if it was stopped.
    fn rows(&self, cells: &[u64], crew: &Crew<'_>) -> Option<Vec<Row>> {
        let needs = |at: usize| self.plan.cell(&self.plan.place(cells[at]), self).map_or(0, |cell| cell.memory().0);
        crew.run(cells.len(), needs, |at| self.row(cells[at], crew.signs))
    }
}

fn packed(row: &Row) -> Vec<u8> {
    serde_json::to_vec(&(MODEL, row.cell, &row.id, &row.outcome)).expect("a row holds only what JSON can say")
}

fn unpacked(bytes: &[u8]) -> Result<Row, String> {
    let (model, cell, id, outcome): (String, u64, String, Outcome) =
        serde_json::from_slice(bytes).map_err(|wrong| format!("that is not a row of a sweep: {wrong}"))?;
    if model != MODEL {
        return Err(format!("cell {cell} was run with model {model}, and this is {MODEL}"));
    }
    Ok(Row { cell, id, outcome })
}
