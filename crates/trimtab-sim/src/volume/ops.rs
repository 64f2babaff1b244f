//! File operations.

use super::alloc::AllocationPurpose;
use super::node::{Dir, Node, ROOT, entry_bytes, hash, name_key};
use super::queue::Urgency;
use super::spec::BLOCK;
use super::{Atime, Volume};
use crate::op::{FileOp, Payload};
use crate::target::{FileTarget, TargetError, TargetResult};
use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use trimtab_drive::Device;
use trimtab_drive::units::{Bytes, Nanos};

/// Errors as Linux numbers them.
pub mod errno {
    pub const ENOENT: (i32, &str) = (2, "No such file or directory");
    pub const EIO: (i32, &str) = (5, "Input/output error");
    pub const EEXIST: (i32, &str) = (17, "File exists");
    pub const ENOTDIR: (i32, &str) = (20, "Not a directory");
    pub const EISDIR: (i32, &str) = (21, "Is a directory");
    pub const EINVAL: (i32, &str) = (22, "Invalid argument");
    pub const ENOSPC: (i32, &str) = (28, "No space left on device");
    pub const EROFS: (i32, &str) = (30, "Read-only file system");
    pub const ENOTEMPTY: (i32, &str) = (39, "Directory not empty");
    pub const EOPNOTSUPP: (i32, &str) = (95, "Operation not supported");
}

/// Blocks per step of a write into the page cache; the flusher may start between steps.
const WRITE_STEP: u32 = 256;
/// Read-ahead: the request size for reading files.
const READ_AHEAD: u64 = 128 << 10;
/// Blocks reserved for metadata (`s_resv_clusters`).
const RESERVE: u64 = 4096;
/// Age at which a `relatime` access time is updated.
const RELATIME_AGE: Nanos = Nanos::from_secs(86_400);

pub fn refused(
    action: &'static str,
    object: impl Into<String>,
    (errno, reason): (i32, &str),
) -> TargetError {
    TargetError::new(action, object, reason, Some(errno))
}

impl<D: Device + ?Sized> Volume<D> {
    // Changes of metadata blocks.

    /// Block of an inode: in its table, or in the catalogue leaf of its name.
    pub(super) fn inode_block(&self, node: u32) -> u32 {
        let file = &self.nodes[node as usize];
        if self.spec.catalogue && node != ROOT {
            return self.leaf_block(file.parent, self.key(file.hash(), &file.name));
        }
        self.layout.inode_block(file.inode)
    }

    /// Marks the block of an inode as changed.
    pub(super) fn touch_inode(&mut self, node: u32) {
        let block = self.inode_block(node);
        self.nodes[node as usize].transaction = self.journal.id;
        self.journal.dirty(block, self.now);
    }

    /// Marks the bitmaps of these blocks as changed.
    pub(super) fn touch_bitmaps(&mut self, start: u32, len: u32) {
        let (layout, journal, now) = (&self.layout, &mut self.journal, self.now);
        super::alloc::split_by_group(start, len, |group, _, _| {
            journal.dirty(layout.block_bitmap(group as u32), now);
            journal.dirty(layout.descriptor(group as u32), now);
        });
    }

    fn touch_inode_bitmap(&mut self, inode: u32) {
        if !self.spec.catalogue {
            let group = self.inodes.group(inode);
            self.journal.dirty(self.layout.inode_bitmap(group), self.now);
            self.journal.dirty(self.layout.descriptor(group), self.now);
        }
    }

    fn key(&self, hash: u64, name: &str) -> u64 {
        if self.spec.catalogue { name_key(name, hash) } else { hash }
    }

    /// Volume block with the directory entry of `key`.
    fn leaf_block(&self, dir: u32, key: u64) -> u32 {
        let node = &self.nodes[dir as usize];
        let block = node.dir.as_ref().map_or(0, |dir| dir.block_of(key));
        node.extents.part(block, 1).next().map_or(0, |(start, _)| start)
    }

    // Names.

    fn lookup(&self, parent: u32, name: &str) -> Option<u32> {
        let is = |node: &u32| {
            self.nodes[*node as usize].parent == parent && *self.nodes[*node as usize].name == *name
        };
        self.names.find(hash(parent, name), is).copied()
    }

    /// Parent directory and last component of `path`.
    fn parent_of<'p>(
        &mut self,
        action: &'static str,
        path: &'p str,
    ) -> TargetResult<(u32, &'p str)> {
        let trimmed = path.trim_end_matches('/');
        let (dir, name) = trimmed.rsplit_once('/').unwrap_or(("", trimmed));
        if name.is_empty() || name == "." || name == ".." || name.len() > 255 {
            return Err(refused(action, path, errno::EINVAL));
        }
        if self.last_dir.0 != dir {
            let mut at = ROOT;
            for component in
                dir.split('/').filter(|component| !component.is_empty() && *component != ".")
            {
                at = self
                    .lookup(at, component)
                    .ok_or_else(|| refused(action, path, errno::ENOENT))?;
                if self.nodes[at as usize].dir.is_none() {
                    return Err(refused(action, path, errno::ENOTDIR));
                }
            }
            self.last_dir = (dir.to_string(), at);
        }
        Ok((self.last_dir.1, name))
    }

    pub(super) fn find_file(&mut self, action: &'static str, path: &str) -> TargetResult<u32> {
        let (parent, name) = self.parent_of(action, path)?;
        let node = self.lookup(parent, name).ok_or_else(|| refused(action, path, errno::ENOENT))?;
        if self.nodes[node as usize].dir.is_some() {
            return Err(refused(action, path, errno::EISDIR));
        }
        Ok(node)
    }

    pub(super) fn healthy(&self, action: &'static str, path: &str) -> TargetResult {
        match &self.queue.failed {
            None => Ok(()),
            Some(trimtab_drive::Refusal::ReadOnly) => Err(refused(action, path, errno::EROFS)),
            Some(_) => Err(refused(action, path, errno::EIO)),
        }
    }

    fn new_node(&mut self, inode: u32, parent: u32, name: &str) -> u32 {
        self.generations = self.generations.wrapping_add(1);
        let node = Node::new(inode, parent, name, self.generations, self.now);
        if let Some(number) = self.spare_nodes.pop() {
            self.nodes[number as usize] = node;
            number
        } else {
            self.nodes.push(node);
            self.nodes.len() as u32 - 1
        }
    }

    /// Adds a new node to its directory, which may grow.
    fn enter(&mut self, node: u32) {
        let (parent, hash) = (self.nodes[node as usize].parent, self.nodes[node as usize].hash());
        let key = self.key(hash, &self.nodes[node as usize].name);
        // A catalogue leaf holds the file's record and the thread back to it, both with
        // the name.
        let name = &self.nodes[node as usize].name;
        let bytes =
            if self.spec.catalogue { 300 + 2 * entry_bytes(name) } else { entry_bytes(name) };
        let dir =
            self.nodes[parent as usize].dir.as_mut().expect("parents are looked up as directories");
        let before = dir.blocks();
        dir.insert(key, bytes);
        let after = dir.blocks();
        for _ in before..after {
            self.add_dir_block(parent);
        }
        if after > before {
            // The split leaf, the new one, and the root.
            let all: Vec<u32> =
                self.nodes[parent as usize].extents.part(0, 1).map(|(start, _)| start).collect();
            for block in all {
                self.journal.dirty(block, self.now);
            }
        }
        self.names.insert_unique(hash, node, |other| self.nodes[*other as usize].hash());
        let block = self.leaf_block(parent, key);
        self.journal.dirty(block, self.now);
        self.touch_inode(parent);
    }

    /// Adds a block to a directory. Space exists, since files leave [`RESERVE`] blocks
    /// free, possibly only after a commit or a trim.
    pub(super) fn add_dir_block(&mut self, dir: u32) {
        let node = &self.nodes[dir as usize];
        let goal = self.goal(node.inode, node.extents.end(), false);
        let block = loop {
            if let Some((start, _)) = self.space.allocate(goal, 1, AllocationPurpose::Metadata) {
                break start;
            }
            self.space.drop_preallocations();
            if let Some((start, _)) = self.space.allocate(goal, 1, AllocationPurpose::Metadata) {
                break start;
            }
            self.make_way();
            self.step();
        };
        self.add_run(dir, block, 1);
        self.nodes[dir as usize].size += BLOCK;
        self.journal.dirty(block, self.now);
    }

    fn leave(&mut self, node: u32) {
        let (parent, hash) = (self.nodes[node as usize].parent, self.nodes[node as usize].hash());
        let key = self.key(hash, &self.nodes[node as usize].name);
        let block = self.leaf_block(parent, key);
        self.journal.dirty(block, self.now);
        if let Some(dir) = self.nodes[parent as usize].dir.as_mut() {
            dir.remove(key);
        }
        self.names
            .find_entry(hash, |other| *other == node)
            .expect("the node has its name")
            .remove();
        self.touch_inode(parent);
    }

    /// Frees a node and everything it owns.
    fn destroy(&mut self, node: u32) {
        let now = self.now;
        // The orphan list of inodes begins in the superblock.
        self.journal.dirty(super::layout::VolumeLayout::SUPERBLOCK, now);
        let dir = self.nodes[node as usize].dir.is_some();
        let file = &mut self.nodes[node as usize];
        self.dirty_blocks -= u64::from(if dir { 0 } else { file.dirty_blocks() });
        self.reserved -= u64::from(if dir { 0 } else { file.unallocated() });
        self.cached_blocks -= u64::from(file.cached);
        let (inode, extents, tree) = (
            file.inode,
            core::mem::take(&mut file.extents),
            core::mem::take(&mut file.tree_blocks),
        );
        // Queues that still refer to the node must not mistake it for a file.
        self.generations = self.generations.wrapping_add(1);
        file.generation = self.generations;
        file.queued = false;
        file.cached = 0;
        file.dir = None;
        for (start, len) in extents.iter() {
            // A file in many pieces is freed over several transactions.
            self.wait_for_journal();
            if dir {
                for block in start..start + len {
                    self.journal.forget(block, now);
                }
            } else {
                self.counters.freed += Bytes(u64::from(len) * BLOCK);
            }
            self.free_run(start, len);
        }
        for block in tree {
            self.journal.forget(block, now);
            self.free_run(block, 1);
        }
        if !self.spec.catalogue {
            self.journal.dirty(self.layout.inode_block(inode), now);
        }
        self.touch_inode_bitmap(inode);
        self.inodes.give(inode, dir);
        self.spare_nodes.push(node);
    }

    fn free_run(&mut self, start: u32, len: u32) {
        self.free_blocks += u64::from(len);
        self.touch_bitmaps(start, len);
        self.journal.freed.add(start, len, self.merging);
    }

    // The operations.

    fn update_atime(&mut self, node: u32) {
        let file = &self.nodes[node as usize];
        let update = match self.spec.atime {
            Atime::Strict => true,
            Atime::Relative => {
                file.accessed <= file.modified
                    || self.now.saturating_sub(file.accessed) > RELATIME_AGE
            }
            Atime::Never => false,
        };
        if update {
            self.wait_for_journal();
            self.nodes[node as usize].accessed = self.now;
            self.touch_inode(node);
            self.end_change();
        }
    }

    /// Makes one file durable: its contents, and the journal up to its last change.
    pub fn fsync(&mut self, path: &str) -> TargetResult {
        self.begin("sync", path, self.spec.host.open)?;
        let node = self.find_file("sync", path)?;
        self.write_out_and_wait(node);
        let transaction = self.nodes[node as usize].transaction;
        if transaction > self.durable {
            self.wait_durable(transaction);
        } else {
            let ticket = self.flush_cache();
            self.wait_for(ticket);
        }
        self.healthy("sync", path)
    }

    /// Writes the dirty blocks of a file and waits for completion.
    pub(super) fn write_out_and_wait(&mut self, node: u32) {
        let before = self.batches_begun;
        self.batch_open = false;
        while self.write_out(node, Urgency::Sync).is_err() {
            self.queue.unplug();
            self.make_way();
            self.step();
        }
        self.queue.unplug();
        self.batch_open = false;
        // Its own batch, if any, and earlier ones of the flusher with this file.
        let file = self.nodes[node as usize].generation;
        while self.batches.iter().any(|batch| {
            batch.number > before || batch.files.iter().any(|(other, _)| *other == file)
        }) {
            self.step();
        }
        // Conversions complete in order, so all of them must be done.
        while !self.conversions.is_empty() {
            self.step();
        }
    }

    // Common steps of operations.

    fn begin(&mut self, action: &'static str, path: &str, cost: Nanos) -> TargetResult {
        self.work(cost);
        self.healthy(action, path)?;
        self.wait_for_journal();
        Ok(())
    }

    /// Ends a change; may wait for the commit of a full transaction.
    fn end_change(&mut self) {
        if self.spec.journal.full_waits
            && self.journal.running_blocks() >= self.journal.transaction_max
        {
            self.commit_and_wait();
        }
    }

    fn has_space(&self, action: &'static str, path: &str, blocks: u64) -> TargetResult {
        let reserve = RESERVE.min(u64::from(self.layout.blocks) / 50);
        if self.free_blocks.saturating_sub(self.reserved) < blocks + reserve {
            return Err(refused(action, path, errno::ENOSPC));
        }
        Ok(())
    }

    fn write(&mut self, node: u32, payload: &Payload<'_>) {
        if payload.is_empty() {
            return;
        }
        self.nodes[node as usize].class = payload.class();
        self.nodes[node as usize].open = true;
        let end = self.nodes[node as usize].size + payload.len();
        while self.nodes[node as usize].size < end {
            let from = self.nodes[node as usize].size;
            let to = end.min((from / BLOCK + u64::from(WRITE_STEP)) * BLOCK);
            self.work(Nanos(self.spec.host.write_block.0 * (to.div_ceil(BLOCK) - from / BLOCK)));
            let cached = self.nodes[node as usize].cached;
            let whole = cached >= self.nodes[node as usize].blocks();
            self.grow(node, to);
            if whole {
                self.cache(node, to.div_ceil(BLOCK) as u32);
            }
            self.throttle();
        }
        self.nodes[node as usize].modified = self.now;
        self.nodes[node as usize].open = false;
        self.wait_for_journal();
        self.touch_inode(node);
        if self.spec.write_on_close {
            self.write_on_close(node);
        } else if !self.spec.delayed_allocation {
            while self.allocate(node).is_err() {
                self.make_way();
                self.step();
            }
        }
    }

    fn write_on_close(&mut self, node: u32) {
        while self.queue.congested() {
            self.step();
        }
        while self.write_out(node, Urgency::Async).is_err() {
            self.queue.unplug();
            self.make_way();
            self.step();
        }
        self.queue.unplug();
    }

    /// Reads blocks of a file from the drive, blocking.
    fn read_blocks(&mut self, node: u32, from: u32, len: u32) {
        let ticket = self.queue.ticket();
        let parts: Vec<(u32, u32)> = self.nodes[node as usize].extents.part(from, len).collect();
        for (start, len) in parts {
            let (mut at, end) = (self.offset(start), self.offset(start) + u64::from(len) * BLOCK);
            while at < end {
                let n = READ_AHEAD.min(end - at);
                self.queue.read(self.now, at, n, ticket);
                at += n;
            }
        }
        self.wait_for(ticket);
    }
}

impl<D: Device> FileTarget for Volume<D> {
    fn execute(&mut self, op: &FileOp<'_>) -> TargetResult {
        self.on_any().operate(op)
    }
}

impl Volume<dyn Device + '_> {
    #[inline(never)]
    fn operate(&mut self, op: &FileOp<'_>) -> TargetResult {
        match op {
            FileOp::MakeDir(path) => self.op_make_dir(path),
            FileOp::RemoveDir(path) => self.op_remove_dir(path),
            FileOp::Create(path, payload) => self.op_create(path, payload),
            FileOp::Append(path, payload) => self.op_append(path, payload),
            FileOp::Read(path, len) => self.op_read(path, *len),
            FileOp::Delete(path) => self.op_delete(path),
            FileOp::Sync => self.op_sync(),
        }
    }
}

// The operations.
impl<D: Device + ?Sized> Volume<D> {
    pub(super) fn op_make_dir(&mut self, path: &str) -> TargetResult {
        self.begin("make directory", path, self.spec.host.dir)?;
        let (parent, name) = self.parent_of("make directory", path)?;
        if self.lookup(parent, name).is_some() {
            return Err(refused("make directory", path, errno::EEXIST));
        }
        self.has_space("make directory", path, 2)?;
        let parent_inode = self.nodes[parent as usize].inode;
        let seed = hash(parent, name);
        let inode = self.inodes.for_dir(parent, parent_inode, seed, &self.space);
        let inode = inode.ok_or_else(|| refused("make directory", path, errno::ENOSPC))?;
        let node = self.new_node(inode, parent, name);
        self.nodes[node as usize].dir = Some(Box::new(Dir::new()));
        self.touch_inode_bitmap(inode);
        self.enter(node);
        self.add_dir_block(node);
        self.touch_inode(node);
        self.end_change();
        Ok(())
    }

    pub(super) fn op_remove_dir(&mut self, path: &str) -> TargetResult {
        self.begin("remove directory", path, self.spec.host.dir)?;
        let (parent, name) = self.parent_of("remove directory", path)?;
        let node = self
            .lookup(parent, name)
            .ok_or_else(|| refused("remove directory", path, errno::ENOENT))?;
        match &self.nodes[node as usize].dir {
            None => return Err(refused("remove directory", path, errno::ENOTDIR)),
            Some(dir) if dir.entries > 0 => {
                return Err(refused("remove directory", path, errno::ENOTEMPTY));
            }
            Some(_) => {}
        }
        self.leave(node);
        self.destroy(node);
        self.last_dir = ("\0".to_string(), ROOT);
        self.end_change();
        Ok(())
    }

    pub(super) fn op_create(&mut self, path: &str, payload: &Payload<'_>) -> TargetResult {
        self.begin("create", path, self.spec.host.create)?;
        let (parent, name) = self.parent_of("create", path)?;
        if self.lookup(parent, name).is_some() {
            return Err(refused("create", path, errno::EEXIST));
        }
        self.has_space("create", path, payload.len().div_ceil(BLOCK) + 1)?;
        let overflow = self.nodes[parent as usize].dir.as_ref().and_then(|dir| dir.overflow_group);
        let found = self.inodes.for_file(self.nodes[parent as usize].inode, overflow, &self.space);
        let (inode, overflow) = found.ok_or_else(|| refused("create", path, errno::ENOSPC))?;
        if let Some(dir) = self.nodes[parent as usize].dir.as_mut() {
            dir.overflow_group = overflow;
        }
        let node = self.new_node(inode, parent, name);
        self.touch_inode_bitmap(inode);
        self.enter(node);
        self.touch_inode(node);
        self.write(node, payload);
        self.end_change();
        Ok(())
    }

    pub(super) fn op_append(&mut self, path: &str, payload: &Payload<'_>) -> TargetResult {
        self.begin("append to", path, self.spec.host.open)?;
        let node = self.find_file("append to", path)?;
        let file = &self.nodes[node as usize];
        let (size, blocks) = (file.size, file.blocks());
        self.has_space(
            "append to",
            path,
            (size + payload.len()).div_ceil(BLOCK) - u64::from(blocks),
        )?;
        if !size.is_multiple_of(BLOCK) && file.cached < blocks && file.dirty_from >= blocks {
            // A partial last block must be read before it can be rewritten.
            self.read_blocks(node, blocks - 1, 1);
        }
        self.write(node, payload);
        self.end_change();
        Ok(())
    }

    pub(super) fn op_read(&mut self, path: &str, len: u64) -> TargetResult {
        self.begin("read", path, self.spec.host.open)?;
        let node = self.find_file("read", path)?;
        let file = &self.nodes[node as usize];
        if len > file.size {
            return Err(TargetError::new("read", path, "it is shorter", None));
        }
        let blocks = len.div_ceil(BLOCK) as u32;
        let allocated = file.extents.blocks();
        let missing = blocks.min(allocated).saturating_sub(file.cached);
        if missing > 0 {
            self.read_blocks(node, self.nodes[node as usize].cached, missing);
        }
        self.work(Nanos(self.spec.host.read_block.0 * u64::from(blocks)));
        self.cache(node, blocks);
        self.update_atime(node);
        self.healthy("read", path)
    }

    pub(super) fn op_delete(&mut self, path: &str) -> TargetResult {
        self.begin("delete", path, self.spec.host.delete)?;
        let node = self.find_file("delete", path)?;
        let extents = self.nodes[node as usize].extents.len() as u64;
        self.work(Nanos(self.spec.host.extent.0 * extents));
        self.wait_for_journal();
        self.leave(node);
        self.destroy(node);
        self.end_change();
        Ok(())
    }

    pub(super) fn op_sync(&mut self) -> TargetResult {
        self.healthy("sync", "the volume")?;
        let mut committed = false;
        while let Some((_, _, since)) = self.dirty.front() {
            debug_assert!(*since <= self.now);
            if self.queue.congested() {
                self.step();
            } else if self.write_oldest(Urgency::Sync).is_err() {
                self.queue.unplug();
                self.make_way();
                self.step();
            }
        }
        self.queue.unplug();
        // Without waiting: changes during writeback belong to the next transaction.
        if self.commit.is_none() && self.journal.anything_running() {
            self.start_commit();
            committed = true;
        }
        while self.contents_under_way() {
            self.step();
        }
        committed |= self.commit_and_wait();
        let blocks = self.journal.take_home(false);
        let ticket = self.queue.ticket();
        self.write_home(&blocks, ticket, Urgency::Sync);
        self.wait_for(ticket);
        if !committed {
            let ticket = self.flush_cache();
            self.wait_for(ticket);
        }
        self.healthy("sync", "the volume")
    }
}
