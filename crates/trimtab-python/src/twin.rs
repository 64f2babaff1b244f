//! Data of a twin as a dictionary.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use trimtab_drive::spec::twin::{Origin, Parameter, Twin};

/// Origin and parameters of a twin.
pub fn dictionary<'py>(py: Python<'py>, twin: &Twin) -> PyResult<Bound<'py, PyDict>> {
    let known = PyDict::new(py);
    known.set_item("origin", origin(py, &twin.origin)?)?;
    let parameters = twin.parameters.iter().map(|one| parameter(py, one)).collect::<PyResult<Vec<_>>>()?;
    known.set_item("parameters", parameters)?;
    Ok(known)
}

fn origin<'py>(py: Python<'py>, origin: &Origin) -> PyResult<Bound<'py, PyDict>> {
    let all = PyDict::new(py);
    all.set_item("model", &origin.model)?;
    all.set_item("firmware", &origin.firmware)?;
    all.set_item("learned", &origin.learned)?;
    all.set_item("budget", &origin.budget)?;
    all.set_item("seed", origin.seed)?;
    all.set_item("written_bytes", origin.written_bytes)?;
    all.set_item("misfit_permille", origin.misfit_permille)?;
    all.set_item("off_permille", origin.off_permille)?;
    all.set_item("off_of_whole_permille", origin.off_of_whole_permille)?;
    all.set_item("notes", &origin.notes)?;
    Ok(all)
}

fn parameter<'py>(py: Python<'py>, one: &Parameter) -> PyResult<Bound<'py, PyDict>> {
    let all = PyDict::new(py);
    all.set_item("field", &one.field)?;
    all.set_item("estimate", one.estimate)?;
    all.set_item("low", one.low)?;
    all.set_item("high", one.high)?;
    all.set_item("known", one.known.name())?;
    all.set_item("source", &one.source)?;
    Ok(all)
}
