//! What a compressing drive keeps besides the map: how large each unit is stored, and which units each superblock holds.

use crate::spec::Compression;
use crate::spec::layout::Layout;
use alloc::vec;
use alloc::vec::Vec;

/// Sizes and contents of a compressing drive's superblocks.
#[derive(Clone, Debug)]
pub(super) struct Packed {
    /// Slots of each unit's present version; stale otherwise.
    pub(super) sizes: Vec<u8>,
    /// Units written to each superblock since its erase, in order. A unit is valid there exactly if it maps into that superblock;
    /// written there twice, it is listed twice.
    pub(super) contents: Vec<Vec<u32>>,
    /// Slots of all present versions.
    pub(super) valid_slots: u64,
    /// Units listed over all superblocks.
    listed: usize,
    listed_max: usize,
    shift: u32,
    unit_slots: u32,
    stored_permille_min: u32,
}

impl Packed {
    pub(super) fn new(compression: &Compression, layout: &Layout) -> Self {
        Self {
            sizes: vec![0; layout.units as usize],
            contents: vec![Vec::new(); layout.superblocks as usize + 1],
            valid_slots: 0,
            listed: 0,
            listed_max: layout.units as usize + layout.units as usize / 4 + 4096,
            shift: layout.shift,
            unit_slots: layout.unit_slots,
            stored_permille_min: u32::from(compression.stored_permille_min),
        }
    }

    /// Slots that a unit takes of which `incompressible_permille` cannot be removed.
    pub(super) fn slots_for(&self, incompressible_permille: u16) -> u32 {
        let permille = u32::from(incompressible_permille).clamp(self.stored_permille_min, 1000);
        (self.unit_slots * permille).div_ceil(1000)
    }

    /// Slots of `count` mapped units from `unit` on.
    pub(super) fn slots_of(&self, unit: u32, count: u32) -> u32 {
        self.sizes[unit as usize..(unit + count) as usize].iter().map(|size| u32::from(*size)).sum()
    }

    /// Records that `count` units from `unit` on were written to `block` in `slots` slots each.
    pub(super) fn append(&mut self, block: u32, unit: u32, count: u32, slots: u32) {
        self.sizes[unit as usize..(unit + count) as usize].fill(slots as u8);
        self.contents[block as usize].extend(unit..unit + count);
        self.listed += count as usize;
        self.valid_slots += u64::from(count) * u64::from(slots);
    }

    /// `block` is complete.
    pub(super) fn closed(&mut self, block: u32) {
        self.contents[block as usize].shrink_to_fit();
    }

    /// Lists `unit`, which maps to `block`, without regard to the order; gives its slots.
    pub(super) fn list_again(&mut self, block: u32, unit: u32) -> u32 {
        self.contents[block as usize].push(unit);
        self.listed += 1;
        let slots = u32::from(self.sizes[unit as usize]);
        self.valid_slots += u64::from(slots);
        slots
    }

    /// Puts the lists in the order in which units were written.
    pub(super) fn sort(&mut self, map: &[u32]) {
        for units in &mut self.contents {
            units.sort_unstable_by_key(|unit| map[*unit as usize]);
        }
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.contents.iter_mut().for_each(|units| *units = Vec::new());
        (self.valid_slots, self.listed) = (0, 0);
    }

    /// Takes the valid units of `block`, which is about to be erased, in the order in which they were written.
    pub(super) fn take(&mut self, block: u32, map: &[u32]) -> Vec<u32> {
        let mut units = core::mem::take(&mut self.contents[block as usize]);
        self.listed -= units.len();
        units.retain(|unit| map[*unit as usize] >> self.shift == block);
        units.sort_unstable_by_key(|unit| map[*unit as usize]);
        units.dedup();
        units
    }

    /// Drops stale entries once there are many: what compresses well is overwritten often before its superblock is collected.
    pub(super) fn bound_memory(&mut self, map: &[u32]) {
        if self.listed <= self.listed_max {
            return;
        }
        self.listed = 0;
        for (block, units) in self.contents.iter_mut().enumerate() {
            units.retain(|unit| (map[*unit as usize] >> self.shift) as usize == block);
            units.shrink_to_fit();
            self.listed += units.len();
        }
        // Units listed twice in a superblock survive; never sweep again for nothing.
        self.listed_max = self.listed_max.max(self.listed + self.listed / 4);
    }
}
