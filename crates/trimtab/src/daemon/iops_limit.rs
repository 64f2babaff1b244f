//! Controls filesystems that discard in the background through their own settings, instead of
//! trimming them: btrfs with `discard=async` discards at full rate while the device is idle,
//! and slowly while other I/O runs.

use std::io;
use std::path::PathBuf;
use trimtab_linux::host::block;
use trimtab_linux::host::mountinfo::Mount;
use trimtab_linux::host::root::Root;
use trimtab_linux::session::notes::{Change, Note, Notes};
use trimtab_linux::sys::beneath::set_attribute;

/// Divisor of the configured discard rate while other I/O runs.
const BUSY_SHARE: u64 = 10;
/// btrfs: no limit.
const NO_LIMIT: u64 = 0;

/// The limit of discards per second of one filesystem. Dropping it restores the original
/// value; after a crash, the next start does.
#[derive(Debug)]
pub struct IopsLimit {
    file: PathBuf,
    name: String,
    /// Set once the limit was changed.
    note: Option<Note>,
    before: u64,
    now: u64,
}

impl IopsLimit {
    /// For a btrfs that discards asynchronously; `None` for all others.
    pub fn of(root: &Root, mount: &Mount) -> Option<Self> {
        if mount.fs_type != "btrfs" || mount.option_value("discard") != Some("async") {
            return None;
        }
        let directory = block::btrfs_directory(root, &mount.source)?;
        let file = directory.join("discard/iops_limit");
        let name = format!("iops-{}", directory.file_name()?.to_str()?);
        let now = root.read_u64(&file)?;
        Some(Self { file, name, note: None, before: now, now })
    }

    /// Sets the limit for an idle or a busy device.
    pub fn set(&mut self, idle: bool) -> io::Result<()> {
        let busy = if self.before == NO_LIMIT { 100 } else { (self.before / BUSY_SHARE).max(1) };
        self.write(if idle { NO_LIMIT } else { busy })
    }

    fn write(&mut self, wanted: u64) -> io::Result<()> {
        if wanted == self.now {
            return Ok(());
        }
        let set = vec![self.now.to_string(), wanted.to_string()];
        let change = Change::Attribute { file: self.file.clone(), before: self.before.to_string(), set };
        match &mut self.note {
            Some(note) => note.say(change)?,
            None => self.note = Some(Notes::here().leave(&self.name, change)?),
        }
        set_attribute(&self.file, &wanted.to_string())?;
        self.now = wanted;
        Ok(())
    }
}

impl Drop for IopsLimit {
    fn drop(&mut self) {
        // An unmounted filesystem has nothing to restore. The note of a failed restore stays.
        if let Some(note) = self.note.take() {
            let _ = note.put_back();
        }
    }
}
