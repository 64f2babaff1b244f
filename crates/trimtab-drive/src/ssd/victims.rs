//! Victim selection: each policy with its fastest data structure.

use super::SuperblockState;
use crate::rng::CountedStream;
use crate::spec::VictimPolicy;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

/// Position of a superblock that is not in the victim list.
pub(super) const UNLISTED: u32 = u32::MAX;

/// Completely written superblocks, arranged for fast victim selection.
#[derive(Clone, Debug)]
pub(super) enum Victims {
    /// Fewest valid slots first.
    Greedy(Buckets),
    /// Oldest first.
    Fifo(VecDeque<u32>),
    /// Unordered; draws `samples` and takes the one with fewest valid slots.
    Drawn { list: Vec<u32>, samples: u32, rng: CountedStream },
    /// Scanned for the maximum of (1 - u) age / 2u.
    CostBenefit(Vec<u32>),
}

impl Victims {
    pub(super) fn new(policy: VictimPolicy, superblocks: u32, slots: u32, seed: u64) -> Self {
        let rng = CountedStream::new(seed, "gc victims");
        match policy {
            VictimPolicy::Greedy => Self::Greedy(Buckets::new(superblocks, slots)),
            VictimPolicy::Fifo => Self::Fifo(VecDeque::with_capacity(superblocks as usize)),
            VictimPolicy::Random => Self::Drawn { list: Vec::new(), samples: 1, rng },
            VictimPolicy::DChoices(samples) => Self::Drawn { list: Vec::new(), samples, rng },
            VictimPolicy::CostBenefit => Self::CostBenefit(Vec::new()),
        }
    }

    pub(super) fn insert(&mut self, blocks: &mut [SuperblockState], block: u32) {
        match self {
            Self::Greedy(buckets) => buckets.insert(blocks, block),
            Self::Fifo(queue) => {
                queue.push_back(block);
                blocks[block as usize].pos = 0;
            }
            Self::Drawn { list, .. } | Self::CostBenefit(list) => {
                blocks[block as usize].pos = list.len() as u32;
                list.push(block);
            }
        }
    }

    /// Subtracts `count` valid slots from `block`, listed or not.
    #[inline(always)]
    pub(super) fn invalidate(&mut self, blocks: &mut [SuperblockState], block: u32, count: u32) {
        let entry = &mut blocks[block as usize];
        match self {
            Self::Greedy(buckets) if entry.pos != UNLISTED => buckets.lower(blocks, block, count),
            // The dummy superblock 0 of unmapped units wraps below zero; its count is
            // unused.
            _ => entry.valid = entry.valid.wrapping_sub(count),
        }
    }

    /// Removes and returns the next victim; `now` is on the age clock of `stamps`.
    pub(super) fn take(
        &mut self,
        blocks: &mut [SuperblockState],
        stamps: &[u32],
        slots: u32,
        now: u32,
    ) -> Option<u32> {
        match self {
            Self::Greedy(buckets) => buckets.pop(blocks),
            Self::Fifo(queue) => {
                let block = queue.pop_front()?;
                blocks[block as usize].pos = UNLISTED;
                Some(block)
            }
            Self::Drawn { list, samples, rng } => {
                let mut best: Option<u32> = None;
                for _ in 0..*samples {
                    let block = *list.get(rng.below(list.len() as u64) as usize)?;
                    if best.is_none_or(|best| {
                        blocks[block as usize].valid < blocks[best as usize].valid
                    }) {
                        best = Some(block);
                    }
                }
                let block = best?;
                swap_out(list, blocks, block);
                Some(block)
            }
            Self::CostBenefit(list) => {
                let block = cost_benefit(list, blocks, stamps, slots, now)?;
                swap_out(list, blocks, block);
                Some(block)
            }
        }
    }

    /// True if a victim without stale slots means that there are none anywhere.
    pub(super) const fn knows_best(&self) -> bool {
        matches!(self, Self::Greedy(_) | Self::CostBenefit(_))
    }

    /// Valid slots of the next victim under FIFO, otherwise the fewest of any listed
    /// superblock.
    pub(super) fn peek_valid(&self, blocks: &[SuperblockState]) -> Option<u32> {
        match self {
            Self::Greedy(buckets) => buckets.peek().map(|block| blocks[block as usize].valid),
            Self::Fifo(queue) => queue.front().map(|block| blocks[*block as usize].valid),
            Self::Drawn { list, .. } | Self::CostBenefit(list) => {
                list.iter().map(|block| blocks[*block as usize].valid).min()
            }
        }
    }

    pub(super) fn remove(&mut self, blocks: &mut [SuperblockState], block: u32) {
        match self {
            Self::Greedy(buckets) => buckets.remove(blocks, block),
            Self::Fifo(queue) => {
                queue.retain(|other| *other != block);
                blocks[block as usize].pos = UNLISTED;
            }
            Self::Drawn { list, .. } | Self::CostBenefit(list) => swap_out(list, blocks, block),
        }
    }
}

fn swap_out(list: &mut Vec<u32>, blocks: &mut [SuperblockState], block: u32) {
    let at = blocks[block as usize].pos as usize;
    list.swap_remove(at);
    if let Some(moved) = list.get(at) {
        blocks[*moved as usize].pos = at as u32;
    }
    blocks[block as usize].pos = UNLISTED;
}

fn cost_benefit(
    list: &[u32],
    blocks: &[SuperblockState],
    stamps: &[u32],
    slots: u32,
    now: u32,
) -> Option<u32> {
    let mut best = None;
    let mut best_score = -1.0_f64;
    for &block in list {
        let valid = f64::from(blocks[block as usize].valid);
        let age = f64::from(now.wrapping_sub(stamps[block as usize])) + 1.0;
        // A victim without valid slots costs only the erase, as every victim does.
        let score = if valid == 0.0 {
            f64::INFINITY
        } else {
            (f64::from(slots) - valid) * age / (2.0 * valid)
        };
        if score > best_score {
            (best, best_score) = (Some(block), score);
        }
    }
    best
}

/// Superblocks sorted by valid slots in a ring that is consumed from the front. One swap
/// lowers a count by one; taking the emptiest advances a cursor. `starts[c]` is the first
/// position with `c` valid slots; positions before the cursor count as the cursor.
#[derive(Clone, Debug)]
pub(super) struct Buckets {
    pub(super) ring: Vec<u32>,
    pub(super) mask: u32,
    pub(super) begin: u32,
    pub(super) end: u32,
    pub(super) starts: Vec<u32>,
}

impl Buckets {
    pub(super) fn new(superblocks: u32, slots: u32) -> Self {
        let len = (superblocks + 1).next_power_of_two();
        Self {
            ring: vec![0; len as usize],
            mask: len - 1,
            begin: 0,
            end: 0,
            starts: vec![0; slots as usize + 1],
        }
    }

    /// First position with `count` valid slots.
    #[inline(always)]
    fn start(&self, count: u32) -> u32 {
        self.starts[count as usize].max(self.begin)
    }

    fn insert(&mut self, blocks: &mut [SuperblockState], block: u32) {
        if self.end >= u32::MAX - 1 {
            self.rebase(blocks);
        }
        let valid = blocks[block as usize].valid;
        let mut hole = self.end;
        self.end += 1;
        for count in (valid + 1..self.starts.len() as u32).rev() {
            hole = self.shift(blocks, count, hole);
        }
        self.put(blocks, block, hole);
    }

    /// Moves the start of bucket `count` up by one and its first superblock to `hole`
    /// behind the bucket, or into the place of the superblock being moved if that is one
    /// of them. Returns the new hole.
    #[inline(always)]
    fn shift(&mut self, blocks: &mut [SuperblockState], count: u32, hole: u32) -> u32 {
        let start = self.start(count);
        if start != hole {
            let moved = self.ring[(start & self.mask) as usize];
            self.put(blocks, moved, hole);
        }
        self.starts[count as usize] = start + 1;
        start
    }

    #[inline(always)]
    fn put(&mut self, blocks: &mut [SuperblockState], block: u32, at: u32) {
        self.ring[(at & self.mask) as usize] = block;
        blocks[block as usize].pos = at;
    }

    #[inline(always)]
    fn lower(&mut self, blocks: &mut [SuperblockState], block: u32, by: u32) {
        let SuperblockState { mut valid, pos: mut hole } = blocks[block as usize];
        for _ in 0..by {
            hole = self.shift(blocks, valid, hole);
            valid -= 1;
        }
        self.put(blocks, block, hole);
        blocks[block as usize].valid = valid;
    }

    fn peek(&self) -> Option<u32> {
        (self.begin != self.end).then(|| self.ring[(self.begin & self.mask) as usize])
    }

    fn pop(&mut self, blocks: &mut [SuperblockState]) -> Option<u32> {
        let block = self.peek()?;
        self.begin += 1;
        blocks[block as usize].pos = UNLISTED;
        Some(block)
    }

    fn remove(&mut self, blocks: &mut [SuperblockState], block: u32) {
        let entry = blocks[block as usize];
        let mut hole = entry.pos;
        for count in entry.valid..self.starts.len() as u32 {
            // The last superblock of this bucket fills the hole, so the next starts one
            // earlier.
            let end =
                self.starts.get(count as usize + 1).map_or(self.end, |_| self.start(count + 1));
            let last = end - 1;
            if last != hole {
                let moved = self.ring[(last & self.mask) as usize];
                self.put(blocks, moved, hole);
            }
            hole = last;
            match self.starts.get_mut(count as usize + 1) {
                Some(start) => *start = last,
                None => self.end = last,
            }
        }
        blocks[block as usize].pos = UNLISTED;
    }

    /// Renumbers positions from 0; needed once in four thousand million superblocks.
    fn rebase(&mut self, blocks: &mut [SuperblockState]) {
        let live: Vec<u32> =
            (self.begin..self.end).map(|at| self.ring[(at & self.mask) as usize]).collect();
        for count in 0..self.starts.len() as u32 {
            self.starts[count as usize] = self.start(count) - self.begin;
        }
        (self.begin, self.end) = (0, live.len() as u32);
        for (at, block) in live.into_iter().enumerate() {
            self.put(blocks, block, at as u32);
        }
    }
}
