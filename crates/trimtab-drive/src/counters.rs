//! What an SSD counts.

use super::spec::layout::Layout;
use crate::units::Bytes;

/// Counts since the drive was new. Slots are of [`Layout::slot_bytes`]; a unit is [`Layout::unit_bytes`].
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
    /// Of these, lost in the write cache: cut off, or erased, while a part of a unit waited for its rest.
    pub cache_lost_bytes: u64,
    /// Slots written because the host wrote.
    pub nand_written_host_slots: u64,
    /// Slots written by garbage collection.
    pub nand_written_gc_slots: u64,
    /// Slots moved out of the SLC cache.
    pub nand_written_fold_slots: u64,
    /// Slots moved to level wear.
    pub nand_written_wear_slots: u64,
    /// Slots left unused because a page had to be programmed before it was full.
    pub nand_written_padding_slots: u64,
    /// Pages of the mapping written back, where it does not fit in memory.
    pub nand_written_map_pages: u64,
    /// Of [`nand_written_host_slots`](Self::nand_written_host_slots): bytes that the host had not sent, because a mapped unit was overwritten in part.
    pub nand_written_rest_bytes: u64,
    /// Rows read for the host.
    pub nand_read_host_rows: u64,
    /// Rows read to move data.
    pub nand_read_internal_rows: u64,
    /// Rows read because a mapped unit was overwritten in part.
    pub nand_read_rest_rows: u64,
    /// Pages of the mapping read, where it does not fit in memory.
    pub nand_read_map_pages: u64,
    /// Superblocks erased.
    pub erases: u64,
    /// Bytes that the host had written when the first superblock retired; 0 while none has.
    pub first_retired_written_bytes: u64,
    /// Superblocks collected.
    pub gc_superblocks: u64,
    /// Superblocks moved out of the SLC cache.
    pub folded_superblocks: u64,
    /// Superblocks moved to level wear.
    pub levelled_superblocks: u64,
    /// Time of all that, summed over dies.
    pub gc_die_ns: u64,
    /// Time that commands waited for a place in the queue.
    pub stall_queue_ns: u64,
    /// Time that writes waited for a place in the write cache.
    pub stall_cache_ns: u64,
    /// Time that commands waited inside the drive for a TRIM. What the host holds back while a TRIM is under way is not here.
    pub stall_trim_ns: u64,
    /// Time that flushes took.
    pub stall_flush_ns: u64,
    /// Time spent throttled.
    pub throttled_ns: u64,
    /// Ranges that TRIM commands carried.
    pub trim_ranges: u64,
    /// Bytes of them.
    pub trim_asked_bytes: u64,
    /// Of these, ignored: too small, or outside the alignment.
    pub trim_ignored_bytes: u64,
    /// Units that were mapped and no longer are.
    pub trim_effective_units: u64,
    /// Units that were not mapped anyway.
    pub trim_repeated_units: u64,
    /// Time that TRIM commands took.
    pub trim_ns: u64,
}

impl Counters {
    /// A write waited so long for its place in the write cache.
    #[inline]
    pub(super) const fn waited_for_the_cache(&mut self, ns: u64) {
        self.stall_cache_ns = self.stall_cache_ns.saturating_add(ns);
    }

    /// Bytes written to flash, for whatever cause.
    #[must_use]
    pub fn nand_written(&self, layout: &Layout, page_bytes: u64) -> Bytes {
        let slots = self.nand_written_host_slots
            + self.nand_written_gc_slots
            + self.nand_written_fold_slots
            + self.nand_written_wear_slots
            + self.nand_written_padding_slots;
        Bytes(slots * layout.slot_bytes + self.nand_written_map_pages * page_bytes)
    }

    /// Write amplification factor: bytes written to flash per byte that the host wrote; `None` before the first.
    #[must_use]
    pub fn waf(&self, layout: &Layout, page_bytes: u64) -> Option<f64> {
        let host = self.host_written_bytes;
        (host != 0).then(|| self.nand_written(layout, page_bytes).as_f64() / host as f64)
    }
}

macro_rules! each_counter {
    ($($field:ident),+ $(,)?) => {
        impl Counters {
            /// Names and values of all counters, in the order of their declaration.
            #[must_use]
            pub fn fields(&self) -> alloc::vec::Vec<(&'static str, u64)> {
                let Self { $($field),+ } = self;
                alloc::vec![$((stringify!($field), *$field)),+]
            }

            /// What was counted since `earlier`, a copy of the same drive's counters.
            #[must_use]
            pub fn since(&self, earlier: &Self) -> Self {
                Self { $($field: self.$field.wrapping_sub(earlier.$field)),+ }
            }

            /// Sets all counters to values in the order of [`fields`](Self::fields); `None` if there are not as many.
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
