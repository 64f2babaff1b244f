//! Python bindings for Trimtab's model: drives, simulations, sweeps, and a drive
//! controlled command by command. This crate only converts values; the semantics are in
//! `trimtab-drive`, `trimtab-sim` and `trimtab-study`. Long operations let other Python
//! threads run and stop at Ctrl-C.

mod background;
mod crew;
mod drive;
mod plan;
mod run;
mod simulate;
mod table;
mod trace;
mod values;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

pyo3::create_exception!(trimtab, Error, PyValueError, "Error with the text of the command line.");

fn error(text: impl Into<String>) -> PyErr {
    Error::new_err(text.into())
}

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("Error", module.py().get_type::<Error>())?;
    module.add("MODEL", trimtab_study::sweep::MODEL)?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<drive::Drive>()?;
    module.add_class::<plan::Plan>()?;
    module.add_class::<run::Run>()?;
    module.add_class::<table::Table>()?;
    module.add_class::<trace::Trace>()?;
    module.add_function(wrap_pyfunction!(drive::drives, module)?)?;
    module.add_function(wrap_pyfunction!(simulate::simulate, module)?)
}
