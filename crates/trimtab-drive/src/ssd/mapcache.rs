//! Mapping cache for drives whose mapping exceeds controller memory: map pages are read
//! from flash and written back when dirty.

use super::Ssd;
use crate::spec::Flash;
use crate::spec::layout::SsdLayout;
use alloc::vec;
use alloc::vec::Vec;

const ENTRY_BYTES: u64 = 4;
const EMPTY: u32 = u32::MAX;

/// Direct-mapped cache of map pages.
#[derive(Clone, Debug)]
pub(super) struct MapCache {
    /// Map page in each cache line.
    pub(super) tags: Vec<u32>,
    pub(super) dirty: Vec<bool>,
    units_per_page: u32,
    page_bytes: u64,
}

impl MapCache {
    /// Returns `None` if the whole mapping fits in `bytes`.
    pub(super) fn new(bytes: u64, flash: &Flash, layout: &SsdLayout) -> Option<Self> {
        if bytes >= u64::from(layout.units) * ENTRY_BYTES {
            return None;
        }
        let page_bytes = flash.geometry.page_bytes;
        let places = (bytes / page_bytes).max(1) as usize;
        Some(Self {
            tags: vec![EMPTY; places],
            dirty: vec![false; places],
            units_per_page: u32::try_from(page_bytes / ENTRY_BYTES).unwrap_or(u32::MAX),
            page_bytes,
        })
    }
}

impl Ssd {
    /// Looks up `count` units starting at `unit`. Returns the end of the lookup.
    #[inline]
    pub(super) fn look_up(&mut self, unit: u32, count: u32, change: bool, ready: u64) -> u64 {
        if self.map_cache.is_none() || count == 0 {
            return ready;
        }
        self.look_up_pages(unit, count, change, ready)
    }

    fn look_up_pages(&mut self, unit: u32, count: u32, change: bool, ready: u64) -> u64 {
        let Some(cache) = &mut self.map_cache else { return ready };
        let dies = self.clock.dies.each.len() as u32;
        let mut found = ready;
        for page in unit / cache.units_per_page..=(unit + count - 1) / cache.units_per_page {
            let at = page as usize % cache.tags.len();
            if cache.tags[at] != page {
                if cache.tags[at] != EMPTY && cache.dirty[at] {
                    self.ftl.counters.nand_written_map_pages += 1;
                    self.clock.write_map_page(cache.tags[at] % dies, ready);
                }
                self.ftl.counters.nand_read_map_pages += 1;
                found = found.max(self.clock.read(page % dies, ready, cache.page_bytes, false));
                (cache.tags[at], cache.dirty[at]) = (page, false);
            }
            cache.dirty[at] |= change;
        }
        found
    }
}
