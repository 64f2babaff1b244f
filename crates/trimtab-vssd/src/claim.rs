//! Exclusive claims on block devices before their removal.

use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::time::{Duration, Instant};
use trimtab_linux::host::disk::Disk;

/// Time to wait for the users of a device that is to be detached.
const PATIENCE: Duration = Duration::from_secs(2);

/// The result of claiming a block device exclusively.
pub enum Claim {
    /// Claimed. Fails if mounted, swap, or part of another device, as far as visible
    /// here.
    Alone(File),
    /// The device does not exist any more.
    Gone,
    /// The device is in use.
    InUse,
}

impl Claim {
    /// Claims the disk. Waits for processes that scan all devices and have it open
    /// briefly.
    pub fn take(disk: &Disk) -> io::Result<Self> {
        let end = Instant::now() + PATIENCE;
        loop {
            let opened = File::options()
                .read(true)
                .write(true)
                .custom_flags(libc::O_NOFOLLOW | libc::O_EXCL)
                .open(disk.path());
            return match opened {
                Ok(device) => Ok(Self::Alone(device)),
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) && Instant::now() < end => {
                    std::thread::sleep(Duration::from_millis(20));
                    continue;
                }
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) => Ok(Self::InUse),
                Err(error)
                    if error.raw_os_error() == Some(libc::ENXIO) || !disk.sysfs().exists() =>
                {
                    Ok(Self::Gone)
                }
                Err(error) => Err(error),
            };
        }
    }
}

/// Waits until a removed device is gone, which is after its last close.
pub fn wait_for_end(disk: &Disk) {
    let end = Instant::now() + PATIENCE;
    while disk.sysfs().exists() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(5));
    }
}
