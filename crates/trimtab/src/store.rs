//! The result store: one file to which every change is appended ([`log`]).

mod body;
pub mod id;
mod load;
mod log;
pub mod recipe;
mod save;
pub mod shape;
mod studies;

pub use id::{Reference, RunId};
pub use load::{Filter, Summary};
pub use studies::{StudyRecord, StudyRun};

use log::Log;
use rustix::fs::Access;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::path::{Path, PathBuf};
use trimtab_drive::units::Bytes;
use trimtab_linux::output::Context;
use trimtab_linux::sys::beneath::Dir;
use trimtab_sim::run::Run;

/// Free space required for a result: a run with its series.
const ROOM: Bytes = Bytes(4 << 20);

/// Error of a store operation.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file is not a store.
    #[error("{0} is not a store of trimtab; name another file with --store")]
    Foreign(PathBuf),
    /// The file is corrupt.
    #[error(
        "store {path} is damaged ({detail}); restore it from a copy, or move it away \
            and a new one is made"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Description of the damage.
        detail: String,
    },
    /// The store does not exist.
    #[error("store {0} does not exist")]
    Missing(PathBuf),
    /// The file or its directory cannot be opened or created.
    #[error("cannot {action} {path}")]
    Io {
        /// The attempted action.
        action: &'static str,
        /// Its object.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The reference names a study, but the command needs a single run.
    #[error(
        "'{reference}' is a study, and this command takes one of its runs ({runs}): \
            choose one from 'trimtab results list --study {id}'"
    )]
    Study {
        /// The reference as given.
        reference: String,
        /// The study.
        id: String,
        /// Number of its runs.
        runs: usize,
    },
    /// Any other error, as a message for the user.
    #[error("{0}")]
    Other(String),
}

/// The error for a reference that matches several runs or studies.
fn ambiguous(reference: &Reference, ids: &[RunId]) -> StoreError {
    let ids: Vec<String> = ids.iter().take(9).map(RunId::to_string).collect();
    StoreError::Other(format!("'{reference}' could be any of {}; say more digits", ids.join(", ")))
}

/// Result of an operation on the store.
pub type Result<T, E = StoreError> = std::result::Result<T, E>;

/// Outcome of a save.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SaveOutcome {
    /// The run's id.
    pub id: RunId,
    /// False if the same run was already stored.
    pub new: bool,
}

/// An entry of a change.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
enum Entry {
    /// A new run: what lists show, and the length of its body.
    Run { id: RunId, head: Box<RawValue>, bytes: u64 },
    /// A stored run was saved again, so it is the newest.
    Again(RunId),
    /// The label of a run.
    Label { run: RunId, label: Option<String> },
    /// A study of stored runs.
    Study { id: RunId, study: StudyRecord },
    /// Deleted runs.
    Delete(Vec<RunId>),
}

/// A stored run.
#[derive(Debug)]
struct StoredRun {
    id: RunId,
    head: Box<RawValue>,
    /// Place and length of its body.
    body: (u64, u64),
    label: Option<String>,
}

/// An open store.
#[derive(Debug)]
pub struct Store {
    log: Log,
    /// The one saved last comes last.
    runs: Vec<StoredRun>,
    studies: Vec<(RunId, StudyRecord)>,
    /// Length of all bodies, also of deleted runs.
    bodies: u64,
}

impl Store {
    /// Opens the store at `path`; creates it if it does not exist.
    pub fn create_or_open(path: &Path) -> Result<Self> {
        Self::of(Log::open_or_create(path)?)
    }

    /// Opens the store at `path`, which must exist, to read it.
    pub fn open(path: &Path) -> Result<Self> {
        match path.try_exists() {
            Ok(true) => Self::of(Log::open(path)?),
            Ok(false) => Err(StoreError::Missing(path.to_owned())),
            Err(source) => {
                Err(StoreError::Io { action: "open store", path: path.to_owned(), source })
            }
        }
    }

    fn of(log: Log) -> Result<Self> {
        let mut store = Self { log, runs: Vec::new(), studies: Vec::new(), bodies: 0 };
        store.refresh()?;
        Ok(store)
    }

    fn path(&self) -> &Path {
        self.log.path()
    }

    /// Reads what was written since the store was opened or last refreshed.
    fn refresh(&mut self) -> Result<()> {
        for change in self.log.read_new()? {
            self.bodies += change.bodies_len;
            let mut at = change.bodies_at;
            for entry in serde_json::Deserializer::from_slice(&change.entries).into_iter() {
                let entry = entry.map_err(|error| self.log.damaged(error.to_string()))?;
                self.apply(entry, &mut at);
            }
            if at != change.bodies_at + change.bodies_len {
                return Err(self.log.damaged(format!("no run ends at byte {at}")));
            }
        }
        Ok(())
    }

    fn apply(&mut self, entry: Entry, bodies_at: &mut u64) {
        match entry {
            Entry::Run { id, head, bytes } => {
                self.runs.push(StoredRun { id, head, body: (*bodies_at, bytes), label: None });
                *bodies_at = bodies_at.saturating_add(bytes);
            }
            Entry::Again(id) => {
                if let Some(at) = self.runs.iter().position(|run| run.id == id) {
                    let run = self.runs.remove(at);
                    self.runs.push(run);
                }
            }
            Entry::Label { run: id, label } => {
                self.runs.iter_mut().filter(|run| run.id == id).for_each(|run| {
                    run.label.clone_from(&label);
                });
            }
            Entry::Study { id, mut study } => {
                study.runs.retain(|of| self.run(of.run).is_some());
                self.studies.retain(|(of, earlier)| {
                    let superseded = !earlier.complete
                        && earlier.target == study.target
                        && earlier.runs.iter().all(|of| study.contains(of.run));
                    *of != id && !superseded
                });
                self.studies.push((id, study));
            }
            Entry::Delete(ids) => {
                self.runs.retain(|run| !ids.contains(&run.id));
                for (_, study) in &mut self.studies {
                    study.runs.retain(|of| !ids.contains(&of.run));
                }
                self.studies.retain(|(_, study)| !study.runs.is_empty());
            }
        }
    }

    fn no_run(&self, reference: &str) -> StoreError {
        let path = self.path().display();
        StoreError::Other(format!(
            "store {path} has no run '{reference}'; a run is named by the first \
                digits of its id, study:ID, last, or last~1: see trimtab results list"
        ))
    }
}

/// Path of the store: `--store`, or `trimtab/results.db` in the XDG data directory.
pub fn path(context: &Context) -> Result<PathBuf> {
    match &context.store {
        Some(path) => Ok(path.clone()),
        None => default_path(|name| std::env::var_os(name)),
    }
}

fn default_path(variable: impl Fn(&str) -> Option<std::ffi::OsString>) -> Result<PathBuf> {
    // The XDG base directory specification says to ignore relative paths.
    let absolute = |name| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let data = absolute("XDG_DATA_HOME").or_else(|| Some(absolute("HOME")?.join(".local/share")));
    data.map(|data| data.join("trimtab/results.db")).ok_or_else(|| {
        let what = "there is no place for the store: neither XDG_DATA_HOME nor HOME is set; \
            name a file with --store";
        StoreError::Other(what.to_owned())
    })
}

/// Opens the store that `context` selects; creates it if it does not exist.
pub fn open_to_write(context: &Context) -> Result<Store> {
    let path = path(context)?;
    if context.store.is_none()
        && let Some(directory) = path.parent()
    {
        Dir::make_sheltered(directory).map_err(|source| StoreError::Io {
            action: "make",
            path: directory.to_owned(),
            source,
        })?;
    }
    Store::create_or_open(&path)
}

/// Opens the store that `context` selects for reading; `None` if it is the default store
/// and does not exist yet.
pub fn open_to_read(context: &Context) -> Result<Option<Store>> {
    match Store::open(&path(context)?) {
        Err(StoreError::Missing(_)) if context.store.is_none() => Ok(None),
        other => other.map(Some),
    }
}

/// Returns an error if results cannot be stored; called before a benchmark that takes
/// hours. Creates nothing, because the benchmark may still be refused.
pub fn check(context: &Context) -> Result<()> {
    let path = path(context)?;
    if path.symlink_metadata().is_ok() {
        open_to_write(context)?;
        return has_room(&path, path.parent().unwrap_or(&path));
    }
    // Parent directories of the default path are created later; the directory of an
    // explicit path must exist.
    let parents = path
        .ancestors()
        .skip(1)
        .map(|parent| if parent.as_os_str().is_empty() { Path::new(".") } else { parent });
    let found = parents
        .take(if context.store.is_some() { 1 } else { usize::MAX })
        .find(|parent| parent.is_dir());
    let usable = |directory: &Path| {
        rustix::fs::access(directory, Access::WRITE_OK | Access::EXEC_OK)
            .map_err(std::io::Error::from)
    };
    match found {
        Some(directory) => {
            usable(directory).map_err(|source| StoreError::Io {
                action: "use",
                path: path.clone(),
                source,
            })?;
            // Directories created below it are safe from other users if it is.
            let safe = match &context.store {
                Some(_) => Dir::sheltered_file(&path),
                None => Dir::sheltered_directory(directory),
            };
            safe.map_err(|source| StoreError::Io {
                action: "use store",
                path: path.clone(),
                source,
            })?;
            has_room(&path, directory)
        }
        // Returns the error without creating anything.
        None => open_to_write(context).map(drop),
    }
}

/// Returns an error if the filesystem of `directory` has too little space to store a run
/// in `path`. Accepts a filesystem that does not report its free space.
fn has_room(path: &Path, directory: &Path) -> Result<()> {
    let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    let Ok(stat) = rustix::fs::statvfs(directory) else { return Ok(()) };
    let blocks = if rustix::process::geteuid().is_root() { stat.f_bfree } else { stat.f_bavail };
    let free = Bytes(blocks.saturating_mul(stat.f_frsize));
    let unlimited = stat.f_blocks == 0;
    if unlimited || free >= ROOM {
        return Ok(());
    }
    let path = path.display();
    Err(StoreError::Other(format!(
        "store {path} could not keep a result: {free} free there, and a run takes up \
            to {ROOM}; name a file elsewhere with --store"
    )))
}

/// Saves `run` in the store that `context` selects, with the label from `context`.
pub fn save(context: &Context, run: &Run) -> Result<RunId> {
    let mut store = open_to_write(context)?;
    let id = store.save(run)?.id;
    if let Some(label) = &context.label {
        store.set_label(id, Some(label))?;
    }
    Ok(id)
}

#[cfg(test)]
mod tests;
