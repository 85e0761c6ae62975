//! Interval map: which of many key spans hold a given key, without looking at all of them.
//!
//! A treap ordered by (start, end). Every node knows the node with the greatest end below it, so a lookup
//! skips subtrees that end before the key: O(log n + hits) for spans as watchers use them. Priorities come
//! from a fixed sequence, so the same calls build the same tree. Nodes live in a vector and refer to each
//! other by index.

use std::cmp::Ordering;

#[cfg(test)]
mod tests;

const NIL: u32 = u32::MAX;

/// A map from spans `[start, end)` to values; no end means unbounded.
#[derive(Debug, Default)]
pub(crate) struct IntervalMap {
    nodes: Vec<Node>,
    free: Vec<u32>,
    root: Option<u32>,
    inserted: u64,
}

#[derive(Debug)]
struct Node {
    start: Box<[u8]>,
    end: Option<Box<[u8]>>,
    value: u32,
    priority: u64,
    left: u32,
    right: u32,
    /// The node of this subtree, itself included, whose end is greatest.
    widest: u32,
}

/// The place of a span in the order of the tree.
type Span<'a> = (&'a [u8], Option<&'a [u8]>);

impl IntervalMap {
    /// Value of exactly this span.
    pub(crate) fn get(&self, start: &[u8], end: Option<&[u8]>) -> Option<u32> {
        let mut at = self.root();
        while at != NIL {
            let node = self.node(at);
            at = match compare((start, end), self.span(at)) {
                Ordering::Less => node.left,
                Ordering::Greater => node.right,
                Ordering::Equal => return Some(node.value),
            };
        }
        None
    }

    /// Adds a span that is not in the map.
    pub(crate) fn insert(&mut self, start: &[u8], end: Option<&[u8]>, value: u32) {
        assert!(self.get(start, end).is_none(), "the span is already in the map");
        let (less, more) = self.split(self.root(), (start, end), false);
        let node = self.allocate(start, end, value);
        let less = self.merge(less, node);
        let root = self.merge(less, more);
        self.set_root(root);
    }

    /// Removes exactly this span and returns its value.
    pub(crate) fn remove(&mut self, start: &[u8], end: Option<&[u8]>) -> Option<u32> {
        let (less, rest) = self.split(self.root(), (start, end), false);
        let (found, more) = self.split(rest, (start, end), true);
        let root = self.merge(less, more);
        self.set_root(root);
        if found == NIL {
            return None;
        }
        self.free.push(found);
        let node = &mut self.nodes[found as usize];
        node.start = Box::default();
        node.end = None;
        Some(node.value)
    }

    /// Calls `hit` with the value of every span that holds `key`.
    pub(crate) fn stab(&self, key: &[u8], hit: &mut impl FnMut(u32)) {
        self.stab_below(self.root(), key, hit);
    }

    fn stab_below(&self, at: u32, key: &[u8], hit: &mut impl FnMut(u32)) {
        if at == NIL || !self.ends_after(self.node(at).widest, key) {
            return;
        }
        let node = self.node(at);
        self.stab_below(node.left, key, hit);
        if node.start.as_ref() <= key {
            if self.ends_after(at, key) {
                hit(node.value);
            }
            self.stab_below(node.right, key, hit);
        }
    }

    fn ends_after(&self, at: u32, key: &[u8]) -> bool {
        self.node(at).end.as_ref().is_none_or(|end| key < end.as_ref())
    }

    /// Splits a subtree at `span`: what comes before it (and the span itself if `inclusive`), and the rest.
    fn split(&mut self, at: u32, span: Span<'_>, inclusive: bool) -> (u32, u32) {
        if at == NIL {
            return (NIL, NIL);
        }
        let order = compare(self.span(at), span);
        if order == Ordering::Less || (inclusive && order == Ordering::Equal) {
            let (left, right) = self.split(self.node(at).right, span, inclusive);
            self.nodes[at as usize].right = left;
            self.refresh(at);
            (at, right)
        } else {
            let (left, right) = self.split(self.node(at).left, span, inclusive);
            self.nodes[at as usize].left = right;
            self.refresh(at);
            (left, at)
        }
    }

    /// Joins two subtrees, all of `left` before all of `right`.
    fn merge(&mut self, left: u32, right: u32) -> u32 {
        if left == NIL || right == NIL {
            return if left == NIL { right } else { left };
        }
        if self.node(left).priority > self.node(right).priority {
            let joined = self.merge(self.node(left).right, right);
            self.nodes[left as usize].right = joined;
            self.refresh(left);
            left
        } else {
            let joined = self.merge(left, self.node(right).left);
            self.nodes[right as usize].left = joined;
            self.refresh(right);
            right
        }
    }

    /// Recomputes the widest node of a subtree from its children.
    fn refresh(&mut self, at: u32) {
        let mut widest = at;
        for child in [self.node(at).left, self.node(at).right] {
            if child != NIL {
                let candidate = self.node(child).widest;
                if compare_ends(self.span(candidate).1, self.span(widest).1) == Ordering::Greater {
                    widest = candidate;
                }
            }
        }
        self.nodes[at as usize].widest = widest;
    }

    fn allocate(&mut self, start: &[u8], end: Option<&[u8]>, value: u32) -> u32 {
        self.inserted += 1;
        let at = self
            .free
            .pop()
            .unwrap_or_else(|| u32::try_from(self.nodes.len()).expect("fewer than 2^32 spans fit in memory"));
        let node = Node {
            start: start.into(),
            end: end.map(Into::into),
            value,
            priority: scatter(self.inserted),
            left: NIL,
            right: NIL,
            widest: at,
        };
        match self.nodes.get_mut(at as usize) {
            Some(slot) => *slot = node,
            None => self.nodes.push(node),
        }
        at
    }

    fn node(&self, at: u32) -> &Node {
        &self.nodes[at as usize]
    }

    fn span(&self, at: u32) -> Span<'_> {
        let node = self.node(at);
        (&node.start, node.end.as_deref())
    }

    fn root(&self) -> u32 {
        self.root.unwrap_or(NIL)
    }

    fn set_root(&mut self, root: u32) {
        self.root = (root != NIL).then_some(root);
    }
}

fn compare(a: Span<'_>, b: Span<'_>) -> Ordering {
    a.0.cmp(b.0).then_with(|| compare_ends(a.1, b.1))
}

/// An absent end lies behind every key.
fn compare_ends(a: Option<&[u8]>, b: Option<&[u8]>) -> Ordering {
    match (a, b) {
        (None, None) => Ordering::Equal,
        (None, Some(_)) => Ordering::Greater,
        (Some(_), None) => Ordering::Less,
        (Some(a), Some(b)) => a.cmp(b),
    }
}

/// Spreads a counter over 64 bits (the finaliser of splitmix64), which keeps the tree balanced.
fn scatter(n: u64) -> u64 {
    let mut x = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
