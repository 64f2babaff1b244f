//! Invariants of a volume between operations. For tests only, as it visits every block.

use crate::volume::Volume;
use crate::volume::node::Node;
use crate::volume::spec::BLOCK;
use alloc::vec;
use alloc::vec::Vec;
use trimtab_drive::Device;

impl<D: Device> Volume<D> {
    /// Panics if bitmaps, extents, counts or journal are inconsistent.
    pub fn check(&self) {
        let mut used = vec![false; self.layout.blocks as usize];
        let mut mark = |what: &str, (start, len): (u32, u32)| {
            for block in start..start + len {
                assert!(!used[block as usize], "block {block} is in use twice, last by {what}");
                used[block as usize] = true;
            }
        };
        for run in &self.layout.reserved {
            mark("metadata", *run);
        }
        for run in self.runs_in_use() {
            mark("a file", run);
        }
        let in_use = used.iter().filter(|used| **used).count() as u64;
        assert_eq!(u64::from(self.layout.blocks) - in_use, self.free_blocks, "free blocks");
        let mut mark = |what: &str, (start, len): (u32, u32)| {
            for block in start..start + len {
                assert!(!used[block as usize], "block {block} is held back twice, last by {what}");
                used[block as usize] = true;
            }
        };
        for reserve in self.space.shared.iter().flatten() {
            mark("a preallocation", (reserve.start, reserve.len));
        }
        for run in self.held_back() {
            mark("a transaction or a trim", run);
        }
        for (number, group) in self.space.groups.iter().enumerate() {
            assert_eq!(*group, group.recounted(), "counts of group {number}");
            for at in 0..group.blocks() {
                let block = number * crate::volume::group::GROUP_BLOCKS as usize + at as usize;
                assert_eq!(group.is_free(at), !used[block], "block {block}");
            }
        }
        let mut needed = vec![false; used.len()];
        for extent in self.needed() {
            let first = ((extent.offset - self.start) / BLOCK) as usize;
            needed[first..][..(extent.len / BLOCK) as usize].fill(true);
        }
        assert_eq!(needed, used);
        self.check_counts();
    }

    fn check_counts(&self) {
        let live: Vec<&Node> = self
            .nodes
            .iter()
            .enumerate()
            .filter(|(i, _)| !self.spare_nodes.contains(&(*i as u32)))
            .map(|(_, n)| n)
            .collect();
        let files = || live.iter().filter(|node| node.dir.is_none());
        assert_eq!(
            files().map(|file| u64::from(file.dirty_blocks())).sum::<u64>(),
            self.dirty_blocks,
            "dirty blocks"
        );
        assert_eq!(
            files().map(|file| u64::from(file.unallocated())).sum::<u64>(),
            self.reserved,
            "reserved blocks"
        );
        assert_eq!(
            live.iter().map(|file| u64::from(file.cached)).sum::<u64>(),
            self.cached_blocks,
            "cached blocks"
        );
        assert!(self.reserved <= self.free_blocks);
        let entries: u32 =
            live.iter().filter_map(|node| node.dir.as_ref()).map(|dir| dir.entries).sum();
        assert_eq!(entries as usize + 1, live.len(), "every node but the root is in a directory");
        for node in &live {
            if let Some(dir) = &node.dir {
                assert_eq!(dir.blocks(), node.extents.blocks(), "blocks of a directory");
            }
        }
        self.journal.check();
    }

    /// Runs that are not available yet: freed in a non-durable transaction or being
    /// discarded.
    fn held_back(&self) -> Vec<(u32, u32)> {
        let mut runs: Vec<(u32, u32)> = self.journal.freed.iter().collect();
        if let Some(commit) = &self.commit {
            runs.extend(commit.transaction.freed.iter());
        }
        runs.extend(self.discards.in_flight.map(|(run, _)| run));
        runs.extend(self.trimming.as_ref().and_then(|trim| trim.in_flight).map(|(run, _)| run));
        runs
    }
}
