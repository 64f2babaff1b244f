//! Loop devices: attach, tune, see who uses one, detach.

use crate::host::loops::LoopDevice;
use crate::sys::beneath::Identity;
use crate::sys::looping;
use anyhow::Context as _;
use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

/// Devices below this number are never taken away for good (the kernel's `BLK_DEV_LOOP_MIN_COUNT` is 8 unless changed).
const MADE_AT_BOOT: u32 = 8;
/// No device beyond this number is tried.
const NUMBER_MAX: u32 = 4096;
/// How often another device is tried if somebody else was faster.
const ATTEMPTS: u32 = 64;
/// How long a user of a device that is to be detached is waited for.
const PATIENCE: Duration = Duration::from_secs(2);
/// What it looks like when somebody else has taken a device, or has just had it removed.
const TAKEN: [i32; 3] = [libc::EBUSY, libc::ENXIO, libc::ENOENT];

impl LoopDevice {
    /// Attaches the open file, which takes discards, to a loop device of its own with this logical block size, unbuffered, scanning for
    /// partitions. `name` is what the kernel will call it.
    pub fn attach(backing: &File, name: &Path, logical_block: u32) -> anyhow::Result<Self> {
        let control = open_control().context("cannot open /dev/loop-control (is the loop driver there? try `modprobe loop`)")?;
        let identity = Identity::of(backing).context("cannot look at the served file")?;
        let mut last = io::Error::from_raw_os_error(libc::EBUSY);
        for _ in 0..ATTEMPTS {
            let this = Self::fresh(&control).context("no loop device can be had")?;
            let configured = this.open(OFlags::empty()).and_then(|device| looping::configure(&device, backing, name, logical_block));
            match configured {
                Ok(()) if this.takes_discards() => return Ok(this),
                // Somebody had the device open, so that it kept the queue limits of its former user.
                Ok(()) => {
                    last = io::Error::from_raw_os_error(libc::EOPNOTSUPP);
                    let _ = this.detach(identity, true);
                }
                Err(error) if error.raw_os_error().is_some_and(|errno| TAKEN.contains(&errno)) => last = error,
                Err(error) => return Err(error).with_context(|| format!("cannot configure {}", this.path().display())),
            }
        }
        Err(last).context("every loop device that was tried was taken by another process at the same moment")
    }

    /// A device that nobody has used before, so that no limit of a former user sticks to it; or, where none can be added, a free one that has
    /// been told to forget.
    fn fresh(control: &File) -> io::Result<Self> {
        for number in 0..NUMBER_MAX {
            match looping::add(control, number) {
                Ok(()) if Self(number).path().exists() => return Ok(Self(number)),
                // There is a device, but no node for it: /dev is not the kernel's.
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
                format!("/dev/loop{number} is not there (try `mknod /dev/loop{number} b 7 {number}`)"),
            ));
        }
        this.renew(true);
        Ok(this)
    }

    /// Opens the node, which may be no link.
    fn open(self, more: OFlags) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC | more;
        Ok(File::from(rustix::fs::open(self.path(), flags, Mode::empty())?))
    }

    /// False if limits that somebody set for a former user forbid them: the driver itself asks the file, and ours takes them.
    fn takes_discards(self) -> bool {
        std::fs::read_to_string(self.sysfs().join("queue/discard_max_bytes")).map_or(true, |text| text.trim() != "0")
    }

    /// Has the driver forget what was set in the queue of this free device. It keeps that for the next user otherwise; and a
    /// device that was once told to allow no discards takes no other limit any more (seen on Linux 6.18). The device itself stays only with `keep`.
    fn renew(self, keep: bool) {
        let Ok(control) = open_control() else { return };
        // Fails if somebody has taken it already; then it is theirs.
        if looping::remove(&control, self.0).is_ok() && keep {
            let _ = looping::add(&control, self.0);
        }
    }

    /// Writes what the kernel still holds of the device to the drive, if it stands on the file `ours`.
    pub fn sync(self, ours: Identity) -> io::Result<()> {
        let device = self.open(OFlags::empty())?;
        if looping::backing(&device)?.is_some_and(|backing| backing.file == ours) { device.sync_all() } else { Ok(()) }
    }

    /// Detaches it if it stands on the file `ours`, and returns once it is free. If somebody has it open, in whichever namespace, nothing is
    /// changed; with `force` the kernel detaches it when they close it.
    pub fn detach(self, ours: Identity, force: bool) -> io::Result<Detached> {
        let end = Instant::now() + if force { Duration::ZERO } else { PATIENCE };
        loop {
            match self.try_detach(ours, force)? {
                // Whoever looks at all devices of the machine has it open for a moment.
                Detached::InUse if Instant::now() < end => std::thread::sleep(Duration::from_millis(20)),
                result => return Ok(result),
            }
        }
    }

    fn try_detach(self, ours: Identity, force: bool) -> io::Result<Detached> {
        // What is mounted, swap, or part of something, wherever that can be seen, cannot be opened exclusively.
        let device = match self.open(if force { OFlags::empty() } else { OFlags::EXCL }) {
            Ok(device) => device,
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => return Ok(Detached::InUse),
            // Only the node may be missing, where /dev is not the kernel's.
            Err(error) if self.backing_file().is_some() => return Err(error),
            Err(error) if error.raw_os_error() == Some(libc::ENXIO) || error.kind() == io::ErrorKind::NotFound => {
                return Ok(Detached::Free);
            }
            Err(error) => return Err(error),
        };
        // From here on nobody can put it on another file: that needs that nobody has it open.
        match looping::backing(&device)? {
            None => return Ok(Detached::Free),
            Some(backing) if backing.file != ours => return Ok(Detached::Foreign),
            Some(_) => {}
        }
        match looping::clear(&device) {
            Err(error) if error.raw_os_error() != Some(libc::ENXIO) => return Err(error),
            _ => {}
        }
        if looping::backing(&device)?.is_some() && !force {
            looping::keep(&device)?;
            return Ok(Detached::InUse);
        }
        drop(device);
        let patience = Instant::now() + Duration::from_secs(5);
        while self.backing_file().is_some() {
            if Instant::now() > patience {
                return Ok(Detached::InUse);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        self.renew(self.0 < MADE_AT_BOOT);
        Ok(Detached::Free)
    }
}

/// What became of a loop device that was to be detached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Detached {
    /// It is free.
    Free,
    /// Somebody uses it; with `force` it becomes free when they let go of it, else it stays.
    InUse,
    /// It stands on another file by now, and was left alone.
    Foreign,
}

fn open_control() -> io::Result<File> {
    Ok(File::from(rustix::fs::open("/dev/loop-control", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?))
}
