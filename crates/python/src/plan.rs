//! Plans of sweeps: their cells, run here on threads, or wherever a caller sends their numbers.

use crate::crew::{Crew, available};
use crate::trace::{Timed, Trace};
use crate::{aside, drive, error, table};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use trimtab_core::drive::spec::file::Drive;
use trimtab_core::runner::End;
use trimtab_core::sweep::table::{Outcome, Row, SCHEMA, outcome};
use trimtab_core::sweep::{Asked, Cell, MODEL, Sources, id_of_impossible, short_hash};

/// A plan.
#[pyclass(frozen, module = "trimtab")]
pub struct Plan {
    text: String,
    plan: trimtab_core::sweep::Plan,
    directory: PathBuf,
}

/// A trace that was read, by its path and how it was to be read; or why it cannot be.
type Known = (String, Asked, Result<Trace, String>);

/// What plans name, beside them.
struct Beside<'a> {
    directory: &'a Path,
    traces: Mutex<Vec<Known>>,
}

impl Sources for Beside<'_> {
    type Trace = Timed;

    fn drive(&self, name: &str) -> Result<Drive, String> {
        drive::load(name, self.directory)
    }

    fn trace(&self, path: &str, asked: &Asked) -> Result<(Timed, String), String> {
        let mut known = self.traces.lock().unwrap_or_else(PoisonError::into_inner);
        let same = |(name, other, _): &&Known| name == path && (other.format, other.volume) == (asked.format, asked.volume);
        let found = known.iter().find(same).map(|(.., trace)| trace.clone());
        let trace = found.unwrap_or_else(|| {
            let trace = Trace::read(&self.directory.join(path), asked.format, asked.volume);
            known.push((path.to_owned(), *asked, trace.clone()));
            trace
        })?;
        Ok(trace.timed(asked.timing))
    }
}

impl Plan {
    fn sources(&self) -> Beside<'_> {
        Beside { directory: &self.directory, traces: Mutex::default() }
    }

    /// The row of a cell; `None` if it was stopped.
    fn row(&self, number: u64, sources: &Beside<'_>, mut signs: &aside::Signs) -> Option<Row> {
        let place = self.plan.place(number);
        let (id, outcome) = match self.plan.cell(&place, sources) {
            Err(wrong) => (id_of_impossible(&place, &wrong.text), Outcome::Failed(wrong.text)),
            Ok(cell) => (cell.id(), made(&cell, &mut signs)?),
        };
        Some(Row { cell: number, id, outcome })
    }
}

fn made(cell: &Cell<Timed>, signs: &mut &aside::Signs) -> Option<Outcome> {
    match catch_unwind(AssertUnwindSafe(|| cell.run(signs))) {
        Ok(Ok((run, End::Complete))) => Some(outcome(cell, &run)),
        Ok(Ok((_, End::Failed(failed)))) => Some(Outcome::Failed(failed.to_string())),
        Ok(Ok((_, End::Interrupted))) => None,
        Ok(Err(_)) if signs.stop.load(Ordering::Relaxed) => None,
        Ok(Err(reason)) => Some(Outcome::Failed(reason)),
        Err(_) => Some(Outcome::Failed("the model stopped".to_owned())),
    }
}

#[pymethods]
impl Plan {
    /// The plan of this text. Drives and traces that it names by path are below `directory`.
    #[new]
    #[pyo3(signature = (text, directory=PathBuf::new()))]
    fn new(text: String, directory: PathBuf) -> PyResult<Self> {
        let plan = trimtab_core::sweep::Plan::parse(&text).map_err(|wrong| error(wrong.to_string()))?;
        let made = Self { text, plan, directory };
        made.plan.check(&made.sources()).map_err(|wrong| error(wrong.to_string()))?;
        Ok(made)
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
        Ok(self.plan.cell(&place, &self.sources()).map_err(|wrong| error(drive::said(wrong)))?.memory().0)
    }

    /// Runs these cells on so many threads, as far as `memory_bytes` (or four fifths of what is free) take them, and gives a row each, in their order, in a form that can be sent anywhere.
    #[pyo3(signature = (cells, *, threads=1, memory_bytes=None, progress=None))]
    fn run<'py>(
        &self,
        py: Python<'py>,
        cells: Vec<u64>,
        threads: usize,
        memory_bytes: Option<u64>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        cells.iter().try_for_each(|cell| self.known(*cell).map(drop))?;
        let rows = aside::run(py, progress.as_ref(), |signs| {
            self.rows(&cells, &Crew { threads, memory_bytes: memory_bytes.unwrap_or_else(available), signs })
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
            ("cells", self.plan.cells().to_string()),
            ("plan", self.text.clone()),
        ];
        let metadata = metadata.map(|(key, value)| (format!("trimtab.{key}"), value)).into();
        Ok(table::Table { columns: trimtab_core::sweep::table::table(&self.plan, &rows), metadata })
    }
}

impl Plan {
    fn known(&self, cell: u64) -> PyResult<u64> {
        let cells = self.plan.cells();
        if cell < cells { Ok(cell) } else { Err(error(format!("the plan has {cells} cells, and none of number {cell}"))) }
    }

    /// The rows of cells; `None` if it was stopped.
    fn rows(&self, cells: &[u64], crew: &Crew<'_>) -> Option<Vec<Row>> {
        let sources = self.sources();
        let needs = |at: usize| self.plan.cell(&self.plan.place(cells[at]), &sources).map_or(0, |cell| cell.memory().0);
        crew.run(cells.len(), needs, |at| self.row(cells[at], &sources, crew.signs))
    }
}

fn packed(row: &Row) -> Vec<u8> {
    serde_json::to_vec(&(MODEL, row.cell, &row.id, &row.outcome)).expect("a row holds only what JSON can say")
}

fn unpacked(bytes: &[u8]) -> Result<Row, String> {
    let (model, cell, id, outcome): (String, u64, String, Outcome) =
        serde_json::from_slice(bytes).map_err(|wrong| format!("that is no row of a sweep: {wrong}"))?;
    if model != MODEL {
        return Err(format!("cell {cell} was run with model {model}, and this is {MODEL}"));
    }
    Ok(Row { cell, id, outcome })
}
