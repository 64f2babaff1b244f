//! `FS_IOC_FIEMAP`: maps a file to the address space of its filesystem.

use rustix::fd::AsFd;
use rustix::io::Errno;
use rustix::ioctl::{Opcode, Updater, ioctl, opcode};

/// Extents per call.
const EXTENTS: usize = 256;
/// `FIEMAP_FLAG_SYNC`.
const FLAG_SYNC: u32 = 1;
/// `FIEMAP_EXTENT_LAST`.
const EXTENT_LAST: u32 = 1;
/// Flags of an extent whose location is unknown or shared: UNKNOWN, DELALLOC, ENCODED,
/// DATA_ENCRYPTED, DATA_INLINE, DATA_TAIL, UNWRITTEN, SHARED.
const UNUSABLE: u32 = 0x2 | 0x4 | 0x8 | 0x80 | 0x200 | 0x400 | 0x800 | 0x2000;

/// `struct fiemap` of `linux/fiemap.h`, without the extents that follow it.
#[repr(C)]
struct FiemapHead {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    count: u32,
    reserved: u32,
}

/// `struct fiemap_extent`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct RawExtent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved_wide: [u64; 2],
    flags: u32,
    reserved: [u32; 3],
}

#[repr(C)]
struct FiemapBuffer {
    head: FiemapHead,
    extents: [RawExtent; EXTENTS],
}

const _: () = assert!(size_of::<FiemapHead>() == 32 && size_of::<RawExtent>() == 56);

/// `_IOWR('f', 11, struct fiemap)`, whose size is without the extents.
const FIEMAP: Opcode = opcode::read_write::<FiemapHead>(b'f', 11);

/// A contiguous range of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileExtent {
    /// Byte offset in the file.
    pub logical: u64,
    /// Byte offset in the address space of the filesystem.
    pub physical: u64,
    /// Length in bytes.
    pub len: u64,
    /// `FIEMAP_EXTENT_*` flags.
    pub flags: u32,
}

impl FileExtent {
    /// True if the data are stored at this location, in full, and belong to this file
    /// alone.
    pub const fn is_plain(&self) -> bool {
        self.flags & UNUSABLE == 0
    }
}

/// Returns all extents of a file, after writing its dirty data to the device.
///
/// # Errors
/// The filesystem's error; `ENOTTY` or `EOPNOTSUPP` if it does not support the call.
pub fn of_file(file: impl AsFd) -> Result<Vec<FileExtent>, Errno> {
    let mut extents = Vec::new();
    let mut start = 0;
    loop {
        let head = FiemapHead {
            start,
            length: u64::MAX - start,
            flags: FLAG_SYNC,
            mapped: 0,
            count: EXTENTS as u32,
            reserved: 0,
        };
        let mut map = FiemapBuffer { head, extents: [RawExtent::default(); EXTENTS] };
        // SAFETY: the opcode takes a pointer to a `struct fiemap` followed by `count`
        // extents, which matches `Map`, and writes inside it.
        unsafe { ioctl(&file, Updater::<FIEMAP, FiemapBuffer>::new(&mut map)) }?;
        let found = map.extents.get(..map.head.mapped as usize).unwrap_or(&map.extents);
        extents.extend(found.iter().map(|e| FileExtent {
            logical: e.logical,
            physical: e.physical,
            len: e.length,
            flags: e.flags,
        }));
        let Some(last) = found.last() else { break };
        start = last.logical.saturating_add(last.length);
        if last.flags & EXTENT_LAST != 0 || found.len() < EXTENTS {
            break;
        }
    }
    Ok(extents)
}
