//! A red-black tree with one query: the key at which an unsuccessful search ends.

use alloc::vec;
use alloc::vec::Vec;

/// No node: the black leaf, index 0.
const NIL: usize = 0;

#[derive(Clone, Copy, Debug, Default)]
struct Node {
    key: u32,
    red: bool,
    parent: usize,
    /// Smaller keys, larger keys.
    child: [usize; 2],
}

#[derive(Clone, Debug)]
pub struct SearchTree {
    nodes: Vec<Node>,
    spare: Vec<usize>,
    root: usize,
}

impl Default for SearchTree {
    fn default() -> Self {
        Self { nodes: vec![Node::default()], spare: Vec::new(), root: NIL }
    }
}

impl SearchTree {
    /// Key at which the search for the absent `key` ends.
    pub fn last_visited(&self, key: u32) -> Option<u32> {
        let end = self.descend(key);
        (end != NIL).then(|| self.nodes[end].key)
    }

    fn descend(&self, key: u32) -> usize {
        let (mut at, mut last) = (self.root, NIL);
        while at != NIL {
            last = at;
            at = self.nodes[at].child[usize::from(key > self.nodes[at].key)];
        }
        last
    }

    fn find(&self, key: u32) -> usize {
        let mut at = self.root;
        while self.nodes[at].key != key {
            at = self.nodes[at].child[usize::from(key > self.nodes[at].key)];
            assert!(at != NIL, "key {key} is not in the tree");
        }
        at
    }

    /// Changes a key without changing the order of keys.
    pub fn rename(&mut self, key: u32, to: u32) {
        let node = self.find(key);
        self.nodes[node].key = to;
    }

    pub fn insert(&mut self, key: u32) {
        let parent = self.descend(key);
        let node = Node { key, red: true, parent, child: [NIL; 2] };
        let new = match self.spare.pop() {
            Some(spare) => {
                self.nodes[spare] = node;
                spare
            }
            None => {
                self.nodes.push(node);
                self.nodes.len() - 1
            }
        };
        if parent == NIL {
            self.root = new;
        } else {
            let side = usize::from(key > self.nodes[parent].key);
            self.nodes[parent].child[side] = new;
        }
        self.balance_after_insertion(new);
    }

    fn side(&self, node: usize) -> usize {
        usize::from(self.nodes[self.nodes[node].parent].child[1] == node)
    }

    fn replace(&mut self, old: usize, new: usize) {
        let parent = self.nodes[old].parent;
        if parent == NIL {
            self.root = new;
        } else {
            let side = self.side(old);
            self.nodes[parent].child[side] = new;
        }
        // Also for the leaf: balancing uses its parent.
        self.nodes[new].parent = parent;
    }

    /// Raises the opposite child and lowers `node` to `side`.
    fn rotate(&mut self, node: usize, side: usize) {
        let up = self.nodes[node].child[1 - side];
        let inner = self.nodes[up].child[side];
        self.replace(node, up);
        self.nodes[up].child[side] = node;
        self.nodes[node].parent = up;
        self.nodes[node].child[1 - side] = inner;
        if inner != NIL {
            self.nodes[inner].parent = node;
        }
    }

    fn balance_after_insertion(&mut self, mut node: usize) {
        while self.nodes[self.nodes[node].parent].red {
            let mut parent = self.nodes[node].parent;
            let grandparent = self.nodes[parent].parent;
            let side = self.side(parent);
            let uncle = self.nodes[grandparent].child[1 - side];
            if self.nodes[uncle].red {
                self.nodes[parent].red = false;
                self.nodes[uncle].red = false;
                self.nodes[grandparent].red = true;
                node = grandparent;
                continue;
            }
            if self.side(node) != side {
                self.rotate(parent, side);
                (node, parent) = (parent, node);
            }
            self.nodes[parent].red = false;
            self.nodes[grandparent].red = true;
            self.rotate(grandparent, 1 - side);
        }
        let root = self.root;
        self.nodes[root].red = false;
    }

    /// Removes a present key. With two children, its successor replaces it.
    pub fn remove(&mut self, key: u32) {
        let node = self.find(key);
        let [lesser, greater] = self.nodes[node].child;
        let (gone_red, fill);
        if lesser == NIL || greater == NIL {
            fill = if lesser == NIL { greater } else { lesser };
            gone_red = self.nodes[node].red;
            self.replace(node, fill);
        } else {
            let mut next = greater;
            while self.nodes[next].child[0] != NIL {
                next = self.nodes[next].child[0];
            }
            gone_red = self.nodes[next].red;
            fill = self.nodes[next].child[1];
            if next == greater {
                self.nodes[fill].parent = next;
            } else {
                self.replace(next, fill);
                self.nodes[next].child[1] = greater;
                self.nodes[greater].parent = next;
            }
            self.replace(node, next);
            self.nodes[next].child[0] = lesser;
            self.nodes[lesser].parent = next;
            self.nodes[next].red = self.nodes[node].red;
        }
        if !gone_red {
            self.balance_after_removal(fill);
        }
        self.spare.push(node);
    }

    /// Restores the balance below `node`, where one black node is missing.
    fn balance_after_removal(&mut self, mut node: usize) {
        while node != self.root && !self.nodes[node].red {
            let parent = self.nodes[node].parent;
            let side = self.side_of_possible_leaf(node, parent);
            let mut sibling = self.nodes[parent].child[1 - side];
            if self.nodes[sibling].red {
                self.nodes[sibling].red = false;
                self.nodes[parent].red = true;
                self.rotate(parent, side);
                sibling = self.nodes[parent].child[1 - side];
            }
            let nephews = self.nodes[sibling].child;
            if !self.nodes[nephews[0]].red && !self.nodes[nephews[1]].red {
                self.nodes[sibling].red = true;
                node = parent;
                continue;
            }
            if !self.nodes[nephews[1 - side]].red {
                self.nodes[nephews[side]].red = false;
                self.nodes[sibling].red = true;
                self.rotate(sibling, 1 - side);
                sibling = self.nodes[parent].child[1 - side];
            }
            self.nodes[sibling].red = self.nodes[parent].red;
            self.nodes[parent].red = false;
            let outer = self.nodes[sibling].child[1 - side];
            self.nodes[outer].red = false;
            self.rotate(parent, side);
            node = self.root;
        }
        self.nodes[node].red = false;
    }

    /// If both children may be the leaf, the missing one is the empty side.
    fn side_of_possible_leaf(&self, node: usize, parent: usize) -> usize {
        usize::from(self.nodes[parent].child[0] != node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use trimtab_drive::rng::Stream;

    impl SearchTree {
        /// Black nodes on every path from `at`.
        fn black_height(&self, at: usize, low: u32, high: u32) -> u32 {
            if at == NIL {
                return 1;
            }
            let Node { key, red, child, .. } = self.nodes[at];
            assert!((low..=high).contains(&key));
            for side in child {
                assert!(side == NIL || self.nodes[side].parent == at);
                assert!(!red || !self.nodes[side].red, "red below red");
            }
            let [a, b] =
                [self.black_height(child[0], low, key), self.black_height(child[1], key, high)];
            assert_eq!(a, b, "black heights below {key}");
            a + u32::from(!red)
        }

        fn keys(&self, at: usize, into: &mut Vec<u32>) {
            if at != NIL {
                self.keys(self.nodes[at].child[0], into);
                into.push(self.nodes[at].key);
                self.keys(self.nodes[at].child[1], into);
            }
        }
    }

    #[test]
    fn tree_stays_red_black_after_any_changes() {
        let mut rng = Stream::new(1, "search tree");
        let (mut tree, mut set) = (SearchTree::default(), BTreeSet::new());
        for round in 0..20_000 {
            let key = 2 * rng.below(400) as u32;
            if set.insert(key) {
                tree.insert(key);
            } else if rng.chance(0.8) {
                set.remove(&key);
                tree.remove(key);
            } else if set.insert(key + 1) {
                set.remove(&key);
                tree.rename(key, key + 1);
                set.remove(&(key + 1));
                tree.remove(key + 1);
            }
            if round % 16 == 0 {
                assert!(!tree.nodes[tree.root].red && !tree.nodes[NIL].red);
                tree.black_height(tree.root, 0, u32::MAX);
                let mut keys = Vec::new();
                tree.keys(tree.root, &mut keys);
                assert!(keys.iter().eq(set.iter()));
            }
        }
    }

    #[test]
    fn last_visited_is_the_deeper_neighbour() {
        let mut tree = SearchTree::default();
        assert_eq!(tree.last_visited(5), None);
        for key in [10, 20, 30] {
            tree.insert(key);
        }
        // 20 is now the root: both searches end below it.
        assert_eq!((tree.last_visited(15), tree.last_visited(25)), (Some(10), Some(30)));
    }
}
