//! Sizes of an SSD in mapping units and slots, derived from its specification.

use super::wrong;
use super::{DriveSpec, Flash, SlcSize, SpecError};
use crate::units::Bytes;
use alloc::format;

/// Sizes in mapping units and slots. A slot is the unit of a physical address: a mapping
/// unit, or the storage granularity on a compressing drive. A physical address is
/// `superblock << shift | slot`. Superblocks are counted from 1, so that 0 and 1 can mean
/// "never written" and "trimmed".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SsdLayout {
    /// Bytes of a mapping unit.
    pub unit_bytes: u64,
    /// Binary logarithm of `unit_bytes` if it is a power of two.
    unit_shift: Option<u32>,
    /// Mapping units of the user capacity.
    pub units: u32,
    /// Bytes of a slot.
    pub slot_bytes: u64,
    /// Slots per uncompressed mapping unit; 1 unless the drive compresses.
    pub unit_slots: u32,
    /// Number of superblocks.
    pub superblocks: u32,
    /// Slots per superblock.
    pub superblock_slots: u32,
    /// Slots per superblock in SLC mode; 0 without SLC cache.
    pub slc_superblock_slots: u32,
    /// Width in bits of the slot number in a physical address.
    pub shift: u32,
    /// Slots per row, programmed by a die at once; 1 if a unit spans several rows.
    pub row_slots: u32,
    /// Program operations per row; 1 unless a mapping unit exceeds a row.
    pub row_programs: u32,
    /// Slots per NAND page; rows that are programmed early are padded to whole pages.
    pub page_slots: u32,
    /// Groups of dies, each `superblock_dies` wide.
    pub groups: u32,
    /// Superblocks open for writing at once, summed over all streams.
    pub open_superblocks: u32,
    /// Minimum superblocks reserved for the SLC cache.
    pub slc_superblocks_min: u32,
    /// Maximum superblocks used by the SLC cache.
    pub slc_superblocks_max: u32,
    /// Bytes of metadata and parity written with 1000 bytes of data.
    pub metadata_permille: u32,
}

impl SsdLayout {
    /// Mapping unit that contains byte `offset`.
    #[must_use]
    #[inline]
    pub const fn unit_at(&self, offset: u64) -> u64 {
        match self.unit_shift {
            Some(shift) => offset >> shift,
            None => offset / self.unit_bytes,
        }
    }

    /// Derives the layout of `flash`, part of `spec`.
    ///
    /// # Errors
    /// If units do not fit pages, the address space is too small or there is too little
    /// spare space.
    pub fn new(spec: &DriveSpec, flash: &Flash) -> Result<Self, SpecError> {
        let geometry = &flash.geometry;
        let unit = flash.ftl.mapping_unit_bytes;
        let slot = flash
            .compression
            .as_ref()
            .map_or(unit, |compression| u64::from(compression.granularity_bytes));
        let program_bytes = geometry.page_bytes * u64::from(geometry.planes);
        let fits = program_bytes.is_multiple_of(unit) || unit.is_multiple_of(program_bytes);
        if !fits || !(program_bytes.is_multiple_of(slot) || slot.is_multiple_of(program_bytes)) {
            return Err(wrong(
                "flash.ftl.mapping_unit_bytes",
                unit,
                format!(
                    "must divide what a die programs at once, page_bytes x planes = \
                        {program_bytes}, or be a multiple of it"
                ),
            ));
        }
        let (superblock_slots, shift) = Self::superblock(flash, slot)?;
        let mut layout = Self {
            unit_bytes: unit,
            unit_shift: unit.is_power_of_two().then_some(unit.trailing_zeros()),
            units: u32::try_from(spec.capacity_bytes.div_ceil(unit)).map_err(|_| {
                wrong(
                    "flash.ftl.mapping_unit_bytes",
                    unit,
                    "the user capacity must be less than 2^32 units",
                )
            })?,
            slot_bytes: slot,
            unit_slots: (unit / slot) as u32,
            superblocks: geometry.superblocks() as u32,
            superblock_slots,
            slc_superblock_slots: 0,
            shift,
            row_slots: (program_bytes / slot).max(1) as u32,
            row_programs: slot.div_ceil(program_bytes) as u32,
            page_slots: 0,
            groups: (geometry.dies() / u64::from(geometry.superblock_dies)) as u32,
            open_superblocks: 0,
            slc_superblocks_min: 0,
            slc_superblocks_max: 0,
            metadata_permille: flash.ftl.metadata_permille,
        };
        let page_slots = (geometry.page_bytes / slot).max(1) as u32;
        layout.page_slots =
            if layout.row_slots.is_multiple_of(page_slots) { page_slots } else { layout.row_slots };
        layout.size_slc(flash)?;
        layout.check_spare(spec, flash)?;
        Ok(layout)
    }

    /// Slots per superblock, and the width of the slot number in bits.
    fn superblock(flash: &Flash, slot: u64) -> Result<(u32, u32), SpecError> {
        let geometry = &flash.geometry;
        let unit = flash.ftl.mapping_unit_bytes;
        let bytes = geometry.superblock_bytes();
        let slots = bytes / u128::from(slot);
        if bytes < 2 * u128::from(unit)
            || !bytes.is_multiple_of(u128::from(unit))
            || slots > 1 << 30
        {
            return Err(wrong(
                "flash.ftl.mapping_unit_bytes",
                unit,
                format!(
                    "a superblock ({bytes} bytes) must hold a whole number of units, \
                        at least 2 and at most 2^30 slots"
                ),
            ));
        }
        let slots = slots as u32;
        let shift = slots.next_power_of_two().trailing_zeros();
        let superblocks = geometry.superblocks();
        if superblocks >= u64::from(u32::MAX >> shift) {
            let raw = Bytes(u64::try_from(geometry.raw_bytes()).unwrap_or(u64::MAX));
            return Err(wrong(
                "flash.ftl.mapping_unit_bytes",
                unit,
                format!(
                    "{superblocks} superblocks of {slots} slots exceed 32-bit \
                        addresses; use a larger mapping unit for {raw} of flash"
                ),
            ));
        }
        Ok((slots, shift))
    }

    fn size_slc(&mut self, flash: &Flash) -> Result<(), SpecError> {
        let Some(slc) = &flash.slc_cache else { return Ok(()) };
        let bits = u32::from(flash.geometry.bits_per_cell);
        // Every die gets the same number of whole rows, unless units span several rows.
        let turn = self.row_slots * flash.geometry.superblock_dies;
        let whole =
            if self.superblock_slots / bits >= turn && self.superblock_slots.is_multiple_of(turn) {
                turn
            } else {
                self.row_slots
            };
        self.slc_superblock_slots = self.superblock_slots / bits / whole * whole;
        if self.slc_superblock_slots == 0 {
            return Err(wrong(
                "flash.slc_cache",
                "present",
                "a superblock in SLC mode must hold at least one program operation",
            ));
        }
        let bytes = u64::from(self.slc_superblock_slots) * self.slot_bytes;
        let blocks = |size: u64| {
            u32::try_from(size.div_ceil(bytes)).unwrap_or(u32::MAX).min(self.superblocks)
        };
        (self.slc_superblocks_min, self.slc_superblocks_max) = match slc.size {
            SlcSize::Fixed { bytes } => (blocks(bytes), blocks(bytes)),
            SlcSize::Dynamic { bytes_min, bytes_max } => (blocks(bytes_min), blocks(bytes_max)),
        };
        Ok(())
    }

    fn check_spare(&mut self, spec: &DriveSpec, flash: &Flash) -> Result<(), SpecError> {
        let streams = &flash.ftl.streams;
        let host_streams = 1 + u32::from(flash.slc_cache.is_some());
        self.open_superblocks = host_streams * self.groups + u32::from(streams.separate_gc);
        let needed = self.superblocks_needed(flash);
        if u64::from(self.superblocks) < needed {
            let superblock = Bytes(u64::from(self.superblock_slots) * self.slot_bytes);
            let free = u64::from(flash.ftl.gc.free_high);
            return Err(wrong(
                "flash.geometry.blocks_per_plane",
                flash.geometry.blocks_per_plane,
                format!(
                    "superblocks of {superblock}: {} given, {needed} needed: \
                        {} for the user capacity ({}), {} open for writing, {free} kept \
                        free, {} for the SLC cache",
                    self.superblocks,
                    needed
                        - free
                        - u64::from(self.open_superblocks)
                        - u64::from(self.slc_superblocks_min),
                    Bytes(spec.capacity_bytes),
                    self.open_superblocks,
                    self.slc_superblocks_min
                ),
            ));
        }
        Ok(())
    }

    /// Minimum superblocks with which a full drive still accepts writes: user data with
    /// one stale slot, open superblocks, the garbage-collection watermark and the SLC
    /// cache.
    pub(crate) fn superblocks_needed(&self, flash: &Flash) -> u64 {
        // A compressed unit does not straddle superblocks; each may lose up to a unit at
        // its end.
        let usable = u64::from(self.superblock_slots) - u64::from(self.unit_slots - 1);
        u64::from(self.units) * u64::from(self.unit_slots) / usable
            + 1
            + u64::from(self.open_superblocks)
            + u64::from(flash.ftl.gc.free_high)
            + u64::from(self.slc_superblocks_min)
    }

    /// Incompressible bytes, valid and stale, that fit a drive of `flash` before it collects
    /// garbage, without superblocks that hold relocated data alone.
    #[must_use]
    pub fn bytes_before_collection(&self, flash: &Flash) -> Bytes {
        // Collection starts when a full superblock has to be followed and fewer than
        // `free_low` are free. Those open on other groups of dies are half unwritten.
        let kept = u64::from(flash.ftl.gc.free_low - 1) + u64::from(self.slc_superblocks_min);
        let others =
            u64::from(self.open_superblocks - 1) - u64::from(flash.ftl.streams.separate_gc);
        let native = 2 * (u64::from(self.superblocks) - kept) - others;
        let slots = native * u64::from(self.superblock_slots) / 2
            + u64::from(self.slc_superblocks_min) * u64::from(self.slc_superblock_slots);
        Bytes(slots / u64::from(self.unit_slots) * self.unit_bytes)
    }

    /// Incompressible bytes that the host writes from one run of garbage collection to the
    /// next, in steady state.
    #[must_use]
    pub fn cycle_bytes(&self, flash: &Flash) -> Bytes {
        // Groups of dies are written in turn, so their superblocks fill together.
        let gc = &flash.ftl.gc;
        let superblocks = self.groups.max(gc.free_high + 1 - gc.free_low);
        let slots = u64::from(superblocks) * u64::from(self.superblock_slots);
        Bytes(slots / u64::from(self.unit_slots) * self.unit_bytes)
    }
}
