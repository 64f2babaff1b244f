//! Partial writes of a mapping unit: contiguous ones are merged in the write cache,
//! others are completed by reading the rest.

use super::{Ssd, TRIMMED};
use crate::Extent;
use crate::data::DataClass;
use crate::spec::Flash;
use crate::spec::layout::SsdLayout;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

const PARTS_MAX: u64 = 64;

/// A unit with a contiguous part in the write cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PartialUnit {
    pub(super) unit: u32,
    /// Offset of the part within the unit, in bytes.
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) class: DataClass,
    /// Sequence numbers of its writes in the journal.
    pub(super) sequences: Vec<u64>,
}

/// Incomplete units, oldest first.
#[derive(Clone, Debug)]
pub(super) struct PartialUnits {
    pub(super) parts: VecDeque<PartialUnit>,
    max: usize,
}

impl PartialUnits {
    pub(super) fn new(flash: &Flash, layout: &SsdLayout) -> Self {
        // Limited to half the write cache; without a cache every part is completed at
        // once.
        let max = (flash.write_cache.bytes / 2 / layout.unit_bytes).min(PARTS_MAX) as usize;
        Self { parts: VecDeque::new(), max }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    #[cfg(any(test, feature = "checks"))]
    pub(super) const fn max(&self) -> usize {
        self.max
    }

    pub(super) fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.to - part.from).sum()
    }
}

impl Ssd {
    /// Writes part of one unit. Returns the time at which it is in the write cache.
    pub(super) fn write_part(&mut self, extent: Extent, class: DataClass, ready: u64) -> u64 {
        let unit_bytes = self.layout.unit_bytes;
        let unit = (extent.offset / unit_bytes) as u32;
        let (from, to) = (extent.offset % unit_bytes, extent.offset % unit_bytes + extent.len);
        let was_mapped = self.ftl.map[unit as usize] > TRIMMED;
        let sequences: Vec<u64> = self
            .ftl
            .journal
            .as_mut()
            .map(|journal| journal.write(extent, was_mapped))
            .into_iter()
            .collect();
        let mut placed = ready;
        if let Some(at) = self.partial.parts.iter().position(|part| part.unit == unit) {
            let part = &mut self.partial.parts[at];
            if from == part.to || to == part.from {
                (part.from, part.to) = (part.from.min(from), part.to.max(to));
                part.sequences.extend(sequences);
                if part.to - part.from < self.unit_len(unit) {
                    return ready;
                }
                return self.complete_part(at, ready);
            }
            // Not contiguous: complete the earlier part first, so that all host writes
            // are counted.
            placed = self.complete_part(at, ready);
        }
        if self.partial.parts.len() >= self.partial.max && !self.partial.is_empty() {
            placed = self.complete_part(0, placed);
        }
        self.partial.parts.push_back(PartialUnit { unit, from, to, class, sequences });
        if self.partial.max == 0 {
            placed = self.complete_part(0, placed);
        }
        placed
    }

    /// Unit size in bytes; smaller for the last unit if the capacity is not a multiple.
    fn unit_len(&self, unit: u32) -> u64 {
        (self.spec.capacity_bytes - u64::from(unit) * self.layout.unit_bytes)
            .min(self.layout.unit_bytes)
    }

    /// Writes the unit of part `at`, reading its rest from flash if it is mapped.
    fn complete_part(&mut self, at: usize, ready: u64) -> u64 {
        let Some(part) = self.partial.parts.remove(at) else { return ready };
        let rest = self.unit_len(part.unit) - (part.to - part.from);
        let mut ready = ready;
        if rest > 0 {
            self.ftl.counters.nand_written_rest_bytes += rest;
            if self.ftl.map[part.unit as usize] > TRIMMED {
                let rows = self.ftl.counters.nand_read_host_rows;
                ready = self.read_piece(part.unit, part.unit + 1, ready, ready).1;
                let counters = &mut self.ftl.counters;
                counters.nand_read_rest_rows += counters.nand_read_host_rows - rows;
                counters.nand_read_host_rows = rows;
            }
        }
        if let Some(journal) = &mut self.ftl.journal {
            journal.place_next(part.sequences);
        }
        let ready = self.look_up(part.unit, 1, true, ready);
        let slots = self
            .ftl
            .packed
            .as_ref()
            .map_or(1, |packed| packed.slots_for(part.class.incompressible_permille()));
        self.ftl.put(&mut self.clock, part.unit, 1, slots, ready)
    }

    /// Writes any incomplete units among the `count` units starting at `unit`.
    pub(super) fn complete_parts(&mut self, unit: u32, count: u32, now: u64) {
        while let Some(at) =
            self.partial.parts.iter().position(|part| (unit..unit + count).contains(&part.unit))
        {
            self.complete_part(at, now);
        }
    }

    pub(super) fn lose_parts(&mut self) {
        self.ftl.counters.cache_lost_bytes += self.partial.bytes();
        self.partial.parts.clear();
    }

    pub(super) fn complete_all_parts(&mut self, now: u64) {
        while !self.partial.is_empty() {
            self.complete_part(0, now);
        }
    }
}
