//! Device parameters given to the ublk driver.

use crate::request::Geometry;
use trimtab_linux::sys::ublk::{FUA, Parameters, UblkBasic, UblkDiscard, VOLATILE_CACHE};

/// The kernel's unit of sizes.
const SECTOR: u64 = 512;
/// Maximum zero-write, which drives do not limit. A command without data could otherwise
/// cover the whole drive and keep it busy.
const ZEROES_BYTES_MAX: u64 = 32 << 20;
/// Maximum physical block size: a page, the kernel's limit.
const PHYSICAL_BLOCK_MAX: u32 = 4096;

/// The parameters of a device like the drive, with requests of up to `request_bytes_max`.
pub fn of(geometry: &Geometry, request_bytes_max: u32) -> Parameters {
    let takes_trim = geometry.discard_granularity > 0;
    let mut attributes = 0;
    if geometry.volatile_cache {
        // An FUA write is a native request of the drive.
        attributes |= VOLATILE_CACHE | FUA;
    }
    // The kernel raises the granularity to the physical block size, unlike the drive's.
    let granularity = if takes_trim { geometry.discard_granularity } else { u32::MAX };
    let physical =
        geometry.atomic_write.min(PHYSICAL_BLOCK_MAX).min(granularity).max(geometry.logical_block);
    let basic = UblkBasic {
        attributes,
        logical_block_shift: shift(geometry.logical_block),
        physical_block_shift: shift(physical),
        io_optimal_shift: shift(physical),
        io_min_shift: shift(physical),
        sectors_max: request_bytes_max / SECTOR as u32,
        sectors: geometry.size / SECTOR,
        ..UblkBasic::default()
    };
    let discard = if takes_trim {
        UblkDiscard::new(
            geometry.discard_granularity,
            sectors(geometry.discard_max_bytes),
            sectors(ZEROES_BYTES_MAX),
        )
    } else {
        // The kernel requires a granularity.
        UblkDiscard::new(geometry.logical_block, 0, sectors(ZEROES_BYTES_MAX))
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
    };

    #[test]
    fn parameters_match_geometry_of_drive() {
        let Parameters { basic, discard, .. } = of(&SSD, 1 << 20);
        assert_eq!(
            (basic.attributes, basic.sectors, basic.sectors_max),
            (VOLATILE_CACHE | FUA, 2 << 20, 2048)
        );
        assert_eq!(
            (basic.logical_block_shift, basic.physical_block_shift, basic.io_min_shift),
            (9, 12, 12)
        );
        assert_eq!(
            (discard.granularity, discard.sectors_max, discard.segments_max, discard.alignment),
            (4096, 4 << 20, 1, 0)
        );
        assert_eq!(discard.zeroes_sectors_max, 65536);
    }

    #[test]
    fn physical_block_does_not_raise_granularity() {
        let Parameters { basic, discard, .. } =
            of(&Geometry { discard_granularity: 512, ..SSD }, 1 << 20);
        assert_eq!((basic.physical_block_shift, discard.granularity), (9, 512));
        let Parameters { basic, .. } =
            of(&Geometry { logical_block: 4096, atomic_write: 4096, ..SSD }, 1 << 20);
        assert_eq!((basic.logical_block_shift, basic.physical_block_shift), (12, 12));
    }

    #[test]
    fn drive_without_trim_accepts_zero_writes_but_no_discards() {
        let drive =
            Geometry { discard_granularity: 0, discard_max_bytes: 0, volatile_cache: false, ..SSD };
        let Parameters { basic, discard, .. } = of(&drive, 1 << 20);
        assert_eq!((basic.attributes, basic.physical_block_shift), (0, 12));
        assert_eq!((discard.granularity, discard.sectors_max, discard.segments_max), (512, 0, 0));
        assert!(discard.zeroes_sectors_max > 0);
    }

    #[test]
    fn limits_saturate_without_overflow() {
        let Parameters { discard, .. } =
            of(&Geometry { discard_max_bytes: u64::MAX, ..SSD }, 1 << 20);
        assert_eq!(discard.sectors_max, u32::MAX);
    }
}
