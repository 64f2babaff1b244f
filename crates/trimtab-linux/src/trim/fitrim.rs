//! FITRIM: makes a mounted filesystem discard its free space.
//!
//! The length that the call returns is no proof, because its meaning depends on the
//! filesystem. The discard counters of the devices before and after are
//! ([`crate::host::discards`]).

use super::drain::Drain;
use crate::host::block::Stack;
use crate::host::discards::Meter;
use crate::host::mountinfo::Mount;
use crate::host::root::Root;
use crate::sys;
use crate::sys::clock::nanos;
use crate::sys::interrupt;
use rustix::fd::AsFd;
use rustix::io::Errno;
use std::time::{Duration, Instant};
use trimtab_drive::discards::Amount;
use trimtab_drive::units::{Bytes, Nanos};
use trimtab_sim::target::TrimWindow;

/// Discards count as complete when the counters have been constant for this long.
const QUIET: Duration = Duration::from_millis(200);

/// Discards the free extents of at least `min_extent` in `window` of the filesystem of
/// `file`. Returns the length that the filesystem reports.
///
/// ntfs3 accepts only the whole filesystem. For a range that ends earlier, or an empty
/// one, Linux 6.12 continues behind it with wrong addresses and discards space in use,
/// starting with the boot sector.
pub fn fitrim(file: impl AsFd, window: TrimWindow, min_extent: Bytes) -> Result<Bytes, Errno> {
    if window != WHOLE && is_ntfs3(&file)? {
        return Err(Errno::INVAL);
    }
    sys::filesystem::trim(file, window.start, window.len, min_extent.0).map(Bytes)
}

/// The whole filesystem, as `fstrim` requests it without options.
pub const WHOLE: TrimWindow = TrimWindow { start: 0, len: u64::MAX };

fn is_ntfs3(file: impl AsFd) -> Result<bool, Errno> {
    const MAGIC: rustix::fs::FsWord = 0x7366_746e;
    Ok(rustix::fs::fstatfs(file)?.f_type == MAGIC)
}

/// The course of discards in the background.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SettleResult {
    /// Discards counted since the meter's start; `None` if the devices do not count.
    pub counted: Option<Amount>,
    /// Time from the call to the last change of the counters.
    pub went_on: Nanos,
    /// False if the counters still changed when the wait ended.
    pub quiet: bool,
}

/// Waits until no discard is in flight and the counters are constant, at most `at_most`.
pub fn settle(meter: &Meter, at_most: Duration) -> SettleResult {
    if meter.count().is_none() {
        return SettleResult { counted: None, went_on: Nanos::ZERO, quiet: true };
    }
    let started = Instant::now();
    let stop = || started.elapsed() >= at_most || interrupt::requested();
    let drained = Drain::of("").wait(None, QUIET, || meter.count(), || meter.stat(), stop);
    SettleResult { counted: meter.count(), went_on: nanos(drained.moved), quiet: drained.all }
}

/// The reason why FITRIM cannot work on the filesystem of `file`, mounted as `mount`;
/// `None` if it can.
///
/// Sends a request for an empty range: filesystems check permission and device first, and
/// only then reject the range. Nothing is discarded. ntfs3 gets no request, because it
/// accepts no ranges; only its mount options are checked.
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

/// No device directly below accepts discards. For ntfs3, which [`obstacle`] does not ask.
pub fn devices_take_none(root: &Root, stack: &Stack) -> bool {
    let mut limits = stack
        .top_layers()
        .map(|layer| root.read_u64(layer.queue().join("discard_max_bytes")))
        .peekable();
    limits.peek().is_some() && limits.all(|limit| limit == Some(0))
}

/// The reason why FITRIM cannot work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Obstacle {
    /// The caller is not root.
    Permission,
    /// The filesystem has no FITRIM.
    Filesystem,
    /// The device below accepts no discards.
    Device,
    /// The filesystem trims only when mounted with discard.
    Option,
    /// Another error.
    Other(Errno),
}

impl std::fmt::Display for Obstacle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Permission => f.write_str("trimming (FITRIM) needs root; run it with sudo"),
            Self::Filesystem => f.write_str("the filesystem does not support trimming (no FITRIM)"),
            Self::Device => f.write_str("the device below the filesystem takes no discards"),
            Self::Option => f.write_str(
                "the filesystem trims only when mounted with discard; run mount -o remount,discard",
            ),
            Self::Other(errno) => write!(
                f,
                "FITRIM fails: {}; the kernel's log says more (dmesg)",
                std::io::Error::from(*errno)
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tmpfs_is_not_ntfs3() {
        let Ok(shm) = std::fs::File::open("/dev/shm") else { return crate::skip::skip("/dev/shm") };
        assert_eq!(is_ntfs3(&shm), Ok(false));
    }

    #[test]
    fn fitrim_on_tmpfs_is_unsupported() {
        let Ok(shm) = std::fs::File::open("/dev/shm") else { return crate::skip::skip("/dev/shm") };
        assert!(matches!(obstacle(None, &shm), Some(Obstacle::Filesystem | Obstacle::Permission)));
        assert!(fitrim(&shm, TrimWindow { start: 0, len: u64::MAX }, Bytes::ZERO).is_err());
    }

    #[test]
    fn ntfs3_without_discard_is_refused_before_fitrim() {
        let Ok(shm) = std::fs::File::open("/dev/shm") else { return crate::skip::skip("/dev/shm") };
        let mounted = |options| {
            crate::host::mountinfo::parse(
                format!("1 0 8:1 / /mnt rw - ntfs3 /dev/sda1 {options}\n").as_bytes(),
            )
        };
        assert_eq!(obstacle(mounted("rw,uid=0").first(), &shm), Some(Obstacle::Option));
        assert_ne!(obstacle(mounted("rw,uid=0,discard").first(), &shm), Some(Obstacle::Option));
    }
}
