//! Specification of an SSD.

use serde::{Deserialize, Serialize};

/// Specification of an SSD.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Flash {
    /// Flash geometry.
    pub geometry: Geometry,
    /// Flash translation layer.
    pub ftl: Ftl,
    /// Times of flash operations.
    pub nand: NandTiming,
    /// Write cache.
    pub write_cache: WriteCache,
    /// SLC cache; `None` for no SLC cache.
    pub slc_cache: Option<SlcCache>,
    /// Thermal throttling; `None` never throttles.
    pub thermal: Option<Thermal>,
    /// Endurance throttling of writes; `None` never throttles.
    pub life_throttle: Option<LifeThrottle>,
    /// Compression in the controller; `None` stores data at full size.
    pub compression: Option<Compression>,
    /// TRIM behaviour.
    pub trim: Trim,
}

/// Flash geometry. Raw capacity does not depend on `superblock_dies` and `bits_per_cell`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Geometry {
    /// Channels, each with its own bus.
    pub channels: u32,
    /// Independent dies per channel.
    pub dies_per_channel: u32,
    /// Planes per die, programmed and erased together.
    pub planes: u32,
    /// NAND page size in bytes: unit of reading and programming within a plane.
    pub page_bytes: u64,
    /// Pages per erase block.
    pub pages_per_block: u32,
    /// Erase blocks per plane.
    pub blocks_per_plane: u32,
    /// Dies per superblock; must divide the number of dies. A superblock, one block of
    /// each plane of these dies, is the unit of allocation, garbage collection and
    /// erasure.
    pub superblock_dies: u32,
    /// Bits per cell: 1 SLC, 2 MLC, 3 TLC, 4 QLC.
    pub bits_per_cell: u8,
}

impl Default for Geometry {
    /// 8 channels of 2 dies with 2 planes of 16 KiB pages, 128 GiB raw.
    fn default() -> Self {
        Self {
            channels: 8,
            dies_per_channel: 2,
            planes: 2,
            page_bytes: 16 << 10,
            pages_per_block: 256,
            blocks_per_plane: 1024,
            superblock_dies: 16,
            bits_per_cell: 3,
        }
    }
}

impl Geometry {
    /// Total number of dies.
    #[must_use]
    pub const fn dies(&self) -> u64 {
        self.channels as u64 * self.dies_per_channel as u64
    }

    /// Superblock size in bytes.
    #[must_use]
    pub const fn superblock_bytes(&self) -> u128 {
        self.superblock_dies as u128
            * self.planes as u128
            * self.pages_per_block as u128
            * self.page_bytes as u128
    }

    /// Total number of superblocks.
    #[must_use]
    pub const fn superblocks(&self) -> u64 {
        match self.superblock_dies {
            0 => 0,
            dies => self.blocks_per_plane as u64 * (self.dies() / dies as u64),
        }
    }

    /// Raw capacity in bytes.
    #[must_use]
    pub const fn raw_bytes(&self) -> u128 {
        self.superblocks() as u128 * self.superblock_bytes()
    }

    /// Sets `blocks_per_plane` to the smallest value that gives over-provisioning (T - U)
    /// / U of at least `over_provisioning_permille` for `capacity_bytes` of user space.
    #[must_use]
    pub fn with_over_provisioning(
        mut self,
        capacity_bytes: u64,
        over_provisioning_permille: u32,
    ) -> Self {
        let wanted =
            u128::from(capacity_bytes) * (1000 + u128::from(over_provisioning_permille)) / 1000;
        let layer = u128::from(self.dies())
            * u128::from(self.planes)
            * u128::from(self.pages_per_block)
            * u128::from(self.page_bytes);
        self.blocks_per_plane = u32::try_from(wanted.div_ceil(layer.max(1))).unwrap_or(u32::MAX);
        self
    }
}

/// True for the default of a mechanism that is off, which drive files omit.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(value: &u32) -> bool {
    *value == 0
}

/// Flash translation layer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Ftl {
    /// Bytes covered by one mapping entry. A partial write reads the rest of a mapped
    /// unit.
    pub mapping_unit_bytes: u64,
    /// Controller memory for mapping tables, in bytes at 4 bytes per entry. A lookup that
    /// misses reads a page of flash. `None` holds the whole mapping.
    pub mapping_cache_bytes: Option<u64>,
    /// Bytes of metadata and parity that the drive writes with 1000 bytes of data, host
    /// data or relocated. They lengthen every program and multiply WAF; the geometry
    /// excludes their space.
    #[serde(skip_serializing_if = "is_zero")]
    pub metadata_permille: u32,
    /// Separation of data streams.
    pub streams: Streams,
    /// Victim selection policy.
    pub victim: VictimPolicy,
    /// Garbage collection triggers.
    pub gc: GarbageCollection,
    /// Wear levelling and wear-out.
    pub wear: Wear,
}

impl Default for Ftl {
    fn default() -> Self {
        Self {
            mapping_unit_bytes: 4096,
            mapping_cache_bytes: None,
            metadata_permille: 0,
            streams: Streams::default(),
            victim: VictimPolicy::Greedy,
            gc: GarbageCollection::default(),
            wear: Wear::default(),
        }
    }
}

/// Streams that are written to separate superblocks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Streams {
    /// True if relocated data are kept apart from fresh data.
    pub separate_gc: bool,
}

impl Default for Streams {
    fn default() -> Self {
        Self { separate_gc: true }
    }
}

/// Victim selection policy of garbage collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VictimPolicy {
    /// The superblock with the fewest valid units.
    Greedy,
    /// The superblock with the highest (1 - u) age / (2 u) (Rosenblum and Ousterhout
    /// 1992).
    CostBenefit,
    /// The superblock written longest ago.
    Fifo,
    /// The superblock with the fewest valid units among this many drawn at random.
    DChoices(u32),
    /// A superblock drawn at random.
    Random,
}

/// Garbage collection triggers. Watermarks count free superblocks (erased, not open).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GarbageCollection {
    /// Foreground collection starts if a superblock is opened with fewer free. At least
    /// 2.
    pub free_low: u32,
    /// Foreground collection stops when this many are free. At least `free_low`.
    pub free_high: u32,
    /// Time that a die waits for data or for the controller, in per mille of the time of
    /// its relocation work. Internal work takes that much longer.
    #[serde(skip_serializing_if = "is_zero")]
    pub die_wait_permille: u32,
    /// Length in nanoseconds of a step of internal work on a die. A program of host data
    /// waits for the end of the step; reads do not. 0 lets programs start at any time.
    #[serde(skip_serializing_if = "is_zero")]
    pub step_ns: u32,
    /// Idle time before background collection starts; `None` disables it.
    pub idle_delay_ns: Option<u64>,
    /// Background collection stops when this many superblocks are free.
    pub idle_free: u32,
    /// Background collection skips superblocks with a larger share of valid units, in per
    /// mille.
    pub idle_valid_max_permille: u16,
}

impl Default for GarbageCollection {
    fn default() -> Self {
        Self {
            free_low: 2,
            free_high: 2,
            die_wait_permille: 0,
            step_ns: 0,
            idle_delay_ns: Some(1_000_000_000),
            idle_free: 4,
            idle_valid_max_permille: 900,
        }
    }
}

/// Wear levelling and wear-out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Wear {
    /// True to write the free superblock with the fewest erases next, false for the
    /// oldest.
    pub dynamic: bool,
    /// Static wear levelling: collects the least worn superblock, even if full of valid
    /// data, once the most worn one has this many more erases. `None` disables it.
    pub static_spread_max: Option<u32>,
    /// Erase cycles that a superblock survives; `None` is unlimited.
    pub erase_limit: Option<u32>,
    /// Half-width of the uniform spread of erase limits, in per mille of `erase_limit`.
    pub erase_limit_spread_permille: u16,
}

impl Default for Wear {
    fn default() -> Self {
        Self {
            dynamic: true,
            static_spread_max: None,
            erase_limit: None,
            erase_limit_spread_permille: 100,
        }
    }
}

/// Times of flash operations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NandTiming {
    /// Cell to page register, in nanoseconds.
    pub read_ns: u64,
    /// Page register to cells, all planes of a die at once, in nanoseconds.
    pub program_ns: u64,
    /// Block erase, all planes of a die at once, in nanoseconds.
    pub erase_ns: u64,
    /// Transfer rate of a channel in bytes per second.
    pub channel_bytes_per_s: u64,
    /// Delay in nanoseconds after which a read suspends a program or erase; `None` never
    /// does.
    pub suspend_ns: Option<u64>,
    /// Mean length in nanoseconds of a step of a program, erase or relocation; lengths have
    /// the exponential distribution. A read suspends it only at the end of a step, after
    /// `suspend_ns` more. 0 suspends at any time.
    #[serde(skip_serializing_if = "is_zero")]
    pub suspend_step_ns: u32,
    /// Read-ahead in bytes for sequential reads.
    pub read_ahead_bytes: u64,
    /// Spread between the slowest and the fastest page type, in per mille of `read_ns`,
    /// which is the mean. The bits of a cell lie in different pages that need different
    /// numbers of senses. SLC superblocks have only one page type.
    pub read_spread_permille: u16,
    /// Host reads per million that fail to decode at first and are retried.
    pub read_retries_per_million: u32,
    /// Additional time of a retry, in nanoseconds.
    pub read_retry_ns: u64,
}

impl Default for NandTiming {
    /// TLC flash.
    fn default() -> Self {
        Self {
            read_ns: 60_000,
            program_ns: 600_000,
            erase_ns: 5_000_000,
            channel_bytes_per_s: 800_000_000,
            suspend_ns: None,
            suspend_step_ns: 0,
            read_ahead_bytes: 512 << 10,
            read_spread_permille: 0,
            read_retries_per_million: 0,
            read_retry_ns: 0,
        }
    }
}

/// Write cache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WriteCache {
    /// Size in bytes; 0 means that a write completes when it has been programmed.
    pub bytes: u64,
    /// Newest bytes of an open superblock that the cache still merges: a write of one
    /// mapping unit whose previous version lies among them replaces it and does not reach
    /// the flash. 0 merges nothing.
    #[serde(skip_serializing_if = "is_zero")]
    pub merge_bytes: u32,
    /// True if capacitors write out the cache at a power cut.
    pub power_loss_protection: bool,
    /// Flush behaviour.
    pub flush: FlushBehaviour,
    /// Additional time of a flush (writing mapping tables), in nanoseconds.
    pub flush_ns: u64,
    /// Idle time before a partly filled page is programmed, in ns; `None` waits for a
    /// flush.
    pub idle_write_out_ns: Option<u64>,
}

impl Default for WriteCache {
    fn default() -> Self {
        Self {
            bytes: 8 << 20,
            merge_bytes: 0,
            power_loss_protection: false,
            flush: FlushBehaviour::WriteOut,
            flush_ns: 100_000,
            idle_write_out_ns: Some(1_000_000_000),
        }
    }
}

/// Flush behaviour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FlushBehaviour {
    /// Programs all buffered data, pads the last page and completes when done. With
    /// power-loss protection it completes at once because buffered data are safe.
    WriteOut,
    /// Completes at once without writing anything, which breaks durability.
    Ignored,
}

/// SLC cache: flash used at one bit per cell and folded into native blocks later.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlcCache {
    /// Cache size.
    pub size: SlcSize,
    /// Program time in SLC mode, in nanoseconds.
    pub program_ns: u64,
    /// Read time in SLC mode, in nanoseconds.
    pub read_ns: u64,
    /// Handling of writes when the cache is full.
    pub when_full: SlcFull,
    /// Idle time before folding starts, in nanoseconds; `None` folds only when the cache
    /// is full.
    pub idle_fold_ns: Option<u64>,
}

/// SLC cache size, in bytes of data that it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SlcSize {
    /// Constant size.
    Fixed {
        /// Bytes.
        bytes: u64,
    },
    /// Size limited by unmapped space; SLC blocks occupy `bits_per_cell` times their
    /// data.
    Dynamic {
        /// Lower limit in bytes.
        bytes_min: u64,
        /// Upper limit in bytes.
        bytes_max: u64,
    },
}

/// Handling of writes when the SLC cache is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SlcFull {
    /// Writes go directly to native blocks.
    WriteDirect,
    /// Each write waits until an SLC block has been folded.
    FoldFirst,
}

/// Thermal model. Temperatures are in thousandths of a degree Celsius.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Thermal {
    /// Ambient temperature, which the idle drive cools down to.
    pub ambient_mc: i32,
    /// Temperature rise per GB (10^9 bytes) that crosses the flash, before cooling.
    pub rise_mc_per_gb: u32,
    /// Cooling time constant in nanoseconds: the excess over ambient falls to 1/e.
    pub cooling_ns: u64,
    /// Temperature at which throttling starts.
    pub throttle_mc: i32,
    /// Temperature at which throttling ends.
    pub resume_mc: i32,
    /// Flash speed while throttled, in per mille.
    pub throttled_permille: u16,
}

impl Thermal {
    /// Equilibrium temperature under continued load, in thousandths of a degree,
    /// extrapolated from a change from `from_mc` to `to_mc` in `took_ns` by Newton's law
    /// of cooling. Returns `None` if no time passed.
    #[must_use]
    pub fn heads_for_mc(&self, from_mc: i32, to_mc: i32, took_ns: u64) -> Option<f64> {
        let left = libm::exp(-(took_ns as f64) / self.cooling_ns as f64);
        (left < 1.0).then(|| (f64::from(to_mc) - f64::from(from_mc) * left) / (1.0 - left))
    }
}

/// Endurance throttling: writing to flash consumes a credit, time restores it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LifeThrottle {
    /// Full credit in bytes: initial value and upper limit.
    pub credit_bytes: u64,
    /// Credit earned per second, in bytes, regardless of load.
    pub earned_bytes_per_s: u64,
    /// Program speed in per mille from an exhausted credit until it is full again.
    pub throttled_permille: u16,
}

/// Compression in the controller: a unit occupies the incompressible share of its size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Compression {
    /// Minimum share that a unit occupies, in per mille (headers, error correction).
    pub stored_permille_min: u16,
    /// Stored sizes are rounded up to a multiple of this.
    pub granularity_bytes: u32,
    /// Input rate of the compression engine in bytes per second; 0 is unlimited.
    pub engine_bytes_per_s: u64,
}

/// TRIM behaviour.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Trim {
    /// True if the drive accepts TRIM.
    pub supported: bool,
    /// True if TRIM may overlap other commands. Otherwise it waits for all earlier
    /// commands, and all later commands wait for it.
    pub queued: bool,
    /// Maximum ranges per command.
    pub ranges_per_command_max: u32,
    /// Maximum bytes per range.
    pub range_bytes_max: u64,
    /// Time per command, in nanoseconds.
    pub command_ns: u64,
    /// Time per range, in nanoseconds.
    pub range_ns: u64,
    /// Time per mapped unit invalidated, in nanoseconds.
    pub unit_ns: u64,
    /// Time per GB (10^9 bytes) covered, mapped or not, in nanoseconds.
    pub gb_ns: u64,
    /// Minimum effective range in bytes; shorter ranges are ignored.
    pub bytes_min: u64,
    /// Only multiples of this many bytes, aligned to it, take effect (at least the
    /// mapping unit).
    pub alignment_bytes: u64,
    /// Content returned by reads of trimmed space.
    pub reads: TrimmedReads,
}

impl Default for Trim {
    fn default() -> Self {
        Self {
            supported: true,
            queued: false,
            ranges_per_command_max: 64,
            range_bytes_max: 65_535 * 512,
            command_ns: 100_000,
            range_ns: 2_000,
            unit_ns: 10,
            gb_ns: 1_000_000,
            bytes_min: 0,
            alignment_bytes: 0,
            reads: TrimmedReads::Zeros,
        }
    }
}

impl Trim {
    /// Time of a TRIM of ranges with these lengths in bytes that unmaps `units`, in
    /// nanoseconds. A range longer than the drive's maximum counts as several ranges, and
    /// these as several commands if there are too many for one.
    pub fn took_ns(&self, ranges: impl IntoIterator<Item = u64>, units: u64) -> u64 {
        let (mut pieces, mut bytes) = (0_u64, 0_u64);
        for range in ranges {
            pieces += range.div_ceil(self.range_bytes_max).max(1);
            bytes = bytes.saturating_add(range);
        }
        let commands = pieces.div_ceil(u64::from(self.ranges_per_command_max)).max(1);
        let parts = [(commands, self.command_ns), (pieces, self.range_ns), (units, self.unit_ns)];
        let counted: u128 =
            parts.into_iter().map(|(count, ns)| u128::from(count) * u128::from(ns)).sum();
        let per_gb = u128::from(bytes) * u128::from(self.gb_ns) / 1_000_000_000;
        u64::try_from(counted + per_gb).unwrap_or(u64::MAX)
    }
}

/// Content returned by reads of trimmed space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TrimmedReads {
    /// Zeros, at once (deterministic, RZAT).
    Zeros,
    /// Bytes of 0xFF, at once (deterministic, DRAT without RZAT).
    Ones,
    /// Old data until overwritten (not deterministic: a real drive may drop them at any
    /// time).
    OldData,
}
