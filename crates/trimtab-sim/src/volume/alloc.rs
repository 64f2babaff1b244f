//! The block allocator of ext4 (`mballoc`): goals, preallocations and criteria.

use super::group::{BlockGroup, GROUP_BLOCKS};
use super::layout::{FLEX, VolumeLayout};
use alloc::vec::Vec;

/// Largest file in blocks that uses the shared preallocation (`mb_stream_req`).
pub const SMALL_BLOCKS: u32 = 16;
/// Blocks of that preallocation (`mb_group_prealloc`).
const SHARED_BLOCKS: u32 = 512;
/// Lists of shared preallocations by order of length (`PREALLOC_TB_SIZE`).
const SHARED_LISTS: usize = 10;
/// Maximum length of a list …
const SHARED_LIST_MAX: usize = 8;
/// … and its length after trimming.
const SHARED_LIST_CUT: usize = 5;
/// Sufficient number of free extents compared in a group (`mb_min_to_scan`).
const COMPARED_ENOUGH: u32 = 10;
/// Maximum number of free extents compared (`mb_max_to_scan`).
const COMPARED_MAX: u32 = 200;
/// Minimum order for a search of whole buddies (`mb_order2_reqs`).
const ORDER_MIN: u32 = 2;
/// Largest extent of one request (`MAX_WRITEPAGES_EXTENT_LEN`).
pub const EXTENT_MAX: u32 = 2048;

/// Purpose of an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllocationPurpose {
    /// Directory and extent blocks.
    Metadata,
    /// A file with this many blocks after the allocation.
    Data {
        /// Blocks of the file.
        file_blocks: u32,
        /// The file is still being written.
        open: bool,
    },
}

pub type BlockRun = (u32, u32);

/// Part of a group reserved for small files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SmallFileReserve {
    pub start: u32,
    pub len: u32,
}

/// Free space of a volume.
#[derive(Clone, Debug)]
pub struct Allocator {
    pub groups: Vec<BlockGroup>,
    /// Shared preallocations by order of length; each list is sorted by length.
    pub shared: [Vec<SmallFileReserve>; SHARED_LISTS],
    /// End of the last large allocation of an open file; the next continues there.
    stream: Option<u32>,
    blocks: u32,
    /// Groups are searched in order of fragmentation, most fragmented first.
    group_lists: bool,
}

impl Allocator {
    /// All blocks free except those reserved by the layout.
    #[must_use]
    pub fn new(layout: &VolumeLayout) -> Self {
        let groups =
            (0..layout.groups).map(|group| BlockGroup::new(layout.group_blocks(group))).collect();
        let mut allocator = Self {
            groups,
            shared: Default::default(),
            stream: None,
            blocks: layout.blocks,
            group_lists: layout.group_lists,
        };
        for (start, len) in &layout.reserved {
            allocator.take(*start, *len);
        }
        allocator
    }

    /// Allocates free blocks, across groups if necessary.
    pub fn take(&mut self, start: u32, len: u32) {
        split_by_group(start, len, |group, at, len| self.groups[group].take(at, len));
    }

    /// Frees allocated blocks.
    pub fn give(&mut self, start: u32, len: u32) {
        split_by_group(start, len, |group, at, len| self.groups[group].give(at, len));
    }

    /// Free blocks, excluding shared preallocations.
    #[must_use]
    pub fn free(&self) -> u64 {
        self.groups.iter().map(|group| u64::from(group.free())).sum()
    }

    /// Frees all shared preallocations.
    pub fn drop_preallocations(&mut self) {
        for list in core::mem::take(&mut self.shared) {
            for SmallFileReserve { start, len } in list {
                self.give(start, len);
            }
        }
    }

    /// Allocates up to `len` blocks near `goal` as one run. `None` if nothing is free.
    pub fn allocate(
        &mut self,
        goal: u32,
        len: u32,
        purpose: AllocationPurpose,
    ) -> Option<BlockRun> {
        debug_assert!(len > 0 && goal < self.blocks);
        match purpose {
            AllocationPurpose::Data { file_blocks, .. } if file_blocks <= SMALL_BLOCKS => {
                self.allocate_shared(goal, len)
            }
            AllocationPurpose::Data { open, .. } => {
                let goal = if open { self.stream.unwrap_or(goal) } else { goal };
                let run = self.search(goal, len.min(EXTENT_MAX), true)?;
                if open {
                    self.stream = Some((run.0 + run.1).min(self.blocks - 1));
                }
                Some(run)
            }
            AllocationPurpose::Metadata => self.search(goal, len, false),
        }
    }

    /// Allocates from a shared preallocation: the nearest of the shortest that are long
    /// enough.
    fn allocate_shared(&mut self, goal: u32, len: u32) -> Option<BlockRun> {
        let first = order(len).min(SHARED_LISTS - 1);
        for list in first..SHARED_LISTS {
            let long_enough =
                self.shared[list].iter().enumerate().filter(|(_, shared)| shared.len >= len);
            if let Some((at, _)) = long_enough.min_by_key(|(_, shared)| shared.start.abs_diff(goal))
            {
                let SmallFileReserve { start, len: left } = self.shared[list].remove(at);
                self.keep(SmallFileReserve { start: start + len, len: left - len });
                return Some((start, len));
            }
        }
        let (start, found) = self.search(goal, SHARED_BLOCKS, true)?;
        let used = len.min(found);
        self.keep(SmallFileReserve { start: start + used, len: found - used });
        Some((start, used))
    }

    /// Stores a shared preallocation by length; frees the shortest of an overlong list.
    fn keep(&mut self, shared: SmallFileReserve) {
        if shared.len == 0 {
            return;
        }
        let list = &mut self.shared[order(shared.len).min(SHARED_LISTS - 1)];
        let at = list.partition_point(|other| other.len <= shared.len);
        list.insert(at, shared);
        if list.len() > SHARED_LIST_MAX {
            let excess = list.len() - SHARED_LIST_CUT;
            let gone: Vec<SmallFileReserve> = list.drain(..excess).collect();
            for SmallFileReserve { start, len } in gone {
                self.give(start, len);
            }
        }
    }

    /// A run of up to `len` blocks at the goal, or by the criteria of `mballoc`.
    fn search(&mut self, goal: u32, len: u32, data: bool) -> Option<BlockRun> {
        let (group, at) = ((goal / GROUP_BLOCKS) as usize, goal % GROUP_BLOCKS);
        // For metadata the goal only selects the group (`EXT4_MB_HINT_TRY_GOAL` is not
        // set).
        let at_goal = (data || !self.group_lists) && self.groups[group].extent_at(at, len) >= len;
        let run = if at_goal { (goal, len) } else { self.search_groups(group, len, data)? };
        self.take(run.0, run.1);
        Some(run)
    }

    /// Applies [`Criterion::LongRuns`] to groups, shortest sufficient mean run first.
    fn search_lists(&mut self, range: core::ops::Range<usize>, len: u32) -> Option<BlockRun> {
        let mut tried = None;
        loop {
            let next = range.clone().filter_map(|number| {
                let mean = self.groups[number].run_mean();
                let place = (list(mean), number);
                (mean >= len
                    && self.groups[number].may_hold(len)
                    && tried.is_none_or(|tried| place > tried))
                .then_some(place)
            });
            let (list, number) = next.min()?;
            if let Some((start, found)) = Criterion::LongRuns.find(&self.groups[number], len) {
                return Some((number as u32 * GROUP_BLOCKS + start, found));
            }
            self.groups[number].holds_none(len);
            tried = Some((list, number));
        }
    }

    fn search_groups(&mut self, first: usize, len: u32, data: bool) -> Option<BlockRun> {
        for criterion in Criterion::ALL {
            if criterion == Criterion::WholeBuddy
                && !(len.is_power_of_two() && len.ilog2() >= ORDER_MIN)
            {
                continue;
            }
            let groups = self.groups.len();
            if criterion == Criterion::LongRuns && self.group_lists {
                let found = self
                    .search_lists(first..groups, len)
                    .or_else(|| self.search_lists(0..first, len));
                if found.is_some() {
                    return found;
                }
                continue;
            }
            for i in 0..groups {
                let number = if first + i < groups { first + i } else { first + i - groups };
                let group = &self.groups[number];
                if !criterion.suits(group, number, len, data) {
                    continue;
                }
                if let Some((start, found)) = criterion.find(group, len) {
                    return Some((number as u32 * GROUP_BLOCKS + start, found));
                }
                if criterion.wants_whole_runs() {
                    self.groups[number].holds_none(len);
                }
            }
        }
        None
    }
}

/// List of groups with free runs of this mean length (`mb_avg_fragment_size_order`).
fn list(run_mean: u32) -> u32 {
    run_mean.max(2).ilog2() - 1
}

/// Requirements on a group and an extent in it, in decreasing order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Criterion {
    /// A whole buddy of the length (`CR_POWER2_ALIGNED`).
    WholeBuddy,
    /// A group whose mean free run is long enough (`CR_GOAL_LEN_FAST`).
    LongRuns,
    /// A group with enough free blocks (`CR_GOAL_LEN_SLOW`).
    EnoughFree,
    /// Anything (`CR_ANY_FREE`).
    Anything,
}

impl Criterion {
    const ALL: [Self; 4] = [Self::WholeBuddy, Self::LongRuns, Self::EnoughFree, Self::Anything];

    fn suits(self, group: &BlockGroup, number: usize, len: u32, data: bool) -> bool {
        if group.free() == 0 {
            return false;
        }
        match self {
            // The first group of a flexible group is reserved for directories while
            // possible.
            Self::WholeBuddy if data && number.is_multiple_of(FLEX as usize) => false,
            Self::WholeBuddy => {
                group.largest_order().is_some_and(|largest| largest >= len.ilog2() as usize)
            }
            Self::LongRuns => group.run_mean() >= len && group.may_hold(len),
            // A run contains a buddy of at least a quarter of its length.
            Self::EnoughFree => {
                group.free() >= len
                    && group.may_hold(len)
                    && group.largest_order().is_some_and(|largest| len >> largest < 4)
            }
            Self::Anything => true,
        }
    }

    /// True if only free runs of the full length qualify. Finds all of them.
    fn wants_whole_runs(self) -> bool {
        matches!(self, Self::LongRuns | Self::EnoughFree)
    }

    /// The extent selected by the criterion in a suitable group.
    fn find(self, group: &BlockGroup, len: u32) -> Option<BlockRun> {
        if self == Self::WholeBuddy {
            return group.buddy_of(len.ilog2() as usize).map(|start| (start, len));
        }
        let mut best: Option<BlockRun> = None;
        let mut compared = 0;
        let mut at = 0;
        while let Some(start) = group.next_free(at) {
            if self.wants_whole_runs() {
                // Runs that are too short are skipped without comparison.
                let end = group.next_used(start);
                if end - start < len {
                    at = end;
                    continue;
                }
            }
            let found = group.extent_at(start, len);
            at = start + found;
            compared += 1;
            if found == len {
                return Some((start, len));
            }
            let better = match best {
                None => true,
                Some((_, most)) if most < len => found > most,
                Some((_, least)) => found > len && found < least,
            };
            if better {
                best = Some((start, found));
            }
            let enough = best.is_some_and(|(_, best)| best >= len) && compared > COMPARED_ENOUGH;
            if enough || compared > COMPARED_MAX {
                break;
            }
        }
        best.map(|(start, found)| (start, found.min(len)))
            .filter(|(_, found)| *found == len || self == Self::Anything)
    }
}

fn order(len: u32) -> usize {
    len.ilog2() as usize
}

/// Calls `each(group, first block in it, blocks)` for the parts of a run.
pub fn split_by_group(start: u32, len: u32, mut each: impl FnMut(usize, u32, u32)) {
    let (mut at, mut left) = (start, len);
    while left > 0 {
        let inside = at % GROUP_BLOCKS;
        let n = left.min(GROUP_BLOCKS - inside);
        each((at / GROUP_BLOCKS) as usize, inside, n);
        at = at.wrapping_add(n);
        left -= n;
    }
}
