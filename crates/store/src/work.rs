//! Work: what the operations of one transaction may cost together.
//!
//! etcd bounds the operations on each path through a transaction, but not their sum, and not what each of them
//! reads: a request of 80 kB can nest thousands of ranges over everything, which would be read with the store
//! locked and held in memory at once. So the chosen path of a transaction has two allowances: keys that its compares,
//! ranges and deletes examine, which is time with the store locked, and bytes that its ranges answer, which is
//! memory. Both lie far above what a client needs and are checked before anything changes; a
//! transaction beyond them is too large.
//!
//! A path with a single range or delete needs no allowance for it: it costs what the same request costs
//! alone. The keys allowed grow with the store, so that a few operations on everything there is always pass.

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::error::StoreError;
use crate::keys::Slot;
use crate::range::RangeRun;
use crate::record::Record;
use crate::request::{KeyRange, RangeRequest, SortOrder, SortTarget};
use crate::state::Store;

/// What the operations of one transaction may cost together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TxnLimits {
    /// Keys examined, beside four times all keys of the store. One that is to be sorted counts eight times.
    pub keys: u64,
    /// Bytes of all ranges' answers, if there is more than one range. A record counts as 64 bytes at least.
    pub bytes: u64,
}

impl Default for TxnLimits {
    fn default() -> TxnLimits {
        TxnLimits { keys: 256 << 10, bytes: 256 << 20 }
    }
}

/// How often a transaction may examine every key of the store.
const PASSES: u64 = 4;
/// Comparisons of one key in a sort, in the time that it takes to examine a key; near enough.
const SORT_WEIGHT: u64 = 8;
/// What a record in an answer takes, however short it is.
const RECORD_MIN: u64 = 64;
/// What a record without its value takes beside its key: it is made for the answer.
const KEYS_ONLY: u64 = 128;

/// What is left of the allowances of one transaction.
pub(crate) struct Work<'r> {
    keys: u64,
    bytes: u64,
    /// Records that the path has put so far; later ranges may find them.
    puts: BTreeMap<&'r [u8], u64>,
}

/// The bytes that a transaction's ranges may still answer, if that is to be counted while they are read.
#[derive(Debug, Clone, Copy)]
pub struct AnswerBytes(Option<u64>);

impl AnswerBytes {
    /// For a range that stands alone, or that was counted before.
    pub fn unlimited() -> AnswerBytes {
        AnswerBytes(None)
    }

    /// Takes what a range has fetched since it had `seen` records out of the allowance.
    pub fn take(&mut self, run: &RangeRun, seen: usize) -> Result<(), StoreError> {
        if let Some(left) = &mut self.0 {
            *left = left.checked_sub(run.fetched_bytes(seen)).ok_or(StoreError::RequestTooLarge)?;
        }
        Ok(())
    }
}

/// What a record takes in the answer to a range.
pub(crate) fn answer_bytes(request: &RangeRequest, record: &Record) -> u64 {
    if request.keys_only {
        KEYS_ONLY + record.key().len() as u64
    } else {
        RECORD_MIN.max(record.wire_len() as u64)
    }
}

impl Store {
    /// From now on a transaction that costs more than this is too large.
    pub fn limit_txns(&mut self, limits: TxnLimits) {
        self.txn_limits = limits;
    }

    /// What the ranges of a transaction that only reads may answer together.
    pub(crate) fn answer_allowance(&self, ranges: usize) -> AnswerBytes {
        AnswerBytes((ranges > 1).then_some(self.txn_limits.bytes))
    }
}

impl<'r> Work<'r> {
    pub(crate) fn of(store: &Store) -> Work<'r> {
        let TxnLimits { keys, bytes } = store.txn_limits;
        Work { keys: keys + PASSES * store.keys.len() as u64, bytes, puts: BTreeMap::new() }
    }

    /// Counts keys that have been or will be examined.
    pub(crate) fn examine(&mut self, keys: u64) -> Result<(), StoreError> {
        self.keys = self.keys.checked_sub(keys).ok_or(StoreError::RequestTooLarge)?;
        Ok(())
    }

    fn answer(&mut self, bytes: u64) -> Result<(), StoreError> {
        self.bytes = self.bytes.checked_sub(bytes).ok_or(StoreError::RequestTooLarge)?;
        Ok(())
    }

    /// The path puts a record.
    pub(crate) fn put(&mut self, key: &'r [u8], value_len: usize) {
        self.puts.insert(key, RECORD_MIN + (key.len() + value_len) as u64);
    }

    /// The path deletes the keys of a range.
    pub(crate) fn delete(&mut self, store: &Store, range: &KeyRange) -> Result<(), StoreError> {
        if range.is_single() {
            return Ok(());
        }
        scan(store, range, |_| self.examine(1).map(|()| true))
    }

    /// The path reads a range at the revision `at`.
    pub(crate) fn range(&mut self, store: &Store, request: &RangeRequest, at: i64) -> Result<(), StoreError> {
        if request.revision > 0 {
            self.examine(store.membership.count_cost())?;
        }
        if request.count_only {
            return Ok(());
        }
        self.answer_puts(&request.range)?;
        if request.range.is_single() {
            let record = store.get(&request.range.key, at);
            return self.answer(record.map_or(0, |record| answer_bytes(request, record)));
        }
        let is_sorted = request.sort_target == SortTarget::Key && request.sort_order != SortOrder::Descend;
        let weight = if is_sorted { 1 } else { SORT_WEIGHT };
        let mut wanted = request.fetch_limit();
        scan(store, &request.range, |slot| {
            self.examine(weight)?;
            if let Some(record) = store.keys.chain(slot).live_at(at) {
                self.answer(answer_bytes(request, record))?;
                wanted -= 1;
            }
            Ok(wanted > 0)
        })
    }

    /// Counts what the path itself has put into the range.
    fn answer_puts(&mut self, range: &KeyRange) -> Result<(), StoreError> {
        if range.is_single() {
            let bytes = self.puts.get(range.key.as_ref()).copied();
            return self.answer(bytes.unwrap_or(0));
        }
        let start = range.key.as_ref();
        let end = match range.end() {
            Some(end) if end <= start => return Ok(()),
            Some(end) => Bound::Excluded(end),
            None => Bound::Unbounded,
        };
        let mut bytes = 0_u64;
        for put in self.puts.range::<[u8], _>((Bound::Included(start), end)) {
            bytes = bytes.saturating_add(*put.1);
            self.keys = self.keys.checked_sub(1).ok_or(StoreError::RequestTooLarge)?;
        }
        self.answer(bytes)
    }
}

/// Calls `visit` for every slot of a range, alive or not, until it says false.
pub(crate) fn scan(
    store: &Store,
    range: &KeyRange,
    mut visit: impl FnMut(Slot) -> Result<bool, StoreError>,
) -> Result<(), StoreError> {
    let keys = |slot: Slot| store.keys.key(slot);
    let mut cursor = store.tree.seek(&keys, &range.key);
    while let Some(slot) = store.tree.next(&mut cursor) {
        if range.end().is_some_and(|end| end <= store.keys.key(slot)) || !visit(slot)? {
            break;
        }
    }
    Ok(())
}
