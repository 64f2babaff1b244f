//! Creating, mounting and ageing a volume.

use super::alloc::{Allocator, split_by_group};
use super::freed::MergeRule;
use super::inodes::Inodes;
use super::journal::Journal;
use super::layout::VolumeLayout;
use super::node::{Dir, Node, ROOT};
use super::queue::{BlockQueue, Urgency};
use super::spec::{BLOCK, Discard, VolumeSpec};
use super::trim::OnlineDiscards;
use super::{Counters, Volume, VolumeError};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;
use hashbrown::HashTable;
use trimtab_drive::data::DataClass;
use trimtab_drive::rng::Stream;
use trimtab_drive::units::{Bytes, Nanos};
use trimtab_drive::{Device, Extent};

/// Parameters of [`Volume::age`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Age {
    /// Share of the volume in use, including metadata.
    pub fill: f64,
    /// Mean of the exponential free extent lengths; 0 keeps them as large as possible.
    pub free_extent: Bytes,
    /// Data class of the contents.
    pub class: DataClass,
    /// Write the contents so that the drive maps them. Takes virtual time.
    pub write: bool,
    /// Seed.
    pub seed: u64,
}

impl<D: Device> Volume<D> {
    /// Creates a filesystem on `drive` like `mkfs` and mounts it. The clock starts at
    /// `now`.
    pub fn format(drive: D, spec: VolumeSpec, now: Nanos) -> Result<Self, VolumeError> {
        let room = drive.size().0.checked_sub(spec.start.0);
        let room = room.ok_or_else(|| {
            VolumeError::new(format!("the volume starts at {}, past the drive's end", spec.start.0))
        })?;
        let size = spec.size.map_or(room, |size| size.0);
        if size > room {
            return Err(VolumeError::new(format!(
                "a volume of {size} bytes from byte {} does not fit on {}",
                spec.start.0,
                drive.size().0
            )));
        }
        let sector = u64::from(drive.logical_block());
        if sector == 0 || !spec.start.0.is_multiple_of(sector) || !BLOCK.is_multiple_of(sector) {
            let start = spec.start.0;
            return Err(VolumeError::new(format!(
                "a volume at byte {start} is not aligned to the drive's blocks of {sector} bytes"
            )));
        }
        let layout = VolumeLayout::new(&spec, size)?;
        let merging =
            if spec.journal.converts_after_write { MergeRule::SearchPath } else { MergeRule::Full };
        let journal = Journal::new(
            layout.journal,
            layout.journal_blocks,
            layout.blocks,
            spec.journal.tags_per_descriptor.max(1),
            spec.journal.transaction_blocks,
        );
        let space = Allocator::new(&layout);
        let mut volume = Self {
            start: spec.start.0,
            queue: BlockQueue::new(drive, spec.block_layer),
            now,
            free_blocks: space.free(),
            space,
            inodes: Inodes::new(&layout),
            nodes: Vec::new(),
            spare_nodes: Vec::new(),
            generations: 0,
            names: HashTable::new(),
            last_dir: ("".to_string(), ROOT),
            reserved: 0,
            ballast: Vec::new(),
            journal,
            commit: None,
            durable: 0,
            merging,
            checkpoint: None,
            dirty: VecDeque::new(),
            dirty_blocks: 0,
            flushing: None,
            flusher_held: false,
            batches: VecDeque::new(),
            batches_begun: 0,
            batch_open: false,
            conversions: VecDeque::new(),
            cached_blocks: 0,
            uses: 0,
            cache_order: VecDeque::new(),
            discards: OnlineDiscards::default(),
            trimming: None,
            trimmed: None,
            last_min_extent: 0,
            counters: Counters::default(),
            layout,
            spec,
        };
        volume.make_filesystem();
        Ok(volume)
    }

    /// Writes and discards of `mke2fs`, and the root directory.
    fn make_filesystem(&mut self) {
        if self.spec.mkfs.discard && self.queue.drive.supports_trim() {
            let end = self.start + u64::from(self.layout.blocks) * BLOCK;
            let mut at = self.start;
            while at < end {
                let len = self.spec.discard_max.0.max(BLOCK).min(end - at);
                let done = self.queue.trim(self.now, &[Extent { offset: at, len }]);
                self.run_until(done);
                at += len;
            }
        }
        let mut root = Node::new(1, ROOT, "", 0, self.now);
        root.dir = Some(Box::new(Dir::new()));
        self.nodes.push(root);
        self.add_dir_block(ROOT);
        self.touch_inode(ROOT);
        let ticket = self.queue.ticket();
        for (start, len) in self.metadata_to_write() {
            self.write_blocks(start, len, self.spec.metadata_class, ticket, Urgency::Sync);
            self.counters.metadata_written += Bytes(u64::from(len) * BLOCK);
        }
        self.wait_for(ticket);
        self.commit_and_wait();
        let blocks = self.journal.take_home(false);
        let ticket = self.queue.ticket();
        self.write_home(&blocks, ticket, Urgency::Sync);
        self.wait_for(ticket);
    }

    /// Runs written by `mkfs`: superblocks, descriptors, bitmaps; all metadata unless
    /// lazy.
    fn metadata_to_write(&self) -> Vec<(u32, u32)> {
        if !self.spec.mkfs.lazy {
            return self.layout.reserved.clone();
        }
        let mut runs = Vec::new();
        for group in 0..self.layout.groups {
            let start = group * super::group::GROUP_BLOCKS;
            if self.layout.reserved.binary_search_by_key(&start, |(start, _)| *start).is_ok() {
                runs.push((start, 1 + self.layout.descriptor(self.layout.groups - 1)));
            }
            if group.is_multiple_of(super::layout::FLEX) {
                let bitmaps = 2 * super::layout::FLEX.min(self.layout.groups - group);
                runs.push((self.layout.block_bitmap(group), bitmaps));
            }
        }
        runs.push((self.layout.journal, 1));
        runs
    }

    /// Changes the mode of online discard for later frees, like a remount.
    pub fn set_discard(&mut self, discard: Discard) {
        self.spec.discard = discard;
    }

    /// Unmounts and mounts: writes everything, drops preallocations, page cache and trim
    /// marks, and recomputes free space from the files.
    pub fn remount(&mut self) {
        while !self.dirty.is_empty()
            || self.journal.anything_running()
            || self.commit.is_some()
            || self.contents_under_way()
        {
            let _ = self.op_sync();
        }
        while self.discards.next().is_some() || self.trimming.is_some() {
            self.step();
        }
        self.space.drop_preallocations();
        let mut space = Allocator::new(&self.layout);
        for (start, len) in self.runs_in_use() {
            space.take(start, len);
        }
        self.space = space;
        for node in &mut self.nodes {
            node.cached = 0;
        }
        self.cached_blocks = 0;
        self.cache_order.clear();
        self.last_min_extent = 0;
    }

    /// All runs in use by files, directories and ballast, unordered.
    pub(super) fn runs_in_use(&self) -> Vec<(u32, u32)> {
        let mut runs = self.ballast.clone();
        for node in &self.nodes {
            runs.extend(node.extents.iter());
            runs.extend(node.tree_blocks.iter().map(|block| (*block, 1)));
        }
        runs
    }

    /// Allocates free blocks, as if to old files, until `fill` of the volume is in use.
    /// Leaves free extents throughout, of lengths drawn from `lengths`, in blocks;
    /// without those, random ones of about the given length.
    pub fn age_like(&mut self, age: &Age, lengths: &[u32]) -> Result<(), VolumeError> {
        let mean = match lengths.len() {
            0 => age.free_extent.0 as f64 / BLOCK as f64,
            len => lengths.iter().copied().map(f64::from).sum::<f64>() / len as f64,
        };
        let free_len = |rng: &mut Stream| match lengths.len() as u64 {
            0 => (-libm::log(1.0 - rng.unit()) * mean) as u32,
            len => lengths[rng.below(len) as usize],
        };
        if !(0.0..=0.99).contains(&age.fill) {
            return Err(VolumeError::new(format!(
                "a volume cannot be {:.0} % full",
                age.fill * 100.0
            )));
        }
        self.space.drop_preallocations();
        let total = u64::from(self.layout.blocks);
        let wanted = (total as f64 * (1.0 - age.fill)) as u64;
        let free = self.space.free();
        let take = free.saturating_sub(wanted);
        if take == 0 {
            return Ok(());
        }
        let mut rng = Stream::new(age.seed, "age");
        let keep_share = wanted as f64 / free as f64;
        let mut taken = Vec::new();
        for group in 0..self.space.groups.len() {
            let base = group as u32 * super::group::GROUP_BLOCKS;
            let runs: Vec<(u32, u32)> =
                self.space.groups[group].runs_from(0, super::group::GROUP_BLOCKS).collect();
            for (start, len) in runs {
                cut(&mut rng, (base + start, len), keep_share, (mean, &free_len), &mut taken);
            }
        }
        for (start, len) in &taken {
            self.space.take(*start, *len);
            self.free_blocks -= u64::from(*len);
            split_by_group(*start, *len, |group, _, _| self.space.groups[group].mark_freed());
        }
        if age.write {
            self.write_ballast(&taken, age.class);
        }
        self.ballast.extend(taken);
        Ok(())
    }

    /// Writes to a share of the free extents, like deleted files that were never trimmed.
    pub fn write_free(&mut self, share: f64, class: DataClass, seed: u64) {
        let mut rng = Stream::new(seed, "written free space");
        let mut runs = Vec::new();
        for group in 0..self.space.groups.len() {
            let base = group as u32 * super::group::GROUP_BLOCKS;
            let free =
                self.space.groups[group].runs_from(0, self.layout.group_blocks(group as u32));
            runs.extend(
                free.filter(|_| rng.unit() < share).map(|(start, len)| (base + start, len)),
            );
        }
        self.write_ballast(&runs, class);
    }

    /// Lengths of the free extents in blocks, by group.
    #[must_use]
    pub fn free_extents(&self) -> Vec<u32> {
        let of = |group: usize| {
            self.space.groups[group]
                .runs_from(0, self.layout.group_blocks(group as u32))
                .map(|(_, len)| len)
        };
        (0..self.space.groups.len()).flat_map(of).collect()
    }

    fn write_ballast(&mut self, runs: &[(u32, u32)], class: DataClass) {
        for part in runs.chunks(1024) {
            let ticket = self.queue.ticket();
            for (start, len) in part {
                self.write_blocks(*start, *len, class, ticket, Urgency::Async);
            }
            self.counters.data_written +=
                Bytes(part.iter().map(|(_, len)| u64::from(*len) * BLOCK).sum());
            self.wait_for(ticket);
        }
    }
}

/// Cuts a free run: about `keep` stays free in random extents of mean `mean` blocks.
fn cut(
    rng: &mut Stream,
    (start, len): (u32, u32),
    keep: f64,
    (mean, free_len): (f64, &dyn Fn(&mut Stream) -> u32),
    taken: &mut Vec<(u32, u32)>,
) {
    let end = start + len;
    if mean < 1.0 {
        let n = (f64::from(len) * (1.0 - keep)) as u32;
        if n > 0 {
            taken.push((start, n));
        }
        return;
    }
    let taken_mean = mean * (1.0 - keep) / keep.max(1e-6);
    let mut at = start;
    while at < end {
        let n = ((-libm::log(1.0 - rng.unit()) * taken_mean) as u32).max(1).min(end - at);
        taken.push((at, n));
        at += n;
        at += free_len(rng).max(1).min(end - at);
    }
}
