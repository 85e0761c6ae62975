//! Page size: how many records to request together. A replica waits a second for the next records
//! and then reads again, so a page has to arrive sooner than that, also over a slow link. The size
//! of records is known only from those that came before.

use bytes::Bytes;
use vetch_cluster::VERIFIED_RECORDS;
use vetch_journal::Position;

/// Records of a page.
const RECORDS_MAX: u64 = 64;
/// Bytes of such a page, about.
pub(crate) const BYTES: usize = 1 << 20;

const _: () = assert!(VERIFIED_RECORDS <= RECORDS_MAX, "the first page is not delivered in pieces");

/// How many records to request, by the size of those that came last.
pub(crate) struct PageSize(u64);

impl PageSize {
    /// Few, as long as no size is known.
    pub(crate) fn new() -> PageSize {
        PageSize(VERIFIED_RECORDS)
    }

    pub(crate) fn records(&self) -> u64 {
        self.0
    }

    /// Whether records are so large that a page holds only a few.
    pub(crate) fn is_large(&self) -> bool {
        self.0 < VERIFIED_RECORDS
    }

    /// Adapts to records that came.
    pub(crate) fn update(&mut self, records: &[(Position, Bytes)]) {
        if !records.is_empty() {
            let fit = BYTES * records.len() / bytes_of(records).max(1);
            self.0 = (fit as u64).clamp(1, RECORDS_MAX);
        }
    }
}

pub(crate) fn bytes_of(records: &[(Position, Bytes)]) -> usize {
    records.iter().map(|(_, record)| record.len()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_sizes(sizes: &[usize]) -> Vec<(Position, Bytes)> {
        let records = sizes.iter().map(|size| Bytes::from(vec![0; *size]));
        (1..).map(Position).zip(records).collect()
    }

    #[test]
    fn small_records_are_requested_in_large_pages_and_large_ones_one_by_one() {
        let mut page = PageSize::new();
        assert_eq!(page.records(), VERIFIED_RECORDS, "no size is known");
        assert!(!page.is_large());
        let cases = [
            (vec![100; 8], RECORDS_MAX),
            (vec![BYTES / 10; 8], 10),
            (vec![BYTES; 8], 1),
            (vec![8 * BYTES], 1),
            (vec![0; 3], RECORDS_MAX),
            (vec![0, BYTES / 2], 4),
        ];
        for (sizes, wanted) in cases {
            page.update(&of_sizes(&sizes));
            assert_eq!(page.records(), wanted, "after {sizes:?}");
        }
        assert!(page.is_large());
        page.update(&[]);
        assert_eq!(page.records(), 4, "an empty page changes nothing");
    }
}
