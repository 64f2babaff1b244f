//! Settings from Python: nested dictionaries with dotted or nested names.

use crate::error;
use numpy::{Element, PyReadonlyArray1};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyString};
use trimtab_study::sweep::Value;

/// Settings by dotted name.
pub type Settings = Vec<(String, Value)>;

/// A non-negative integer. Python's errors name the argument.
#[derive(Clone, Copy, Debug)]
pub struct Whole(pub u64);

impl<'py> FromPyObject<'_, 'py> for Whole {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let wrong = |_| {
            PyTypeError::new_err(format!(
                "{} is not a whole number from 0 to 2^64 - 1",
                shown(&given)
            ))
        };
        given.extract::<u64>().map(Self).map_err(wrong)
    }
}

/// Number of threads, at least one.
#[derive(Clone, Copy, Debug)]
pub struct Threads(pub usize);

impl<'py> FromPyObject<'_, 'py> for Threads {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let threads = given.extract::<usize>().ok().filter(|threads| *threads > 0);
        threads.map(Self).ok_or_else(|| {
            PyTypeError::new_err(format!("{} is not a number of threads", shown(&given)))
        })
    }
}

fn shown(given: &Bound<'_, PyAny>) -> String {
    given.repr().map_or_else(|_| "that".to_owned(), |text| text.to_string())
}

/// Converts an integer array or a list to a column, without a copy if the type matches.
///
/// # Errors
/// Not such a column, or a number is out of range. The text uses `name`, the argument.
pub fn column<'py, T: Element>(
    name: &str,
    given: &Bound<'py, PyAny>,
    max: u64,
) -> PyResult<PyReadonlyArray1<'py, T>> {
    if let Ok(array) = given.extract() {
        return Ok(array);
    }
    let array = given.py().import("numpy")?.call_method1("asarray", (given,))?;
    let kind: String = array.getattr("dtype")?.getattr("kind")?.extract()?;
    let empty = array.getattr("size")?.extract::<usize>()? == 0;
    if !empty && !["i", "u"].contains(&kind.as_str()) {
        return Err(error(format!(
            "{name}: must hold whole numbers, not {}",
            array.getattr("dtype")?
        )));
    }
    if array.getattr("ndim")?.extract::<usize>()? != 1 {
        return Err(error(format!("{name}: must have one dimension")));
    }
    let outside = |of: &str| -> PyResult<bool> {
        Ok(array.call_method0(of)?.extract::<u64>().map_or(true, |value| value > max))
    };
    if !empty && (outside("min")? || outside("max")?) {
        return Err(error(format!("{name}: numbers must be from 0 to {max}")));
    }
    let wanted = if max > u64::from(u8::MAX) { "uint64" } else { "uint8" };
    array
        .call_method1("astype", (wanted,))?
        .extract()
        .map_err(|_| error(format!("{name}: not a column of numbers")))
}

/// Adds the settings of `given` below `prefix`. Text stands for the name:
/// `policy="idle"`.
///
/// # Errors
/// A value is not a number, text, boolean or dictionary of those.
pub fn section(
    prefix: &str,
    given: Option<&Bound<'_, PyAny>>,
    settings: &mut Settings,
) -> PyResult<()> {
    match given {
        None => Ok(()),
        Some(text) if text.is_instance_of::<PyString>() => {
            settings.push((format!("{prefix}.name"), Value::Text(text.extract()?)));
            Ok(())
        }
        Some(given) => match given.cast::<PyDict>() {
            Ok(dictionary) => entries(prefix, dictionary, settings),
            Err(_) => Err(error(format!("{prefix}: must be a name or a dictionary of settings"))),
        },
    }
}

/// Adds all entries of a dictionary below `prefix`.
///
/// # Errors
/// As [`section`].
pub fn entries(
    prefix: &str,
    dictionary: &Bound<'_, PyDict>,
    settings: &mut Settings,
) -> PyResult<()> {
    for (key, given) in dictionary {
        let key: String =
            key.extract().map_err(|_| error(format!("setting names must be text, not {key}")))?;
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
    // NumPy integers are not `int`, but support `__index__`.
    if given.is_instance_of::<PyInt>()
        || !given.is_instance_of::<PyFloat>() && given.hasattr("__index__")?
    {
        return given
            .extract()
            .map(Value::Integer)
            .map_err(|_| error(format!("{key}: {given} is too large")));
    }
    match given.extract::<f64>() {
        Ok(number) if number.is_finite() => Ok(Value::Number(number)),
        Ok(number) => Err(error(format!("{key}: {number} is not a usable number"))),
        Err(_) => Err(error(format!(
            "{key}: a setting must be a number, text or boolean, not {}",
            given.get_type().name()?
        ))),
    }
}

/// Converts JSON to plain Python values, like `json.loads`.
///
/// # Errors
/// Python cannot parse it.
pub fn plain<'py>(py: Python<'py>, json: &serde_json::Value) -> PyResult<Bound<'py, PyAny>> {
    py.import("json")?.call_method1("loads", (json.to_string(),))
}
