//! Writeback: the flusher, delayed allocation, throttling of writers, the page cache.

use super::alloc::AllocationPurpose;
use super::layout::FLEX;
use super::queue::{Ticket, Urgency};
use super::spec::BLOCK;
use super::{Batch, Flushing, Volume};
use alloc::vec::Vec;
use trimtab_drive::Device;
use trimtab_drive::data::DataClass;
use trimtab_drive::units::{Bytes, Nanos};

/// Files whose completion is tracked together.
const BATCH_FILES: usize = 256;

/// Reason why a file cannot be written out now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteoutObstacle {
    /// The journal has no room.
    Journal,
    /// All free blocks await a commit or a discard.
    Blocks,
}

impl<D: Device + ?Sized> Volume<D> {
    pub(super) fn write_blocks(
        &mut self,
        start: u32,
        len: u32,
        class: DataClass,
        ticket: Ticket,
        urgency: Urgency,
    ) {
        if len > 0 {
            self.queue.write(
                self.now,
                self.offset(start),
                u64::from(len) * BLOCK,
                class,
                ticket,
                urgency,
            );
        }
    }

    pub(super) fn offset(&self, block: u32) -> u64 {
        self.start + u64::from(block) * BLOCK
    }

    /// Grows a file to `size`: a partial last block and all new blocks become dirty.
    pub(super) fn grow(&mut self, node: u32, size: u64) {
        let now = self.now;
        let file = &mut self.nodes[node as usize];
        let (dirty, unallocated) = (file.dirty_blocks(), file.unallocated());
        file.dirty_from = file.dirty_from.min((file.size / BLOCK) as u32);
        file.size = size;
        self.dirty_blocks += u64::from(file.dirty_blocks() - dirty);
        self.reserved += u64::from(file.unallocated() - unallocated);
        if !file.queued && file.dirty_blocks() > 0 {
            file.queued = true;
            file.dirtied = now;
            self.dirty.push_back((node, file.generation, now));
        }
    }

    /// Allocates and writes the dirty blocks of a file.
    pub(super) fn write_out(
        &mut self,
        node: u32,
        urgency: Urgency,
    ) -> Result<(), WriteoutObstacle> {
        self.allocate(node)?;
        let file = &mut self.nodes[node as usize];
        let (from, blocks, class) = (file.dirty_from, file.dirty_blocks(), file.class);
        file.dirty_from = u32::MAX;
        file.queued = false;
        if blocks == 0 {
            return Ok(());
        }
        self.dirty_blocks -= u64::from(blocks);
        let ticket = self.batch_ticket(node);
        let parts: Vec<(u32, u32)> = self.nodes[node as usize].extents.part(from, blocks).collect();
        for (start, len) in parts {
            self.write_blocks(start, len, class, ticket, urgency);
        }
        self.counters.data_written += Bytes(u64::from(blocks) * BLOCK);
        Ok(())
    }

    fn batch_ticket(&mut self, node: u32) -> Ticket {
        let file = (self.nodes[node as usize].generation, self.inode_block(node));
        if let Some(batch) = self.batches.back_mut()
            && batch.number == self.batches_begun
            && batch.files.len() < BATCH_FILES
            && self.batch_open
        {
            batch.files.push(file);
            return batch.ticket;
        }
        self.batches_begun += 1;
        self.batch_open = true;
        let ticket = self.queue.ticket();
        self.batches.push_back(Batch {
            number: self.batches_begun,
            ticket,
            files: alloc::vec![file],
        });
        ticket
    }

    /// Completion time and index of the first batch to complete, if known.
    pub(super) fn next_batch_done(&self) -> Option<(Nanos, usize)> {
        let done =
            |(at, batch): (usize, &Batch)| self.queue.done(batch.ticket).map(|done| (done, at));
        self.batches.iter().enumerate().filter_map(done).min()
    }

    /// Marks the extents of a completed batch as written.
    pub(super) fn batch_done(&mut self) {
        let Some(batch) = self.next_batch_done().and_then(|(_, at)| self.batches.remove(at)) else {
            return;
        };
        self.queue.finish(batch.ticket);
        if self.spec.journal.converts_after_write {
            self.conversions.extend(batch.files.into_iter().map(|(_, block)| block));
            self.convert();
        }
    }

    /// True while contents are being written or their extents await conversion.
    pub(super) fn contents_under_way(&self) -> bool {
        !self.batches.is_empty() || !self.conversions.is_empty()
    }

    /// Marks extents with completed writes as written, as long as the journal has room.
    pub(super) fn convert(&mut self) {
        while !self.conversions.is_empty() && self.journal_ready() {
            let Some(block) = self.conversions.pop_front() else { break };
            self.journal.dirty(block, self.now);
        }
    }

    /// Allocates the missing blocks of a file.
    pub(super) fn allocate(&mut self, node: u32) -> Result<(), WriteoutObstacle> {
        while self.nodes[node as usize].unallocated() > 0 {
            if !self.journal_ready() {
                return Err(WriteoutObstacle::Journal);
            }
            let file = &self.nodes[node as usize];
            let goal = self.goal(file.inode, file.extents.end(), true);
            let purpose = AllocationPurpose::Data { file_blocks: file.blocks(), open: file.open };
            let run = self.space.allocate(goal, file.unallocated(), purpose).or_else(|| {
                self.space.drop_preallocations();
                self.space.allocate(goal, self.nodes[node as usize].unallocated(), purpose)
            });
            let Some((start, len)) = run else { return Err(WriteoutObstacle::Blocks) };
            self.reserved -= u64::from(len);
            self.add_run(node, start, len);
        }
        Ok(())
    }

    /// Adds newly allocated blocks to a file or directory.
    pub(super) fn add_run(&mut self, node: u32, start: u32, len: u32) {
        self.free_blocks -= u64::from(len);
        self.touch_bitmaps(start, len);
        let file = &mut self.nodes[node as usize];
        file.extents.push(start, len);
        self.touch_inode(node);
        while self.nodes[node as usize].tree_blocks.len()
            < self.nodes[node as usize].tree_blocks_needed()
        {
            let goal = self.goal(self.nodes[node as usize].inode, Some(start), false);
            // A full volume reserves blocks for this; see `RESERVE`.
            let Some((block, _)) = self.space.allocate(goal, 1, AllocationPurpose::Metadata) else {
                break;
            };
            self.free_blocks -= 1;
            self.touch_bitmaps(block, 1);
            self.nodes[node as usize].tree_blocks.push(block);
        }
        if let Some(block) = self.nodes[node as usize].tree_blocks.last().copied() {
            self.journal.dirty(block, self.now);
        }
    }

    /// Preferred block for an inode: after its last block, otherwise in its flexible
    /// group. Files use the second group, because the first is reserved for directories.
    pub(super) fn goal(&self, inode: u32, behind: Option<u32>, data: bool) -> u32 {
        if let Some(behind) = behind {
            return behind.min(self.layout.blocks - 1);
        }
        let mut group = self.inodes.group(inode) / FLEX * FLEX;
        if data && group + 1 < self.layout.groups {
            group += 1;
        }
        group * super::group::GROUP_BLOCKS
    }

    // The flusher.

    /// Next wake-up of the flusher; `None` if nothing is dirty.
    pub(super) fn flusher_due(&self) -> Option<Nanos> {
        let expire = self.spec.writeback.expire;
        let oldest = self.dirty.front().map(|(_, _, since)| *since);
        let first = match (oldest, self.journal.home_since) {
            (Some(a), Some(b)) => a.min(b),
            (a, b) => a.or(b)?,
        };
        // It wakes at multiples of its interval.
        let interval = self.spec.writeback.interval.0.max(1);
        let due = first.saturating_add(expire);
        Some(Nanos(due.0.div_ceil(interval).saturating_mul(interval)))
    }

    pub(super) fn wake_flusher(&mut self) {
        self.flushing =
            Some(Flushing::Expired(self.now.saturating_sub(self.spec.writeback.expire)));
    }

    /// Step of the flusher: writes one file or all metadata, or stops.
    pub(super) fn flusher_step(&mut self) {
        let Some(goal) = self.flushing else { return };
        let wanted = match goal {
            Flushing::Expired(limit) => {
                self.dirty.front().is_some_and(|(_, _, since)| *since <= limit)
            }
            Flushing::Background => {
                self.dirty_bytes() > self.dirty_background() && !self.dirty.is_empty()
            }
        };
        if wanted {
            if self.write_oldest(Urgency::Async).is_err() {
                self.queue.unplug();
                self.make_way();
                self.flusher_held = true;
            }
            return;
        }
        self.queue.unplug();
        if let Flushing::Expired(limit) = goal
            && self.journal.home_since.is_some_and(|since| since <= limit)
        {
            let blocks = self.journal.take_home(false);
            if blocks.is_empty() {
                // All were changed again, so their age restarts.
                self.journal.home_since = self.journal.home_since.map(|_| self.now);
            }
            let ticket = self.queue.ticket();
            self.write_home(&blocks, ticket, Urgency::Async);
            self.queue.forget(ticket);
        }
        self.flushing = None;
    }

    /// Starts a commit or checkpoint that frees blocks and journal space, unless one is
    /// running.
    pub(super) fn make_way(&mut self) {
        if self.commit.is_none() && self.journal.anything_running() {
            self.start_commit();
        }
    }

    /// Writes the file that has been dirty longest. Skips stale entries.
    pub(super) fn write_oldest(&mut self, urgency: Urgency) -> Result<(), WriteoutObstacle> {
        while let Some((node, generation, since)) = self.dirty.front().copied() {
            let file = &self.nodes[node as usize];
            if file.generation == generation && file.queued && file.dirtied == since {
                self.write_out(node, urgency)?;
                self.dirty.pop_front();
                return Ok(());
            }
            self.dirty.pop_front();
        }
        Ok(())
    }

    pub(super) fn dirty_bytes(&self) -> u64 {
        self.dirty_blocks * BLOCK + self.queue.write_backlog()
    }

    fn dirty_background(&self) -> u64 {
        self.spec.writeback.memory.0 / 100 * u64::from(self.spec.writeback.background_percent)
    }

    /// Makes a writer wait above the dirty limit; wakes the flusher above the background
    /// limit.
    pub(super) fn throttle(&mut self) {
        let background = self.dirty_background();
        if self.dirty_bytes() <= background {
            return;
        }
        if self.flushing.is_none() && !self.dirty.is_empty() {
            self.flushing = Some(Flushing::Background);
        }
        let limit =
            self.spec.writeback.memory.0 / 100 * u64::from(self.spec.writeback.limit_percent);
        if self.dirty_bytes() > limit.max(background) {
            self.counters.throttled += 1;
            let enough = u64::midpoint(background, limit.max(background));
            while self.dirty_bytes() > enough {
                if self.flushing.is_none() && !self.dirty.is_empty() {
                    self.flushing = Some(Flushing::Background);
                }
                self.step();
            }
        }
    }

    // The page cache.

    /// Marks the first `blocks` blocks of a file as cached and just used.
    pub(super) fn cache(&mut self, node: u32, blocks: u32) {
        self.uses += 1;
        let file = &mut self.nodes[node as usize];
        file.used = self.uses;
        if blocks > file.cached {
            self.cached_blocks += u64::from(blocks - file.cached);
            file.cached = blocks;
        }
        self.cache_order.push_back((node, file.generation, self.uses));
        self.shrink_cache();
    }

    /// Evicts the least recently used files, except dirty ones.
    fn shrink_cache(&mut self) {
        let most = self.spec.writeback.memory.0 / BLOCK;
        let mut kept = 0;
        while self.cached_blocks > most && kept < self.cache_order.len() {
            let Some((node, generation, used)) = self.cache_order.pop_front() else { break };
            let file = &mut self.nodes[node as usize];
            if file.generation != generation || file.used != used || file.cached == 0 {
                continue;
            }
            if file.queued {
                kept += 1;
                self.cache_order.push_back((node, generation, used));
                continue;
            }
            self.cached_blocks -= u64::from(file.cached);
            file.cached = 0;
        }
        // Repeated use leaves many stale entries; remove them now and then.
        if self.cache_order.len() > 64 + 4 * self.nodes.len() {
            let nodes = &self.nodes;
            self.cache_order.retain(|(node, generation, used)| {
                let file = &nodes[*node as usize];
                file.generation == *generation && file.used == *used
            });
        }
    }
}
