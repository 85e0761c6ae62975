//! Compares: the guards of a transaction, and the path they choose.

use std::borrow::Cow;
use std::cmp::Ordering;

use crate::error::StoreError;
use crate::keys::Slot;
use crate::record::Record;
use crate::request::{Compare, CompareResult, CompareTarget, KeyRange, PutRequest, RequestOp, TxnRequest};
use crate::state::{Mark, Store};
use crate::validate::Intervals;

/// Which branch a transaction takes, and each nested transaction of that branch, in order.
///
/// All of it is decided against the state before the transaction; what a branch writes never influences
/// the compares of a transaction nested in it.
#[derive(Debug)]
pub(crate) struct Path {
    pub(crate) succeeded: bool,
    pub(crate) nested: Vec<Path>,
}

impl Path {
    pub(crate) fn choose(store: &Store, request: &TxnRequest, at: i64) -> Path {
        let succeeded = request.compare.iter().all(|compare| holds(store, compare, at));
        let nested = branch(request, succeeded)
            .iter()
            .filter_map(|op| match op {
                RequestOp::Txn(nested) => Some(Path::choose(store, nested, at)),
                _ => None,
            })
            .collect();
        Path { succeeded, nested }
    }

    /// Everything on the path that could be refused is checked here, before anything changes.
    pub(crate) fn check(&self, store: &Store, request: &TxnRequest, mark: Mark) -> Result<(), StoreError> {
        self.check_after(store, request, mark, &mut Deleted::default())
    }

    /// `deleted` collects what the path deletes: a later put cannot keep a value or lease that went before it.
    fn check_after<'r>(
        &self,
        store: &Store,
        request: &'r TxnRequest,
        mark: Mark,
        deleted: &mut Deleted<'r>,
    ) -> Result<(), StoreError> {
        let mut nested = self.nested.iter();
        for op in branch(request, self.succeeded) {
            match op {
                RequestOp::Range(range) => check_revision(range.revision, mark)?,
                RequestOp::Put(put) => {
                    check_put(store, put, mark.revision)?;
                    let keeps = put.ignore_value || put.ignore_lease;
                    if keeps && deleted.contains(&put.key) {
                        return Err(StoreError::KeyNotFound);
                    }
                    if put.ignore_value {
                        deleted.kept_bytes +=
                            store.get(&put.key, mark.revision).map_or(0, |kv| kv.value_len());
                    }
                    if deleted.kept_bytes > store.kept_limit {
                        return Err(StoreError::RequestTooLarge);
                    }
                }
                RequestOp::DeleteRange(delete) => deleted.insert(&delete.range),
                RequestOp::Txn(inner) => {
                    let path = nested.next().expect("a path has a step for each nested transaction");
                    path.check_after(store, inner, mark, deleted)?;
                }
                RequestOp::Empty => return Err(StoreError::KeyNotFound),
            }
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

/// Inside a transaction only 0 means the newest revision; a negative one counts as any other number.
fn check_revision(asked: i64, mark: Mark) -> Result<(), StoreError> {
    match asked {
        0 => Ok(()),
        asked if asked > mark.revision => Err(StoreError::FutureRevision),
        asked if asked < mark.compact_revision => Err(StoreError::Compacted),
        _ => Ok(()),
    }
}

pub(crate) fn check_put(store: &Store, put: &PutRequest, at: i64) -> Result<(), StoreError> {
    if put.lease != 0 && store.leases.get(put.lease).is_none() {
        return Err(StoreError::LeaseNotFound);
    }
    if put.ignore_value || put.ignore_lease {
        let kept = store.get(&put.key, at).ok_or(StoreError::KeyNotFound)?;
        if put.ignore_value && kept.value().len() > store.kept_limit {
            return Err(StoreError::RequestTooLarge);
        }
    }
    Ok(())
}

/// Whether a compare holds for every key of its range. An empty range is compared once, as a key that was
/// never written, except by value: a value that does not exist equals nothing and differs from nothing.
fn holds(store: &Store, compare: &Compare, at: i64) -> bool {
    let range = &compare.range;
    if range.is_single() {
        return match store.get(&range.key, at) {
            Some(record) => holds_for(compare, Some(record)),
            None => holds_for_nothing(compare),
        };
    }
    let keys = |slot: Slot| store.keys.key(slot);
    let mut cursor = store.tree.seek(&keys, &range.key);
    let mut any = false;
    while let Some(slot) = store.tree.next(&mut cursor) {
        if range.end().is_some_and(|end| end <= store.keys.key(slot)) {
            break;
        }
        let Some(record) = store.keys.chain(slot).live_at(at) else { continue };
        any = true;
        if !holds_for(compare, Some(record)) {
            return false;
        }
    }
    any || holds_for_nothing(compare)
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
            record.map_or(Cow::Borrowed(&b""[..]), Record::value).as_ref().cmp(operand)
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
