//! Invariants of an SSD's state. Checking them scans all tables.

use super::clock::FILLING;
use super::journal::DurabilityJournal;
use super::lane::FlashLanes;
use super::victims::{UNLISTED, Victims};
use super::{CLOCK_END_NS, NEVER, Ssd, TRIMMED};
use crate::units::Nanos;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

macro_rules! require {
    ($condition:expr, $($said:tt)+) => {
        if !$condition {
            return Err(format!($($said)+));
        }
    };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Unknown,
    Free,
    Open,
    Listed,
    Slc,
    Retired,
}

/// State of a logical block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockState {
    /// Never written.
    NeverWritten,
    /// Trimmed and not rewritten.
    Trimmed,
    /// Mapped data.
    Mapped,
}

/// All listed superblocks; for the greedy policy, sorted by valid slots.
pub(super) fn listed(victims: &Victims) -> Vec<u32> {
    match victims {
        Victims::Greedy(buckets) => (buckets.begin..buckets.end)
            .map(|at| buckets.ring[(at & buckets.mask) as usize])
            .collect(),
        Victims::Fifo(queue) => queue.iter().copied().collect(),
        Victims::Drawn { list, .. } | Victims::CostBenefit(list) => list.clone(),
    }
}

/// Number of units of `unit_bytes` in rows that are not on flash at `now`.
fn units_in_rows(journal: &DurabilityJournal, now: u64, unit_bytes: u64) -> u64 {
    let filling: u64 = journal.rows.iter().map(|row| row.len() as u64).sum();
    let under_way =
        journal.entries.iter().filter(|entry| entry.durable > now && entry.durable != u64::MAX);
    let mut programming: Vec<(u64, u64)> =
        under_way.map(|entry| (entry.durable, entry.extent.offset / unit_bytes)).collect();
    // Several writes may have been merged into one unit.
    programming.sort_unstable();
    programming.dedup();
    filling + programming.len() as u64
}

impl Ssd {
    /// State of the mapping unit at byte `offset`.
    #[must_use]
    pub fn block_state(&self, offset: u64) -> BlockState {
        match self.ftl.map.get((offset / self.layout.unit_bytes) as usize) {
            None | Some(&NEVER) => BlockState::NeverWritten,
            Some(&TRIMMED) => BlockState::Trimmed,
            Some(_) => BlockState::Mapped,
        }
    }

    /// Sequence number of the next unit write while durability is tracked. A write
    /// command of n units (or parts) takes n numbers, in address order.
    #[must_use]
    pub fn write_sequence(&self) -> u64 {
        self.ftl.journal.as_ref().map_or(0, DurabilityJournal::next_sequence)
    }

    /// Sequence number of the first write that is not durable at `now`; all earlier
    /// writes are durable. Requires [`track_durability`](Self::track_durability).
    pub fn durable_sequence(&mut self, now: Nanos) -> u64 {
        if self.flash.write_cache.power_loss_protection {
            return self.write_sequence();
        }
        self.ftl.journal.as_mut().map_or(0, |journal| journal.settle(now.0))
    }

    /// Checks all invariants.
    ///
    /// # Errors
    /// The first violated invariant.
    pub fn check_invariants(&self) -> Result<(), String> {
        let roles = self.roles()?;
        self.check_mapping(&roles)?;
        self.check_victims(&roles)?;
        self.check_counts(&roles)?;
        self.check_time()
    }

    /// Time is conserved: charged time is either spent or owed, no lane is busy for
    /// longer than the elapsed time, and acknowledged data fit the write cache.
    fn check_time(&self) -> Result<(), String> {
        let clock = &self.clock;
        // Sums of times saturate past the end of the clock; commands that end there are
        // refused.
        let ended = |lanes: &FlashLanes| {
            lanes
                .each
                .iter()
                .any(|lane| lane.given_until().max(lane.owed).max(lanes.charged_ns) >= CLOCK_END_NS)
        };
        if ended(&clock.dies) || ended(&clock.channels) {
            return Ok(());
        }
        for (kind, lanes) in [("dies", &clock.dies), ("channels", &clock.channels)] {
            let spent: u64 = lanes.each.iter().map(|lane| lane.background_ns + lane.owed).sum();
            require!(
                lanes.charged_ns == spent + lanes.undivided_ns,
                "{kind}: {} ns charged, {spent} ns spent or owed, {} ns undivided",
                lanes.charged_ns,
                lanes.undivided_ns
            );
            require!(
                lanes.undivided_ns < lanes.each.len() as u64,
                "{kind}: {} ns left undivided",
                lanes.undivided_ns
            );
            for (nth, lane) in lanes.each.iter().enumerate() {
                let busy = lane.host_ns + lane.background_ns;
                let elapsed = lane.given_until().saturating_sub(clock.counted_since);
                require!(
                    busy <= elapsed,
                    "{kind}: number {nth} busy for {busy} ns in {elapsed} ns"
                );
            }
        }
        let filling = self.ftl.frontiers.iter().filter(|frontier| frontier.taken);
        let mut places: Vec<u32> = filling.map(|frontier| frontier.cache_row).collect();
        places.sort_unstable();
        require!(
            places.windows(2).all(|pair| pair[0] != pair[1]),
            "two rows share a write-cache slot: {places:?}"
        );
        require!(
            places.iter().all(|place| clock.rows[*place as usize] == FILLING),
            "a write-cache slot is marked free while it is being filled: {places:?}"
        );
        if let Some(journal) = &self.ftl.journal {
            let pending =
                units_in_rows(journal, self.quiet_since.max(self.now), self.layout.unit_bytes);
            let units = self.layout.row_slots / self.layout.unit_slots.min(self.layout.row_slots);
            // Compressed units are counted at the minimum stored size.
            let most = if self.ftl.packed.is_some() {
                u64::from(self.layout.row_slots)
            } else {
                u64::from(units.max(1))
            };
            // Partial units are stored separately from rows until they are completed.
            let room = clock.rows.len() as u64 * most + self.partial.max() as u64;
            require!(
                pending <= room,
                "{pending} units are acknowledged and not programmed, the write cache holds {room}"
            );
        }
        Ok(())
    }

    fn roles(&self) -> Result<Vec<Role>, String> {
        let ftl = &self.ftl;
        let mut roles = vec![Role::Unknown; ftl.blocks.len()];
        let mut assign = |block: u32, role: Role| -> Result<(), String> {
            require!(
                block != 0 && (block as usize) < roles.len(),
                "superblock {block} does not exist"
            );
            let old = core::mem::replace(&mut roles[block as usize], role);
            require!(old == Role::Unknown, "superblock {block} is {old:?} and {role:?}");
            Ok(())
        };
        for Reverse((_, _, block)) in ftl.pool.heaps.iter().flatten() {
            assign(*block, Role::Free)?;
        }
        for frontier in ftl.frontiers.iter().filter(|frontier| frontier.is_open()) {
            assign(frontier.next >> self.layout.shift, Role::Open)?;
        }
        for block in &ftl.slc_queue {
            assign(*block, Role::Slc)?;
        }
        for block in listed(&ftl.victims) {
            assign(block, Role::Listed)?;
        }
        for (block, retired) in (0..).zip(&ftl.pool.retired) {
            if *retired {
                assign(block, Role::Retired)?;
            }
        }
        if let Some(lost) = (1..roles.len()).find(|block| roles[*block] == Role::Unknown) {
            return Err(format!("superblock {lost} has no role"));
        }
        Ok(roles)
    }

    fn check_mapping(&self, roles: &[Role]) -> Result<(), String> {
        let (ftl, layout) = (&self.ftl, &self.layout);
        let mask = (1_u32 << layout.shift) - 1;
        let mut valid = vec![0_u32; ftl.blocks.len()];
        let mut extents = Vec::new();
        let listed = self.packed_units();
        let (mut mapped, mut trimmed) = (0, 0);
        for (unit, address) in (0_u32..).zip(&ftl.map) {
            match *address {
                NEVER => continue,
                TRIMMED => {
                    trimmed += 1;
                    continue;
                }
                _ => mapped += 1,
            }
            let (block, slot) = (address >> layout.shift, address & mask);
            require!(
                block <= layout.superblocks && slot < layout.superblock_slots,
                "unit {unit} maps to an invalid address: {address:#x}"
            );
            let role = roles[block as usize];
            require!(
                matches!(role, Role::Open | Role::Listed | Role::Slc),
                "unit {unit} maps into a superblock in state {role:?}"
            );
            let slots = match &ftl.packed {
                None => {
                    let named = ftl.back
                        [(block as usize - 1) * layout.superblock_slots as usize + slot as usize];
                    require!(named == unit, "unit {unit} maps to a slot that names unit {named}");
                    1
                }
                Some(packed) => {
                    require!(
                        listed[unit as usize],
                        "unit {unit} is not listed in superblock {block}"
                    );
                    let slots = packed.slots_of(unit, 1);
                    extents.push((*address, slots));
                    slots
                }
            };
            let end = if ftl.in_slc[block as usize] {
                layout.slc_superblock_slots
            } else {
                layout.superblock_slots
            };
            require!(
                slots > 0 && slot + slots <= end,
                "unit {unit} reaches past the end of superblock {block}"
            );
            valid[block as usize] += slots;
        }
        extents.sort_unstable();
        for pair in extents.windows(2) {
            require!(pair[0].0 + pair[0].1 <= pair[1].0, "two units share a slot: {pair:?}");
        }
        require!(
            (mapped, trimmed) == (ftl.mapped, ftl.trimmed),
            "{mapped} mapped, {trimmed} trimmed, but counted {} and {}",
            ftl.mapped,
            ftl.trimmed
        );
        for frontier in ftl.frontiers.iter().filter(|frontier| frontier.is_open()) {
            valid[(frontier.next >> layout.shift) as usize] += frontier.end - frontier.next;
        }
        for (block, (valid, entry)) in valid.iter().zip(&ftl.blocks).enumerate().skip(1) {
            require!(
                *valid == entry.valid,
                "superblock {block} holds {valid} valid slots, counted {}",
                entry.valid
            );
        }
        Ok(())
    }

    /// On a compressing drive, marks units listed in the superblock that they map to.
    fn packed_units(&self) -> Vec<bool> {
        let Some(packed) = &self.ftl.packed else { return Vec::new() };
        let mut listed = vec![false; self.ftl.map.len()];
        for (block, units) in (0_u32..).zip(&packed.contents) {
            for unit in units {
                listed[*unit as usize] |=
                    self.ftl.map[*unit as usize] >> self.layout.shift == block;
            }
        }
        listed
    }

    fn check_victims(&self, roles: &[Role]) -> Result<(), String> {
        let ftl = &self.ftl;
        for (block, (role, entry)) in roles.iter().zip(&ftl.blocks).enumerate().skip(1) {
            let listed = entry.pos != UNLISTED;
            require!(
                listed == (*role == Role::Listed),
                "superblock {block} is {role:?}, listed: {listed}"
            );
        }
        if matches!(ftl.victims, Victims::Greedy(_)) {
            let counts: Vec<u32> =
                listed(&ftl.victims).iter().map(|at| ftl.blocks[*at as usize].valid).collect();
            require!(counts.is_sorted(), "victims are out of order: {counts:?}");
        }
        Ok(())
    }

    fn check_counts(&self, roles: &[Role]) -> Result<(), String> {
        let (ftl, layout) = (&self.ftl, &self.layout);
        let free = roles.iter().filter(|role| **role == Role::Free).count() as u64;
        require!(
            free == u64::from(ftl.pool.free()),
            "{free} superblocks free, counted {}",
            ftl.pool.free()
        );
        require!(free > 0, "no free superblock is reserved for collection");
        let unwritten: u64 =
            ftl.frontiers.iter().map(|frontier| u64::from(frontier.end - frontier.next)).sum();
        let slots = free * u64::from(layout.superblock_slots) + unwritten;
        require!(slots == ftl.free_slots, "{slots} slots free, counted {}", ftl.free_slots);
        let slc = (1..roles.len()).filter(|block| ftl.in_slc[*block]).count() as u64;
        require!(
            slc == u64::from(ftl.slc_used),
            "{slc} superblocks in SLC mode, counted {}",
            ftl.slc_used
        );
        let counters = &ftl.counters;
        if ftl.packed.is_none() && ftl.merge_slots == 0 {
            let waiting = self.partial.bytes() + counters.cache_lost_bytes;
            let written = counters.nand_written_host_slots * layout.slot_bytes;
            require!(
                counters.host_written_bytes <= written + waiting,
                "the host wrote {} bytes, the flash {written}",
                counters.host_written_bytes
            );
        }
        require!(
            counters.trim_ignored_bytes <= counters.trim_asked_bytes,
            "more TRIM ignored than asked"
        );
        Ok(())
    }
}
