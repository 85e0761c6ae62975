//! What one transaction may cost: time with the store locked, and memory for its answer, in sum
//! over its whole tree.

mod spec;

use proptest::collection::vec;
use proptest::prelude::*;
use vetch_store::request::*;
use vetch_store::{Store, StoreError, TxnLimits, validate};
use vetch_testkit::valid::Valid;

use spec::requests;

fn key(n: usize) -> String {
    format!("k{n:06}")
}

fn put(key: impl Into<String>, value: Vec<u8>) -> PutRequest {
    PutRequest {
        key: key.into().into(),
        value: value.into(),
        lease: 0,
        prev_kv: false,
        ignore_value: false,
        ignore_lease: false,
    }
}

fn everything() -> RangeRequest {
    RangeRequest::new(KeyRange::new("k", "l"))
}

fn delete_everything() -> RequestOp {
    RequestOp::DeleteRange(DeleteRangeRequest { range: KeyRange::new("k", "l"), prev_kv: false })
}

fn store_of(keys: usize) -> Store {
    let mut store = Store::default();
    for n in 0..keys {
        evaluate(&mut store, WriteRequest::Put(put(key(n), vec![b'v']).valid())).expect("nothing refuses it");
    }
    store.publish(store.head());
    store
}

/// Without the answer, which would be too long to be shown.
fn evaluate(store: &mut Store, request: WriteRequest) -> Result<(), StoreError> {
    if let WriteRequest::Txn(txn) = &request {
        assert!(validate::txn((**txn).clone(), 128).is_ok(), "etcd would take it");
    }
    let mut journal = Vec::new();
    let before = (store.head(), store.stats());
    let answer = store.evaluate(&request, &mut journal);
    if answer.is_err() {
        assert!(journal.is_empty());
        assert_eq!((store.head(), store.stats()), before, "a refused request leaves no trace");
    }
    answer.map(|_| ())
}

fn txn(success: Vec<RequestOp>) -> TxnRequest {
    TxnRequest { success, ..TxnRequest::default() }
}

/// As many operations as `--max-txn-ops` lets through: 43 transactions in each of 42, and `op` in
/// each of those.
fn nested(op: impl Fn() -> TxnRequest) -> WriteRequest {
    WriteRequest::Txn(nested_txn(op).valid())
}

fn nested_txn(op: impl Fn() -> TxnRequest) -> TxnRequest {
    let inner = || RequestOp::Txn(txn((0..43).map(|_| RequestOp::Txn(op())).collect()));
    txn((0..42).map(|_| inner()).collect())
}

fn nested_ops(op: RequestOp) -> WriteRequest {
    nested(|| txn(vec![op.clone(); 2]))
}

const TOO_LARGE: Result<(), StoreError> = Err(StoreError::RequestTooLarge);

#[test]
fn nested_ranges_are_bounded_in_sum() {
    let mut store = store_of(5_000);
    assert_eq!(evaluate(&mut store, nested_ops(RequestOp::Range(everything()))), TOO_LARGE);
    // A put among them changes nothing, nor does a sort or a limit that cuts only in the end.
    let both = || txn(vec![RequestOp::Range(everything()), RequestOp::Range(everything())]);
    let mut ranges = nested_txn(both);
    ranges.success.push(RequestOp::Put(put("k", vec![1])));
    assert_eq!(evaluate(&mut store, WriteRequest::Txn(ranges.valid())), TOO_LARGE);
    let sorted = RangeRequest {
        sort_order: SortOrder::Descend,
        sort_target: SortTarget::Mod,
        limit: 1,
        ..everything()
    };
    assert_eq!(evaluate(&mut store, nested_ops(RequestOp::Range(sorted))), TOO_LARGE);
}

#[test]
fn nested_compares_deletes_and_counts_in_the_past_are_bounded_too() {
    let mut store = store_of(5_000);
    let compare = Compare {
        range: KeyRange::new("k", "l"),
        result: CompareResult::NotEqual,
        target: CompareTarget::Lease(7),
    };
    let compares = || TxnRequest { compare: vec![compare.clone(); 2], ..TxnRequest::default() };
    assert_eq!(evaluate(&mut store, nested(compares)), TOO_LARGE);
    let flat = TxnRequest { compare: vec![compare.clone(); 128], ..TxnRequest::default() };
    assert_eq!(evaluate(&mut store, WriteRequest::Txn(flat.clone().valid())), TOO_LARGE);
    assert_eq!(store.read_txn(&flat.clone().valid()).map(|_| ()), TOO_LARGE);
    // The first takes all keys and each of the others walks over what is left of them.
    assert_eq!(evaluate(&mut store, nested_ops(delete_everything())), TOO_LARGE);
    let past = RangeRequest { revision: 2, count_only: true, ..everything() };
    assert_eq!(evaluate(&mut store, nested_ops(RequestOp::Range(past))), TOO_LARGE);
}

#[test]
fn what_a_transaction_has_put_counts_where_it_is_read() {
    let mut store = store_of(0);
    let mut ops: Vec<RequestOp> = vec![RequestOp::Put(put("k", vec![b'v'; 1 << 20]))];
    let read = |range: KeyRange| {
        RequestOp::Txn(txn(vec![
            RequestOp::Txn(txn(vec![RequestOp::Range(RangeRequest::new(range)); 80]));
            9
        ]))
    };
    ops.push(read(KeyRange::single("k")));
    assert_eq!(evaluate(&mut store, WriteRequest::Txn(txn(ops.clone()).valid())), TOO_LARGE);
    ops[1] = read(KeyRange::new("a", "\0"));
    assert_eq!(evaluate(&mut store, WriteRequest::Txn(txn(ops.clone()).valid())), TOO_LARGE);
    ops[1] = read(KeyRange::new("l", "\0"));
    assert!(evaluate(&mut store, WriteRequest::Txn(txn(ops).valid())).is_ok());
}

#[test]
fn what_clients_do_stays_within_the_limits() {
    let mut store = store_of(2_000);
    let ranges = vec![RequestOp::Range(everything()); 127];
    let mut writes = ranges.clone();
    writes.push(RequestOp::Put(put("k", vec![1])));
    assert!(evaluate(&mut store, WriteRequest::Txn(txn(writes).valid())).is_ok());
    assert!(store.read_txn(&txn(ranges).valid()).is_ok());
    assert!(
        evaluate(&mut store, nested_ops(RequestOp::Range(RangeRequest::new(KeyRange::single("k"))))).is_ok()
    );
    assert!(evaluate(&mut store, WriteRequest::Txn(txn(vec![delete_everything(); 4]).valid())).is_ok());
}

/// The same keys, with values that differ in their last bytes only, so that comparing two of them
/// looks at all of both.
fn store_of_values(keys: usize, bytes: usize) -> Store {
    let mut store = Store::default();
    for n in 0..keys {
        let mut value = vec![0; bytes];
        value.extend_from_slice(&n.to_be_bytes());
        evaluate(&mut store, WriteRequest::Put(put(key(n), value).valid())).expect("nothing refuses it");
    }
    store.publish(store.head());
    store
}

fn by_value() -> RangeRequest {
    let (sort_order, sort_target) = (SortOrder::Ascend, SortTarget::Value);
    RangeRequest { sort_order, sort_target, keys_only: true, limit: 1, ..everything() }
}

/// With the store locked, and a sort compares every value some ten times.
#[test]
fn a_single_sort_by_value_within_a_write_is_bounded_by_the_bytes_it_compares() {
    let mut store = store_of_values(64, 1 << 20);
    let sorted = |range| {
        WriteRequest::Txn(txn(vec![RequestOp::Put(put("z", vec![1])), RequestOp::Range(range)]).valid())
    };
    assert_eq!(evaluate(&mut store, sorted(by_value())), TOO_LARGE);
    let few = RangeRequest { range: KeyRange::new(key(0), key(10)), ..by_value() };
    assert!(evaluate(&mut store, sorted(few)).is_ok());
    let by_revision = RangeRequest { sort_target: SortTarget::Mod, ..by_value() };
    assert!(evaluate(&mut store, sorted(by_revision)).is_ok(), "it compares numbers");
    assert!(
        store.read_txn(&txn(vec![RequestOp::Range(by_value())]).valid()).is_ok(),
        "it is sorted without the lock"
    );
}

#[test]
fn compares_of_values_are_bounded_by_bytes_whether_or_not_anything_is_written() {
    let mut store = store_of_values(300, 100 << 10);
    let guard = |range: KeyRange, bytes: usize| Compare {
        range,
        result: CompareResult::NotEqual,
        target: CompareTarget::Value(vec![0; bytes].into()),
    };
    let guards = |guard: Compare| TxnRequest { compare: vec![guard; 14], ..TxnRequest::default() };
    let long = guards(guard(KeyRange::new("k", "l"), 100 << 10));
    assert_eq!(evaluate(&mut store, WriteRequest::Txn(long.clone().valid())), TOO_LARGE);
    assert_eq!(store.read_txn(&long.clone().valid()).map(|_| ()), TOO_LARGE);
    let short = guards(guard(KeyRange::new("k", "l"), 10));
    assert!(evaluate(&mut store, WriteRequest::Txn(short.clone().valid())).is_ok());
    assert!(store.read_txn(&short.clone().valid()).is_ok());
    assert!(store.read_txn(&guards(guard(KeyRange::single(key(7)), 100 << 10)).valid()).is_ok());
}

#[test]
fn counts_in_the_past_are_bounded_in_a_transaction_that_only_reads() {
    let mut store = store_of(5_000);
    store.limit_txns(TxnLimits { keys: 1_000, bytes: 0 });
    let count = |revision| RequestOp::Range(RangeRequest { revision, count_only: true, ..everything() });
    let counts = |revision, number| store.read_txn(&txn(vec![count(revision); number]).valid()).map(|_| ());
    assert_eq!(counts(2, 128), TOO_LARGE);
    assert_eq!(counts(2, 8), Ok(()));
    assert_eq!(counts(0, 128), Ok(()), "the tree knows");
    store.limit_txns(TxnLimits { keys: 0, bytes: 0 });
    assert!(store.read_txn(&txn(vec![count(2)]).valid()).is_ok(), "it costs what it costs alone");
}

/// The holder of the lock decides by this count when to release it.
#[test]
fn everything_that_is_evaluated_adds_to_the_work() {
    let mut store = store_of(1_000);
    let mut work_of = |request: WriteRequest| {
        let before = store.worked();
        let outcome = evaluate(&mut store, request);
        (store.worked() - before, outcome.is_ok())
    };
    assert_eq!(work_of(WriteRequest::Put(put("z", vec![1]).valid())), (1, true));
    let with_range = txn(vec![RequestOp::Put(put("z", vec![1])), RequestOp::Range(everything())]);
    assert_eq!(work_of(WriteRequest::Txn(with_range.valid())), (1_000 + 2, true));
    let (first, future) =
        (RangeRequest { limit: 1, ..everything() }, RangeRequest { revision: 1 << 40, ..everything() });
    let refused = txn(vec![RequestOp::Range(first), RequestOp::Range(future)]);
    assert_eq!(
        work_of(WriteRequest::Txn(refused.valid())),
        (1 + 2, false),
        "one more than asked for is looked at"
    );
    let delete = || {
        let RequestOp::DeleteRange(delete) = delete_everything() else { unreachable!("made above") };
        WriteRequest::DeleteRange(delete.valid())
    };
    assert_eq!(work_of(delete()), (2_000, true), "each is found and deleted");
    assert_eq!(work_of(delete()), (1_000, true), "what is deleted is in the way until it is compacted");
}

#[test]
fn a_single_range_or_delete_may_be_of_everything() {
    let mut store = store_of(100);
    store.limit_txns(TxnLimits { keys: 1, bytes: 0 });
    let range = RequestOp::Range(RangeRequest { sort_order: SortOrder::Descend, ..everything() });
    let with_put = vec![RequestOp::Put(put("k", vec![1])), range.clone()];
    assert!(evaluate(&mut store, WriteRequest::Txn(txn(with_put).valid())).is_ok());
    assert!(store.read_txn(&txn(vec![range.clone()]).valid()).is_ok());
    assert_eq!(store.read_txn(&txn(vec![range.clone(); 2]).valid()).map(|_| ()), TOO_LARGE);
    assert_eq!(
        evaluate(&mut store, WriteRequest::Txn(txn(vec![range.clone(), delete_everything()]).valid())),
        TOO_LARGE
    );
    assert!(evaluate(&mut store, WriteRequest::Txn(txn(vec![delete_everything()]).valid())).is_ok());
}

/// Measured against the same guards on a short value in the same run. Guards that looked at all of
/// the long one would take some ten thousand times as long.
#[test]
fn a_guard_on_a_long_value_costs_no_more_than_what_it_compares_with() {
    let long = vec![b'v'; 1 << 20];
    let (time_of_short, time_of_long) = (time_of_guards(vec![b'v'; 10]), time_of_guards(long));
    assert!(
        time_of_long < time_of_short * 100,
        "guards took {time_of_long:?} on a long value, {time_of_short:?} on a short one"
    );
}

#[test]
fn a_value_is_equal_to_itself_however_long_it_is() {
    let mut store = store_of(0);
    let value = vec![b'v'; 1 << 20];
    evaluate(&mut store, WriteRequest::Put(put("k", value.clone()).valid())).expect("nothing refuses it");
    let same = TxnRequest { compare: vec![guard(value, CompareResult::Equal)], ..TxnRequest::default() };
    assert!(store.evaluate(&WriteRequest::Txn(same.valid()), &mut Vec::new()).is_ok());
}

fn guard(value: Vec<u8>, result: CompareResult) -> Compare {
    Compare { range: KeyRange::single("k"), result, target: CompareTarget::Value(value.into()) }
}

/// The time that many guards on a key with `value` take.
#[expect(clippy::disallowed_methods, reason = "measures a time, which is compared with another one")]
fn time_of_guards(value: Vec<u8>) -> std::time::Duration {
    let mut store = Store::default();
    evaluate(&mut store, WriteRequest::Put(put("k", value).valid())).expect("nothing refuses it");
    let began = std::time::Instant::now();
    for _ in 0..5 {
        let guards = || TxnRequest {
            compare: vec![guard(vec![b'v'; 9], CompareResult::Greater); 42],
            ..TxnRequest::default()
        };
        assert!(evaluate(&mut store, nested(guards)).is_ok());
    }
    began.elapsed()
}

proptest! {
    /// Whatever the limits are, a transaction is answered as without them, or refused and leaves no
    /// trace.
    #[test]
    fn limits_change_no_answer(
        writes in vec(requests::write(), 1..60),
        keys in 0..40_u64,
        bytes in 0..3_000_u64,
    ) {
        let (mut free, mut bound) = (Store::default(), Store::default());
        for mut request in writes {
            requests::fit(&mut request, free.head().revision);
            requests::aim(&mut request, free.leases());
            let Ok(request) = request.validate(4) else { continue };
            bound.limit_txns(TxnLimits { keys, bytes });
            let (mut journal, before) = (Vec::new(), bound.head());
            if bound.evaluate(&request, &mut journal) == Err(StoreError::RequestTooLarge) {
                prop_assert!(matches!(request, WriteRequest::Txn(_)));
                prop_assert!(journal.is_empty() && bound.head() == before);
                continue;
            }
            let mut freely = Vec::new();
            let _ = free.evaluate(&request, &mut freely);
            prop_assert_eq!(journal, freely);
            prop_assert_eq!(bound.head(), free.head());
        }
    }
}
