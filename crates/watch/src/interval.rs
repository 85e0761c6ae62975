//! Interval map: which of many key spans hold a given key, without looking at all of them.
//!
//! An AVL tree ordered by (start, end). Clients choose the spans and the order in which they come
//! and go, so the height is bounded by construction and not by chance: below 1.44 log2(n + 2), that
//! is, at most [`MAX_HEIGHT`] for as many spans as an index can name. Recursion goes no deeper than
//! the tree is high.
//!
//! Every node knows the node with the greatest end below it. A lookup skips subtrees that end
//! before the key and subtrees that start behind it, so it visits hits, their ancestors, and one
//! path: O(log n) without a hit, O(k log(n / k)) for k hits. Nodes live in a vector and refer to
//! each other by index; the same calls build the same tree.

use std::cmp::Ordering;

#[cfg(test)]
mod tests;

const NIL: u32 = u32::MAX;

/// No AVL tree of fewer than 2^32 nodes is higher.
const MAX_HEIGHT: u8 = 46;

/// A map from spans `[start, end)` to values; no end means unbounded.
#[derive(Debug, Default)]
pub(crate) struct IntervalMap {
    nodes: Vec<Node>,
    free: Vec<u32>,
    root: Option<u32>,
}

#[derive(Debug)]
struct Node {
    start: Box<[u8]>,
    end: Option<Box<[u8]>>,
    value: u32,
    left: u32,
    right: u32,
    /// The node of this subtree, itself included, whose end is greatest.
    widest: u32,
    /// Of this subtree; 1 for a node without children.
    height: u8,
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
        let node = self.allocate(start, end, value);
        let root = self.insert_below(self.root(), node);
        assert!(self.height(root) <= MAX_HEIGHT, "the tree is out of balance");
        self.set_root(root);
    }

    /// Removes exactly this span and returns its value.
    pub(crate) fn remove(&mut self, start: &[u8], end: Option<&[u8]>) -> Option<u32> {
        let mut found = NIL;
        let root = self.remove_below(self.root(), (start, end), &mut found);
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

    /// Calls `hit` with the value of every span that holds `key`, unless that takes a visit to more
    /// than `most` nodes, behind which it ends. Returns how many nodes were visited.
    pub(crate) fn stab(&self, key: &[u8], most: usize, hit: &mut impl FnMut(u32)) -> usize {
        self.stab_below(self.root(), key, most, hit)
    }

    fn stab_below(&self, at: u32, key: &[u8], most: usize, hit: &mut impl FnMut(u32)) -> usize {
        if at == NIL || !self.ends_after(self.node(at).widest, key) {
            return 0;
        }
        let node = self.node(at);
        let mut visited = 1 + self.stab_below(node.left, key, most, hit);
        if node.start.as_ref() <= key && visited <= most {
            if self.ends_after(at, key) {
                hit(node.value);
            }
            visited += self.stab_below(node.right, key, most - visited, hit);
        }
        visited
    }

    fn ends_after(&self, at: u32, key: &[u8]) -> bool {
        self.node(at).end.as_ref().is_none_or(|end| key < end.as_ref())
    }

    /// Puts a node without children into a subtree; returns the root of the subtree that results.
    fn insert_below(&mut self, at: u32, new: u32) -> u32 {
        if at == NIL {
            return new;
        }
        match compare(self.span(new), self.span(at)) {
            Ordering::Less => {
                let left = self.insert_below(self.node(at).left, new);
                self.nodes[at as usize].left = left;
            }
            Ordering::Greater => {
                let right = self.insert_below(self.node(at).right, new);
                self.nodes[at as usize].right = right;
            }
            Ordering::Equal => panic!("the span is already in the map"),
        }
        self.balance(at)
    }

    /// Takes a span out of a subtree, if it is there; returns the root of the subtree that results.
    fn remove_below(&mut self, at: u32, span: Span<'_>, found: &mut u32) -> u32 {
        if at == NIL {
            return NIL;
        }
        let (left, right) = (self.node(at).left, self.node(at).right);
        match compare(span, self.span(at)) {
            Ordering::Less => {
                let left = self.remove_below(left, span, found);
                self.nodes[at as usize].left = left;
            }
            Ordering::Greater => {
                let right = self.remove_below(right, span, found);
                self.nodes[at as usize].right = right;
            }
            Ordering::Equal => {
                *found = at;
                if left == NIL || right == NIL {
                    return if left == NIL { right } else { left };
                }
                let (rest, next) = self.take_first(right);
                self.nodes[next as usize].left = left;
                self.nodes[next as usize].right = rest;
                return self.balance(next);
            }
        }
        self.balance(at)
    }

    /// Takes the first node out of a subtree; returns what is left and the node.
    fn take_first(&mut self, at: u32) -> (u32, u32) {
        if self.node(at).left == NIL {
            return (self.node(at).right, at);
        }
        let (rest, first) = self.take_first(self.node(at).left);
        self.nodes[at as usize].left = rest;
        (self.balance(at), first)
    }

    /// Makes the heights of both sides differ by no more than one, if one insert or removal below
    /// `at` made them differ by two. Returns the root of the subtree.
    fn balance(&mut self, at: u32) -> u32 {
        let (left, right) = (self.node(at).left, self.node(at).right);
        if self.height(left) > self.height(right) + 1 {
            if self.height(self.node(left).left) < self.height(self.node(left).right) {
                let left = self.rotate_left(left);
                self.nodes[at as usize].left = left;
            }
            return self.rotate_right(at);
        }
        if self.height(right) > self.height(left) + 1 {
            if self.height(self.node(right).right) < self.height(self.node(right).left) {
                let right = self.rotate_right(right);
                self.nodes[at as usize].right = right;
            }
            return self.rotate_left(at);
        }
        self.refresh(at);
        at
    }

    /// The left child becomes the root of the subtree.
    fn rotate_right(&mut self, at: u32) -> u32 {
        let up = self.node(at).left;
        self.nodes[at as usize].left = self.node(up).right;
        self.nodes[up as usize].right = at;
        self.refresh(at);
        self.refresh(up);
        up
    }

    /// The right child becomes the root of the subtree.
    fn rotate_left(&mut self, at: u32) -> u32 {
        let up = self.node(at).right;
        self.nodes[at as usize].right = self.node(up).left;
        self.nodes[up as usize].left = at;
        self.refresh(at);
        self.refresh(up);
        up
    }

    fn height(&self, at: u32) -> u8 {
        if at == NIL { 0 } else { self.node(at).height }
    }

    /// Recomputes height and widest node of a subtree from its children.
    fn refresh(&mut self, at: u32) {
        let (left, right) = (self.node(at).left, self.node(at).right);
        let mut widest = at;
        for child in [left, right] {
            if child != NIL {
                let candidate = self.node(child).widest;
                if compare_ends(self.span(candidate).1, self.span(widest).1) == Ordering::Greater {
                    widest = candidate;
                }
            }
        }
        let height = 1 + self.height(left).max(self.height(right));
        let node = &mut self.nodes[at as usize];
        (node.widest, node.height) = (widest, height);
    }

    fn allocate(&mut self, start: &[u8], end: Option<&[u8]>, value: u32) -> u32 {
        let at = self
            .free
            .pop()
            .unwrap_or_else(|| u32::try_from(self.nodes.len()).expect("fewer than 2^32 spans fit in memory"));
        let node = Node {
            start: start.into(),
            end: end.map(Into::into),
            value,
            left: NIL,
            right: NIL,
            widest: at,
            height: 1,
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
