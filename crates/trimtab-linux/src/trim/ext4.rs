//! Facts about ext4 for trimming: the size of its block groups, and the minimum extent of
//! the last trim. The kernel keeps that minimum per filesystem, but the trimmed state per
//! group.

use crate::host::block::{Stack, node_of};
use crate::host::root::Root;
use crate::sys::beneath::set_attribute;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use trimtab_drive::units::Bytes;

const SUPERBLOCK_OFFSET: u64 = 1024;
const MAGIC: u16 = 0xEF53;
/// `INCOMPAT_64BIT`: the high half of the block count is valid.
const INCOMPAT_64BIT: u32 = 0x80;

/// The fields of the superblock that are used here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ext4Superblock {
    /// Block size in bytes.
    pub block_size: u64,
    /// Number of blocks.
    pub blocks: u64,
    /// Blocks per group.
    pub blocks_per_group: u64,
    /// Creation time, seconds since 1970.
    pub made: u32,
}

impl Ext4Superblock {
    /// Reads the superblock from the only device of a filesystem.
    pub fn of_device(stack: &Stack) -> io::Result<Self> {
        let layer = stack.top_layers().next().ok_or_else(|| io::Error::other("no device"))?;
        let device = File::open(node_of(&layer.name))?;
        let mut bytes = [0; 1024];
        device.read_exact_at(&mut bytes, SUPERBLOCK_OFFSET)?;
        Self::parse(&bytes).ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidData, "no ext4 superblock on the device")
        })
    }

    /// Parses `struct ext4_super_block` (fs/ext4/ext4.h).
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let u32_at =
            |at: usize| bytes.get(at..at + 4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
        let magic = bytes.get(0x38..0x3a).map(|b| u16::from_le_bytes([b[0], b[1]]))?;
        let log_block_size = u32_at(0x18)?;
        if magic != MAGIC || log_block_size > 6 || bytes.len() < 1024 {
            return None;
        }
        let high = if u32_at(0x60)? & INCOMPAT_64BIT != 0 { u32_at(0x150)? } else { 0 };
        let blocks = u64::from(high) << 32 | u64::from(u32_at(0x4)?);
        let blocks_per_group = u64::from(u32_at(0x20)?);
        let block_size = 1024_u64 << log_block_size;
        let sane = blocks_per_group > 0 && blocks > 0 && blocks.checked_mul(block_size).is_some();
        sane.then_some(Self { block_size, blocks, blocks_per_group, made: u32_at(0x108)? })
    }

    /// Bytes per block group.
    pub fn group_bytes(&self) -> u64 {
        self.blocks_per_group.saturating_mul(self.block_size)
    }

    /// Size of the filesystem in bytes.
    pub fn size(&self) -> u64 {
        self.blocks.saturating_mul(self.block_size)
    }
}

/// The minimum extent, in blocks, of the last trim. Later trims with the same or a larger
/// minimum skip the groups that it trimmed. A smaller minimum trims all groups again, but
/// only in the first request, after which the kernel assumes that it applies everywhere.
/// A pass in windows with a smaller minimum must therefore reset this value before each
/// window.
#[derive(Debug)]
pub struct LastTrim {
    file: PathBuf,
}

/// A value that no trim reaches: all groups are trimmed again.
pub const FORGOTTEN: u64 = u32::MAX as u64;

impl LastTrim {
    /// For the filesystem on `device`, if the kernel exposes the attribute.
    pub fn of_device(root: &Root, device: &str) -> Option<Self> {
        let file = Path::new("/sys/fs/ext4").join(device).join("last_trim_minblks");
        (root.is_live() && root.exists(&file)).then_some(Self { file })
    }

    /// The current value in blocks.
    pub fn blocks(&self, root: &Root) -> Option<u64> {
        root.read_u64(&self.file)
    }

    /// Sets a value.
    pub fn restore(&self, blocks: u64) -> io::Result<()> {
        set_attribute(&self.file, &blocks.to_string())
    }
}

/// The minimum extent in blocks, as in the kernel: at least the device's discard unit.
pub fn least_blocks(min_extent: Bytes, granularity: u64, block_size: u64) -> u64 {
    min_extent.0.max(granularity) / block_size.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn superblock() -> Vec<u8> {
        let mut bytes = vec![0; 1024];
        bytes[0x4..0x8].copy_from_slice(&1_048_576_u32.to_le_bytes());
        bytes[0x18..0x1c].copy_from_slice(&2_u32.to_le_bytes());
        bytes[0x20..0x24].copy_from_slice(&32_768_u32.to_le_bytes());
        bytes[0x38..0x3a].copy_from_slice(&MAGIC.to_le_bytes());
        bytes
    }

    #[test]
    fn superblock_parse_reads_group_size() {
        let parsed = Ext4Superblock::parse(&superblock()).unwrap();
        assert_eq!((parsed.group_bytes(), parsed.size()), (128 << 20, 4 << 30));
        let mut wide = superblock();
        wide[0x60] = 0x80;
        wide[0x150] = 1;
        assert_eq!(Ext4Superblock::parse(&wide).unwrap().blocks, (1 << 32) + 1_048_576);
    }

    #[test]
    fn superblock_parse_refuses_other_data() {
        assert_eq!(Ext4Superblock::parse(&[0; 1024]), None);
        assert_eq!(Ext4Superblock::parse(&superblock()[..100]), None);
        let mut zero_groups = superblock();
        zero_groups[0x20..0x24].fill(0);
        assert_eq!(Ext4Superblock::parse(&zero_groups), None);
        let mut absurd = superblock();
        absurd[0x18] = 60;
        assert_eq!(Ext4Superblock::parse(&absurd), None);
    }
}
