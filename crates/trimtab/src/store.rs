//! The result store: one SQLite file.
//!
//! Crash-safe at any moment: a rollback journal (no side files at rest, and safe on any
//! filesystem with working locks), one transaction per change, and a full sync before a
//! save returns.

mod body;
pub mod id;
mod load;
pub mod recipe;
mod save;
pub mod shape;
mod studies;

pub use id::{Reference, RunId};
pub use load::{Filter, Summary};
pub use studies::StudyRecord;

use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};
use rustix::fs::Access;
use std::path::{Path, PathBuf};
use std::time::Duration;
use trimtab_drive::units::Bytes;
use trimtab_linux::output::Context;
use trimtab_linux::sys::beneath::{Dir, PRIVATE_FILE};
use trimtab_sim::run::Run;

/// The tables of a store.
const SCHEMA: &str = include_str!("store/schema.sql");
/// Schema version. A file of another version is rejected.
const VERSION: i64 = 4;

/// "TRMT": identifies the file as a trimtab store.
const APPLICATION_ID: i32 = 0x5452_4d54;

/// Free space required for a result: a run with its series, plus the journal.
const ROOM: Bytes = Bytes(4 << 20);

/// Time limit for waiting on another writing process.
const BUSY_TIMEOUT: Duration = Duration::from_secs(30);

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
fn ambiguous(reference: &Reference, ids: &[String]) -> StoreError {
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

/// An open store.
#[derive(Debug)]
pub struct Store {
    connection: Connection,
    path: PathBuf,
}

impl Store {
    /// Opens the store at `path`; creates it if it does not exist.
    pub fn create_or_open(path: &Path) -> Result<Self> {
        Self::connect(path, OpenFlags::SQLITE_OPEN_CREATE)
    }

    /// Opens the store at `path`, which must exist.
    pub fn open(path: &Path) -> Result<Self> {
        match path.try_exists() {
            Ok(true) => Self::connect(path, OpenFlags::empty()),
            Ok(false) => Err(StoreError::Missing(path.to_owned())),
            Err(source) => {
                Err(StoreError::Io { action: "open store", path: path.to_owned(), source })
            }
        }
    }

    fn connect(path: &Path, create: OpenFlags) -> Result<Self> {
        let problem =
            |action| move |source| StoreError::Io { action, path: path.to_owned(), source };
        // SQLite opens by name and replays any journal it finds, which may name files to
        // delete.
        let real = Dir::sheltered_file(path).map_err(problem("use store"))?;
        if !create.is_empty() {
            // SQLite would create the file with the umask's mode; the journal inherits
            // the mode of the store.
            make_private(&real).map_err(problem("make store"))?;
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX
            | OpenFlags::SQLITE_OPEN_NOFOLLOW
            | create;
        let opened = Connection::open_with_flags(&real, flags);
        let connection =
            opened.map_err(|source| Self::explain("open", path, source, !create.is_empty()))?;
        let mut store = Self { connection, path: path.to_owned() };
        store
            .prepare()
            .map_err(|source| Self::explain("open", path, source, !create.is_empty()))??;
        Ok(store)
    }

    /// Configures the connection, and creates the tables in an empty file.
    fn prepare(&mut self) -> rusqlite::Result<Result<()>> {
        self.connection.busy_timeout(BUSY_TIMEOUT)?;
        self.connection.pragma_update(None, "foreign_keys", true)?;
        // EXTRA also syncs the directory after removing the journal: a completed save
        // survives a power cut.
        self.connection.pragma_update(None, "synchronous", "EXTRA")?;
        let other = |found: i64| {
            StoreError::Other(format!(
                "store {} has version {found}, and this trimtab reads version {VERSION}; use \
                    the trimtab that made it, or move it away and a new one is made",
                self.path.display()
            ))
        };
        let checked = |found| if found == VERSION { Ok(()) } else { Err(other(found)) };
        // A user who may not write still learns the version.
        if application_id(&self.connection)? == APPLICATION_ID {
            return Ok(checked(version(&self.connection)?));
        }
        let transaction =
            self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        // Read again under the lock: another process may have created the tables.
        let (found, application) = (version(&transaction)?, application_id(&transaction)?);
        let tables: i64 =
            transaction.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
        if application == APPLICATION_ID {
            return Ok(checked(found));
        }
        if application != 0 || found != 0 || tables != 0 {
            return Ok(Err(StoreError::Foreign(self.path.clone())));
        }
        transaction.execute_batch(SCHEMA)?;
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
        transaction.pragma_update(None, "user_version", VERSION)?;
        transaction.commit()?;
        Ok(Ok(()))
    }

    fn error(&self, action: &'static str) -> impl Fn(rusqlite::Error) -> StoreError + '_ {
        move |source| Self::explain(action, &self.path, source, false)
    }

    fn no_run(&self, reference: &str) -> StoreError {
        let path = self.path.display();
        StoreError::Other(format!(
            "store {path} has no run '{reference}'; a run is named by the first \
                digits of its id, study:ID, last, or last~1: see trimtab results list"
        ))
    }

    fn damaged(&self, detail: impl Into<String>) -> StoreError {
        StoreError::Damaged { path: self.path.clone(), detail: detail.into() }
    }

    /// Converts a SQLite error to one that says what to do.
    fn explain(
        action: &'static str,
        path: &Path,
        source: rusqlite::Error,
        create: bool,
    ) -> StoreError {
        use rusqlite::Error::{
            FromSqlConversionFailure, IntegralValueOutOfRange, InvalidColumnType, Utf8Error,
        };
        let path = path.to_owned();
        let detail = match &source {
            rusqlite::Error::SqliteFailure(error, Some(message)) => {
                format!("{message} (SQLite error {})", error.extended_code)
            }
            other => other.to_string(),
        };
        if matches!(
            source,
            FromSqlConversionFailure(..)
                | IntegralValueOutOfRange(..)
                | InvalidColumnType(..)
                | Utf8Error(..)
        ) {
            return StoreError::Damaged { path, detail };
        }
        let sqlite =
            || StoreError::Other(format!("cannot {action} store {}: {detail}", path.display()));
        match source.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt) => StoreError::Damaged { path, detail },
            Some(ErrorCode::NotADatabase) => StoreError::Foreign(path),
            // SQLite does not report the cause; the operating system does.
            Some(ErrorCode::CannotOpen) => {
                let tried = Dir::of_file(&path).and_then(|(dir, name)| {
                    if create {
                        dir.open_or_create(name, PRIVATE_FILE).map(drop)
                    } else {
                        dir.open_write(name).map(drop)
                    }
                });
                match tried {
                    Err(source) => StoreError::Io { action: "open store", path, source },
                    Ok(_) => sqlite(),
                }
            }
            _ => sqlite(),
        }
    }
}

/// Creates an empty file that only its owner can access, unless the path already exists.
fn make_private(path: &Path) -> std::io::Result<()> {
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        _ => return Ok(()),
    }
    let (directory, name) = Dir::of_file(path)?;
    match directory.create_new(name, PRIVATE_FILE) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        made => made.map(drop),
    }
}

fn version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

fn application_id(connection: &Connection) -> rusqlite::Result<i32> {
    connection.pragma_query_value(None, "application_id", |row| row.get(0))
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
