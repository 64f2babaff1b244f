//! One block group: its bitmap, and its free space in ext4's buddy system.
//!
//! The buddy of a free block is the largest aligned power of two of free blocks around
//! it. ext4 keeps a bitmap per order. This model derives the orders from the bounds of
//! the free run and keeps only their counts.

use alloc::vec;
use alloc::vec::Vec;

/// Blocks per group: the bits of one bitmap block.
pub const GROUP_BLOCKS: u32 = 32_768;
/// Buddy orders: 1 to 8192 blocks (`MB_NUM_ORDERS` for blocks of 4 KiB).
pub const ORDERS: usize = 14;

/// In-memory state of a group. A set bit is a block in use, preallocated or being freed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockGroup {
    words: Vec<u64>,
    blocks: u32,
    free: u32,
    runs: u32,
    /// Free buddies of each order.
    orders: [u32; ORDERS],
    /// No lower block is free.
    first_free: u32,
    /// Upper bound on the longest free run, from the last search and later frees.
    run_max: u32,
    /// All free space is trimmed since mount (`EXT4_GROUP_INFO_WAS_TRIMMED`).
    pub trimmed: bool,
    /// Something was freed since a trim by size began here.
    pub touched: bool,
}

impl BlockGroup {
    /// A group of `blocks` free blocks.
    #[must_use]
    pub fn new(blocks: u32) -> Self {
        assert!(
            blocks > 0 && blocks <= GROUP_BLOCKS,
            "a group has 1 to {GROUP_BLOCKS} blocks, not {blocks}"
        );
        let mut words = vec![0; GROUP_BLOCKS as usize / 64];
        // Blocks past the end are permanently in use, so searches need no length check.
        for block in blocks..GROUP_BLOCKS {
            words[block as usize / 64] |= 1 << (block % 64);
        }
        let mut group = Self {
            words,
            blocks,
            free: blocks,
            runs: 1,
            orders: [0; ORDERS],
            first_free: 0,
            run_max: blocks,
            trimmed: false,
            touched: false,
        };
        group.count_buddies(0, blocks, true);
        group
    }

    /// Records that untrimmed space was freed.
    pub const fn mark_freed(&mut self) {
        (self.trimmed, self.touched) = (false, true);
    }

    #[must_use]
    pub const fn free(&self) -> u32 {
        self.free
    }

    /// Mean length of free runs; 0 if none is free.
    #[must_use]
    pub const fn run_mean(&self) -> u32 {
        match self.free.checked_div(self.runs) {
            Some(mean) => mean,
            None => 0,
        }
    }

    /// False if the group is known to have no free run of `len` blocks.
    #[must_use]
    pub const fn may_hold(&self, len: u32) -> bool {
        self.run_max >= len
    }

    /// Records that a full search found no free run of `len` blocks.
    pub fn holds_none(&mut self, len: u32) {
        debug_assert!(
            self.runs_from(0, GROUP_BLOCKS).all(|(_, run)| run < len),
            "there is a run of {len} blocks"
        );
        self.run_max = self.run_max.min(len - 1);
    }

    /// Order of the largest buddy; `None` if nothing is free.
    #[must_use]
    pub fn largest_order(&self) -> Option<usize> {
        self.orders.iter().rposition(|n| *n > 0)
    }

    #[must_use]
    pub fn is_free(&self, block: u32) -> bool {
        self.words[block as usize / 64] >> (block % 64) & 1 == 0
    }

    /// First free block from `from`.
    #[must_use]
    pub fn next_free(&self, from: u32) -> Option<u32> {
        let from = from.max(self.first_free);
        self.scan(from, |word| !word)
    }

    /// First block in use from `from`, or the end of the group.
    #[must_use]
    pub fn next_used(&self, from: u32) -> u32 {
        self.scan(from, |word| word).unwrap_or(GROUP_BLOCKS)
    }

    /// Runs of blocks in use, as start and length; ascending.
    pub fn used_runs(&self) -> impl Iterator<Item = (u32, u32)> {
        let mut at = 0;
        core::iter::from_fn(move || {
            let start = self.next_used(at);
            at = self.next_free(start).unwrap_or(self.blocks);
            (start < self.blocks).then(|| (start, at - start))
        })
    }

    fn scan(&self, from: u32, bits: impl Fn(u64) -> u64) -> Option<u32> {
        let mut at = from as usize / 64;
        let first = bits(*self.words.get(at)?) & (u64::MAX << (from % 64));
        let mut word = first;
        while word == 0 {
            at += 1;
            word = bits(*self.words.get(at)?);
        }
        Some(at as u32 * 64 + word.trailing_zeros())
    }

    fn run_around(&self, block: u32) -> (u32, u32) {
        let mut at = block as usize / 64;
        let mut word = self.words[at] & ((1 << (block % 64)) - 1);
        while word == 0 && at > 0 {
            at -= 1;
            word = self.words[at];
        }
        let start = if word == 0 { 0 } else { at as u32 * 64 + 64 - word.leading_zeros() };
        (start, self.next_used(block))
    }

    /// Allocates `len` free blocks from `start`.
    pub fn take(&mut self, start: u32, len: u32) {
        let (from, to) = self.run_around(start);
        assert!(
            self.is_free(start) && len > 0 && start + len <= to,
            "blocks {start}+{len} are not all free"
        );
        self.count_buddies(from, to, false);
        self.count_buddies(from, start, true);
        self.count_buddies(start + len, to, true);
        self.set(start, len);
        self.free -= len;
        self.runs = self.runs - 1 + u32::from(from < start) + u32::from(start + len < to);
        if start <= self.first_free {
            self.first_free = self.first_free.max(start + len);
        }
    }

    /// Frees `len` blocks in use from `start`.
    pub fn give(&mut self, start: u32, len: u32) {
        assert!(len > 0 && start + len <= self.blocks, "blocks {start}+{len} are not in the group");
        assert!(
            self.scan(start, |word| !word).is_none_or(|free| free >= start + len),
            "blocks {start}+{len} are not all in use"
        );
        let before =
            if start > 0 && self.is_free(start - 1) { self.run_around(start - 1).0 } else { start };
        let end = start + len;
        let after = if end < self.blocks && self.is_free(end) { self.next_used(end) } else { end };
        self.count_buddies(before, start, false);
        self.count_buddies(end, after, false);
        self.count_buddies(before, after, true);
        self.clear(start, len);
        self.free += len;
        self.runs = self.runs + 1 - u32::from(before < start) - u32::from(end < after);
        self.first_free = self.first_free.min(start);
        self.run_max = self.run_max.max(after - before);
    }

    fn set(&mut self, start: u32, len: u32) {
        for_each_word(start, len, |at, mask| self.words[at] |= mask);
    }

    fn clear(&mut self, start: u32, len: u32) {
        for_each_word(start, len, |at, mask| self.words[at] &= !mask);
    }

    /// Adds the buddies of the free run `from..to` to the counts, or removes them.
    fn count_buddies(&mut self, from: u32, to: u32, add: bool) {
        let mut at = from;
        while at < to {
            let order = buddy_order(at, to);
            if add {
                self.orders[order] += 1;
            } else {
                self.orders[order] -= 1;
            }
            at += 1 << order;
        }
    }

    /// Length of the buddies from the free block `start` that are needed for `needed`
    /// blocks, as in `mb_find_extent`. Ends at the end of a buddy or of the run.
    #[must_use]
    pub fn extent_at(&self, start: u32, needed: u32) -> u32 {
        if !self.is_free(start) {
            return 0;
        }
        let (from, to) = self.run_around(start);
        let mut at = from;
        // The buddy that contains `start`.
        while at + (1 << buddy_order(at, to)) <= start {
            at += 1 << buddy_order(at, to);
        }
        let mut end = at + (1 << buddy_order(at, to));
        while end - start < needed && end < to {
            end += 1 << buddy_order(end, to);
        }
        end - start
    }

    /// First buddy of the smallest available order of at least `order`.
    #[must_use]
    pub fn buddy_of(&self, order: usize) -> Option<u32> {
        let order = (order..ORDERS).find(|order| self.orders[*order] > 0)?;
        let mut from = self.next_free(0)?;
        loop {
            let to = self.next_used(from);
            let mut at = from;
            while at < to {
                let found = buddy_order(at, to);
                if found == order {
                    return Some(at);
                }
                at += 1 << found;
            }
            from = self.next_free(to)?;
        }
    }

    /// Free runs in `from..to`, cut at `from` but not at `to`: the extents of a trim.
    pub fn runs_from(&self, from: u32, to: u32) -> impl Iterator<Item = (u32, u32)> + '_ {
        let mut at = from;
        core::iter::from_fn(move || {
            let start = self.next_free(at).filter(|start| *start < to)?;
            let end = self.next_used(start);
            at = end;
            Some((start, end - start))
        })
    }
}

/// Order of the buddy that begins at `at` in a free run that ends at `to`.
fn buddy_order(at: u32, to: u32) -> usize {
    let aligned = if at == 0 { ORDERS - 1 } else { at.trailing_zeros() as usize };
    let fits = (31 - (to - at).leading_zeros()) as usize;
    aligned.min(fits).min(ORDERS - 1)
}

fn for_each_word(start: u32, len: u32, mut each: impl FnMut(usize, u64)) {
    let (mut at, end) = (start, start + len);
    while at < end {
        let bit = at % 64;
        let n = (64 - bit).min(end - at);
        let mask = if n == 64 { u64::MAX } else { ((1 << n) - 1) << bit };
        each(at as usize / 64, mask);
        at += n;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trimtab_drive::rng::Stream;

    impl BlockGroup {
        pub const fn blocks(&self) -> u32 {
            self.blocks
        }

        /// The counts computed from the bitmap.
        pub fn recounted(&self) -> Self {
            let mut fresh = Self { free: 0, runs: 0, orders: [0; ORDERS], ..self.clone() };
            for (start, len) in self.runs_from(0, GROUP_BLOCKS).collect::<Vec<_>>() {
                fresh.free += len;
                fresh.runs += 1;
                fresh.count_buddies(start, start + len, true);
            }
            fresh
        }
    }

    #[test]
    fn buddies_are_the_largest_aligned_powers_of_two() {
        let mut group = BlockGroup::new(GROUP_BLOCKS);
        assert_eq!(group.orders[ORDERS - 1], 4);
        group.take(0, 513);
        // 513, 514.., 516.., 520 … 1024, 2048, 4096, 8192 …
        assert_eq!(group.buddy_of(0), Some(513));
        assert_eq!(
            group.buddy_of(9),
            Some(1024),
            "no buddy of 512 blocks, so the first of 1024 is split"
        );
        assert_eq!(group.extent_at(513, 1), 1);
        assert_eq!(group.extent_at(513, 2), 3);
        assert_eq!(group.extent_at(514, 2), 2);
        assert_eq!(group.extent_at(600, 1), 40, "the buddy 576+64 from 600 on");
        assert_eq!(group.extent_at(600, 41), 40 + 128);
        assert_eq!(group.extent_at(0, 1), 0);
        assert_eq!(group.extent_at(513, GROUP_BLOCKS), GROUP_BLOCKS - 513);
    }

    #[test]
    fn counts_match_bitmap_after_any_take_and_give() {
        let mut rng = Stream::new(1, "group");
        let mut group = BlockGroup::new(30_000);
        let mut taken: Vec<(u32, u32)> = Vec::new();
        for i in 0..4000 {
            if rng.chance(0.6) {
                let from = rng.below(30_000) as u32;
                if let Some(start) = group.next_free(from) {
                    let len = (1 + rng.below(200) as u32).min(group.next_used(start) - start);
                    group.take(start, len);
                    taken.push((start, len));
                }
            } else if !taken.is_empty() {
                let (start, len) = taken.swap_remove(rng.below(taken.len() as u64) as usize);
                group.give(start, len);
            }
            if i % 50 == 0 {
                assert_eq!(group, group.recounted());
                assert_eq!(group.free(), 30_000 - taken.iter().map(|(_, len)| len).sum::<u32>());
            }
        }
    }

    #[test]
    #[should_panic(expected = "not all in use")]
    fn give_of_free_blocks_panics() {
        let mut group = BlockGroup::new(100);
        group.take(10, 10);
        group.give(12, 2);
        group.give(10, 10);
    }

    #[test]
    #[should_panic(expected = "not all free")]
    fn take_of_used_blocks_panics() {
        let mut group = BlockGroup::new(100);
        group.take(10, 10);
        group.take(5, 6);
    }
}
