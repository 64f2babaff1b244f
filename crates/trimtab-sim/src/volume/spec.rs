//! Specification of a modelled volume: filesystem, mount options, host.

mod set;

use trimtab_drive::data::DataClass;
use trimtab_drive::named;
use trimtab_drive::units::{Bytes, Nanos};

/// Bytes of a filesystem block.
pub const BLOCK: u64 = 4096;

/// Specification of a volume. Start from [`VolumeSpec::ext4`], [`VolumeSpec::ext4_2011`]
/// or [`VolumeSpec::desktop_2011`] and change the differences.
#[derive(Clone, Debug, PartialEq)]
pub struct VolumeSpec {
    /// Filesystem family, as shown in reports.
    pub name: &'static str,
    /// First byte of the filesystem on the drive: 0 for a whole drive, 32256 for the old,
    /// misaligned partition start at sector 63, 1048576 for current partitions.
    pub start: Bytes,
    /// Size of the filesystem; `None` for the rest of the drive.
    pub size: Option<Bytes>,
    /// Bytes of disk per inode (`mke2fs -i`). Default 16384.
    pub bytes_per_inode: u32,
    /// Journal blocks; `None` for the default of `mke2fs`.
    pub journal_blocks: Option<u32>,
    /// Initial writes and discards of `mkfs`.
    pub mkfs: Mkfs,
    /// Access time updates on read.
    pub atime: Atime,
    /// Online discard.
    pub discard: Discard,
    /// Largest discard command; longer ranges are split. Linux:
    /// `queue/discard_max_bytes`. Default 2 GiB - 512 KiB, rounded down: an ATA TRIM of
    /// 64 ranges of 65535 sectors.
    pub discard_max: Bytes,
    /// Ranges per TRIM. Linux sends one, a catalogue's journal a whole transaction.
    /// Default 1.
    pub discard_ranges: u32,
    /// Journal settings for dirty metadata.
    pub journal: JournalSpec,
    /// Writeback settings for dirty data.
    pub writeback: Writeback,
    /// Delayed allocation: allocate blocks at writeback instead of at write.
    pub delayed_allocation: bool,
    /// Start writeback of a file when it is closed (without waiting).
    pub write_on_close: bool,
    /// Inodes are in the leaves of a catalogue with the names, not in tables.
    pub catalogue: bool,
    /// Block layer below the filesystem.
    pub block_layer: BlockLayer,
    /// Host processor time per operation.
    pub host: HostCost,
    /// Compressibility of journal and metadata blocks. Default 75 %: bitmaps, tables of
    /// mostly zero inodes, and half-filled directory blocks.
    pub metadata_class: DataClass,
}

/// Initial writes and discards of `mkfs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mkfs {
    /// Discard the whole volume first (`mke2fs -E discard`, the default of mke2fs).
    pub discard: bool,
    /// Never write inode tables and journal (`lazy_itable_init`, `lazy_journal_init`).
    pub lazy: bool,
}

named! {
    "access time option"
    /// Access time updates on read.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Atime {
        /// Every read updates it (`strictatime`).
        Strict = "strictatime",
        /// Updated if older than the last change or a day (`relatime`, Linux 2.6.30
        /// default).
        Relative = "relatime",
        /// Never (`noatime`).
        Never = "noatime",
    }
}

named! {
    "online discard"
    /// Online discard mode.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Discard {
        /// None.
        Off = "off",
        /// Exactly the freed space, one command per merged extent, inside the commit,
        /// which waits for all of them. Linux 2.6.39 to 5.14.
        Freed = "freed",
        /// The freed space and the free space after it, up to the next used block or the
        /// end of the group, sent one by one by a worker after the commit. A freed extent
        /// merges only with the neighbour at which its search in the tree of freed
        /// extents ends. Measured on Linux 6.18.
        FreedAndFollowing = "freed-and-following",
    }
}

/// Journal settings for dirty metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalSpec {
    /// Age at which a transaction is committed. Default 5 s.
    pub commit_interval: Nanos,
    /// Blocks per transaction; `None` for a third of the journal (Linux 6.18).
    pub transaction_blocks: Option<u32>,
    /// The operation that fills a transaction waits for its commit.
    pub full_waits: bool,
    /// Tags per descriptor block: 254 for checksummed 64-bit journals, 510 for old ones.
    pub tags_per_descriptor: u32,
    /// Convert extents in a transaction after their data (`dioread_nolock`, Linux 5.6).
    pub converts_after_write: bool,
}

/// Writeback settings for dirty data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Writeback {
    /// Host memory for the page cache.
    pub memory: Bytes,
    /// Percent of it dirty at which the flusher starts (`dirty_background_ratio`).
    /// Default 10.
    pub background_percent: u32,
    /// Percent of it dirty at which writers wait (`dirty_ratio`). Default 20.
    pub limit_percent: u32,
    /// Age at which dirty data are written (`dirty_expire_centisecs`). Default 30 s.
    pub expire: Nanos,
    /// Interval of the flusher (`dirty_writeback_centisecs`). Default 5 s.
    pub interval: Nanos,
}

/// The block layer below the filesystem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockLayer {
    /// Largest request (`max_sectors_kb`, or segments per request times 4 KiB). Default
    /// 512 KiB.
    pub request_max: u32,
    /// Requests in flight on the drive. Default 31: what SATA NCQ leaves for data.
    pub queue_depth: u32,
    /// Requests queued before writers wait (`nr_requests`). Default 128.
    pub queue_max: u32,
    /// The drive has a volatile write cache that needs flushes.
    pub write_cache: bool,
}

/// Host processor time per operation, which blocks the foreground. These are parameters,
/// not results: measure them with `trimtab bench` on a memory filesystem of the target
/// machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostCost {
    /// Creating and closing an empty file.
    pub create: Nanos,
    /// Opening and closing a file for reading or appending.
    pub open: Nanos,
    /// Removing a file, excluding its blocks.
    pub delete: Nanos,
    /// Creating or removing a directory.
    pub dir: Nanos,
    /// Writing 4096 bytes into the page cache.
    pub write_block: Nanos,
    /// Reading 4096 bytes from the page cache.
    pub read_block: Nanos,
    /// Allocating an extent at writeback, or freeing one.
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
    /// ext4 as created by Linux 6.18 and mke2fs 1.47, with default mount options.
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
            block_layer: BlockLayer {
                request_max: 512 << 10,
                queue_depth: 31,
                queue_max: 128,
                write_cache: true,
            },
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

    /// A desktop system of 2011 with names and inodes in one catalogue, allocation at
    /// write time and writeback on close (HFS Plus on OS X 10.6).
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

    /// Enables online discard in the mode of the specified kernel.
    #[must_use]
    pub fn with_online_discard(mut self) -> Self {
        self.discard = if self.journal.converts_after_write {
            Discard::FreedAndFollowing
        } else {
            Discard::Freed
        };
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Destructured completely, so that a new field must be added here too.
    #[test]
    fn fields_include_every_setting() {
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
        let VolumeSpec {
            discard_ranges: _,
            journal,
            writeback,
            delayed_allocation: _,
            write_on_close: _,
            catalogue: _,
            ..
        } = VolumeSpec::ext4();
        let VolumeSpec { block_layer, host, metadata_class: _, .. } = VolumeSpec::ext4();
        let Mkfs { discard: _, lazy: _ } = mkfs;
        let JournalSpec {
            commit_interval: _,
            transaction_blocks: _,
            full_waits: _,
            tags_per_descriptor: _,
            converts_after_write: _,
        } = journal;
        let Writeback {
            memory: _,
            background_percent: _,
            limit_percent: _,
            expire: _,
            interval: _,
        } = writeback;
        let BlockLayer { request_max: _, queue_depth: _, queue_max: _, write_cache: _ } =
            block_layer;
        let HostCost {
            create: _,
            open: _,
            delete: _,
            dir: _,
            write_block: _,
            read_block: _,
            extent: _,
        } = host;
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
