//! Reading of bbolt files whose pages were mutated: refused, or walked to the end in no more steps
//! than there are pages.

use vetch_bolt::{Db, PAGE_SIZE};

use crate::image;

/// Where the fields of a meta page begin, and how many of them the checksum behind them covers.
const FIELDS: usize = 16;
const COVERED: usize = 56;
/// No page holds more elements than this many bytes could begin.
const MOST_ELEMENTS: u64 = u16::MAX as u64;

/// An image of pages: the number of each is its place, and what it lacks is zeros.
pub fn run(data: &[u8]) {
    let (flags, pages) = image::parse(data);
    let count = pages.iter().map(|(number, _)| usize::from(*number) + 1).max().unwrap_or(0);
    let mut file = vec![0; count * PAGE_SIZE];
    for (number, content) in &pages {
        let at = usize::from(*number) * PAGE_SIZE;
        let len = content.len().min(PAGE_SIZE);
        file[at..at + len].copy_from_slice(&content[..len]);
    }
    if flags.checksums() {
        (0..count.min(2)).for_each(|page| repair(&mut file[page * PAGE_SIZE..][..PAGE_SIZE]));
    }
    judge(&file);
}

fn repair(meta: &mut [u8]) {
    let step = |hash: u64, &byte: &u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    let checksum = meta[FIELDS..FIELDS + COVERED].iter().fold(0xcbf2_9ce4_8422_2325, step);
    meta[FIELDS + COVERED..FIELDS + COVERED + 8].copy_from_slice(&checksum.to_le_bytes());
}

fn judge(file: &[u8]) {
    let Ok(db) = Db::open(file, file.len() as u64) else { return };
    assert!(db.bytes() <= file.len() as u64);
    let most = (file.len() / 1024) as u64 * MOST_ELEMENTS;
    let mut buckets = db.buckets();
    while let Ok(Some(entry)) = buckets.next() {
        let Ok(bucket) = entry.bucket() else { continue };
        let mut entries = db.entries(&bucket);
        let mut last = Vec::new();
        let mut seen = 0;
        while let Ok(Some(entry)) = entries.next() {
            assert!(entry.key > last.as_slice(), "keys only grow");
            assert!(entry.value.len() <= file.len());
            last = entry.key.to_vec();
            seen += 1;
            assert!(seen <= most, "a walk ends");
        }
    }
}
