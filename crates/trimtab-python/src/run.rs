//! Result of a simulation.

use crate::error;
use numpy::{PyArray1, ToPyArray as _};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use trimtab_sim::run::{self, Field, Series};
use trimtab_study::sweep::table::{COUNTER, CellOutcome};

/// A modelled run.
#[pyclass(frozen, module = "trimtab")]
#[derive(Clone, PartialEq)]
pub struct Run {
    id: String,
    /// The run without its phases.
    run: run::Run,
    outcome: CellOutcome,
}

/// Axis, positions, unit and values of a series.
type Values<'py> =
    (&'static str, Bound<'py, PyArray1<u64>>, &'static str, Bound<'py, PyArray1<f64>>);

fn dictionary<'py>(py: Python<'py>, fields: &[Field]) -> PyResult<Bound<'py, PyDict>> {
    let all = PyDict::new(py);
    fields.iter().try_for_each(|field| all.set_item(&field.key, &field.value))?;
    Ok(all)
}

impl Run {
    /// Wraps the run of the cell `id`, with the figures in its table.
    pub fn new(id: String, run: run::Run, outcome: CellOutcome) -> Self {
        Self { id, run: run::Run { phases: Vec::new(), ..run }, outcome }
    }
}

#[pymethods]
impl Run {
    #[getter]
    fn figures<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let all = PyDict::new(py);
        let CellOutcome::Finished { figures, .. } = &self.outcome else { return Ok(all) };
        let (counters, others): (Vec<_>, Vec<_>) =
            figures.iter().partition(|(name, _)| name.starts_with(COUNTER));
        others.into_iter().try_for_each(|(name, value)| all.set_item(name, value))?;
        counters
            .into_iter()
            .try_for_each(|(name, _)| all.set_item(name, self.outcome.counter(name)))?;
        Ok(all)
    }

    #[getter]
    fn settings<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        dictionary(py, &self.run.settings)
    }

    #[getter]
    fn policy<'py>(&self, py: Python<'py>) -> PyResult<(&str, Bound<'py, PyDict>)> {
        Ok((&self.run.policy, dictionary(py, &self.run.policy_settings)?))
    }

    #[getter]
    fn warnings(&self) -> Vec<(&str, &str)> {
        self.run.warnings.iter().map(|one| (one.code.as_str(), one.text.as_str())).collect()
    }

    #[getter]
    fn series_names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        self.run.series.iter().for_each(|series| {
            if !names.contains(&series.name.as_str()) {
                names.push(&series.name);
            }
        });
        names
    }

    #[pyo3(signature = (name, over=None))]
    fn series<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        over: Option<&str>,
    ) -> PyResult<Values<'py>> {
        let meant = |series: &&Series| {
            series.name == name && over.is_none_or(|over| series.axis.name() == over)
        };
        let series = self.run.series.iter().find(meant).ok_or_else(|| {
            PyKeyError::new_err(format!(
                "there is no series '{name}'{}; there are {}",
                over.map_or_else(String::new, |over| format!(" over {over}")),
                self.series_names().join(", ")
            ))
        })?;
        Ok((
            series.axis.name(),
            series.x.to_pyarray(py),
            series.unit.name(),
            series.y.to_pyarray(py),
        ))
    }

    #[getter]
    fn id(&self) -> &str {
        &self.id
    }

    #[getter]
    fn seed(&self) -> u64 {
        self.run.seed
    }

    fn __eq__(&self, other: PyRef<'_, Self>) -> bool {
        *self == *other
    }

    fn __hash__(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.id.hash(&mut hasher);
        hasher.finish()
    }

    fn __reduce__<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,))> {
        let json = serde_json::to_vec(&(&self.id, &self.run, &self.outcome))
            .map_err(|wrong| error(wrong.to_string()))?;
        Ok((py.get_type::<Self>().getattr("_restored")?, (PyBytes::new(py, &json),)))
    }

    #[staticmethod]
    fn _restored(json: &[u8]) -> PyResult<Self> {
        let (id, run, outcome) =
            serde_json::from_slice(json).map_err(|wrong| error(wrong.to_string()))?;
        Ok(Self { id, run, outcome })
    }

    fn __repr__(&self) -> String {
        format!(
            "<trimtab.Run {} of {}, policy {}, seed {}>",
            self.id, self.run.workload, self.run.policy, self.run.seed
        )
    }
}
