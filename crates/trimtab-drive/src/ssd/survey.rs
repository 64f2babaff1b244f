//! Content of each superblock. Scans the map, so it is for reports only.

use super::Ssd;
use crate::Extent;
use crate::Superblock;
use alloc::vec;
use alloc::vec::Vec;

impl Ssd {
    /// Content of every superblock in physical order. The host needs the extents of
    /// `needed`, which ascend and do not overlap.
    pub fn superblocks(&self, needed: &mut dyn Iterator<Item = Extent>) -> Vec<Superblock> {
        let ftl = &self.ftl;
        let unit_bytes = self.layout.unit_bytes;
        let mut all = vec![Superblock::default(); ftl.blocks.len()];
        let shift = self.layout.shift;
        let mut counted = 0;
        for extent in needed {
            let first = ((extent.offset / unit_bytes) as usize).clamp(counted, ftl.map.len());
            counted = ((extent.offset + extent.len).div_ceil(unit_bytes) as usize)
                .clamp(first, ftl.map.len());
            let mut unit = first as u32;
            for run in ftl.map[first..counted].chunk_by(|a, b| a >> shift == b >> shift) {
                let count = run.len() as u32;
                let slots = ftl.packed.as_ref().map_or(count, |all| all.slots_of(unit, count));
                // Unmapped units count for superblock 0, which does not exist.
                all[(run[0] >> shift) as usize].needed += u64::from(slots);
                unit += count;
            }
        }
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
            // Unwritten slots of an open superblock count as valid.
            let written = u64::from(ftl.blocks[at].valid).saturating_sub(free[at]);
            block.unneeded = written.saturating_sub(block.needed);
            block.stale = block.slots.saturating_sub(free[at] + block.needed + block.unneeded);
        }
        all.split_off(1)
    }
}
