//! Files named by plans: drives and traces, each read once.

use crate::drives;
use crate::drives::simulate::traced::TraceInput;
use sha2::Digest as _;
use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use trimtab_drive::spec::DriveSpec;
use trimtab_drive::spec::file::Drive;
use trimtab_linux::sys::beneath::named::{self, Streams};
use trimtab_study::sweep::{Sources, TraceReplayOptions, hex, settings, short_hash};
use trimtab_vssd::trace::timing;

/// Drives and traces of one plan. Paths are relative to the plan's directory.
#[derive(Debug)]
pub struct Files {
    directory: PathBuf,
    drives: Mutex<BTreeMap<String, Result<Drive, String>>>,
    traces: Mutex<BTreeMap<PathBuf, Result<String, String>>>,
}

impl Files {
    /// Files for the plan at this path.
    pub fn beside(plan: &Path) -> Self {
        let directory = plan.parent().unwrap_or(Path::new("")).to_owned();
        Self { directory, drives: Mutex::default(), traces: Mutex::default() }
    }

    /// The files read so far, by their name in the plan, with a hash of their content:
    /// other files give other results.
    pub fn inputs(&self) -> BTreeMap<String, String> {
        let drives = self.drives.lock().unwrap_or_else(PoisonError::into_inner);
        let of_drive = |drive: &Drive| DriveSpec {
            name: String::new(),
            description: String::new(),
            ..drive.spec.clone()
        };
        let drives = drives.iter().filter_map(|(name, drive)| {
            Some((
                format!("drive {name}"),
                short_hash(format!("{:?}", of_drive(drive.as_ref().ok()?))),
            ))
        });
        let traces = self.traces.lock().unwrap_or_else(PoisonError::into_inner);
        let of_path =
            |path: &Path| path.strip_prefix(&self.directory).unwrap_or(path).display().to_string();
        let traces = traces.iter().filter_map(|(path, hash)| {
            Some((format!("trace {}", of_path(path)), hash.as_ref().ok()?.clone()))
        });
        drives.chain(traces).collect()
    }

    fn path(&self, named: &str) -> PathBuf {
        self.directory.join(named)
    }
}

impl Sources for Files {
    type Trace = TraceInput;

    fn drive(&self, name: &str) -> Result<Drive, String> {
        let mut known = self.drives.lock().unwrap_or_else(PoisonError::into_inner);
        let load = || {
            // A path without a directory would be taken for a name.
            let reference = if settings::is_path(name) {
                Path::new(".").join(self.path(name)).display().to_string()
            } else {
                name.to_owned()
            };
            drives::load(&reference).map_err(|error| format!("{error:#}"))
        };
        known.entry(name.to_owned()).or_insert_with(load).clone()
    }

    fn trace(
        &self,
        path: &str,
        asked: &TraceReplayOptions,
    ) -> Result<(TraceInput, String), String> {
        let path = self.path(path);
        let TraceReplayOptions { reading, timing } = asked.clone();
        let mut known = self.traces.lock().unwrap_or_else(PoisonError::into_inner);
        let load = || {
            timing::check(timing, &path, &reading).map_err(|error| format!("{error:#}"))?;
            content(&path).map_err(|error| format!("cannot read {}: {error}", path.display()))
        };
        let content = known.entry(path.clone()).or_insert_with(load).clone()?;
        Ok((TraceInput { path, reading, timing }, content))
    }
}

/// The hash of a file's content.
fn content(path: &Path) -> std::io::Result<String> {
    let mut file = named::open_to_read(path, Streams::No)?;
    let (mut hash, mut buffer) = (sha2::Sha256::new(), vec![0; 1 << 20]);
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hex(&hash.finalize()[..16])),
            n => hash.update(&buffer[..n]),
        }
    }
}
