//! Files and directories: location of their blocks and unwritten parts.

use super::spec::BLOCK;
use alloc::boxed::Box;
use alloc::vec::Vec;
use trimtab_drive::data::DataClass;
use trimtab_drive::units::Nanos;

/// Node of the root directory.
pub const ROOT: u32 = 0;
/// Extents stored in the inode; more need extent blocks.
const EXTENTS_INLINE: usize = 4;
/// Extents in an extent block.
const EXTENTS_PER_BLOCK: usize = 340;

#[derive(Clone, Debug, Default)]
pub struct Node {
    /// Inode number, from 0.
    pub inode: u32,
    pub parent: u32,
    pub name: Box<str>,
    /// Changes when the node is reused for another file, so that queues detect stale
    /// entries.
    pub generation: u32,
    /// Bytes.
    pub size: u64,
    /// Blocks on the volume in file order, followed by those not yet allocated.
    pub extents: Extents,
    /// Blocks of the extent tree outside the inode.
    pub tree_blocks: Vec<u32>,
    /// First block not written out; all later ones are dirty. `u32::MAX` if none is.
    pub dirty_from: u32,
    /// In the queue of dirty files, since `dirtied`.
    pub queued: bool,
    /// Time at which it became dirty.
    pub dirtied: Nanos,
    /// Being written by the current operation.
    pub open: bool,
    /// Data class of the last write, for a compressing drive.
    pub class: DataClass,
    /// Blocks in the page cache, from the start of the file.
    pub cached: u32,
    /// Last use, by the page cache's counter.
    pub used: u64,
    pub accessed: Nanos,
    pub modified: Nanos,
    /// Last transaction that changed its inode.
    pub transaction: u64,
    /// Directory data.
    pub dir: Option<Box<Dir>>,
}

/// Hash of a name in a directory.
#[must_use]
pub fn hash(parent: u32, name: &str) -> u64 {
    let mut hash =
        0xcbf2_9ce4_8422_2325_u64 ^ u64::from(parent).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for byte in name.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    // The multiplications above hardly mix the low bits of short names.
    (hash ^ (hash >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

impl Node {
    pub(super) fn new(inode: u32, parent: u32, name: &str, generation: u32, now: Nanos) -> Self {
        Self {
            inode,
            parent,
            name: name.into(),
            generation,
            dirty_from: u32::MAX,
            accessed: now,
            modified: now,
            ..Self::default()
        }
    }

    /// Hash of its name in its directory.
    pub fn hash(&self) -> u64 {
        hash(self.parent, &self.name)
    }

    /// Blocks for its size.
    pub fn blocks(&self) -> u32 {
        self.size.div_ceil(BLOCK) as u32
    }

    pub fn dirty_blocks(&self) -> u32 {
        self.blocks().saturating_sub(self.dirty_from)
    }

    /// Blocks not allocated yet.
    pub fn unallocated(&self) -> u32 {
        self.blocks().saturating_sub(self.extents.blocks())
    }

    /// Blocks needed by the extent tree outside the inode.
    pub fn tree_blocks_needed(&self) -> usize {
        let extents = self.extents.len();
        if extents <= EXTENTS_INLINE { 0 } else { extents.div_ceil(EXTENTS_PER_BLOCK) }
    }
}

/// Runs of blocks in file order. The first, often the only one, is stored inline.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extents {
    first: (u32, u32),
    rest: Vec<(u32, u32)>,
    blocks: u32,
}

impl Extents {
    pub fn len(&self) -> usize {
        usize::from(self.first.1 > 0) + self.rest.len()
    }

    pub const fn blocks(&self) -> u32 {
        self.blocks
    }

    /// Adds a run at the end.
    pub fn push(&mut self, start: u32, len: u32) {
        self.blocks += len;
        if self.first.1 == 0 {
            self.first = (start, len);
            return;
        }
        let last = self.rest.last_mut().unwrap_or(&mut self.first);
        if last.0 + last.1 == start {
            last.1 += len;
        } else {
            self.rest.push((start, len));
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        Some(self.first).filter(|first| first.1 > 0).into_iter().chain(self.rest.iter().copied())
    }

    /// The block after the last one, the best place to continue the file.
    pub fn end(&self) -> Option<u32> {
        let (start, len) = self.rest.last().copied().unwrap_or(self.first);
        (len > 0).then_some(start + len)
    }

    /// Runs with up to `len` of the file's blocks, starting at block `from`.
    pub fn part(&self, from: u32, len: u32) -> impl Iterator<Item = (u32, u32)> + '_ {
        let (mut skip, mut left) = (from, len);
        self.iter().filter_map(move |(start, run)| {
            if skip >= run {
                skip -= run;
                return None;
            }
            let n = (run - skip).min(left);
            let part = (start + skip, n);
            skip = 0;
            left -= n;
            (n > 0).then_some(part)
        })
    }
}

/// Directory entries, as far as traffic depends on them: the block of each.
///
/// A small directory is one block. A larger one is a hash tree (`dir_index`): a root
/// block, and leaves that split in half when full. A catalogue is the same, sorted by
/// name.
#[derive(Clone, Debug)]
pub struct Dir {
    leaves: Vec<Leaf>,
    /// Entries, `.` and `..` not among them.
    pub entries: u32,
    /// Flexible group of the last file that did not fit into the directory's own.
    pub overflow_group: Option<u32>,
}

#[derive(Clone, Debug)]
struct Leaf {
    /// Smallest key in this leaf; ends at the `low` of the next.
    low: u64,
    /// Index of the block in the directory.
    block: u32,
    bytes: u32,
    /// Sorted keys of the entries, with the bytes of each.
    keys: Vec<(u64, u16)>,
}

/// Bytes for entries in a leaf; the rest is a checksum.
const LEAF_BYTES: u32 = BLOCK as u32 - 12;
/// Bytes of `.` and `..` in a directory of one block.
const DOTS_BYTES: u32 = 24;

/// Bytes of a directory entry: 8 plus the name, in multiples of 4.
pub fn entry_bytes(name: &str) -> u16 {
    (8 + name.len().min(255).next_multiple_of(4)) as u16
}

/// Sort key of a catalogue: the first bytes of the name.
pub fn name_key(name: &str, hash: u64) -> u64 {
    let mut key = [0; 8];
    for (to, from) in key.iter_mut().zip(name.bytes().take(5)) {
        *to = from;
    }
    u64::from_be_bytes(key) | (hash & 0xff_ffff)
}

impl Dir {
    pub(super) fn new() -> Self {
        let only = Leaf { low: 0, block: 0, bytes: DOTS_BYTES, keys: Vec::new() };
        Self { leaves: alloc::vec![only], entries: 0, overflow_group: None }
    }

    fn leaf_of(&self, key: u64) -> usize {
        self.leaves.partition_point(|leaf| leaf.low <= key) - 1
    }

    /// Block of the directory with the entry of `key`.
    pub fn block_of(&self, key: u64) -> u32 {
        self.leaves[self.leaf_of(key)].block
    }

    /// Blocks of the directory.
    pub fn blocks(&self) -> u32 {
        let root = u32::from(self.leaves.len() > 1);
        self.leaves.len() as u32 + root
    }

    /// Adds an entry; returns its block.
    pub(super) fn insert(&mut self, key: u64, bytes: u16) -> u32 {
        let mut at = self.leaf_of(key);
        if self.leaves[at].bytes + u32::from(bytes) > LEAF_BYTES {
            at = self.split(at, key);
        }
        let leaf = &mut self.leaves[at];
        let place = leaf.keys.partition_point(|(other, _)| *other <= key);
        leaf.keys.insert(place, (key, bytes));
        leaf.bytes += u32::from(bytes);
        self.entries += 1;
        leaf.block
    }

    /// Splits a full leaf; returns the half for `key`.
    fn split(&mut self, at: usize, key: u64) -> usize {
        if self.leaves.len() == 1 {
            // The only block becomes the root, and its entries move to the first leaf.
            self.leaves[0].block = 1;
            self.leaves[0].bytes -= DOTS_BYTES;
        }
        let block = self.leaves.len() as u32 + 1;
        let leaf = &mut self.leaves[at];
        let mut kept = 0;
        let fits = |(_, bytes): &&(u64, u16)| {
            kept += u32::from(*bytes);
            kept <= LEAF_BYTES / 2
        };
        let half = leaf.keys.iter().take_while(fits).count().clamp(1, leaf.keys.len() - 1);
        let keys = leaf.keys.split_off(half);
        let bytes = keys.iter().map(|(_, bytes)| u32::from(*bytes)).sum();
        leaf.bytes -= bytes;
        let low = keys[0].0;
        self.leaves.insert(at + 1, Leaf { low, block, bytes, keys });
        at + usize::from(low <= key)
    }

    /// Removes an entry; returns its block.
    pub(super) fn remove(&mut self, key: u64) -> u32 {
        let mut at = self.leaf_of(key);
        loop {
            let leaf = &mut self.leaves[at];
            if let Ok(place) = leaf.keys.binary_search_by(|(other, _)| other.cmp(&key)) {
                let (_, bytes) = leaf.keys.remove(place);
                leaf.bytes -= u32::from(bytes);
                self.entries -= 1;
                return leaf.block;
            }
            // Entries with equal keys may be split across leaves.
            assert!(at > 0, "no entry with key {key:x}");
            at -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::format;
    use trimtab_drive::rng::Stream;

    #[test]
    fn directory_grows_like_ext4() {
        // 20,000 entries of 16 bytes, 255 per leaf; random splits leave leaves 69 % full.
        let mut dir = Dir::new();
        let mut keys = Vec::new();
        for i in 10_000..30_000 {
            keys.push(hash(1, &format!("{i}")));
            dir.insert(*keys.last().unwrap(), entry_bytes("12345"));
            assert!(dir.blocks() > 1 || dir.entries <= 253, "{}", dir.entries);
        }
        assert!((105..125).contains(&dir.blocks()), "{} blocks", dir.blocks());
        let mut rng = Stream::new(1, "dir");
        rng.shuffle(&mut keys);
        for key in &keys {
            assert_eq!(dir.block_of(*key), dir.remove(*key));
        }
        assert_eq!(dir.entries, 0);
        assert!(dir.leaves.iter().all(|leaf| leaf.bytes == 0 && leaf.block > 0));
    }

    #[test]
    fn extents_part_returns_file_order() {
        let mut extents = Extents::default();
        for (start, len) in [(100, 5), (105, 5), (300, 10), (50, 1)] {
            extents.push(start, len);
        }
        assert_eq!((extents.len(), extents.blocks(), extents.end()), (3, 21, Some(51)));
        assert_eq!(extents.part(0, 100).collect::<Vec<_>>(), [(100, 10), (300, 10), (50, 1)]);
        assert_eq!(extents.part(9, 3).collect::<Vec<_>>(), [(109, 1), (300, 2)]);
        assert_eq!(extents.part(20, 1).collect::<Vec<_>>(), [(50, 1)]);
        assert_eq!(extents.part(21, 1).count(), 0);
    }
}
