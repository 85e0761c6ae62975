//! A store that takes over what another one decided ends up with the same bytes, or takes nothing.

use vetch_store::record::Fields;
use vetch_store::request::*;
use vetch_store::{Record, Store, StoreError};
use vetch_testkit::valid::Valid;

fn put(key: &'static str, lease: i64) -> RequestOp {
    let (key, value) = (key.into(), "v".into());
    RequestOp::Put(PutRequest { key, value, lease, prev_kv: false, ignore_value: false, ignore_lease: false })
}

fn delete(key: &'static str, end: &'static str) -> RequestOp {
    RequestOp::DeleteRange(DeleteRangeRequest { range: KeyRange::new(key, end), prev_kv: false })
}

fn txn(success: Vec<RequestOp>) -> WriteRequest {
    WriteRequest::Txn(TxnRequest { success, ..TxnRequest::default() }.valid())
}

fn foreign(changes: Vec<Record>) -> WriteRequest {
    WriteRequest::Foreign { changes }
}

fn version(key: &str, create_revision: i64, mod_revision: i64, version: i64, lease: i64, sub: u32) -> Record {
    let (key, value) = (key.as_bytes(), &b"v"[..]);
    Record::new(Fields { key, value, create_revision, mod_revision, version, lease, sub })
}

#[test]
fn a_follower_writes_the_same_journal_as_who_it_follows() {
    let requests = [
        WriteRequest::LeaseGrant { id: 7, ttl: 60 },
        txn(vec![put("a", 7), put("b", 0), put("c", 7)]),
        txn(vec![put("a", 0)]),
        // The open end lets a delete and a put of the same key meet in one revision.
        txn(vec![delete("b", "\0"), put("b", 7)]),
        txn(vec![delete("a", "")]),
        txn(vec![put("a", 7)]),
        txn(vec![delete("a", "z")]),
    ];
    let (mut leader, mut follower) = (Store::default(), Store::default());
    let (mut written, mut followed) = (Vec::new(), Vec::new());
    for request in &requests {
        let evaluated = leader.evaluate(request, &mut written).unwrap();
        let changes = evaluated.events.into_iter().map(|event| event.kv).collect::<Vec<_>>();
        let request = if changes.is_empty() { request.clone() } else { foreign(changes) };
        follower.evaluate(&request, &mut followed).unwrap();
    }
    assert_eq!(written, followed);
    assert_eq!(leader.head(), follower.head());
    assert_eq!(leader.lease_keys(7), follower.lease_keys(7));
    let mut again = Store::default();
    again.replay(&followed).unwrap();
    assert_eq!(again.head(), leader.head());
}

#[test]
fn what_does_not_fit_is_refused_and_changes_nothing() {
    let mut store = Store::default();
    let mut journal = Vec::new();
    store.evaluate(&txn(vec![put("a", 0)]), &mut journal).unwrap();
    let (head, length) = (store.head(), journal.len());
    assert_eq!(head.revision, 2);
    let cases = [
        ("nothing", vec![]),
        ("a revision skipped", vec![version("a", 2, 4, 2, 0, 0)]),
        ("a revision again", vec![version("a", 2, 2, 1, 0, 0)]),
        ("out of order", vec![version("b", 3, 3, 1, 0, 1)]),
        ("a version skipped", vec![version("a", 2, 3, 3, 0, 0)]),
        ("another life", vec![version("a", 3, 3, 1, 0, 0)]),
        ("a life that never began", vec![version("b", 2, 3, 2, 0, 0)]),
        ("a lease that is not known", vec![version("b", 3, 3, 1, 9, 0)]),
        ("a delete of nothing", vec![Record::tombstone(b"b", 3, 0, 0)]),
        ("the second of two", vec![Record::tombstone(b"a", 3, 0, 0), Record::tombstone(b"a", 3, 1, 0)]),
        (
            "a put that forgets the delete before it",
            vec![Record::tombstone(b"a", 3, 0, 0), version("a", 2, 3, 2, 0, 1)],
        ),
    ];
    for (what, changes) in cases {
        let outcome = store.evaluate(&foreign(changes), &mut journal);
        assert!(matches!(outcome, Err(StoreError::Misfit(_))), "{what}: {outcome:?}");
        assert_eq!((store.head(), journal.len()), (head, length), "{what}");
    }
    store.evaluate(&foreign(vec![version("a", 2, 3, 2, 0, 0)]), &mut journal).unwrap();
}
