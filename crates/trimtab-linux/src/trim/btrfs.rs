//! The chunks of btrfs: their logical addresses and their places on the devices.
//!
//! FITRIM on btrfs takes logical addresses, which increase with each balance: windows
//! must be computed from the chunks.

use crate::sys::filesystem::{BtrfsSearch, btrfs_device_path, btrfs_search};
use rustix::fd::AsFd;
use rustix::io::Errno;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

const EXTENT_TREE: u64 = 2;
const EXTENT_ITEM: u32 = 168;
const METADATA_ITEM: u32 = 169;
const EXTENT_BYTES_MAX: u64 = 128 << 20;
const NODE_BYTES_MAX: u64 = 64 << 10;
const CHUNK_TREE: u64 = 3;
const FIRST_CHUNK: u64 = 256;
const CHUNK_ITEM: u32 = 228;
const HEADER: usize = 32;
/// Size of `struct btrfs_chunk` without stripes, and of one stripe.
const CHUNK_HEAD: usize = 48;
const STRIPE: usize = 32;

/// Profile bits of a chunk's type.
const RAID0: u64 = 1 << 3;
const RAID10: u64 = 1 << 6;
const RAID56: u64 = 1 << 7 | 1 << 8;

/// A copy or a part of a chunk on one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stripe {
    /// Device id inside the filesystem.
    pub device: u64,
    /// Byte offset on the device.
    pub offset: u64,
}

/// A chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BtrfsChunk {
    /// First logical address.
    pub logical: u64,
    /// Bytes.
    pub len: u64,
    kind: u64,
    stripe_len: u64,
    /// Number of devices that hold the same bytes in RAID10.
    sub_stripes: u64,
    stripes: Vec<Stripe>,
}

/// All chunks of the filesystem of `file`, by logical address. Requires root.
pub fn chunks(file: impl AsFd) -> Result<Vec<BtrfsChunk>, Errno> {
    let mut chunks: Vec<BtrfsChunk> = Vec::new();
    let mut from = 0;
    loop {
        let (objects, types) = ((FIRST_CHUNK, FIRST_CHUNK), (CHUNK_ITEM, CHUNK_ITEM));
        let (count, items) = btrfs_search(
            &file,
            &BtrfsSearch { tree: CHUNK_TREE, objects, types, offsets: (from, u64::MAX) },
        )?;
        let found = parse_items(&items, count);
        let Some(last) = found.last() else { break };
        let Some(next) = last.logical.checked_add(1) else { break };
        chunks.extend(found);
        from = next;
    }
    Ok(chunks)
}

/// Some of the `len` bytes at logical `address` are in use as of the last commit.
/// Requires root.
pub fn is_used(file: impl AsFd, address: u64, len: u64) -> Result<bool, Errno> {
    let end = address.saturating_add(len);
    let (mut object, mut kind, mut offset) = (address.saturating_sub(EXTENT_BYTES_MAX), 0, 0);
    loop {
        let (objects, types, offsets) =
            ((object, end.saturating_sub(1)), (kind, u32::MAX), (offset, u64::MAX));
        let (count, items) =
            btrfs_search(&file, &BtrfsSearch { tree: EXTENT_TREE, objects, types, offsets })?;
        let keys = parse_keys(&items, count);
        let used = |&(start, kind, len): &(u64, u32, u64)| {
            // For a tree node, the level is stored in place of the length.
            let len = if kind == METADATA_ITEM { NODE_BYTES_MAX } else { len };
            matches!(kind, EXTENT_ITEM | METADATA_ITEM)
                && start < end
                && start.saturating_add(len) > address
        };
        if keys.iter().any(used) {
            return Ok(true);
        }
        // The next key in tree order.
        let Some(&(last_object, last_kind, last_offset)) = keys.last() else { return Ok(false) };
        (object, kind, offset) = match last_offset.checked_add(1) {
            Some(offset) => (last_object, last_kind, offset),
            None => (last_object, last_kind + 1, 0),
        };
    }
}

/// The keys (object, type, offset) of the first `count` items of a search buffer.
fn parse_keys(buffer: &[u8], count: u32) -> Vec<(u64, u32, u64)> {
    let mut keys = Vec::new();
    let mut rest = buffer;
    for _ in 0..count {
        let (Some(object), Some(offset)) = (u64_at(rest, 8), u64_at(rest, 16)) else { break };
        let (Some(kind), Some(len)) = (u32_at(rest, 24), u32_at(rest, 28)) else { break };
        let Some(after) = rest.get(HEADER.saturating_add(len as usize)..) else { break };
        keys.push((object, kind, offset));
        rest = after;
    }
    keys
}

/// The chunk items in the first `count` items of a search buffer, without truncated ones.
pub fn parse_items(buffer: &[u8], count: u32) -> Vec<BtrfsChunk> {
    let mut chunks = Vec::new();
    let mut rest = buffer;
    for _ in 0..count {
        let (Some(offset), Some(kind), Some(len)) =
            (u64_at(rest, 16), u32_at(rest, 24), u32_at(rest, 28))
        else {
            break;
        };
        let Some(item) = rest.get(HEADER..HEADER.saturating_add(len as usize)) else { break };
        if kind == CHUNK_ITEM {
            chunks.extend(parse_chunk(offset, item));
        }
        rest = &rest[HEADER + len as usize..];
    }
    chunks
}

/// Parses a packed `struct btrfs_chunk` (include/uapi/linux/btrfs_tree.h).
fn parse_chunk(logical: u64, item: &[u8]) -> Option<BtrfsChunk> {
    let u16_at = |at: usize| item.get(at..at + 2).map(|b| u16::from_le_bytes([b[0], b[1]]));
    let count = usize::from(u16_at(44)?);
    let stripe = |n: usize| {
        Some(Stripe {
            device: u64_at(item, CHUNK_HEAD + n * STRIPE)?,
            offset: u64_at(item, CHUNK_HEAD + n * STRIPE + 8)?,
        })
    };
    Some(BtrfsChunk {
        logical,
        len: u64_at(item, 0)?,
        kind: u64_at(item, 24)?,
        stripe_len: u64_at(item, 16)?,
        sub_stripes: u64::from(u16_at(46)?),
        stripes: (0..count).map(stripe).collect::<Option<_>>()?,
    })
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..at + 8).map(|b| u64::from_le_bytes(b.try_into().unwrap_or_default()))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4).map(|b| u32::from_le_bytes(b.try_into().unwrap_or_default()))
}

impl BtrfsChunk {
    /// A chunk without stripes.
    #[cfg(test)]
    pub const fn of(logical: u64, len: u64) -> Self {
        Self { logical, len, kind: 0, stripe_len: 0, sub_stripes: 0, stripes: Vec::new() }
    }

    /// Ids of the devices that hold parts of the chunk.
    pub fn devices(&self) -> impl Iterator<Item = u64> {
        self.stripes.iter().map(|s| s.device)
    }

    /// The place of a logical address on the devices, for each copy, and the number of
    /// bytes that are contiguous from there. `None` for parity profiles, whose places
    /// rotate.
    pub fn place(&self, logical: u64) -> Option<(Vec<Stripe>, u64)> {
        let inside = logical.checked_sub(self.logical).filter(|i| *i < self.len)?;
        let on = |stripe: &Stripe, offset: u64| {
            Some(Stripe { device: stripe.device, offset: stripe.offset.checked_add(offset)? })
        };
        if self.kind & RAID56 != 0 || self.stripes.is_empty() {
            return None;
        }
        if self.kind & (RAID0 | RAID10) == 0 {
            // A single copy, or the same data on every stripe.
            let copies = self.stripes.iter().map(|s| on(s, inside)).collect::<Option<_>>()?;
            return Some((copies, self.len - inside));
        }
        let copies = if self.kind & RAID10 != 0 { self.sub_stripes.max(1) } else { 1 };
        let columns = (self.stripes.len() as u64 / copies).max(1);
        let row = inside.checked_div(self.stripe_len)?;
        let within = inside % self.stripe_len;
        let column = row % columns;
        let offset = (row / columns).checked_mul(self.stripe_len)?.checked_add(within)?;
        let first = usize::try_from(column * copies).ok()?;
        let places = self
            .stripes
            .get(first..first + copies as usize)?
            .iter()
            .map(|s| on(s, offset))
            .collect::<Option<_>>()?;
        Some((places, self.stripe_len - within))
    }
}

/// The path of the device with this id in the filesystem of `file`.
pub fn device_path(file: impl AsFd, id: u64) -> Result<PathBuf, Errno> {
    btrfs_device_path(file, id).map(|path| PathBuf::from(OsString::from_vec(path)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn chunk(kind: u64, sub_stripes: u64, devices: u64) -> BtrfsChunk {
        let stripes = (1..=devices).map(|device| Stripe { device, offset: device << 30 }).collect();
        BtrfsChunk {
            logical: 1 << 40,
            len: 1 << 30,
            kind,
            stripe_len: 65_536,
            sub_stripes,
            stripes,
        }
    }

    #[test]
    fn place_maps_logical_address_to_devices() {
        let at = |c: &BtrfsChunk, inside: u64| {
            c.place((1 << 40) + inside).map(|(s, n)| {
                (s.iter().map(|s| (s.device, s.offset - (s.device << 30))).collect::<Vec<_>>(), n)
            })
        };
        assert_eq!(at(&chunk(1, 1, 1), 5), Some((vec![(1, 5)], (1 << 30) - 5)));
        assert_eq!(
            at(&chunk(1 | 1 << 4, 1, 2), 5),
            Some((vec![(1, 5), (2, 5)], (1 << 30) - 5)),
            "RAID1"
        );
        assert_eq!(
            at(&chunk(1 | RAID0, 1, 2), 65_536 * 3 + 7),
            Some((vec![(2, 65_536 + 7)], 65_529)),
            "RAID0"
        );
        assert_eq!(
            at(&chunk(1 | RAID10, 2, 4), 65_536),
            Some((vec![(3, 0), (4, 0)], 65_536)),
            "RAID10"
        );
        assert_eq!(at(&chunk(1 | 1 << 7, 1, 3), 0), None, "parity");
        assert_eq!(at(&chunk(1, 1, 1), 1 << 30), None, "beyond the end");
    }

    proptest! {
        #[test]
        fn parse_items_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..600), count in any::<u32>()) {
            for chunk in parse_items(&bytes, count % 100) {
                let _ = chunk.place(chunk.logical);
            }
        }
    }
}
