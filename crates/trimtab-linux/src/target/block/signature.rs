//! Detects the contents of a device: by the magic numbers of common filesystems, volume
//! managers, disk images and partition tables at their fixed offsets, by libblkid
//! ([`probe`]), which knows the others, and by unknown data at both ends and where
//! filesystems keep copies ([`holds_unknown_data`]).

mod probe;
mod unknown_data;

pub use probe::probe;
pub use unknown_data::{OwnData, UNKNOWN_DATA, holds_unknown_data};

use rustix::fd::OwnedFd;
use trimtab_drive::units::Bytes;

struct MagicNumber {
    name: &'static str,
    offset: u64,
    bytes: &'static [u8],
}

const fn magic(name: &'static str, offset: u64, bytes: &'static [u8]) -> MagicNumber {
    MagicNumber { name, offset, bytes }
}

const FROM_START: &[MagicNumber] = &[
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
    magic("lvm2", 0, b"LABELONE"),
    magic("lvm2", 512, b"LABELONE"),
    magic("lvm2", 1024, b"LABELONE"),
    magic("lvm2", 1536, b"LABELONE"),
    magic("raid member", 0, &[0xfc, 0x4e, 0x2b, 0xa9]),
    magic("raid member", 4096, &[0xfc, 0x4e, 0x2b, 0xa9]),
    magic("swap", 4096 - 10, b"SWAPSPACE2"),
    magic("swap", 65536 - 10, b"SWAPSPACE2"),
    magic("sqlite", 0, b"SQLite format 3\0"),
    magic("qcow2", 0, b"QFI\xfb"),
    magic("vmdk", 0, b"KDMV"),
    magic("vmdk", 0, b"COWD"),
    magic("vmdk", 0, b"# Disk DescriptorFile"),
    magic("vhdx", 0, b"vhdxfile"),
    magic("vhd", 0, b"conectix"),
    magic("vdi", 64, &[0x7f, 0x10, 0xda, 0xbe]),
];

const FROM_END: &[MagicNumber] = &[
    magic("gpt", 512, b"EFI PART"),
    magic("gpt", 4096, b"EFI PART"),
    magic("raid member", 8192, &[0xfc, 0x4e, 0x2b, 0xa9]),
    magic("vhd", 512, b"conectix"),
];

const TAIL_BYTES: u64 = 256 << 10;
/// An md superblock 0.90 is in the last 64 KiB-aligned 64 KiB.
const RAID_0_90: &[u8] = &[0xfc, 0x4e, 0x2b, 0xa9];
/// ZFS uberblocks: an array of 128 KiB in each label, in native byte order.
const ZFS_UBERBLOCKS: std::ops::Range<u64> = 128 << 10..256 << 10;
/// All magic numbers counted from the start end before this offset.
const HEAD_BYTES: u64 = 128 << 10;
const ZFS_MAGIC: u64 = 0x00ba_b10c;

/// Everything recognised on a device of `size`, each name once.
pub fn find(device: &OwnedFd, size: Bytes) -> std::io::Result<Vec<String>> {
    let head = read(device, 0, size.0.min(HEAD_BYTES))?;
    let tail_start = size.0.saturating_sub(TAIL_BYTES);
    let tail = read(device, tail_start, size.0 - tail_start)?;
    let mut found = recognise(&head, &tail, size);
    found.extend(copies(device, size)?);
    found.sort_unstable();
    found.dedup();
    Ok(found.into_iter().map(str::to_owned).collect())
}

/// Filesystems recognised by copies of the superblock; the first one may be overwritten.
fn copies(device: &OwnedFd, size: Bytes) -> std::io::Result<Vec<&'static str>> {
    let mut found = Vec::new();
    for at in unknown_data::BTRFS_COPIES {
        if at < size.0 && read(device, at + 64, 8)? == b"_BHRfS_M" {
            found.push("btrfs");
        }
    }
    for (at, log, group) in unknown_data::ext4_copies() {
        let copy = if at < size.0 { read(device, at, 128)? } else { Vec::new() };
        // s_magic, s_log_block_size and s_block_group_nr.
        let is_it = copy.len() == 128
            && copy[56..58] == [0x53, 0xef]
            && copy[24..28] == log.to_le_bytes()
            && copy[90..92] == group.to_le_bytes();
        if is_it {
            found.push("ext2/3/4");
        }
    }
    for label in unknown_data::zfs_labels(size.0) {
        let uberblocks = read(device, label + ZFS_UBERBLOCKS.start, 128 << 10)?;
        let magic = |place: &[u8]| {
            place.starts_with(&ZFS_MAGIC.to_le_bytes())
                || place.starts_with(&ZFS_MAGIC.to_be_bytes())
        };
        if uberblocks.chunks(1024).any(magic) {
            found.push("zfs");
        }
    }
    Ok(found)
}

fn recognise(head: &[u8], tail: &[u8], size: Bytes) -> Vec<&'static str> {
    let holds = |bytes: &[u8], at: u64, magic: &[u8]| {
        usize::try_from(at)
            .is_ok_and(|at| bytes.get(at..).is_some_and(|bytes| bytes.starts_with(magic)))
    };
    let mut found: Vec<&'static str> =
        FROM_START.iter().filter(|m| holds(head, m.offset, m.bytes)).map(|m| m.name).collect();
    let from_end = |m: &&MagicNumber| {
        (tail.len() as u64).checked_sub(m.offset).is_some_and(|at| holds(tail, at, m.bytes))
    };
    found.extend(FROM_END.iter().filter(from_end).map(|m| m.name));
    let tail_start = size.0 - tail.len() as u64;
    let old_raid =
        (size.0 & !0xffff).checked_sub(64 << 10).and_then(|at| at.checked_sub(tail_start));
    if old_raid
        .is_some_and(|at| holds(tail, at, RAID_0_90) || holds(tail, at, &[0xa9, 0x2b, 0x4e, 0xfc]))
    {
        found.push("raid member");
    }
    // A boot signature may be that of a filesystem; with an entry it is a partition
    // table.
    let entries = |table: &[u8]| table.chunks(16).any(|entry| entry.len() == 16 && entry[4] != 0);
    if holds(head, 510, &[0x55, 0xaa])
        && found.is_empty()
        && head.get(446..510).is_some_and(entries)
    {
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
    fn signature_magic_is_recognised_only_at_its_offset() {
        let size = Bytes(10 << 20);
        for m in FROM_START {
            let mut head = vec![0; HEAD_BYTES as usize];
            head[m.offset as usize..][..m.bytes.len()].copy_from_slice(m.bytes);
            assert_eq!(recognise(&head, &[0; 1 << 16], size), [m.name]);
            head.rotate_right(1);
            assert!(
                !recognise(&head, &[0; 1 << 16], size).contains(&m.name),
                "{} is elsewhere",
                m.name
            );
        }
        for m in FROM_END {
            let mut tail = vec![0; TAIL_BYTES as usize];
            let at = tail.len() - m.offset as usize;
            tail[at..][..m.bytes.len()].copy_from_slice(m.bytes);
            assert_eq!(recognise(&[0; 1 << 18], &tail, size), [m.name]);
        }
    }

    #[test]
    fn empty_random_or_tiny_device_holds_nothing() {
        assert!(recognise(&[0; 1 << 18], &[0; 1 << 17], Bytes(1 << 20)).is_empty());
        assert!(recognise(&[], &[], Bytes(0)).is_empty());
        assert!(recognise(&[0xff; 100], &[0xff; 100], Bytes(100)).is_empty());
        let mut bytes = vec![0; 1 << 18];
        trimtab_drive::data::content::ContentGenerator::new(3).fill(
            trimtab_drive::data::DataClass::Random,
            0,
            1,
            &mut bytes,
        );
        assert!(recognise(&bytes, &bytes[..1 << 17], Bytes(1 << 20)).is_empty());
    }

    #[test]
    fn partition_table_requires_a_partition() {
        let mut head = vec![0; 1 << 18];
        head[510..512].copy_from_slice(&[0x55, 0xaa]);
        assert!(recognise(&head, &[], Bytes(1 << 20)).is_empty());
        head[446 + 4] = 0x83;
        assert_eq!(recognise(&head, &[], Bytes(1 << 20)), ["mbr partition table"]);
    }

    #[test]
    fn md_0_90_superblock_is_found() {
        let size = Bytes((10 << 20) + 4096);
        let mut tail = vec![0; 128 << 10];
        let at = ((10 << 20) - (64 << 10)) - (size.0 - (128 << 10));
        tail[at as usize..][..4].copy_from_slice(RAID_0_90);
        assert_eq!(recognise(&[0; 1 << 18], &tail, size), ["raid member"]);
    }

    #[test]
    fn overwritten_filesystem_is_found_by_its_copies() {
        use std::os::unix::fs::FileExt as _;
        let size = 600 << 20;
        let found = |writes: &[(u64, &[u8])]| {
            let file = tempfile::tempfile().unwrap();
            file.set_len(size).unwrap();
            for (at, bytes) in writes {
                file.write_all_at(bytes, *at).unwrap();
            }
            find(&OwnedFd::from(file), Bytes(size)).unwrap()
        };
        assert_eq!(found(&[((64 << 20) + 64, b"_BHRfS_M")]), ["btrfs"]);
        for (at, log, group) in unknown_data::ext4_copies().filter(|(at, ..)| *at < size) {
            let copy: [(u64, &[u8]); 3] = [
                (at + 56, &[0x53, 0xef]),
                (at + 24, &log.to_le_bytes()),
                (at + 90, &group.to_le_bytes()),
            ];
            assert_eq!(found(&copy), ["ext2/3/4"], "{at}");
            assert!(found(&copy[..2]).is_empty(), "two bytes are no proof");
        }
        for label in unknown_data::zfs_labels(size) {
            assert_eq!(
                found(&[(label + (128 << 10) + 5 * 1024, &ZFS_MAGIC.to_le_bytes())]),
                ["zfs"],
                "{label}"
            );
        }
    }

    /// Filesystems created by their own tools are recognised by libblkid and by our list.
    #[test]
    fn real_filesystems_are_found_by_list_and_wipefs() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("image");
        let programs: [(&[&str], &str); 10] = [
            (&["mkfs.ext4", "-q", "-F"], "ext2/3/4"),
            (&["mkfs.xfs", "-q", "-f"], "xfs"),
            (&["mkfs.btrfs", "-q", "-f"], "btrfs"),
            (&["mkswap", "-q"], "swap"),
            (&["mkfs.vfat"], "fat"),
            (&["qemu-img", "create", "-q", "-f", "qcow2", "-o", "size=64M"], "qcow2"),
            (&["qemu-img", "create", "-q", "-f", "vmdk", "-o", "size=64M"], "vmdk"),
            (&["qemu-img", "create", "-q", "-f", "vhdx", "-o", "size=64M"], "vhdx"),
            (&["qemu-img", "create", "-q", "-f", "vpc", "-o", "size=64M"], "vhd"),
            (&["qemu-img", "create", "-q", "-f", "vdi", "-o", "size=64M"], "vdi"),
        ];
        for (command, name) in programs {
            let file = std::fs::File::options()
                .read(true)
                .write(true)
                .create(true)
                .truncate(true)
                .open(&path)
                .unwrap();
            file.set_len(512 << 20).unwrap();
            let made = std::process::Command::new(command[0])
                .args(&command[1..])
                .arg(&path)
                .stdout(std::process::Stdio::null())
                .status();
            if !made.is_ok_and(|status| status.success()) {
                continue;
            }
            let file = OwnedFd::from(std::fs::File::open(&path).unwrap());
            let size = Bytes(std::fs::metadata(&path).unwrap().len());
            assert!(
                find(&file, size).unwrap().iter().any(|found| found == name),
                "{name}: {:?}",
                find(&file, size)
            );
            let probed = probe(&file).unwrap();
            assert!(
                probed.is_empty() || probed.iter().any(|found| found == name),
                "{name}: {probed:?}"
            );
            assert!(holds_unknown_data(&file, size, None).unwrap());
        }
    }
}
