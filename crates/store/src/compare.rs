//! Compares: the guards of a transaction, and the path they choose.

use std::cmp::Ordering;

use crate::error::StoreError;
use crate::exclusive::{Exclusive, scan};
use crate::keys::Slot;
use crate::record::Record;
use crate::request::{Compare, CompareResult, CompareTarget, KeyRange, PutRequest, RequestOp, TxnRequest};
use crate::state::{Mark, Store};
use crate::validate::Intervals;
use crate::work::Work;

/// Which branch a transaction takes, and each nested transaction of that branch, in order.
///
/// All of it is decided against the state before the transaction; what a branch writes never
/// influences the compares of a transaction nested in it.
#[derive(Debug)]
pub(crate) struct Path {
    pub(crate) succeeded: bool,
    /// Ranges and deletes on it.
    scans: usize,
    pub(crate) nested: Vec<Path>,
}

impl Path {
    /// Refuses a transaction whose compares examine more keys than it may.
    pub(crate) fn choose(
        store: &mut impl Exclusive,
        request: &TxnRequest,
        at: i64,
        work: &mut Work<'_>,
    ) -> Result<Path, StoreError> {
        let mut succeeded = true;
        for compare in &request.compare {
            succeeded = holds(store, compare, at, work)?;
            if !succeeded {
                break;
            }
        }
        let mut path = Path { succeeded, scans: 0, nested: Vec::new() };
        for op in branch(request, succeeded) {
            match op {
                RequestOp::Txn(nested) => {
                    let nested = Path::choose(store, nested, at, work)?;
                    path.scans += nested.scans;
                    path.nested.push(nested);
                }
                RequestOp::Range(_) | RequestOp::DeleteRange(_) => path.scans += 1,
                RequestOp::Put(_) | RequestOp::Empty => {}
            }
        }
        Ok(path)
    }

    /// Everything on the path that could be refused is checked here, before anything changes.
    pub(crate) fn check<'r>(
        &self,
        store: &mut impl Exclusive,
        request: &'r TxnRequest,
        mark: Mark,
        work: &mut Work<'r>,
    ) -> Result<(), StoreError> {
        if self.scans == 1 {
            work.stand_alone(store);
        }
        let work = (self.scans > 0).then_some(work);
        Walk { store, mark, deleted: Deleted::default(), work }.check(self, request)
    }
}

/// A path being checked, in the order in which it will be run.
struct Walk<'r, 'w, S> {
    store: &'w mut S,
    mark: Mark,
    /// What the path deletes: a later put cannot keep a value or lease that went before it.
    deleted: Deleted<'r>,
    /// The allowances, if there is something to be counted.
    work: Option<&'w mut Work<'r>>,
}

impl<'r, S: Exclusive> Walk<'r, '_, S> {
    fn check(&mut self, path: &Path, request: &'r TxnRequest) -> Result<(), StoreError> {
        let mut nested = path.nested.iter();
        for op in branch(request, path.succeeded) {
            match op {
                RequestOp::Range(range) => {
                    let at = check_revision(range.revision, self.mark)?;
                    if let Some(work) = &mut self.work {
                        work.range(self.store, range, at)?;
                    }
                }
                RequestOp::Put(put) => self.check_put(put)?,
                RequestOp::DeleteRange(delete) => {
                    self.deleted.insert(&delete.range);
                    if let Some(work) = &mut self.work {
                        work.delete(self.store, &delete.range)?;
                    }
                }
                RequestOp::Txn(inner) => {
                    let path = nested.next().expect("a path has a step for each nested transaction");
                    self.check(path, inner)?;
                }
                RequestOp::Empty => return Err(StoreError::KeyNotFound),
            }
        }
        Ok(())
    }

    fn check_put(&mut self, put: &'r PutRequest) -> Result<(), StoreError> {
        check_put(self.store, put, self.mark.revision)?;
        let keeps = put.ignore_value || put.ignore_lease;
        if keeps && self.deleted.contains(&put.key) {
            return Err(StoreError::KeyNotFound);
        }
        let mut value_len = put.value.len();
        if put.ignore_value {
            value_len = self.store.get(&put.key, self.mark.revision).map_or(0, |kv| kv.value_len());
            self.deleted.kept_bytes += value_len;
        }
        if self.deleted.kept_bytes > self.store.kept_limit {
            return Err(StoreError::RequestTooLarge);
        }
        if let Some(work) = &mut self.work {
            work.put(&put.key, value_len);
        }
        Ok(())
    }
}

/// What a path has deleted so far, and how much it takes over.
#[derive(Default)]
struct Deleted<'r> {
    kept_bytes: usize,
    bounded: Intervals<'r>,
    /// Every key from here on.
    open: Option<&'r [u8]>,
}

impl<'r> Deleted<'r> {
    fn insert(&mut self, range: &'r KeyRange) {
        if range.is_single() || range.end().is_some() {
            self.bounded.insert(&range.key, &range.range_end);
        } else {
            let from = range.key.as_ref();
            self.open = Some(self.open.map_or(from, |open| open.min(from)));
        }
    }

    fn contains(&self, key: &[u8]) -> bool {
        self.open.is_some_and(|open| open <= key) || self.bounded.contains(key)
    }
}

pub(crate) fn branch(request: &TxnRequest, succeeded: bool) -> &[RequestOp] {
    if succeeded { &request.success } else { &request.failure }
}

/// The revision that is read. Inside a transaction only 0 means the newest; a negative one counts
/// as any other number here, though it is read as the newest in the end.
pub(crate) fn check_revision(asked: i64, mark: Mark) -> Result<i64, StoreError> {
    match asked {
        0 => Ok(mark.revision),
        asked if asked > mark.revision => Err(StoreError::FutureRevision),
        asked if asked < mark.compact_revision => Err(StoreError::Compacted),
        asked if asked < 0 => Ok(mark.revision),
        asked => Ok(asked),
    }
}

pub(crate) fn check_put(store: &Store, put: &PutRequest, at: i64) -> Result<(), StoreError> {
    if put.lease != 0 && store.leases.get(put.lease).is_none() {
        return Err(StoreError::LeaseNotFound);
    }
    if put.ignore_value || put.ignore_lease {
        let kept = store.get(&put.key, at).ok_or(StoreError::KeyNotFound)?;
        if put.ignore_value && kept.value_len() > store.kept_limit {
            return Err(StoreError::RequestTooLarge);
        }
    }
    Ok(())
}

/// Whether a compare holds for every key of its range. An empty range is compared once, as a key
/// that was never written, except by value: a value that does not exist equals nothing and differs
/// from nothing.
fn holds(
    store: &mut impl Exclusive,
    compare: &Compare,
    at: i64,
    work: &mut Work<'_>,
) -> Result<bool, StoreError> {
    if compare.range.is_single() {
        return holds_for_one(store, compare, at, work);
    }
    let mut found = Found::default();
    scan(store, &compare.range, |store, slot| found.look_at(store, compare, slot, at, work))?;
    Ok(found.holds(compare))
}

/// The same for a range that is a single key.
pub(crate) fn holds_for_one(
    store: &Store,
    compare: &Compare,
    at: i64,
    work: &mut Work<'_>,
) -> Result<bool, StoreError> {
    let record = store.get(&compare.range.key, at);
    work.compare(compared_bytes(compare, record))?;
    Ok(match record {
        Some(record) => holds_for(compare, Some(record)),
        None => holds_for_nothing(compare),
    })
}

/// What has been found of a compare's range so far.
#[derive(Default)]
pub(crate) struct Found {
    any: bool,
    differs: bool,
}

impl Found {
    /// False if no other key has to be looked at.
    pub(crate) fn look_at(
        &mut self,
        store: &Store,
        compare: &Compare,
        slot: Slot,
        at: i64,
        work: &mut Work<'_>,
    ) -> Result<bool, StoreError> {
        let record = store.keys.chain(slot).live_at(at);
        work.compare(compared_bytes(compare, record))?;
        if let Some(record) = record {
            self.any = true;
            self.differs = !holds_for(compare, Some(record));
        }
        Ok(!self.differs)
    }

    /// Whether the compare holds, once all keys were looked at.
    pub(crate) fn holds(&self, compare: &Compare) -> bool {
        !self.differs && (self.any || holds_for_nothing(compare))
    }
}

/// How many bytes of values a compare of this record may look at.
fn compared_bytes(compare: &Compare, record: Option<&Record>) -> usize {
    match (&compare.target, record) {
        (CompareTarget::Value(operand), Some(record)) => record.value_len().min(operand.len()),
        _ => 0,
    }
}

fn holds_for_nothing(compare: &Compare) -> bool {
    !matches!(compare.target, CompareTarget::Value(_)) && holds_for(compare, None)
}

fn holds_for(compare: &Compare, record: Option<&Record>) -> bool {
    let number = |field: fn(&Record) -> i64| record.map_or(0, field);
    let order = match &compare.target {
        CompareTarget::Version(operand) => number(Record::version).cmp(operand),
        CompareTarget::Create(operand) => number(Record::create_revision).cmp(operand),
        CompareTarget::Mod(operand) => number(Record::mod_revision).cmp(operand),
        CompareTarget::Lease(operand) => number(Record::lease).cmp(operand),
        CompareTarget::Value(operand) => {
            record.map_or_else(|| [].as_slice().cmp(operand), |record| record.cmp_value_to(operand))
        }
        CompareTarget::Unknown => Ordering::Equal,
    };
    match compare.result {
        CompareResult::Equal => order.is_eq(),
        CompareResult::NotEqual => order.is_ne(),
        CompareResult::Greater => order.is_gt(),
        CompareResult::Less => order.is_lt(),
        CompareResult::Unknown => true,
    }
}
