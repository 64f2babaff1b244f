//! Metadata layout of ext4: groups, flexible groups, superblock copies, journal.

use super::VolumeError;
use super::group::GROUP_BLOCKS;
use super::spec::{BLOCK, VolumeSpec};
use alloc::format;
use alloc::vec::Vec;

/// Groups whose bitmaps and inode tables are adjacent (`flex_bg`).
pub const FLEX: u32 = 16;
/// Inodes of 256 bytes per block.
const INODES_PER_BLOCK: u32 = (BLOCK / 256) as u32;
/// Group descriptors of 64 bytes per block.
const DESCRIPTORS_PER_BLOCK: u32 = (BLOCK / 64) as u32;
/// The first non-reserved inode is 11, `lost+found`; 12 is the first for files. From 0
/// here.
pub const RESERVED_INODES: u32 = 11;
/// Smallest volume with a useful journal.
pub const SIZE_MIN: u64 = 64 << 20;
/// Largest volume: block numbers have 32 bits.
pub const SIZE_MAX: u64 = (1 << 32) * BLOCK - BLOCK;

/// Positions of all metadata. Block numbers count from the start of the filesystem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeLayout {
    /// Blocks of the filesystem.
    pub blocks: u32,
    /// Block groups.
    pub groups: u32,
    /// Inodes per group.
    pub inodes_per_group: u32,
    /// First block of the journal.
    pub journal: u32,
    /// Blocks of the journal.
    pub journal_blocks: u32,
    /// Initial metadata including the journal: start and length, sorted and disjoint.
    pub reserved: Vec<(u32, u32)>,
    /// The kernel keeps lists of groups by fragmentation (Linux 5.13 and later, from 16
    /// groups).
    pub group_lists: bool,
    /// Start of each flexible group's bitmaps.
    flex_metadata: Vec<u32>,
}

impl VolumeLayout {
    /// The layout of a volume of `size` bytes.
    pub fn new(spec: &VolumeSpec, size: u64) -> Result<Self, VolumeError> {
        if !(SIZE_MIN..=SIZE_MAX).contains(&size) {
            return Err(VolumeError::new(format!(
                "the volume size must be {SIZE_MIN} to {SIZE_MAX} bytes, not {size}"
            )));
        }
        if !(1024..=4 << 20).contains(&spec.bytes_per_inode) {
            return Err(VolumeError::new(format!(
                "the bytes per inode must be 1024 to 4194304, not {}",
                spec.bytes_per_inode
            )));
        }
        let blocks = (size / BLOCK) as u32;
        let groups = blocks.div_ceil(GROUP_BLOCKS);
        let inodes = (size / u64::from(spec.bytes_per_inode)).div_ceil(u64::from(groups)) as u32;
        let inodes_per_group =
            inodes.next_multiple_of(INODES_PER_BLOCK).clamp(INODES_PER_BLOCK, GROUP_BLOCKS);
        let mut layout = Self {
            blocks,
            groups,
            inodes_per_group,
            journal: 0,
            journal_blocks: 0,
            reserved: Vec::new(),
            group_lists: spec.journal.converts_after_write && groups >= 16,
            flex_metadata: Vec::new(),
        };
        layout.place_metadata()?;
        layout.place_journal(spec.journal_blocks)?;
        Ok(layout)
    }

    fn place_metadata(&mut self) -> Result<(), VolumeError> {
        let descriptors = self.groups.div_ceil(DESCRIPTORS_PER_BLOCK);
        // Room for the descriptors of a volume 1000 times as large, at most one block of
        // pointers.
        let growth = (self.groups * 1024)
            .div_ceil(DESCRIPTORS_PER_BLOCK)
            .saturating_sub(descriptors)
            .min(1024);
        for group in 0..self.groups {
            let start = group * GROUP_BLOCKS;
            let mut at = start;
            if has_superblock(group) {
                at += 1 + descriptors + growth;
            }
            if group % FLEX == 0 {
                let members = FLEX.min(self.groups - group);
                self.flex_metadata.push(at);
                at += members * (2 + self.table_blocks());
            }
            if at > self.blocks {
                return Err(VolumeError::new(format!(
                    "{} blocks are too few for the metadata of group {group}",
                    self.blocks
                )));
            }
            self.reserve(start, at - start);
        }
        Ok(())
    }

    fn place_journal(&mut self, wanted: Option<u32>) -> Result<(), VolumeError> {
        let len = wanted.unwrap_or_else(|| default_journal_blocks(self.blocks));
        if !(1024..=self.blocks / 2).contains(&len) {
            return Err(VolumeError::new(format!(
                "a journal of {len} blocks does not fit into a volume of {}",
                self.blocks
            )));
        }
        // As mke2fs: near the middle, in the group with the most room.
        let middle = self.groups / 2;
        let from = if middle > FLEX { middle / FLEX * FLEX } else { middle.saturating_sub(1) };
        let room = |group: &u32| {
            self.group_blocks(*group)
                - (self.first_unreserved(group * GROUP_BLOCKS) - group * GROUP_BLOCKS)
        };
        let best = (from..=(middle + 1).min(self.groups - 1)).rev().max_by_key(room).unwrap_or(0);
        let start = core::iter::once(best)
            .chain(0..self.groups)
            .map(|group| self.first_unreserved(group * GROUP_BLOCKS))
            .find(|start| self.unreserved(*start, len));
        let Some(start) = start else {
            return Err(VolumeError::new(format!(
                "no {len} contiguous free blocks for the journal"
            )));
        };
        self.journal = start;
        self.journal_blocks = len;
        self.reserve(start, len);
        Ok(())
    }

    fn reserve(&mut self, start: u32, len: u32) {
        if len > 0 {
            let at = self.reserved.partition_point(|(other, _)| *other < start);
            self.reserved.insert(at, (start, len));
        }
    }

    fn first_unreserved(&self, block: u32) -> u32 {
        let before = self.reserved.iter().take_while(|(start, _)| *start <= block).last();
        before.map_or(block, |(start, len)| block.max(start + len))
    }

    fn unreserved(&self, start: u32, len: u32) -> bool {
        let end = u64::from(start) + u64::from(len);
        end <= u64::from(self.blocks)
            && self.reserved.iter().all(|(other, n)| other + n <= start || u64::from(*other) >= end)
    }

    /// Blocks per inode table.
    #[must_use]
    pub const fn table_blocks(&self) -> u32 {
        self.inodes_per_group / INODES_PER_BLOCK
    }

    /// The superblock.
    pub const SUPERBLOCK: u32 = 0;

    /// Block of the group's descriptor.
    #[must_use]
    pub const fn descriptor(&self, group: u32) -> u32 {
        1 + group / DESCRIPTORS_PER_BLOCK
    }

    /// The group's block bitmap.
    #[must_use]
    pub fn block_bitmap(&self, group: u32) -> u32 {
        self.flex_metadata[(group / FLEX) as usize] + group % FLEX
    }

    /// The group's inode bitmap.
    #[must_use]
    pub fn inode_bitmap(&self, group: u32) -> u32 {
        self.block_bitmap(group) + self.flex_members(group)
    }

    /// Block of an inode.
    #[must_use]
    pub fn inode_block(&self, inode: u32) -> u32 {
        let group = inode / self.inodes_per_group;
        let tables = self.flex_metadata[(group / FLEX) as usize] + 2 * self.flex_members(group);
        tables
            + group % FLEX * self.table_blocks()
            + inode % self.inodes_per_group / INODES_PER_BLOCK
    }

    fn flex_members(&self, group: u32) -> u32 {
        FLEX.min(self.groups - group / FLEX * FLEX)
    }

    /// Blocks of a group.
    #[must_use]
    pub fn group_blocks(&self, group: u32) -> u32 {
        GROUP_BLOCKS.min(self.blocks - group * GROUP_BLOCKS)
    }
}

/// True if a group holds a superblock copy (`sparse_super`): 0, 1 and powers of 3, 5 and
/// 7.
fn has_superblock(group: u32) -> bool {
    let power_of = |base: u32| {
        let mut power = base;
        while power < group {
            power = power.saturating_mul(base);
        }
        power == group
    };
    group <= 1 || power_of(3) || power_of(5) || power_of(7)
}

/// Default journal size of `mke2fs` 1.47 for a volume of `blocks` blocks.
fn default_journal_blocks(blocks: u32) -> u32 {
    const K: u32 = 1024;
    match blocks {
        0..=32_767 => 1024,
        32_768..=262_143 => 4 * K,
        262_144..=524_287 => 8 * K,
        524_288..=4_194_303 => 16 * K,
        4_194_304..=8_388_607 => 32 * K,
        8_388_608..=16_777_215 => 64 * K,
        16_777_216..=33_554_431 => 128 * K,
        _ => 256 * K,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(size: u64) -> VolumeLayout {
        VolumeLayout::new(&VolumeSpec::ext4(), size).unwrap()
    }

    /// Against `dumpe2fs` of filesystems created by mke2fs 1.47.
    #[test]
    fn layout_matches_mke2fs() {
        let l = layout(4 << 30);
        assert_eq!((l.groups, l.inodes_per_group, l.table_blocks()), (32, 8192, 512));
        assert_eq!((l.block_bitmap(0), l.inode_bitmap(0), l.inode_block(0)), (513, 529, 545));
        assert_eq!((l.block_bitmap(1), l.inode_bitmap(1), l.inode_block(8192)), (514, 530, 1057));
        assert_eq!(
            (l.block_bitmap(17), l.inode_bitmap(17), l.inode_block(17 * 8192)),
            (524_289, 524_305, 524_832)
        );
        assert_eq!((l.journal, l.journal_blocks), (491_520, 16_384));
        let free: u32 = l.blocks - l.reserved.iter().map(|(_, len)| len).sum::<u32>();
        // mke2fs counts 1,011,634, without root directory, lost+found and resize inode.
        assert!((1_011_634..1_011_650).contains(&free), "{free}");

        let l = layout(1 << 30);
        assert_eq!(
            (l.block_bitmap(0), l.inode_bitmap(0), l.inode_block(0), l.journal_blocks),
            (129, 137, 145, 8192)
        );
        let l = layout(16 << 30);
        assert_eq!(
            (l.block_bitmap(0), l.descriptor(127), l.journal, l.journal_blocks),
            (1027, 2, 2_129_920, 32_768)
        );
    }

    #[test]
    fn layout_fits_odd_sizes_and_refuses_impossible_ones() {
        for size in [
            SIZE_MIN,
            SIZE_MIN + 12345,
            (128 << 20) + 4096 * 40,
            100_030_242_816,
            480_103_981_056,
            4_000_787_030_016,
        ] {
            let l = layout(size);
            let mut end = 0;
            for (start, len) in &l.reserved {
                assert!(*start >= end, "{size}: {start} is below {end}");
                end = start + len;
            }
            assert!(end <= l.blocks && l.inode_block(l.groups * l.inodes_per_group - 1) < l.blocks);
        }
        assert!(VolumeLayout::new(&VolumeSpec::ext4(), 1 << 20).is_err());
        let spec = VolumeSpec { journal_blocks: Some(1 << 30), ..VolumeSpec::ext4() };
        assert!(VolumeLayout::new(&spec, 1 << 30).is_err());
    }
}
