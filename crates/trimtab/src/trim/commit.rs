//! What has just been deleted, made free: a filesystem takes blocks for free only once the transaction that freed them is committed,
//! and a trim before that sends nothing of them and reports success.
//!
//! `syncfs` commits. XFS frees the blocks of deleted files in the background besides, which a sync does not wait for.

use rustix::fd::{AsFd, BorrowedFd};
use rustix::io::Errno;
use rustix::ioctl::{Opcode, Setter, ioctl, opcode};

/// `struct xfs_fs_eofblocks` (fs/xfs/libxfs/xfs_fs.h).
#[repr(C)]
struct EofBlocks {
    version: u32,
    flags: u32,
    uid: u32,
    gid: u32,
    prid: u32,
    pad: u32,
    min_file_size: u64,
    more: [u64; 12],
}

/// `XFS_IOC_FREE_EOFBLOCKS`: `_IOR('X', 58, struct xfs_fs_eofblocks)`; it writes nothing back.
const FREE_EOFBLOCKS: Opcode = opcode::read::<EofBlocks>(b'X', 58);
/// `XFS_EOFBLOCKS_VERSION`, `XFS_EOF_FLAGS_SYNC` and `XFS_EOF_FLAGS_MINFILESIZE`.
const VERSION: u32 = 1;
const SYNC: u32 = 1 << 0;
const MIN_FILE_SIZE: u32 = 1 << 4;

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
    let wanted = EofBlocks {
        version: VERSION,
        flags: SYNC | MIN_FILE_SIZE,
        uid: 0,
        gid: 0,
        prid: 0,
        pad: 0,
        min_file_size: u64::MAX,
        more: [0; 12],
    };
    // It is for root, as the trim is, and refused where nothing can be deleted (mounted read-only): then there is nothing to wait for.
    // SAFETY: the opcode takes a pointer to one `struct xfs_fs_eofblocks`, which `EofBlocks` is, and only reads it.
    let _ = unsafe { ioctl(file, Setter::<FREE_EOFBLOCKS, EofBlocks>::new(wanted)) };
}
