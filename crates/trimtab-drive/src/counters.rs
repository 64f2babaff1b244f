//! Counters of an SSD.

use super::spec::layout::SsdLayout;
use crate::units::Bytes;

/// Counts since the drive was new. A slot is [`Layout::slot_bytes`], a unit
/// [`Layout::unit_bytes`]. Times are in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Read commands.
    pub host_reads: u64,
    /// Write commands.
    pub host_writes: u64,
    /// TRIM commands.
    pub host_trims: u64,
    /// Flush commands.
    pub host_flushes: u64,
    /// Bytes that the host read.
    pub host_read_bytes: u64,
    /// Bytes that the host wrote.
    pub host_written_bytes: u64,
    /// Host bytes lost when a power cut or erase hit an incomplete unit in the write cache.
    pub cache_lost_bytes: u64,
    /// Slots written for the host.
    pub nand_written_host_slots: u64,
    /// Slots written by garbage collection.
    pub nand_written_gc_slots: u64,
    /// Slots folded out of the SLC cache.
    pub nand_written_fold_slots: u64,
    /// Slots relocated to level wear.
    pub nand_written_wear_slots: u64,
    /// Slots left unused because a page was programmed before it was full.
    pub nand_written_padding_slots: u64,
    /// Mapping pages written back if the mapping does not fit in memory.
    pub nand_written_map_pages: u64,
    /// Bytes within [`nand_written_host_slots`](Self::nand_written_host_slots) that the host did
    /// not send, because a mapped unit was partly overwritten.
    pub nand_written_rest_bytes: u64,
    /// Rows read for the host.
    pub nand_read_host_rows: u64,
    /// Rows read to relocate data.
    pub nand_read_internal_rows: u64,
    /// Rows read because a mapped unit was partly overwritten.
    pub nand_read_rest_rows: u64,
    /// Mapping pages read if the mapping does not fit in memory.
    pub nand_read_map_pages: u64,
    /// Superblocks erased.
    pub erases: u64,
    /// Bytes written by the host when the first superblock retired; 0 if none has.
    pub first_retired_written_bytes: u64,
    /// Superblocks collected.
    pub gc_superblocks: u64,
    /// Superblocks folded out of the SLC cache.
    pub folded_superblocks: u64,
    /// Superblocks relocated to level wear.
    pub levelled_superblocks: u64,
    /// Time of all relocation, summed over dies.
    pub gc_die_ns: u64,
    /// Time that commands waited for a queue slot.
    pub stall_queue_ns: u64,
    /// Time that writes waited for room in the write cache.
    pub stall_cache_ns: u64,
    /// Time that commands waited inside the drive for a TRIM. Excludes commands that the host
    /// holds back during a TRIM.
    pub stall_trim_ns: u64,
    /// Time that flushes took.
    pub stall_flush_ns: u64,
    /// Time spent throttled.
    pub throttled_ns: u64,
    /// Ranges in TRIM commands.
    pub trim_ranges: u64,
    /// Bytes in TRIM commands.
    pub trim_asked_bytes: u64,
    /// Bytes of ignored TRIM ranges: too short or outside the alignment.
    pub trim_ignored_bytes: u64,
    /// Mapped units that a TRIM unmapped.
    pub trim_effective_units: u64,
    /// Units in TRIM ranges that were not mapped.
    pub trim_repeated_units: u64,
    /// Time that TRIM commands took.
    pub trim_ns: u64,
}

/// `value` and `permille` thousandths of it.
pub(crate) const fn with_permille(value: u64, permille: u32) -> u64 {
    if permille == 0 {
        return value;
    }
    let more = value as u128 * permille as u128 / 1000;
    if more > (u64::MAX - value) as u128 { u64::MAX } else { value + more as u64 }
}

impl Counters {
    #[inline]
    pub(super) const fn waited_for_the_cache(&mut self, ns: u64) {
        self.stall_cache_ns = self.stall_cache_ns.saturating_add(ns);
    }

    /// Bytes written to flash for any reason, metadata and parity included.
    #[must_use]
    pub fn nand_written(&self, layout: &SsdLayout, page_bytes: u64) -> Bytes {
        let slots = self.nand_written_host_slots
            + self.nand_written_gc_slots
            + self.nand_written_fold_slots
            + self.nand_written_wear_slots
            + self.nand_written_padding_slots;
        let data = slots * layout.slot_bytes + self.nand_written_map_pages * page_bytes;
        Bytes(with_permille(data, layout.metadata_permille))
    }

    /// Bytes written to flash per byte written by the host; `None` before the first write.
    #[must_use]
    pub fn waf(&self, layout: &SsdLayout, page_bytes: u64) -> Option<f64> {
        let host = self.host_written_bytes;
        (host != 0).then(|| self.nand_written(layout, page_bytes).as_f64() / host as f64)
    }
}

macro_rules! each_counter {
    ($($field:ident),+ $(,)?) => {
        impl Counters {
            /// Names and values of all counters in declaration order.
            #[must_use]
            pub fn fields(&self) -> alloc::vec::Vec<(&'static str, u64)> {
                let Self { $($field),+ } = self;
                alloc::vec![$((stringify!($field), *$field)),+]
            }

            /// Differences from `earlier`, a copy of the same drive's counters.
            #[must_use]
            pub fn since(&self, earlier: &Self) -> Self {
                Self { $($field: self.$field.wrapping_sub(earlier.$field)),+ }
            }

            /// Restores all counters from values in the order of [`fields`](Self::fields); `None`
            /// if the number of values differs.
            #[must_use]
            pub fn from_values(values: &[u64]) -> Option<Self> {
                let mut values = values.iter().copied();
                let counters = Self { $($field: values.next()?),+ };
                values.next().is_none().then_some(counters)
            }
        }
    };
}

each_counter!(
    host_reads,
    host_writes,
    host_trims,
    host_flushes,
    host_read_bytes,
    host_written_bytes,
    cache_lost_bytes,
    nand_written_host_slots,
    nand_written_gc_slots,
    nand_written_fold_slots,
    nand_written_wear_slots,
    nand_written_padding_slots,
    nand_written_map_pages,
    nand_written_rest_bytes,
    nand_read_host_rows,
    nand_read_internal_rows,
    nand_read_rest_rows,
    nand_read_map_pages,
    erases,
    first_retired_written_bytes,
    gc_superblocks,
    folded_superblocks,
    levelled_superblocks,
    gc_die_ns,
    stall_queue_ns,
    stall_cache_ns,
    stall_trim_ns,
    stall_flush_ns,
    throttled_ns,
    trim_ranges,
    trim_asked_bytes,
    trim_ignored_bytes,
    trim_effective_units,
    trim_repeated_units,
    trim_ns,
);
