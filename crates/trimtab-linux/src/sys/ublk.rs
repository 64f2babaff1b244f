//! The kernel's ublk driver, `linux/ublk_cmd.h`: block devices whose requests a process
//! serves through io_uring.
//!
//! [`control`] creates and deletes devices; a [`queue`] receives requests. The structures
//! in this module mirror the kernel's and hold plain values only.

pub mod control;
pub mod queue;

use std::path::PathBuf;

/// `UBLK_F_UNPRIVILEGED_DEV`: any process that may open the control device may create the
/// device. The kernel clears this flag for root.
pub const UNPRIVILEGED: u64 = 1 << 5;
/// `UBLK_F_CMD_IOCTL_ENCODE`: command numbers are encoded like ioctl numbers (Linux 6.4).
pub const ENCODED: u64 = 1 << 6;

/// `struct ublksrv_ctrl_dev_info`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Info {
    /// Number of queues.
    pub queues: u16,
    /// Maximum number of requests in flight per queue.
    pub depth: u16,
    /// 0: no block device exists. 1: the device is being served. 2: the server has ended,
    /// and requests wait for a new one.
    pub state: u16,
    pad0: u16,
    /// Size of the largest request, in bytes.
    pub request_bytes_max: u32,
    /// The device number; `u32::MAX` asks for a free one.
    pub number: u32,
    /// Process id of the server.
    pub pid: i32,
    pad1: u32,
    /// Driver features: [`ENCODED`] and so on.
    pub flags: u64,
    /// Free for the server's use. The kernel stores it and ignores its value.
    pub mark: u64,
    /// User id of the creator.
    pub owner_uid: u32,
    /// Group id of the creator.
    pub owner_gid: u32,
    reserved: [u64; 2],
}

impl Info {
    /// Parameters of a new device: any free number, with this process as the server.
    pub fn wanted(queues: u16, depth: u16, request_bytes_max: u32, flags: u64, mark: u64) -> Self {
        let pid = std::process::id() as i32;
        Self {
            queues,
            depth,
            request_bytes_max,
            number: u32::MAX,
            pid,
            flags,
            mark,
            ..Self::default()
        }
    }
}

/// `struct ublk_param_basic`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UblkBasic {
    /// [`VOLATILE_CACHE`], [`FUA`].
    pub attributes: u32,
    /// Binary logarithm of the logical block size in bytes.
    pub logical_block_shift: u8,
    /// Binary logarithm of the physical block size in bytes.
    pub physical_block_shift: u8,
    /// Binary logarithm of the optimal I/O size in bytes.
    pub io_optimal_shift: u8,
    /// Binary logarithm of the minimum I/O size in bytes.
    pub io_min_shift: u8,
    /// Size of the largest request, in sectors of 512 bytes.
    pub sectors_max: u32,
    /// Requests do not cross multiples of this number of sectors, unless it is 0.
    pub chunk_sectors: u32,
    /// Size of the device, in sectors of 512 bytes.
    pub sectors: u64,
    /// Data buffers do not cross multiples of this value plus one, unless it is 0.
    pub boundary_mask: u64,
}

/// `UBLK_ATTR_VOLATILE_CACHE`: the kernel sends flushes.
pub const VOLATILE_CACHE: u32 = 1 << 2;
/// `UBLK_ATTR_FUA`: a single write can be durable on completion.
pub const FUA: u32 = 1 << 3;

/// `struct ublk_param_discard`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UblkDiscard {
    /// Bytes from the start of the device to the first multiple of the granularity.
    pub alignment: u32,
    /// Discard granularity in bytes. The kernel rejects 0.
    pub granularity: u32,
    /// Largest discard, in sectors; 0 if discards are not supported.
    pub sectors_max: u32,
    /// Largest zero-write, in sectors; 0 if zero-writes are not supported.
    pub zeroes_sectors_max: u32,
    /// Ranges in one discard. The driver supports only 1.
    pub segments_max: u16,
    reserved: u16,
}

impl UblkDiscard {
    /// Discards start at multiples of the granularity. A `sectors_max` of 0 disables
    /// discards.
    pub const fn new(granularity: u32, sectors_max: u32, zeroes_sectors_max: u32) -> Self {
        Self {
            alignment: 0,
            granularity,
            sectors_max,
            zeroes_sectors_max,
            segments_max: (sectors_max > 0) as u16,
            reserved: 0,
        }
    }
}

/// `struct ublk_params`, up to its second part.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parameters {
    len: u32,
    kinds: u32,
    /// Parameters that every device has.
    pub basic: UblkBasic,
    /// Discard and zero-write parameters.
    pub discard: UblkDiscard,
    pad: u32,
}

impl Parameters {
    /// Parameters with both parts present.
    pub const fn new(basic: UblkBasic, discard: UblkDiscard) -> Self {
        const KINDS: u32 = 1 | 1 << 1;
        Self { len: size_of::<Self>() as u32, kinds: KINDS, basic, discard, pad: 0 }
    }
}

const _: () = assert!(
    size_of::<Info>() == 64
        && size_of::<UblkBasic>() == 32
        && size_of::<UblkDiscard>() == 20
        && size_of::<Parameters>() == 64
);

/// Path of the character device through which the server serves the device.
pub fn character_node(number: u32) -> PathBuf {
    PathBuf::from(format!("/dev/ublkc{number}"))
}

/// `_IOC` number of a command, which encodes the size of its structure and the data
/// direction.
const fn encoded(reads: bool, writes: bool, number: u32, size: usize) -> u32 {
    (reads as u32) << 31 | (writes as u32) << 30 | (size as u32) << 16 | (b'u' as u32) << 8 | number
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ublk_command_numbers_match_the_header() {
        // _IOWR('u', 4, struct of 32 bytes), _IOR('u', 2, the same), _IOWR('u', 0x20,
        // struct of 16 bytes)
        assert_eq!(
            [
                encoded(true, true, 4, 32),
                encoded(true, false, 2, 32),
                encoded(true, true, 0x20, 16)
            ],
            [0xC020_7504, 0x8020_7502, 0xC010_7520]
        );
    }

    #[test]
    fn ublk_parameters_have_length_and_kinds() {
        let parameters = Parameters::new(UblkBasic::default(), UblkDiscard::default());
        assert_eq!((parameters.len, parameters.kinds), (64, 3));
    }
}
