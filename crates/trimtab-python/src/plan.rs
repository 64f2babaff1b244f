//! Plans of sweeps. Their cells run here on threads, or anywhere a caller sends their
//! numbers.

use crate::crew::{Crew, available};
use crate::trace::{Timed, Trace};
use crate::values::{Threads, Whole};
use crate::{background, drive, error, table};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyDict, PyType};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use trimtab_drive::spec::file::{Drive, parse};
use trimtab_sim::runner::{Observer, RunEnd};
use trimtab_study::sweep::settings::is_path;
use trimtab_study::sweep::table::{CellOutcome, SCHEMA, SweepRow, outcome};
use trimtab_study::sweep::{
    MODEL, Sources, SweepCell, TraceReplayOptions, id_of_impossible, short_hash,
};

/// A plan.
#[pyclass(frozen, module = "trimtab")]
pub struct Plan {
    text: String,
    plan: trimtab_study::sweep::Plan,
    directory: PathBuf,
    /// Contents of drives and traces by path, if passed in; otherwise they are read from
    /// files.
    given: Option<BTreeMap<String, PyBackedBytes>>,
    /// Traces that were already read.
    traces: Mutex<Vec<Known>>,
}

/// A trace, or the error of reading it, by path and options.
type Known = (String, TraceReplayOptions, Result<Trace, String>);

/// Pickled form: text, directory and passed-in files.
type PickledPlan<'py> = (String, PathBuf, Option<Bound<'py, PyDict>>);

/// Loads drives and traces from files next to the plan, or from the passed-in contents.
impl Sources for Plan {
    type Trace = Timed;

    fn drive(&self, name: &str) -> Result<Drive, String> {
        match &self.given {
            Some(given) if is_path(name) => {
                let text = std::str::from_utf8(sent(given, name)?)
                    .map_err(|wrong| format!("{name}: {wrong}"))?;
                parse(text).map_err(|wrong| format!("{name}: {wrong}"))
            }
            _ => drive::load(name, &self.directory),
        }
    }

    fn trace(&self, path: &str, asked: &TraceReplayOptions) -> Result<(Timed, String), String> {
        let mut known = self.traces.lock().unwrap_or_else(PoisonError::into_inner);
        let same = |(name, other, _): &&Known| name == path && other.reading == asked.reading;
        let found = known.iter().find(same).map(|(.., trace)| trace.clone());
        let trace = found.unwrap_or_else(|| {
            let trace = match &self.given {
                Some(given) => sent(given, path)
                    .and_then(|text| Trace::parse(Path::new(path), text, &asked.reading)),
                None => Trace::read(&self.directory.join(path), &asked.reading),
            };
            known.push((path.to_owned(), asked.clone(), trace.clone()));
            trace
        })?;
        Ok(trace.timed(asked.timing))
    }
}

/// Largest file that a plan may name: far above any trace that is parsed into memory.
const FILE_BYTES_MAX: u64 = 4 << 30;

fn sent<'a>(given: &'a BTreeMap<String, PyBackedBytes>, path: &str) -> Result<&'a [u8], String> {
    given
        .get(path)
        .map(AsRef::as_ref)
        .ok_or_else(|| format!("{path} is not among the files passed in"))
}

impl Plan {
    /// Runs a cell and returns its row; `None` if stopped.
    fn row(&self, number: u64, state: &background::TaskState) -> Option<SweepRow> {
        let place = self.plan.place(number);
        let (id, outcome) = match self.plan.cell(&place, self) {
            Err(wrong) => (id_of_impossible(&place, &wrong.text), CellOutcome::Failed(wrong.text)),
            Ok(cell) => (cell.id(), made(&cell, state)?),
        };
        Some(SweepRow { cell: number, id, outcome })
    }
}

fn made(cell: &SweepCell<Timed>, state: &background::TaskState) -> Option<CellOutcome> {
    match catch_unwind(AssertUnwindSafe(|| cell.run(&mut (&state as &dyn Observer)))) {
        Ok(Ok((run, RunEnd::Complete))) => Some(outcome(cell, &run)),
        Ok(Ok((_, RunEnd::Failed(failed)))) => Some(CellOutcome::Failed(failed.to_string())),
        Ok(Ok((_, RunEnd::Interrupted))) => None,
        Ok(Err(_)) if state.stop.load(Ordering::Relaxed) => None,
        Ok(Err(reason)) => Some(CellOutcome::Failed(reason)),
        Err(_) => Some(CellOutcome::Failed("the model stopped".to_owned())),
    }
}

#[pymethods]
impl Plan {
    /// Parses a plan. Drives and traces named by path are read below `directory`, or
    /// taken from `files` by path.
    #[new]
    #[pyo3(signature = (text, directory=PathBuf::new(), files=None))]
    fn new(
        text: String,
        directory: PathBuf,
        files: Option<BTreeMap<String, PyBackedBytes>>,
    ) -> PyResult<Self> {
        let plan =
            trimtab_study::sweep::Plan::parse(&text).map_err(|wrong| error(wrong.to_string()))?;
        let made = Self { text, plan, directory, given: files, traces: Mutex::default() };
        made.plan.check(&made).map_err(|wrong| error(wrong.to_string()))?;
        Ok(made)
    }

    /// Pickles the plan with its files.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyType>, PickledPlan<'py>)> {
        let files = self.given.as_ref().map(|_| self.files(py)).transpose()?;
        Ok((py.get_type::<Self>(), (self.text.clone(), self.directory.clone(), files)))
    }

    /// Contents of the files named by the plan, by path. With its text, this is the whole
    /// plan.
    #[getter]
    fn files<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let all = PyDict::new(py);
        for path in self.plan.paths() {
            all.set_item(&path, PyBytes::new(py, &self.content(&path).map_err(error)?))?;
        }
        Ok(all)
    }

    /// Number of cells.
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

    /// Approximate memory of a cell in bytes.
    fn memory_bytes(&self, cell: u64) -> PyResult<u64> {
        let place = self.plan.place(self.known(cell)?);
        Ok(self.plan.cell(&place, self).map_err(|wrong| error(wrong.to_string()))?.memory().0)
    }

    /// Runs cells on `threads` threads within `memory_bytes` (default: four fifths of the
    /// available memory). Returns one serialised row per cell, in order.
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
        let rows = background::run(py, progress.as_ref(), |state| {
            self.rows(
                &cells,
                &Crew {
                    threads: threads.0,
                    memory_bytes: memory_bytes.map_or_else(available, |bytes| bytes.0),
                    state,
                },
            )
        })?;
        let rows = rows.ok_or_else(|| error("interrupted"))?;
        Ok(rows.iter().map(|row| PyBytes::new(py, &packed(row))).collect())
    }

    /// Combines rows from `run`, from here or elsewhere, into a table in cell order.
    fn table(&self, rows: Vec<Vec<u8>>) -> PyResult<table::Table> {
        let mut rows = rows
            .iter()
            .map(|row| unpacked(row))
            .collect::<Result<Vec<SweepRow>, String>>()
            .map_err(error)?;
        rows.sort_by_key(|row| row.cell);
        rows.iter().try_for_each(|row| self.known(row.cell).map(drop))?;
        if let Some(pair) = rows.windows(2).find(|pair| pair[0].cell == pair[1].cell) {
            return Err(error(format!("duplicate row for cell {}", pair[0].cell)));
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
        Ok(table::Table {
            columns: trimtab_study::sweep::table::table(&self.plan, &rows),
            metadata,
        })
    }
}

impl Plan {
    fn content(&self, path: &str) -> Result<Cow<'_, [u8]>, String> {
        match &self.given {
            Some(given) => sent(given, path).map(Cow::Borrowed),
            None => drive::read_within(&self.directory.join(path), FILE_BYTES_MAX).map(Cow::Owned),
        }
    }

    /// Hashes of the files named by the plan, by path, as JSON.
    fn inputs(&self) -> Result<String, String> {
        let hash = |path: String| self.content(&path).map(|content| (path, short_hash(&content)));
        let all = self
            .plan
            .paths()
            .into_iter()
            .map(hash)
            .collect::<Result<BTreeMap<String, String>, String>>()?;
        Ok(serde_json::to_string(&all).expect("texts are JSON"))
    }

    fn known(&self, cell: u64) -> PyResult<u64> {
        let cells = self.plan.cells();
        if cell < cells {
            Ok(cell)
        } else {
            Err(error(format!("there is no cell {cell}; the plan has {cells} cells")))
        }
    }

    /// Runs cells and returns their rows; `None` if stopped.
    fn rows(&self, cells: &[u64], crew: &Crew<'_>) -> Option<Vec<SweepRow>> {
        let needs = |at: usize| {
            self.plan.cell(&self.plan.place(cells[at]), self).map_or(0, |cell| cell.memory().0)
        };
        crew.run(cells.len(), needs, |at| self.row(cells[at], crew.state))
    }
}

fn packed(row: &SweepRow) -> Vec<u8> {
    serde_json::to_vec(&(MODEL, row.cell, &row.id, &row.outcome))
        .expect("a row holds only what JSON can say")
}

fn unpacked(bytes: &[u8]) -> Result<SweepRow, String> {
    let (model, cell, id, outcome): (String, u64, String, CellOutcome) =
        serde_json::from_slice(bytes).map_err(|wrong| format!("not a row of a sweep: {wrong}"))?;
    if model != MODEL {
        return Err(format!(
            "cell {cell} was run with model {model}, but this package has {MODEL}"
        ));
    }
    Ok(SweepRow { cell, id, outcome })
}
