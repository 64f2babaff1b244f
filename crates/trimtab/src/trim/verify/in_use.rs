//! Whether space is in use: `FS_IOC_GETFSMAP` (ext4, XFS), and the extent tree of btrfs.

use super::extents::Extent;
use crate::host::mountinfo::Mount;
use crate::sys::fsmap;
use crate::trim::btrfs;
use rustix::fd::BorrowedFd;
use rustix::io::Errno;

/// Records asked for in one call.
const RECORDS: usize = 128;

/// Whether all of `extents` is free, as the filesystem has it at this moment; `None` if it does not say.
pub fn all_free(mount: &Mount, file: BorrowedFd<'_>, extents: &[Extent]) -> Option<bool> {
    for extent in extents {
        let free = match mount.fs_type.as_str() {
            "btrfs" => btrfs::is_used(file, extent.address, extent.len).map(|used| !used),
            _ => is_free(mount, file, extent),
        };
        if !free.ok()? {
            return Some(false);
        }
    }
    Some(true)
}

fn is_free(mount: &Mount, file: BorrowedFd<'_>, extent: &Extent) -> Result<bool, Errno> {
    let end = extent.address.saturating_add(extent.len);
    let mut at = extent.address;
    // Each call gets further, or it is the last.
    while at < end {
        let (found, next) = fsmap::extents::<RECORDS>(file, (mount.dev.major, mount.dev.minor), at, end)?;
        for found in found {
            // A gap is nothing that is known to be free.
            if !found.free || found.start > at {
                return Ok(false);
            }
            at = at.max(found.end());
        }
        match next {
            Some(next) if next == at => {}
            _ => break,
        }
    }
    Ok(at >= end)
}
