//! What the kernel is told of a drive.

use crate::request::Geometry;
use trimtab_linux::sys::ublk::{Basic, Discard, FUA, Parameters, ROTATIONAL, VOLATILE_CACHE};

/// The kernel counts in these.
const SECTOR: u64 = 512;
/// The largest zero-write: drives have no say in that. What takes no room in a command could be as long as the drive, and would keep it busy as long.
const ZEROES_BYTES_MAX: u64 = 32 << 20;
/// No drive calls more than a page its physical block, and the kernel takes no more.
const PHYSICAL_BLOCK_MAX: u32 = 4096;

/// The device that shows what the drive shows, with requests of so many bytes at most.
pub fn of(geometry: &Geometry, request_bytes_max: u32) -> Parameters {
    let takes_trim = geometry.discard_granularity > 0;
    let mut attributes = if geometry.rotational { ROTATIONAL } else { 0 };
    if geometry.volatile_cache {
        // A write that is durable when answered is one of the drive's own requests.
        attributes |= VOLATILE_CACHE | FUA;
    }
    // The kernel makes the granularity of discards as large as the physical block at least, and that is not what the drive says.
    let granularity = if takes_trim { geometry.discard_granularity } else { u32::MAX };
    let physical = geometry.atomic_write.min(PHYSICAL_BLOCK_MAX).min(granularity).max(geometry.logical_block);
    let basic = Basic {
        attributes,
        logical_block_shift: shift(geometry.logical_block),
        physical_block_shift: shift(physical),
        io_optimal_shift: shift(physical),
        io_min_shift: shift(physical),
        sectors_max: request_bytes_max / SECTOR as u32,
        sectors: geometry.size / SECTOR,
        ..Basic::default()
    };
    let discard = if takes_trim {
        Discard::new(geometry.discard_granularity, sectors(geometry.discard_max_bytes), sectors(ZEROES_BYTES_MAX))
    } else {
        // The kernel wants some granularity.
        Discard::new(geometry.logical_block, 0, sectors(ZEROES_BYTES_MAX))
    };
    Parameters::new(basic, discard)
}

fn shift(bytes: u32) -> u8 {
    bytes.ilog2() as u8
}

fn sectors(bytes: u64) -> u32 {
    u32::try_from(bytes / SECTOR).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SSD: Geometry = Geometry {
        size: 1 << 30,
        logical_block: 512,
        atomic_write: 16384,
        discard_granularity: 4096,
        discard_max_bytes: 2 << 30,
        volatile_cache: true,
        rotational: false,
    };

    #[test]
    fn a_drive_is_shown_as_it_is() {
        let Parameters { basic, discard, .. } = of(&SSD, 1 << 20);
        assert_eq!((basic.attributes, basic.sectors, basic.sectors_max), (VOLATILE_CACHE | FUA, 2 << 20, 2048));
        assert_eq!((basic.logical_block_shift, basic.physical_block_shift, basic.io_min_shift), (9, 12, 12));
        assert_eq!((discard.granularity, discard.sectors_max, discard.segments_max, discard.alignment), (4096, 4 << 20, 1, 0));
        assert_eq!(discard.zeroes_sectors_max, 65536);
    }

    #[test]
    fn the_physical_block_makes_no_granularity_larger() {
        let Parameters { basic, discard, .. } = of(&Geometry { discard_granularity: 512, ..SSD }, 1 << 20);
        assert_eq!((basic.physical_block_shift, discard.granularity), (9, 512));
        let Parameters { basic, .. } = of(&Geometry { logical_block: 4096, atomic_write: 4096, ..SSD }, 1 << 20);
        assert_eq!((basic.logical_block_shift, basic.physical_block_shift), (12, 12));
    }

    #[test]
    fn a_disk_takes_zero_writes_and_no_discards() {
        let disk = Geometry { discard_granularity: 0, discard_max_bytes: 0, rotational: true, volatile_cache: false, ..SSD };
        let Parameters { basic, discard, .. } = of(&disk, 1 << 20);
        assert_eq!((basic.attributes, basic.physical_block_shift), (ROTATIONAL, 12));
        assert_eq!((discard.granularity, discard.sectors_max, discard.segments_max), (512, 0, 0));
        assert!(discard.zeroes_sectors_max > 0);
    }

    #[test]
    fn no_limit_is_wrapped() {
        let Parameters { discard, .. } = of(&Geometry { discard_max_bytes: u64::MAX, ..SSD }, 1 << 20);
        assert_eq!(discard.sectors_max, u32::MAX);
    }
}
