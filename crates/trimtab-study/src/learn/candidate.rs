//! A candidate: numbers and kind of a drive, at full size or small enough for fast runs.

use super::ReportedProperties;
use super::probes::{AREA_WRITES, ProbePlan};
use trimtab_drive::spec::{
    Compression, DriveSpec, Flash, FlushBehaviour, Ftl, GarbageCollection, Geometry, Interface,
    NandTiming, SlcCache, SlcFull, SlcSize, Streams, Trim, VictimPolicy, WriteCache,
};

/// Number of continuous parameters (`classes::PARAMETERS`).
pub const NUMBERS: usize = 23;
/// Number of those that small probes can identify: the first ones. The others need a
/// whole drive.
pub const OF_SMALL_PROBES: usize = 18;

/// Indices of the numbers.
pub mod at {
    /// Link rate.
    pub const RATE: usize = 0;
    /// Command overhead of a read.
    pub const OVERHEAD: usize = 1;
    /// Command overhead of a write.
    pub const WRITE_OVERHEAD: usize = 2;
    /// Latency of each command.
    pub const LATENCY: usize = 3;
    /// Read time of a page.
    pub const READ: usize = 4;
    /// Program time of a row of native cells.
    pub const PROGRAM: usize = 5;
    /// Rate of each channel.
    pub const CHANNEL: usize = 6;
    /// Time to suspend a program for a read.
    pub const SUSPEND: usize = 7;
    /// Read-ahead for sequential reads.
    pub const READ_AHEAD: usize = 8;
    /// Size of the write cache.
    pub const CACHE: usize = 9;
    /// Flush time in addition to programs.
    pub const FLUSH: usize = 10;
    /// Program time of a row in SLC mode.
    pub const SLC_PROGRAM: usize = 11;
    /// Read time of a page in SLC mode.
    pub const SLC_READ: usize = 12;
    /// Stored size of fully compressible data.
    pub const STORED: usize = 13;
    /// Cost of a TRIM command.
    pub const TRIM_COMMAND: usize = 14;
    /// Cost of each range.
    pub const TRIM_RANGE: usize = 15;
    /// Cost of each mapped unit.
    pub const TRIM_UNIT: usize = 16;
    /// Cost of 10^9 bytes.
    pub const TRIM_GB: usize = 17;
    /// Spare space, (T - U) / U in per mille.
    pub const SPARE: usize = 18;
    /// Erase time of a block.
    pub const ERASE: usize = 19;
    /// Minimum SLC cache, on a full drive, in millionths of the capacity.
    pub const SLC_LEAST: usize = 20;
    /// Additional SLC cache on an empty drive, in millionths.
    pub const SLC_MORE: usize = 21;
    /// Memory for the map, if not all of it fits: bytes per 10^6 bytes of the drive
    /// mapped in 4 KiB units. The whole map takes 977.
    pub const MAP: usize = 22;
}

/// The discrete properties of a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriveKind {
    /// Channels.
    pub channels: u32,
    /// Dies per channel.
    pub dies_per_channel: u32,
    /// Planes per die.
    pub planes: u32,
    /// Page size in bytes.
    pub page_bytes: u64,
    /// Mapping unit in bytes.
    pub unit_bytes: u64,
    /// Reads suspend programs.
    pub suspends: bool,
    /// Flushes are free (power-loss protection).
    pub protected: bool,
    /// The drive has an SLC cache.
    pub slc: bool,
    /// Data that the probes wrote to the SLC cache moved to native cells during rests.
    pub folds: bool,
    /// Spread of page read times, in per mille.
    pub read_spread_permille: u16,
    /// The controller compresses data.
    pub compresses: bool,
    /// TRIM runs concurrently with other commands.
    pub trim_queued: bool,
    /// Shorter TRIMs are ignored.
    pub trim_bytes_min: u64,
    /// TRIMs take effect in multiples of this.
    pub trim_alignment_bytes: u64,
}

impl DriveKind {
    /// Total number of dies.
    #[must_use]
    pub const fn dies(&self) -> u32 {
        self.channels * self.dies_per_channel
    }

    /// Bytes that a die programs at once.
    #[must_use]
    pub const fn row_bytes(&self) -> u64 {
        self.page_bytes * self.planes as u64
    }
}

/// Discrete properties that only the probes of the whole drive can identify.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HiddenProperties {
    /// Bits per cell. Visible in the number of page types if their read times differ.
    pub bits_per_cell: u8,
    /// Pages per block.
    pub pages_per_block: u32,
    /// The SLC cache shrinks as the drive fills.
    pub slc_shrinks: bool,
    /// Writes continue in native cells when the SLC cache is full.
    pub slc_direct: bool,
    /// Victim selection of garbage collection.
    pub victim: VictimPolicy,
    /// Relocated data have superblocks of their own.
    pub separate_gc: bool,
    /// Only part of the map is in memory.
    pub maps_in_part: bool,
}

/// A modelled drive that may match the measured one.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// Discrete properties.
    pub kind: DriveKind,
    /// Natural logarithms of the numbers.
    pub logs: [f64; NUMBERS],
    /// Sampled discrete properties.
    pub hidden: HiddenProperties,
}

/// Pages per block of a laboratory drive: divisible by every number of bits per cell.
const LABORATORY_PAGES: u32 = 192;

/// Minimum number of superblocks, as for small drives (`study::small`).
const SUPERBLOCKS_MIN: u64 = 160;
/// Mapping unit with the largest map.
const SMALLEST_UNIT: u64 = 4096;
/// Largest mapping unit of a candidate.
pub const UNIT_MAX: u64 = 64 << 10;
/// Divisible by every number of bits per cell.
const PAGES_STEP: u32 = 12;
/// Maximum number of blocks added per plane if there would be too few.
const MORE_BLOCKS_MAX: u32 = 32;

impl Candidate {
    /// Bits per cell if visible: one page type per bit, each with its own read time.
    #[must_use]
    pub fn shown_bits(&self) -> Option<u8> {
        (self.kind.read_spread_permille > 0).then_some(self.hidden.bits_per_cell)
    }

    /// True if the small probes cannot tell the kinds of `self` and `other` apart.
    #[must_use]
    pub fn is_kind_of(&self, other: &Self) -> bool {
        self.kind == other.kind && self.shown_bits() == other.shown_bits()
    }

    /// True if the number with that index is meaningful for this drive.
    #[must_use]
    pub const fn has(&self, number: usize) -> bool {
        match number {
            at::SUSPEND => self.kind.suspends,
            at::SLC_PROGRAM | at::SLC_READ | at::SLC_LEAST => self.kind.slc,
            at::SLC_MORE => self.kind.slc && self.hidden.slc_shrinks,
            at::STORED => self.kind.compresses,
            at::MAP => self.hidden.maps_in_part,
            _ => true,
        }
    }

    /// Replaces the properties that small probes cannot identify by those of `other`,
    /// except visible ones.
    #[must_use]
    pub fn hiding(mut self, other: &Self) -> Self {
        let bits = self.shown_bits().unwrap_or(other.hidden.bits_per_cell);
        self.hidden = HiddenProperties { bits_per_cell: bits, ..other.hidden };
        self.logs[OF_SMALL_PROBES..].copy_from_slice(&other.logs[OF_SMALL_PROBES..]);
        self
    }

    /// The same drive with this many pages per block; the visible erase time per page
    /// stays.
    #[must_use]
    pub fn paged(mut self, pages: u32) -> Self {
        self.logs[at::ERASE] +=
            libm::log(f64::from(pages) / f64::from(self.hidden.pages_per_block));
        self.hidden.pages_per_block = pages;
        self
    }

    /// Value of a number.
    #[must_use]
    pub fn number(&self, at: usize) -> f64 {
        libm::exp(self.logs[at])
    }

    fn rounded(&self, at: usize) -> u64 {
        libm::round(self.number(at)).clamp(0.0, 1e15) as u64
    }

    /// The numbers as a specification holds them; 0 where it holds none. Candidates of one
    /// kind with the same whole numbers and hidden properties are the same drive.
    #[must_use]
    pub fn whole_numbers(&self) -> [u64; NUMBERS] {
        core::array::from_fn(|at| if self.has(at) { self.rounded(at) } else { 0 })
    }

    /// The drive at full size.
    #[must_use]
    pub fn spec(&self, name: &str, description: &str, reported: &ReportedProperties) -> DriveSpec {
        let capacity = reported.capacity_bytes;
        let share = |ppm: u32| (u128::from(capacity) * u128::from(ppm) / 1_000_000) as u64;
        let (least, most) = self.slc_ppm();
        let size = if least == most {
            SlcSize::Fixed { bytes: share(least) }
        } else {
            SlcSize::Dynamic { bytes_min: share(least), bytes_max: share(most) }
        };
        // A permanent SLC cache is not part of the spare space.
        let always =
            if self.kind.slc { least * u32::from(self.hidden.bits_per_cell) / 1000 } else { 0 };
        let geometry = self
            .geometry(self.pages_per_block(capacity))
            .with_over_provisioning(capacity, self.spare_permille() + always);
        let mut spec = self.assemble((name, description), reported, capacity, geometry, size);
        spec.flash.ftl.mapping_cache_bytes = self.map_bytes(capacity);
        // Large geometries have large superblocks and need a few more for the open ones.
        for _ in 0..MORE_BLOCKS_MAX {
            if spec.validate().is_ok() {
                break;
            }
            spec.flash.geometry.blocks_per_plane += 1;
        }
        spec
    }

    /// Spare space, within what a drive can have.
    #[must_use]
    pub fn spare_permille(&self) -> u32 {
        self.rounded(at::SPARE).clamp(20, 1500) as u32
    }

    /// Minimum and maximum size of the SLC cache, in millionths of the capacity; equal if
    /// fixed.
    #[must_use]
    pub fn slc_ppm(&self) -> (u32, u32) {
        let least = self.rounded(at::SLC_LEAST).clamp(500, 300_000) as u32;
        (
            least,
            if self.hidden.slc_shrinks {
                least + self.rounded(at::SLC_MORE).clamp(500, 900_000) as u32
            } else {
                least
            },
        )
    }

    /// Memory for the map in its unit ([`at::MAP`]); 0 if all of it is in memory.
    #[must_use]
    pub fn map_ppm(&self) -> u32 {
        if self.hidden.maps_in_part { self.rounded(at::MAP).clamp(1, 976) as u32 } else { 0 }
    }

    /// Memory for the map of a drive of `capacity` bytes; `None` if all of it is in
    /// memory.
    #[must_use]
    pub fn map_bytes(&self, capacity: u64) -> Option<u64> {
        let bytes = u128::from(capacity) * u128::from(self.map_ppm()) * u128::from(SMALLEST_UNIT)
            / u128::from(self.kind.unit_bytes);
        self.hidden.maps_in_part.then(|| ((bytes / 1_000_000) as u64).max(self.kind.page_bytes))
    }

    /// Pages per block; fewer if large superblocks would make the spare space too coarse.
    fn pages_per_block(&self, capacity: u64) -> u32 {
        let row = u64::from(self.kind.dies()) * self.kind.row_bytes();
        let most = u32::try_from(capacity / SUPERBLOCKS_MIN / row.max(1)).unwrap_or(u32::MAX);
        self.hidden.pages_per_block.min((most / PAGES_STEP * PAGES_STEP).max(PAGES_STEP))
    }

    /// The smallest drive equivalent under the probes of `plan`. It never collects
    /// garbage.
    #[must_use]
    pub fn laboratory(&self, plan: &ProbePlan) -> DriveSpec {
        let capacity = plan.start + 2 * plan.area;
        let slc_bytes = AREA_WRITES * plan.area;
        let geometry = self.geometry(LABORATORY_PAGES);
        let slc_permille = if self.kind.slc {
            slc_bytes * 1000 / capacity * u64::from(self.hidden.bits_per_cell)
        } else {
            0
        };
        // Room for all writes and 8 more superblocks.
        let spare = (AREA_WRITES * plan.area) * 1000 / capacity + slc_permille;
        let few = (8 * geometry.superblock_bytes() * 1000 / u128::from(capacity)) as u64;
        let geometry = geometry.with_over_provisioning(capacity, (spare + few + 200) as u32);
        let reported = ReportedProperties { capacity_bytes: capacity, ..plan.reported };
        let mut spec = self.assemble(
            ("candidate", "a candidate"),
            &reported,
            capacity,
            geometry,
            SlcSize::Fixed { bytes: slc_bytes },
        );
        // Superblocks of a large drive stay open for long; data in an open one are not
        // moved.
        if let Some(slc) = spec.flash.slc_cache.as_mut().filter(|_| !self.kind.folds) {
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
        reported: &ReportedProperties,
        capacity_bytes: u64,
        geometry: Geometry,
        slc: SlcSize,
    ) -> DriveSpec {
        let kind = &self.kind;
        let mut flash = Flash {
            geometry,
            ftl: Ftl {
                mapping_unit_bytes: kind.unit_bytes,
                streams: Streams { separate_gc: self.hidden.separate_gc },
                victim: self.hidden.victim,
                gc: GarbageCollection::default(),
                ..Ftl::default()
            },
            nand: NandTiming {
                read_ns: self.rounded(at::READ),
                program_ns: self.rounded(at::PROGRAM),
                erase_ns: self.rounded(at::ERASE).clamp(100_000, 1_000_000_000),
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
            when_full: if self.hidden.slc_direct {
                SlcFull::WriteDirect
            } else {
                SlcFull::FoldFirst
            },
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
            flash,
        }
    }

    fn trim(&self, reported: &ReportedProperties) -> Trim {
        let kind = &self.kind;
        let Some(limits) = reported.trim else {
            return Trim { supported: false, ..Trim::default() };
        };
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
