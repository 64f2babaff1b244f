//! One block group: its bitmap, and the free space in it as the buddy system of ext4 sees it.
//!
//! The buddy of a free block is the largest aligned power of two of free blocks around it. ext4 keeps a bitmap for each order; here the
//! orders follow from the bounds of the free run that a block is in, and only their counts are kept.

use alloc::vec;
use alloc::vec::Vec;

/// Blocks in a group: as many as one bitmap block has bits.
pub const GROUP_BLOCKS: u32 = 32_768;
/// Orders of buddies: 1 to 8192 blocks (`MB_NUM_ORDERS` for blocks of 4 KiB).
pub const ORDERS: usize = 14;

/// The in-memory state of a group. A set bit is a block in use, or held back: preallocated, freed but not committed, being discarded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    words: Vec<u64>,
    blocks: u32,
    free: u32,
    /// Free runs.
    runs: u32,
    /// Free buddies of each order.
    orders: [u32; ORDERS],
    /// No block below is free.
    first_free: u32,
    /// No free run is longer. How long the longest is, nobody counts: this is what was last found out, and what became longer since.
    run_max: u32,
    /// All its free space has been trimmed since the volume was mounted, and nothing freed since (`EXT4_GROUP_INFO_WAS_TRIMMED`).
    pub trimmed: bool,
    /// Something was freed since a trim by sizes began here.
    pub touched: bool,
}

impl Group {
    /// A group of `blocks` free blocks.
    #[must_use]
    pub fn new(blocks: u32) -> Self {
        assert!(blocks > 0 && blocks <= GROUP_BLOCKS, "a group has 1 to {GROUP_BLOCKS} blocks, not {blocks}");
        let mut words = vec![0; GROUP_BLOCKS as usize / 64];
        // Blocks past the end are in use for good, so that no search has to look at the length.
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

    /// Something in it was freed that no trim knows of.
    pub const fn mark_freed(&mut self) {
        (self.trimmed, self.touched) = (false, true);
    }

    /// Blocks in the group.
    #[cfg(test)]
    pub const fn blocks(&self) -> u32 {
        self.blocks
    }

    /// Free blocks.
    #[must_use]
    pub const fn free(&self) -> u32 {
        self.free
    }

    /// Blocks in the average free run; 0 if none is free.
    #[must_use]
    pub const fn run_mean(&self) -> u32 {
        match self.free.checked_div(self.runs) {
            Some(mean) => mean,
            None => 0,
        }
    }

    /// Whether a free run of `len` blocks is not known to be missing.
    #[must_use]
    pub const fn may_hold(&self, len: u32) -> bool {
        self.run_max >= len
    }

    /// Notes that all of the group was searched and no free run of `len` blocks found.
    pub fn holds_none(&mut self, len: u32) {
        debug_assert!(self.runs_from(0, GROUP_BLOCKS).all(|(_, run)| run < len), "there is a run of {len} blocks");
        self.run_max = self.run_max.min(len - 1);
    }

    /// The order of the largest buddy; `None` if nothing is free.
    #[must_use]
    pub fn largest_order(&self) -> Option<usize> {
        self.orders.iter().rposition(|n| *n > 0)
    }

    /// Whether the block is free.
    #[must_use]
    pub fn is_free(&self, block: u32) -> bool {
        self.words[block as usize / 64] >> (block % 64) & 1 == 0
    }

    /// The first free block from `from` on.
    #[must_use]
    pub fn next_free(&self, from: u32) -> Option<u32> {
        let from = from.max(self.first_free);
        self.scan(from, |word| !word)
    }

    /// The first block in use from `from` on, or the end of the group.
    #[must_use]
    pub fn next_used(&self, from: u32) -> u32 {
        self.scan(from, |word| word).unwrap_or(GROUP_BLOCKS)
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

    /// Bounds of the free run around a free block.
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

    /// Takes `len` blocks from `start` on, all of which are free.
    pub fn take(&mut self, start: u32, len: u32) {
        let (from, to) = self.run_around(start);
        assert!(self.is_free(start) && len > 0 && start + len <= to, "blocks {start}+{len} are not all free");
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

    /// Gives back `len` blocks from `start` on, all of which are in use.
    pub fn give(&mut self, start: u32, len: u32) {
        assert!(len > 0 && start + len <= self.blocks, "blocks {start}+{len} are not in the group");
        assert!(self.scan(start, |word| !word).is_none_or(|free| free >= start + len), "blocks {start}+{len} are not all in use");
        let before = if start > 0 && self.is_free(start - 1) { self.run_around(start - 1).0 } else { start };
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

    /// Adds or removes the buddies of the free run `from..to` to or from the counts.
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

    /// How many blocks from the free block `start` on the buddies hold that are needed for `needed` blocks: what `mb_find_extent` finds. Ends at
    /// the end of a buddy, or of the run.
    #[must_use]
    pub fn extent_at(&self, start: u32, needed: u32) -> u32 {
        if !self.is_free(start) {
            return 0;
        }
        let (from, to) = self.run_around(start);
        let mut at = from;
        // The buddy that holds `start`.
        while at + (1 << buddy_order(at, to)) <= start {
            at += 1 << buddy_order(at, to);
        }
        let mut end = at + (1 << buddy_order(at, to));
        while end - start < needed && end < to {
            end += 1 << buddy_order(end, to);
        }
        end - start
    }

    /// The first buddy of the least order from `order` on that there is.
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

    /// Free runs that touch `from..to`, each cut at `from` but not at `to`: what trimming that range covers.
    pub fn runs_from(&self, from: u32, to: u32) -> impl Iterator<Item = (u32, u32)> + '_ {
        let mut at = from;
        core::iter::from_fn(move || {
            let start = self.next_free(at).filter(|start| *start < to)?;
            let end = self.next_used(start);
            at = end;
            Some((start, end - start))
        })
    }

    /// What the counts must be, counted again.
    #[cfg(test)]
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

/// The order of the buddy that begins at `at` in a free run that ends at `to`, if `at` is where a buddy of that run can begin.
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

    #[test]
    fn buddies_are_the_largest_aligned_powers_of_two() {
        let mut group = Group::new(GROUP_BLOCKS);
        assert_eq!(group.orders[ORDERS - 1], 4);
        group.take(0, 513);
        // 513, 514.., 516.., 520 … 1024, 2048, 4096, 8192 …
        assert_eq!(group.buddy_of(0), Some(513));
        assert_eq!(group.buddy_of(9), Some(1024), "there is none of 512 blocks, so the first of 1024 is split");
        assert_eq!(group.extent_at(513, 1), 1);
        assert_eq!(group.extent_at(513, 2), 3);
        assert_eq!(group.extent_at(514, 2), 2);
        assert_eq!(group.extent_at(600, 1), 40, "the buddy 576+64 from 600 on");
        assert_eq!(group.extent_at(600, 41), 40 + 128);
        assert_eq!(group.extent_at(0, 1), 0);
        assert_eq!(group.extent_at(513, GROUP_BLOCKS), GROUP_BLOCKS - 513);
    }

    #[test]
    fn counts_stay_right_whatever_is_taken_and_given() {
        let mut rng = Stream::new(1, "group");
        let mut group = Group::new(30_000);
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
    fn nothing_is_given_back_twice() {
        let mut group = Group::new(100);
        group.take(10, 10);
        group.give(12, 2);
        group.give(10, 10);
    }

    #[test]
    #[should_panic(expected = "not all free")]
    fn nothing_is_taken_twice() {
        let mut group = Group::new(100);
        group.take(10, 10);
        group.take(5, 6);
    }
}
