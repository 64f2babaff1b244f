//! Inode allocation: Orlov's spreading of directories, and files near their directory.

use super::alloc::Allocator;
use super::layout::{FLEX, RESERVED_INODES, VolumeLayout};
use super::node::ROOT;
use alloc::vec;
use alloc::vec::Vec;

#[derive(Clone, Debug)]
pub struct Inodes {
    per_group: u32,
    bits: Vec<Vec<u64>>,
    free: Vec<u32>,
    dirs: Vec<u32>,
}

/// Free inodes, free blocks and directories of a flexible group.
struct FlexGroup {
    inodes: u64,
    blocks: u64,
    dirs: u64,
}

impl Inodes {
    pub(super) fn new(layout: &VolumeLayout) -> Self {
        let words = layout.inodes_per_group.div_ceil(64) as usize;
        let groups = layout.groups as usize;
        let mut this = Self {
            per_group: layout.inodes_per_group,
            bits: vec![vec![0; words]; groups],
            free: vec![layout.inodes_per_group; groups],
            dirs: vec![0; groups],
        };
        for inode in 0..RESERVED_INODES {
            this.take(inode);
        }
        this.dirs[0] = 1;
        this
    }

    fn take(&mut self, inode: u32) {
        let (group, at) = ((inode / self.per_group) as usize, inode % self.per_group);
        self.bits[group][at as usize / 64] |= 1 << (at % 64);
        self.free[group] -= 1;
    }

    /// Allocates the first free inode of a group; `None` if it has none.
    fn take_first(&mut self, group: usize) -> Option<u32> {
        let at = self.bits[group].iter().position(|word| *word != u64::MAX)?;
        let inode = at as u32 * 64 + self.bits[group][at].trailing_ones();
        (inode < self.per_group).then(|| {
            let inode = group as u32 * self.per_group + inode;
            self.take(inode);
            inode
        })
    }

    pub(super) fn give(&mut self, inode: u32, dir: bool) {
        let (group, at) = ((inode / self.per_group) as usize, inode % self.per_group);
        let bit = 1 << (at % 64);
        assert!(self.bits[group][at as usize / 64] & bit != 0, "inode {inode} is freed twice");
        self.bits[group][at as usize / 64] &= !bit;
        self.free[group] += 1;
        self.dirs[group] -= u32::from(dir);
    }

    pub fn free(&self) -> u64 {
        self.free.iter().map(|n| u64::from(*n)).sum()
    }

    pub const fn group(&self, inode: u32) -> u32 {
        inode / self.per_group
    }

    /// Inode for a file of directory inode `parent`: in its flexible group, in the group
    /// of the last overflow, or in one chosen by Orlov's rule. Returns the last two for
    /// reuse.
    pub(super) fn for_file(
        &mut self,
        parent: u32,
        overflow: Option<u32>,
        space: &Allocator,
    ) -> Option<(u32, Option<u32>)> {
        let own = self.group(parent) / FLEX * FLEX;
        if let Some(inode) = self.first_in_flex(own) {
            return Some((inode, overflow));
        }
        if let Some(flex) = overflow
            && let Some(inode) = self.first_in_flex(flex)
        {
            return Some((inode, overflow));
        }
        let start = (overflow.unwrap_or(own) / FLEX + 1) % self.flexes();
        let flex = self.near(start, space)?;
        self.first_in_flex(flex).map(|inode| (inode, Some(flex)))
    }

    /// Inode for a directory in `parent`. Top-level directories are spread, starting at
    /// `seed`; others stay with their parent while there is room.
    pub(super) fn for_dir(
        &mut self,
        parent: u32,
        parent_inode: u32,
        seed: u64,
        space: &Allocator,
    ) -> Option<u32> {
        let flex = if parent == ROOT {
            let start = (seed % u64::from(self.flexes())) as u32;
            self.emptiest(start, space).or_else(|| self.near(start, space))
        } else {
            self.near(self.group(parent_inode) / FLEX, space)
        }?;
        let inode = self.first_in_flex(flex)?;
        let group = self.group(inode);
        self.dirs[group as usize] += 1;
        Some(inode)
    }

    fn flexes(&self) -> u32 {
        (self.bits.len() as u32).div_ceil(FLEX)
    }

    fn first_in_flex(&mut self, first: u32) -> Option<u32> {
        let last = (first + FLEX).min(self.bits.len() as u32);
        (first..last)
            .find(|group| self.free[*group as usize] > 0)
            .and_then(|group| self.take_first(group as usize))
    }

    fn flex(&self, number: u32, space: &Allocator) -> FlexGroup {
        let groups =
            (number * FLEX) as usize..((number + 1) * FLEX).min(self.bits.len() as u32) as usize;
        FlexGroup {
            inodes: self.free[groups.clone()].iter().map(|n| u64::from(*n)).sum(),
            blocks: space.groups[groups.clone()].iter().map(|group| u64::from(group.free())).sum(),
            dirs: self.dirs[groups].iter().map(|n| u64::from(*n)).sum(),
        }
    }

    /// Flexible groups from `start`, wrapping around.
    fn around(&self, start: u32) -> impl Iterator<Item = u32> + use<> {
        let n = self.flexes();
        (0..n).map(move |i| (start + i) % n)
    }

    /// First group of the flexible group with the fewest directories and average usage or
    /// less.
    fn emptiest(&self, start: u32, space: &Allocator) -> Option<u32> {
        let n = u64::from(self.flexes());
        let (inodes, blocks) = (self.free() / n, space.free() / n);
        let suits =
            |flex: &FlexGroup| flex.inodes > 0 && flex.inodes >= inodes && flex.blocks >= blocks;
        let all = self
            .around(start)
            .map(|number| (number, self.flex(number, space)))
            .filter(|(_, flex)| suits(flex));
        all.min_by_key(|(_, flex)| flex.dirs).map(|(number, _)| number * FLEX)
    }

    /// First group of the first flexible group from `start` that is not much above
    /// average in usage and directories; otherwise of the first with a free inode.
    fn near(&self, start: u32, space: &Allocator) -> Option<u32> {
        let n = u64::from(self.flexes());
        let members = u64::from(FLEX.min(self.bits.len() as u32));
        let inodes_per_flex = u64::from(self.per_group) * members;
        let inodes = (self.free() / n).saturating_sub(inodes_per_flex / 4).max(1);
        let blocks =
            (space.free() / n).saturating_sub(u64::from(super::group::GROUP_BLOCKS) * members / 4);
        let dirs = self.dirs.iter().map(|n| u64::from(*n)).sum::<u64>() / n + inodes_per_flex / 16;
        let suits =
            |flex: &FlexGroup| flex.dirs < dirs && flex.inodes >= inodes && flex.blocks >= blocks;
        self.around(start)
            .find(|number| suits(&self.flex(*number, space)))
            .or_else(|| self.around(start).find(|number| self.flex(*number, space).inodes > 0))
            .map(|number| number * FLEX)
    }
}

#[cfg(test)]
mod tests {
    use super::super::spec::VolumeSpec;
    use super::*;

    #[test]
    fn top_directories_spread_and_files_stay_with_them() {
        let layout = VolumeLayout::new(&VolumeSpec::ext4(), 16 << 30).unwrap();
        let space = Allocator::new(&layout);
        let mut inodes = Inodes::new(&layout);
        let tops: Vec<u32> =
            (0..8).map(|i| inodes.for_dir(ROOT, 1, i * 12345, &space).unwrap()).collect();
        let mut flexes: Vec<u32> =
            tops[..6].iter().map(|inode| inodes.group(*inode) / FLEX).collect();
        flexes.sort_unstable();
        // Group 0 has fewer inodes than average; group 4 has fewer blocks because of the
        // journal.
        assert_eq!(flexes, [1, 2, 3, 5, 6, 7]);
        let sub = inodes.for_dir(7, tops[3], 0, &space).unwrap();
        assert_eq!(sub, tops[3] + 1, "others go to their parent");
        let (file, overflow) = inodes.for_file(tops[3], None, &space).unwrap();
        assert_eq!((file, overflow), (tops[3] + 2, None));
        inodes.give(file, false);
        assert_eq!(
            inodes.for_file(tops[3], None, &space).unwrap().0,
            file,
            "the first free inode is reused"
        );
    }

    #[test]
    fn full_groups_overflow_until_no_inode_is_left() {
        let layout = VolumeLayout::new(
            &VolumeSpec { bytes_per_inode: 1 << 20, ..VolumeSpec::ext4() },
            4 << 30,
        )
        .unwrap();
        let space = Allocator::new(&layout);
        let mut inodes = Inodes::new(&layout);
        let mut overflow = None;
        let mut count = 0;
        while let Some((_, next)) = inodes.for_file(1, overflow, &space) {
            overflow = next;
            count += 1;
        }
        assert_eq!(count, layout.groups * layout.inodes_per_group - RESERVED_INODES);
        assert!(inodes.for_dir(ROOT, 1, 0, &space).is_none());
    }
}
