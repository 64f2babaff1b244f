//! Content of each superblock. Scans the whole map, so it is for reports only.

use super::{Ssd, TRIMMED};
use crate::Extent;
use crate::Superblock;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

impl Ssd {
    /// Content of every superblock in physical order. The host needs the extents of
    /// `needed`, which ascend and do not overlap.
    pub fn superblocks(&self, needed: &mut dyn Iterator<Item = Extent>) -> Vec<Superblock> {
        let ftl = &self.ftl;
        let unit_bytes = self.layout.unit_bytes;
        let mut all = vec![Superblock::default(); ftl.blocks.len()];
        let units = ftl.map.len();
        let mut counted = 0;
        for extent in needed {
            let first = ((extent.offset / unit_bytes) as usize).clamp(counted, units);
            let end =
                ((extent.offset + extent.len).div_ceil(unit_bytes) as usize).clamp(first, units);
            self.count(counted..first, &mut all, |block| &mut block.unneeded);
            self.count(first..end, &mut all, |block| &mut block.needed);
            counted = end;
        }
        self.count(counted..units, &mut all, |block| &mut block.unneeded);
        let mut free = vec![0_u64; all.len()];
        for (_, _, block) in ftl.pool.free_entries() {
            free[block as usize] = u64::from(self.layout.superblock_slots);
        }
        for frontier in ftl.frontiers.iter().filter(|frontier| frontier.is_open()) {
            free[(frontier.next >> self.layout.shift) as usize] =
                u64::from(frontier.end - frontier.next);
        }
        for (at, block) in all.iter_mut().enumerate() {
            block.one_bit = ftl.in_slc[at] && free[at] < u64::from(self.layout.superblock_slots);
            block.slots = u64::from(if block.one_bit {
                self.layout.slc_superblock_slots
            } else {
                self.layout.superblock_slots
            });
            block.stale = block.slots.saturating_sub(free[at] + block.needed + block.unneeded);
        }
        all.split_off(1)
    }

    /// Adds the slots of mapped `units` to a part of their superblocks.
    fn count(
        &self,
        units: Range<usize>,
        all: &mut [Superblock],
        part: impl Fn(&mut Superblock) -> &mut u64,
    ) {
        for (unit, address) in
            units.clone().zip(&self.ftl.map[units]).filter(|(_, address)| **address > TRIMMED)
        {
            let slots = self
                .ftl
                .packed
                .as_ref()
                .map_or(1, |packed| u64::from(packed.slots_of(unit as u32, 1)));
            *part(&mut all[(address >> self.layout.shift) as usize]) += slots;
        }
    }
}
