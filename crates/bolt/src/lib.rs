//! bbolt's file format: what etcd keeps its state in, and what its snapshots are.
//!
//! A file is an array of pages. Pages 0 and 1 are *meta* pages: each names the root of a tree and
//! carries a checksum, and the intact one with the higher transaction number counts. A tree is made
//! of *branch* pages, whose elements name the first key of a child page, and *leaf* pages with keys
//! and values in order. A page that is too small for its content is followed by overflow pages that
//! belong to it. The values of the outermost tree are *buckets*, each the root of a tree of its
//! own, or, when small, that tree's only page itself (*inline*).
//!
//! * [`Writer`] builds a file from keys that come in order, in one pass and a few pages of memory.
//!   Nothing is written twice, so the result can be a socket as well as a file; only the meta
//!   pages, which come first, need a pass beforehand with [`Measure`].
//! * [`Db`] reads any file, page by page, and trusts nothing it finds: every offset, count and
//!   order is checked.
//!
//! Deliberately not here: changing a file in place, transactions, memory mapping, the list of free
//! pages (a file written in one go has none, and a reader does not need it). Crates that port the
//! whole of bbolt exist; they map files into memory and trust them, and they write through
//! transactions that hold what they change in memory.

mod cursor;
mod error;
mod meta;
mod page;
mod page_reader;
mod reader;
mod sink;
mod tree;
mod writer;

#[cfg(test)]
mod tests;

pub use cursor::{Entries, Entry};
pub use error::BoltError;
pub use page::PAGE_SIZE;
pub use page_reader::{Bucket, ReadAt};
pub use reader::Db;
pub use sink::{Measure, Sink};
pub use writer::{Layout, Writer};
