//! The geometry of XFS: where its allocation groups are.

use crate::sys;
use rustix::fd::AsFd;
use rustix::io::Errno;

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
    let raw = sys::filesystem::xfs_geometry(file)?;
    Ok(Geometry {
        block_size: raw.block_size.into(),
        ag_blocks: raw.ag_blocks.into(),
        data_blocks: raw.data_blocks,
        uuid: raw.uuid,
        realtime_blocks: raw.rt_blocks,
    })
}
