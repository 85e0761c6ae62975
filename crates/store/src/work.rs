//! Work: what the operations of one transaction may cost together.
//!
//! etcd bounds the operations on each path through a transaction, but not their sum, and not what
//! each of them reads: a request of 80 kB can nest thousands of ranges over everything, which would
//! be read with the store locked and held in memory at once. So the chosen path of a transaction
//! has two allowances: keys that its compares, ranges and deletes examine, which is time with the
//! store locked, and bytes that its ranges answer, which is memory. Both lie far above what a
//! client needs and are checked before anything changes; a transaction beyond them is too large.
//! Values that are compared count as keys by their length.
//!
//! The keys allowed grow with the store, so that a few operations on everything there is always
//! pass. A path that writes and has a single range or delete may walk over everything, sort and
//! count it once more than that: short of comparing values, it never is too large. But it runs with
//! the store locked, so it is counted like any other.
//!
//! Everything counted adds up to [`Store::worked`]: who holds the lock decides by it when others
//! get their turn.

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::error::StoreError;
use crate::exclusive::{Exclusive, scan};
use crate::limits::{AnswerBytes, RECORD_MIN, TxnLimits, answer_bytes};
use crate::request::{KeyRange, RangeRequest, SortOrder, SortTarget};
use crate::state::Store;

/// How often a transaction may examine every key of the store.
const PASSES: u64 = 4;
/// Comparisons of one key in a sort, in the time that it takes to examine a key; near enough.
const SORT_WEIGHT: u64 = 8;
/// Bytes of values that are compared in the time that it takes to examine a key.
const COMPARED_BYTES: u64 = 1024;
/// How often a value is compared in a sort. The values of a long prefix in common are compared to
/// their ends.
const SORT_COMPARES: u64 = 16;

/// What is left of the allowances of one transaction.
pub(crate) struct Work<'r> {
    keys: u64,
    /// Keys counted so far.
    spent: u64,
    bytes: u64,
    /// Whether the path has a single range or delete, whose answer is what it would be alone.
    is_alone: bool,
    /// Records that the path has put so far; later ranges may find them.
    puts: BTreeMap<&'r [u8], u64>,
}

impl Store {
    /// From now on a transaction that costs more than this is too large.
    pub fn limit_txns(&mut self, limits: TxnLimits) {
        self.txn_limits = limits;
    }

    /// What all evaluations so far took, in keys examined or changed; also those of refused
    /// requests.
    pub fn worked(&self) -> u64 {
        self.worked
    }

    /// What the ranges of a transaction that only reads may answer together.
    pub(crate) fn answer_allowance(&self, ranges: usize) -> AnswerBytes {
        if ranges > 1 { AnswerBytes::limited(self.txn_limits.bytes) } else { AnswerBytes::unlimited() }
    }
}

impl<'r> Work<'r> {
    pub(crate) fn of(store: &Store) -> Work<'r> {
        let TxnLimits { keys, bytes } = store.txn_limits;
        let keys = keys + PASSES * store.keys.len() as u64;
        Work { keys, spent: 0, bytes, is_alone: false, puts: BTreeMap::new() }
    }

    /// The path has a single range or delete, which may be on everything there is.
    pub(crate) fn stand_alone(&mut self, store: &Store) {
        self.is_alone = true;
        self.keys += SORT_WEIGHT * store.keys.len() as u64 + store.membership.count_cost(0);
    }

    /// Keys counted so far.
    pub(crate) fn spent(&self) -> u64 {
        self.spent
    }

    /// Counts keys that have been or will be examined.
    pub(crate) fn examine(&mut self, keys: u64) -> Result<(), StoreError> {
        self.keys = self.keys.checked_sub(keys).ok_or(StoreError::RequestTooLarge)?;
        self.spent += keys;
        Ok(())
    }

    /// Counts a key whose value is compared with another, up to the end of the shorter one.
    pub(crate) fn compare(&mut self, bytes: usize) -> Result<(), StoreError> {
        self.examine(1 + bytes as u64 / COMPARED_BYTES)
    }

    fn answer(&mut self, bytes: u64) -> Result<(), StoreError> {
        if !self.is_alone {
            self.bytes = self.bytes.checked_sub(bytes).ok_or(StoreError::RequestTooLarge)?;
        }
        Ok(())
    }

    /// The path puts a record.
    pub(crate) fn put(&mut self, key: &'r [u8], value_len: usize) {
        if !self.is_alone {
            self.puts.insert(key, RECORD_MIN + (key.len() + value_len) as u64);
        }
    }

    /// The path deletes the keys of a range.
    pub(crate) fn delete(&mut self, store: &mut impl Exclusive, range: &KeyRange) -> Result<(), StoreError> {
        if range.is_single() {
            return self.examine(1);
        }
        scan(store, range, |_, _| self.examine(1).map(|()| true))
    }

    /// The path reads a range at the revision `at`.
    pub(crate) fn range(
        &mut self,
        store: &mut impl Exclusive,
        request: &RangeRequest,
        at: i64,
    ) -> Result<(), StoreError> {
        self.count(store, request, at)?;
        if request.count_only {
            return Ok(());
        }
        self.answer_puts(request)?;
        if request.range.is_single() {
            if self.is_alone {
                // Nothing limits its answer, so it need not be looked up twice.
                return Ok(());
            }
            let record = store.get(&request.range.key, at);
            return self.answer(record.map_or(0, |record| answer_bytes(request, record)));
        }
        let mut wanted = request.fetch_limit();
        scan(store, &request.range, |store, slot| {
            let record = store.keys.chain(slot).live_at(at);
            self.examine(weight(request, record.map_or(0, |record| record.value_len() as u64)))?;
            if let Some(record) = record {
                self.answer(answer_bytes(request, record))?;
                wanted -= 1;
            }
            Ok(wanted > 0)
        })
    }

    /// The range of a request is counted at the revision `at`.
    pub(crate) fn count(&mut self, store: &Store, request: &RangeRequest, at: i64) -> Result<(), StoreError> {
        let is_past = request.revision > 0 && !request.range.is_single();
        self.examine(if is_past { 1 + store.membership.count_cost(at) } else { 1 })
    }

    /// Counts what the path itself has put into the range.
    fn answer_puts(&mut self, request: &RangeRequest) -> Result<(), StoreError> {
        let range = &request.range;
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
        let (mut bytes, mut keys) = (0_u64, 0_u64);
        for put in self.puts.range::<[u8], _>((Bound::Included(start), end)) {
            bytes = bytes.saturating_add(*put.1);
            keys = keys.saturating_add(weight(request, *put.1));
        }
        self.examine(keys)?;
        self.answer(bytes)
    }
}

/// What a key in a range counts for, given the length of its value.
pub(crate) fn weight(request: &RangeRequest, value_len: u64) -> u64 {
    match request.sort_target {
        SortTarget::Key if request.sort_order != SortOrder::Descend => 1,
        SortTarget::Value => SORT_WEIGHT + SORT_COMPARES * value_len / COMPARED_BYTES,
        _ => SORT_WEIGHT,
    }
}
