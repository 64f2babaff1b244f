//! FITRIM: asking a mounted filesystem to discard its free space.
//!
//! The length that the call returns is no proof: it means different things per filesystem. The discard counters of the
//! devices, before and after, are ([`crate::host::discards`]).

use super::drain::Drain;
use crate::host::block::Stack;
use crate::host::discards::Meter;
use crate::host::mountinfo::Mount;
use crate::host::root::Root;
use crate::sys;
use crate::sys::interrupt;
use rustix::fd::AsFd;
use rustix::io::Errno;
use std::time::{Duration, Instant};
use trimtab_drive::discards::Amount;
use trimtab_drive::units::{Bytes, Nanos};
use trimtab_sim::target::TrimWindow;

/// Discards count as over when the counters have not moved for this long.
const QUIET: Duration = Duration::from_millis(200);

/// Discards the free extents of at least `min_extent` in `window` of the filesystem that `file` is on. Gives what the
/// filesystem returned.
///
/// Of ntfs3 only the whole: asked for a range that ends before the filesystem does, also for an empty one, Linux 6.12 goes on behind it with wrong
/// addresses, and discards what is in use, the boot sector first.
pub fn fitrim(file: impl AsFd, window: TrimWindow, min_extent: Bytes) -> Result<Bytes, Errno> {
    if window != WHOLE && is_ntfs3(&file)? {
        return Err(Errno::INVAL);
    }
    sys::filesystem::trim(file, window.start, window.len, min_extent.0).map(Bytes)
}

/// As `fstrim` asks without options.
pub const WHOLE: TrimWindow = TrimWindow { start: 0, len: u64::MAX };

fn is_ntfs3(file: impl AsFd) -> Result<bool, Errno> {
    const MAGIC: rustix::fs::FsWord = 0x7366_746e;
    Ok(rustix::fs::fstatfs(file)?.f_type == MAGIC)
}

/// How discards went on in the background.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Settled {
    /// What the meter counted since its start; `None` if the devices do not count.
    pub counted: Option<Amount>,
    /// How long after the call the counters moved last.
    pub went_on: Nanos,
    /// False if they still moved at the end of the patience.
    pub quiet: bool,
}

/// Waits until no discard is in flight and the discard counters have not moved for a while, `at_most` this long.
pub fn settle(meter: &Meter, at_most: Duration) -> Settled {
    if meter.count().is_none() {
        return Settled { counted: None, went_on: Nanos::ZERO, quiet: true };
    }
    let started = Instant::now();
    let stop = || started.elapsed() >= at_most || interrupt::requested();
    let drained = Drain::of("").wait(None, QUIET, || meter.count(), || meter.stat(), stop);
    Settled { counted: meter.count(), went_on: nanos(drained.moved), quiet: drained.all }
}

fn nanos(duration: Duration) -> Nanos {
    Nanos(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}

/// Why FITRIM cannot work on the filesystem of `file`, which is mounted as `mount`; `None` if it can.
///
/// Asks for a range of no length: filesystems look at permission and at the device first, and only then say that the
/// range is invalid. Nothing is discarded. ntfs3 is not asked, since it takes no ranges; what its options say is all that is known before.
pub fn obstacle(mount: Option<&Mount>, file: impl AsFd) -> Option<Obstacle> {
    if mount.is_some_and(|mount| mount.fs_type == "ntfs3" && !mount.has_option("discard")) {
        return Some(Obstacle::Option);
    }
    match fitrim(file, TrimWindow { start: 0, len: 0 }, Bytes::ZERO) {
        Ok(_) | Err(Errno::INVAL) => None,
        Err(Errno::PERM | Errno::ACCESS) => Some(Obstacle::Permission),
        Err(Errno::NOTTY | Errno::NOSYS) => Some(Obstacle::Filesystem),
        Err(Errno::OPNOTSUPP) => Some(Obstacle::Device),
        Err(errno) => Some(Obstacle::Other(errno)),
    }
}

/// Whether none of the devices right below takes discards, by their limits: what [`obstacle`] cannot find out of ntfs3, since it does not ask.
#[must_use]
pub fn devices_take_none(root: &Root, stack: &Stack) -> bool {
    let mut limits = stack.top_layers().map(|layer| root.read_u64(layer.queue().join("discard_max_bytes"))).peekable();
    limits.peek().is_some() && limits.all(|limit| limit == Some(0))
}

/// What is in the way of FITRIM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Obstacle {
    /// The call is for root.
    Permission,
    /// The filesystem has no FITRIM.
    Filesystem,
    /// The device below takes no discards.
    Device,
    /// The filesystem trims only when mounted with discard.
    Option,
    /// Something else.
    Other(Errno),
}

impl std::fmt::Display for Obstacle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Permission => f.write_str("trimming (FITRIM) needs root; run it with sudo"),
            Self::Filesystem => f.write_str("the filesystem cannot trim (it has no FITRIM)"),
            Self::Device => f.write_str("the device below the filesystem takes no discards"),
            Self::Option => f.write_str("the filesystem trims only when mounted with discard; remount it so (mount -o remount,discard)"),
            Self::Other(errno) => write!(f, "FITRIM fails: {}; the kernel's log says more (dmesg)", std::io::Error::from(*errno)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filesystem_in_memory_is_no_ntfs3() {
        let Ok(shm) = std::fs::File::open("/dev/shm") else { return crate::skip::skip("/dev/shm") };
        assert_eq!(is_ntfs3(&shm), Ok(false));
    }

    #[test]
    fn a_filesystem_in_memory_has_no_fitrim() {
        let Ok(shm) = std::fs::File::open("/dev/shm") else { return crate::skip::skip("/dev/shm") };
        assert!(matches!(obstacle(None, &shm), Some(Obstacle::Filesystem | Obstacle::Permission)));
        assert!(fitrim(&shm, TrimWindow { start: 0, len: u64::MAX }, Bytes::ZERO).is_err());
    }

    #[test]
    fn ntfs3_without_discard_is_refused_before_fitrim() {
        let Ok(shm) = std::fs::File::open("/dev/shm") else { return crate::skip::skip("/dev/shm") };
        let mounted = |options| crate::host::mountinfo::parse(format!("1 0 8:1 / /mnt rw - ntfs3 /dev/sda1 {options}\n").as_bytes());
        assert_eq!(obstacle(mounted("rw,uid=0").first(), &shm), Some(Obstacle::Option));
        assert_ne!(obstacle(mounted("rw,uid=0,discard").first(), &shm), Some(Obstacle::Option));
    }
}
