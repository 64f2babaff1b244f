//! Exclusive claims on block devices that are to be taken away, and devices that a dead server left.

use crate::ublk;
use anyhow::Context as _;
use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::time::{Duration, Instant};
use trimtab_linux::host::disk::Disk;

/// How long a user of a device that is to be detached is waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// Block devices that a dead server left, recognised by its mark.
pub struct Left(ublk::Left);

impl Left {
    /// Those with this mark.
    pub fn find(mark: u64) -> anyhow::Result<Self> {
        Ok(Self(ublk::Left::find(mark).context("cannot see what is left of the ublk device")?))
    }

    /// Those that are still there.
    pub fn disks(&self) -> Vec<Disk> {
        self.0.disks()
    }

    /// Takes them away: who uses one gets errors then. Without `force` nobody may.
    pub fn take_away(self, force: bool) -> anyhow::Result<()> {
        let disks = self.disks();
        let mut claims = Vec::new();
        for disk in disks.iter().filter(|_| !force) {
            let (shown, users) = (disk.path(), disk.users());
            anyhow::ensure!(users.is_empty(), "{} is still {}", shown.display(), users.join(", "));
            match Claim::take(disk).with_context(|| format!("cannot open {}", shown.display()))? {
                Claim::InUse => anyhow::bail!("{} is still in use", shown.display()),
                claim => claims.push(claim),
            }
        }
        self.0.take_away().context("cannot take the ublk device away")?;
        drop(claims);
        disks.iter().filter(|_| !force).for_each(wait_for_end);
        Ok(())
    }
}

/// A block device that nobody else may begin to use.
pub enum Claim {
    /// What is mounted, swap, or part of something, wherever that can be seen, cannot be opened like that.
    Alone(File),
    /// There is none any more.
    Gone,
    /// Somebody uses it.
    InUse,
}

impl Claim {
    /// Of the disk; who looks at all devices of the machine and so has it open for a moment is waited for.
    pub fn take(disk: &Disk) -> io::Result<Self> {
        let end = Instant::now() + PATIENCE;
        loop {
            let opened = File::options().read(true).write(true).custom_flags(libc::O_NOFOLLOW | libc::O_EXCL).open(disk.path());
            return match opened {
                Ok(device) => Ok(Self::Alone(device)),
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) && Instant::now() < end => {
                    std::thread::sleep(Duration::from_millis(20));
                    continue;
                }
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) => Ok(Self::InUse),
                Err(error) if error.raw_os_error() == Some(libc::ENXIO) || !disk.sysfs().exists() => Ok(Self::Gone),
                Err(error) => Err(error),
            };
        }
    }
}

/// Waits until a device that was taken away is gone, which is when nobody has it open any more.
pub fn wait_for_end(disk: &Disk) {
    let end = Instant::now() + PATIENCE;
    while disk.sysfs().exists() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(5));
    }
}
