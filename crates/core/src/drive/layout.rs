//! Sizes of an SSD in mapping units, derived from its specification.

use super::spec::{DriveSpec, Flash, SlcSize, SpecError};
use crate::drive::spec::wrong;
use crate::units::Bytes;
use alloc::format;

/// Sizes in mapping units. A physical address is `(superblock + 1) << shift | offset`, so that 0 and 1 are free to mean
/// "never written" and "trimmed".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Bytes of a mapping unit.
    pub unit_bytes: u64,
    /// Mapping units of the user capacity.
    pub units: u32,
    /// Superblocks.
    pub superblocks: u32,
    /// Mapping units of a superblock.
    pub superblock_units: u32,
    /// Mapping units of a superblock in one-bit mode.
    pub slc_superblock_units: u32,
    /// Bits of the offset in a physical address.
    pub shift: u32,
    /// Mapping units that one program operation takes (page times planes); 1 if a unit takes several.
    pub program_units: u32,
    /// Program operations of a unit; 1 if several units share one.
    pub programs_per_unit: u32,
    /// Groups of dies over which superblocks stretch.
    pub groups: u32,
    /// Superblocks open for writing at once, over all streams.
    pub open_superblocks: u32,
    /// Superblocks set apart for the SLC cache at least.
    pub slc_superblocks_min: u32,
    /// Superblocks that the SLC cache may take at most.
    pub slc_superblocks_max: u32,
}

impl Layout {
    /// The layout of `flash`, part of `spec`.
    ///
    /// # Errors
    /// What does not fit: units and pages, the address space, the spare space.
    pub fn new(spec: &DriveSpec, flash: &Flash) -> Result<Self, SpecError> {
        let geometry = &flash.geometry;
        let unit = flash.ftl.mapping_unit_bytes;
        let program_bytes = geometry.page_bytes * u64::from(geometry.planes);
        let (program_units, programs_per_unit) = if program_bytes.is_multiple_of(unit) {
            (program_bytes / unit, 1)
        } else if unit.is_multiple_of(program_bytes) {
            (1, unit / program_bytes)
        } else {
            return Err(wrong(
                "flash.ftl.mapping_unit_bytes",
                unit,
                format!("must divide what a die programs at once, page_bytes x planes = {program_bytes}, or be a multiple of it"),
            ));
        };
        let superblock_bytes = geometry.superblock_bytes();
        let superblock_units = superblock_bytes / u128::from(unit);
        if superblock_units < 2 || !superblock_bytes.is_multiple_of(u128::from(unit)) || superblock_units > 1 << 30 {
            return Err(wrong(
                "flash.ftl.mapping_unit_bytes",
                unit,
                format!("a superblock ({superblock_bytes} bytes) must hold a whole number of units from 2 to {}", 1_u32 << 30),
            ));
        }
        let superblock_units = superblock_units as u32;
        let shift = superblock_units.next_power_of_two().trailing_zeros();
        let superblocks = geometry.superblocks();
        if superblocks + 1 > u64::from(u32::MAX >> shift) {
            return Err(wrong(
                "flash.ftl.mapping_unit_bytes",
                unit,
                format!(
                    "{superblocks} superblocks of {superblock_units} units exceed 32-bit addresses; use a larger mapping unit for {} of flash",
                    Bytes(u64::try_from(geometry.raw_bytes()).unwrap_or(u64::MAX))
                ),
            ));
        }
        let groups = (geometry.dies() / u64::from(geometry.superblock_dies)) as u32;
        let mut layout = Self {
            unit_bytes: unit,
            units: u32::try_from(spec.capacity_bytes.div_ceil(unit))
                .map_err(|_| wrong("flash.ftl.mapping_unit_bytes", unit, "the user capacity must hold less than 2^32 units"))?,
            superblocks: superblocks as u32,
            superblock_units,
            slc_superblock_units: 0,
            shift,
            program_units: program_units as u32,
            programs_per_unit: u32::try_from(programs_per_unit)
                .map_err(|_| wrong("flash.ftl.mapping_unit_bytes", unit, "takes too many program operations"))?,
            groups,
            open_superblocks: 0,
            slc_superblocks_min: 0,
            slc_superblocks_max: 0,
        };
        layout.size_slc(flash)?;
        layout.check_spare(spec, flash)?;
        Ok(layout)
    }

    fn size_slc(&mut self, flash: &Flash) -> Result<(), SpecError> {
        let Some(slc) = &flash.slc_cache else { return Ok(()) };
        let native = self.superblock_units / u32::from(flash.geometry.bits_per_cell);
        self.slc_superblock_units = native - native % self.program_units;
        if self.slc_superblock_units == 0 {
            return Err(wrong("flash.slc_cache", "present", "a superblock in one-bit mode must hold at least one program operation"));
        }
        let bytes = u64::from(self.slc_superblock_units) * self.unit_bytes;
        let blocks = |size: u64| u32::try_from(size.div_ceil(bytes)).unwrap_or(u32::MAX).min(self.superblocks);
        (self.slc_superblocks_min, self.slc_superblocks_max) = match slc.size {
            SlcSize::Fixed { bytes } => (blocks(bytes), blocks(bytes)),
            SlcSize::Dynamic { bytes_min, bytes_max } => (blocks(bytes_min), blocks(bytes_max)),
        };
        Ok(())
    }

    fn check_spare(&mut self, spec: &DriveSpec, flash: &Flash) -> Result<(), SpecError> {
        let streams = &flash.ftl.streams;
        let host_streams = 1 + u32::from(streams.hot_cold.is_some()) + u32::from(flash.slc_cache.is_some());
        self.open_superblocks = host_streams * self.groups + u32::from(streams.separate_gc);
        let taken = u64::from(self.open_superblocks) + u64::from(flash.ftl.gc.free_high) + u64::from(self.slc_superblocks_min);
        let needed = u64::from(self.units) / u64::from(self.superblock_units) + 1 + taken;
        if u64::from(self.superblocks) < needed {
            let superblock = Bytes(u64::from(self.superblock_units) * self.unit_bytes);
            return Err(wrong(
                "flash.geometry.blocks_per_plane",
                flash.geometry.blocks_per_plane,
                format!(
                    "that is {} superblocks of {superblock}, and {needed} are needed: {} for the user capacity ({}), {} open for writing, {} kept free, {} for the SLC cache",
                    self.superblocks,
                    needed - taken,
                    Bytes(spec.capacity_bytes),
                    self.open_superblocks,
                    flash.ftl.gc.free_high,
                    self.slc_superblocks_min
                ),
            ));
        }
        Ok(())
    }

    /// T: mapping units of the raw capacity.
    #[must_use]
    pub const fn raw_units(&self) -> u64 {
        self.superblocks as u64 * self.superblock_units as u64
    }
}
