//! `FS_IOC_GETFSMAP`: the space map of a mounted filesystem (ext4, XFS).

use rustix::fd::AsFd;
use rustix::io::Errno;
use rustix::ioctl::{Opcode, Updater, ioctl, opcode};

/// `struct fsmap` (include/uapi/linux/fsmap.h).
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct FsmapRecord {
    device: u32,
    flags: u32,
    physical: u64,
    owner: u64,
    offset: u64,
    len: u64,
    reserved: [u64; 3],
}

/// `struct fsmap_head`, without the records that follow it.
#[repr(C)]
#[derive(Default)]
struct FsmapHead {
    flags_in: u32,
    flags_out: u32,
    count: u32,
    entries: u32,
    reserved: [u64; 6],
    keys: [FsmapRecord; 2],
}

#[repr(C)]
struct FsmapBuffer<const N: usize> {
    head: FsmapHead,
    records: [FsmapRecord; N],
}

const _: () = assert!(size_of::<FsmapRecord>() == 64 && size_of::<FsmapBuffer<1>>() == 192 + 64);

/// `_IOWR('X', 59, struct fsmap_head)`, whose size is without the records.
const GETFSMAP: Opcode = opcode::read_write::<FsmapHead>(b'X', 59);
/// `FMR_OF_SPECIAL_OWNER`, `FMR_OF_LAST` and `FMR_OWN_FREE`.
const SPECIAL_OWNER: u32 = 0x10;
const LAST: u32 = 0x20;
const OWN_FREE: u64 = 1;

/// A range of a device, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FsmapExtent {
    /// First byte.
    pub start: u64,
    /// Length in bytes.
    pub len: u64,
    /// True if the range is free space.
    pub free: bool,
}

impl FsmapExtent {
    /// First byte after the range.
    pub const fn end(self) -> u64 {
        self.start.saturating_add(self.len)
    }
}

/// Returns up to `N` extents between the bytes `from` and `end` of the device (major,
/// minor). Also returns the byte at which to continue, if there may be more.
///
/// # Errors
/// The filesystem's error; `ENOTTY` or `EOPNOTSUPP` if it does not support the call.
pub fn extents<const N: usize>(
    file: impl AsFd,
    device: (u32, u32),
    from: u64,
    end: u64,
) -> Result<(Vec<FsmapExtent>, Option<u64>), Errno> {
    let device = encoded(device);
    let low = FsmapRecord { device, physical: from, ..FsmapRecord::default() };
    let high = FsmapRecord {
        device,
        flags: u32::MAX,
        physical: end.saturating_sub(1),
        owner: u64::MAX,
        offset: u64::MAX,
        ..low
    };
    let head = FsmapHead { count: N as u32, keys: [low, high], ..FsmapHead::default() };
    let mut map = Box::new(FsmapBuffer { head, records: [FsmapRecord::default(); N] });
    // SAFETY: the opcode takes a pointer to a `struct fsmap_head` followed by `count`
    // structures `fsmap`, which matches `Map`, and writes inside it.
    unsafe { ioctl(file, Updater::<GETFSMAP, FsmapBuffer<N>>::new(&mut map)) }?;
    let records = map.records.get(..map.head.entries as usize).unwrap_or(&map.records);
    let of_device = records.iter().filter(|r| r.device == device);
    let extent = |r: &FsmapRecord| FsmapExtent {
        start: r.physical,
        len: r.len,
        free: r.flags & SPECIAL_OWNER != 0 && r.owner == OWN_FREE,
    };
    let next = records
        .last()
        .filter(|last| records.len() == N && last.flags & LAST == 0)
        .map(|r| r.physical.saturating_add(r.len));
    Ok((of_device.map(extent).collect(), next.filter(|next| *next > from && *next < end)))
}

/// `new_encode_dev` (include/linux/kdev_t.h).
const fn encoded((major, minor): (u32, u32)) -> u32 {
    (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_number_encoding_matches_the_kernel() {
        assert_eq!(encoded((8, 1)), 0x801);
        assert_eq!(encoded((259, 0x1234)), 0x0121_0334);
        assert_eq!(encoded((259, 300)), 0x0011_032c);
    }
}
