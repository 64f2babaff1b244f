//! Where attached drives are found: one directory each, with a record, a control socket and the mount point.
//!
//! ```text
//!     /run/trimtab/drives/ID/          for root; $XDG_RUNTIME_DIR/trimtab/drives/ID/ for others
//!         record.json                  who serves what, since when
//!         control                      the server's socket
//!         mnt/NAME                     the file behind the loop device
//!         log                          what the server said after it went to the background
//! ```
//!
//! A record whose process is gone was left by a crash: the next start finds it and takes everything of it away.

use crate::error::UsageError;
use crate::serve::loopdev::{self, LoopDevice};
use anyhow::Context as _;
use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Overrides the directory; for tests and for several independent sets of drives.
const DIRECTORY_VARIABLE: &str = "TRIMTAB_RUNTIME_DIR";

/// Who serves what, since when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// How the user names it.
    pub id: String,
    /// Name of the drive's specification.
    pub drive: String,
    /// Bytes.
    pub size: u64,
    /// The server.
    pub pid: u32,
    /// When that process began, in clock ticks after boot: tells it from a later one of the same number.
    pub pid_started: u64,
    /// The boot it belongs to.
    pub boot_id: String,
    /// The block device, once there is one.
    pub device: Option<PathBuf>,
    /// The NBD socket, if there is one.
    pub nbd: Option<PathBuf>,
    /// The data file, if there is one.
    pub data: Option<PathBuf>,
    /// Milliseconds since 1970 UTC.
    pub attached_unix_ms: u64,
}

/// The directory of one attached drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home(PathBuf);

impl Home {
    /// The record's file.
    pub fn record_path(&self) -> PathBuf {
        self.0.join("record.json")
    }

    /// The control socket.
    pub fn control(&self) -> PathBuf {
        self.0.join("control")
    }

    /// The mount point of the file behind the loop device.
    pub fn mount_point(&self) -> PathBuf {
        self.0.join("mnt")
    }

    /// The server's log.
    pub fn log(&self) -> PathBuf {
        self.0.join("log")
    }

    /// Writes the record, atomically.
    pub fn write_record(&self, record: &Record) -> anyhow::Result<()> {
        let path = self.record_path();
        let new = self.0.join("record.json.new");
        fs::write(&new, serde_json::to_vec_pretty(record)?)
            .and_then(|()| fs::rename(&new, &path))
            .with_context(|| format!("cannot write {}", path.display()))
    }

    /// Reads the record; `None` if there is none (yet), or it is no record.
    pub fn record(&self) -> Option<Record> {
        serde_json::from_slice(&fs::read(self.record_path()).ok()?).ok()
    }

    /// Takes the directory away. The mount point must be unmounted.
    pub fn remove(&self) -> io::Result<()> {
        // Not `remove_dir_all`: should the mount still be there, nothing beneath it may be touched.
        for file in ["record.json", "record.json.new", "control", "log"] {
            ignore_absence(fs::remove_file(self.0.join(file)))?;
        }
        ignore_absence(fs::remove_dir(self.mount_point()))?;
        ignore_absence(fs::remove_dir(&self.0))
    }

    /// Unmounts the mount point, even if it is busy or dead; fine if nothing is mounted.
    pub fn unmount(&self) -> io::Result<()> {
        match rustix::mount::unmount(self.mount_point(), UnmountFlags::DETACH) {
            Ok(()) | Err(Errno::INVAL | Errno::NOENT) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    fn loop_devices(&self) -> Vec<LoopDevice> {
        loopdev::attached_below(&self.mount_point())
    }
}

/// What was found in a directory.
#[derive(Clone, Debug)]
pub enum State {
    /// Its server runs.
    Running(Record),
    /// Its server is being started: the directory is young and has no record yet.
    Starting,
    /// Its server is gone; the record is what it left, if it got so far.
    Dead(Option<Record>),
}

/// One attached drive, or what is left of one.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its id: the name of the directory.
    pub id: String,
    /// Its directory.
    pub home: Home,
    /// Whether anybody serves it.
    pub state: State,
}

/// Makes and finds directories of attached drives.
#[derive(Clone, Debug)]
pub struct Runtime {
    directory: PathBuf,
}

impl Runtime {
    /// The directory for this user; made when it is first needed.
    pub fn open() -> anyhow::Result<Self> {
        let uid = rustix::process::geteuid();
        let base = if let Some(directory) = std::env::var_os(DIRECTORY_VARIABLE) {
            PathBuf::from(directory)
        } else if uid.is_root() {
            PathBuf::from("/run/trimtab")
        } else if let Some(directory) = std::env::var_os("XDG_RUNTIME_DIR") {
            PathBuf::from(directory).join("trimtab")
        } else {
            std::env::temp_dir().join(format!("trimtab-{}", uid.as_raw()))
        };
        let directory = std::path::absolute(base.join("drives"))?;
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o755)
            .create(&directory)
            .with_context(|| format!("cannot make the runtime directory {}", directory.display()))?;
        let owner = fs::metadata(&directory)?.uid();
        // Somebody else's directory in /tmp could hold links to anywhere.
        anyhow::ensure!(owner == uid.as_raw(), "the runtime directory {} belongs to another user (uid {owner})", directory.display());
        Ok(Self { directory })
    }

    /// Every drive, attached or left over, by id.
    pub fn entries(&self) -> anyhow::Result<Vec<Entry>> {
        let mut found = Vec::new();
        let listing = fs::read_dir(&self.directory).with_context(|| format!("cannot list {}", self.directory.display()))?;
        for item in listing {
            let item = item?;
            let Ok(id) = item.file_name().into_string() else { continue };
            let home = Home(item.path());
            let state = match home.record() {
                Some(record) if is_running(&record) => State::Running(record),
                Some(record) => State::Dead(Some(record)),
                None if is_young(&item.path()) => State::Starting,
                None => State::Dead(None),
            };
            found.push(Entry { id, home, state });
        }
        found.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(found)
    }

    /// The drives whose server runs.
    pub fn running(&self) -> anyhow::Result<Vec<(Home, Record)>> {
        let running = |entry: Entry| match entry.state {
            State::Running(record) => Some((entry.home, record)),
            State::Starting | State::Dead(_) => None,
        };
        Ok(self.entries()?.into_iter().filter_map(running).collect())
    }

    /// The entry that the user means by `wanted` (an id or a device), or the only one there is.
    pub fn find(&self, wanted: Option<&str>) -> anyhow::Result<Entry> {
        let mut entries = self.entries()?;
        let ids = entries.iter().map(|entry| entry.id.clone()).collect::<Vec<_>>().join(", ");
        let Some(wanted) = wanted else {
            return match entries.len() {
                1 => Ok(entries.remove(0)),
                0 => Err(UsageError::new("no drive is attached").hint("attach one with 'trimtab drive attach NAME'").into()),
                _ => Err(UsageError::new("several drives are attached").hint(format!("say which: {ids}")).into()),
            };
        };
        let is_it = |entry: &Entry| {
            let device = match &entry.state {
                State::Running(record) | State::Dead(Some(record)) => record.device.as_deref(),
                State::Starting | State::Dead(None) => None,
            };
            entry.id == wanted || device == Some(Path::new(wanted))
        };
        match entries.iter().position(is_it) {
            Some(index) => Ok(entries.remove(index)),
            None if ids.is_empty() => Err(UsageError::new(format!("no drive '{wanted}' is attached; none is")).into()),
            None => Err(UsageError::new(format!("no drive '{wanted}' is attached")).hint(format!("there is {ids}")).into()),
        }
    }

    /// Makes the directory of a new drive. `id` as the user wants it, else made from the drive's name.
    pub fn claim(&self, id: Option<&str>, drive: &str) -> anyhow::Result<(String, Home)> {
        if let Some(id) = id {
            if id.is_empty() || id.starts_with('.') || !id.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b)) {
                return Err(UsageError::new(format!("'{id}' is no id")).hint("use letters, digits, '-', '_' and '.'").into());
            }
            return match self.make(id)? {
                Some(home) => Ok((id.to_owned(), home)),
                None => Err(UsageError::new(format!("a drive '{id}' is attached already")).hint("choose another --id").into()),
            };
        }
        for n in 1_u32.. {
            let id = if n == 1 { drive.to_owned() } else { format!("{drive}-{n}") };
            if let Some(home) = self.make(&id)? {
                return Ok((id, home));
            }
        }
        unreachable!("fewer drives than numbers")
    }

    /// `None` if there is one of that name.
    fn make(&self, id: &str) -> anyhow::Result<Option<Home>> {
        let path = self.directory.join(id);
        match fs::DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(None),
            Err(error) => return Err(error).with_context(|| format!("cannot make {}", path.display())),
        }
        let home = Home(path);
        let mount_point = home.mount_point();
        rustix::fs::mkdir(&mount_point, Mode::RWXU).with_context(|| format!("cannot make {}", mount_point.display()))?;
        Ok(Some(home))
    }

    /// Takes away what crashed servers left; says what it did and what it could not do.
    pub fn clean_up(&self) -> anyhow::Result<Vec<String>> {
        let mut remarks = Vec::new();
        for entry in self.entries()? {
            if let State::Dead(_) = entry.state {
                remarks.push(match remove_remains(&entry, false) {
                    Ok(()) => format!("removed what the crashed server of '{}' had left", entry.id),
                    Err(error) => format!("the crashed server of '{}' left what cannot be removed: {error:#}", entry.id),
                });
            }
        }
        Ok(remarks)
    }
}

/// Takes away what a dead server left. With `force`, a device in use is taken away once its last user lets go of it.
pub fn remove_remains(entry: &Entry, force: bool) -> anyhow::Result<()> {
    for device in entry.home.loop_devices() {
        let users = device.users();
        if !users.is_empty() && !force {
            anyhow::bail!("{} is still {}", device.path().display(), users.join(", "));
        }
        device.detach().with_context(|| format!("cannot detach {}", device.path().display()))?;
    }
    entry.home.unmount().with_context(|| format!("cannot unmount {}", entry.home.mount_point().display()))?;
    entry.home.remove().with_context(|| format!("cannot remove {}", entry.home.0.display()))
}

/// This process, as a record names it.
pub fn own_process() -> (u32, u64, String) {
    let pid = std::process::id();
    (pid, started(pid).unwrap_or(0), boot_id())
}

/// True if the server that wrote the record still runs.
pub fn is_running(record: &Record) -> bool {
    record.boot_id == boot_id() && started(record.pid) == Some(record.pid_started)
}

/// As [`is_running`], but waits that long for it to end.
pub fn is_running_after(record: &Record, patience: Duration) -> bool {
    let end = Instant::now() + patience;
    while is_running(record) {
        if Instant::now() >= end {
            return true;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    false
}

/// When a process began, in clock ticks after boot (field 22 of its `stat`); `None` if it is gone or a zombie.
fn started(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field, the name in parentheses, may hold spaces and parentheses itself.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    if state == "Z" { None } else { fields.nth(18)?.parse().ok() }
}

fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

/// A directory without a record belongs to a server that is being started, unless that was a while ago.
fn is_young(path: &Path) -> bool {
    let age = fs::metadata(path).and_then(|metadata| metadata.modified()).ok().and_then(|modified| modified.elapsed().ok());
    age.is_some_and(|age| age.as_secs() < 30)
}

fn ignore_absence(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(id: &str) -> Record {
        let (pid, pid_started, boot_id) = own_process();
        Record {
            id: id.into(),
            drive: "x".into(),
            size: 1,
            pid,
            pid_started,
            boot_id,
            device: Some("/dev/loop99".into()),
            nbd: None,
            data: None,
            attached_unix_ms: 0,
        }
    }

    #[test]
    fn drives_are_found_by_id_or_device_and_dead_ones_are_cleaned_up() {
        let dir = tempfile::tempdir().unwrap();
        let runtime = Runtime { directory: dir.path().into() };
        assert!(runtime.find(None).unwrap_err().is::<UsageError>());
        let (id, home) = runtime.claim(None, "x").unwrap();
        home.write_record(&record(&id)).unwrap();
        assert_eq!(runtime.find(None).unwrap().id, "x");
        assert_eq!(runtime.find(Some("/dev/loop99")).unwrap().id, "x");
        assert!(runtime.claim(Some("x"), "x").unwrap_err().is::<UsageError>());
        assert!(runtime.claim(Some("../x"), "x").unwrap_err().is::<UsageError>());

        let (id, home) = runtime.claim(None, "x").unwrap();
        assert_eq!(id, "x-2");
        home.write_record(&Record { pid_started: 1, ..record(&id) }).unwrap();
        assert!(runtime.find(None).unwrap_err().to_string().contains("x, x-2"));
        assert_eq!(runtime.clean_up().unwrap().len(), 1);
        assert_eq!(runtime.running().unwrap().len(), 1, "the living one stays");
        assert_eq!(runtime.find(None).unwrap().id, "x");
    }
}
