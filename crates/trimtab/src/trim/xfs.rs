//! The geometry of XFS: where its allocation groups are.

use rustix::fd::AsFd;
use rustix::io::Errno;
use rustix::ioctl::{Getter, Opcode, ioctl, opcode};

/// `struct xfs_fsop_geom_v1` (fs/xfs/libxfs/xfs_fs.h).
#[repr(C)]
struct RawGeometry {
    block_size: u32,
    rt_extent_size: u32,
    ag_blocks: u32,
    ag_count: u32,
    log_blocks: u32,
    sector_size: u32,
    inode_size: u32,
    inode_max_percent: u32,
    data_blocks: u64,
    rt_blocks: u64,
    rt_extents: u64,
    log_start: u64,
    uuid: [u8; 16],
    stripe_unit: u32,
    stripe_width: u32,
    version: i32,
    flags: u32,
    log_sector_size: u32,
    rt_sector_size: u32,
    dir_block_size: u32,
}

/// `XFS_IOC_FSGEOMETRY_V1`: `_IOR('X', 100, struct xfs_fsop_geom_v1)`.
const FSGEOMETRY_V1: Opcode = opcode::read::<RawGeometry>(b'X', 100);

/// Sizes of an XFS filesystem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Bytes in a block.
    pub block_size: u64,
    /// Blocks in an allocation group; the last one may have fewer.
    pub ag_blocks: u64,
    /// Blocks of the data device.
    pub data_blocks: u64,
    /// UUID of the filesystem.
    pub uuid: [u8; 16],
    /// Blocks of the realtime device. FITRIM addresses them behind the data, on kernels that trim it.
    pub realtime_blocks: u64,
}

impl Geometry {
    /// Bytes in an allocation group.
    #[must_use]
    pub fn group_bytes(&self) -> u64 {
        self.ag_blocks.saturating_mul(self.block_size)
    }

    /// Bytes of the data device.
    #[must_use]
    pub fn data_bytes(&self) -> u64 {
        self.data_blocks.saturating_mul(self.block_size)
    }

    /// Bytes of the realtime device.
    #[must_use]
    pub fn realtime_bytes(&self) -> u64 {
        self.realtime_blocks.saturating_mul(self.block_size)
    }
}

/// The geometry of the filesystem that `file` is on.
pub fn geometry(file: impl AsFd) -> Result<Geometry, Errno> {
    // SAFETY: the opcode writes one `struct xfs_fsop_geom_v1`, which `RawGeometry` is, to the pointer that it is given.
    let raw = unsafe { ioctl(file, Getter::<FSGEOMETRY_V1, RawGeometry>::new()) }?;
    Ok(Geometry {
        block_size: raw.block_size.into(),
        ag_blocks: raw.ag_blocks.into(),
        data_blocks: raw.data_blocks,
        uuid: raw.uuid,
        realtime_blocks: raw.rt_blocks,
    })
}
