//! Whether space is in use: `FS_IOC_GETFSMAP` (ext4, XFS), and the extent tree of btrfs.

use super::extents::Extent;
use crate::host::mountinfo::Mount;
use crate::trim::btrfs;
use rustix::fd::{AsFd, BorrowedFd};
use rustix::io::Errno;
use rustix::ioctl::{Ioctl, IoctlOutput, Opcode, ioctl, opcode};

/// Records asked for in one call.
const RECORDS: usize = 128;
/// `FMR_OF_LAST`.
const LAST: u32 = 0x20;
/// `FMR_OF_SPECIAL_OWNER`.
const SPECIAL_OWNER: u32 = 0x10;
/// `FMR_OWN_FREE`
const OWNER_FREE: u64 = 1;

/// `struct fsmap` of `linux/fsmap.h`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Record {
    device: u32,
    flags: u32,
    physical: u64,
    owner: u64,
    offset: u64,
    length: u64,
    reserved: [u64; 3],
}

/// `struct fsmap_head`, with room for records behind it.
#[repr(C)]
struct Map {
    flags_in: u32,
    flags_out: u32,
    count: u32,
    entries: u32,
    reserved: [u64; 6],
    keys: [Record; 2],
    records: [Record; RECORDS],
}

/// `FS_IOC_GETFSMAP`: `_IOWR('X', 59, struct fsmap_head)`, whose size is without the records.
const GETFSMAP: Opcode = opcode::read_write::<[u64; 24]>(b'X', 59);

struct Call<'a>(&'a mut Map);

// SAFETY: the kernel reads and writes one `struct fsmap_head` with as many records behind it as `count` says, which are there.
unsafe impl Ioctl for Call<'_> {
    type Output = ();
    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        GETFSMAP
    }

    fn as_ptr(&mut self) -> *mut std::ffi::c_void {
        std::ptr::from_mut(self.0).cast()
    }

    unsafe fn output_from_ptr(_: IoctlOutput, _: *mut std::ffi::c_void) -> rustix::io::Result<()> {
        Ok(())
    }
}

/// Whether all of `extents` is free, as the filesystem has it at this moment; `None` if it does not say.
pub fn all_free(mount: &Mount, file: BorrowedFd<'_>, extents: &[Extent]) -> Option<bool> {
    for extent in extents {
        let free = match mount.fs_type.as_str() {
            "btrfs" => btrfs::is_used(file, extent.address, extent.len).map(|used| !used),
            _ => is_free(mount, file, extent),
        };
        if !free.ok()? {
            return Some(false);
        }
    }
    Some(true)
}

fn is_free(mount: &Mount, file: BorrowedFd<'_>, extent: &Extent) -> Result<bool, Errno> {
    let device = device_of(mount.dev.major, mount.dev.minor);
    let end = extent.address.saturating_add(extent.len);
    let mut at = extent.address;
    // Each call gets further, or it is the last.
    while at < end {
        let low = Record { device, physical: at, ..Record::default() };
        let high = Record { device, flags: u32::MAX, physical: end - 1, owner: u64::MAX, offset: u64::MAX, ..Record::default() };
        let mut map = Map {
            flags_in: 0,
            flags_out: 0,
            count: RECORDS as u32,
            entries: 0,
            reserved: [0; 6],
            keys: [low, high],
            records: [Record::default(); RECORDS],
        };
        // SAFETY: see `Call`.
        unsafe { ioctl(file.as_fd(), Call(&mut map)) }?;
        let found = &map.records[..(map.entries as usize).min(RECORDS)];
        let before = at;
        for record in found {
            let free = record.flags & SPECIAL_OWNER != 0 && record.owner == OWNER_FREE;
            // A gap is nothing that is known to be free.
            if !free || record.device != device || record.physical > at {
                return Ok(false);
            }
            at = at.max(record.physical.saturating_add(record.length));
        }
        if at == before || found.last().is_some_and(|last| last.flags & LAST != 0) {
            break;
        }
    }
    Ok(at >= end)
}

/// A device's numbers as the kernel gives them to programs in 32 bits.
const fn device_of(major: u32, minor: u32) -> u32 {
    (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_structures_have_the_kernels_size() {
        assert_eq!((size_of::<Record>(), size_of::<Map>()), (64, 192 + RECORDS * 64));
        assert_eq!(device_of(259, 300), 0x0011_032c);
    }
}
