//! The front end below the kernel's loop driver: one file, served over FUSE.
//!
//! The file is opened for direct I/O, so nothing is cached between the loop device and
//! the engine: a flush of the device reaches the drive after everything before it, and
//! the drive sees exactly the requests of the block layer.

mod file;

use crate::pace::Pacer;
use crate::request::RequestServer;
use file::SingleFileFilesystem;
use fuser::{Config, MountOption};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// The kernel's default limit for a FUSE request (`fs.fuse.max_pages_limit`, 256 pages).
pub const MAX_REQUEST_BYTES: u32 = 1 << 20;

/// A mounted filesystem. Dropping this value does not unmount it.
pub struct FuseSession(fuser::BackgroundSession);

impl FuseSession {
    /// The filesystem is unmounted and no process has it open.
    pub fn is_finished(&self) -> bool {
        self.0.guard.is_finished()
    }
}

/// Mounts a filesystem with the single file `name`, backed by `drive`, on `mountpoint`,
/// and serves it until it is unmounted.
pub fn mount(
    drive: Arc<dyn RequestServer>,
    pacer: &Arc<Pacer>,
    name: &str,
    mountpoint: &Path,
) -> io::Result<FuseSession> {
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName("trimtab".into()),
        MountOption::Subtype("trimtab".into()),
        MountOption::NoSuid,
        MountOption::NoDev,
        MountOption::NoExec,
        MountOption::NoAtime,
    ];
    config.n_threads =
        Some(std::thread::available_parallelism().map_or(2, |n| n.get().clamp(2, 8)));
    config.clone_fd = true;
    let file = SingleFileFilesystem::new(drive, Arc::clone(pacer), name);
    Ok(FuseSession(fuser::Session::new(file, mountpoint, &config)?.spawn()?))
}
