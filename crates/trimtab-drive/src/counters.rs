//! Counters of an SSD.

use super::spec::layout::SsdLayout;
use crate::units::Bytes;

/// Counters of a drive, all of them 64 bits wide.
macro_rules! counters {
    ($(#[$doc:meta])* pub struct $name:ident { $($(#[$of:meta])* $field:ident,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct $name { $($(#[$of])* pub $field: u64),+ }

        impl $name {
            /// Names and values of all counters in declaration order.
            #[must_use]
            pub fn fields(&self) -> alloc::vec::Vec<(&'static str, u64)> {
                alloc::vec![$((stringify!($field), self.$field)),+]
            }

            /// Differences from `earlier`, a copy of the same drive's counters.
            #[must_use]
            pub fn since(&self, earlier: &Self) -> Self {
                Self { $($field: self.$field.wrapping_sub(earlier.$field)),+ }
            }
        }
    };
}

counters! {
    /// Counts since the drive was new. A slot is [`Layout::slot_bytes`], a unit
    /// [`Layout::unit_bytes`]. Times are in nanoseconds.
    pub struct Counters {
        /// Read commands.
        host_reads,
        /// Write commands.
        host_writes,
        /// TRIM commands.
        host_trims,
        /// Flush commands.
        host_flushes,
        /// Bytes that the host read.
        host_read_bytes,
        /// Bytes that the host wrote.
        host_written_bytes,
        /// Host bytes lost when a power cut hit an incomplete unit in the write cache.
        cache_lost_bytes,
        /// Slots written for the host.
        nand_written_host_slots,
        /// Slots written by garbage collection.
        nand_written_gc_slots,
        /// Slots folded out of the SLC cache.
        nand_written_fold_slots,
        /// Slots relocated to level wear.
        nand_written_wear_slots,
        /// Slots left unused because a page was programmed before it was full.
        nand_written_padding_slots,
        /// Mapping pages written back if the mapping does not fit in memory.
        nand_written_map_pages,
        /// Bytes within [`nand_written_host_slots`](Self::nand_written_host_slots) that
        /// the host did not send, because a mapped unit was partly overwritten.
        nand_written_rest_bytes,
        /// Rows read for the host.
        nand_read_host_rows,
        /// Rows read to relocate data.
        nand_read_internal_rows,
        /// Rows read because a mapped unit was partly overwritten.
        nand_read_rest_rows,
        /// Mapping pages read if the mapping does not fit in memory.
        nand_read_map_pages,
        /// Superblocks erased.
        erases,
        /// Bytes written by the host when the first superblock retired; 0 if none has.
        first_retired_written_bytes,
        /// Superblocks collected.
        gc_superblocks,
        /// Superblocks folded out of the SLC cache.
        folded_superblocks,
        /// Superblocks relocated to level wear.
        levelled_superblocks,
        /// Time of all relocation, summed over dies.
        gc_die_ns,
        /// Time that commands waited for a queue slot.
        stall_queue_ns,
        /// Time that writes waited for room in the write cache.
        stall_cache_ns,
        /// Time that commands waited inside the drive for a TRIM. Excludes commands that
        /// the host holds back during a TRIM.
        stall_trim_ns,
        /// Time that flushes took.
        stall_flush_ns,
        /// Time spent throttled.
        throttled_ns,
        /// Ranges in TRIM commands.
        trim_ranges,
        /// Bytes in TRIM commands.
        trim_asked_bytes,
        /// Bytes of ignored TRIM ranges: too short or outside the alignment.
        trim_ignored_bytes,
        /// Mapped units that a TRIM unmapped.
        trim_effective_units,
        /// Units in TRIM ranges that were not mapped.
        trim_repeated_units,
        /// Time that TRIM commands took.
        trim_ns,
    }
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

    /// Bytes written to flash per byte written by the host; `None` before the first
    /// write.
    #[must_use]
    pub fn waf(&self, layout: &SsdLayout, page_bytes: u64) -> Option<f64> {
        let host = self.host_written_bytes;
        (host != 0).then(|| self.nand_written(layout, page_bytes).as_f64() / host as f64)
    }
}
