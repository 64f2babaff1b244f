//! What a simulation found.

use numpy::{PyArray1, ToPyArray as _};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use trimtab_sim::run::{self, Field};
use trimtab_study::sweep::table::Outcome;

/// A modelled run.
#[pyclass(frozen, module = "trimtab")]
pub struct Run {
    pub id: String,
    pub run: run::Run,
    pub outcome: Outcome,
}

/// What a series is over, where, its unit, its values.
type Values<'py> = (&'static str, Bound<'py, PyArray1<u64>>, &'static str, Bound<'py, PyArray1<f64>>);

fn dictionary<'py>(py: Python<'py>, fields: &[Field]) -> PyResult<Bound<'py, PyDict>> {
    let all = PyDict::new(py);
    fields.iter().try_for_each(|field| all.set_item(&field.key, &field.value))?;
    Ok(all)
}

#[pymethods]
impl Run {
    /// Its figures, by names that end with their units: `waf_ratio`, `write_latency_p99_ns`.
    #[getter]
    fn figures<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let all = PyDict::new(py);
        if let Outcome::Finished { figures, .. } = &self.outcome {
            figures.iter().try_for_each(|(name, value)| all.set_item(name, value))?;
        }
        Ok(all)
    }

    /// What decides the run: settings of the workload, by name.
    #[getter]
    fn settings<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        dictionary(py, &self.run.settings)
    }

    /// The policy, and its settings.
    #[getter]
    fn policy<'py>(&self, py: Python<'py>) -> PyResult<(String, Bound<'py, PyDict>)> {
        Ok((self.run.policy.clone(), dictionary(py, &self.run.policy_settings)?))
    }

    /// What could mislead: code and text of each warning.
    #[getter]
    fn warnings(&self) -> Vec<(String, String)> {
        self.run.warnings.iter().map(|warning| (warning.code.clone(), warning.text.clone())).collect()
    }

    /// Names of the series.
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

    /// A series: what it is over (`time`, in nanoseconds, or `bytes-written`), where, its unit, its values. Some are kept over both; `over` says which is meant.
    #[pyo3(signature = (name, over=None))]
    fn series<'py>(&self, py: Python<'py>, name: &str, over: Option<&str>) -> PyResult<Values<'py>> {
        let meant = |series: &&run::Series| series.name == name && over.is_none_or(|over| series.axis.name() == over);
        let series = self.run.series.iter().find(meant);
        let series = series.ok_or_else(|| {
            PyKeyError::new_err(format!(
                "there is no series '{name}'{}; there are {}",
                over.map_or_else(String::new, |over| format!(" over {over}")),
                self.series_names().join(", ")
            ))
        })?;
        Ok((series.axis.name(), series.x.to_pyarray(py), series.unit.name(), series.y.to_pyarray(py)))
    }

    /// Hash of all that decides the result, the model among it.
    #[getter]
    fn id(&self) -> &str {
        &self.id
    }

    #[getter]
    fn seed(&self) -> u64 {
        self.run.seed
    }

    fn __repr__(&self) -> String {
        format!("<trimtab.Run {} of {}, policy {}, seed {}>", self.id, self.run.workload, self.run.policy, self.run.seed)
    }
}
