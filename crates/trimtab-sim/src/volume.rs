//! An ext4-like filesystem on a modelled drive, in virtual time: deep enough that file operations become the block traffic that ext4 would make
//! of them, and no deeper.
//!
//! What is there: block groups and bitmaps, the allocator with its goals and preallocations, inode tables and directories, extents with
//! delayed allocation, the page cache with writeback, the journal with its commits and checkpoints, a block layer with plugs and a limited
//! queue, online discard in two behaviours, FITRIM. What is not: contents, permissions, links, holes, truncation, reading metadata
//! (all of them are in memory), quotas, errors.
//!
//! Time. Operations are executed one after another, in the foreground. Each takes its processor time and whatever it has to wait for. The
//! others run beside it, as events on the same clock: the flusher, the journal, the worker for online discards, a running FITRIM. Before
//! the foreground goes on, all events up to that instant have happened, in order.

mod alloc;
mod commit;
mod engine;
mod file_blocks;
mod freed;
mod group;
mod inodes;
mod journal;
mod layout;
mod names;
mod node;
mod ops;
mod queue;
mod search_tree;
mod setup;
mod spec;
mod steered;
mod target;
#[cfg(test)]
mod tests;
mod trim;
mod writeback;

pub use file_blocks::FileBlocks;
pub use layout::Layout;
pub use queue::{Foreground, Traffic};
pub use setup::Age;
pub use spec::{Atime, BLOCK, BlockLayer, Discard, HostCost, JournalSpec, Mkfs, VolumeSpec, Writeback};
pub use steered::{Span, Steered, TrimLog, WRITTEN_STEP};
pub use trim::TrimRun;

use self::alloc::Allocator;
use self::commit::Commit;
use self::freed::Merging;
use self::group::GROUP_BLOCKS;
use self::inodes::Inodes;
use self::journal::Journal;
use self::names::Names;
use self::node::Node;
use self::queue::{Queue, Ticket};
use self::trim::{OnlineDiscards, Trimming};
use ::alloc::collections::VecDeque;
use ::alloc::string::String;
use ::alloc::vec::Vec;
use trimtab_drive::units::{Bytes, Nanos};
use trimtab_drive::{Device, Extent};

/// Why a volume cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct VolumeError {
    message: String,
}

impl VolumeError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }
}

/// What a volume has done. Bytes are those of whole blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Requests to the drive.
    pub traffic: Traffic,
    /// File contents written.
    pub data_written: Bytes,
    /// Journal written.
    pub journal_written: Bytes,
    /// Metadata written in place.
    pub metadata_written: Bytes,
    /// Transactions committed.
    pub commits: u64,
    /// Times that the journal was so full that blocks had to be written in place to make room.
    pub checkpoints: u64,
    /// Freed by deleting.
    pub freed: Bytes,
    /// Times that the foreground waited because too much was dirty.
    pub throttled: u64,
}

/// A filesystem on a drive.
#[derive(Clone, Debug)]
pub struct Volume<D> {
    spec: VolumeSpec,
    layout: Layout,
    /// First byte on the drive.
    start: u64,
    queue: Queue<D>,
    now: Nanos,

    space: Allocator,
    inodes: Inodes,
    nodes: Vec<Node>,
    spare_nodes: Vec<u32>,
    generations: u32,
    names: Names,
    /// The directory that was looked up last: files come in droves.
    last_dir: (String, u32),
    /// Blocks that nobody has, as `statfs` counts them: those that wait for a commit are among them.
    free_blocks: u64,
    /// Blocks that dirty files will need.
    reserved: u64,
    /// Runs that `age` has put into use.
    ballast: Vec<(u32, u32)>,

    journal: Journal,
    commit: Option<Commit>,
    /// The last transaction that is durable.
    durable: u64,
    merging: Merging,
    /// Blocks are being written in place to make room in the journal; then the journal's superblock says so.
    checkpoint: Option<Ticket>,

    /// Dirty files with when they became dirty, the oldest first. Entries may be out of date.
    dirty: VecDeque<(u32, u32, Nanos)>,
    dirty_blocks: u64,
    flushing: Option<Flushing>,
    /// The flusher waits until a commit, a checkpoint or a discard has ended.
    flusher_held: bool,
    /// Files whose contents are being written, with the inode blocks to change when they are.
    batches: VecDeque<Batch>,
    batches_begun: u64,
    /// The last batch takes more files.
    batch_open: bool,
    /// Inode blocks that change because contents are on the drive, and wait for room in the journal.
    conversions: VecDeque<u32>,
    /// Blocks of files in the page cache, and when each was used last, by a count.
    cached_blocks: u64,
    uses: u64,
    cache_order: VecDeque<(u32, u32, u64)>,

    discards: OnlineDiscards,
    trimming: Option<Trimming>,
    trimmed: Option<TrimRun>,
    /// Trims with another minimum since mount do not believe what an earlier one has marked.
    last_min_extent: u32,

    counters: Counters,
}

/// What the flusher has been woken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flushing {
    /// What became dirty at this instant or before.
    Expired(Nanos),
    /// Until less is dirty than the background limit.
    Background,
}

/// Files that are being written.
#[derive(Clone, Debug)]
struct Batch {
    number: u64,
    ticket: Ticket,
    /// Generations of the files, which no other file ever has, and the blocks of their inodes.
    files: Vec<(u32, u32)>,
}

impl<D: Device> Volume<D> {
    /// The drive.
    pub const fn drive(&self) -> &D {
        &self.queue.drive
    }

    /// The drive, to look at its counters or to change its state between phases.
    pub const fn drive_mut(&mut self) -> &mut D {
        &mut self.queue.drive
    }

    /// What the volume is.
    pub const fn spec(&self) -> &VolumeSpec {
        &self.spec
    }

    /// Where its metadata are.
    pub const fn layout(&self) -> &Layout {
        &self.layout
    }

    /// What it has done.
    #[must_use]
    pub const fn counters(&self) -> Counters {
        let mut counters = self.counters;
        counters.traffic = self.queue.traffic;
        counters
    }

    /// Its size.
    #[must_use]
    pub fn size(&self) -> Bytes {
        Bytes(u64::from(self.layout.blocks) * BLOCK)
    }

    /// Free space, that of dirty files not among it.
    #[must_use]
    pub fn free_space(&self) -> Bytes {
        Bytes((self.free_blocks - self.reserved) * BLOCK)
    }

    /// Whether any block of these bytes of the drive is in use: by files, metadata, or what waits for a transaction.
    #[must_use]
    pub fn needs(&self, bytes: Extent) -> bool {
        let first = bytes.offset.max(self.start) - self.start;
        let end = (bytes.offset + bytes.len).saturating_sub(self.start);
        let blocks = first / BLOCK..end.div_ceil(BLOCK).min(u64::from(self.layout.blocks));
        let group_blocks = u64::from(GROUP_BLOCKS);
        blocks.into_iter().any(|block| !self.space.groups[(block / group_blocks) as usize].is_free((block % group_blocks) as u32))
    }

    /// What others than trims do to the drive, for a policy. The longest wait is asked for once.
    pub fn foreground(&mut self) -> Foreground {
        self.queue.foreground(self.now)
    }

    /// Bytes written by the filesystem, its journal and metadata included: what `lifetime_write_kbytes` counts.
    #[must_use]
    pub const fn written(&self) -> Bytes {
        self.queue.traffic.writes.bytes
    }
}
