//! Settings as Python has them: dictionaries, however deep, with dotted or nested names.

use crate::error;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyString};
use trimtab_core::sweep::Value;

/// Settings with their dotted names.
pub type Settings = Vec<(String, Value)>;

/// Adds what `given` says below `prefix`. Text stands for the name: `policy="idle"`.
///
/// # Errors
/// What is no number, text, flag or dictionary of such.
pub fn section(prefix: &str, given: Option<&Bound<'_, PyAny>>, settings: &mut Settings) -> PyResult<()> {
    match given {
        None => Ok(()),
        Some(text) if text.is_instance_of::<PyString>() => {
            settings.push((format!("{prefix}.name"), Value::Text(text.extract()?)));
            Ok(())
        }
        Some(given) => match given.cast::<PyDict>() {
            Ok(dictionary) => entries(prefix, dictionary, settings),
            Err(_) => Err(error(format!("{prefix} is a name or a dictionary of settings"))),
        },
    }
}

/// Adds all entries of a dictionary below `prefix`.
///
/// # Errors
/// As [`section`].
pub fn entries(prefix: &str, dictionary: &Bound<'_, PyDict>, settings: &mut Settings) -> PyResult<()> {
    for (key, given) in dictionary {
        let key: String = key.extract().map_err(|_| error(format!("names of settings are text, and {key} is not")))?;
        let key = if prefix.is_empty() { key } else { format!("{prefix}.{key}") };
        match given.cast::<PyDict>() {
            Ok(inner) => entries(&key, inner, settings)?,
            Err(_) => settings.push((key.clone(), value(&key, &given)?)),
        }
    }
    Ok(())
}

fn value(key: &str, given: &Bound<'_, PyAny>) -> PyResult<Value> {
    if given.is_instance_of::<PyBool>() {
        return Ok(Value::Flag(given.extract()?));
    }
    if given.is_instance_of::<PyString>() {
        return Ok(Value::Text(given.extract()?));
    }
    // Integers of NumPy are no `int`, but can stand for one.
    if given.is_instance_of::<PyInt>() || !given.is_instance_of::<PyFloat>() && given.hasattr("__index__")? {
        return given.extract().map(Value::Integer).map_err(|_| error(format!("{key}: {given} is too large")));
    }
    match given.extract::<f64>() {
        Ok(number) if number.is_finite() => Ok(Value::Number(number)),
        Ok(number) => Err(error(format!("{key}: {number} is not a usable number"))),
        Err(_) => Err(error(format!("{key}: a setting is a number, a text or a flag, not {}", given.get_type().name()?))),
    }
}
