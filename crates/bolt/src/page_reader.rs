//! Pages read by number, and checked as far as that goes without their elements.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::error::BoltError;
use crate::page::{BRANCH, BUCKET, HEADER, Header, LEAF, u64_at};

/// The largest page, overflow included, that is read into memory. etcd's requests are limited to a
/// fraction of it.
const LEAF_BYTES_MAX: u64 = 512 << 20;
/// The same for branches, which hold keys only. As many of them are in memory at once as the tree
/// is deep.
const BRANCH_BYTES_MAX: u64 = 4 << 20;

/// Bytes that can be read by position, from several places at once.
pub trait ReadAt {
    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()>;
}

impl ReadAt for File {
    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        FileExt::read_exact_at(self, buf, offset)
    }
}

impl ReadAt for &[u8] {
    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let from = usize::try_from(offset).ok().and_then(|from| self.get(from..));
        let bytes = from.and_then(|from| from.get(..buf.len())).ok_or(io::ErrorKind::UnexpectedEof)?;
        buf.copy_from_slice(bytes);
        Ok(())
    }
}

/// The pages of a file.
pub(crate) struct PageReader<R> {
    source: R,
    page_size: u64,
    pages: u64,
}

/// A leaf or branch page with its overflow, checked as far as that goes without its elements.
pub(crate) struct Page {
    pub(crate) offset: u64,
    pub(crate) is_leaf: bool,
    pub(crate) count: usize,
    pub(crate) bytes: Vec<u8>,
}

/// The beginning of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bucket {
    pub(crate) root: Root,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Root {
    Page(u64),
    /// The only page, and where it lies in the file.
    Inline {
        page: Vec<u8>,
        offset: u64,
    },
}

impl<R: ReadAt> PageReader<R> {
    pub(crate) fn new(source: R, page_size: u64, pages: u64) -> PageReader<R> {
        PageReader { source, page_size, pages }
    }

    /// Bytes of all pages in use.
    pub(crate) fn bytes(&self) -> u64 {
        self.pages * self.page_size
    }

    pub(crate) fn pages(&self) -> u64 {
        self.pages
    }

    pub(crate) fn read_page(&self, id: u64) -> Result<Page, BoltError> {
        // The first two pages are meta pages, and nothing lies behind the last one.
        if id < 2 || id >= self.pages {
            return Err(BoltError::damaged(0, format!("a reference to page {id} of {}", self.pages)));
        }
        let offset = id * self.page_size;
        let mut head = [0; HEADER];
        self.read(offset, &mut head)?;
        let header = Header::decode(&head).expect("the buffer is as long as a header");
        if header.id != id {
            return Err(BoltError::damaged(offset, format!("page {id} says that it is page {}", header.id)));
        }
        let last = id + u64::from(header.overflow);
        if last >= self.pages {
            return Err(BoltError::damaged(offset, format!("page {id} reaches behind the end")));
        }
        let len = (u64::from(header.overflow) + 1) * self.page_size;
        if len > if header.kind == LEAF { LEAF_BYTES_MAX } else { BRANCH_BYTES_MAX } {
            return Err(BoltError::damaged(
                offset,
                format!("page {id} has {len} bytes: too many to be true"),
            ));
        }
        let mut bytes = vec![0; usize::try_from(len).expect("limited above")];
        self.read(offset, &mut bytes)?;
        Page::check(header, offset, bytes)
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<(), BoltError> {
        self.source.read_exact_at(offset, buf).map_err(|source| BoltError::Io { offset, source })
    }
}

impl Page {
    pub(crate) fn check(header: Header, offset: u64, bytes: Vec<u8>) -> Result<Page, BoltError> {
        let is_leaf = match header.kind {
            LEAF => true,
            BRANCH => false,
            kind => return Err(BoltError::damaged(offset, format!("a page of kind {kind} inside a tree"))),
        };
        Ok(Page { offset, is_leaf, count: usize::from(header.count), bytes })
    }

    /// The only page of a tree that is kept in a value.
    pub(crate) fn inline(bytes: Vec<u8>, offset: u64) -> Result<Page, BoltError> {
        let header = Header::decode(&bytes)
            .filter(|header| header.kind == LEAF)
            .ok_or_else(|| BoltError::damaged(offset, "a bucket is neither on a page nor in its value"))?;
        Page::check(header, offset, bytes)
    }
}

impl Bucket {
    /// Reads the value of a bucket, which lies at `offset`.
    pub(crate) fn decode(value: &[u8], offset: u64) -> Result<Bucket, BoltError> {
        let root = u64_at(value, 0).filter(|_| value.len() >= BUCKET);
        let root = match root {
            None => return Err(BoltError::damaged(offset, "a bucket without a root")),
            Some(0) => Root::Inline { page: value[BUCKET..].to_vec(), offset: offset + BUCKET as u64 },
            Some(id) => Root::Page(id),
        };
        Ok(Bucket { root })
    }
}
