//! Writes, flushes and power cuts.

use super::journal::WriteFate;
use super::{Ssd, TRIMMED};
use crate::data::DataClass;
use crate::spec::FlushBehaviour;
use crate::units::Nanos;
use crate::{Extent, Refusal};
use alloc::vec;
use alloc::vec::Vec;

/// Longer writes are received in pieces, so the flash works during the transfer.
const PIECE_BYTES: u64 = 256 << 10;

impl Ssd {
    /// Admits a command to the queue and the command processor; returns the end of
    /// processing.
    #[inline(always)]
    pub(super) fn begin(&mut self, now: u64, write: bool) -> u64 {
        let start = self.clock.admit(now);
        if start != now {
            let trim = self.clock.blocked_until.min(start).saturating_sub(now);
            let counters = &mut self.ftl.counters;
            counters.stall_trim_ns = counters.stall_trim_ns.saturating_add(trim);
            counters.stall_queue_ns = counters.stall_queue_ns.saturating_add(start - now - trim);
        }
        self.clock.process(start, write)
    }

    #[inline]
    pub(super) fn write(
        &mut self,
        now: u64,
        extent: Extent,
        class: DataClass,
    ) -> Result<u64, Refusal> {
        self.check(extent)?;
        if self.ftl.read_only {
            return Err(Refusal::ReadOnly);
        }
        let started = self.begin(now, true);
        self.ftl.counters.host_writes += 1;
        self.ftl.counters.host_written_bytes += extent.len;
        if let Some(unit) = self.plain_unit(extent) {
            let ready = self.clock.receive(started, extent.len);
            let placed = self.ftl.put_one(&mut self.clock, unit, ready);
            self.ftl.counters.waited_for_the_cache(placed - ready);
            return Ok(self.durable(placed).saturating_add(self.clock.latency));
        }
        self.write_pieces(started, extent, class)
    }

    /// The mapping unit that `extent` is, if the drive has a single write path.
    #[inline]
    fn plain_unit(&self, extent: Extent) -> Option<u32> {
        let (unit, bytes) = (self.layout.unit_at(extent.offset), self.layout.unit_bytes);
        let whole = extent.len == bytes && unit * bytes == extent.offset;
        (whole && self.simple && self.partial.is_empty()).then_some(unit as u32)
    }

    /// Completion time of a write that reached the write cache at `placed`; without a
    /// write cache, the end of its last program.
    #[inline]
    fn durable(&mut self, placed: u64) -> u64 {
        if self.flash.write_cache.bytes > 0 {
            return placed;
        }
        self.write_out(placed);
        placed.max(self.clock.programs_end)
    }

    fn write_pieces(
        &mut self,
        started: u64,
        extent: Extent,
        class: DataClass,
    ) -> Result<u64, Refusal> {
        let (mut offset, end) = (extent.offset, extent.offset + extent.len);
        let mut done = started;
        let mut ready = started;
        while offset < end {
            let piece = (end - offset).min(PIECE_BYTES - offset % PIECE_BYTES);
            if self.ftl.read_only {
                self.ftl.counters.host_written_bytes -= end - offset;
                return Err(Refusal::ReadOnly);
            }
            ready = self.clock.receive(ready, piece);
            let placed = self.write_piece(Extent { offset, len: piece }, class, ready);
            self.ftl.counters.waited_for_the_cache(placed - ready);
            done = done.max(placed);
            offset += piece;
        }
        done = self.durable(done);
        if let Some(packed) = &mut self.ftl.packed {
            packed.bound_memory(&self.ftl.map);
        }
        Ok(done.saturating_add(self.clock.latency))
    }

    fn write_piece(&mut self, piece: Extent, class: DataClass, ready: u64) -> u64 {
        let unit_bytes = self.layout.unit_bytes;
        let end = piece.offset + piece.len;
        let first = piece.offset / unit_bytes;
        let last = end.div_ceil(unit_bytes);
        let mut placed = ready;
        // The drive's last unit may be short; a write to its end counts as whole.
        let whole_from = piece.offset.div_ceil(unit_bytes);
        let whole_to = if end == self.spec.capacity_bytes { last } else { end / unit_bytes };
        if whole_from > whole_to || (whole_from == whole_to && piece.len > 0) {
            return self.write_edges(piece, class, ready);
        }
        if whole_from > first {
            placed = self.write_part(
                Extent { offset: piece.offset, len: whole_from * unit_bytes - piece.offset },
                class,
                placed,
            );
        }
        placed = self.write_whole(whole_from as u32, (whole_to - whole_from) as u32, class, placed);
        if whole_to < last {
            placed = self.write_part(
                Extent { offset: whole_to * unit_bytes, len: end - whole_to * unit_bytes },
                class,
                placed,
            );
        }
        placed
    }

    /// Writes a piece without a whole unit: it lies in one unit or crosses the boundary
    /// of two.
    fn write_edges(&mut self, piece: Extent, class: DataClass, ready: u64) -> u64 {
        let boundary = (piece.offset / self.layout.unit_bytes + 1) * self.layout.unit_bytes;
        let len = piece.len.min(boundary - piece.offset);
        let placed = self.write_part(Extent { offset: piece.offset, len }, class, ready);
        if len == piece.len {
            return placed;
        }
        self.write_part(Extent { offset: boundary, len: piece.len - len }, class, placed)
    }

    pub(super) fn write_whole(
        &mut self,
        unit: u32,
        count: u32,
        class: DataClass,
        ready: u64,
    ) -> u64 {
        if !self.partial.is_empty() {
            self.complete_parts(unit, count, ready);
        }
        if self.ftl.journal.is_some() {
            self.note_whole(unit, count);
        }
        let ready = self.look_up(unit, count, true, ready);
        let slots = self
            .ftl
            .packed
            .as_ref()
            .map_or(1, |packed| packed.slots_for(class.incompressible_permille()));
        self.ftl.put(&mut self.clock, unit, count, slots, ready)
    }

    fn note_whole(&mut self, unit: u32, count: u32) {
        let unit_bytes = self.layout.unit_bytes;
        let capacity = self.spec.capacity_bytes;
        let Some(journal) = &mut self.ftl.journal else { return };
        for unit in u64::from(unit)..u64::from(unit) + u64::from(count) {
            let offset = unit * unit_bytes;
            let was_mapped = self.ftl.map[unit as usize] > TRIMMED;
            let sequence = journal
                .write(Extent { offset, len: unit_bytes.min(capacity - offset) }, was_mapped);
            journal.place_next(vec![sequence]);
        }
    }

    /// Programs all buffered data, padding rows to whole pages.
    pub(super) fn write_out(&mut self, now: u64) {
        self.complete_all_parts(now);
        if self.layout.row_slots == 1 {
            // Each slot is programmed at once.
            return;
        }
        for at in 0..self.ftl.frontiers.len() {
            if self.ftl.frontiers[at].taken {
                self.ftl.write_out_row(&mut self.clock, at, now);
            }
        }
    }

    pub(super) fn flush(&mut self, now: u64) -> u64 {
        let started = self.begin(now, false);
        self.ftl.counters.host_flushes += 1;
        if let Some(journal) = &mut self.ftl.journal {
            journal.settle(now);
        }
        let cache = &self.flash.write_cache;
        if cache.flush == FlushBehaviour::Ignored || cache.power_loss_protection {
            return started.saturating_add(self.clock.latency);
        }
        let flush_ns = cache.flush_ns;
        self.write_out(started);
        // Includes programs that an earlier flush is still waiting for.
        let mut done = started.max(self.clock.programs_end);
        let written = self.ftl.counters.nand_written_host_slots;
        if written > self.clock.flushed_slots {
            self.clock.flushed_slots = written;
            done = done.saturating_add(flush_ns);
        }
        let counters = &mut self.ftl.counters;
        counters.stall_flush_ns = counters.stall_flush_ns.saturating_add(done - started);
        done.saturating_add(self.clock.latency)
    }

    /// Cuts power at `now`. Returns, for every write that was not durable, whether it
    /// survives, in sequence order. A unit then holds its last surviving write, or its
    /// previous content if none survives. TRIMs are durable. The drive accepts commands
    /// again at `now`.
    pub fn power_cut(&mut self, now: Nanos) -> Vec<WriteFate> {
        let protected = self.flash.write_cache.power_loss_protection;
        if protected {
            self.write_out(now.0);
        }
        let cut = self
            .ftl
            .journal
            .as_mut()
            .map(|journal| journal.cut(now.0, protected))
            .unwrap_or_default();
        let unit_bytes = self.layout.unit_bytes;
        for unit in cut.emptied_units(unit_bytes) {
            self.ftl.trim(unit, 1);
        }
        for frontier in &mut self.ftl.frontiers {
            frontier.taken = false;
        }
        self.lose_parts();
        self.clock.restart(now.0, self.ftl.counters.nand_written_host_slots);
        self.now = self.now.max(now.0);
        (self.quiet_since, self.idled_until) = (self.now, self.now);
        cut.fates
    }
}
