//! Detects useful data without a magic number: examines both ends of the device and the
//! places where filesystems keep copies.

use super::read;
use rustix::fd::OwnedFd;
use std::ops::Range;
use trimtab_drive::data::DataClass;
use trimtab_drive::data::content::{ContentGenerator, UNIT, UnitCheck};
use trimtab_drive::units::Bytes;

/// The name for data of unknown kind.
pub const UNKNOWN_DATA: &str = "unknown data";
const MIB: u64 = 1 << 20;
/// VMFS has its magic numbers behind 1 and 2 MiB.
const HEAD: u64 = 3 * MIB;
const COPY_BYTES: u64 = 4096;
/// Copies of the btrfs superblock (`btrfs_sb_offset` of `fs/btrfs/disk-io.h`).
pub(super) const BTRFS_COPIES: [u64; 2] = [64 << 20, 256 << 30];
/// ZFS labels: 256 KiB each, two at either end of the device, rounded down to whole
/// labels.
const ZFS_LABEL: u64 = 256 << 10;

/// Offsets of the superblock in block groups 1, 3, 5 and 7 of ext4, with log2(block size
/// / 1024) and the group number. A group has as many blocks as a block has bits, and the
/// first block is number 1 if blocks have 1024 bytes.
pub(super) fn ext4_copies() -> impl Iterator<Item = (u64, u32, u16)> {
    (0..=6_u32).flat_map(|log| {
        let block = 1024_u64 << log;
        [1_u16, 3, 5, 7]
            .map(|group| ((u64::from(log == 0) + u64::from(group) * 8 * block) * block, log, group))
    })
}

/// Starts of the ZFS labels.
pub(super) fn zfs_labels(size: u64) -> [u64; 4] {
    let end = size / ZFS_LABEL * ZFS_LABEL;
    [0, ZFS_LABEL, end.saturating_sub(2 * ZFS_LABEL), end.saturating_sub(ZFS_LABEL)]
}

/// Content that an earlier run may have written, which is no reason to refuse.
#[derive(Debug, Clone, Copy)]
pub struct OwnData {
    /// Seed of the content.
    pub seed: u64,
    /// Class of the content.
    pub class: DataClass,
}

/// The ranges examined on a device of `size`.
fn places(size: u64) -> Vec<Range<u64>> {
    let unit = UNIT as u64;
    let copies = BTRFS_COPIES
        .into_iter()
        .chain(ext4_copies().map(|(at, ..)| at))
        .map(|at| at..at + COPY_BYTES);
    let ends = [0..HEAD, size.saturating_sub(MIB)..size];
    // In whole units, so that content of this program can be recognised.
    let whole =
        |place: Range<u64>| place.start / unit * unit..place.end.next_multiple_of(unit).min(size);
    ends.into_iter().chain(copies).map(whole).filter(|place| !place.is_empty()).collect()
}

/// One of the examined ranges holds data other than zeros and this program's own content.
pub fn holds_unknown_data(
    device: &OwnedFd,
    size: Bytes,
    own: Option<OwnData>,
) -> std::io::Result<bool> {
    let own = own.map(|own| (ContentGenerator::new(own.seed), own.class));
    for place in places(size.0) {
        let bytes = read(device, place.start, place.end - place.start)?;
        for (at, unit) in (place.start..).step_by(UNIT).zip(bytes.chunks(UNIT)) {
            let ours = |unit| {
                own.is_some_and(|(content, class)| {
                    matches!(content.check(class, at, unit), UnitCheck::Written(_))
                })
            };
            if unit.iter().any(|byte| *byte != 0) && !ours(unit) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt as _;
    use trimtab_drive::data::DataClass;

    #[test]
    fn ext4_copies_match_mke2fs() {
        // From the manual: 8193, 16384, 32768 are the first copies for blocks of 1, 2, 4
        // KiB.
        let first: Vec<u64> = ext4_copies()
            .filter(|(_, log, group)| *group == 1 && *log < 3)
            .map(|(at, log, _)| at / (1024 << log))
            .collect();
        assert_eq!(first, [8193, 16384, 32768]);
        assert_eq!(
            zfs_labels((1 << 30) + 4096),
            [0, 256 << 10, (1 << 30) - (512 << 10), (1 << 30) - (256 << 10)]
        );
    }

    #[test]
    fn unknown_data_is_any_byte_except_own_content() {
        let size = 600 << 20;
        let fresh = || {
            let file = tempfile::tempfile().unwrap();
            file.set_len(size).unwrap();
            file
        };
        let unknown = |file: &std::fs::File, own| {
            holds_unknown_data(&OwnedFd::from(file.try_clone().unwrap()), Bytes(size), own).unwrap()
        };
        assert!(!unknown(&fresh(), None));
        let second_copy = BTRFS_COPIES[0] + 4095;
        for at in [
            0,
            5000,
            HEAD - 1,
            size - MIB,
            size - 1,
            8193 << 10,
            (16384 << 11) + 7,
            32768 << 12,
            (3 * 32768) << 12,
            second_copy,
        ] {
            let file = fresh();
            file.write_all_at(&[1], at).unwrap();
            assert!(unknown(&file, None), "{at}");
        }
        let file = fresh();
        file.write_all_at(&[1], 10 * MIB).unwrap();
        assert!(!unknown(&file, None), "nothing of use begins there");
        for class in [DataClass::Random, DataClass::Text, DataClass::Compressible(40)] {
            let file = fresh();
            let mut bytes = vec![0; 64 << 20];
            ContentGenerator::new(7).fill(class, 0, 3, &mut bytes);
            file.write_all_at(&bytes, 0).unwrap();
            assert!(unknown(&file, None));
            assert!(!unknown(&file, Some(OwnData { seed: 7, class })));
            assert!(unknown(&file, Some(OwnData { seed: 8, class })), "another seed's");
            file.write_all_at(&[!bytes[9000]], 9000).unwrap();
            assert!(unknown(&file, Some(OwnData { seed: 7, class })), "changed since");
        }
    }
}
