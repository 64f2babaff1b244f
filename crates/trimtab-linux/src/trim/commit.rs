//! Commits deletions before a trim: a filesystem frees blocks only when the transaction that
//! deleted them is committed. Until then a trim skips them and still reports success.
//!
//! `syncfs` commits. XFS additionally frees the blocks of deleted files in the background,
//! and a sync does not wait for that.

use crate::sys;
use rustix::fd::{AsFd, BorrowedFd};
use rustix::io::Errno;

/// Frees the blocks of all files deleted so far. Writes out all pending data.
pub fn commit(file: impl AsFd, fs_type: &str) -> Result<(), Errno> {
    let file = file.as_fd();
    if fs_type == "xfs" {
        finish_deletions(file);
    }
    rustix::fs::syncfs(file)
}

/// Waits until XFS has freed the blocks of deleted files (in the background since Linux
/// 5.14). The only request that waits for this is the one that frees preallocated space
/// beyond the end of files; its size threshold is set so high that no file is changed.
fn finish_deletions(file: BorrowedFd<'_>) {
    // Requires root, like the trim. Fails on a read-only mount, which needs no wait.
    let _ = sys::filesystem::xfs_free_behind_ends(file, u64::MAX);
}
