//! Placement of fresh data and invalidation of old versions: the model's inner loops.

use super::clock::{Clock, FILLING};
use super::ftl::{Frontier, Ftl, HOST, SLC};
use super::{NEVER, TRIMMED};

impl Ftl {
    /// Stream and frontier index for fresh data.
    #[inline]
    fn host_frontier(&self) -> (usize, usize) {
        let stream = if self.slc.is_some() && self.slc_accepts() { SLC } else { HOST };
        (stream, stream * self.layout.groups as usize + self.turn[stream] as usize)
    }

    /// True if the previous version of `unit` is among the newest data of an open
    /// superblock of fresh data, so that the write cache replaces it. A compressed unit
    /// may change its size, and tracking of durability numbers every write: both merge
    /// none.
    fn merges(&self, unit: u32) -> bool {
        if self.merge_slots == 0 || self.journal.is_some() || self.packed.is_some() {
            return false;
        }
        let (old, shift) = (self.map[unit as usize], self.layout.shift);
        let newest = |frontier: &Frontier| {
            frontier.next >> shift == old >> shift
                && frontier.next.wrapping_sub(old) <= self.merge_slots
        };
        old > TRIMMED && self.frontiers[..self.host_frontiers()].iter().any(newest)
    }

    /// Writes `count` units of `slots` slots each, starting at `unit`, that arrive at
    /// `ready`. Returns the time at which the last one is in the write cache.
    pub(super) fn put(
        &mut self,
        clock: &mut Clock,
        unit: u32,
        count: u32,
        slots: u32,
        ready: u64,
    ) -> u64 {
        if count == 1 && self.merges(unit) {
            return ready;
        }
        let mut ack = ready;
        let (mut unit, mut left) = (unit, count);
        while left > 0 {
            let (stream, at) = self.host_frontier();
            let striped = self.put_stripes(clock, stream, at, unit, left, ready);
            if let Some((done, units)) = striped {
                ack = ack.max(done);
                (unit, left) = (unit + units, left - units);
                continue;
            }
            self.ensure_open(clock, at, slots, ready);
            let run = self.run_at(at, left, slots);
            self.place(at, unit, run, slots);
            if let Some(journal) = &mut self.journal {
                journal.placed(at, run);
            }
            ack = ack.max(self.advance(clock, stream, at, run * slots, slots, ready));
            (unit, left) = (unit + run, left - run);
        }
        ack
    }

    /// Number of units, at most `left`, that go to frontier `at` before its superblock or
    /// its turn changes.
    fn run_at(&self, at: usize, left: u32, slots: u32) -> u32 {
        let frontier = &self.frontiers[at];
        let end = if self.layout.groups == 1 { frontier.end } else { frontier.row_end };
        let room = if slots == 1 { end - frontier.next } else { (end - frontier.next) / slots };
        // A unit may straddle rows but not superblocks; there is room for at least one.
        left.min(room.max(1))
    }

    /// Writes whole rows on every group of dies in turn, for up to `left` units starting
    /// at `unit`. Works group by group instead of row by row, so that old versions
    /// written the same way are invalidated per superblock. Returns the time at which the
    /// last unit is placed and the number of units, or `None` if the frontiers are not at
    /// the start of a stripe.
    fn put_stripes(
        &mut self,
        clock: &mut Clock,
        stream: usize,
        at: usize,
        unit: u32,
        left: u32,
        ready: u64,
    ) -> Option<(u64, u32)> {
        let (groups, row) = (self.layout.groups, self.layout.row_slots);
        let turn = self.turn[stream];
        if groups == 1
            || left < 2 * groups * row
            || self.packed.is_some()
            || self.journal.is_some()
            || turn != 0
        {
            return None;
        }
        // The next cache row might be one that another stream is filling.
        if self.frontiers.iter().any(|frontier| frontier.taken) {
            return None;
        }
        let frontiers = &self.frontiers[at..at + groups as usize];
        if frontiers.iter().any(|frontier| frontier.row_end - frontier.next != row) {
            return None;
        }
        let room = frontiers.iter().map(|frontier| frontier.end - frontier.next).min()?;
        let rows = (room / row).min(left / (groups * row));
        if rows < 2 {
            return None;
        }
        for group in 0..groups {
            self.place_striped(at + group as usize, unit + group * row, rows, groups * row);
        }
        let frontiers = &mut self.frontiers[at..at + groups as usize];
        let (mut ack, mut programmed) = (ready, 0);
        for _ in 0..rows {
            for frontier in &mut *frontiers {
                let die = frontier.lies_on * self.superblock_dies + frontier.die;
                let (admit, end) = clock.program_whole(frontier.next, die, ready, frontier.slc);
                (ack, programmed) = (ack.max(admit), programmed.max(end));
                frontier.next += row;
                frontier.die =
                    if frontier.die + 1 == self.superblock_dies { 0 } else { frontier.die + 1 };
            }
        }
        clock.count_programs(u64::from(rows) * u64::from(groups), programmed);
        for at in at..at + groups as usize {
            let frontier = &mut self.frontiers[at];
            frontier.back += (rows * row) as usize;
            frontier.row_end = (frontier.next + row).min(frontier.end);
            if !frontier.is_open() {
                self.close(at);
            }
        }
        Some((ack, rows * groups * row))
    }

    /// Records `rows` rows of units at frontier `at`, `stride` units apart from `unit`
    /// on.
    fn place_striped(&mut self, at: usize, unit: u32, rows: u32, stride: u32) {
        let (shift, row) = (self.layout.shift, self.layout.row_slots);
        let Frontier { next, back, .. } = self.frontiers[at];
        let mut address = next;
        let names = &mut self.back[back..back + (rows * row) as usize];
        // Superblock of the most recent old versions, and their run length.
        let (mut block, mut run) = (0, 0);
        let (mut fresh, mut trimmed) = (0, 0);
        let mut first = unit;
        for nth in 0..rows as usize {
            let entries = &mut self.map[first as usize..][..row as usize];
            let names = &mut names[nth * row as usize..][..row as usize];
            let mut unit = first;
            first = first.wrapping_add(stride);
            for (entry, name) in entries.iter_mut().zip(names) {
                let old = core::mem::replace(entry, address);
                *name = unit;
                // Values in use stay below 2^32, like the table lengths.
                (address, unit) = (address.wrapping_add(1), unit.wrapping_add(1));
                fresh += u64::from(old <= TRIMMED);
                trimmed += u64::from(old == TRIMMED);
                if old >> shift != block {
                    self.victims.invalidate(&mut self.blocks, block, run);
                    (block, run) = (old >> shift, 0);
                }
                run += 1;
            }
        }
        self.victims.invalidate(&mut self.blocks, block, run);
        self.mapped += fresh;
        self.trimmed -= trimmed;
        let slots = u64::from(rows) * u64::from(row);
        self.free_slots -= slots;
        self.counters.nand_written_host_slots += slots;
    }

    /// Writes one unit on a drive without compression, stream separation and SLC cache.
    #[inline]
    pub(super) fn put_one(&mut self, clock: &mut Clock, unit: u32, ready: u64) -> u64 {
        let at = self.turn[HOST] as usize;
        if !self.frontiers[at].is_open() {
            self.open(clock, at, 1, ready);
        }
        let frontier = &self.frontiers[at];
        let old = core::mem::replace(&mut self.map[unit as usize], frontier.next);
        self.back[frontier.back] = unit;
        if old <= TRIMMED {
            self.mapped += 1;
            self.trimmed -= u64::from(old == TRIMMED);
        }
        self.victims.invalidate(&mut self.blocks, old >> self.layout.shift, 1);
        self.free_slots -= 1;
        self.counters.nand_written_host_slots += 1;
        self.advance(clock, HOST, at, 1, 1, ready)
    }

    /// Records that `count` units from `unit` on are written at frontier `at`, which has
    /// room.
    fn place(&mut self, at: usize, unit: u32, count: u32, slots: u32) {
        let first = self.frontiers[at].next;
        self.forget(unit, count);
        self.mapped += u64::from(count);
        let units = unit as usize..(unit + count) as usize;
        for (nth, entry) in (0_u32..).zip(&mut self.map[units]) {
            *entry = first + nth * slots;
        }
        match &mut self.packed {
            None => {
                let back = self.frontiers[at].back;
                for (unit, entry) in (unit..).zip(&mut self.back[back..back + count as usize]) {
                    *entry = unit;
                }
            }
            Some(packed) => packed.append(first >> self.layout.shift, unit, count, slots),
        }
        let slots = u64::from(count) * u64::from(slots);
        self.free_slots -= slots;
        self.counters.nand_written_host_slots += slots;
    }

    /// Updates counts as if `count` units from `unit` on were unmapped; the caller sets
    /// the map.
    pub(super) fn forget(&mut self, unit: u32, count: u32) -> u64 {
        let shift = self.layout.shift;
        let old = &self.map[unit as usize..(unit + count) as usize];
        let mut forgotten = 0;
        let mut from = 0;
        while from < old.len() {
            let block = old[from] >> shift;
            let run = run_of(&old[from..], shift, block);
            if block == 0 {
                self.trimmed -=
                    old[from..from + run].iter().filter(|address| **address == TRIMMED).count()
                        as u64;
            } else {
                let slots = match &self.packed {
                    None => run as u32,
                    Some(packed) => packed.slots_of(unit + from as u32, run as u32),
                };
                self.victims.invalidate(&mut self.blocks, block, slots);
                if let Some(packed) = &mut self.packed {
                    packed.valid_slots -= u64::from(slots);
                }
                forgotten += run as u64;
            }
            from += run;
        }
        self.mapped -= forgotten;
        forgotten
    }

    /// Advances frontier `at` by `slots` slots of fresh data that arrive at `ready`,
    /// `unit_slots` per unit, and programs each completed row. Returns the time at which
    /// the last one was placed in the write cache.
    #[inline(always)]
    fn advance(
        &mut self,
        clock: &mut Clock,
        stream: usize,
        at: usize,
        slots: u32,
        unit_slots: u32,
        ready: u64,
    ) -> u64 {
        let frontier = &mut self.frontiers[at];
        let to = frontier.next + slots;
        debug_assert!(to <= frontier.end, "write past the end of the superblock");
        frontier.back += slots as usize;
        let mut filled_row = false;
        let mut ack = ready;
        let frontier = loop {
            if !self.frontiers[at].taken && clock.next_row_is_filling() {
                self.program_oldest_row(clock, ready);
            }
            let frontier = &mut self.frontiers[at];
            if !frontier.taken {
                (frontier.cache_row, frontier.admit) = clock.take_row(frontier.next);
                frontier.taken = true;
                frontier.ready = 0;
            }
            let placed = ready.max(frontier.admit);
            ack = ack.max(placed);
            frontier.ready = frontier.ready.max(placed);
            if to < frontier.row_end {
                frontier.next = to;
                break frontier;
            }
            filled_row = true;
            frontier.next = frontier.row_end;
            frontier.row_end = (frontier.row_end + self.layout.row_slots).min(frontier.end);
            frontier.taken = false;
            let end = clock.program(
                frontier.lies_on * self.superblock_dies + frontier.die,
                frontier.ready,
                frontier.slc,
            );
            clock.rows[frontier.cache_row as usize] = end.min(FILLING - 1);
            frontier.die =
                if frontier.die + 1 == self.superblock_dies { 0 } else { frontier.die + 1 };
            if let Some(journal) = &mut self.journal {
                journal.programmed(at, end, (to - frontier.next).div_ceil(unit_slots) as usize);
            }
            if frontier.next == to {
                break frontier;
            }
        };
        if filled_row {
            let closed = frontier.next == frontier.end;
            if self.layout.groups > 1 {
                self.turn[stream] = if self.turn[stream] + 1 == self.layout.groups {
                    0
                } else {
                    self.turn[stream] + 1
                };
            }
            if closed {
                self.close(at);
            }
        }
        ack
    }

    /// Programs the row that occupies the next write-cache row, full or not.
    #[cold]
    #[inline(never)]
    fn program_oldest_row(&mut self, clock: &mut Clock, now: u64) {
        match self
            .frontiers
            .iter()
            .position(|frontier| frontier.taken && frontier.cache_row == clock.row_next)
        {
            Some(at) => self.write_out_row(clock, at, now),
            // Its frontier was erased.
            None => clock.rows[clock.row_next as usize] = 0,
        }
    }

    /// Programs the row that frontier `at` is filling, padded to whole pages.
    pub(super) fn write_out_row(&mut self, clock: &mut Clock, at: usize, now: u64) {
        let frontier = &self.frontiers[at];
        let into_page = (frontier.row_end - frontier.next) % self.layout.page_slots;
        if into_page == 0 {
            self.program_early(clock, at, now);
        } else {
            self.skip(clock, at, into_page, now);
        }
    }

    /// Invalidates `count` units starting at `unit`; returns how many were mapped.
    pub(super) fn trim(&mut self, unit: u32, count: u32) -> u64 {
        let forgotten = self.forget(unit, count);
        for entry in &mut self.map[unit as usize..(unit + count) as usize] {
            if *entry != NEVER {
                *entry = TRIMMED;
                self.trimmed += 1;
            }
        }
        forgotten
    }
}

/// Number of addresses compared at a time.
const RUN_CHUNK: usize = 64;

/// Number of leading addresses that lie in superblock `block`.
fn run_of(addresses: &[u32], shift: u32, block: u32) -> usize {
    let alone =
        |part: &[u32]| part.iter().take_while(|address| **address >> shift == block).count();
    let (near, far) = addresses.split_at(addresses.len().min(RUN_CHUNK));
    let short = alone(near);
    // Runs are short where rows of several superblocks alternate.
    if short < near.len() {
        return short;
    }
    // Branch-free comparison of whole chunks, for TRIMs of a whole drive.
    let elsewhere = |chunk: &&[u32]| {
        chunk.iter().fold(0, |seen, address| seen | (*address >> shift) ^ block) != 0
    };
    let whole =
        far.chunks_exact(RUN_CHUNK).take_while(|chunk| !elsewhere(chunk)).count() * RUN_CHUNK;
    short + whole + alone(&far[whole..])
}
