//! The parts of an SSD.

use serde::{Deserialize, Serialize};

/// An SSD.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Flash {
    /// How the flash is arranged.
    pub geometry: Geometry,
    /// The translation layer.
    pub ftl: Ftl,
    /// What flash operations take.
    pub nand: NandTiming,
    /// The buffer for writes.
    pub write_cache: WriteCache,
    /// Part of the flash used with one bit a cell.
    pub slc_cache: Option<SlcCache>,
    /// Heat and throttling; `None` never throttles.
    pub thermal: Option<Thermal>,
    /// Throttling of writes for the sake of the flash's life; `None` never throttles.
    pub life_throttle: Option<LifeThrottle>,
    /// Compression in the controller; `None` stores everything at its size.
    pub compression: Option<Compression>,
    /// TRIM.
    pub trim: Trim,
    /// Secure erase and format.
    pub erase: EraseCommands,
}

/// How the flash is arranged. Raw capacity is the product of all its parts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Geometry {
    /// Channels, each with a bus of its own.
    pub channels: u32,
    /// Dies on each channel; each works by itself.
    pub dies_per_channel: u32,
    /// Planes of a die, programmed and erased together.
    pub planes: u32,
    /// NAND page in bytes: what is programmed and read at once in a plane.
    pub page_bytes: u64,
    /// Pages of an erase block.
    pub pages_per_block: u32,
    /// Erase blocks of a plane.
    pub blocks_per_plane: u32,
    /// Dies over which a superblock stretches: the unit of allocation, garbage collection and erasure is one block of each
    /// plane of that many dies. Divides the number of dies.
    pub superblock_dies: u32,
    /// Bits a cell stores: 1 SLC, 2 MLC, 3 TLC, 4 QLC.
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
    /// Dies in all.
    #[must_use]
    pub const fn dies(&self) -> u64 {
        self.channels as u64 * self.dies_per_channel as u64
    }

    /// Bytes of a superblock.
    #[must_use]
    pub const fn superblock_bytes(&self) -> u128 {
        self.superblock_dies as u128 * self.planes as u128 * self.pages_per_block as u128 * self.page_bytes as u128
    }

    /// Superblocks in all.
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

    /// Sets the blocks per plane to the fewest that give over-provisioning (T - U) / U of at least `over_provisioning_permille` for
    /// `capacity_bytes` of user space.
    #[must_use]
    pub fn with_over_provisioning(mut self, capacity_bytes: u64, over_provisioning_permille: u32) -> Self {
        let wanted = u128::from(capacity_bytes) * (1000 + u128::from(over_provisioning_permille)) / 1000;
        let layer = u128::from(self.dies()) * u128::from(self.planes) * u128::from(self.pages_per_block) * u128::from(self.page_bytes);
        self.blocks_per_plane = u32::try_from(wanted.div_ceil(layer.max(1))).unwrap_or(u32::MAX);
        self
    }
}

/// The translation layer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Ftl {
    /// Bytes that one entry of the mapping covers. A write that covers only part of a mapped unit first reads the rest.
    pub mapping_unit_bytes: u64,
    /// Mapping tables that fit in the controller's memory, in bytes at 4 bytes an entry; a lookup beyond them reads a page of flash.
    /// `None` holds all.
    pub mapping_cache_bytes: Option<u64>,
    /// Which data are written apart.
    pub streams: Streams,
    /// Which superblock is collected next.
    pub victim: VictimPolicy,
    /// When garbage is collected.
    pub gc: GarbageCollection,
    /// Wear levelling and wear-out.
    pub wear: Wear,
}

impl Default for Ftl {
    fn default() -> Self {
        Self {
            mapping_unit_bytes: 4096,
            mapping_cache_bytes: None,
            streams: Streams::default(),
            victim: VictimPolicy::Greedy,
            gc: GarbageCollection::default(),
            wear: Wear::default(),
        }
    }
}

/// Which data are written to superblocks of their own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Streams {
    /// Relocated data are kept apart from fresh data.
    pub separate_gc: bool,
    /// Fresh data that are soon overwritten are kept apart from the rest.
    pub hot_cold: Option<HotCold>,
}

impl Default for Streams {
    fn default() -> Self {
        Self { separate_gc: true, hot_cold: None }
    }
}

/// What counts as hot: a unit whose previous version is young when it is overwritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HotCold {
    /// Age below which the old version counts as young, in per mille of the user capacity written since then.
    pub hot_age_permille: u32,
}

/// Which superblock is collected next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VictimPolicy {
    /// The one with the fewest valid units.
    Greedy,
    /// The one with the highest (1 - u) age / (2 u) (Rosenblum and Ousterhout 1992).
    CostBenefit,
    /// The one written longest ago.
    Fifo,
    /// The one with the fewest valid units among this many drawn at random.
    DChoices(u32),
    /// One drawn at random.
    Random,
}

/// When garbage is collected. Watermarks count free superblocks (erased, not open for writing).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GarbageCollection {
    /// Foreground collection starts when a superblock is opened and fewer than this many are free. At least 2.
    pub free_low: u32,
    /// It goes on until this many are free. At least `free_low`.
    pub free_high: u32,
    /// How the time of foreground collection falls on host writes.
    pub pacing: GcPacing,
    /// Idle time after which collection in the background starts; `None` never does.
    pub idle_delay_ns: Option<u64>,
    /// Background collection goes on until this many superblocks are free.
    pub idle_free: u32,
    /// Background collection leaves superblocks alone that hold more valid units than this share, in per mille.
    pub idle_valid_max_permille: u16,
}

impl Default for GarbageCollection {
    fn default() -> Self {
        Self {
            free_low: 2,
            free_high: 2,
            pacing: GcPacing::Smooth,
            idle_delay_ns: Some(1_000_000_000),
            idle_free: 4,
            idle_valid_max_permille: 900,
        }
    }
}

/// How the time of foreground collection falls on host writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GcPacing {
    /// Each program of host data carries its share: even service.
    Smooth,
    /// All at once when the superblock is collected: long stalls.
    Burst,
}

/// Wear levelling and wear-out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Wear {
    /// The free superblock with the fewest erases is written next (else the one freed longest ago).
    pub dynamic: bool,
    /// The least worn superblock is collected, whatever it holds, once the most worn has been erased this many times more.
    pub static_spread_max: Option<u32>,
    /// Erases that a superblock survives; `None` is without limit.
    pub erase_limit: Option<u32>,
    /// Each superblock's own limit lies evenly within this share of `erase_limit` above or below, in per mille.
    pub erase_limit_spread_permille: u16,
}

impl Default for Wear {
    fn default() -> Self {
        Self { dynamic: true, static_spread_max: None, erase_limit: None, erase_limit_spread_permille: 100 }
    }
}

/// Which read uses a channel first, of those whose data cross it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChannelOrder {
    /// A page that is in its die's register need not wait for a page that is not. Of those that are, the earliest submitted goes first.
    #[default]
    Ready,
    /// The order of submission: a page waits for all that were asked for before it, even while the channel is idle.
    Submission,
}

impl ChannelOrder {
    /// Whether it is the order of drives whose file names none.
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// What flash operations take.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NandTiming {
    /// From cell to page register.
    pub read_ns: u64,
    /// From page register to cells, all planes of a die at once.
    pub program_ns: u64,
    /// Erasure of a block, all planes of a die at once.
    pub erase_ns: u64,
    /// Bytes per second on a channel.
    pub channel_bytes_per_s: u64,
    /// Which read uses a channel first.
    #[serde(skip_serializing_if = "ChannelOrder::is_default")]
    pub channel_order: ChannelOrder,
    /// Time after which a read interrupts a program or an erase under way; `None` waits for its end.
    pub suspend_ns: Option<u64>,
    /// Relocated pages stay in their die (copy-back) and do not cross the channel.
    pub copyback: bool,
    /// Bytes that are read ahead once reads are sequential.
    pub read_ahead_bytes: u64,
    /// How much faster the fastest kind of page is read than the slowest, as a share of `read_ns`, in per mille: the bits of a cell lie in different pages,
    /// which need different numbers of senses. `read_ns` is the mean. One-bit superblocks have one kind.
    pub read_spread_permille: u16,
    /// Reads of the host in a million that fail to decode at first and are tried again.
    pub read_retries_per_million: u32,
    /// Time that this takes besides.
    pub read_retry_ns: u64,
}

impl Default for NandTiming {
    /// A TLC part.
    fn default() -> Self {
        Self {
            read_ns: 60_000,
            program_ns: 600_000,
            erase_ns: 5_000_000,
            channel_bytes_per_s: 800_000_000,
            channel_order: ChannelOrder::Ready,
            suspend_ns: None,
            copyback: false,
            read_ahead_bytes: 512 << 10,
            read_spread_permille: 0,
            read_retries_per_million: 0,
            read_retry_ns: 0,
        }
    }
}

/// The buffer for writes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WriteCache {
    /// Size; 0 means that a write completes when it has been programmed.
    pub bytes: u64,
    /// Capacitors write it out at a power cut.
    pub power_loss_protection: bool,
    /// What a flush does.
    pub flush: FlushBehaviour,
    /// Time that a flush takes besides (writing of mapping tables), in nanoseconds.
    pub flush_ns: u64,
    /// Idle time after which a partly filled page is programmed; `None` waits for a flush.
    pub idle_write_out_ns: Option<u64>,
}

impl Default for WriteCache {
    fn default() -> Self {
        Self {
            bytes: 8 << 20,
            power_loss_protection: false,
            flush: FlushBehaviour::WriteOut,
            flush_ns: 100_000,
            idle_write_out_ns: Some(1_000_000_000),
        }
    }
}

/// What a flush does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FlushBehaviour {
    /// Programs everything buffered, the last page padded, and completes when that is done. With power-loss protection it
    /// completes at once, since what is buffered is safe.
    WriteOut,
    /// Completes at once and does nothing: the drive lies.
    Ignored,
}

/// Part of the flash used with one bit a cell: fast, and moved to native blocks later.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlcCache {
    /// How large.
    pub size: SlcSize,
    /// Program in one-bit mode.
    pub program_ns: u64,
    /// Read in one-bit mode.
    pub read_ns: u64,
    /// What happens to writes when it is full.
    pub when_full: SlcFull,
    /// Idle time after which it is moved to native blocks; `None` only when full.
    pub idle_fold_ns: Option<u64>,
}

/// How large an SLC cache is, in bytes of data that it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SlcSize {
    /// Always this much.
    Fixed {
        /// Bytes.
        bytes: u64,
    },
    /// As much as unmapped space allows, one-bit blocks taking `bits_per_cell` times their data.
    Dynamic {
        /// Never less.
        bytes_min: u64,
        /// Never more.
        bytes_max: u64,
    },
}

/// What happens to writes when the SLC cache is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SlcFull {
    /// They go to native blocks directly.
    WriteDirect,
    /// Each waits until an SLC block has been moved.
    FoldFirst,
}

/// Heat and throttling. Temperatures in thousandths of a degree Celsius.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Thermal {
    /// Temperature without work.
    pub ambient_mc: i32,
    /// Rise per GB (10^9 bytes) that crosses the flash, before cooling.
    pub rise_mc_per_gb: u32,
    /// Time in which the excess over ambient falls to 1/e.
    pub cooling_ns: u64,
    /// Throttling begins here.
    pub throttle_mc: i32,
    /// And ends here.
    pub resume_mc: i32,
    /// Speed of the flash while throttled, in per mille.
    pub throttled_permille: u16,
}

impl Thermal {
    /// The temperature that a drive ends at which went from `from_mc` to `to_mc` in `took_ns` and goes on like that, in thousandths of a degree: the excess over
    /// it falls to 1/e in `cooling_ns` (Newton's law of cooling). `None` if no time passed.
    #[must_use]
    pub fn heads_for_mc(&self, from_mc: i32, to_mc: i32, took_ns: u64) -> Option<f64> {
        let left = libm::exp(-(took_ns as f64) / self.cooling_ns as f64);
        (left < 1.0).then(|| (f64::from(to_mc) - f64::from(from_mc) * left) / (1.0 - left))
    }
}

/// Throttling of writes for the sake of the flash's life: a new drive has a credit, writing to the flash uses it up, time earns it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LifeThrottle {
    /// Bytes that may be written to the flash at full speed by a new drive, and after a secure erase. The credit is never more.
    pub credit_bytes: u64,
    /// What is earned back in every second, whether anything is written or not.
    pub earned_bytes_per_s: u64,
    /// Speed of programming from when the credit is used up until it is whole again, in per mille.
    pub throttled_permille: u16,
}

/// Compression in the controller: a unit occupies the share of its size that its data class keeps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Compression {
    /// Least share that a unit occupies, in per mille (headers, error correction).
    pub stored_permille_min: u16,
    /// Stored sizes are rounded up to a multiple of this.
    pub granularity_bytes: u32,
    /// Rate at which the engine takes data in, whatever its class; 0 is without limit.
    pub engine_bytes_per_s: u64,
}

/// TRIM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Trim {
    /// Accepted at all.
    pub supported: bool,
    /// May run beside other commands. If not, it waits for all before it, and all after it wait for it.
    pub queued: bool,
    /// Ranges in one command.
    pub ranges_per_command_max: u32,
    /// Bytes in one range.
    pub range_bytes_max: u64,
    /// Time per command.
    pub command_ns: u64,
    /// Time per range.
    pub range_ns: u64,
    /// Time per mapped unit that is invalidated.
    pub unit_ns: u64,
    /// Time per GB (10^9 bytes) covered, mapped or not.
    pub gb_ns: u64,
    /// Ranges shorter than this have no effect.
    pub bytes_min: u64,
    /// Only whole multiples of this, aligned to it, take effect (at least the mapping unit).
    pub alignment_bytes: u64,
    /// When the mapping is dropped.
    pub invalidation: TrimInvalidation,
    /// A TRIM starts a round of background collection.
    pub starts_gc: bool,
    /// What reads of trimmed space return.
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
            invalidation: TrimInvalidation::Immediate,
            starts_gc: false,
            reads: TrimmedReads::Zeros,
        }
    }
}

/// When a TRIM drops the mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TrimInvalidation {
    /// Within the command.
    Immediate,
    /// In idle time, or once more than this many ranges wait. `unit_ns` is charged then.
    Deferred {
        /// Ranges that may wait.
        ranges_max: u32,
    },
}

/// What reads of trimmed space return.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TrimmedReads {
    /// Zeros, at once (deterministic, RZAT).
    Zeros,
    /// Bytes of 0xFF, at once (deterministic, DRAT without RZAT).
    Ones,
    /// The old data, until something else is written there (not deterministic: a real drive of this kind stops at some time of its own).
    OldData,
}

/// Secure erase and format.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EraseCommands {
    /// Time besides that of erasing every block, in nanoseconds.
    pub secure_erase_ns: u64,
    /// Time of a format that only drops the mapping, in nanoseconds.
    pub format_ns: u64,
}

impl Default for EraseCommands {
    fn default() -> Self {
        Self { secure_erase_ns: 1_000_000_000, format_ns: 500_000_000 }
    }
}
