//! Shipped drives and specification files.

use crate::error;
use crate::values;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use trimtab_drive::shipped;
use trimtab_drive::spec::DriveSpec;
use trimtab_drive::spec::file::{self, parse};
use trimtab_drive::spec::text;
use trimtab_drive::spec::twin::Twin;
use trimtab_drive::usage::did_you_mean;
use trimtab_sim::run::Warning;
use trimtab_study::sweep::{Value, settings};

/// Maximum size of a specification.
const SPEC_BYTES_MAX: u64 = 1 << 20;

/// A drive specification.
#[pyclass(frozen, module = "trimtab")]
pub struct Drive {
    pub drive: file::Drive,
    /// Warning if the drive was scaled below the size that preserves its write
    /// amplification.
    pub few: Option<Warning>,
}

/// Names of the shipped drives. Those from published rates come last.
#[pyfunction]
pub fn drives() -> Vec<String> {
    shipped::files().filter_map(|text| parse(text).ok()).map(|drive| drive.spec.name).collect()
}

/// Loads a shipped drive by name, or a specification file (with a `/`, or ending in
/// `.toml`).
///
/// # Errors
/// Text for an unknown name, an unreadable file, or an invalid specification.
pub fn load(reference: &str, directory: &Path) -> Result<file::Drive, String> {
    if settings::is_path(reference) {
        let path = directory.join(reference);
        let bytes = read_within(&path, SPEC_BYTES_MAX)?;
        let text =
            std::str::from_utf8(&bytes).map_err(|wrong| format!("{}: {wrong}", path.display()))?;
        return parse(text).map_err(|wrong| format!("{}: {wrong}", path.display()));
    }
    shipped::named(reference).ok_or_else(|| {
        let names = drives();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let hint = did_you_mean(reference, &names)
            .unwrap_or_else(|| format!("there are {}", names.join(", ")));
        format!("there is no drive '{reference}'; {hint}")
    })
}

/// The content of a regular file of at most `limit` bytes. A pipe or a device has no end.
///
/// # Errors
/// Text for an unreadable, another, or a larger file.
pub fn read_within(path: &Path, limit: u64) -> Result<Vec<u8>, String> {
    let cannot = |error: std::io::Error| format!("cannot read {}: {error}", path.display());
    let found = std::fs::metadata(path).map_err(cannot)?;
    if !found.is_file() || found.len() > limit {
        return Err(format!("{} is not a regular file of at most {limit} bytes", path.display()));
    }
    let mut content = Vec::new();
    // The file may grow meanwhile.
    std::fs::File::open(path)
        .and_then(|file| file.take(limit).read_to_end(&mut content))
        .map_err(cannot)?;
    Ok(content)
}

impl From<file::Drive> for Drive {
    fn from(drive: file::Drive) -> Self {
        Self { drive, few: None }
    }
}

#[pymethods]
impl Drive {
    /// A shipped drive by its name, or a specification file: anything with a `/` or that
    /// ends in `.toml`.
    #[new]
    fn new(reference: PathBuf) -> PyResult<Self> {
        let reference = reference.to_str().ok_or_else(|| error("the drive name must be text"))?;
        Ok(load(reference, Path::new("")).map_err(error)?.into())
    }

    /// Creates a drive from the text of a specification.
    #[staticmethod]
    fn parse(text: &str) -> PyResult<Self> {
        Ok(parse(text).map_err(error)?.into())
    }

    /// The same drive with changed parameters, named as in sweeps:
    /// `drive.change({"capacity": "8GiB", "flash.trim.command_ns": 0})`.
    fn change(&self, parameters: &Bound<'_, PyDict>) -> PyResult<Self> {
        let mut given = Vec::new();
        values::entries("drive", parameters, &mut given)?;
        let given: Vec<(&str, &Value)> =
            given.iter().map(|(key, value)| (key.as_str(), value)).collect();
        let changed = settings::changed_drive(self.drive.clone(), &given)
            .map_err(|wrong| error(wrong.to_string()))?;
        Ok(Self { drive: changed.drive, few: changed.few.or_else(|| self.few.clone()) })
    }

    /// Text of the specification with the value and source of every field. Accepted by
    /// `parse`, and by the program as `drive:FILE.toml`.
    #[getter]
    fn text(&self) -> String {
        text::file(&self.drive)
    }

    /// For a learned drive: `origin`, and `parameters` with their 90 % intervals. `None`
    /// for others.
    #[getter]
    fn twin<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let known = |twin: &Twin| serde_json::json!({ "origin": twin.origin, "parameters": twin.parameters });
        self.drive.twin.as_ref().map(|twin| values::plain(py, &known(twin))).transpose()
    }

    /// For a learned drive: all drives that explain the measurements. Empty for others.
    #[getter]
    fn members(&self) -> Vec<Self> {
        let bare = |spec: &DriveSpec| file::Drive {
            spec: spec.clone(),
            sources: BTreeMap::new(),
            alternatives: Vec::new(),
            twin: None,
        };
        self.drive
            .twin
            .iter()
            .flat_map(|twin| &twin.members)
            .map(|spec| bare(spec).into())
            .collect()
    }

    #[getter]
    fn name(&self) -> &str {
        &self.drive.spec.name
    }

    #[getter]
    fn description(&self) -> &str {
        &self.drive.spec.description
    }

    #[getter]
    fn capacity_bytes(&self) -> u64 {
        self.drive.spec.capacity_bytes
    }

    fn __eq__(&self, other: PyRef<'_, Self>) -> bool {
        self.drive.spec == other.drive.spec && self.drive.twin == other.drive.twin
    }

    fn __hash__(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (&self.drive.spec.name, self.drive.spec.capacity_bytes).hash(&mut hasher);
        hasher.finish()
    }

    /// Pickles the drive as its text.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (String,))> {
        Ok((py.get_type::<Self>().getattr("parse")?, (self.text(),)))
    }

    fn __repr__(&self) -> String {
        format!(
            "<trimtab.Drive {}: {} bytes>",
            self.drive.spec.name, self.drive.spec.capacity_bytes
        )
    }
}
