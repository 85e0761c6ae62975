//! Walking a tree in the order of its keys.
//!
//! What a damaged or hostile file could do here is loop, so every step is bounded: a tree is at
//! most [`DEEPEST`] levels high, keys only ever grow, and a walk reads no more pages than the file
//! has.

use crate::error::BoltError;
use crate::page::{IS_BUCKET, branch_element, leaf_element};
use crate::page_reader::{Bucket, Page, PageReader, ReadAt, Root};

/// A hundred elements to a page, which is few, make 10^16 of them in eight levels.
const DEEPEST: usize = 32;

/// A key, and the value or bucket under it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'e> {
    pub key: &'e [u8],
    pub value: &'e [u8],
    pub is_bucket: bool,
    /// Where the page lies that it was found on.
    pub offset: u64,
}

impl Entry<'_> {
    /// The bucket that this entry is.
    pub fn bucket(&self) -> Result<Bucket, BoltError> {
        if !self.is_bucket {
            return Err(BoltError::damaged(self.offset, "a value where a bucket should be"));
        }
        Bucket::decode(self.value, self.offset)
    }
}

/// The entries of a tree, in order.
pub struct Entries<'d, R> {
    reader: &'d PageReader<R>,
    root: Option<Root>,
    /// The way from the root to the current page, with the element to be looked at next on each.
    path: Vec<(Page, usize)>,
    last_key: Option<Vec<u8>>,
    pages_read: u64,
}

impl<'d, R: ReadAt> Entries<'d, R> {
    pub(crate) fn new(reader: &'d PageReader<R>, root: Root) -> Entries<'d, R> {
        Entries { reader, root: Some(root), path: Vec::new(), last_key: None, pages_read: 0 }
    }

    /// The next entry; None at the end. After an error there is nothing more to be had.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<Entry<'_>>, BoltError> {
        match self.root.take() {
            Some(Root::Page(id)) => self.descend(id)?,
            Some(Root::Inline { page, offset }) => self.path.push((Page::inline(page, offset)?, 0)),
            None => {}
        }
        loop {
            let Some((page, next)) = self.path.last_mut() else { return Ok(None) };
            if *next == page.count {
                self.path.pop();
                continue;
            }
            *next += 1;
            if page.is_leaf {
                break;
            }
            let element = branch_element(&page.bytes, *next - 1);
            let offset = page.offset;
            let (_, child) = element.ok_or_else(|| outside(offset))?;
            self.descend(child)?;
        }
        let (page, next) = self.path.last().expect("the loop ended on a leaf");
        let element = leaf_element(&page.bytes, next - 1).ok_or_else(|| outside(page.offset))?;
        if element.key.is_empty() || self.last_key.as_deref().is_some_and(|last| last >= element.key) {
            return Err(BoltError::damaged(page.offset, "keys are out of order"));
        }
        let last = self.last_key.get_or_insert_default();
        last.clear();
        last.extend_from_slice(element.key);
        Ok(Some(Entry {
            key: element.key,
            value: element.value,
            is_bucket: element.flags & IS_BUCKET != 0,
            offset: page.offset,
        }))
    }

    fn descend(&mut self, id: u64) -> Result<(), BoltError> {
        let from = self.path.last().map_or(0, |(page, _)| page.offset);
        if self.path.len() == DEEPEST {
            return Err(BoltError::damaged(from, "the tree is too deep to be true"));
        }
        self.pages_read += 1;
        if self.pages_read > self.reader.pages() {
            return Err(BoltError::damaged(from, "the tree has more pages than the file"));
        }
        let page = self.reader.read_page(id)?;
        self.path.push((page, 0));
        Ok(())
    }
}

fn outside(offset: u64) -> BoltError {
    BoltError::damaged(offset, "an element points outside of its page")
}
