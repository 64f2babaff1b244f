//! Writes of less than a mapping unit: merged in the write cache while they continue each other, else completed by reading the rest.

use super::{Ssd, TRIMMED};
use crate::Extent;
use crate::data::DataClass;
use crate::spec::Flash;
use crate::spec::layout::Layout;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// The most units that are kept waiting for their rest.
const PARTS_MAX: u64 = 64;

/// A unit of which the write cache holds a contiguous part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) unit: u32,
    /// Bytes within the unit.
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) class: DataClass,
    /// Its writes in the journal.
    pub(super) sequences: Vec<u64>,
}

/// Units partly in the write cache, oldest first.
#[derive(Clone, Debug)]
pub(super) struct PartialUnits {
    pub(super) parts: VecDeque<Part>,
    max: usize,
}

impl PartialUnits {
    pub(super) fn new(flash: &Flash, layout: &Layout) -> Self {
        // Half the write cache at most; without one, nothing waits.
        let max = (flash.write_cache.bytes / 2 / layout.unit_bytes).min(PARTS_MAX) as usize;
        Self { parts: VecDeque::new(), max }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// The most units that wait.
    pub(super) const fn max(&self) -> usize {
        self.max
    }

    /// Bytes that wait.
    pub(super) fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.to - part.from).sum()
    }
}

impl Ssd {
    /// Writes part of one unit. Gives when it has its place in the write cache.
    pub(super) fn write_part(&mut self, extent: Extent, class: DataClass, ready: u64) -> u64 {
        let unit_bytes = self.layout.unit_bytes;
        let unit = (extent.offset / unit_bytes) as u32;
        let (from, to) = (extent.offset % unit_bytes, extent.offset % unit_bytes + extent.len);
        let was_mapped = self.ftl.map[unit as usize] > TRIMMED;
        let sequences: Vec<u64> = self.ftl.journal.as_mut().map(|journal| journal.write(extent, was_mapped)).into_iter().collect();
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
            // Neither continues the other: the earlier is completed first, so that nothing that the host wrote goes uncounted.
            placed = self.complete_part(at, ready);
        }
        if self.partial.parts.len() >= self.partial.max && !self.partial.is_empty() {
            placed = self.complete_part(0, placed);
        }
        self.partial.parts.push_back(Part { unit, from, to, class, sequences });
        if self.partial.max == 0 {
            placed = self.complete_part(0, placed);
        }
        placed
    }

    /// Bytes of a unit: fewer for the drive's last one if the capacity is no multiple.
    fn unit_len(&self, unit: u32) -> u64 {
        (self.spec.capacity_bytes - u64::from(unit) * self.layout.unit_bytes).min(self.layout.unit_bytes)
    }

    /// Writes the unit of part `at`, its rest read from the flash if it is mapped.
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
        let slots = self.ftl.packed.as_ref().map_or(1, |packed| packed.slots_for(part.class.incompressible_permille()));
        self.ftl.put(&mut self.clock, part.unit, 1, slots, ready)
    }

    /// Writes the parts of `count` units from `unit` on that are waiting.
    pub(super) fn complete_parts(&mut self, unit: u32, count: u32, now: u64) {
        while let Some(at) = self.partial.parts.iter().position(|part| (unit..unit + count).contains(&part.unit)) {
            self.complete_part(at, now);
        }
    }

    /// Forgets all parts that are waiting.
    pub(super) fn lose_parts(&mut self) {
        self.ftl.counters.cache_lost_bytes += self.partial.bytes();
        self.partial.parts.clear();
    }

    /// Writes all parts that are waiting.
    pub(super) fn complete_all_parts(&mut self, now: u64) {
        while !self.partial.is_empty() {
            self.complete_part(0, now);
        }
    }
}
