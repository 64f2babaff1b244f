//! The kernel's ublk driver, `linux/ublk_cmd.h`: block devices whose requests a process serves over io_uring.
//!
//! [`control`] makes devices and takes them away; a [`queue`] is where requests arrive. The structures here are the kernel's; all but their layout is
//! plain values.

pub mod control;
pub mod queue;

use std::path::PathBuf;

/// `UBLK_F_USER_RECOVERY`: the device stays when its server ends, and requests wait for another one.
pub const RECOVERY: u64 = 1 << 3;
/// `UBLK_F_USER_RECOVERY_REISSUE`: what the old server had not answered is given to the new one.
pub const RECOVERY_REISSUE: u64 = 1 << 4;
/// `UBLK_F_UNPRIVILEGED_DEV`: made by whoever may open the driver's control device; the kernel lets root have none like that.
pub const UNPRIVILEGED: u64 = 1 << 5;
/// `UBLK_F_CMD_IOCTL_ENCODE`: commands are numbered as ioctls are (Linux 6.4).
pub const ENCODED: u64 = 1 << 6;

/// `struct ublksrv_ctrl_dev_info`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Info {
    /// Queues.
    pub queues: u16,
    /// Requests that a queue holds at once.
    pub depth: u16,
    /// 0: no block device is there; 1: it is served; 2: its server has ended, and requests wait for another.
    pub state: u16,
    pad0: u16,
    /// The largest request.
    pub request_bytes_max: u32,
    /// The device's number; -1 in a request for a free one.
    pub number: u32,
    /// Its server.
    pub pid: i32,
    pad1: u32,
    /// What the driver is to do: [`RECOVERY`] and so on.
    pub flags: u64,
    /// The server's own; the kernel keeps it and looks at nothing in it.
    pub mark: u64,
    /// Who made it.
    pub owner_uid: u32,
    /// Who made it.
    pub owner_gid: u32,
    reserved: [u64; 2],
}

impl Info {
    /// What to ask for: any free number, this process as the server.
    #[must_use]
    pub fn wanted(queues: u16, depth: u16, request_bytes_max: u32, flags: u64, mark: u64) -> Self {
        let pid = std::process::id() as i32;
        Self { queues, depth, request_bytes_max, number: u32::MAX, pid, flags, mark, ..Self::default() }
    }
}

/// `struct ublk_param_basic`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Basic {
    /// [`ROTATIONAL`], [`VOLATILE_CACHE`], [`FUA`].
    pub attributes: u32,
    /// Powers of two, in bytes.
    pub logical_block_shift: u8,
    /// As the first.
    pub physical_block_shift: u8,
    /// As the first.
    pub io_optimal_shift: u8,
    /// As the first.
    pub io_min_shift: u8,
    /// The largest request, in sectors of 512 bytes.
    pub sectors_max: u32,
    /// Requests do not cross multiples of this, if it is not 0.
    pub chunk_sectors: u32,
    /// Size.
    pub sectors: u64,
    /// No data of a request lie across multiples of this plus one, if it is not 0.
    pub boundary_mask: u64,
}

/// `UBLK_ATTR_ROTATIONAL`
pub const ROTATIONAL: u32 = 1 << 1;
/// `UBLK_ATTR_VOLATILE_CACHE`: flushes are sent.
pub const VOLATILE_CACHE: u32 = 1 << 2;
/// `UBLK_ATTR_FUA`: single writes can be durable when answered.
pub const FUA: u32 = 1 << 3;

/// `struct ublk_param_discard`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Discard {
    /// Bytes from the beginning of the device to the first multiple of the granularity.
    pub alignment: u32,
    /// Bytes; the kernel takes no 0.
    pub granularity: u32,
    /// The largest discard; 0 if none is taken.
    pub sectors_max: u32,
    /// The largest zero-write; 0 if none is taken.
    pub zeroes_sectors_max: u32,
    /// Ranges in one discard: 1 is all that the driver knows.
    pub segments_max: u16,
    reserved: u16,
}

impl Discard {
    /// Of ranges that begin at multiples of the granularity of the device; no discards are taken if `sectors_max` is 0.
    #[must_use]
    pub const fn new(granularity: u32, sectors_max: u32, zeroes_sectors_max: u32) -> Self {
        Self { alignment: 0, granularity, sectors_max, zeroes_sectors_max, segments_max: (sectors_max > 0) as u16, reserved: 0 }
    }
}

/// `struct ublk_params` as far as its second part.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parameters {
    len: u32,
    kinds: u32,
    /// What every device has.
    pub basic: Basic,
    /// What it does with discards and zero-writes.
    pub discard: Discard,
    pad: u32,
}

impl Parameters {
    /// Both parts.
    #[must_use]
    pub const fn new(basic: Basic, discard: Discard) -> Self {
        const KINDS: u32 = 1 | 1 << 1;
        Self { len: size_of::<Self>() as u32, kinds: KINDS, basic, discard, pad: 0 }
    }
}

const _: () = assert!(size_of::<Info>() == 64 && size_of::<Basic>() == 32 && size_of::<Discard>() == 20 && size_of::<Parameters>() == 64);

/// The node through which a device is served.
#[must_use]
pub fn character_node(number: u32) -> PathBuf {
    PathBuf::from(format!("/dev/ublkc{number}"))
}

/// `_IOC` of a command, which names its structure's size and which way it goes.
const fn encoded(reads: bool, writes: bool, number: u32, size: usize) -> u32 {
    (reads as u32) << 31 | (writes as u32) << 30 | (size as u32) << 16 | (b'u' as u32) << 8 | number
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_numbered_as_the_header_says() {
        // _IOWR('u', 4, struct of 32 bytes), _IOR('u', 2, the same), _IOWR('u', 0x20, struct of 16 bytes)
        assert_eq!(
            [encoded(true, true, 4, 32), encoded(true, false, 2, 32), encoded(true, true, 0x20, 16)],
            [0xC020_7504, 0x8020_7502, 0xC010_7520]
        );
    }

    #[test]
    fn parameters_say_what_is_in_them() {
        let parameters = Parameters::new(Basic::default(), Discard::default());
        assert_eq!((parameters.len, parameters.kinds), (64, 3));
    }
}
