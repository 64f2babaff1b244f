//! Additional state of a compressing drive: unit sizes and superblock contents.

use crate::spec::Compression;
use crate::spec::layout::SsdLayout;
use alloc::vec;
use alloc::vec::Vec;

/// Stored sizes and superblock contents of a compressing drive.
#[derive(Clone, Debug)]
pub(super) struct CompressionState {
    /// Slots of each unit's current version; undefined for unmapped units.
    pub(super) sizes: Vec<u8>,
    /// Units written to each superblock since its erase, in order. A unit is valid there
    /// if it maps into that superblock. A unit written there twice is listed twice.
    pub(super) contents: Vec<Vec<u32>>,
    /// Slots of all current versions.
    pub(super) valid_slots: u64,
    /// List entries summed over all superblocks.
    listed: usize,
    listed_max: usize,
    shift: u32,
    unit_slots: u32,
    stored_permille_min: u32,
}

impl CompressionState {
    pub(super) fn new(compression: &Compression, layout: &SsdLayout) -> Self {
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

    /// Slots for a unit of which `incompressible_permille` cannot be removed.
    pub(super) fn slots_for(&self, incompressible_permille: u16) -> u32 {
        let permille = u32::from(incompressible_permille).clamp(self.stored_permille_min, 1000);
        (self.unit_slots * permille).div_ceil(1000)
    }

    /// Slots of `count` mapped units starting at `unit`.
    pub(super) fn slots_of(&self, unit: u32, count: u32) -> u32 {
        self.sizes[unit as usize..(unit + count) as usize].iter().map(|size| u32::from(*size)).sum()
    }

    /// Records that `count` units starting at `unit` were written to `block`, `slots`
    /// slots each.
    pub(super) fn append(&mut self, block: u32, unit: u32, count: u32, slots: u32) {
        self.sizes[unit as usize..(unit + count) as usize].fill(slots as u8);
        self.contents[block as usize].extend(unit..unit + count);
        self.listed += count as usize;
        self.valid_slots += u64::from(count) * u64::from(slots);
    }

    /// Releases spare memory of the completed superblock `block`.
    pub(super) fn closed(&mut self, block: u32) {
        self.contents[block as usize].shrink_to_fit();
    }

    /// Removes and returns the valid units of `block`, in write order, before it is
    /// erased.
    pub(super) fn take(&mut self, block: u32, map: &[u32]) -> Vec<u32> {
        let mut units = core::mem::take(&mut self.contents[block as usize]);
        self.listed -= units.len();
        units.retain(|unit| map[*unit as usize] >> self.shift == block);
        units.sort_unstable_by_key(|unit| map[*unit as usize]);
        units.dedup();
        units
    }

    /// Drops stale entries when there are many: highly compressible units may be
    /// overwritten often before their superblock is collected.
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
        // Units listed twice survive the sweep; raise the limit so that sweeps stay
        // worthwhile.
        self.listed_max = self.listed_max.max(self.listed + self.listed / 4);
    }
}
