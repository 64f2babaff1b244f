//! Reads.

use super::ftl::Frontier;
use super::{Ssd, TRIMMED};
use crate::{Extent, Refusal};
use alloc::collections::VecDeque;

/// Number of reads remembered for read-ahead.
const REMEMBERED: usize = 64;
/// Number of most recent write-cache rows in which a read looks for its data.
const CACHE_ROWS_SEARCHED: usize = 1024;

/// Detects sequential reads and fetches up to `window` bytes ahead of them.
#[derive(Clone, Debug)]
pub(super) struct ReadAhead {
    window: u64,
    /// End offset and start time of recent sequential reads, oldest first.
    pub(super) recent: VecDeque<(u64, u64)>,
}

impl ReadAhead {
    pub(super) fn new(window: u64) -> Self {
        Self { window, recent: VecDeque::new() }
    }

    /// Earliest time at which the flash may start a read submitted at `now` or later.
    fn earliest(&self, now: u64) -> u64 {
        self.recent.front().map_or(now, |(_, at)| *at)
    }

    /// Time at which the flash could start to read `extent`, submitted at `now`.
    fn begin(&mut self, extent: Extent, now: u64) -> u64 {
        let mut begun = now;
        if self.recent.back().is_some_and(|(end, _)| *end == extent.offset) {
            let needed = extent.offset + extent.len;
            // Start of the earliest read whose window covered the whole of this one.
            begun = self
                .recent
                .iter()
                .find(|(end, _)| end + self.window >= needed)
                .map_or(now, |(_, at)| *at);
        } else {
            self.recent.clear();
        }
        if self.recent.len() == REMEMBERED {
            self.recent.pop_front();
        }
        self.recent.push_back((extent.offset + extent.len, now));
        begun
    }
}

/// Units of one row that are read together.
struct RowRead {
    block: u32,
    row: u32,
    rows: u32,
    slots: u32,
    /// First unit after the piece.
    next: u32,
}

impl Ssd {
    pub(super) fn read(&mut self, now: u64, extent: Extent) -> Result<u64, Refusal> {
        self.check(extent)?;
        let started = self.begin(now, false);
        self.ftl.counters.host_reads += 1;
        self.ftl.counters.host_read_bytes += extent.len;
        if extent.len == 0 {
            return Ok(started.saturating_add(self.clock.latency));
        }
        let begun = if self.flash.nand.read_ahead_bytes == 0 {
            started
        } else {
            self.read_ahead.begin(extent, started)
        };
        self.clock.reads_begin = self.read_ahead.earliest(started);
        let first = extent.offset / self.layout.unit_bytes;
        let count = (extent.offset + extent.len).div_ceil(self.layout.unit_bytes) - first;
        let found = self.look_up(first as u32, count as u32, false, begun);
        let end = (first + count) as u32;
        let mut sent = self.clock.send(started, extent.len);
        let mut at = first as u32;
        while at < end {
            // Rest of the request, which the host receives in this order.
            let rest =
                extent.len.min(extent.offset + extent.len - u64::from(at) * self.layout.unit_bytes);
            let (next, there) = self.read_piece(at, end, found, started);
            if there > started {
                sent = sent.max(there.saturating_add(self.clock.sending_ns(rest)));
            }
            at = next;
        }
        Ok(sent.saturating_add(self.clock.latency))
    }

    /// Reads contiguous units of one row together, starting at `unit` and before `end`:
    /// this is where fragmentation costs time. The flash starts at `begun`. Returns the
    /// next unit and the time at which the data are in the controller, `now` or later.
    pub(super) fn read_piece(&mut self, unit: u32, end: u32, begun: u64, now: u64) -> (u32, u64) {
        let piece = self.piece_at(unit, end);
        let rows = piece.row..piece.row + piece.rows;
        (
            piece.next,
            rows.fold(now, |there, row| {
                there.max(self.read_row(piece.block, row, piece.slots, begun, now))
            }),
        )
    }

    /// Units in the same row, starting at `unit` and before `end`.
    fn piece_at(&self, unit: u32, end: u32) -> RowRead {
        let (map, layout) = (&self.ftl.map, &self.layout);
        let address = map[unit as usize];
        if address <= TRIMMED {
            return RowRead { block: 0, row: 0, rows: 0, slots: 0, next: unit + 1 };
        }
        let mask = (1_u32 << layout.shift) - 1;
        let (block, slot) = (address >> layout.shift, address & mask);
        let row = slot / layout.row_slots;
        // Avoid a division per unit: this loop dominates long reads.
        let first = address - slot % layout.row_slots;
        let in_row = |address: u32| {
            address.wrapping_sub(first) < layout.row_slots && address >> layout.shift == block
        };
        let together =
            map[unit as usize + 1..end as usize].iter().take_while(|next| in_row(**next)).count()
                as u32;
        let slots = self
            .ftl
            .packed
            .as_ref()
            .map_or(together + 1, |packed| packed.slots_of(unit, together + 1));
        // A compressed unit may extend into the next row.
        let last_row = (slot + slots - 1).min(layout.superblock_slots - 1) / layout.row_slots;
        RowRead {
            block,
            row,
            rows: 1 + u32::from(last_row > row && self.ftl.packed.is_some()),
            slots,
            next: unit + 1 + together,
        }
    }

    fn read_row(&mut self, block: u32, row: u32, slots: u32, begun: u64, now: u64) -> u64 {
        let first = (block << self.layout.shift) + row * self.layout.row_slots;
        let in_row = |frontier: &Frontier| {
            frontier.taken
                && frontier.next > first
                && frontier.next <= first + self.layout.row_slots
        };
        if self.ftl.frontiers.iter().any(in_row) {
            return now;
        }
        let dies = self.ftl.superblock_dies;
        let die = self.ftl.pool.group(block) * dies + row % dies;
        if self.clock.dies.each[die as usize].free > now
            && self.clock.holds_row(first, now, CACHE_ROWS_SEARCHED)
        {
            return now;
        }
        self.ftl.counters.nand_read_host_rows += self.clock.row_programs();
        let bytes = u64::from(slots.min(self.layout.row_slots)) * self.layout.slot_bytes;
        let slc = self.ftl.in_slc[block as usize];
        let page = self.page_ns(row, slc);
        let retried = self.retry_ns();
        self.clock.read_page(die, begun, bytes, slc, page, retried)
    }

    /// Read time of the page type of `row` relative to the mean; negative if faster. Each
    /// die cycles through its page types.
    fn page_ns(&self, row: u32, slc: bool) -> i64 {
        let nand = &self.flash.nand;
        let kinds = i64::from(self.flash.geometry.bits_per_cell);
        if nand.read_spread_permille == 0 || slc || kinds < 2 {
            return 0;
        }
        let kind = i64::from(row / self.ftl.superblock_dies) % kinds;
        let spread = i64::try_from(self.clock.now.read).unwrap_or(i64::MAX) / 1000
            * i64::from(nand.read_spread_permille);
        spread / (2 * (kinds - 1)) * (2 * kind - (kinds - 1))
    }

    /// Retry time of this read, drawn from the seed and the number of rows read; usually
    /// 0.
    fn retry_ns(&self) -> u64 {
        let nand = &self.flash.nand;
        if nand.read_retries_per_million == 0 {
            return 0;
        }
        let seed = crate::rng::derive_seed(self.seed, "read retries");
        let drawn =
            crate::rng::CountedStream { seed, drawn: self.ftl.counters.nand_read_host_rows }
                .below(1_000_000);
        if drawn < u64::from(nand.read_retries_per_million) { nand.read_retry_ns } else { 0 }
    }
}
