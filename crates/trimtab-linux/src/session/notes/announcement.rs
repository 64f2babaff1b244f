//! Public announcements of temporarily changed mount options: the filesystem, the old and the
//! new option, and the process. Other users cannot read the note itself.
//!
//! ```text
//!     /run/trimtab/changed/NAME.json       readable by all users; removed with the note
//! ```
//!
//! The announcement contains no path: each reader's own mount table shows where the
//! filesystem is mounted.

use super::mounted::MountScope;
use super::{Change, SUFFIX};
use crate::host::mountinfo::{self, DevNumber, Mount};
use crate::host::processes::{exists, started};
use crate::host::root::Root;
use crate::session::discard_option::DiscardOption;
use crate::sys::beneath::Dir;
use rustix::fs::Mode;
use serde::{Deserialize, Serialize};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

/// Mode of the directory: all users may list it.
const DIRECTORY: u32 = 0o755;
/// Mode of the announcements: all users may read them.
const FILE: u32 = 0o644;
/// Mode bits added to `/run/trimtab`: all users may enter it, as usual below /run. Its
/// entries have modes of their own.
const PASSAGE: u32 = 0o755;
const SUFFIX_ANNOUNCED: &str = ".json";
/// Maximum size of an announcement.
const BYTES_MAX: u64 = 4096;

/// The content of the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Announcement {
    /// Major and minor device number.
    device: (u32, u32),
    before: String,
    set: String,
    pid: u32,
    /// Start time of that process, in clock ticks since boot.
    started: u64,
}

/// An announced change of a mount option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnnouncedChange {
    /// True if the process that made the change is still running.
    pub alive: bool,
    /// Description for the user.
    pub text: String,
}

fn directory(run_directory: &Path) -> PathBuf {
    run_directory.join("changed")
}

/// Announces the change of the note `name`. Ignores failure.
pub(super) fn announce(run_directory: &Path, name: &str, change: &Change) {
    let Change::MountOption(option) = change else { return };
    let ((before, set), pid, device) = (option.values(), std::process::id(), option.device());
    let device = (device.major, device.minor);
    let announcement = Announcement { device, before: before.to_owned(), set: set.to_owned(), pid, started: started(pid).unwrap_or(0) };
    let write = || {
        let dir = Dir::guarded(&directory(run_directory), true)?;
        rustix::fs::fchmod(&dir, Mode::from_raw_mode(DIRECTORY))?;
        if run_directory == Path::new("/run/trimtab") {
            let own = Dir::guarded(run_directory, false)?;
            let mode = rustix::fs::fstat(&own)?.st_mode & 0o7777;
            rustix::fs::fchmod(&own, Mode::from_raw_mode(mode | PASSAGE))?;
        }
        let text = serde_json::to_vec(&announcement).map_err(io::Error::other)?;
        dir.write_atomically(file_name(name), FILE, |file| file.write_all(&text))
    };
    let _: io::Result<()> = write();
}

fn file_name(note: &str) -> String {
    format!("{}{SUFFIX_ANNOUNCED}", note.trim_end_matches(SUFFIX))
}

/// Removes the announcement of a note.
pub(super) fn withdraw(run_directory: &Path, name: &str) {
    let remove = || Dir::guarded(&directory(run_directory), false)?.remove_ours(file_name(name));
    let _: io::Result<()> = remove();
}

/// Removes announcements whose notes are gone.
pub(super) fn sweep(run_directory: &Path, notes: &[String]) {
    let Ok(dir) = Dir::guarded(&directory(run_directory), false) else { return };
    for name in dir.names().unwrap_or_default() {
        if let Some(left) = name.to_str().filter(|file| !notes.iter().any(|note| file_name(note) == **file)) {
            let _ = dir.remove_ours(left);
        }
    }
}

/// Returns the announcements of mounts within `reach`, except those of options that have
/// changed since.
pub(super) fn read(run_directory: &Path, reach: &MountScope) -> io::Result<Vec<AnnouncedChange>> {
    let dir = match Dir::guarded(&directory(run_directory), false) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        // A directory without read access counts as empty.
        Err(error) if error.raw_os_error() == Some(libc::EACCES) => return Ok(Vec::new()),
        dir => dir?,
    };
    let mounts = mountinfo::read(&Root::live()?)?;
    let mut all = Vec::new();
    for name in dir.names()? {
        let Ok(file) = dir.open_read(&name) else { continue };
        let mut text = String::new();
        if Dir::is_trusted_file(&file)? && file.take(BYTES_MAX).read_to_string(&mut text).is_ok() {
            all.extend(serde_json::from_str::<Announcement>(&text).ok().and_then(|announcement| announcement.in_words(&mounts, reach)));
        }
    }
    Ok(all)
}

impl Announcement {
    fn in_words(&self, mounts: &[Mount], reach: &MountScope) -> Option<AnnouncedChange> {
        let device = DevNumber { major: self.device.0, minor: self.device.1 };
        let mount = mounts.iter().find(|mount| mount.dev == device && DiscardOption::of(mount).to_string() == self.set)?;
        if !reach.includes(device) {
            return None;
        }
        let Self { before, set, pid, started: began, .. } = self;
        let alive = started(*pid) == Some(*began);
        let was = format!("the discard option of {} is {set} and was {before} before ", mount.mount_point.display());
        let remedy = format!("'trimtab doctor {}' as root puts it back", mount.mount_point.display());
        let text = if alive {
            format!("{was}process {pid} of trimtab changed it for a while: it is put back when that ends")
        } else if exists(1) {
            format!("{was}a process changed it that was killed; {remedy}")
        } else {
            // /proc hides the processes of other users.
            format!("{was}process {pid} of trimtab changed it; unless that is at work, {remedy}")
        };
        Some(AnnouncedChange { alive, text })
    }
}
