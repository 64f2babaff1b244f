//! A candidate: numbers and kinds from which a drive can be made, at its full size or small enough to be tried in milliseconds.

use super::Reported;
use super::probes::{AREA_WRITES, Plan};
use trimtab_drive::spec::{
    Compression, DriveSpec, Flash, FlushBehaviour, Ftl, GarbageCollection, Geometry, Interface, Medium, NandTiming, SlcCache, SlcFull,
    SlcSize, Streams, Trim, VictimPolicy, WriteCache,
};

/// What has a size and can be learned. The names are those of [`FIELDS`], the units nanoseconds, bytes, bytes per second or per mille, as there.
pub const NUMBERS: usize = 18;

/// The field of a specification that each number is.
pub const FIELDS: [&str; NUMBERS] = [
    "interface.rate_bytes_per_s",
    "interface.command_overhead_ns",
    "interface.write_overhead_ns",
    "interface.latency_ns",
    "flash.nand.read_ns",
    "flash.nand.program_ns",
    "flash.nand.channel_bytes_per_s",
    "flash.nand.suspend_ns",
    "flash.nand.read_ahead_bytes",
    "flash.write_cache.bytes",
    "flash.write_cache.flush_ns",
    "flash.slc_cache.program_ns",
    "flash.slc_cache.read_ns",
    "flash.compression.stored_permille_min",
    "flash.trim.command_ns",
    "flash.trim.range_ns",
    "flash.trim.unit_ns",
    "flash.trim.gb_ns",
];

/// Places in a list of numbers.
pub mod at {
    /// Of the link.
    pub const RATE: usize = 0;
    /// Of a read.
    pub const OVERHEAD: usize = 1;
    /// Of a write.
    pub const WRITE_OVERHEAD: usize = 2;
    /// Of each command.
    pub const LATENCY: usize = 3;
    /// Of a page.
    pub const READ: usize = 4;
    /// Of a row of native cells.
    pub const PROGRAM: usize = 5;
    /// Of each channel.
    pub const CHANNEL: usize = 6;
    /// Until a read interrupts.
    pub const SUSPEND: usize = 7;
    /// Of sequential reads.
    pub const READ_AHEAD: usize = 8;
    /// Of writes.
    pub const CACHE: usize = 9;
    /// Besides programs.
    pub const FLUSH: usize = 10;
    /// Of a row with one bit a cell.
    pub const SLC_PROGRAM: usize = 11;
    /// The same, read.
    pub const SLC_READ: usize = 12;
    /// Of what could be compressed away.
    pub const STORED: usize = 13;
    /// Of a TRIM.
    pub const TRIM_COMMAND: usize = 14;
    /// Of each range.
    pub const TRIM_RANGE: usize = 15;
    /// Of each mapped unit.
    pub const TRIM_UNIT: usize = 16;
    /// Of 10^9 bytes.
    pub const TRIM_GB: usize = 17;
}

/// What is of one kind or another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// Channels.
    pub channels: u32,
    /// Dies on each.
    pub dies_per_channel: u32,
    /// Planes of each.
    pub planes: u32,
    /// Bytes of a page.
    pub page_bytes: u64,
    /// Mapping unit.
    pub unit_bytes: u64,
    /// Reads interrupt programs.
    pub suspends: bool,
    /// Flushes are free.
    pub protected: bool,
    /// There is a part with one bit a cell.
    pub slc: bool,
    /// What the probes wrote there was moved to native cells while the drive was left alone.
    pub folds: bool,
    /// Spread of the times of pages, in per mille.
    pub read_spread_permille: u16,
    /// What is written is compressed.
    pub compresses: bool,
    /// TRIM runs beside other commands.
    pub trim_queued: bool,
    /// Shorter TRIMs are ignored.
    pub trim_bytes_min: u64,
    /// TRIMs count in whole multiples of this.
    pub trim_alignment_bytes: u64,
}

impl Kind {
    /// Dies in all.
    #[must_use]
    pub const fn dies(&self) -> u32 {
        self.channels * self.dies_per_channel
    }

    /// What a die programs at once.
    #[must_use]
    pub const fn row_bytes(&self) -> u64 {
        self.page_bytes * self.planes as u64
    }

    /// Whether a number means anything for such a drive.
    #[must_use]
    pub const fn has(&self, number: usize) -> bool {
        match number {
            at::SUSPEND => self.suspends,
            at::SLC_PROGRAM | at::SLC_READ => self.slc,
            at::STORED => self.compresses,
            _ => true,
        }
    }
}

/// What nobody can tell from outside in minutes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hidden {
    /// Spare space, (T - U) / U in per mille.
    pub over_provisioning_permille: u32,
    /// Bits of a cell; where pages differ it shows how many kinds of them there are.
    pub bits_per_cell: u8,
    /// Pages of a block.
    pub pages_per_block: u32,
    /// Erasure of a block.
    pub erase_ns: u64,
    /// SLC cache at least and at most, in millionths of the capacity; equal where it is fixed.
    pub slc_ppm: (u32, u32),
    /// Writes go on in native cells when that is full.
    pub slc_direct: bool,
    /// Which superblock is collected next.
    pub victim: VictimPolicy,
    /// Relocated data are kept apart.
    pub separate_gc: bool,
    /// Memory for the map: bytes for each 10^6 bytes of the drive that are mapped in 4 KiB, of which the whole map takes 977; 0 where all of it is in memory.
    pub map_ppm: u32,
}

/// A drive that might be the one.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// Kinds.
    pub kind: Kind,
    /// Natural logarithms of the numbers.
    pub logs: [f64; NUMBERS],
    /// What is drawn.
    pub hidden: Hidden,
}

/// Pages of a block in the laboratory: every number of bits divides them.
const LABORATORY_PAGES: u32 = 192;

/// Superblocks that a drive has at least, as small drives have them (`study::small`).
const SUPERBLOCKS_MIN: u64 = 160;
/// Mapping unit of which a map is largest.
const SMALLEST_UNIT: u64 = 4096;
/// Largest mapping unit of a candidate.
pub const UNIT_MAX: u64 = 64 << 10;
/// Every number of bits divides this.
const PAGES_STEP: u32 = 12;
/// Blocks of a plane that are added where there would be too few.
const MORE_BLOCKS_MAX: u32 = 32;

impl Candidate {
    /// Bits of a cell where they show: pages of as many kinds take differently long to read.
    #[must_use]
    pub fn shown_bits(&self) -> Option<u8> {
        (self.kind.read_spread_permille > 0).then_some(self.hidden.bits_per_cell)
    }

    /// Whether both are of one kind, as far as small probes see it.
    #[must_use]
    pub fn is_kind_of(&self, other: &Self) -> bool {
        self.kind == other.kind && self.shown_bits() == other.shown_bits()
    }

    /// With properties that no probe of a small part tells, as drawn; but for what shows.
    #[must_use]
    pub fn hiding(mut self, drawn: Hidden) -> Self {
        let bits = self.shown_bits();
        self.hidden = drawn;
        if let Some(bits) = bits {
            self.hidden.bits_per_cell = bits;
        }
        self
    }

    /// A number.
    #[must_use]
    pub fn number(&self, at: usize) -> f64 {
        libm::exp(self.logs[at])
    }

    fn rounded(&self, at: usize) -> u64 {
        libm::round(self.number(at)).clamp(0.0, 1e15) as u64
    }

    /// The drive at its full size.
    #[must_use]
    pub fn spec(&self, name: &str, description: &str, reported: &Reported) -> DriveSpec {
        let capacity = reported.capacity_bytes;
        let share = |ppm: u32| (u128::from(capacity) * u128::from(ppm) / 1_000_000) as u64;
        let (least, most) = self.hidden.slc_ppm;
        let size = if least == most {
            SlcSize::Fixed { bytes: share(least) }
        } else {
            SlcSize::Dynamic { bytes_min: share(least), bytes_max: share(most) }
        };
        // What an SLC cache that is always there takes is no spare space.
        let always = if self.kind.slc { least * u32::from(self.hidden.bits_per_cell) / 1000 } else { 0 };
        let geometry =
            self.geometry(self.pages_per_block(capacity)).with_over_provisioning(capacity, self.hidden.over_provisioning_permille + always);
        let mut spec = self.assemble((name, description), reported, capacity, geometry, size);
        if let Medium::Flash(flash) = &mut spec.medium {
            flash.ftl.mapping_cache_bytes = self.map_bytes(capacity);
        }
        // Superblocks of large arrangements are so large that a few more are needed for what is open.
        for _ in 0..MORE_BLOCKS_MAX {
            if spec.validate().is_ok() {
                break;
            }
            if let Medium::Flash(flash) = &mut spec.medium {
                flash.geometry.blocks_per_plane += 1;
            }
        }
        spec
    }

    /// Memory for the map of a drive of `capacity` bytes; `None` where all of it is there.
    #[must_use]
    pub fn map_bytes(&self, capacity: u64) -> Option<u64> {
        let bytes = u128::from(capacity) * u128::from(self.hidden.map_ppm) * u128::from(SMALLEST_UNIT) / u128::from(self.kind.unit_bytes);
        (self.hidden.map_ppm > 0).then(|| ((bytes / 1_000_000) as u64).max(self.kind.page_bytes))
    }

    /// Pages of a block, fewer where superblocks would be so large that spare space could not be told in per mille.
    fn pages_per_block(&self, capacity: u64) -> u32 {
        let row = u64::from(self.kind.dies()) * self.kind.row_bytes();
        let most = u32::try_from(capacity / SUPERBLOCKS_MIN / row.max(1)).unwrap_or(u32::MAX);
        self.hidden.pages_per_block.min((most / PAGES_STEP * PAGES_STEP).max(PAGES_STEP))
    }

    /// A drive that shows the same under the probes of `plan`, and is no larger than these need: nothing is ever collected.
    #[must_use]
    pub fn laboratory(&self, plan: &Plan) -> DriveSpec {
        let capacity = plan.start + 2 * plan.area;
        let slc_bytes = AREA_WRITES * plan.area;
        let geometry = self.geometry(LABORATORY_PAGES);
        let slc_permille = if self.kind.slc { slc_bytes * 1000 / capacity * u64::from(self.hidden.bits_per_cell) } else { 0 };
        // Room for all that is written, and 8 superblocks more.
        let spare = (AREA_WRITES * plan.area) * 1000 / capacity + slc_permille;
        let few = (8 * geometry.superblock_bytes() * 1000 / u128::from(capacity)) as u64;
        let geometry = geometry.with_over_provisioning(capacity, (spare + few + 200) as u32);
        let reported = Reported { capacity_bytes: capacity, ..plan.reported };
        let mut spec = self.assemble(("candidate", "a candidate"), &reported, capacity, geometry, SlcSize::Fixed { bytes: slc_bytes });
        // Superblocks of a large drive stay open for long, and what is in an open one is not moved.
        if let Medium::Flash(flash) = &mut spec.medium
            && let Some(slc) = flash.slc_cache.as_mut().filter(|_| !self.kind.folds)
        {
            slc.idle_fold_ns = None;
        }
        spec
    }

    fn geometry(&self, pages_per_block: u32) -> Geometry {
        let kind = &self.kind;
        Geometry {
            channels: kind.channels,
            dies_per_channel: kind.dies_per_channel,
            planes: kind.planes,
            page_bytes: kind.page_bytes,
            pages_per_block,
            blocks_per_plane: 1,
            superblock_dies: kind.dies(),
            bits_per_cell: self.hidden.bits_per_cell,
        }
    }

    fn assemble(
        &self,
        (name, description): (&str, &str),
        reported: &Reported,
        capacity_bytes: u64,
        geometry: Geometry,
        slc: SlcSize,
    ) -> DriveSpec {
        let kind = &self.kind;
        let mut flash = Flash {
            geometry,
            ftl: Ftl {
                mapping_unit_bytes: kind.unit_bytes,
                streams: Streams { separate_gc: self.hidden.separate_gc, hot_cold: None },
                victim: self.hidden.victim,
                gc: GarbageCollection::default(),
                ..Ftl::default()
            },
            nand: NandTiming {
                read_ns: self.rounded(at::READ),
                program_ns: self.rounded(at::PROGRAM),
                erase_ns: self.hidden.erase_ns,
                channel_bytes_per_s: self.rounded(at::CHANNEL).max(1000),
                suspend_ns: kind.suspends.then(|| self.rounded(at::SUSPEND)),
                read_ahead_bytes: self.rounded(at::READ_AHEAD).min(1 << 30),
                read_spread_permille: kind.read_spread_permille,
                ..NandTiming::default()
            },
            write_cache: WriteCache {
                bytes: self.rounded(at::CACHE).max(kind.unit_bytes),
                power_loss_protection: kind.protected,
                flush: FlushBehaviour::WriteOut,
                flush_ns: self.rounded(at::FLUSH),
                ..WriteCache::default()
            },
            ..Flash::default()
        };
        flash.slc_cache = kind.slc.then(|| SlcCache {
            size: slc,
            program_ns: self.rounded(at::SLC_PROGRAM),
            read_ns: self.rounded(at::SLC_READ),
            when_full: if self.hidden.slc_direct { SlcFull::WriteDirect } else { SlcFull::FoldFirst },
            idle_fold_ns: Some(2_000_000_000),
        });
        flash.compression = kind.compresses.then(|| Compression {
            stored_permille_min: self.rounded(at::STORED).clamp(10, 1000) as u16,
            granularity_bytes: 512,
            engine_bytes_per_s: 0,
        });
        flash.trim = self.trim(reported);
        DriveSpec {
            name: name.into(),
            description: description.into(),
            capacity_bytes,
            logical_block_bytes: reported.logical_block_bytes,
            interface: Interface {
                rate_bytes_per_s: self.rounded(at::RATE).max(1000),
                full_duplex: reported.full_duplex,
                queue_depth: reported.queue_depth,
                command_overhead_ns: self.rounded(at::OVERHEAD),
                write_overhead_ns: Some(self.rounded(at::WRITE_OVERHEAD)),
                latency_ns: self.rounded(at::LATENCY),
            },
            medium: Medium::Flash(flash),
        }
    }

    fn trim(&self, reported: &Reported) -> Trim {
        let kind = &self.kind;
        let Some(limits) = reported.trim else { return Trim { supported: false, ..Trim::default() } };
        Trim {
            supported: true,
            queued: kind.trim_queued,
            ranges_per_command_max: limits.ranges_per_command_max,
            range_bytes_max: limits.range_bytes_max,
            command_ns: self.rounded(at::TRIM_COMMAND),
            range_ns: self.rounded(at::TRIM_RANGE),
            unit_ns: self.rounded(at::TRIM_UNIT),
            gb_ns: self.rounded(at::TRIM_GB),
            bytes_min: kind.trim_bytes_min,
            alignment_bytes: kind.trim_alignment_bytes,
            ..Trim::default()
        }
    }
}
