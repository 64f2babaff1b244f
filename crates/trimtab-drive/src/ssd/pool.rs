//! Erased superblocks, erase counts and wear-out.

use crate::spec::Wear;
use crate::spec::layout::SsdLayout;
use alloc::collections::BinaryHeap;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

/// Free superblocks per group of dies, and the wear of all superblocks.
#[derive(Clone, Debug)]
pub(super) struct Pool {
    /// Per group: erases (0 without dynamic wear levelling), release order, superblock.
    pub(super) heaps: Vec<BinaryHeap<Reverse<(u32, u64, u32)>>>,
    free: u32,
    released: u64,
    /// Erases per superblock, from index 1.
    pub(super) erases: Vec<u32>,
    wear: Wear,
    limit_seed: u64,
    /// Number of worn-out superblocks, followed by a flag for each.
    pub(super) worn_out: u32,
    pub(super) retired: Vec<bool>,
    pub(super) erases_max: u32,
}

impl Pool {
    pub(super) fn new(layout: &SsdLayout, wear: &Wear, seed: u64) -> Self {
        let mut pool = Self {
            heaps: vec![BinaryHeap::new(); layout.groups as usize],
            free: 0,
            released: 0,
            erases: vec![0; layout.superblocks as usize + 1],
            wear: wear.clone(),
            limit_seed: crate::rng::derive_seed(seed, "erase limits"),
            worn_out: 0,
            retired: vec![false; layout.superblocks as usize + 1],
            erases_max: 0,
        };
        for block in 1..=layout.superblocks {
            pool.release(block);
        }
        pool
    }

    #[inline]
    pub(super) const fn free(&self) -> u32 {
        self.free
    }

    pub(super) fn group(&self, block: u32) -> u32 {
        (block - 1) % self.heaps.len() as u32
    }

    pub(super) fn has_free(&self, group: u32) -> bool {
        !self.heaps[group as usize].is_empty()
    }

    /// Takes a free superblock, from `group` if it has one, otherwise from the group with
    /// most.
    pub(super) fn take(&mut self, group: Option<u32>) -> Option<u32> {
        let group = match group {
            Some(group) if !self.heaps[group as usize].is_empty() => group as usize,
            _ => (0..self.heaps.len())
                .max_by_key(|group| (self.heaps[*group].len(), Reverse(*group)))?,
        };
        let Reverse((_, _, block)) = self.heaps[group].pop()?;
        self.free -= 1;
        Some(block)
    }

    pub(super) fn release(&mut self, block: u32) {
        let worn = if self.wear.dynamic { self.erases[block as usize] } else { 0 };
        let group = self.group(block);
        self.heaps[group as usize].push(Reverse((worn, self.released, block)));
        self.released += 1;
        self.free += 1;
    }

    /// Erases `block`. Returns false if it wore out and must not be used again. The last
    /// free superblock is kept for the running collection and retires at its next erase;
    /// [`reserve`](Self::reserve) makes that rare.
    pub(super) fn erase(&mut self, block: u32) -> bool {
        let erases = &mut self.erases[block as usize];
        *erases = erases.saturating_add(1);
        self.erases_max = self.erases_max.max(*erases);
        if self.wear.erase_limit.is_some() && *erases >= self.limit(block) && self.free > 0 {
            self.worn_out += 1;
            self.retired[block as usize] = true;
            return false;
        }
        self.release(block);
        true
    }

    /// Superblocks that collection keeps free beyond its watermarks, so that the last
    /// free one rarely wears out. Zero until a superblock nears its end of life.
    pub(super) fn reserve(&self) -> u32 {
        u32::from(self.wear.erase_limit.is_some_and(|limit| {
            u64::from(self.erases_max) + 1 >= u64::from(limit) - self.spread(limit)
        }))
    }

    /// Maximum deviation of an individual erase limit from `limit`.
    fn spread(&self, limit: u32) -> u64 {
        u64::from(limit) * u64::from(self.wear.erase_limit_spread_permille) / 1000
    }

    /// Erases that `block` survives.
    fn limit(&self, block: u32) -> u32 {
        let Some(limit) = self.wear.erase_limit else { return u32::MAX };
        let spread = self.spread(limit);
        let drawn = crate::rng::CountedStream { seed: self.limit_seed, drawn: u64::from(block) }
            .below(2 * spread + 1);
        u32::try_from(u64::from(limit) - spread + drawn).unwrap_or(u32::MAX).max(1)
    }

    #[cfg(test)]
    pub(super) const fn released(&self) -> u64 {
        self.released
    }
}
