//! Blocks freed by a transaction, merged like in the kernel.

use super::group::GROUP_BLOCKS;
use super::search_tree::SearchTree;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// Merge rule for adjacent freed extents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergeRule {
    /// Always, within a block group (Linux up to 6.16).
    Full,
    /// Only with the extent at which the red-black tree search for the position ends, the
    /// deeper neighbour; then the result also merges with the other neighbour (Linux 6.17
    /// and later, observed on 6.18).
    SearchPath,
}

/// Freed extents that cannot be reused yet.
#[derive(Clone, Debug, Default)]
pub struct FreedExtents {
    /// Length and insertion number by start.
    extents: BTreeMap<u32, (u32, u32)>,
    inserted: u32,
    blocks: u64,
    /// Starts in each group, for [`Merging::SearchPath`].
    trees: BTreeMap<u32, SearchTree>,
}

impl FreedExtents {
    pub const fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Adds a newly freed run.
    pub fn add(&mut self, start: u32, len: u32, merging: MergeRule) {
        super::alloc::split_by_group(start, len, |group, at, len| {
            self.add_in_group(group as u32 * GROUP_BLOCKS + at, len, merging)
        });
    }

    fn add_in_group(&mut self, start: u32, len: u32, merging: MergeRule) {
        self.blocks += u64::from(len);
        let group = start / GROUP_BLOCKS;
        let same_group = |(at, _): &(u32, (u32, u32))| *at / GROUP_BLOCKS == group;
        let before =
            self.extents.range(..start).next_back().map(|(at, e)| (*at, *e)).filter(same_group);
        let after =
            self.extents.range(start + 1..).next().map(|(at, e)| (*at, *e)).filter(same_group);
        let touches_before = before.is_some_and(|(at, (n, _))| at + n == start);
        let touches_after = after.is_some_and(|(at, _)| start + len == at);
        let mut tree =
            (merging == MergeRule::SearchPath).then(|| self.trees.entry(group).or_default());
        let found = match &tree {
            None => touches_before || touches_after,
            Some(tree) => {
                let end = tree.last_visited(start);
                end.is_some_and(|end| if end > start { touches_after } else { touches_before })
            }
        };
        self.inserted += 1;
        let mut extent = (start, len, self.inserted);
        let (before, after) =
            (before.filter(|_| found && touches_before), after.filter(|_| found && touches_after));
        if let Some((at, (n, stamp))) = after {
            self.extents.remove(&at);
            extent = (start, len + n, stamp);
        }
        if let Some((at, (n, stamp))) = before {
            extent = (at, extent.1 + n, stamp);
        }
        if let Some(tree) = &mut tree {
            match (before, after) {
                (None, None) => tree.insert(start),
                (None, Some((at, _))) => tree.rename(at, start),
                (Some(_), None) => {}
                (Some(_), Some((at, _))) => tree.remove(at),
            }
        }
        self.extents.insert(extent.0, (extent.1, extent.2));
    }

    pub fn into_order(self) -> Vec<(u32, u32)> {
        let mut extents: Vec<(u32, u32, u32)> =
            self.extents.into_iter().map(|(start, (len, stamp))| (stamp, start, len)).collect();
        extents.sort_unstable();
        extents.into_iter().map(|(_, start, len)| (start, len)).collect()
    }

    pub fn iter(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.extents.iter().map(|(start, (len, _))| (*start, *len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trimtab_drive::rng::Stream;

    fn pieces(order: &[u32], merging: MergeRule) -> usize {
        let mut freed = FreedExtents::default();
        for at in order {
            freed.add(at * 4, 4, merging);
        }
        assert_eq!(freed.blocks(), order.len() as u64 * 4);
        assert_eq!(freed.iter().map(|(_, len)| u64::from(len)).sum::<u64>(), freed.blocks());
        freed.into_order().len()
    }

    #[test]
    fn freed_in_order_merges_to_one_and_random_to_a_sixth() {
        let mut order: Vec<u32> = (0..8000).collect();
        assert_eq!(pieces(&order, MergeRule::SearchPath), 1);
        order.reverse();
        assert_eq!(pieces(&order, MergeRule::SearchPath), 1);
        Stream::new(1, "freed").shuffle(&mut order);
        assert_eq!(pieces(&order, MergeRule::Full), 1);
        let left = pieces(&order, MergeRule::SearchPath);
        assert!((8000 / 7..8000 / 5).contains(&left), "{left}");
    }

    #[test]
    fn extents_never_span_groups() {
        let mut freed = FreedExtents::default();
        freed.add(GROUP_BLOCKS - 10, 20, MergeRule::Full);
        assert_eq!(freed.into_order(), [(GROUP_BLOCKS - 10, 10), (GROUP_BLOCKS, 10)]);
    }
}
