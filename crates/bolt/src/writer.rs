//! The writer: buckets in order, keys in order, pages out in order.

use std::io;

use crate::meta::Meta;
use crate::page::{BUCKET, FREELIST, Header, IS_BUCKET, PAGE_SIZE};
use crate::sink::Sink;
use crate::tree::{Pages, Root, Tree};

/// Two meta pages and an empty list of free pages come before everything else.
const FRONT: u64 = 3;
const FREELIST_PAGE: u64 = 2;

/// What the meta pages say about a file: the same keys and values give the same layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    root: u64,
    pages: u64,
}

impl Layout {
    /// Size of the whole file.
    pub fn bytes(&self) -> u64 {
        self.pages * PAGE_SIZE as u64
    }

    /// The pages in front of those that the [`Writer`] gave to its sink.
    pub fn front(&self) -> Vec<u8> {
        let meta = Meta {
            page_size: PAGE_SIZE as u32,
            root: self.root,
            freelist: FREELIST_PAGE,
            pages: self.pages,
            txid: 0,
        };
        let mut front = Vec::with_capacity(FRONT as usize * PAGE_SIZE);
        front.extend_from_slice(&meta.encode(0));
        front.extend_from_slice(&Meta { txid: 1, ..meta }.encode(1));
        let free = Header { id: FREELIST_PAGE, kind: FREELIST, count: 0, overflow: 0 };
        front.extend_from_slice(&free.encode());
        front.resize(FRONT as usize * PAGE_SIZE, 0);
        front
    }
}

/// Builds a file from buckets, and keys in them, that come in order.
pub struct Writer<S> {
    pages: Pages<S>,
    open: Option<(Vec<u8>, Tree)>,
    buckets: Vec<(Vec<u8>, Vec<u8>)>,
}

impl<S: Sink> Writer<S> {
    pub fn new(sink: S) -> Writer<S> {
        Writer { pages: Pages { sink, next: FRONT }, open: None, buckets: Vec::new() }
    }

    /// Begins the bucket `name` and ends the one before.
    pub fn bucket(&mut self, name: &[u8]) -> io::Result<()> {
        self.close_bucket()?;
        self.open = Some((name.to_vec(), Tree::default()));
        Ok(())
    }

    /// Adds a key to the bucket that was begun last.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        let (_, tree) = self.open.as_mut().expect("a bucket has been begun");
        tree.put(&mut self.pages, 0, key, value)
    }

    pub fn sink_mut(&mut self) -> &mut S {
        &mut self.pages.sink
    }

    /// Writes what is left and says what the pages in front have to be.
    pub fn finish(mut self) -> io::Result<(S, Layout)> {
        self.close_bucket()?;
        let mut root = Tree::default();
        for (name, value) in &self.buckets {
            root.put(&mut self.pages, IS_BUCKET, name, value)?;
        }
        let Root::Page(root) = root.finish(&mut self.pages, false)? else {
            unreachable!("the outermost tree has a page of its own")
        };
        let Pages { sink, next } = self.pages;
        Ok((sink, Layout { root, pages: next }))
    }

    fn close_bucket(&mut self) -> io::Result<()> {
        let Some((name, tree)) = self.open.take() else { return Ok(()) };
        let (root, inline) = match tree.finish(&mut self.pages, true)? {
            Root::Page(id) => (id, Vec::new()),
            Root::Inline(page) => (0, page),
        };
        let mut value = Vec::with_capacity(BUCKET + inline.len());
        value.extend_from_slice(&root.to_le_bytes());
        value.extend_from_slice(&0u64.to_le_bytes());
        value.extend_from_slice(&inline);
        self.buckets.push((name, value));
        Ok(())
    }
}
