//! What a device holds, by the magic numbers that filesystems, volume managers and partition tables put at fixed places.

use rustix::fd::OwnedFd;
use trimtab_core::units::Bytes;

/// A magic number at a place.
struct Magic {
    name: &'static str,
    offset: u64,
    bytes: &'static [u8],
}

const fn magic(name: &'static str, offset: u64, bytes: &'static [u8]) -> Magic {
    Magic { name, offset, bytes }
}

/// Places count from the start. From the formats' own documentation and the kernel's headers.
const FROM_START: &[Magic] = &[
    magic("gpt", 512, b"EFI PART"),
    magic("gpt", 4096, b"EFI PART"),
    magic("ext2/3/4", 1024 + 56, &[0x53, 0xef]),
    magic("xfs", 0, b"XFSB"),
    magic("btrfs", (64 << 10) + 64, b"_BHRfS_M"),
    magic("f2fs", 1024, &[0x10, 0x20, 0xf5, 0xf2]),
    magic("bcachefs/bcache", 4096 + 24, &[0xc6, 0x85, 0x73, 0xf6, 0x4e, 0x1a, 0x45, 0xca]),
    magic("bcachefs", 4096 + 24, &[0xc6, 0x85, 0x73, 0xf6, 0x66, 0xce, 0x90, 0xa9]),
    magic("ntfs", 3, b"NTFS    "),
    magic("exfat", 3, b"EXFAT   "),
    magic("fat", 54, b"FAT"),
    magic("fat", 82, b"FAT32"),
    magic("luks", 0, b"LUKS\xba\xbe"),
    magic("luks", 16 << 10, b"SKUL\xba\xbe"),
    magic("bitlocker", 3, b"-FVE-FS-"),
    magic("lvm2", 0, b"LABELONE"),
    magic("lvm2", 512, b"LABELONE"),
    magic("lvm2", 1024, b"LABELONE"),
    magic("lvm2", 1536, b"LABELONE"),
    magic("raid member", 0, &[0xfc, 0x4e, 0x2b, 0xa9]),
    magic("raid member", 4096, &[0xfc, 0x4e, 0x2b, 0xa9]),
    magic("swap", 4096 - 10, b"SWAPSPACE2"),
    magic("swap", 65536 - 10, b"SWAPSPACE2"),
    magic("hibernation image", 4096 - 10, b"S1SUSPEND"),
    magic("reiserfs", (64 << 10) + 52, b"ReIsEr"),
    magic("jfs", 32 << 10, b"JFS1"),
    magic("nilfs2", 1024 + 6, &[0x34, 0x34]),
    magic("ocfs2", 8192, b"OCFSV2"),
    magic("gfs2", 64 << 10, &[0x01, 0x16, 0x19, 0x70]),
    magic("iso9660", 32769, b"CD001"),
    magic("udf", 32769, b"BEA01"),
    magic("squashfs", 0, b"hsqs"),
    magic("erofs", 1024, &[0xe2, 0xe1, 0xf5, 0xe0]),
    magic("apfs", 32, b"NXSB"),
    magic("hfs+", 1024, b"H+"),
    magic("hfs+", 1024, b"HX"),
    magic("refs", 3, b"ReFS\0\0\0\0"),
    magic("vdo", 0, b"dmvdo001"),
    magic("sqlite", 0, b"SQLite format 3\0"),
    magic("qcow2", 0, b"QFI\xfb"),
    magic("ceph", 0, b"bluestore block device"),
    magic("drbd", 4096 + 8, &[0x83, 0x74, 0x02, 0x6b]),
];

/// Places count back from the end.
const FROM_END: &[Magic] =
    &[magic("gpt", 512, b"EFI PART"), magic("gpt", 4096, b"EFI PART"), magic("raid member", 8192, &[0xfc, 0x4e, 0x2b, 0xa9])];

/// md superblocks 0.90 stand in the last 64 KiB-aligned 64 KiB.
const RAID_0_90: &[u8] = &[0xfc, 0x4e, 0x2b, 0xa9];
/// ZFS uberblocks: an array of 128 KiB in each label, in native byte order.
const ZFS_UBERBLOCKS: std::ops::Range<u64> = 128 << 10..256 << 10;
const ZFS_MAGIC: u64 = 0x00ba_b10c;

/// Everything that was recognised on a device of `size`, each name once.
pub fn find(device: &OwnedFd, size: Bytes) -> std::io::Result<Vec<&'static str>> {
    let head = read(device, 0, size.0.min(ZFS_UBERBLOCKS.end))?;
    let tail_start = size.0.saturating_sub(128 << 10);
    let tail = read(device, tail_start, size.0 - tail_start)?;
    let mut found = recognise(&head, &tail, size);
    found.dedup();
    Ok(found)
}

fn recognise(head: &[u8], tail: &[u8], size: Bytes) -> Vec<&'static str> {
    let holds = |bytes: &[u8], at: u64, magic: &[u8]| {
        usize::try_from(at).is_ok_and(|at| bytes.get(at..).is_some_and(|bytes| bytes.starts_with(magic)))
    };
    let mut found: Vec<&'static str> = FROM_START.iter().filter(|m| holds(head, m.offset, m.bytes)).map(|m| m.name).collect();
    let from_end = |m: &&Magic| (tail.len() as u64).checked_sub(m.offset).is_some_and(|at| holds(tail, at, m.bytes));
    found.extend(FROM_END.iter().filter(from_end).map(|m| m.name));
    let tail_start = size.0 - tail.len() as u64;
    let old_raid = (size.0 & !0xffff).checked_sub(64 << 10).and_then(|at| at.checked_sub(tail_start));
    if old_raid.is_some_and(|at| holds(tail, at, RAID_0_90) || holds(tail, at, &[0xa9, 0x2b, 0x4e, 0xfc])) {
        found.push("raid member");
    }
    if ZFS_UBERBLOCKS.step_by(1024).any(|at| holds(head, at, &ZFS_MAGIC.to_le_bytes()) || holds(head, at, &ZFS_MAGIC.to_be_bytes())) {
        found.push("zfs");
    }
    // A boot signature alone may be the boot sector of a filesystem; with a partition in the table it is one.
    let entries = |table: &[u8]| table.chunks(16).any(|entry| entry.len() == 16 && entry[4] != 0);
    if holds(head, 510, &[0x55, 0xaa]) && found.is_empty() && head.get(446..510).is_some_and(entries) {
        found.push("mbr partition table");
    }
    found.sort_unstable();
    found.dedup();
    found
}

fn read(device: &OwnedFd, offset: u64, len: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
    let mut at = 0;
    while at < bytes.len() {
        match rustix::io::pread(device, &mut bytes[at..], offset + at as u64) {
            Ok(0) => break,
            Ok(n) => at += n,
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    bytes.truncate(at);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_magic_number_is_recognised_where_it_stands_and_nowhere_else() {
        let size = Bytes(10 << 20);
        for m in FROM_START {
            let mut head = vec![0; 256 << 10];
            head[m.offset as usize..][..m.bytes.len()].copy_from_slice(m.bytes);
            assert_eq!(recognise(&head, &[0; 1 << 16], size), [m.name]);
            head.rotate_right(1);
            assert!(!recognise(&head, &[0; 1 << 16], size).contains(&m.name), "{} is elsewhere", m.name);
        }
        for m in FROM_END {
            let mut tail = vec![0; 128 << 10];
            let at = tail.len() - m.offset as usize;
            tail[at..][..m.bytes.len()].copy_from_slice(m.bytes);
            assert_eq!(recognise(&[0; 1 << 18], &tail, size), [m.name]);
        }
    }

    #[test]
    fn an_empty_or_random_or_tiny_device_holds_nothing() {
        assert!(recognise(&[0; 1 << 18], &[0; 1 << 17], Bytes(1 << 20)).is_empty());
        assert!(recognise(&[], &[], Bytes(0)).is_empty());
        assert!(recognise(&[0xff; 100], &[0xff; 100], Bytes(100)).is_empty());
        let mut bytes = vec![0; 1 << 18];
        super::super::maker::Maker::new(3).fill(trimtab_core::data::DataClass::Random, 0, 1, &mut bytes);
        assert!(recognise(&bytes, &bytes[..1 << 17], Bytes(1 << 20)).is_empty());
    }

    #[test]
    fn a_partition_table_needs_a_partition() {
        let mut head = vec![0; 1 << 18];
        head[510..512].copy_from_slice(&[0x55, 0xaa]);
        assert!(recognise(&head, &[], Bytes(1 << 20)).is_empty());
        head[446 + 4] = 0x83;
        assert_eq!(recognise(&head, &[], Bytes(1 << 20)), ["mbr partition table"]);
    }

    #[test]
    fn zfs_and_old_raid_are_found_where_they_hide() {
        let mut head = vec![0; 256 << 10];
        head[(128 << 10) + 5 * 1024..][..8].copy_from_slice(&ZFS_MAGIC.to_le_bytes());
        assert_eq!(recognise(&head, &[], Bytes(1 << 20)), ["zfs"]);
        let size = Bytes((10 << 20) + 4096);
        let mut tail = vec![0; 128 << 10];
        let at = ((10 << 20) - (64 << 10)) - (size.0 - (128 << 10));
        tail[at as usize..][..4].copy_from_slice(RAID_0_90);
        assert_eq!(recognise(&[0; 1 << 18], &tail, size), ["raid member"]);
    }
}
