//! What everybody may know of a mount option that is changed for a while: which filesystem's, from what to what, by which process. The note itself
//! nobody else can open; who may not see it finds this.
//!
//! ```text
//!     /run/trimtab/changed/NAME.json       for all to read; gone with the note
//! ```
//!
//! No path is in it: where the filesystem is mounted says the reader's own mount table.

use super::mounted::Reach;
use super::{Change, SUFFIX};
use crate::host::mountinfo::{self, DevNumber, Mount};
use crate::host::processes::{exists, started};
use crate::host::root::Root;
use crate::session::discard_option::Discard;
use crate::sys::beneath::Dir;
use rustix::fs::Mode;
use serde::{Deserialize, Serialize};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

/// All may look into the directory …
const DIRECTORY: u32 = 0o755;
/// … and read what is in it.
const FILE: u32 = 0o644;
/// All may look into the machine's own directory for such things, as into any other below /run; what is in it has modes of its own.
const PASSAGE: u32 = 0o755;
const SUFFIX_TOLD: &str = ".json";
/// No file of ours is longer.
const BYTES_MAX: u64 = 4096;

/// What is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Told {
    /// Major and minor number.
    device: (u32, u32),
    before: String,
    set: String,
    pid: u32,
    /// When that process began, in clock ticks after boot.
    started: u64,
}

/// A mount option that somebody has changed, as others may know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToldChange {
    /// The process that did is at work.
    pub alive: bool,
    /// In words.
    pub text: String,
}

fn directory(run_directory: &Path) -> PathBuf {
    run_directory.join("changed")
}

/// Tells of a change that the note `name` says. What cannot be told does not stop anybody.
pub(super) fn tell(run_directory: &Path, name: &str, change: &Change) {
    let Change::MountOption(option) = change else { return };
    let ((before, set), pid, device) = (option.values(), std::process::id(), option.device());
    let device = (device.major, device.minor);
    let told = Told { device, before: before.to_owned(), set: set.to_owned(), pid, started: started(pid).unwrap_or(0) };
    let write = || {
        let dir = Dir::guarded(&directory(run_directory), true)?;
        rustix::fs::fchmod(&dir, Mode::from_raw_mode(DIRECTORY))?;
        if run_directory == Path::new("/run/trimtab") {
            let own = Dir::guarded(run_directory, false)?;
            let mode = rustix::fs::fstat(&own)?.st_mode & 0o7777;
            rustix::fs::fchmod(&own, Mode::from_raw_mode(mode | PASSAGE))?;
        }
        let text = serde_json::to_vec(&told).map_err(io::Error::other)?;
        dir.write_atomically(told_name(name), FILE, |file| file.write_all(&text))
    };
    let _: io::Result<()> = write();
}

fn told_name(note: &str) -> String {
    format!("{}{SUFFIX_TOLD}", note.trim_end_matches(SUFFIX))
}

/// Takes away what was told of a note.
pub(super) fn untell(run_directory: &Path, name: &str) {
    let remove = || Dir::guarded(&directory(run_directory), false)?.remove_ours(told_name(name));
    let _: io::Result<()> = remove();
}

/// Takes away what is told of notes that are not there any more.
pub(super) fn sweep(run_directory: &Path, notes: &[String]) {
    let Ok(dir) = Dir::guarded(&directory(run_directory), false) else { return };
    for name in dir.names().unwrap_or_default() {
        if let Some(told) = name.to_str().filter(|told| !notes.iter().any(|note| told_name(note) == **told)) {
            let _ = dir.remove_ours(told);
        }
    }
}

/// What is told of mounts within `reach`, for who may not see the notes. What is not changed any more is left out.
pub(super) fn read(run_directory: &Path, reach: &Reach) -> io::Result<Vec<ToldChange>> {
    let dir = match Dir::guarded(&directory(run_directory), false) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        // Where nobody may look nothing has been told.
        Err(error) if error.raw_os_error() == Some(libc::EACCES) => return Ok(Vec::new()),
        dir => dir?,
    };
    let mounts = mountinfo::read(&Root::live()?)?;
    let mut all = Vec::new();
    for name in dir.names()? {
        let Ok(file) = dir.open_read(&name) else { continue };
        let mut text = String::new();
        if Dir::is_trusted_file(&file)? && file.take(BYTES_MAX).read_to_string(&mut text).is_ok() {
            all.extend(serde_json::from_str::<Told>(&text).ok().and_then(|told| told.in_words(&mounts, reach)));
        }
    }
    Ok(all)
}

impl Told {
    fn in_words(&self, mounts: &[Mount], reach: &Reach) -> Option<ToldChange> {
        let device = DevNumber { major: self.device.0, minor: self.device.1 };
        let mount = mounts.iter().find(|mount| mount.dev == device && Discard::of(mount).to_string() == self.set)?;
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
            // Processes of others are hidden here.
            format!("{was}process {pid} of trimtab changed it; unless that is at work, {remedy}")
        };
        Some(ToldChange { alive, text })
    }
}
