//! Filesystems that discard by themselves in the background are steered through their own knobs, not trimmed besides:
//! btrfs with `discard=async` may send as fast as it likes while the device is idle, and little while others use it.

use crate::host::block;
use crate::host::mountinfo::Mount;
use crate::host::root::Root;
use crate::trim::lock::{make_directory, run_directory};
use std::io;
use std::path::PathBuf;

/// How many discards a second while others use the device, as a share of what was set.
const BUSY_SHARE: u64 = 10;
/// btrfs: no limit.
const NO_LIMIT: u64 = 0;

/// The limit of discards a second of one filesystem. What was set is put back when this is dropped, or by the next start.
#[derive(Debug)]
pub struct IopsLimit {
    file: PathBuf,
    note: PathBuf,
    before: u64,
    now: u64,
}

impl IopsLimit {
    /// Of a btrfs that discards asynchronously; `None` for all others.
    #[must_use]
    pub fn of(root: &Root, mount: &Mount) -> Option<Self> {
        if mount.fs_type != "btrfs" || mount.option_value("discard") != Some("async") {
            return None;
        }
        let directory = block::btrfs_directory(root, &mount.source)?;
        let file = directory.join("discard/iops_limit");
        let note = run_directory().join(format!("iops-{}", directory.file_name()?.to_str()?));
        let now = root.read_u64(&file)?;
        // What an earlier process found, should it have ended without putting it back.
        let before = std::fs::read_to_string(&note).ok().and_then(|n| n.trim().parse().ok()).unwrap_or(now);
        Some(Self { file, note, before, now })
    }

    /// Sets it for a device that is idle, or is not.
    pub fn set(&mut self, idle: bool) -> io::Result<()> {
        let busy = if self.before == NO_LIMIT { 100 } else { (self.before / BUSY_SHARE).max(1) };
        self.write(if idle { NO_LIMIT } else { busy })
    }

    fn write(&mut self, wanted: u64) -> io::Result<()> {
        if wanted == self.now {
            return Ok(());
        }
        if !self.note.exists() {
            let _ = make_directory(&run_directory());
            std::fs::write(&self.note, self.before.to_string())?;
        }
        std::fs::write(&self.file, wanted.to_string())?;
        self.now = wanted;
        Ok(())
    }
}

impl Drop for IopsLimit {
    fn drop(&mut self) {
        // The filesystem may be gone; then there is nothing to put back.
        let _ = self.write(self.before);
        let _ = std::fs::remove_file(&self.note);
    }
}
