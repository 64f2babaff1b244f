//! Loop devices: attach, tune, list users, detach.

use crate::host::loops::LoopDevice;
use crate::sys::beneath::ObjectIdentity;
use crate::sys::looping;
use anyhow::Context as _;
use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

/// Devices below this number are never removed permanently (the kernel's
/// `BLK_DEV_LOOP_MIN_COUNT` is 8 by default).
const MADE_AT_BOOT: u32 = 8;
const NUMBER_MAX: u32 = 4096;
const ATTEMPTS: u32 = 64;
/// Time to wait for the users of a device before giving up the detach.
const PATIENCE: Duration = Duration::from_secs(2);
/// Errors returned when another process has taken or just removed a device.
const TAKEN_ERRORS: [i32; 3] = [libc::EBUSY, libc::ENXIO, libc::ENOENT];

impl LoopDevice {
    /// Attaches an open file that supports discards to an unused loop device, with this
    /// block size, direct I/O and a partition scan. `name` is the backing name shown by
    /// the kernel.
    pub fn attach(backing: &File, name: &Path, logical_block: u32) -> anyhow::Result<Self> {
        let control = open_control().context(
            "cannot open /dev/loop-control (is the loop driver there? try `modprobe loop`)",
        )?;
        let identity = ObjectIdentity::of(backing).context("cannot examine the served file")?;
        let mut last = io::Error::from_raw_os_error(libc::EBUSY);
        for _ in 0..ATTEMPTS {
            let this = Self::fresh(&control).context("no loop device is available")?;
            let configured = this
                .open(OFlags::empty())
                .and_then(|device| looping::configure(&device, backing, name, logical_block));
            match configured {
                Ok(()) if this.takes_discards() => return Ok(this),
                // Another process had the device open, so it kept its previous queue
                // limits.
                Ok(()) => {
                    last = io::Error::from_raw_os_error(libc::EOPNOTSUPP);
                    let _ = this.detach(identity, true);
                }
                Err(error)
                    if error.raw_os_error().is_some_and(|errno| TAKEN_ERRORS.contains(&errno)) =>
                {
                    last = error
                }
                Err(error) => {
                    return Err(error)
                        .with_context(|| format!("cannot configure {}", this.path().display()));
                }
            }
        }
        Err(last).context("another process took every loop device that was tried")
    }

    /// A device without a previous user, so that it has no leftover queue limits; if none
    /// can be added, a free one that has been reset.
    fn fresh(control: &File) -> io::Result<Self> {
        for number in 0..NUMBER_MAX {
            match looping::add(control, number) {
                Ok(()) if Self(number).path().exists() => return Ok(Self(number)),
                // The device exists but has no node: /dev is not a devtmpfs.
                Ok(()) => {
                    let _ = looping::remove(control, number);
                    break;
                }
                Err(error) if error.raw_os_error() == Some(libc::EEXIST) => {}
                Err(_) => break,
            }
        }
        let this = Self(looping::free(control)?);
        if !this.path().exists() {
            let number = this.0;
            return Err(io::Error::new(
                io::ErrorKind::NotFound,
                format!(
                    "/dev/loop{number} does not exist (try `mknod /dev/loop{number} b 7 {number}`)"
                ),
            ));
        }
        this.renew(true);
        Ok(this)
    }

    /// Opens the node, which must not be a link.
    fn open(self, more: OFlags) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC | more;
        Ok(File::from(rustix::fs::open(self.path(), flags, Mode::empty())?))
    }

    /// False if limits set for a previous user prevent discards. The driver takes its
    /// limits from the file, and this file supports discards.
    fn takes_discards(self) -> bool {
        std::fs::read_to_string(self.sysfs().join("queue/discard_max_bytes"))
            .map_or(true, |text| text.trim() != "0")
    }

    /// Resets the queue settings of this free device, which otherwise persist for the
    /// next user. A device that was once set to allow no discards accepts no other limit
    /// any more (observed on Linux 6.18). The device itself is kept only with `keep`.
    fn renew(self, keep: bool) {
        let Ok(control) = open_control() else { return };
        // Fails if another process has already taken the device, which then owns it.
        if looping::remove(&control, self.0).is_ok() && keep {
            let _ = looping::add(&control, self.0);
        }
    }

    /// Flushes the device's dirty data to the drive, if the device is backed by `ours`.
    pub fn sync(self, ours: ObjectIdentity) -> io::Result<()> {
        let device = self.open(OFlags::empty())?;
        if looping::backing(&device)?.is_some_and(|backing| backing.file == ours) {
            device.sync_all()
        } else {
            Ok(())
        }
    }

    /// Detaches the device if it is backed by `ours`, and returns once it is free. If
    /// another process has it open, nothing changes; with `force` it is detached on the
    /// last close.
    pub fn detach(self, ours: ObjectIdentity, force: bool) -> io::Result<DetachResult> {
        let end = Instant::now() + if force { Duration::ZERO } else { PATIENCE };
        loop {
            match self.try_detach(ours, force)? {
                // A process that scans all devices has it open for a moment.
                DetachResult::InUse if Instant::now() < end => {
                    std::thread::sleep(Duration::from_millis(20))
                }
                result => return Ok(result),
            }
        }
    }

    fn try_detach(self, ours: ObjectIdentity, force: bool) -> io::Result<DetachResult> {
        // An exclusive open fails on a device that is mounted, used as swap, or part of
        // another device, as far as that is visible here.
        let device = match self.open(if force { OFlags::empty() } else { OFlags::EXCL }) {
            Ok(device) => device,
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                return Ok(DetachResult::InUse);
            }
            // /dev may lack the node if it is not a devtmpfs.
            Err(error) if self.backing_file().is_some() => return Err(error),
            Err(error)
                if error.raw_os_error() == Some(libc::ENXIO)
                    || error.kind() == io::ErrorKind::NotFound =>
            {
                return Ok(DetachResult::Free);
            }
            Err(error) => return Err(error),
        };
        // From here on the backing file cannot change, because that requires no other
        // opener.
        match looping::backing(&device)? {
            None => return Ok(DetachResult::Free),
            Some(backing) if backing.file != ours => return Ok(DetachResult::Foreign),
            Some(_) => {}
        }
        match looping::clear(&device) {
            Err(error) if error.raw_os_error() != Some(libc::ENXIO) => return Err(error),
            _ => {}
        }
        if looping::backing(&device)?.is_some() && !force {
            looping::keep(&device)?;
            return Ok(DetachResult::InUse);
        }
        drop(device);
        let patience = Instant::now() + Duration::from_secs(5);
        while self.backing_file().is_some() {
            if Instant::now() > patience {
                return Ok(DetachResult::InUse);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        self.renew(self.0 < MADE_AT_BOOT);
        Ok(DetachResult::Free)
    }
}

/// Result of a detach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum DetachResult {
    /// The device is free.
    Free,
    /// In use. With `force` it becomes free on the last close; otherwise it stays
    /// attached.
    InUse,
    /// Now backed by another file, and left unchanged.
    Foreign,
}

fn open_control() -> io::Result<File> {
    Ok(File::from(rustix::fs::open(
        "/dev/loop-control",
        OFlags::RDWR | OFlags::CLOEXEC,
        Mode::empty(),
    )?))
}
