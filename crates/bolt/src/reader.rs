//! The reader: finds the valid meta page, and the trees of a file.

use crate::cursor::Entries;
use crate::error::BoltError;
use crate::meta::{META_BYTES, Meta};
use crate::page_reader::{Bucket, PageReader, ReadAt, Root};

/// Pages of bbolt files are as large as the pages of the machine that made them.
const PAGE_SIZES: std::ops::RangeInclusive<u32> = 10..=16;
/// A file, read-only.
pub struct Db<R> {
    reader: PageReader<R>,
    /// The root of the outermost tree.
    root: u64,
}

impl<R: ReadAt> Db<R> {
    /// Opens the first `len` bytes of `source`.
    pub fn open(source: R, len: u64) -> Result<Db<R>, BoltError> {
        let meta = choose_meta(&source, len)?;
        let page_size = u64::from(meta.page_size);
        let end = meta.pages.checked_mul(page_size);
        if end.is_none_or(|end| end > len) {
            let reason = format!(
                "the file has {len} bytes, but {} pages of {page_size} bytes are in use: it is cut short",
                meta.pages
            );
            return Err(BoltError::damaged(len, reason));
        }
        Ok(Db { reader: PageReader::new(source, page_size, meta.pages), root: meta.root })
    }

    /// Bytes of all pages in use, which is what tools call the size of a database.
    pub fn bytes(&self) -> u64 {
        self.reader.bytes()
    }

    /// Names and values of all buckets, in order.
    pub fn buckets(&self) -> Entries<'_, R> {
        Entries::new(&self.reader, Root::Page(self.root))
    }

    /// The bucket `name`; None if there is none.
    pub fn bucket(&self, name: &[u8]) -> Result<Option<Bucket>, BoltError> {
        let mut buckets = self.buckets();
        while let Some(entry) = buckets.next()? {
            if entry.key == name {
                return entry.bucket().map(Some);
            }
        }
        Ok(None)
    }

    /// Keys and values of a bucket, in order.
    pub fn entries(&self, bucket: &Bucket) -> Entries<'_, R> {
        Entries::new(&self.reader, bucket.root.clone())
    }
}

/// Of the two meta pages the intact one with the higher transaction number. Where the second one
/// lies is known from the first, or has to be guessed if that is damaged.
fn choose_meta(source: &impl ReadAt, len: u64) -> Result<Meta, BoltError> {
    let first = read_meta(source, 0, len);
    let second = match &first {
        Ok(meta) => read_meta(source, u64::from(meta.page_size), len).ok(),
        Err(_) => PAGE_SIZES.map(|power| 1u64 << power).find_map(|size| {
            let meta = read_meta(source, size, len).ok();
            meta.filter(|meta| u64::from(meta.page_size) == size)
        }),
    };
    match (first, second) {
        (Ok(first), Some(second)) if second.page_size == first.page_size && second.txid > first.txid => {
            Ok(second)
        }
        (Ok(first), _) => Ok(first),
        (Err(_), Some(second)) => Ok(second),
        (Err(error), None) => Err(error),
    }
}

fn read_meta(source: &impl ReadAt, offset: u64, len: u64) -> Result<Meta, BoltError> {
    let mut page = [0; META_BYTES];
    if offset + META_BYTES as u64 > len {
        return Err(BoltError::damaged(len, "too short for a bbolt file"));
    }
    source.read_exact_at(offset, &mut page).map_err(|source| BoltError::Io { offset, source })?;
    let meta = Meta::decode(&page).map_err(|reason| BoltError::damaged(offset, reason))?;
    let is_known = PAGE_SIZES.map(|power| 1u32 << power).any(|size| size == meta.page_size);
    if !is_known {
        return Err(BoltError::damaged(offset, format!("a page size of {} bytes", meta.page_size)));
    }
    Ok(meta)
}
