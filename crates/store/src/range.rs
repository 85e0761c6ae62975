//! Range: a read at one revision, in steps.
//!
//! A [`RangeRun`] remembers where it is by key, not by pointer, so the store may change between two
//! steps: at a fixed revision the answer is the same as if it had been taken at once. The caller
//! decides how much a step may examine, and lets writers in between steps. Should compaction free
//! versions of the revision meanwhile, the run ends with an error; that it was asked for is not
//! enough, because a run that has begun is entitled to its answer.

use std::cmp::Ordering;

use bytes::Bytes;

use crate::error::StoreError;
use crate::keys::Slot;
use crate::limits::{AnswerBytes, answer_bytes};
use crate::record::Record;
use crate::request::{RangeRequest, RangeResponse, SortOrder, SortTarget};
use crate::state::{Mark, Store};
use crate::validated::Validated;
use crate::work::weight;

/// The revision a request reads at, given what may be seen: 0 or less means the newest.
pub fn resolve_revision(asked: i64, mark: Mark) -> Result<i64, StoreError> {
    if asked > mark.revision {
        return Err(StoreError::FutureRevision);
    }
    let at = if asked <= 0 { mark.revision } else { asked };
    if at < mark.compact_revision {
        return Err(StoreError::Compacted);
    }
    Ok(at)
}

/// Records that are sorted, filtered or cut without a second thought.
const FINISHED_AT_ONCE_MAX: u64 = 4096;

pub struct RangeRun {
    request: RangeRequest,
    /// Revision for the response header: the newest when the run began.
    revision: i64,
    /// Revision that is read.
    at: i64,
    /// How many more records to fetch.
    wanted: usize,
    /// Records still allowed out through [`RangeRun::take`], if the request has a limit.
    allowance: Option<usize>,
    /// Where the next step continues; None when everything has been fetched.
    resume: Option<Bytes>,
    kvs: Vec<Record>,
    /// Keys looked at so far.
    examined: usize,
    cut: bool,
}

impl RangeRun {
    pub fn new(request: Validated<RangeRequest>, mark: Mark) -> Result<RangeRun, StoreError> {
        let at = resolve_revision(request.revision, mark)?;
        Ok(RangeRun::at(request.into_inner(), mark.revision, at))
    }

    /// A run whose revisions have been decided by the caller.
    pub(crate) fn at(request: RangeRequest, revision: i64, at: i64) -> RangeRun {
        let limit = usize::try_from(request.limit).ok().filter(|&limit| limit > 0);
        let wanted = request.fetch_limit();
        let resume = (!request.count_only).then(|| request.range.key.clone());
        let kvs = Vec::new();
        RangeRun { request, revision, at, wanted, allowance: limit, resume, kvs, examined: 0, cut: false }
    }

    /// The revision that is read.
    pub fn reads_at(&self) -> i64 {
        self.at
    }

    /// Examines up to `budget` keys or about `max_bytes` of records. True when there is nothing
    /// left to fetch.
    pub fn step(&mut self, store: &Store, budget: usize, max_bytes: usize) -> Result<bool, StoreError> {
        if self.at < store.freed_to {
            return Err(StoreError::Compacted);
        }
        let Some(from) = self.resume.take() else { return Ok(true) };
        if self.request.range.is_single() {
            self.kvs.extend(store.get(&from, self.at).cloned());
            self.examined += 1;
            return Ok(true);
        }
        let keys = |slot: Slot| store.keys.key(slot);
        let mut cursor = store.tree.seek(&keys, &from);
        let mut bytes = 0;
        let is_newest = store.is_latest(self.at);
        for _ in 0..budget {
            let Some(slot) = store.tree.next(&mut cursor) else { return Ok(true) };
            self.examined += 1;
            let chain = store.keys.chain(slot);
            let last = chain.last().expect("a key in the tree has a version");
            let key = last.key();
            if self.request.range.end().is_some_and(|end| end <= key) {
                return Ok(true);
            }
            let seen =
                if is_newest { (!last.is_tombstone()).then_some(last) } else { chain.live_at(self.at) };
            if let Some(record) = seen {
                bytes += record.wire_len();
                self.kvs.push(record.clone());
                self.wanted -= 1;
            }
            if self.wanted == 0 {
                return Ok(true);
            }
            if bytes >= max_bytes {
                self.resume = Some(successor(key));
                return Ok(false);
            }
        }
        match store.tree.next(&mut cursor) {
            Some(slot) => self.resume = Some(Bytes::copy_from_slice(store.keys.key(slot))),
            None => return Ok(true),
        }
        Ok(false)
    }

    /// Runs to the end in one go, for requests inside a transaction.
    pub(crate) fn complete(
        mut self,
        store: &Store,
        allowance: &mut AnswerBytes,
    ) -> Result<RangeResponse, StoreError> {
        while !self.step(store, usize::MAX, usize::MAX)? {}
        self.take_allowance(allowance, 0)?;
        let count = self.count(store)?;
        Ok(self.finish(count))
    }

    /// The records fetched since the last call, for a streamed answer. Never more than the limit
    /// allows.
    pub fn take(&mut self) -> Vec<Record> {
        let mut kvs = std::mem::take(&mut self.kvs);
        if let Some(allowance) = &mut self.allowance {
            if kvs.len() > *allowance {
                kvs.truncate(*allowance);
                self.cut = true;
            }
            *allowance -= kvs.len();
        }
        strip_values(&self.request, &mut kvs);
        kvs
    }

    /// Takes what was fetched since there were `seen` records out of the allowance.
    pub fn take_allowance(&self, allowance: &mut AnswerBytes, seen: usize) -> Result<(), StoreError> {
        if !allowance.is_limited() {
            return Ok(());
        }
        allowance.take(self.kvs[seen..].iter().map(|record| answer_bytes(&self.request, record)).sum())
    }

    /// How many records have been fetched.
    pub fn fetched(&self) -> usize {
        self.kvs.len()
    }

    /// How many keys have been looked at.
    pub fn examined(&self) -> usize {
        self.examined
    }

    /// Whether [`RangeRun::finish`] takes so long that nothing should wait for it.
    pub fn is_long_to_finish(&self) -> bool {
        let request = &self.request;
        if request.has_default_order() && !request.has_revision_filters() && !request.keys_only {
            return false;
        }
        let is_by_value = request.sort_target == SortTarget::Value;
        let bytes = |kv: &Record| if is_by_value { kv.value_len() as u64 } else { 0 };
        self.kvs.len() > FINISHED_AT_ONCE_MAX as usize
            || self.kvs.iter().map(|kv| weight(request, bytes(kv))).sum::<u64>() > 8 * FINISHED_AT_ONCE_MAX
    }

    /// How many keys the whole range has at the run's revision.
    pub fn count(&self, store: &Store) -> Result<i64, StoreError> {
        if self.at < store.freed_to {
            return Err(StoreError::Compacted);
        }
        Ok(store.count_at(&self.request.range, self.at))
    }

    /// Filters, sorts and cuts what was fetched: the answer, once [`RangeRun::step`] has said that
    /// all is there.
    pub fn finish(mut self, count: i64) -> RangeResponse {
        filter(&self.request, &mut self.kvs);
        sort(&self.request, &mut self.kvs);
        let kvs = self.take();
        RangeResponse { revision: self.revision, kvs, more: self.cut, count }
    }
}

/// The smallest key after `key`.
fn successor(key: &[u8]) -> Bytes {
    let mut next = Vec::with_capacity(key.len() + 1);
    next.extend_from_slice(key);
    next.push(0);
    next.into()
}

fn strip_values(request: &RangeRequest, kvs: &mut [Record]) {
    if !request.keys_only {
        return;
    }
    for kv in kvs {
        // Sorted by value, etcd reads the whole record and so still knows its lease.
        let lease = if request.sort_target == SortTarget::Value { kv.lease() } else { 0 };
        *kv = kv.keys_only(lease);
    }
}

fn filter(request: &RangeRequest, kvs: &mut Vec<Record>) {
    if !request.has_revision_filters() {
        return;
    }
    let within = |value: i64, min: i64, max: i64| (min == 0 || value >= min) && (max == 0 || value <= max);
    kvs.retain(|kv| {
        within(kv.mod_revision(), request.min_mod_revision, request.max_mod_revision)
            && within(kv.create_revision(), request.min_create_revision, request.max_create_revision)
    });
}

/// Order NONE sorts by the target too, ascending; by key that is how records were fetched. Equal
/// records stay in key order, descending too, as in etcd for up to twelve records: beyond that
/// its sort is not stable.
fn sort(request: &RangeRequest, kvs: &mut [Record]) {
    match request.sort_target {
        SortTarget::Key if request.sort_order != SortOrder::Descend => {}
        SortTarget::Key => sort_by(request, kvs, |a, b| a.key().cmp(b.key())),
        SortTarget::Version => sort_by(request, kvs, |a, b| a.version().cmp(&b.version())),
        SortTarget::Create => sort_by(request, kvs, |a, b| a.create_revision().cmp(&b.create_revision())),
        SortTarget::Mod => sort_by(request, kvs, |a, b| a.mod_revision().cmp(&b.mod_revision())),
        SortTarget::Value => sort_by(request, kvs, Record::cmp_value),
    }
}

fn sort_by(request: &RangeRequest, kvs: &mut [Record], order: impl Fn(&Record, &Record) -> Ordering) {
    match request.sort_order {
        SortOrder::Descend => kvs.sort_by(|a, b| order(b, a)),
        SortOrder::None | SortOrder::Ascend => kvs.sort_by(order),
    }
}
