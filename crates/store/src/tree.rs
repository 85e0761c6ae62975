//! Tree: the keys in order, with the number of living keys below every node.
//!
//! A B+ tree over slots. Leaves hold slots in key order, linked to their neighbours for scans, and
//! one bit per slot saying whether the key is alive at head; inner nodes hold the count of living
//! keys of each child. So a range is counted in O(log n), whatever lies in it, and an update of an
//! existing key does not come here at all: only creating, deleting, reviving and forgetting a key
//! does.
//!
//! Keys themselves are looked up through `KeyOf`, except the separators of inner nodes, which own a
//! copy because the key they were taken from may be forgotten.
//!
//! A leaf is merged with its right neighbour when both are nearly empty, and given back when it is
//! empty; inner nodes are given back when empty. Counting assumes nothing about how full nodes are.

use crate::keys::Slot;

const LEAF_SLOTS: usize = 64;
const INNER_CHILDREN: usize = 64;
/// A leaf this small looks for a neighbour to merge with.
const LEAF_SPARSE: usize = LEAF_SLOTS / 4;
/// How full bulk loading leaves nodes, so that the first inserts after it do not split every leaf.
const LOAD_FILL: usize = LEAF_SLOTS * 3 / 4;

const _: () = assert!(LEAF_SLOTS <= u64::BITS as usize, "one word holds the living bits of a leaf");

type NodeId = u32;
const NONE: NodeId = NodeId::MAX;

/// Access to the bytes of a key by its slot.
pub(crate) trait KeyOf<'k> {
    fn key_of(&self, slot: Slot) -> &'k [u8];
}

impl<'k, F: Fn(Slot) -> &'k [u8]> KeyOf<'k> for F {
    fn key_of(&self, slot: Slot) -> &'k [u8] {
        self(slot)
    }
}

enum Node {
    Free,
    Leaf(Leaf),
    Inner(Inner),
}

struct Leaf {
    slots: Vec<Slot>,
    live: u64,
    prev: NodeId,
    next: NodeId,
}

struct Inner {
    children: Vec<NodeId>,
    /// `bounds[i]` is a lower bound of the keys in child i + 1 and above all keys of child i.
    bounds: Vec<Box<[u8]>>,
    /// Living keys below each child.
    live: Vec<u64>,
}

pub(crate) struct Tree {
    nodes: Vec<Node>,
    free: Vec<NodeId>,
    root: NodeId,
}

/// A place in the tree: the slot at `index` of a leaf, or the end of that leaf.
#[derive(Clone, Copy)]
pub(crate) struct Cursor {
    leaf: NodeId,
    index: usize,
}

/// The way from the root to a leaf: inner nodes with the child taken in each.
type Path = Vec<(NodeId, usize)>;

impl Default for Tree {
    fn default() -> Tree {
        let root = Node::Leaf(Leaf { slots: Vec::new(), live: 0, prev: NONE, next: NONE });
        Tree { nodes: vec![root], free: Vec::new(), root: 0 }
    }
}

impl Leaf {
    fn live_count(&self) -> u64 {
        u64::from(self.live.count_ones())
    }

    fn insert(&mut self, at: usize, slot: Slot) {
        let low = self.live & low_bits(at);
        let high = self.live & !low_bits(at);
        self.live = low | (high << 1) | (1 << at);
        self.slots.insert(at, slot);
    }

    fn remove(&mut self, at: usize) {
        let low = self.live & low_bits(at);
        let high = self.live & !low_bits(at + 1);
        self.live = low | (high >> 1);
        self.slots.remove(at);
    }
}

/// The lowest `n` bits set.
fn low_bits(n: usize) -> u64 {
    if n >= 64 { u64::MAX } else { (1 << n) - 1 }
}

impl Tree {
    /// Adds a living key that is not in the tree.
    pub(crate) fn insert<'k>(&mut self, keys: &impl KeyOf<'k>, slot: Slot) {
        let key = keys.key_of(slot);
        let (path, leaf) = self.descend(key);
        let at = self.lower_bound(keys, leaf, key);
        self.add_live(&path, 1);
        if self.leaf(leaf).slots.len() < LEAF_SLOTS {
            self.leaf_mut(leaf).insert(at, slot);
            return;
        }
        let appending = at == LEAF_SLOTS && self.leaf(leaf).next == NONE;
        // Keys that arrive in order leave full leaves behind instead of half-empty ones.
        let split_at = if appending { LEAF_SLOTS } else { LEAF_SLOTS / 2 };
        let right = self.split_leaf(leaf, split_at);
        if at >= split_at {
            self.leaf_mut(right).insert(at - split_at, slot);
        } else {
            self.leaf_mut(leaf).insert(at, slot);
        }
        let bound = keys.key_of(self.leaf(right).slots[0]).into();
        self.add_sibling(path, leaf, right, bound);
    }

    /// Takes a key out of the tree; its living bit is already down.
    pub(crate) fn remove<'k>(&mut self, keys: &impl KeyOf<'k>, slot: Slot) {
        let key = keys.key_of(slot);
        let (path, leaf) = self.descend(key);
        let at = self.lower_bound(keys, leaf, key);
        let node = self.leaf_mut(leaf);
        assert!(node.slots.get(at) == Some(&slot), "a removed key is in the tree");
        assert!(node.live & (1 << at) == 0, "a living key is not forgotten");
        node.remove(at);
        if node.slots.is_empty() {
            self.drop_leaf(path, leaf);
        } else if node.slots.len() < LEAF_SPARSE {
            self.merge_with_next(path, leaf);
        }
    }

    /// Says whether a key of the tree is alive at head.
    pub(crate) fn set_live<'k>(&mut self, keys: &impl KeyOf<'k>, slot: Slot, live: bool) {
        let key = keys.key_of(slot);
        let (path, leaf) = self.descend(key);
        let at = self.lower_bound(keys, leaf, key);
        let node = self.leaf_mut(leaf);
        assert!(node.slots.get(at) == Some(&slot), "a changed key is in the tree");
        let was = node.live & (1 << at) != 0;
        assert!(was != live, "a key is revived or deleted only once");
        node.live ^= 1 << at;
        self.add_live(&path, if live { 1 } else { -1 });
    }

    /// How many living keys sort before `key`.
    pub(crate) fn live_before<'k>(&self, keys: &impl KeyOf<'k>, key: &[u8]) -> u64 {
        let mut count = 0;
        let mut id = self.root;
        loop {
            match &self.nodes[id as usize] {
                Node::Inner(inner) => {
                    let child = inner.child_for(key);
                    count += inner.live[..child].iter().sum::<u64>();
                    id = inner.children[child];
                }
                Node::Leaf(leaf) => {
                    let at = self.lower_bound(keys, id, key);
                    return count + u64::from((leaf.live & low_bits(at)).count_ones());
                }
                Node::Free => unreachable!("a reachable node is in use"),
            }
        }
    }

    pub(crate) fn live_total(&self) -> u64 {
        match &self.nodes[self.root as usize] {
            Node::Inner(inner) => inner.live.iter().sum(),
            Node::Leaf(leaf) => leaf.live_count(),
            Node::Free => unreachable!("the root is in use"),
        }
    }

    /// The first key that is not below `key`.
    pub(crate) fn seek<'k>(&self, keys: &impl KeyOf<'k>, key: &[u8]) -> Cursor {
        let mut id = self.root;
        loop {
            match &self.nodes[id as usize] {
                Node::Inner(inner) => id = inner.children[inner.child_for(key)],
                Node::Leaf(_) => return Cursor { leaf: id, index: self.lower_bound(keys, id, key) },
                Node::Free => unreachable!("a reachable node is in use"),
            }
        }
    }

    /// The slot under the cursor, which then moves on; None at the end of the tree.
    pub(crate) fn next(&self, cursor: &mut Cursor) -> Option<Slot> {
        loop {
            let leaf = self.leaf(cursor.leaf);
            if let Some(&slot) = leaf.slots.get(cursor.index) {
                cursor.index += 1;
                return Some(slot);
            }
            if leaf.next == NONE {
                return None;
            }
            *cursor = Cursor { leaf: leaf.next, index: 0 };
        }
    }

    /// Builds a tree from slots in key order, each with its living bit.
    pub(crate) fn load<'k>(keys: &impl KeyOf<'k>, sorted: impl Iterator<Item = (Slot, bool)>) -> Tree {
        let mut tree = Tree { nodes: Vec::new(), free: Vec::new(), root: 0 };
        let mut sorted = sorted.peekable();
        let mut level: Vec<(NodeId, Box<[u8]>, u64)> = Vec::new();
        while let Some(&(first, _)) = sorted.peek() {
            let mut leaf = Leaf { slots: Vec::with_capacity(LEAF_SLOTS), live: 0, prev: NONE, next: NONE };
            for (slot, live) in sorted.by_ref().take(LOAD_FILL) {
                leaf.live |= u64::from(live) << leaf.slots.len();
                leaf.slots.push(slot);
            }
            let id = tree.nodes.len() as NodeId;
            if let Some(&(prev, _, _)) = level.last() {
                leaf.prev = prev;
                tree.leaf_mut(prev).next = id;
            }
            level.push((id, keys.key_of(first).into(), leaf.live_count()));
            tree.nodes.push(Node::Leaf(leaf));
        }
        if level.is_empty() {
            return Tree::default();
        }
        while level.len() > 1 {
            level = tree.load_level(level);
        }
        tree.root = level[0].0;
        tree
    }

    fn load_level(&mut self, below: Vec<(NodeId, Box<[u8]>, u64)>) -> Vec<(NodeId, Box<[u8]>, u64)> {
        let mut level = Vec::with_capacity(below.len() / LOAD_FILL + 1);
        let mut below = below.into_iter().peekable();
        while below.peek().is_some() {
            let mut inner = Inner { children: Vec::new(), bounds: Vec::new(), live: Vec::new() };
            let mut lowest = None;
            for (child, bound, live) in below.by_ref().take(LOAD_FILL) {
                match lowest {
                    None => lowest = Some(bound),
                    Some(_) => inner.bounds.push(bound),
                }
                inner.children.push(child);
                inner.live.push(live);
            }
            let live = inner.live.iter().sum();
            let id = self.nodes.len() as NodeId;
            self.nodes.push(Node::Inner(inner));
            level.push((id, lowest.expect("a node is made from at least one child"), live));
        }
        level
    }

    fn descend(&self, key: &[u8]) -> (Path, NodeId) {
        let mut path = Path::with_capacity(8);
        let mut id = self.root;
        while let Node::Inner(inner) = &self.nodes[id as usize] {
            let child = inner.child_for(key);
            path.push((id, child));
            id = inner.children[child];
        }
        (path, id)
    }

    /// Where `key` is or would be in a leaf.
    fn lower_bound<'k>(&self, keys: &impl KeyOf<'k>, leaf: NodeId, key: &[u8]) -> usize {
        self.leaf(leaf).slots.partition_point(|&slot| keys.key_of(slot) < key)
    }

    fn add_live(&mut self, path: &Path, delta: i64) {
        for &(id, child) in path {
            let live = &mut self.inner_mut(id).live[child];
            *live = live.checked_add_signed(delta).expect("a count never falls below zero");
        }
    }

    fn split_leaf(&mut self, left: NodeId, at: usize) -> NodeId {
        let next = self.leaf(left).next;
        let node = self.leaf_mut(left);
        let mut slots = Vec::with_capacity(LEAF_SLOTS);
        slots.extend(node.slots.drain(at..));
        let live = if at >= 64 { 0 } else { node.live >> at };
        node.live &= low_bits(at);
        let right = self.allocate(Node::Leaf(Leaf { slots, live, prev: left, next }));
        self.leaf_mut(left).next = right;
        if next != NONE {
            self.leaf_mut(next).prev = right;
        }
        right
    }

    /// Hangs `right` beside `left`, whose parents are `path`, splitting full parents upwards.
    fn add_sibling(&mut self, mut path: Path, mut left: NodeId, mut right: NodeId, mut bound: Box<[u8]>) {
        while let Some((parent, child)) = path.pop() {
            let (left_live, right_live) = (self.live_below(left), self.live_below(right));
            let inner = self.inner_mut(parent);
            inner.live[child] = left_live;
            inner.children.insert(child + 1, right);
            inner.live.insert(child + 1, right_live);
            inner.bounds.insert(child, bound);
            if inner.children.len() <= INNER_CHILDREN {
                return;
            }
            let at = INNER_CHILDREN / 2;
            let children = inner.children.split_off(at);
            let live = inner.live.split_off(at);
            let bounds = inner.bounds.split_off(at);
            bound = inner.bounds.pop().expect("a split node has a bound between its halves");
            left = parent;
            right = self.allocate(Node::Inner(Inner { children, bounds, live }));
        }
        let live = vec![self.live_below(left), self.live_below(right)];
        let root = Inner { children: vec![left, right], bounds: vec![bound], live };
        self.root = self.allocate(Node::Inner(root));
    }

    /// Gives back an empty leaf, and every parent that becomes empty with it.
    fn drop_leaf(&mut self, mut path: Path, leaf: NodeId) {
        if path.is_empty() {
            return;
        }
        let (prev, next) = (self.leaf(leaf).prev, self.leaf(leaf).next);
        if prev != NONE {
            self.leaf_mut(prev).next = next;
        }
        if next != NONE {
            self.leaf_mut(next).prev = prev;
        }
        self.release(leaf);
        while let Some((id, child)) = path.pop() {
            let inner = self.inner_mut(id);
            inner.detach(child);
            if !inner.children.is_empty() {
                break;
            }
            assert!(!path.is_empty(), "a root that had two children keeps one");
            self.release(id);
        }
        self.shrink_root();
    }

    fn merge_with_next(&mut self, mut path: Path, leaf: NodeId) {
        let Some((parent, child)) = path.pop() else { return };
        let Some(&next) = self.inner(parent).children.get(child + 1) else { return };
        let sum = self.leaf(leaf).slots.len() + self.leaf(next).slots.len();
        if sum > LEAF_SLOTS / 2 {
            return;
        }
        let Node::Leaf(taken) = std::mem::replace(&mut self.nodes[next as usize], Node::Free) else {
            unreachable!("a leaf's sibling is a leaf")
        };
        self.free.push(next);
        let node = self.leaf_mut(leaf);
        node.live |= taken.live << node.slots.len();
        node.slots.extend(taken.slots);
        node.next = taken.next;
        let live = node.live_count();
        if taken.next != NONE {
            self.leaf_mut(taken.next).prev = leaf;
        }
        let inner = self.inner_mut(parent);
        inner.detach(child + 1);
        inner.live[child] = live;
        self.shrink_root();
    }

    /// A root with a single child is replaced by it.
    fn shrink_root(&mut self) {
        while let Node::Inner(inner) = &self.nodes[self.root as usize] {
            if inner.children.len() > 1 {
                return;
            }
            let only = inner.children[0];
            self.release(self.root);
            self.root = only;
        }
    }

    fn live_below(&self, id: NodeId) -> u64 {
        match &self.nodes[id as usize] {
            Node::Leaf(leaf) => leaf.live_count(),
            Node::Inner(inner) => inner.live.iter().sum(),
            Node::Free => unreachable!("a reachable node is in use"),
        }
    }

    fn allocate(&mut self, node: Node) -> NodeId {
        if let Some(id) = self.free.pop() {
            self.nodes[id as usize] = node;
            return id;
        }
        let id = NodeId::try_from(self.nodes.len()).expect("fewer nodes than keys");
        self.nodes.push(node);
        id
    }

    fn release(&mut self, id: NodeId) {
        self.nodes[id as usize] = Node::Free;
        self.free.push(id);
    }

    fn leaf(&self, id: NodeId) -> &Leaf {
        match &self.nodes[id as usize] {
            Node::Leaf(leaf) => leaf,
            _ => unreachable!("leaves are linked to leaves"),
        }
    }

    fn leaf_mut(&mut self, id: NodeId) -> &mut Leaf {
        match &mut self.nodes[id as usize] {
            Node::Leaf(leaf) => leaf,
            _ => unreachable!("leaves are linked to leaves"),
        }
    }

    fn inner(&self, id: NodeId) -> &Inner {
        match &self.nodes[id as usize] {
            Node::Inner(inner) => inner,
            _ => unreachable!("a path consists of inner nodes"),
        }
    }

    fn inner_mut(&mut self, id: NodeId) -> &mut Inner {
        match &mut self.nodes[id as usize] {
            Node::Inner(inner) => inner,
            _ => unreachable!("a path consists of inner nodes"),
        }
    }
}

impl Inner {
    fn child_for(&self, key: &[u8]) -> usize {
        self.bounds.partition_point(|bound| bound.as_ref() <= key)
    }

    /// Unhooks a child. Of its two bounds the lower goes, so that the keys of its range now fall to
    /// the left neighbour; the first child has only an upper one.
    fn detach(&mut self, child: usize) {
        self.children.remove(child);
        self.live.remove(child);
        if !self.bounds.is_empty() {
            self.bounds.remove(child.saturating_sub(1));
        }
    }
}

#[cfg(test)]
mod tests;
