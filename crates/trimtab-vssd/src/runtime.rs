//! Runtime directories of attached drives: one per drive, with a record, a control socket
//! and the mount point.
//!
//! ```text
//!     /run/trimtab/drives/ID/          for root; $XDG_RUNTIME_DIR/trimtab/drives/ID/ for others
//!         record.json                  the drive, its server and the start time
//!         control                      the server's socket
//!         mnt/drive                    the file behind the loop device
//!         log                          messages of the server in the background
//! ```
//!
//! Everything belongs to this user and is private. That is checked on open directories,
//! not by name, so the contents come from this program. A record of a dead process is the
//! result of a crash: the next start finds it and removes only what the record lists.

use crate::transport::Transport;
use crate::ublk;
use anyhow::{Context as _, bail};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use serde::{Deserialize, Serialize};
use std::fs;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use trimtab_drive::spec::{IDENTIFIER_MAX, is_identifier};
use trimtab_drive::usage::UsageError;
use trimtab_linux::host::loops;
use trimtab_linux::host::mountinfo::{self, DevNumber};
use trimtab_linux::host::processes::{boot_id, started};
use trimtab_linux::host::root::Root;
use trimtab_linux::loop_device::DetachResult;
use trimtab_linux::sys::beneath::{Dir, ObjectIdentity, PRIVATE_FILE, Removal};
use trimtab_linux::sys::unix_socket;

/// Overrides the directory, for tests and for independent sets of drives.
const DIRECTORY_VARIABLE: &str = "TRIMTAB_RUNTIME_DIR";
const RECORD: &str = "record.json";
const CONTROL: &str = "control";
const MOUNT_POINT: &str = "mnt";
const LOG: &str = "log";
/// Name of the served file, independent of the drive's name.
pub const SERVED_FILE: &str = "drive";
const RECORD_BYTES_MAX: u64 = 64 << 10;

/// The record of an attached drive and its server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerRecord {
    /// The user's id for the drive.
    pub id: String,
    /// Name of the drive specification.
    pub drive: String,
    /// Size in bytes.
    pub size: u64,
    /// Process id of the server.
    pub pid: u32,
    /// Its start time in clock ticks after boot, in case the process id is reused.
    pub pid_started: u64,
    /// The boot id of that boot.
    pub boot_id: String,
    /// Transport of the block device, once it exists.
    #[serde(default)]
    pub transport: Option<Transport>,
    /// The block device, once it exists.
    pub device: Option<PathBuf>,
    /// The mark that identifies a block device without a backing file, in hexadecimal.
    #[serde(default)]
    pub mark: Option<String>,
    /// The file that backs the block device: device number of its filesystem, and inode.
    #[serde(default)]
    pub served: Option<(u64, u64)>,
    /// The path of the NBD socket, if there is one.
    pub nbd: Option<PathBuf>,
    /// The identity of the socket, once it exists: device number of its filesystem, and
    /// inode.
    #[serde(default)]
    pub nbd_socket: Option<(u64, u64)>,
    /// The data file, if there is one.
    pub data: Option<PathBuf>,
    /// Milliseconds since 1970 UTC.
    pub attached_unix_ms: u64,
}

impl ServerRecord {
    /// The mark of its block device; `None` after a reboot.
    #[must_use]
    pub fn mark(&self) -> Option<u64> {
        self.mark
            .as_deref()
            .filter(|_| self.boot_id == boot_id())
            .and_then(|mark| u64::from_str_radix(mark, 16).ok())
    }

    /// The file that backs the block device; `None` after a reboot.
    #[must_use]
    pub fn served(&self) -> Option<ObjectIdentity> {
        self.served
            .filter(|_| self.boot_id == boot_id())
            .map(|(device, inode)| ObjectIdentity { device, inode })
    }
}

/// The runtime directory of one attached drive.
#[derive(Clone, Debug)]
pub struct RuntimeDirectory {
    all: Arc<Dir>,
    id: String,
    dir: Arc<Dir>,
}

impl RuntimeDirectory {
    /// The control socket.
    pub fn control(&self) -> PathBuf {
        self.dir.path().join(CONTROL)
    }

    /// The mount point of the file below the loop device.
    pub fn mount_point(&self) -> PathBuf {
        self.dir.path().join(MOUNT_POINT)
    }

    /// The served file, opened below the mount point.
    pub fn open_served(&self) -> io::Result<File> {
        self.dir.open_dir(MOUNT_POINT)?.open_write(SERVED_FILE)
    }

    /// The server's log, opened for appending.
    pub fn open_log(&self) -> io::Result<File> {
        let (log, _) = self.dir.open_or_create(LOG, PRIVATE_FILE)?;
        rustix::fs::fcntl_setfl(&log, rustix::fs::OFlags::APPEND)?;
        Ok(log)
    }

    /// Writes the record, atomically.
    pub fn write_record(&self, record: &ServerRecord) -> anyhow::Result<()> {
        let text = serde_json::to_vec_pretty(record)?;
        self.dir
            .write_atomically(RECORD, PRIVATE_FILE, |file| file.write_all(&text))
            .with_context(|| format!("cannot write {}", self.dir.path().join(RECORD).display()))
    }

    /// Reads the record; `None` if missing, or not written by this program for this
    /// drive.
    pub fn record(&self) -> Option<ServerRecord> {
        let file = self.dir.open_read(RECORD).ok()?;
        if !Dir::is_trusted_file(&file).ok()? {
            return None;
        }
        let mut text = Vec::new();
        file.take(RECORD_BYTES_MAX).read_to_end(&mut text).ok()?;
        serde_json::from_slice(&text).ok().filter(|record: &ServerRecord| record.id == self.id)
    }

    /// Removes the directory. The mount point must be unmounted.
    pub fn remove(&self) -> io::Result<()> {
        // Removes known names only, the record last: a mount that still exists is not
        // touched.
        for name in [CONTROL, LOG] {
            self.remove_file(name)?;
        }
        self.remove_mount_point()?;
        self.remove_file(RECORD)?;
        removed(self.all.remove_dir(&self.id, &self.dir)?)
    }

    /// Removes the directory if it contains only an empty mount point.
    fn remove_empty(&self) -> io::Result<()> {
        self.remove_mount_point()?;
        removed(self.all.remove_dir(&self.id, &self.dir)?)
    }

    fn remove_mount_point(&self) -> io::Result<()> {
        match self.dir.open_dir(MOUNT_POINT) {
            Ok(held) => removed(self.dir.remove_dir(MOUNT_POINT, &held)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn remove_file(&self, name: &str) -> io::Result<()> {
        match self.dir.look(name)? {
            Some(stat) => removed(self.dir.remove_file_of(name, ObjectIdentity::from(&stat))?),
            None => Ok(()),
        }
    }

    /// Unmounts the served file from the mount point, even if it is busy or dead.
    /// Succeeds if nothing is mounted. `served` is the file, if known.
    pub fn unmount(&self, served: Option<ObjectIdentity>) -> anyhow::Result<()> {
        let mount_point = self.mount_point();
        let mounts = mountinfo::read(&Root::live()?).context("cannot read the mount table")?;
        let Some(mount) = mountinfo::containing(&mounts, &mount_point)
            .filter(|mount| mount.mount_point == mount_point)
        else {
            return Ok(());
        };
        let of_this_program =
            mount.fs_type.split('.').next() == Some("fuse") && mount.source == Path::new("trimtab");
        let ours = of_this_program
            && served.is_none_or(|served| DevNumber::from_raw(served.device) == mount.dev);
        anyhow::ensure!(
            ours,
            "{} is mounted on {} and not served by this drive",
            mount.source.display(),
            mount_point.display()
        );
        match rustix::mount::unmount(&mount_point, UnmountFlags::DETACH) {
            Ok(()) | Err(Errno::INVAL | Errno::NOENT) => Ok(()),
            Err(errno) => Err(io::Error::from(errno))
                .with_context(|| format!("cannot unmount {}", mount_point.display())),
        }
    }
}

fn removed(removal: Removal) -> io::Result<()> {
    match removal {
        Removal::Done | Removal::Absent => Ok(()),
        Removal::Foreign(at) => Err(io::Error::other(format!(
            "{} is not the object created there; it was left unchanged",
            at.display()
        ))),
    }
}

/// The state of a runtime directory.
#[derive(Clone, Debug)]
pub enum RuntimeState {
    /// The server is running.
    Running(ServerRecord),
    /// The server is starting: the directory is young and has no record yet.
    Starting,
    /// The server is gone; holds its record, if it wrote one.
    Dead(Option<ServerRecord>),
}

/// An attached drive, or the remains of one.
#[derive(Clone, Debug)]
pub struct RuntimeEntry {
    /// Id of the drive, which is the name of the directory.
    pub id: String,
    /// Its runtime directory.
    pub home: RuntimeDirectory,
    /// State of its server.
    pub state: RuntimeState,
}

/// Creates and finds the runtime directories of drives.
#[derive(Clone, Debug)]
pub struct Runtime {
    directory: Arc<Dir>,
}

impl Runtime {
    /// Opens this user's directory, creating it if needed. Fails if others may write to
    /// it.
    pub fn open() -> anyhow::Result<Self> {
        let path = base()?.join("drives");
        let directory = Dir::guarded(&path, true)
            .with_context(|| format!("cannot use the runtime directory {}", path.display()))?;
        Self::in_directory(directory)
    }

    fn in_directory(directory: Dir) -> anyhow::Result<Self> {
        let owner = rustix::fs::fstat(&directory).map_err(io::Error::from)?.st_uid;
        anyhow::ensure!(
            owner == rustix::process::geteuid().as_raw(),
            "the runtime directory {} belongs to another user (uid {owner})",
            directory.path().display()
        );
        Ok(Self { directory: Arc::new(directory) })
    }

    /// All drives, attached or left over, by id. Directories of other origin are skipped.
    pub fn entries(&self) -> anyhow::Result<Vec<RuntimeEntry>> {
        let names = self
            .directory
            .names()
            .with_context(|| format!("cannot list {}", self.directory.path().display()))?;
        Ok(names.iter().filter_map(|name| self.entry(name)).collect())
    }

    /// `None` if it is gone or of other origin.
    fn entry(&self, name: &std::ffi::OsStr) -> Option<RuntimeEntry> {
        let dir = self.directory.open_dir(name).ok()?;
        let id = name.to_str().filter(|id| is_identifier(id))?.to_owned();
        dir.require_private().ok()?;
        let home = RuntimeDirectory {
            all: Arc::clone(&self.directory),
            id: id.clone(),
            dir: Arc::new(dir),
        };
        let state = match home.record() {
            Some(record) if is_running(&record) => RuntimeState::Running(record),
            Some(record) => RuntimeState::Dead(Some(record)),
            None if is_young(&home.dir) => RuntimeState::Starting,
            None => RuntimeState::Dead(None),
        };
        Some(RuntimeEntry { id, home, state })
    }

    /// The entry for `wanted` (an id or a device); without it, the only entry.
    pub fn find(&self, wanted: Option<&str>) -> anyhow::Result<RuntimeEntry> {
        let mut entries = self.entries()?;
        let ids = entries.iter().map(|entry| entry.id.clone()).collect::<Vec<_>>().join(", ");
        let Some(wanted) = wanted else {
            return match entries.len() {
                1 => Ok(entries.remove(0)),
                0 => Err(UsageError::missing("no drive is attached")
                    .hint("attach one with 'trimtab drive attach NAME'")
                    .into()),
                _ => Err(UsageError::new("several drives are attached")
                    .hint(format!("choose one: {ids}"))
                    .into()),
            };
        };
        let is_it = |entry: &RuntimeEntry| {
            let device = match &entry.state {
                RuntimeState::Running(record) | RuntimeState::Dead(Some(record)) => {
                    record.device.as_deref()
                }
                RuntimeState::Starting | RuntimeState::Dead(None) => None,
            };
            entry.id == wanted || device == Some(Path::new(wanted))
        };
        match entries.iter().position(is_it) {
            Some(index) => Ok(entries.remove(index)),
            None if ids.is_empty() => {
                Err(UsageError::missing(format!("no drive '{wanted}' is attached; there are none"))
                    .into())
            }
            None => Err(UsageError::missing(format!("no drive '{wanted}' is attached"))
                .hint(format!("attached drives: {ids}"))
                .into()),
        }
    }

    /// Creates the directory of a new drive. The default `id` is the drive's name.
    pub fn claim(
        &self,
        id: Option<&str>,
        drive: &str,
    ) -> anyhow::Result<(String, RuntimeDirectory)> {
        let wanted = id.unwrap_or(drive);
        check_id(wanted)?;
        if id.is_some() {
            return match self.make(wanted)? {
                Some(home) => Ok((wanted.to_owned(), home)),
                None => Err(UsageError::new(format!("a drive '{wanted}' is attached already"))
                    .hint("choose another --id")
                    .into()),
            };
        }
        for n in 1_u32.. {
            let id = numbered(wanted, n);
            if let Some(home) = self.make(&id)? {
                return Ok((id, home));
            }
        }
        unreachable!("fewer drives than numbers")
    }

    /// `None` if the name is taken.
    fn make(&self, id: &str) -> anyhow::Result<Option<RuntimeDirectory>> {
        let make = || -> io::Result<Option<RuntimeDirectory>> {
            let dir = match self.directory.mkdir(id) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(None),
                made => made?,
            };
            dir.mkdir(MOUNT_POINT)?;
            Ok(Some(RuntimeDirectory {
                all: Arc::clone(&self.directory),
                id: id.to_owned(),
                dir: Arc::new(dir),
            }))
        };
        make().with_context(|| format!("cannot make {}", self.directory.path().join(id).display()))
    }

    /// Removes the remains of crashed servers. Returns remarks on what was and was not
    /// removed.
    pub fn clean_up(&self) -> anyhow::Result<Vec<String>> {
        let mut remarks = Vec::new();
        for entry in self.entries()? {
            if let RuntimeState::Dead(_) = entry.state {
                remarks.push(match remove_remains(&entry, false) {
                    Ok(()) => {
                        format!("removed the remains of the crashed server of '{}'", entry.id)
                    }
                    Err(error) => format!(
                        "cannot remove the remains of the crashed server of '{}': {error:#}",
                        entry.id
                    ),
                });
            }
        }
        Ok(remarks)
    }
}

/// Fails unless `id` is valid as the name of a drive and its directory.
pub fn check_id(id: &str) -> Result<(), UsageError> {
    if is_identifier(id) {
        return Ok(());
    }
    let shown: String =
        id.chars().take(IDENTIFIER_MAX + 1).flat_map(char::escape_default).collect();
    let rule = format!(
        "use at most {IDENTIFIER_MAX} of a-z, 0-9, '-', '_' and '.', and begin with \
            a letter or a digit"
    );
    Err(UsageError::new(format!("'{shown}' is not an id")).hint(rule))
}

/// The parent directory for runtime files of this user.
fn base() -> anyhow::Result<PathBuf> {
    if let Some(directory) =
        std::env::var_os(DIRECTORY_VARIABLE).filter(|directory| !directory.is_empty())
    {
        return Ok(std::path::absolute(directory)?);
    }
    let uid = rustix::process::geteuid();
    if uid.is_root() {
        return Ok(PathBuf::from("/run/trimtab"));
    }
    // The system creates it and removes it when the user has logged out.
    let given = std::env::var_os("XDG_RUNTIME_DIR")
        .filter(|directory| !directory.is_empty())
        .map(PathBuf::from);
    let candidates =
        given.into_iter().chain([PathBuf::from(format!("/run/user/{}", uid.as_raw()))]);
    if let Some(found) = candidates
        .filter_map(|path| fs::canonicalize(path).ok())
        .find(|path| Dir::private(path).is_ok())
    {
        return Ok(found.join("trimtab"));
    }
    // Not in a world-writable directory: another user could create a predictable name
    // first.
    let state = std::env::var_os("XDG_STATE_HOME")
        .filter(|directory| !directory.is_empty())
        .map(PathBuf::from);
    let state = state.or_else(|| {
        std::env::var_os("HOME")
            .filter(|home| !home.is_empty())
            .map(|home| PathBuf::from(home).join(".local/state"))
    });
    let Some(state) = state else {
        bail!(
            "neither XDG_RUNTIME_DIR nor HOME names a directory of this user; set \
                {DIRECTORY_VARIABLE}"
        );
    };
    let state = fs::canonicalize(&state).unwrap_or(state);
    Ok(std::path::absolute(state)?.join("trimtab/run"))
}

/// `name`, or `name-2` and so on for later ones, truncated to the maximum length.
fn numbered(name: &str, n: u32) -> String {
    if n == 1 {
        return name.to_owned();
    }
    let suffix = format!("-{n}");
    let kept = name.len().min(IDENTIFIER_MAX - suffix.len());
    format!("{}{suffix}", &name[..kept])
}

/// Removes the remains of a dead server; with `force`, a used device on its last close.
pub fn remove_remains(entry: &RuntimeEntry, force: bool) -> anyhow::Result<()> {
    let record = match &entry.state {
        RuntimeState::Dead(record) => record.as_ref(),
        RuntimeState::Running(record) => Some(record),
        RuntimeState::Starting => None,
    };
    let served = record.and_then(ServerRecord::served);
    for device in served.map(loops::attached_to).unwrap_or_default() {
        let shown = device.path();
        let users = device.users();
        if !users.is_empty() && !force {
            bail!("{} is still {}", shown.display(), users.join(", "));
        }
        let served = served.expect("devices were found by it");
        match device
            .detach(served, force)
            .with_context(|| format!("cannot detach {}", shown.display()))?
        {
            DetachResult::InUse if !force => bail!("{} is still in use", shown.display()),
            DetachResult::Free | DetachResult::InUse | DetachResult::Foreign => {}
        }
    }
    if let Some(mark) = record.and_then(ServerRecord::mark) {
        ublk::remove_left(mark, force)?;
    }
    entry.home.unmount(served)?;
    if let Some(record) = record
        && let Some(socket) = &record.nbd
    {
        let made = record.nbd_socket.map(|(device, inode)| ObjectIdentity { device, inode });
        unix_socket::remove_left(socket, made)
            .with_context(|| format!("cannot remove the socket {}", socket.display()))?;
    }
    // Without a record, the contents are not known to be ours.
    let remove =
        if record.is_some() { RuntimeDirectory::remove } else { RuntimeDirectory::remove_empty };
    remove(&entry.home)
        .with_context(|| format!("cannot remove {}", entry.home.dir.path().display()))
}

/// This process, as a record identifies it.
pub fn own_process() -> (u32, u64, String) {
    let pid = std::process::id();
    (pid, started(pid).unwrap_or(0), boot_id())
}

/// The server that wrote the record is still running.
pub fn is_running(record: &ServerRecord) -> bool {
    record.boot_id == boot_id() && started(record.pid) == Some(record.pid_started)
}

/// As [`is_running`], but waits up to `patience` for it to end.
pub fn is_running_after(record: &ServerRecord, patience: Duration) -> bool {
    let end = Instant::now() + patience;
    while is_running(record) {
        if Instant::now() >= end {
            return true;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    false
}

/// A directory without a record that is recent enough to belong to a starting server.
fn is_young(dir: &Dir) -> bool {
    let modified = rustix::fs::fstat(dir).map_or(0, |stat| stat.st_mtime);
    let now = i64::try_from(trimtab_linux::sys::clock::unix_ms() / 1000).unwrap_or(0);
    now.saturating_sub(modified) < 30
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Private regardless of the umask.
    fn private_dir() -> tempfile::TempDir {
        use std::os::unix::fs::PermissionsExt as _;
        tempfile::Builder::new().permissions(fs::Permissions::from_mode(0o700)).tempdir().unwrap()
    }

    fn record(id: &str) -> ServerRecord {
        let (pid, pid_started, boot_id) = own_process();
        ServerRecord {
            id: id.into(),
            drive: "x".into(),
            size: 1,
            pid,
            pid_started,
            boot_id,
            transport: None,
            device: Some("/dev/loop99".into()),
            mark: None,
            served: None,
            nbd: None,
            nbd_socket: None,
            data: None,
            attached_unix_ms: 0,
        }
    }

    #[test]
    fn runtime_finds_by_id_or_device_and_cleans_dead() {
        let dir = private_dir();
        let runtime = Runtime::in_directory(Dir::private(dir.path()).unwrap()).unwrap();
        assert!(runtime.find(None).unwrap_err().is::<UsageError>());
        let (id, home) = runtime.claim(None, "x").unwrap();
        home.write_record(&record(&id)).unwrap();
        assert_eq!(runtime.find(None).unwrap().id, "x");
        assert_eq!(runtime.find(Some("/dev/loop99")).unwrap().id, "x");
        assert!(runtime.claim(Some("x"), "x").unwrap_err().is::<UsageError>());
        for id in ["../x", "", ".x", "-x", "a b", "X", "a\nb", "/dev/null", &"x".repeat(65)] {
            assert!(runtime.claim(Some(id), "x").unwrap_err().is::<UsageError>(), "{id:?}");
            assert!(runtime.claim(None, id).unwrap_err().is::<UsageError>(), "{id:?}");
        }

        let (id, home) = runtime.claim(None, "x").unwrap();
        assert_eq!(id, "x-2");
        home.write_record(&ServerRecord { pid_started: 1, ..record(&id) }).unwrap();
        assert!(runtime.find(None).unwrap_err().to_string().contains("x, x-2"));
        assert_eq!(runtime.clean_up().unwrap().len(), 1);
        assert_eq!(runtime.entries().unwrap().len(), 1, "the running one stays");
        assert_eq!(runtime.find(None).unwrap().id, "x");
    }

    #[test]
    fn clean_up_removes_only_recorded_directories() {
        use std::os::unix::fs::{PermissionsExt as _, symlink};
        let dir = private_dir();
        let outside = tempfile::tempdir().unwrap();
        let runtime = Runtime::in_directory(Dir::private(dir.path()).unwrap()).unwrap();
        let dead = |id: &str| ServerRecord { pid_started: 1, ..record(id) };
        for name in ["control", "log", "record.json"] {
            fs::write(outside.path().join(name), "precious").unwrap();
        }
        fs::create_dir(outside.path().join("mnt")).unwrap();
        symlink(outside.path(), dir.path().join("link")).unwrap();
        // Writable by others; with another drive's record; with a record that has a
        // second link.
        let (_, shared) = runtime.claim(Some("shared"), "x").unwrap();
        shared.write_record(&dead("shared")).unwrap();
        fs::set_permissions(dir.path().join("shared"), fs::Permissions::from_mode(0o777)).unwrap();
        let (_, copied) = runtime.claim(Some("copied"), "x").unwrap();
        copied.write_record(&dead("other")).unwrap();
        fs::write(dir.path().join("copied/photo"), "precious").unwrap();
        let long_ago = std::time::SystemTime::now() - Duration::from_secs(3600);
        File::open(dir.path().join("copied")).unwrap().set_modified(long_ago).unwrap();
        let (_, full) = runtime.claim(Some("full"), "x").unwrap();
        full.write_record(&dead("full")).unwrap();
        fs::write(dir.path().join("full/photo"), "precious").unwrap();
        let remarks = runtime.clean_up().unwrap().join("\n");
        for left in [
            "link",
            "shared",
            "shared/record.json",
            "copied/record.json",
            "copied/photo",
            "full/photo",
        ] {
            assert!(fs::symlink_metadata(dir.path().join(left)).is_ok(), "{left}: {remarks}");
        }
        for name in ["control", "log", "record.json", "mnt"] {
            assert!(outside.path().join(name).exists(), "{name}");
        }
        assert!(
            remarks.contains("cannot remove the remains of the crashed server of 'full'"),
            "{remarks}"
        );
    }

    #[test]
    fn numbered_names_stay_identifiers() {
        assert_eq!(numbered("x", 1), "x");
        assert_eq!(numbered("x", 12), "x-12");
        assert!(is_identifier(&numbered(&"x".repeat(64), u32::MAX)));
    }
}
