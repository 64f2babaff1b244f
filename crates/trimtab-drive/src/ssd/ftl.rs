//! Flash translation layer: location of every unit and the write frontiers.
//!
//! `map` holds a physical address per unit, `back` a unit per slot. A slot is valid if
//! and only if the unit it names maps back to it. So overwrites and TRIMs only touch
//! `map` and a count per superblock.

use super::clock::Clock;
use super::journal::DurabilityJournal;
use super::packed::CompressionState;
use super::pool::Pool;
use super::victims::{UNLISTED, Victims};
use super::{NEVER, SuperblockState};
use crate::counters::Counters;
use crate::spec::layout::SsdLayout;
use crate::spec::{Flash, GarbageCollection, SlcCache};
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

/// Stream of fresh data that go to native superblocks.
pub(super) const HOST: usize = 0;

/// Stream of fresh data that go to the SLC cache.
pub(super) const SLC: usize = 1;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Frontier {
    /// Physical address of the next slot; equal to `end` if no superblock is open.
    pub(super) next: u32,
    pub(super) row_end: u32,
    pub(super) end: u32,
    /// Index of the next slot in `back`.
    pub(super) back: usize,
    /// Preferred group of dies.
    pub(super) group: u32,
    pub(super) lies_on: u32,
    /// Die of the row, within the group.
    pub(super) die: u32,
    /// True if the row holds fresh data and occupies a row of the write cache.
    pub(super) taken: bool,
    pub(super) slc: bool,
    pub(super) cache_row: u32,
    /// Time at which that write-cache row became free.
    pub(super) admit: u64,
    /// Arrival time of the last data of the row.
    pub(super) ready: u64,
}

impl Frontier {
    pub(super) const fn is_open(&self) -> bool {
        self.next != self.end
    }

    /// True if a superblock is open and has room for a unit of `slots` slots.
    pub(super) const fn has_room(&self, slots: u32) -> bool {
        self.end - self.next >= slots
    }
}

#[derive(Clone, Debug)]
pub(super) struct Ftl {
    pub(super) layout: SsdLayout,
    pub(super) gc: GarbageCollection,
    pub(super) slc: Option<SlcCache>,
    pub(super) static_spread_max: Option<u32>,
    pub(super) superblock_dies: u32,
    pub(super) superblocks_needed: u64,
    /// Physical address of each unit, or [`NEVER`] or [`TRIMMED`].
    pub(super) map: Vec<u32>,
    /// Unit last written to each slot, valid or not; empty on a compressing drive.
    pub(super) back: Vec<u32>,
    pub(super) packed: Option<CompressionState>,
    /// State per superblock from index 1; index 0 stands for unmapped units. Unwritten
    /// slots of an open superblock count as valid.
    pub(super) blocks: Vec<SuperblockState>,
    /// Write time of each superblock's data, on [`Ftl::stamp`]'s clock.
    pub(super) stamps: Vec<u32>,
    pub(super) stamp_shift: u32,
    pub(super) in_slc: Vec<bool>,
    /// Closed superblocks in SLC mode, oldest first.
    pub(super) slc_queue: VecDeque<u32>,
    /// Number of superblocks in SLC mode, open ones included.
    pub(super) slc_used: u32,
    pub(super) victims: Victims,
    pub(super) pool: Pool,
    /// Frontiers of every host stream and group, then one for collection if separate.
    pub(super) frontiers: Vec<Frontier>,
    /// Next group of each host stream.
    pub(super) turn: [u32; 2],
    /// Newest slots of an open superblock that an overwrite replaces in the write cache.
    pub(super) merge_slots: u32,
    pub(super) collecting: bool,
    /// Candidates for wear levelling, the least worn last; erase count at the last
    /// levelling.
    pub(super) to_level: Vec<u32>,
    pub(super) levelled_at: u64,
    pub(super) scratch: Vec<u32>,
    /// Completely filled rows of relocated data, not yet charged.
    pub(super) rows_relocated: u64,
    pub(super) mapped: u64,
    /// Units that were mapped, then trimmed and not rewritten.
    pub(super) trimmed: u64,
    pub(super) free_slots: u64,
    pub(super) read_only: bool,
    pub(super) journal: Option<DurabilityJournal>,
    pub(super) counters: Counters,
}

impl Ftl {
    pub(super) fn new(flash: &Flash, layout: &SsdLayout, seed: u64) -> Self {
        let superblocks = layout.superblocks as usize;
        let host_streams = 1 + u32::from(flash.slc_cache.is_some());
        let frontier = |group| Frontier { group, ..Frontier::default() };
        let mut frontiers: Vec<Frontier> =
            (0..host_streams).flat_map(|_| (0..layout.groups).map(frontier)).collect();
        if flash.ftl.streams.separate_gc {
            frontiers.push(frontier(0));
        }
        let slots = superblocks * layout.superblock_slots as usize;
        Self {
            gc: flash.ftl.gc.clone(),
            slc: flash.slc_cache.clone(),
            static_spread_max: flash.ftl.wear.static_spread_max,
            superblock_dies: flash.geometry.superblock_dies,
            superblocks_needed: layout.superblocks_needed(flash),
            map: vec![NEVER; layout.units as usize],
            back: if flash.compression.is_some() { Vec::new() } else { vec![0; slots] },
            packed: flash
                .compression
                .as_ref()
                .map(|compression| CompressionState::new(compression, layout)),
            blocks: vec![SuperblockState { valid: 0, pos: UNLISTED }; superblocks + 1],
            stamps: vec![0; superblocks + 1],
            stamp_shift: (layout.superblock_slots / 256).max(1).ilog2(),
            in_slc: vec![false; superblocks + 1],
            slc_queue: VecDeque::new(),
            slc_used: 0,
            victims: Victims::new(
                flash.ftl.victim,
                layout.superblocks,
                layout.superblock_slots,
                seed,
            ),
            pool: Pool::new(layout, &flash.ftl.wear, seed),
            frontiers,
            turn: [0; 2],
            merge_slots: u64::from(flash.write_cache.merge_bytes)
                .checked_div(layout.slot_bytes)
                .unwrap_or(0) as u32,
            collecting: false,
            to_level: Vec::new(),
            levelled_at: 0,
            scratch: Vec::new(),
            rows_relocated: 0,
            mapped: 0,
            trimmed: 0,
            free_slots: slots as u64,
            read_only: false,
            journal: None,
            counters: Counters::default(),
            layout: layout.clone(),
        }
    }

    /// Age clock of superblocks: host slots written, at coarse resolution.
    #[inline]
    pub(super) fn stamp(&self) -> u32 {
        (self.counters.nand_written_host_slots >> self.stamp_shift) as u32
    }

    /// Number of frontiers for fresh data; one for collection may follow.
    pub(super) fn host_frontiers(&self) -> usize {
        (1 + usize::from(self.slc.is_some())) * self.layout.groups as usize
    }

    /// Opens a superblock at frontier `at` unless it has room for `slots` slots.
    pub(super) fn ensure_open(&mut self, clock: &mut Clock, at: usize, slots: u32, now: u64) {
        if !self.frontiers[at].has_room(slots) {
            self.abandon_rest(clock, at, now);
            self.open(clock, at, slots, now);
        }
    }

    /// Closes any superblock open at frontier `at` and leaves its rest unused.
    fn abandon_rest(&mut self, clock: &mut Clock, at: usize, now: u64) {
        let rest = self.frontiers[at].end - self.frontiers[at].next;
        if rest > 0 {
            self.skip(clock, at, rest, now);
        }
    }

    /// Skips `slots` slots of frontier `at`, within its row or up to the end of its
    /// superblock.
    pub(super) fn skip(&mut self, clock: &mut Clock, at: usize, slots: u32, now: u64) {
        let frontier = &mut self.frontiers[at];
        let block = frontier.next >> self.layout.shift;
        let begun =
            !(frontier.next & ((1 << self.layout.shift) - 1)).is_multiple_of(self.layout.row_slots);
        frontier.next += slots;
        frontier.back += slots as usize;
        self.blocks[block as usize].valid -= slots;
        self.free_slots -= u64::from(slots);
        self.counters.nand_written_padding_slots += u64::from(slots);
        if frontier.taken {
            frontier.taken = false;
            let end = clock.program(
                frontier.lies_on * self.superblock_dies + frontier.die,
                now.max(frontier.ready),
                frontier.slc,
            );
            clock.rows[frontier.cache_row as usize] = end;
            if let Some(journal) = &mut self.journal {
                journal.programmed(at, end, 0);
            }
        } else if begun {
            self.rows_relocated += 1;
        }
        if frontier.next >= frontier.row_end {
            frontier.row_end = (frontier.row_end + self.layout.row_slots).min(frontier.end);
            frontier.die = (frontier.die + 1) % self.superblock_dies;
        }
        if frontier.next == frontier.end {
            self.close(at);
        }
    }

    /// Opens a free superblock with room for a unit of `slots` slots at frontier `at`,
    /// which has none open. Collects garbage first if few are free.
    #[cold]
    #[inline(never)]
    pub(super) fn open(&mut self, clock: &mut Clock, at: usize, slots: u32, now: u64) {
        if !self.collecting {
            self.make_room(clock, at, slots, now);
            // Relocated data advance the turn; this row must stay on its original group.
            self.turn[self.frontier_stream(at)] = at as u32 % self.layout.groups;
            // Collection may have opened a superblock here and left too little room.
            if self.frontiers[at].has_room(slots) {
                clock.spread(self.rows_open());
                return;
            }
            self.abandon_rest(clock, at, now);
        }
        let slc = self.slc.is_some() && self.frontier_stream(at) == SLC;
        let block = self.pool.take(self.group_for(at)).expect(
            "one free superblock is reserved for collection, and every collection frees one",
        );
        let slots =
            if slc { self.layout.slc_superblock_slots } else { self.layout.superblock_slots };
        self.blocks[block as usize] = SuperblockState { valid: slots, pos: UNLISTED };
        self.stamps[block as usize] = self.stamp();
        self.in_slc[block as usize] = slc;
        self.slc_used += u32::from(slc);
        // Slots that SLC mode does not use become free again at the erase.
        self.free_slots -= u64::from(self.layout.superblock_slots - slots);
        let frontier = &mut self.frontiers[at];
        let first = block << self.layout.shift;
        frontier.next = first;
        frontier.end = first + slots;
        frontier.row_end = first + self.layout.row_slots.min(slots);
        frontier.back = (block as usize - 1) * self.layout.superblock_slots as usize;
        frontier.lies_on = self.pool.group(block);
        frontier.die = 0;
        frontier.taken = false;
        frontier.slc = slc;
        if !self.collecting {
            clock.spread(self.rows_open());
        }
    }

    /// Group of dies for the next superblock of frontier `at`: its own, or one with few
    /// frontiers if none is free there. `None` for the collection frontier.
    fn group_for(&self, at: usize) -> Option<u32> {
        let own = self.frontiers[at].group;
        if at >= self.host_frontiers() || self.layout.groups == 1 || self.pool.has_free(own) {
            return (at < self.host_frontiers()).then_some(own);
        }
        let on = |group: u32| {
            self.frontiers
                .iter()
                .filter(|frontier| frontier.is_open() && frontier.lies_on == group)
                .count()
        };
        (0..self.layout.groups)
            .filter(|group| self.pool.has_free(*group))
            .min_by_key(|group| on(*group))
    }

    /// Stream of a frontier; the collection frontier counts as one past the host streams.
    fn frontier_stream(&self, at: usize) -> usize {
        at / self.layout.groups as usize
    }

    /// Adds the completely written superblock of frontier `at` to the victim list.
    pub(super) fn close(&mut self, at: usize) {
        let frontier = &self.frontiers[at];
        let block = (frontier.end - 1) >> self.layout.shift;
        if frontier.slc {
            self.slc_queue.push_back(block);
        } else {
            self.victims.insert(&mut self.blocks, block);
        }
        if let Some(packed) = &mut self.packed {
            packed.closed(block);
        }
    }

    /// Programs the row that frontier `at` is filling, which is complete up to a page
    /// boundary; its remaining pages are programmed separately later.
    pub(super) fn program_early(&mut self, clock: &mut Clock, at: usize, now: u64) {
        let frontier = &mut self.frontiers[at];
        frontier.taken = false;
        let die = frontier.lies_on * self.superblock_dies + frontier.die;
        let end = clock.program(die, now.max(frontier.ready), frontier.slc);
        clock.rows[frontier.cache_row as usize] = end;
        if let Some(journal) = &mut self.journal {
            journal.programmed(at, end, 0);
        }
    }
}
