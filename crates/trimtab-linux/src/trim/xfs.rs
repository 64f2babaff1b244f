//! The geometry of XFS: its allocation groups.

use crate::sys;
use rustix::fd::AsFd;
use rustix::io::Errno;

/// The sizes of an XFS filesystem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XfsSizes {
    /// Block size in bytes.
    pub block_size: u64,
    /// Blocks per allocation group; the last group may have fewer.
    pub ag_blocks: u64,
    /// Number of blocks of the data device.
    pub data_blocks: u64,
    /// UUID of the filesystem.
    pub uuid: [u8; 16],
    /// Number of blocks of the realtime device. Kernels that trim it address it behind the data.
    pub realtime_blocks: u64,
}

impl XfsSizes {
    /// Bytes per allocation group.
    pub fn group_bytes(&self) -> u64 {
        self.ag_blocks.saturating_mul(self.block_size)
    }

    /// Bytes of the data device.
    pub fn data_bytes(&self) -> u64 {
        self.data_blocks.saturating_mul(self.block_size)
    }

    /// Bytes of the realtime device.
    pub fn realtime_bytes(&self) -> u64 {
        self.realtime_blocks.saturating_mul(self.block_size)
    }
}

/// The geometry of the filesystem of `file`.
pub fn geometry(file: impl AsFd) -> Result<XfsSizes, Errno> {
    let raw = sys::filesystem::xfs_geometry(file)?;
    Ok(XfsSizes {
        block_size: raw.block_size.into(),
        ag_blocks: raw.ag_blocks.into(),
        data_blocks: raw.data_blocks,
        uuid: raw.uuid,
        realtime_blocks: raw.rt_blocks,
    })
}
