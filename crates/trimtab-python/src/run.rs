//! Result of a simulation.

use numpy::{PyArray1, PyReadonlyArray1, ToPyArray as _};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use trimtab_sim::run::{self, Field};
use trimtab_study::sweep::table::{COUNTER, CellOutcome};

type Texts = Vec<(String, String)>;

/// A modelled run.
#[pyclass(frozen, module = "trimtab")]
#[derive(Clone, PartialEq)]
pub struct Run {
    id: String,
    workload: String,
    policy: String,
    policy_settings: Texts,
    settings: Texts,
    seed: u64,
    warnings: Texts,
    figures: BTreeMap<String, f64>,
    counters: BTreeMap<String, u64>,
    series: Vec<Series>,
}

/// A figure over time or over bytes written.
#[derive(Clone, PartialEq)]
struct Series {
    name: String,
    axis: String,
    unit: String,
    x: Vec<u64>,
    y: Vec<f64>,
}

/// Axis, positions, unit and values of a series.
type Values<'py> = (String, Bound<'py, PyArray1<u64>>, String, Bound<'py, PyArray1<f64>>);
/// A pickled series: name, axis, unit, positions, values.
type Pickled<X, Y> = Vec<(String, String, String, X, Y)>;
type Parts<X, Y> = (
    String,
    (String, Texts),
    (String, Texts),
    u64,
    Texts,
    BTreeMap<String, f64>,
    BTreeMap<String, u64>,
    Pickled<X, Y>,
);
/// The argument of the function that restores a run.
type Arguments<'py> = (Parts<Bound<'py, PyArray1<u64>>, Bound<'py, PyArray1<f64>>>,);

fn texts(fields: &[Field]) -> Texts {
    fields.iter().map(|field| (field.key.clone(), field.value.clone())).collect()
}

fn dictionary<'py>(py: Python<'py>, texts: &Texts) -> PyResult<Bound<'py, PyDict>> {
    let all = PyDict::new(py);
    texts.iter().try_for_each(|(key, value)| all.set_item(key, value))?;
    Ok(all)
}

impl Run {
    /// Extracts the data of a run and its outcome that Python can access.
    pub fn new(id: String, run: &run::Run, outcome: &CellOutcome) -> Self {
        let all = if let CellOutcome::Finished { figures, .. } = outcome {
            figures.clone()
        } else {
            BTreeMap::new()
        };
        let (counters, figures): (BTreeMap<_, _>, BTreeMap<_, _>) =
            all.into_iter().partition(|(name, _)| name.starts_with(COUNTER));
        let exact = |name: String| outcome.counter(&name).map(|value| (name, value));
        let series = |series: &run::Series| Series {
            name: series.name.clone(),
            axis: series.axis.name().to_owned(),
            unit: series.unit.name().to_owned(),
            x: series.x.clone(),
            y: series.y.clone(),
        };
        Self {
            id,
            workload: run.workload.clone(),
            policy: run.policy.clone(),
            policy_settings: texts(&run.policy_settings),
            settings: texts(&run.settings),
            seed: run.seed,
            warnings: run
                .warnings
                .iter()
                .map(|warning| (warning.code.clone(), warning.text.clone()))
                .collect(),
            figures,
            counters: counters.into_keys().filter_map(exact).collect(),
            series: run.series.iter().map(series).collect(),
        }
    }
}

#[pymethods]
impl Run {
    /// Figures by name. Names end with the unit: `waf_ratio`, `write_latency_p99_ns`.
    /// Counters are integers.
    #[getter]
    fn figures<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let all = PyDict::new(py);
        self.figures.iter().try_for_each(|(name, value)| all.set_item(name, value))?;
        self.counters.iter().try_for_each(|(name, value)| all.set_item(name, value))?;
        Ok(all)
    }

    /// Settings of the workload by name; they decide the run.
    #[getter]
    fn settings<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        dictionary(py, &self.settings)
    }

    /// Name of the policy and its settings.
    #[getter]
    fn policy<'py>(&self, py: Python<'py>) -> PyResult<(String, Bound<'py, PyDict>)> {
        Ok((self.policy.clone(), dictionary(py, &self.policy_settings)?))
    }

    /// Warnings about misleading figures: code and text of each.
    #[getter]
    fn warnings(&self) -> Texts {
        self.warnings.clone()
    }

    /// Names of the series.
    #[getter]
    fn series_names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        self.series.iter().for_each(|series| {
            if !names.contains(&series.name.as_str()) {
                names.push(&series.name);
            }
        });
        names
    }

    /// A series: axis (`time` in nanoseconds, or `bytes-written`), positions, unit,
    /// values. `over` selects the axis if there are two.
    #[pyo3(signature = (name, over=None))]
    fn series<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        over: Option<&str>,
    ) -> PyResult<Values<'py>> {
        let meant =
            |series: &&Series| series.name == name && over.is_none_or(|over| series.axis == over);
        let series = self.series.iter().find(meant).ok_or_else(|| {
            PyKeyError::new_err(format!(
                "there is no series '{name}'{}; there are {}",
                over.map_or_else(String::new, |over| format!(" over {over}")),
                self.series_names().join(", ")
            ))
        })?;
        Ok((
            series.axis.clone(),
            series.x.to_pyarray(py),
            series.unit.clone(),
            series.y.to_pyarray(py),
        ))
    }

    /// Hash of all inputs of the result, including the model.
    #[getter]
    fn id(&self) -> &str {
        &self.id
    }

    #[getter]
    fn seed(&self) -> u64 {
        self.seed
    }

    fn __eq__(&self, other: PyRef<'_, Self>) -> bool {
        *self == *other
    }

    fn __hash__(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.id.hash(&mut hasher);
        hasher.finish()
    }

    /// Pickles the run.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Arguments<'py>)> {
        let series = |one: &Series| {
            (
                one.name.clone(),
                one.axis.clone(),
                one.unit.clone(),
                one.x.to_pyarray(py),
                one.y.to_pyarray(py),
            )
        };
        let parts = (
            self.id.clone(),
            (self.workload.clone(), self.settings.clone()),
            (self.policy.clone(), self.policy_settings.clone()),
            self.seed,
            self.warnings.clone(),
            self.figures.clone(),
            self.counters.clone(),
            self.series.iter().map(series).collect(),
        );
        Ok((py.get_type::<Self>().getattr("_restored")?, (parts,)))
    }

    /// Restores a pickled run.
    #[staticmethod]
    fn _restored<'py>(
        parts: Parts<PyReadonlyArray1<'py, u64>, PyReadonlyArray1<'py, f64>>,
    ) -> PyResult<Self> {
        let (
            id,
            (workload, settings),
            (policy, policy_settings),
            seed,
            warnings,
            figures,
            counters,
            pickled,
        ) = parts;
        let series = pickled.into_iter().map(|(name, axis, unit, x, y)| {
            Ok(Series { name, axis, unit, x: x.as_slice()?.to_vec(), y: y.as_slice()?.to_vec() })
        });
        let series = series.collect::<PyResult<_>>()?;
        Ok(Self {
            id,
            workload,
            policy,
            policy_settings,
            settings,
            seed,
            warnings,
            figures,
            counters,
            series,
        })
    }

    fn __repr__(&self) -> String {
        format!(
            "<trimtab.Run {} of {}, policy {}, seed {}>",
            self.id, self.workload, self.policy, self.seed
        )
    }
}
