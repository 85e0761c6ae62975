//! A tree being built from keys that come in order.
//!
//! Leaves are filled one after the other. A full page leaves through the sink at once and its first
//! key goes one level up, where the same happens. So only the page under construction of each level
//! is in memory.

use std::io;

use crate::page::{BRANCH, ELEMENT, HEADER, Header, LEAF, PAGE_SIZE};
use crate::sink::Sink;

/// A tree whose only page is not larger than this is kept inside the value that names it, as bbolt
/// does.
const INLINE: usize = PAGE_SIZE / 4;

/// Numbers pages and hands them on.
pub(crate) struct Pages<S> {
    pub(crate) sink: S,
    pub(crate) next: u64,
}

impl<S: Sink> Pages<S> {
    /// Writes a page of `size` bytes, header included, with as many overflow pages as that takes.
    fn emit(
        &mut self,
        kind: u16,
        count: usize,
        size: usize,
        content: impl FnOnce(&mut Vec<u8>),
    ) -> io::Result<u64> {
        let id = self.next;
        let pages = size.div_ceil(PAGE_SIZE);
        self.next += pages as u64;
        if !self.sink.wants_bytes() {
            self.sink.skip(pages)?;
            return Ok(id);
        }
        let mut bytes = Vec::with_capacity(pages * PAGE_SIZE);
        bytes.extend_from_slice(&header(id, kind, count, pages).encode());
        content(&mut bytes);
        assert!(bytes.len() == size, "a page is as long as it was counted");
        bytes.resize(pages * PAGE_SIZE, 0);
        self.sink.write(&bytes)?;
        Ok(id)
    }
}

fn header(id: u64, kind: u16, count: usize, pages: usize) -> Header {
    Header {
        id,
        kind,
        count: u16::try_from(count).expect("a page holds some hundred elements"),
        overflow: u32::try_from(pages - 1).expect("a page is far below 4 GiB"),
    }
}

/// What a finished tree is reached by.
pub(crate) enum Root {
    Page(u64),
    /// The bytes of its only page.
    Inline(Vec<u8>),
}

#[derive(Default)]
pub(crate) struct Tree {
    leaf: Leaf,
    /// Branches under construction, lowest level first.
    levels: Vec<Branch>,
    last_key: Option<Vec<u8>>,
}

impl Tree {
    pub(crate) fn put<S: Sink>(
        &mut self,
        pages: &mut Pages<S>,
        flags: u32,
        key: &[u8],
        value: &[u8],
    ) -> io::Result<()> {
        let is_in_order = self.last_key.as_deref().is_none_or(|last| last < key);
        assert!(is_in_order && !key.is_empty(), "keys of a bucket come in order, each once");
        if !self.leaf.elements.is_empty() && self.leaf.size + ELEMENT + key.len() + value.len() > PAGE_SIZE {
            self.close_leaf(pages)?;
        }
        self.leaf.push(flags, key, value, pages.sink.wants_bytes());
        let last = self.last_key.get_or_insert_default();
        last.clear();
        last.extend_from_slice(key);
        Ok(())
    }

    /// Writes what is left. `may_inline`: the root may be inside the value that names this tree.
    pub(crate) fn finish<S: Sink>(mut self, pages: &mut Pages<S>, may_inline: bool) -> io::Result<Root> {
        if self.levels.is_empty() {
            let fits = self.leaf.size <= INLINE;
            return if may_inline && fits && self.leaf.elements.iter().all(|element| element.flags == 0) {
                Ok(Root::Inline(self.leaf.inline()))
            } else {
                self.leaf.emit(pages).map(Root::Page)
            };
        }
        self.close_leaf(pages)?;
        let mut level = 0;
        loop {
            let is_top = level + 1 == self.levels.len();
            if let [(_, only)] = self.levels[level].elements.as_slice()
                && is_top
            {
                return Ok(Root::Page(*only));
            }
            self.close_branch(pages, level)?;
            level += 1;
        }
    }

    fn close_leaf<S: Sink>(&mut self, pages: &mut Pages<S>) -> io::Result<()> {
        let leaf = std::mem::take(&mut self.leaf);
        let id = leaf.emit(pages)?;
        self.add_child(pages, 0, leaf.first_key, id)
    }

    fn close_branch<S: Sink>(&mut self, pages: &mut Pages<S>, level: usize) -> io::Result<()> {
        let branch = std::mem::take(&mut self.levels[level]);
        let id = branch.emit(pages)?;
        let (first_key, _) =
            branch.elements.into_iter().next().expect("a branch that is closed has children");
        self.add_child(pages, level + 1, first_key, id)
    }

    fn add_child<S: Sink>(
        &mut self,
        pages: &mut Pages<S>,
        level: usize,
        key: Vec<u8>,
        id: u64,
    ) -> io::Result<()> {
        if level == self.levels.len() {
            self.levels.push(Branch::default());
        }
        let branch = &self.levels[level];
        // Two children at least, however long their keys are: a branch of one would not make the
        // tree any smaller.
        if branch.elements.len() > 1 && branch.size + ELEMENT + key.len() > PAGE_SIZE {
            self.close_branch(pages, level)?;
        }
        let branch = &mut self.levels[level];
        branch.size += ELEMENT + key.len();
        branch.elements.push((key, id));
        Ok(())
    }
}

struct LeafElement {
    flags: u32,
    key_len: usize,
    value_len: usize,
}

/// A leaf under construction.
struct Leaf {
    elements: Vec<LeafElement>,
    first_key: Vec<u8>,
    /// Keys and values, back to back. Empty if the bytes are not needed.
    body: Vec<u8>,
    size: usize,
}

impl Default for Leaf {
    fn default() -> Leaf {
        Leaf { elements: Vec::new(), first_key: Vec::new(), body: Vec::new(), size: HEADER }
    }
}

impl Leaf {
    fn push(&mut self, flags: u32, key: &[u8], value: &[u8], wants_bytes: bool) {
        if self.elements.is_empty() {
            self.first_key = key.to_vec();
        }
        self.elements.push(LeafElement { flags, key_len: key.len(), value_len: value.len() });
        self.size += ELEMENT + key.len() + value.len();
        // A bucket that may turn out to be inline is needed for measuring as well.
        if wants_bytes || self.size <= INLINE {
            self.body.extend_from_slice(key);
            self.body.extend_from_slice(value);
        }
    }

    fn content(&self, out: &mut Vec<u8>) {
        let mut at = 0;
        for (index, element) in self.elements.iter().enumerate() {
            let position = (self.elements.len() - index) * ELEMENT + at;
            out.extend_from_slice(&element.flags.to_le_bytes());
            for number in [position, element.key_len, element.value_len] {
                out.extend_from_slice(&small(number).to_le_bytes());
            }
            at += element.key_len + element.value_len;
        }
        out.extend_from_slice(&self.body);
    }

    fn emit<S: Sink>(&self, pages: &mut Pages<S>) -> io::Result<u64> {
        pages.emit(LEAF, self.elements.len(), self.size, |out| self.content(out))
    }

    fn inline(&self) -> Vec<u8> {
        let mut bytes = header(0, LEAF, self.elements.len(), 1).encode().to_vec();
        self.content(&mut bytes);
        bytes
    }
}

/// A branch under construction.
struct Branch {
    elements: Vec<(Vec<u8>, u64)>,
    size: usize,
}

impl Default for Branch {
    fn default() -> Branch {
        Branch { elements: Vec::new(), size: HEADER }
    }
}

impl Branch {
    fn emit<S: Sink>(&self, pages: &mut Pages<S>) -> io::Result<u64> {
        pages.emit(BRANCH, self.elements.len(), self.size, |out| {
            let mut at = 0;
            for (index, (key, child)) in self.elements.iter().enumerate() {
                let position = (self.elements.len() - index) * ELEMENT + at;
                out.extend_from_slice(&small(position).to_le_bytes());
                out.extend_from_slice(&small(key.len()).to_le_bytes());
                out.extend_from_slice(&child.to_le_bytes());
                at += key.len();
            }
            self.elements.iter().for_each(|(key, _)| out.extend_from_slice(key));
        })
    }
}

fn small(number: usize) -> u32 {
    u32::try_from(number).expect("a page is far below 4 GiB")
}
