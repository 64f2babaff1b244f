//! Lookup of nodes by directory and name: an open-addressing hash table without names.

use alloc::vec;
use alloc::vec::Vec;

pub const NONE: u32 = u32::MAX;

/// A table of node numbers. The caller owns the nodes; it passes hashes and compares.
#[derive(Clone, Debug)]
pub struct Names {
    /// Hash and node; a power of two of slots, at most two thirds in use.
    slots: Vec<(u32, u32)>,
    len: usize,
}

/// Hash of a name in a directory.
#[must_use]
pub fn hash(parent: u32, name: &str) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64 ^ u64::from(parent).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for byte in name.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    // The multiplications above hardly mix the low bits of short names.
    (hash ^ (hash >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

impl Names {
    pub(super) fn new() -> Self {
        Self { slots: vec![(0, NONE); 64], len: 0 }
    }

    const fn start(&self, hash: u64) -> usize {
        (hash >> 32) as usize & (self.slots.len() - 1)
    }

    /// Node with this hash for which `is` returns true.
    pub(super) fn find(&self, hash: u64, mut is: impl FnMut(u32) -> bool) -> Option<u32> {
        let mut at = self.start(hash);
        loop {
            let (other, node) = self.slots[at];
            if node == NONE {
                return None;
            }
            if other == hash as u32 && is(node) {
                return Some(node);
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
    }

    /// Adds an absent node. `hash_of` returns the hash of any node in the table.
    pub(super) fn insert(&mut self, hash: u64, node: u32, hash_of: impl Fn(u32) -> u64) {
        if (self.len + 1) * 3 > self.slots.len() * 2 {
            let old = core::mem::take(&mut self.slots);
            self.slots = vec![(0, NONE); old.len() * 2];
            for (_, node) in old.into_iter().filter(|(_, node)| *node != NONE) {
                self.put(hash_of(node), node);
            }
        }
        self.put(hash, node);
        self.len += 1;
    }

    fn put(&mut self, hash: u64, node: u32) {
        let mut at = self.start(hash);
        while self.slots[at].1 != NONE {
            at = (at + 1) & (self.slots.len() - 1);
        }
        self.slots[at] = (hash as u32, node);
    }

    /// Removes a present node.
    pub(super) fn remove(&mut self, hash: u64, node: u32, hash_of: impl Fn(u32) -> u64) {
        let mask = self.slots.len() - 1;
        let mut at = self.start(hash);
        while self.slots[at].1 != node {
            assert!(self.slots[at].1 != NONE, "node {node} is not in the table of names");
            at = (at + 1) & mask;
        }
        // Moves later entries back over the gap where their position allows it.
        let mut gap = at;
        loop {
            at = (at + 1) & mask;
            let (_, moved) = self.slots[at];
            if moved == NONE {
                break;
            }
            let home = self.start(hash_of(moved));
            if (at.wrapping_sub(home) & mask) >= (at.wrapping_sub(gap) & mask) {
                self.slots[gap] = self.slots[at];
                gap = at;
            }
        }
        self.slots[gap] = (0, NONE);
        self.len -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::format;
    use trimtab_drive::rng::Stream;

    #[test]
    fn find_returns_only_inserted_names() {
        let mut rng = Stream::new(1, "names");
        let mut names = Names::new();
        let mut nodes: Vec<Option<u64>> = Vec::new();
        let mut there: BTreeMap<u64, u32> = BTreeMap::new();
        for _ in 0..20_000 {
            let h = hash(rng.below(3) as u32, &format!("f{}", rng.below(500)));
            let hash_of = |nodes: &Vec<Option<u64>>, n: u32| nodes[n as usize].unwrap();
            let found = names.find(h, |n| nodes[n as usize] == Some(h));
            assert_eq!(found, there.get(&h).copied());
            if let Some(node) = found {
                names.remove(h, node, |n| hash_of(&nodes, n));
                nodes[node as usize] = None;
                there.remove(&h);
            } else {
                let node = nodes.len() as u32;
                nodes.push(Some(h));
                names.insert(h, node, |n| hash_of(&nodes, n));
                there.insert(h, node);
            }
        }
        assert_eq!(names.len, there.len());
    }
}
