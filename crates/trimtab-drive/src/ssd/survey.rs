//! Content of each superblock. Scans the whole map, so it is for reports only.

use super::{Ssd, TRIMMED};
use crate::Extent;
use crate::Superblock;
use alloc::vec;
use alloc::vec::Vec;

impl Ssd {
    /// Content of every superblock in physical order. The host needs the extents of `needed`,
    /// which ascend and do not overlap.
    pub fn superblocks(&self, needed: &mut dyn Iterator<Item = Extent>) -> Vec<Superblock> {
        let ftl = &self.ftl;
        let unit_bytes = self.layout.unit_bytes;
        let (mut from, mut end) = (0, 0);
        let mut all = vec![Superblock::default(); ftl.blocks.len()];
        for (unit, address) in (0_u32..).zip(&ftl.map) {
            if *address <= TRIMMED {
                continue;
            }
            let slots = ftl.packed.as_ref().map_or(1, |packed| u64::from(packed.slots_of(unit, 1)));
            let block = &mut all[(address >> self.layout.shift) as usize];
            let offset = u64::from(unit) * unit_bytes;
            while end <= offset {
                (from, end) = needed.next().map_or((u64::MAX, u64::MAX), |extent| (extent.offset, extent.offset + extent.len));
            }
            *(if from < offset + unit_bytes { &mut block.needed } else { &mut block.unneeded }) += slots;
        }
        let mut free = vec![0_u64; all.len()];
        for (_, _, block) in ftl.pool.free_entries() {
            free[block as usize] = u64::from(self.layout.superblock_slots);
        }
        for frontier in ftl.frontiers.iter().filter(|frontier| frontier.is_open()) {
            free[(frontier.next >> self.layout.shift) as usize] = u64::from(frontier.end - frontier.next);
        }
        for (at, block) in all.iter_mut().enumerate() {
            block.one_bit = ftl.in_slc[at] && free[at] < u64::from(self.layout.superblock_slots);
            block.slots = u64::from(if block.one_bit { self.layout.slc_superblock_slots } else { self.layout.superblock_slots });
            block.stale = block.slots.saturating_sub(free[at] + block.needed + block.unneeded);
        }
        all.split_off(1)
    }
}
