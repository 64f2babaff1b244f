//! Internal data movement: garbage collection, SLC folding and wear levelling.

use super::clock::{Clock, FILLING, FlashWork};
use super::ftl::{Ftl, HOST, SLC};
use super::victims::UNLISTED;
use super::{SuperblockState, TRIMMED};
use crate::prefetch::prefetch;
use crate::spec::{SlcFull, SlcSize};

/// Prefetch distance of relocation in map entries.
const PREFETCH_AHEAD: usize = 24;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    Gc,
    Fold,
    Wear,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GcContext {
    /// Host writes carry the time.
    Foreground,
    /// Runs in idle time.
    Idle,
}

impl Ftl {
    fn gc_frontier(&self) -> usize {
        let host = self.host_frontiers();
        if self.frontiers.len() > host { host } else { self.turn[HOST] as usize }
    }

    /// Levels wear and collects garbage up to the watermarks. A superblock open at
    /// frontier `at` with room for `slots` slots counts as free.
    pub(super) fn make_room(&mut self, clock: &mut Clock, at: usize, slots: u32, now: u64) {
        while self.slc_used > self.slc_limit()
            && self.fold_oldest(clock, now, GcContext::Foreground)
        {}
        self.level_wear(clock, now);
        let reserve = self.pool.reserve();
        if self.pool.free() >= self.gc.free_low + reserve {
            return;
        }
        // Random victims may free nothing; a long series of these is practically
        // impossible.
        for _ in 0..64 * u64::from(self.layout.superblocks) {
            if self.pool.free() + u32::from(self.frontiers[at].has_room(slots))
                >= self.gc.free_high + reserve
            {
                break;
            }
            if !self.collect_next(clock, now, GcContext::Foreground)
                && !self.fold_oldest(clock, now, GcContext::Foreground)
            {
                break;
            }
        }
    }

    /// Collects the policy's next victim; false if none would free space.
    pub(super) fn collect_next(&mut self, clock: &mut Clock, now: u64, context: GcContext) -> bool {
        let stamp = self.stamp();
        let Some(block) =
            self.victims.take(&mut self.blocks, &self.stamps, self.layout.superblock_slots, stamp)
        else {
            return false;
        };
        let full = self.blocks[block as usize].valid == self.layout.superblock_slots;
        if (full && self.victims.knows_best()) || self.stale_slots() == 0 {
            self.victims.insert(&mut self.blocks, block);
            return false;
        }
        self.relocate(clock, block, Cause::Gc, context, now);
        true
    }

    pub(super) fn stale_slots(&self) -> u64 {
        let usable = u64::from(self.layout.superblocks - self.pool.worn_out)
            * u64::from(self.layout.superblock_slots);
        let valid = match &self.packed {
            None => self.mapped,
            Some(packed) => packed.valid_slots,
        };
        let in_slc = u64::from(self.slc_used)
            * u64::from(self.layout.superblock_slots - self.layout.slc_superblock_slots);
        usable.saturating_sub(self.free_slots).saturating_sub(valid).saturating_sub(in_slc)
    }

    /// Collects a superblock with too few erases, even if full of valid data. Runs once
    /// every few erases, so that little-used superblocks catch up. Scans for candidates
    /// at most once per `superblocks / 8` erases.
    fn level_wear(&mut self, clock: &mut Clock, now: u64) {
        let Some(spread_max) = self.static_spread_max else { return };
        let erases = self.counters.erases;
        if self.to_level.is_empty() {
            if erases < self.levelled_at + u64::from(self.layout.superblocks / 8) {
                return;
            }
            self.levelled_at = erases;
            self.find_unworn(spread_max);
        }
        if erases < self.levelled_at + u64::from(spread_max / 16) {
            return;
        }
        self.levelled_at = erases;
        while let Some(block) = self.to_level.pop() {
            let listed = self.blocks[block as usize].pos != UNLISTED;
            if listed
                && self.pool.erases_max - self.pool.erases[block as usize] > spread_max
                && self.pool.free() > 0
            {
                self.victims.remove(&mut self.blocks, block);
                self.relocate(clock, block, Cause::Wear, GcContext::Foreground, now);
                return;
            }
        }
    }

    /// Collects wear-levelling candidates, the most worn first.
    fn find_unworn(&mut self, spread_max: u32) {
        let Some(enough) = self.pool.erases_max.checked_sub(spread_max) else { return };
        let (blocks, erases) = (&self.blocks, &self.pool.erases);
        let unworn = |block: &u32| {
            blocks[*block as usize].pos != UNLISTED && erases[*block as usize] < enough
        };
        self.to_level.extend((1..=self.layout.superblocks).filter(unworn));
        self.to_level.sort_by_key(|block| core::cmp::Reverse(erases[*block as usize]));
    }

    /// Current maximum number of superblocks in the SLC cache.
    pub(super) fn slc_limit(&self) -> u32 {
        match self.slc.as_ref().map(|slc| slc.size) {
            None => 0,
            Some(SlcSize::Fixed { .. }) => self.layout.slc_superblocks_min,
            Some(SlcSize::Dynamic { .. }) => {
                let unmapped = (u64::from(self.layout.units) - self.mapped)
                    / u64::from(self.layout.superblock_slots);
                let limit = u64::from(self.layout.slc_superblocks_min) + unmapped;
                limit.min(u64::from(self.layout.slc_superblocks_max)) as u32
            }
        }
    }

    /// True if the next fresh data go to the SLC cache.
    pub(super) fn slc_accepts(&self) -> bool {
        let at = SLC * self.layout.groups as usize + self.turn[SLC] as usize;
        let folds = self.slc.as_ref().is_some_and(|slc| slc.when_full == SlcFull::FoldFirst);
        self.frontiers[at].is_open()
            || self.slc_used < self.slc_limit()
            || (folds && !self.slc_queue.is_empty())
    }

    /// Folds the oldest superblock of the SLC cache into native ones; false if there is
    /// none.
    pub(super) fn fold_oldest(&mut self, clock: &mut Clock, now: u64, context: GcContext) -> bool {
        let Some(block) = self.slc_queue.pop_front() else { return false };
        self.relocate(clock, block, Cause::Fold, context, now);
        true
    }

    /// Relocates the valid data of `block` and erases it.
    fn relocate(
        &mut self,
        clock: &mut Clock,
        block: u32,
        cause: Cause,
        context: GcContext,
        now: u64,
    ) {
        let was_collecting = core::mem::replace(&mut self.collecting, true);
        let slc = self.in_slc[block as usize];
        let slots =
            if slc { self.layout.slc_superblock_slots } else { self.layout.superblock_slots };
        let valid = self.blocks[block as usize].valid;
        debug_assert!(valid <= slots);
        let rows_read = if self.packed.is_some() {
            self.move_packed(clock, block, now)
        } else if valid > 0 {
            self.move_valid(clock, block, slots, valid, now)
        } else {
            0
        };
        self.collecting = was_collecting;
        let work = FlashWork {
            rows_read,
            rows_programmed: core::mem::take(&mut self.rows_relocated),
            erases: 1,
            bytes_moved: 2 * u64::from(valid) * self.layout.slot_bytes,
            from_slc: slc,
        };
        self.erase(block);
        self.account(cause, &work, valid);
        self.counters.gc_die_ns = self.counters.gc_die_ns.saturating_add(clock.charge(
            now,
            &work,
            context == GcContext::Foreground,
        ));
    }

    fn account(&mut self, cause: Cause, work: &FlashWork, slots: u32) {
        let counters = &mut self.counters;
        let slots = u64::from(slots);
        match cause {
            Cause::Gc => {
                counters.gc_superblocks += 1;
                counters.nand_written_gc_slots += slots;
            }
            Cause::Fold => {
                counters.folded_superblocks += 1;
                counters.nand_written_fold_slots += slots;
            }
            Cause::Wear => {
                counters.levelled_superblocks += 1;
                counters.nand_written_wear_slots += slots;
            }
        }
        counters.nand_read_internal_rows += work.rows_read;
    }

    /// Erases `block`, which holds no valid data.
    pub(super) fn erase(&mut self, block: u32) {
        self.blocks[block as usize] = SuperblockState { valid: 0, pos: UNLISTED };
        if core::mem::replace(&mut self.in_slc[block as usize], false) {
            self.slc_used -= 1;
        }
        self.counters.erases += 1;
        if self.read_only {
            // After end of life no superblock wears out, so that the remaining data stay
            // readable.
            self.pool.release(block);
            self.free_slots += u64::from(self.layout.superblock_slots);
        } else if self.pool.erase(block) {
            self.free_slots += u64::from(self.layout.superblock_slots);
        } else {
            if self.pool.worn_out == 1 {
                self.counters.first_retired_written_bytes = self.counters.host_written_bytes;
            }
            let good = u64::from(self.layout.superblocks - self.pool.worn_out);
            self.read_only = good <= self.superblocks_needed;
        }
    }

    /// Relocates the `valid` units of `block`. Returns the number of rows read.
    fn move_valid(
        &mut self,
        clock: &mut Clock,
        block: u32,
        slots: u32,
        valid: u32,
        now: u64,
    ) -> u64 {
        let first = (block as usize - 1) * self.layout.superblock_slots as usize;
        // Copied so that source and destination can be borrowed together; padded for
        // prefetching.
        let mut units = core::mem::take(&mut self.scratch);
        units.clear();
        units.extend_from_slice(&self.back[first..first + slots as usize]);
        units.resize(slots as usize + PREFETCH_AHEAD, 0);
        let base = block << self.layout.shift;
        // Rows of one slot are counted by their valid units.
        let row_slots = if self.layout.row_slots == 1 { slots } else { self.layout.row_slots };
        let mut source = RelocationSource::new(&units, base, row_slots as usize);
        let mut left = valid;
        while left > 0 {
            let at = self.gc_frontier();
            self.ensure_open(clock, at, 1, now);
            self.age_like(at, block);
            let frontier = &self.frontiers[at];
            let want = left.min(frontier.end - frontier.next);
            let target = &mut self.back[frontier.back..frontier.back + want as usize];
            source.move_units(&mut self.map, target, frontier.next);
            self.free_slots -= u64::from(want);
            self.advance_relocated(clock, at, want, now);
            left -= want;
        }
        let rows = if self.layout.row_slots == 1 { u64::from(valid) } else { source.rows() };
        self.scratch = units;
        rows
    }

    /// Relocates the valid data of `block` on a compressing drive. Returns the rows read.
    fn move_packed(&mut self, clock: &mut Clock, block: u32, now: u64) -> u64 {
        let Some(packed) = &mut self.packed else { return 0 };
        let (mut rows, mut rows_end) = (0, 0);
        for unit in packed.take(block, &self.map) {
            let Some(packed) = &self.packed else { return rows };
            let slots = packed.slots_of(unit, 1);
            // Units are contiguous; a unit's first row may already have been read for the
            // previous one.
            let slot = self.map[unit as usize] & ((1 << self.layout.shift) - 1);
            let end = (slot + slots).div_ceil(self.layout.row_slots);
            rows += u64::from(end - rows_end.max(slot / self.layout.row_slots));
            rows_end = end;
            let at = self.gc_frontier();
            self.ensure_open(clock, at, slots, now);
            self.age_like(at, block);
            let next = self.frontiers[at].next;
            self.map[unit as usize] = next;
            if let Some(packed) = &mut self.packed {
                packed.valid_slots -= u64::from(slots);
                packed.append(next >> self.layout.shift, unit, 1, slots);
            }
            self.free_slots -= u64::from(slots);
            self.advance_relocated(clock, at, slots, now);
        }
        rows
    }

    /// Gives the superblock open at a separate collection frontier the age of its
    /// youngest data.
    fn age_like(&mut self, at: usize, victim: u32) {
        if at < self.host_frontiers() {
            return;
        }
        let open = ((self.frontiers[at].end - 1) >> self.layout.shift) as usize;
        let first = self.frontiers[at].next & ((1 << self.layout.shift) - 1) == 0;
        let age = |stamp: u32| self.stamp().wrapping_sub(stamp);
        if first || age(self.stamps[victim as usize]) < age(self.stamps[open]) {
            self.stamps[open] = self.stamps[victim as usize];
        }
    }

    /// Rows left in the superblocks open for fresh data: the number of programs before
    /// the next collection, over which owed time is divided.
    pub(super) fn rows_open(&self) -> u64 {
        let slots: u64 = self.frontiers[..self.host_frontiers()]
            .iter()
            .map(|frontier| u64::from(frontier.end - frontier.next))
            .sum();
        slots / u64::from(self.layout.row_slots)
    }

    /// Advances frontier `at` by `slots` slots relocated at `now`. Relocation time is
    /// charged as a whole; only a row of fresh data that this completes is programmed
    /// here.
    fn advance_relocated(&mut self, clock: &mut Clock, at: usize, slots: u32, now: u64) {
        let frontier = &mut self.frontiers[at];
        if frontier.next + slots >= frontier.row_end {
            let rows = 1 + (frontier.next + slots - frontier.row_end) / self.layout.row_slots;
            // A row shared with fresh data is programmed with them.
            self.rows_relocated += u64::from(rows) - u64::from(frontier.taken);
        }
        frontier.next += slots;
        frontier.back += slots as usize;
        if frontier.next < frontier.row_end {
            return;
        }
        if frontier.taken {
            frontier.taken = false;
            let end = clock.program(
                frontier.lies_on * self.superblock_dies + frontier.die,
                frontier.ready.max(now),
                frontier.slc,
            );
            clock.rows[frontier.cache_row as usize] = end.min(FILLING - 1);
            if let Some(journal) = &mut self.journal {
                journal.programmed(at, end, 0);
            }
        }
        let base = (frontier.end - 1) >> self.layout.shift << self.layout.shift;
        let row = (frontier.next - base) / self.layout.row_slots;
        frontier.row_end = (base + (row + 1) * self.layout.row_slots).min(frontier.end);
        frontier.die = row % self.superblock_dies;
        if frontier.next == frontier.end {
            self.close(at);
            if at < self.layout.groups as usize {
                // Relocated data use all groups of dies in turn, like fresh data.
                self.turn[HOST] = (self.turn[HOST] + 1) % self.layout.groups;
            }
        }
    }
}

/// A superblock being relocated: `units` were written to its slots, `base` is its
/// address.
struct RelocationSource<'a> {
    units: &'a [u32],
    base: u32,
    row_slots: usize,
    /// Next slot to check, and remaining slots in its row.
    from: usize,
    row_left: usize,
    /// True if the current row has valid data; then the number of earlier rows with valid
    /// data.
    row_valid: bool,
    rows: u64,
}

impl<'a> RelocationSource<'a> {
    fn new(units: &'a [u32], base: u32, row_slots: usize) -> Self {
        Self { units, base, row_slots, from: 0, row_left: row_slots, row_valid: false, rows: 0 }
    }

    /// Moves valid units until `target` at address `to` is full. The source must have
    /// enough. Branch-free on validity, which is hard to predict. A function of its own, as
    /// the loop needs all registers.
    #[inline(never)]
    fn move_units(&mut self, map: &mut [u32], target: &mut [u32], to: u32) {
        let (mut moved, mut from, mut row_left) = (0, self.from, self.row_left);
        let (mut rows, mut row_valid) = (self.rows, self.row_valid);
        while moved < target.len() {
            let row = &self.units[from..][..row_left + PREFETCH_AHEAD];
            let first = self.base.wrapping_add(from as u32);
            let (mut address, before) = (first, moved);
            for (unit, ahead) in row.iter().zip(&row[PREFETCH_AHEAD..]) {
                let Some(place) = target.get_mut(moved) else { break };
                prefetch(map, *ahead as usize);
                *place = *unit;
                let entry = &mut map[*unit as usize];
                let valid = *entry == address;
                debug_assert!(*entry != TRIMMED || !valid);
                *entry = if valid { to.wrapping_add(moved as u32) } else { *entry };
                moved = moved.wrapping_add(usize::from(valid));
                address = address.wrapping_add(1);
            }
            let passed = address.wrapping_sub(first) as usize;
            (from, row_left) = (from + passed, row_left - passed);
            row_valid |= moved > before;
            if row_left == 0 {
                rows += u64::from(row_valid);
                (row_valid, row_left) = (false, self.row_slots);
            }
        }
        (self.from, self.row_left, self.rows, self.row_valid) = (from, row_left, rows, row_valid);
    }

    fn rows(&self) -> u64 {
        self.rows + u64::from(self.row_valid)
    }
}
