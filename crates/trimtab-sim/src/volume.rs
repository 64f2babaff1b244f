//! An ext4-like filesystem on a modelled drive, in virtual time. Detailed enough that
//! file operations produce ext4's block traffic, and no more.
//!
//! Modelled: block groups and bitmaps, the allocator with goals and preallocations, inode
//! tables, directories, extents with delayed allocation, the page cache with writeback,
//! the journal with commits and checkpoints, a block layer with plugs and a limited
//! queue, two kinds of online discard, FITRIM. Not modelled: contents, permissions,
//! links, holes, truncation, metadata reads (all metadata are in memory), quotas, errors.
//!
//! Foreground operations run one after another; each takes its processor time plus its
//! waits. The flusher, the journal, the online discard worker and a running FITRIM are
//! events on the same clock. Before the foreground continues, all earlier events have
//! happened in order.

mod alloc;
mod commit;
mod engine;
mod file_blocks;
mod freed;
mod group;
mod inodes;
mod journal;
mod layout;
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
pub use layout::VolumeLayout;
pub use queue::{Foreground, Traffic};
pub use setup::Age;
pub use spec::{
    Atime, BLOCK, BlockLayer, Discard, HostCost, JournalSpec, Mkfs, VolumeSpec, Writeback,
};
pub use steered::{SteeredVolume, TrimLog, WRITTEN_STEP};
pub use trim::TrimRun;

use self::alloc::Allocator;
use self::commit::Commit;
use self::freed::MergeRule;
use self::group::GROUP_BLOCKS;
use self::inodes::Inodes;
use self::journal::Journal;
use self::node::Node;
use self::queue::{BlockQueue, Ticket};
use self::trim::{ActiveTrim, OnlineDiscards};
use ::alloc::collections::VecDeque;
use ::alloc::string::String;
use ::alloc::vec::Vec;
use hashbrown::HashTable;
use trimtab_drive::units::{Bytes, Nanos};
use trimtab_drive::{Device, Extent};

/// Reason why a volume cannot be created.
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

/// Activity of a volume, in whole blocks.
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
    /// Times that a full journal forced metadata to be written in place.
    pub checkpoints: u64,
    /// Bytes freed by deletion.
    pub freed: Bytes,
    /// Times that the foreground waited because of dirty data.
    pub throttled: u64,
}

/// A filesystem on a drive.
#[derive(Clone, Debug)]
pub struct Volume<D: ?Sized> {
    spec: VolumeSpec,
    layout: VolumeLayout,
    /// First byte on the drive.
    start: u64,
    now: Nanos,

    space: Allocator,
    inodes: Inodes,
    nodes: Vec<Node>,
    spare_nodes: Vec<u32>,
    generations: u32,
    names: HashTable<u32>,
    /// Directory of the last lookup: consecutive files often share it.
    last_dir: (String, u32),
    /// Unused blocks as in `statfs`, including those waiting for a commit.
    free_blocks: u64,
    /// Blocks needed by dirty files.
    reserved: u64,
    /// Runs allocated by `age`.
    ballast: Vec<(u32, u32)>,

    journal: Journal,
    commit: Option<Commit>,
    /// The last durable transaction.
    durable: u64,
    merging: MergeRule,
    /// A checkpoint in progress; the journal's superblock records its end.
    checkpoint: Option<Ticket>,

    /// Dirty files and when they became dirty, oldest first. Entries may be stale.
    dirty: VecDeque<(u32, u32, Nanos)>,
    dirty_blocks: u64,
    flushing: Option<Flushing>,
    /// The flusher waits for a commit, a checkpoint or a discard.
    flusher_held: bool,
    /// Files being written, with the inode blocks to change afterwards.
    batches: VecDeque<Batch>,
    batches_begun: u64,
    /// The last batch accepts more files.
    batch_open: bool,
    /// Inode blocks to change after their contents were written; waiting for journal
    /// space.
    conversions: VecDeque<u32>,
    /// File blocks in the page cache, and a use counter for their order.
    cached_blocks: u64,
    uses: u64,
    cache_order: VecDeque<(u32, u32, u64)>,

    discards: OnlineDiscards,
    trimming: Option<ActiveTrim>,
    trimmed: Option<TrimRun>,
    /// A trim with a smaller minimum extent than the last since mount ignores earlier
    /// marks.
    last_min_extent: u32,

    counters: Counters,

    /// Last, so that a volume on any drive is one type.
    queue: BlockQueue<D>,
}

/// Reason for waking the flusher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flushing {
    /// Write data dirtied at this instant or before.
    Expired(Nanos),
    /// Write until the background limit is met.
    Background,
}

/// Files being written.
#[derive(Clone, Debug)]
struct Batch {
    number: u64,
    ticket: Ticket,
    /// Unique generations of the files, and their inode blocks.
    files: Vec<(u32, u32)>,
}

impl<D: Device> Volume<D> {
    /// The volume on any drive. Its methods are compiled once, in this crate.
    pub(crate) fn on_any(&mut self) -> &mut Volume<dyn Device + '_> {
        self
    }
}

impl<D: Device + ?Sized> Volume<D> {
    /// The drive.
    pub const fn drive(&self) -> &D {
        &self.queue.drive
    }

    /// The drive, for counters or for changing its state between phases.
    pub const fn drive_mut(&mut self) -> &mut D {
        &mut self.queue.drive
    }

    /// Specification of the volume.
    pub const fn spec(&self) -> &VolumeSpec {
        &self.spec
    }

    /// Layout of the metadata.
    pub const fn layout(&self) -> &VolumeLayout {
        &self.layout
    }

    /// Activity so far.
    #[must_use]
    pub const fn counters(&self) -> Counters {
        let mut counters = self.counters;
        counters.traffic = self.queue.traffic;
        counters
    }

    /// Size of the volume.
    #[must_use]
    pub fn size(&self) -> Bytes {
        Bytes(u64::from(self.layout.blocks) * BLOCK)
    }

    /// Free space, excluding the needs of dirty files.
    #[must_use]
    pub fn free_space(&self) -> Bytes {
        Bytes((self.free_blocks - self.reserved) * BLOCK)
    }

    /// Extents in use by files, metadata or a pending transaction; ascending, at most one
    /// block group long.
    pub fn needed(&self) -> impl Iterator<Item = Extent> {
        let group_bytes = u64::from(GROUP_BLOCKS) * BLOCK;
        (self.start..).step_by(group_bytes as usize).zip(&self.space.groups).flat_map(
            |(start, group)| {
                group.used_runs().map(move |(at, len)| Extent {
                    offset: start + u64::from(at) * BLOCK,
                    len: u64::from(len) * BLOCK,
                })
            },
        )
    }

    /// Foreground I/O as seen by a policy. Resets the longest wait.
    pub fn foreground(&mut self) -> Foreground {
        self.queue.foreground(self.now)
    }

    /// Bytes written including journal and metadata, as in `lifetime_write_kbytes`.
    #[must_use]
    pub const fn written(&self) -> Bytes {
        self.queue.traffic.writes.bytes
    }
}
