//! Pace: how much to ask for at once. Whoever reads waits a second for the next records and then
//! asks anew, so a page has to be there sooner than that, also over a slow link. How large records
//! are is known only from those that came before.

use bytes::Bytes;
use vetch_cluster::VERIFIED_RECORDS;
use vetch_journal::Position;

/// Records of a page that is asked for, at most.
const RECORDS: u64 = 64;
/// Bytes of such a page, about.
pub(crate) const BYTES: usize = 1 << 20;

const _: () = assert!(VERIFIED_RECORDS <= RECORDS, "the first page is not told in pieces");

/// How many records to ask for, by the size of those that came last.
pub(crate) struct Pace(u64);

impl Pace {
    /// Few, as long as nothing is known.
    pub(crate) fn new() -> Pace {
        Pace(VERIFIED_RECORDS)
    }

    pub(crate) fn records(&self) -> u64 {
        self.0
    }

    /// Whether records are so large that a page holds only a few.
    pub(crate) fn is_slow(&self) -> bool {
        self.0 < VERIFIED_RECORDS
    }

    /// These came.
    pub(crate) fn learn(&mut self, records: &[(Position, Bytes)]) {
        if !records.is_empty() {
            let fit = BYTES * records.len() / bytes_of(records).max(1);
            self.0 = (fit as u64).clamp(1, RECORDS);
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
    fn small_records_are_asked_for_in_large_pages_and_large_ones_one_by_one() {
        let mut pace = Pace::new();
        assert_eq!(pace.records(), VERIFIED_RECORDS, "nothing is known");
        assert!(!pace.is_slow());
        let cases = [
            (vec![100; 8], RECORDS),
            (vec![BYTES / 10; 8], 10),
            (vec![BYTES; 8], 1),
            (vec![8 * BYTES], 1),
            (vec![0; 3], RECORDS),
            (vec![0, BYTES / 2], 4),
        ];
        for (sizes, wanted) in cases {
            pace.learn(&of_sizes(&sizes));
            assert_eq!(pace.records(), wanted, "after {sizes:?}");
        }
        assert!(pace.is_slow());
        pace.learn(&[]);
        assert_eq!(pace.records(), 4, "nothing says nothing");
    }
}
