//! Checks that need only the request: they run before anything is queued, on the caller's thread.
//!
//! What passes becomes [`Validated`], which is all that reads and evaluation accept. It can still
//! be refused by the state (a missing lease, a compacted revision), but never half-way: evaluation
//! checks the chosen path of a transaction before it changes anything.

use std::collections::{BTreeMap, HashSet};

use crate::error::StoreError;
use crate::request::{DeleteRangeRequest, PutRequest, RangeRequest, RequestOp, TxnRequest};
use crate::validated::Validated;

pub fn range(request: RangeRequest) -> Result<Validated<RangeRequest>, StoreError> {
    Validated::checked(request, check_range)
}

pub fn put(request: PutRequest) -> Result<Validated<PutRequest>, StoreError> {
    Validated::checked(request, check_put)
}

pub fn delete_range(request: DeleteRangeRequest) -> Result<Validated<DeleteRangeRequest>, StoreError> {
    Validated::checked(request, check_delete_range)
}

/// `max_ops` bounds each of the three lists; a nested transaction may use what its parents left.
pub fn txn(request: TxnRequest, max_ops: usize) -> Result<Validated<TxnRequest>, StoreError> {
    Validated::checked(request, |request| check_txn(request, max_ops))
}

fn check_range(request: &RangeRequest) -> Result<(), StoreError> {
    if request.range.key.is_empty() { Err(StoreError::EmptyKey) } else { Ok(()) }
}

fn check_put(request: &PutRequest) -> Result<(), StoreError> {
    if request.key.is_empty() {
        return Err(StoreError::EmptyKey);
    }
    if request.ignore_value && !request.value.is_empty() {
        return Err(StoreError::ValueProvided);
    }
    if request.ignore_lease && request.lease != 0 {
        return Err(StoreError::LeaseProvided);
    }
    Ok(())
}

fn check_delete_range(request: &DeleteRangeRequest) -> Result<(), StoreError> {
    if request.range.key.is_empty() { Err(StoreError::EmptyKey) } else { Ok(()) }
}

fn check_txn(request: &TxnRequest, max_ops: usize) -> Result<(), StoreError> {
    shape(request, max_ops)?;
    check_branch(&request.success)?;
    check_branch(&request.failure)
}

/// A single operation cannot change a key twice, unless it is a transaction. That is what nearly
/// all transactions of Kubernetes look like.
fn check_branch(ops: &[RequestOp]) -> Result<(), StoreError> {
    match ops {
        [] | [RequestOp::Range(_) | RequestOp::Put(_) | RequestOp::DeleteRange(_)] => Ok(()),
        ops => Footprint::of(ops).map(|_| ()),
    }
}

fn shape(request: &TxnRequest, max_ops: usize) -> Result<(), StoreError> {
    let ops = request.compare.len().max(request.success.len()).max(request.failure.len());
    if ops > max_ops {
        return Err(StoreError::TooManyOps);
    }
    if request.compare.iter().any(|compare| compare.range.key.is_empty()) {
        return Err(StoreError::EmptyKey);
    }
    for op in request.success.iter().chain(&request.failure) {
        match op {
            RequestOp::Range(op) => check_range(op)?,
            RequestOp::Put(op) => check_put(op)?,
            RequestOp::DeleteRange(op) => check_delete_range(op)?,
            RequestOp::Txn(op) => shape(op, max_ops - ops)?,
            RequestOp::Empty => return Err(StoreError::KeyNotFound),
        }
    }
    Ok(())
}

/// The keys one branch may write: what it puts, and what it deletes.
///
/// A branch must not put a key twice, nor put a key that it deletes. The rule is checked level by
/// level in etcd's order, which lets through what etcd lets through: a delete that comes with a
/// *later* nested transaction, and an open-ended delete (`range_end` of one zero byte, which this
/// check reads literally and so as an empty interval). Evaluation copes with several changes of a
/// key in one revision.
#[derive(Default)]
struct Footprint<'a> {
    puts: HashSet<&'a [u8]>,
    deletes: Intervals<'a>,
}

impl<'a> Footprint<'a> {
    fn of(ops: &'a [RequestOp]) -> Result<Footprint<'a>, StoreError> {
        let mut here = Footprint::default();
        for op in ops {
            if let RequestOp::DeleteRange(delete) = op {
                here.deletes.insert(&delete.range.key, &delete.range.range_end);
            }
        }
        for op in ops {
            if let RequestOp::Txn(nested) = op {
                here.add_nested(Footprint::of(&nested.success)?, Footprint::of(&nested.failure)?)?;
            }
        }
        for op in ops {
            if let RequestOp::Put(put) = op {
                here.add_put(&put.key)?;
            }
        }
        Ok(here)
    }

    /// The two branches of one nested transaction exclude each other, so they may overlap.
    fn add_nested(&mut self, then: Footprint<'a>, otherwise: Footprint<'a>) -> Result<(), StoreError> {
        for key in &then.puts {
            self.add_put(key)?;
        }
        for key in otherwise.puts {
            if then.puts.contains(key) {
                continue;
            }
            self.add_put(key)?;
        }
        self.deletes.union(then.deletes);
        self.deletes.union(otherwise.deletes);
        Ok(())
    }

    fn add_put(&mut self, key: &'a [u8]) -> Result<(), StoreError> {
        if self.deletes.contains(key) || !self.puts.insert(key) {
            return Err(StoreError::DuplicateKey);
        }
        Ok(())
    }
}

/// A set of keys given as points and half-open intervals; intervals are kept disjoint, so that a
/// lookup is a binary search even for a request made of hundreds of thousands of tiny deletes.
#[derive(Default)]
pub(crate) struct Intervals<'a> {
    points: HashSet<&'a [u8]>,
    ranges: BTreeMap<&'a [u8], &'a [u8]>,
}

impl<'a> Intervals<'a> {
    pub(crate) fn insert(&mut self, key: &'a [u8], range_end: &'a [u8]) {
        if range_end.is_empty() {
            self.points.insert(key);
        } else if key < range_end {
            self.insert_range(key, range_end);
        }
    }

    fn insert_range(&mut self, mut start: &'a [u8], mut end: &'a [u8]) {
        while let Some((&other_start, &other_end)) = self.ranges.range(..=end).next_back() {
            if other_end < start {
                break;
            }
            self.ranges.remove(other_start);
            start = start.min(other_start);
            end = end.max(other_end);
        }
        self.ranges.insert(start, end);
    }

    fn union(&mut self, other: Intervals<'a>) {
        self.points.extend(other.points);
        for (start, end) in other.ranges {
            self.insert_range(start, end);
        }
    }

    pub(crate) fn contains(&self, key: &[u8]) -> bool {
        self.points.contains(key) || self.ranges.range(..=key).next_back().is_some_and(|(_, &end)| key < end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{Compare, CompareResult, CompareTarget, KeyRange};

    fn put_op(key: &'static str) -> RequestOp {
        RequestOp::Put(PutRequest {
            key: key.into(),
            value: "v".into(),
            lease: 0,
            prev_kv: false,
            ignore_value: false,
            ignore_lease: false,
        })
    }

    fn delete_op(key: &'static str, end: &'static str) -> RequestOp {
        RequestOp::DeleteRange(DeleteRangeRequest { range: KeyRange::new(key, end), prev_kv: false })
    }

    fn nested(success: Vec<RequestOp>, failure: Vec<RequestOp>) -> RequestOp {
        RequestOp::Txn(TxnRequest { compare: vec![], success, failure })
    }

    fn check(success: Vec<RequestOp>) -> Result<(), StoreError> {
        check_txn(&TxnRequest { compare: vec![], success, failure: vec![] }, 128)
    }

    #[test]
    fn puts_and_deletes_of_one_branch_must_not_overlap() {
        let duplicate = Err(StoreError::DuplicateKey);
        assert_eq!(check(vec![put_op("a"), put_op("a")]), duplicate);
        assert_eq!(check(vec![put_op("b"), delete_op("a", "c")]), duplicate);
        assert_eq!(check(vec![put_op("a"), delete_op("a", "")]), duplicate);
        assert_eq!(check(vec![put_op("c"), delete_op("a", "c")]), Ok(()));
        assert_eq!(check(vec![delete_op("a", ""), delete_op("a", "z")]), Ok(()));
        assert_eq!(check(vec![put_op("x"), nested(vec![put_op("x")], vec![])]), duplicate);
        assert_eq!(check(vec![nested(vec![delete_op("a", "c")], vec![]), put_op("b")]), duplicate);
    }

    #[test]
    fn what_the_api_lets_through_passes() {
        assert_eq!(check(vec![nested(vec![put_op("a")], vec![put_op("a")])]), Ok(()));
        let later_delete = vec![nested(vec![put_op("a")], vec![]), nested(vec![delete_op("a", "")], vec![])];
        assert_eq!(check(later_delete), Ok(()));
        assert_eq!(check(vec![put_op("b"), delete_op("a", "\0")]), Ok(()));
    }

    #[test]
    fn a_nested_transaction_may_use_what_its_parent_left() {
        let many = |n: usize| (0..n).map(|_| delete_op("k", "")).collect::<Vec<_>>();
        assert_eq!(check(many(128)), Ok(()));
        assert_eq!(check(many(129)), Err(StoreError::TooManyOps));
        assert_eq!(check(vec![nested(many(127), vec![])]), Ok(()));
        assert_eq!(check(vec![nested(many(128), vec![])]), Err(StoreError::TooManyOps));
    }

    #[test]
    fn empty_operations_and_keys_are_refused() {
        assert_eq!(check(vec![RequestOp::Empty]), Err(StoreError::KeyNotFound));
        assert_eq!(check(vec![put_op("")]), Err(StoreError::EmptyKey));
        let compare = Compare {
            range: KeyRange::single(""),
            result: CompareResult::Equal,
            target: CompareTarget::Version(0),
        };
        let request = TxnRequest { compare: vec![compare], ..TxnRequest::default() };
        assert_eq!(txn(request, 128), Err(StoreError::EmptyKey));
    }

    #[test]
    fn intervals_merge_and_answer_points() {
        let mut set = Intervals::default();
        set.insert(b"a", b"c");
        set.insert(b"e", b"g");
        set.insert(b"b", b"f");
        assert_eq!(set.ranges.len(), 1);
        assert!(set.contains(b"d") && set.contains(b"a") && !set.contains(b"g"));
        set.insert(b"z", b"y");
        assert!(!set.contains(b"z"));
    }
}
