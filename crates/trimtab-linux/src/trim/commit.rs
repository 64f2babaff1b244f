//! What has just been deleted, made free: a filesystem takes blocks for free only once the transaction that freed them is committed,
//! and a trim before that sends nothing of them and reports success.
//!
//! `syncfs` commits. XFS frees the blocks of deleted files in the background besides, which a sync does not wait for.

use crate::sys;
use rustix::fd::{AsFd, BorrowedFd};
use rustix::io::Errno;

/// Makes free what has been deleted until now. Writes out everything that is pending on the filesystem.
pub fn commit(file: impl AsFd, fs_type: &str) -> Result<(), Errno> {
    let file = file.as_fd();
    if fs_type == "xfs" {
        finish_deletions(file);
    }
    rustix::fs::syncfs(file)
}

/// Waits until XFS has freed the blocks of the files that were deleted (since Linux 5.14 it does so in the background). The one request that
/// waits for it is for space that files hold behind their ends; none is so large as is asked for, so no file is touched.
fn finish_deletions(file: BorrowedFd<'_>) {
    // It is for root, as the trim is, and refused where nothing can be deleted (mounted read-only): then there is nothing to wait for.
    let _ = sys::filesystem::xfs_free_behind_ends(file, u64::MAX);
}
