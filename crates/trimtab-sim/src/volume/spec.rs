//! What a modelled volume is: its filesystem, its mount options, and the host that runs it.

mod set;

use trimtab_drive::data::DataClass;
use trimtab_drive::named;
use trimtab_drive::units::{Bytes, Nanos};

/// Bytes of a filesystem block.
pub const BLOCK: u64 = 4096;

/// Everything that decides what a volume does with file operations. Start from [`VolumeSpec::ext4`], [`VolumeSpec::ext4_2011`] or
/// [`VolumeSpec::desktop_2011`] and change what differs.
#[derive(Clone, Debug, PartialEq)]
pub struct VolumeSpec {
    /// Which family of filesystem, as reports name it.
    pub name: &'static str,
    /// First byte of the filesystem on the drive. 0 for a whole drive, 32256 for the old partition start at sector 63, which is no multiple of
    /// anything a flash drive likes; 1048576 for a partition made today.
    pub start: Bytes,
    /// Bytes of the filesystem; `None` for the rest of the drive.
    pub size: Option<Bytes>,
    /// Bytes of disk for each inode (`mke2fs -i`). Default 16384.
    pub bytes_per_inode: u32,
    /// Journal blocks; `None` for what `mke2fs` chooses by size.
    pub journal_blocks: Option<u32>,
    /// How `mkfs` leaves the drive.
    pub mkfs: Mkfs,
    /// What reading a file does to its access time.
    pub atime: Atime,
    /// Online discard.
    pub discard: Discard,
    /// The largest discard command; a longer range becomes several. Linux: `queue/discard_max_bytes`. Default 2 GiB - 512 KiB,
    /// rounded down to blocks: what one ATA TRIM with 64 ranges of 65535 sectors can carry.
    pub discard_max: Bytes,
    /// Ranges in one TRIM command. Linux filesystems send one, a catalogue's journal all of a transaction. Default 1.
    pub discard_ranges: u32,
    /// When dirty metadata reach the journal, and how.
    pub journal: JournalSpec,
    /// When dirty data reach the drive.
    pub writeback: Writeback,
    /// Allocate blocks when data are written out, not when they are written (delayed allocation).
    pub delayed_allocation: bool,
    /// Start writing a file out when it is closed (without waiting for it).
    pub write_on_close: bool,
    /// Inodes live in the leaves of a catalogue beside the names, not in tables.
    pub catalogue: bool,
    /// What happens in the block layer below the filesystem.
    pub block_layer: BlockLayer,
    /// What the host's processor takes for each operation.
    pub host: HostCost,
    /// What journal and metadata blocks look like to a compressing drive. Default 75 % compressible: bitmaps, tables of mostly zero
    /// inodes and half-filled directory blocks.
    pub metadata_class: DataClass,
}

/// How `mkfs` leaves the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mkfs {
    /// Discard the whole volume first (`mke2fs -E discard`, the default of mke2fs).
    pub discard: bool,
    /// Leave inode tables and journal unwritten (`lazy_itable_init`, `lazy_journal_init`). The model never writes them later.
    pub lazy: bool,
}

named! {
    "access time option"
    /// What reading a file does to its access time.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Atime {
        /// Every read updates it (`strictatime`).
        Strict = "strictatime",
        /// A read updates it if it is older than the last change, or than a day (`relatime`, the default since Linux 2.6.30).
        Relative = "relatime",
        /// Never (`noatime`).
        Never = "noatime",
    }
}

named! {
    "online discard"
    /// Which freed space is discarded as it is freed.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Discard {
        /// None.
        Off = "off",
        /// Exactly what was freed, one command for each merged extent, inside the commit: nobody's commit ends before the drive has done all
        /// of them. Linux 2.6.39 to 5.14.
        Freed = "freed",
        /// What was freed and the free space that follows it, up to the next block in use or the end of the block group, by a worker after
        /// the commit, one command after another. Freed extents merge only with the one that the tree of freed extents happens to hold above
        /// their place. Measured on Linux 6.18.
        FreedAndFollowing = "freed-and-following",
    }
}

/// When dirty metadata reach the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalSpec {
    /// A transaction is committed when it is this old. Default 5 s.
    pub commit_interval: Nanos,
    /// A transaction is committed when it holds this many blocks; `None` for a third of the journal (Linux 6.18).
    pub transaction_blocks: Option<u32>,
    /// The operation that fills a transaction waits until it is committed.
    pub full_waits: bool,
    /// Blocks whose place one descriptor block holds. 254 for checksummed 64-bit journals (16-byte tags), 510 for old ones.
    pub tags_per_descriptor: u32,
    /// Extents are converted to written ones after their data are, in a transaction of their own (`dioread_nolock`, the default since
    /// Linux 5.6).
    pub converts_after_write: bool,
}

/// When dirty data reach the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Writeback {
    /// Memory of the host that caches files.
    pub memory: Bytes,
    /// Per cent of it that may be dirty before the flusher begins (`dirty_background_ratio`). Default 10.
    pub background_percent: u32,
    /// Per cent of it that may be dirty before writers wait (`dirty_ratio`). Default 20.
    pub limit_percent: u32,
    /// Age at which dirty data are written (`dirty_expire_centisecs`). Default 30 s.
    pub expire: Nanos,
    /// How often the flusher looks (`dirty_writeback_centisecs`). Default 5 s.
    pub interval: Nanos,
}

/// The block layer below the filesystem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockLayer {
    /// The largest request (`max_sectors_kb`, or the segments that a request may have of 4 KiB each). Default 512 KiB.
    pub request_max: u32,
    /// Requests in flight on the drive. Default 31: what SATA NCQ leaves for data.
    pub queue_depth: u32,
    /// Requests that wait before a writer has to (`nr_requests`). Default 128.
    pub queue_max: u32,
    /// The drive has a volatile write cache that has to be flushed.
    pub write_cache: bool,
}

/// Processor time of the host for each operation, while which nothing else in the foreground happens. They are parameters, not results:
/// measure them on the machine that is meant, with `trimtab bench` on a filesystem in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostCost {
    /// Creating and closing an empty file.
    pub create: Nanos,
    /// Opening and closing a file, to read or to append.
    pub open: Nanos,
    /// Removing a file, beside what its blocks cost.
    pub delete: Nanos,
    /// Making or removing a directory.
    pub dir: Nanos,
    /// Writing 4096 bytes into the page cache.
    pub write_block: Nanos,
    /// Reading 4096 bytes out of the page cache.
    pub read_block: Nanos,
    /// Allocating an extent while writing back, or freeing one.
    pub extent: Nanos,
}

impl HostCost {
    /// A desktop or server of about 2020. Assumed, not measured.
    pub const CURRENT: Self = Self {
        create: Nanos::from_micros(14),
        open: Nanos::from_micros(3),
        delete: Nanos::from_micros(10),
        dir: Nanos::from_micros(18),
        write_block: Nanos(700),
        read_block: Nanos(350),
        extent: Nanos(1_500),
    };

    /// A desktop of 2011. Assumed, not measured.
    pub const YEAR_2011: Self = Self {
        create: Nanos::from_micros(25),
        open: Nanos::from_micros(8),
        delete: Nanos::from_micros(12),
        dir: Nanos::from_micros(30),
        write_block: Nanos(1_500),
        read_block: Nanos(1_000),
        extent: Nanos(3_000),
    };
}

impl VolumeSpec {
    /// ext4 as Linux 6.18 and mke2fs 1.47 make it, mounted with the defaults.
    #[must_use]
    pub const fn ext4() -> Self {
        Self {
            name: "ext4",
            start: Bytes(0),
            size: None,
            bytes_per_inode: 16384,
            journal_blocks: None,
            mkfs: Mkfs { discard: true, lazy: true },
            atime: Atime::Relative,
            discard: Discard::Off,
            discard_max: Bytes((2 << 30) - (512 << 10)),
            discard_ranges: 1,
            journal: JournalSpec {
                commit_interval: Nanos::from_secs(5),
                transaction_blocks: None,
                full_waits: false,
                tags_per_descriptor: 254,
                converts_after_write: true,
            },
            writeback: Writeback {
                memory: Bytes(8 << 30),
                background_percent: 10,
                limit_percent: 20,
                expire: Nanos::from_secs(30),
                interval: Nanos::from_secs(5),
            },
            delayed_allocation: true,
            write_on_close: false,
            catalogue: false,
            block_layer: BlockLayer { request_max: 512 << 10, queue_depth: 31, queue_max: 128, write_cache: true },
            host: HostCost::CURRENT,
            metadata_class: DataClass::Compressible(75),
        }
    }

    /// ext4 of Linux 2.6.39 on a desktop of 2011.
    #[must_use]
    pub const fn ext4_2011() -> Self {
        let mut spec = Self::ext4();
        spec.journal.tags_per_descriptor = 510;
        spec.journal.converts_after_write = false;
        spec.writeback.memory = Bytes(4 << 30);
        spec.host = HostCost::YEAR_2011;
        spec
    }

    /// A desktop system of 2011 whose journaled filesystem keeps names and inodes in one catalogue, allocates when data are written, and
    /// writes files out as they are closed (HFS Plus on OS X 10.6).
    #[must_use]
    pub const fn desktop_2011() -> Self {
        let mut spec = Self::ext4_2011();
        spec.name = "catalogue";
        spec.mkfs.discard = false;
        spec.atime = Atime::Strict;
        spec.delayed_allocation = false;
        spec.write_on_close = true;
        spec.catalogue = true;
        spec.discard_ranges = 256;
        spec.journal.transaction_blocks = Some(128);
        spec.journal.full_waits = true;
        spec
    }

    /// This specification with online discard as its kernel does it.
    #[must_use]
    pub fn with_online_discard(mut self) -> Self {
        self.discard = if self.journal.converts_after_write { Discard::FreedAndFollowing } else { Discard::Freed };
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Everything taken apart, so that a field that is added has to be added here, too.
    #[test]
    fn every_setting_is_in_the_result() {
        type Change = fn(&mut VolumeSpec);
        let VolumeSpec {
            name: _,
            start: _,
            size: _,
            bytes_per_inode: _,
            journal_blocks: _,
            mkfs,
            atime: _,
            discard: _,
            discard_max: _,
            ..
        } = VolumeSpec::ext4();
        let VolumeSpec { discard_ranges: _, journal, writeback, delayed_allocation: _, write_on_close: _, catalogue: _, .. } =
            VolumeSpec::ext4();
        let VolumeSpec { block_layer, host, metadata_class: _, .. } = VolumeSpec::ext4();
        let Mkfs { discard: _, lazy: _ } = mkfs;
        let JournalSpec { commit_interval: _, transaction_blocks: _, full_waits: _, tags_per_descriptor: _, converts_after_write: _ } =
            journal;
        let Writeback { memory: _, background_percent: _, limit_percent: _, expire: _, interval: _ } = writeback;
        let BlockLayer { request_max: _, queue_depth: _, queue_max: _, write_cache: _ } = block_layer;
        let HostCost { create: _, open: _, delete: _, dir: _, write_block: _, read_block: _, extent: _ } = host;
        let changes: [Change; 37] = [
            |s| s.name = "other",
            |s| s.start.0 += 1,
            |s| s.size = Some(Bytes(1)),
            |s| s.bytes_per_inode += 1,
            |s| s.journal_blocks = Some(1),
            |s| s.mkfs.discard ^= true,
            |s| s.mkfs.lazy ^= true,
            |s| s.atime = Atime::Never,
            |s| s.discard = Discard::Freed,
            |s| s.discard_max.0 += 1,
            |s| s.discard_ranges += 1,
            |s| s.journal.commit_interval.0 += 1,
            |s| s.journal.transaction_blocks = Some(1),
            |s| s.journal.full_waits ^= true,
            |s| s.journal.tags_per_descriptor += 1,
            |s| s.journal.converts_after_write ^= true,
            |s| s.writeback.memory.0 += 1,
            |s| s.writeback.background_percent += 1,
            |s| s.writeback.limit_percent += 1,
            |s| s.writeback.expire.0 += 1,
            |s| s.writeback.interval.0 += 1,
            |s| s.delayed_allocation ^= true,
            |s| s.write_on_close ^= true,
            |s| s.catalogue ^= true,
            |s| s.block_layer.request_max += 1,
            |s| s.block_layer.queue_depth += 1,
            |s| s.block_layer.queue_max += 1,
            |s| s.block_layer.write_cache ^= true,
            |s| s.host.create.0 += 1,
            |s| s.host.open.0 += 1,
            |s| s.host.delete.0 += 1,
            |s| s.host.dir.0 += 1,
            |s| s.host.write_block.0 += 1,
            |s| s.host.read_block.0 += 1,
            |s| s.host.extent.0 += 1,
            |s| s.metadata_class = DataClass::Zero,
            |s| s.metadata_class = DataClass::Compressible(76),
        ];
        let plain = VolumeSpec::ext4().fields();
        for (number, change) in changes.iter().enumerate() {
            let mut spec = VolumeSpec::ext4();
            change(&mut spec);
            assert_ne!(spec.fields(), plain, "change {number}");
        }
    }
}
