//! Who may do what, through the store and everything a request can hold.

use crate::validated::valid;
use std::sync::Arc;

use super::*;
use crate::auth::AuthError::*;
use crate::auth::Caller;
use crate::leased::LeasedRun;
use crate::request::*;
use crate::state::Store;

fn store() -> Store {
    let mut store = Store { auth: Arc::new(in_use()), ..Store::default() };
    let mut journal = Vec::new();
    for id in [1, 2] {
        store.evaluate(&WriteRequest::LeaseGrant { id, ttl: 60 }, &mut journal).unwrap();
    }
    store.evaluate(&put("w/leased", 1, false), &mut journal).unwrap();
    store.evaluate(&put("secret", 2, false), &mut journal).unwrap();
    store
}

fn as_user(store: &Store, name: &str) -> Caller {
    Caller::user(name, store.auth().revision())
}

fn put_request(key: &str, lease: i64, prev_kv: bool) -> PutRequest {
    PutRequest {
        key: key.to_owned().into(),
        value: "v".into(),
        lease,
        prev_kv,
        ignore_value: false,
        ignore_lease: false,
    }
}

fn put(key: &str, lease: i64, prev_kv: bool) -> WriteRequest {
    WriteRequest::Put(valid(put_request(key, lease, prev_kv)))
}

fn delete_op(key: &str, end: &str, prev_kv: bool) -> DeleteRangeRequest {
    DeleteRangeRequest { range: KeyRange::new(key.to_owned(), end.to_owned()), prev_kv }
}

fn get(key: &str, end: &str) -> RequestOp {
    RequestOp::Range(RangeRequest::new(KeyRange::new(key.to_owned(), end.to_owned())))
}

fn txn(success: Vec<RequestOp>, failure: Vec<RequestOp>) -> TxnRequest {
    TxnRequest { compare: Vec::new(), success, failure }
}

/// Checks the results for the users `reader`, `writer`, `unprivileged` and root, in this order.
#[track_caller]
fn expect(request: WriteRequest, expected: [Result<(), AuthError>; 4]) {
    let store = store();
    for (user, expected) in ["reader", "writer", "unprivileged", "root"].into_iter().zip(expected) {
        assert_eq!(store.permit(&as_user(&store, user), &request), expected, "{user}: {request:?}");
    }
    let anonymous = store.permit(&Caller::Anonymous, &request);
    let (first, _) = expected.split_at(1);
    if first != [Ok(())] || !matches!(request, WriteRequest::LeaseRevoke { .. }) {
        assert_eq!(anonymous, Err(UserEmpty), "{request:?}");
    }
    assert_eq!(store.permit(&Caller::Server, &request), Ok(()));
}

const NO: Result<(), AuthError> = Err(PermissionDenied);

#[test]
fn puts_need_write_and_previous_values_need_read() {
    expect(put("w/a", 0, false), [NO, Ok(()), NO, Ok(())]);
    expect(put("r/a", 0, false), [NO, NO, NO, Ok(())]);
    expect(put("w/a", 0, true), [NO, NO, NO, Ok(())]);
}

#[test]
fn a_lease_is_attached_by_those_who_may_write_all_its_keys() {
    expect(put("w/a", 1, false), [NO, Ok(()), NO, Ok(())]);
    expect(put("w/a", 2, false), [NO, NO, NO, Ok(())]);
    expect(put("w/a", 99, false), [NO, Ok(()), NO, Ok(())]);
    expect(WriteRequest::LeaseRevoke { id: 1 }, [NO, Ok(()), NO, Ok(())]);
    expect(WriteRequest::LeaseRevoke { id: 2 }, [NO, NO, NO, Ok(())]);
}

#[test]
fn a_lease_without_keys_is_anybodys() {
    let store = store();
    let revoke = WriteRequest::LeaseRevoke { id: 99 };
    assert_eq!(store.permit(&as_user(&store, "unprivileged"), &revoke), Ok(()));
    let grant = WriteRequest::LeaseGrant { id: 9, ttl: 9 };
    assert_eq!(store.permit(&as_user(&store, "unprivileged"), &grant), Ok(()));
    assert_eq!(store.permit(&Caller::Anonymous, &grant), Err(UserEmpty));
}

#[test]
fn deletes_need_write_on_the_whole_range() {
    let delete = |key, end, prev_kv| WriteRequest::DeleteRange(valid(delete_op(key, end, prev_kv)));
    expect(delete("w/a", "", false), [NO, Ok(()), NO, Ok(())]);
    expect(delete("w/", "w0", false), [NO, Ok(()), NO, Ok(())]);
    expect(delete("w/", "w1", false), [NO, NO, NO, Ok(())]);
    expect(delete("w/", "\0", false), [NO, NO, NO, Ok(())]);
    expect(delete("w/a", "", true), [NO, NO, NO, Ok(())]);
}

/// CVE-2026-33343: what a nested transaction does is judged like everything else, in both branches.
#[test]
fn transactions_are_judged_with_everything_in_them() {
    let bad = [
        get("secret", ""),
        RequestOp::Put(put_request("secret", 0, false)),
        RequestOp::Put(put_request("w/a", 0, true)),
        RequestOp::Put(put_request("w/a", 2, false)),
        RequestOp::DeleteRange(delete_op("secret", "", false)),
        RequestOp::DeleteRange(delete_op("w/a", "", true)),
    ];
    let fine = || RequestOp::Put(put_request("w/b", 0, false));
    expect(WriteRequest::Txn(valid(txn(vec![fine()], vec![fine()]))), [NO, Ok(()), NO, Ok(())]);
    for op in bad {
        let all = [NO, NO, NO, Ok(())];
        expect(WriteRequest::Txn(valid(txn(vec![fine(), op.clone()], vec![]))), all);
        expect(WriteRequest::Txn(valid(txn(vec![], vec![fine(), op.clone()]))), all);
        let nested = RequestOp::Txn(txn(vec![], vec![op]));
        expect(WriteRequest::Txn(valid(txn(vec![nested.clone()], vec![]))), all);
        let deeper = RequestOp::Txn(txn(vec![fine(), nested], vec![]));
        expect(WriteRequest::Txn(valid(txn(vec![], vec![deeper]))), all);
    }
}

#[test]
fn comparing_is_reading() {
    let compare = |key: &str, end: &str| Compare {
        range: KeyRange::new(key.to_owned(), end.to_owned()),
        result: CompareResult::Equal,
        target: CompareTarget::Version(0),
    };
    let with =
        |compare| WriteRequest::Txn(valid(TxnRequest { compare: vec![compare], ..TxnRequest::default() }));
    expect(with(compare("r/a", "")), [Ok(()), NO, NO, Ok(())]);
    expect(with(compare("r/a", "r1")), [NO, NO, NO, Ok(())]);
    let nested = RequestOp::Txn(TxnRequest { compare: vec![compare("secret", "")], ..TxnRequest::default() });
    expect(WriteRequest::Txn(valid(txn(vec![nested], vec![]))), [NO, NO, NO, Ok(())]);
    let store = store();
    let read_only =
        TxnRequest { compare: vec![compare("r/a", "")], ..txn(vec![get("r/", "r0")], vec![get("s", "")]) };
    let auth = store.auth();
    assert_eq!(auth.check_read_txn(&as_user(&store, "reader"), &read_only), NO, "the other branch counts");
    let read_only = TxnRequest { failure: vec![], ..read_only };
    assert_eq!(auth.check_read_txn(&as_user(&store, "reader"), &read_only), Ok(()));
}

/// CVE-2026-33413: what changes users, forgets history or raises alarms is root's alone.
#[test]
fn administration_is_roots() {
    let alarm = Alarm { member: 1, kind: AlarmKind::NoSpace };
    for request in [
        WriteRequest::Auth(Change::Disable),
        WriteRequest::Auth(user_add("new")),
        WriteRequest::Compact { revision: 1 },
        WriteRequest::AlarmActivate(alarm),
        WriteRequest::AlarmDeactivate(alarm),
    ] {
        expect(request, [NO, NO, NO, Ok(())]);
    }
    let store = store();
    let auth = store.auth();
    assert_eq!(auth.check_root(&as_user(&store, "missing")), Err(UserNotFound));
    assert_eq!(auth.check_root(&as_user(&store, "")), Err(UserEmpty));
    assert_eq!(
        auth.check_root(&Caller::user("root", 1)),
        Ok(()),
        "the revision does not matter to root's work"
    );
}

/// GHSA-xg4h-6gfc-h4m8: a range without an end is more than its first key.
#[test]
fn an_open_range_is_covered_by_an_open_permission_only() {
    let store = store();
    let reader = as_user(&store, "reader");
    assert_eq!(store.auth().check_read(&reader, b"r/a", b""), Ok(()));
    assert_eq!(store.auth().check_read(&reader, b"r/a", b"\0"), NO);
    assert_eq!(store.auth().check_read(&reader, b"\0", b"\0"), NO);
}

#[test]
fn an_old_revision_is_refused_before_permissions_are_looked_at() {
    let store = store();
    let old = Caller::user("missing", store.auth().revision() - 1);
    assert_eq!(store.permit(&old, &put("w/a", 0, false)), Err(OldRevision));
    let unknown = Caller::user("writer", 0);
    assert_eq!(store.permit(&unknown, &put("w/a", 0, false)), Err(UserEmpty));
    let gone = Caller::user("missing", store.auth().revision());
    assert_eq!(store.permit(&gone, &put("w/a", 0, false)), NO);
    // A token can be from a future that was restored away. Writes pass, as in etcd; reads are not
    // answered.
    let future = Caller::user("writer", store.auth().revision() + 1);
    assert_eq!(store.permit(&future, &put("w/a", 0, false)), Ok(()));
    assert_eq!(store.auth().check_unchanged(&future), Err(OldRevision));
    assert_eq!(store.auth().check_unchanged(&as_user(&store, "writer")), Ok(()));
    assert_eq!(store.auth().check_unchanged(&Caller::Server), Ok(()));
    assert_eq!(store.auth().check_unchanged(&Caller::Anonymous), Err(UserEmpty), "it was off before");
}

#[test]
fn leases_are_read_and_renewed_by_those_who_may() {
    let mut store = store();
    let auth = Arc::clone(store.auth());
    let found = |store: &Store, mut run: LeasedRun| {
        assert_eq!(run.step(store, usize::MAX), Some(true));
        run.finish()
    };
    let all = found(&store, LeasedRun::of_all(&store));
    assert_eq!(
        auth.check_lease_reads(&as_user(&store, "reader"), &all),
        Ok(()),
        "no key visibly hangs on any"
    );
    store.publish(store.head());
    let user = |name| as_user(&store, name);
    let keys = |lease| found(&store, LeasedRun::of(&store, lease));
    assert_eq!(auth.check_lease_renewal(&user("writer"), &keys(1)), Ok(()));
    assert_eq!(auth.check_lease_renewal(&user("writer"), &keys(2)), NO);
    assert_eq!(auth.check_lease_renewal(&user("unprivileged"), &keys(99)), Ok(()));
    assert_eq!(auth.check_lease_renewal(&Caller::Anonymous, &keys(99)), Err(UserEmpty));
    assert_eq!(auth.check_lease_reads(&user("writer"), &keys(1)), NO);
    assert_eq!(auth.check_lease_reads(&user("root"), &keys(2)), Ok(()));
    let all = found(&store, LeasedRun::of_all(&store));
    assert_eq!(auth.check_lease_reads(&user("reader"), &all), NO);
    assert_eq!(auth.check_lease_reads(&user("root"), &all), Ok(()));
    assert_eq!(auth.check_lease_reads(&Caller::Anonymous, &all), Err(UserEmpty));
}

/// A store with so many keys of `writer` on lease 1, all visible.
fn with_large_lease(keys: usize) -> Store {
    let mut store = store();
    for n in 0..keys {
        store.evaluate(&put(&format!("w/{n}"), 1, false), &mut Vec::new()).unwrap();
    }
    store.publish(store.head());
    store
}

/// What it took to judge a request, in keys.
fn judged(mut store: &mut Store, user: &str, request: &WriteRequest) -> (u64, Result<(), AuthError>) {
    let (before, caller) = (store.worked(), as_user(store, user));
    let once = store.permit(&caller, request);
    let verdict = crate::permit::permit(&mut store, &caller, request);
    assert_eq!(once, verdict, "remembering changes nothing");
    (store.worked() - before, verdict)
}

#[test]
fn the_keys_of_a_lease_are_judged_once_and_as_they_change() {
    let mut store = with_large_lease(1000);
    let evaluate =
        |store: &mut Store, request: &WriteRequest| store.evaluate(request, &mut Vec::new()).map(drop);
    let nested = |n: usize| {
        RequestOp::Txn(txn(vec![RequestOp::Put(put_request(&format!("w/{n}"), 1, false))], vec![]))
    };
    let puts = WriteRequest::Txn(valid(txn((0..100).map(nested).collect(), Vec::new())));
    let (work, verdict) = judged(&mut store, "writer", &puts);
    assert!(verdict.is_ok() && (1000..3000).contains(&work), "{work} keys for 100 puts on one lease");
    for _ in 0..3 {
        assert_eq!(judged(&mut store, "writer", &puts), (0, Ok(())), "it is remembered");
        evaluate(&mut store, &puts).unwrap();
        evaluate(&mut store, &put("w/new", 1, false)).unwrap();
        evaluate(&mut store, &WriteRequest::DeleteRange(valid(delete_op("w/new", "", false)))).unwrap();
    }
    assert_eq!(judged(&mut store, "reader", &WriteRequest::LeaseRevoke { id: 1 }).1, NO, "of one user only");
    // What comes is judged at once.
    evaluate(&mut store, &put("other", 1, false)).unwrap();
    for _ in 0..2 {
        let (work, verdict) = judged(&mut store, "writer", &puts);
        assert!(verdict == NO && work <= 2, "{work} keys to find it again");
    }
    evaluate(&mut store, &WriteRequest::DeleteRange(valid(delete_op("other", "", false)))).unwrap();
    assert_eq!(judged(&mut store, "writer", &puts).1, Ok(()));
    assert_eq!(judged(&mut store, "writer", &puts), (0, Ok(())));
    // So are other users and roles.
    make(Arc::make_mut(&mut store.auth), grant("writer", PermissionKind::Write, "other", ""));
    evaluate(&mut store, &put("other", 1, false)).unwrap();
    assert_eq!(judged(&mut store, "writer", &puts).1, Ok(()));
    make(Arc::make_mut(&mut store.auth), revoke("writer", "other", ""));
    assert_eq!(judged(&mut store, "writer", &puts).1, NO);
    let old = Caller::user("writer", store.auth().revision() - 1);
    assert_eq!(store.permit(&old, &puts), Err(OldRevision));
}

#[test]
fn a_renewal_is_known_to_be_permitted_when_head_was_seen() {
    let mut store = with_large_lease(100);
    let auth = Arc::clone(store.auth());
    let writer = as_user(&store, "writer");
    let is_known = |store: &Store| store.is_renewable(&writer, 1, &auth);
    assert!(!is_known(&store));
    let at = store.visible().revision;
    store.evaluate(&put("w/later", 1, false), &mut Vec::new()).unwrap();
    store.note_renewable(&writer, 1, &auth, at);
    assert!(!is_known(&store), "the key that came meanwhile was not judged");
    store.publish(store.head());
    store.note_renewable(&writer, 1, &auth, store.visible().revision);
    assert!(is_known(&store));
    assert!(!store.is_renewable(&as_user(&store, "reader"), 1, &auth), "another user");
    store.evaluate(&put("w/later", 1, false), &mut Vec::new()).unwrap();
    assert!(is_known(&store), "it was there before");
    // A key is on the lease as long as a reader sees it there.
    store.evaluate(&put("other", 1, false), &mut Vec::new()).unwrap();
    assert!(!is_known(&store));
    store.publish(store.head());
    store
        .evaluate(&WriteRequest::DeleteRange(valid(delete_op("other", "", false))), &mut Vec::new())
        .unwrap();
    assert_eq!(judged(&mut store, "writer", &WriteRequest::LeaseRevoke { id: 1 }).1, Ok(()));
    assert!(!is_known(&store), "a reader still sees a key that may not be written");
    store.publish(store.head());
    assert!(is_known(&store));
    make(Arc::make_mut(&mut store.auth), role_add("more"));
    assert!(!is_known(&store), "users and roles are others now");
}

#[test]
fn users_and_roles_are_shown_to_root_and_to_whom_they_concern() {
    let store = store();
    let auth = store.auth();
    let user = |name| as_user(&store, name);
    assert_eq!(auth.check_look_at_user(&user("reader"), "reader"), Ok(()));
    assert_eq!(auth.check_look_at_user(&user("reader"), "writer"), NO);
    assert_eq!(auth.check_look_at_user(&user("root"), "missing"), Ok(()));
    assert_eq!(auth.check_look_at_user(&Caller::Anonymous, "reader"), Err(UserEmpty));
    assert_eq!(auth.check_look_at_role(&user("reader"), "reader"), Ok(()));
    assert_eq!(auth.check_look_at_role(&user("reader"), "writer"), NO);
    assert_eq!(auth.check_look_at_role(&user("missing"), "writer"), Err(UserNotFound));
}

#[test]
fn permissions_of_several_roles_merge_and_follow_every_change() {
    let mut auth = in_use();
    let reads = |auth: &Auth, key: &[u8], end: &[u8]| {
        auth.check_read(&Caller::user("reader", auth.revision()), key, end)
    };
    assert_eq!(reads(&auth, b"r/", b"r1"), NO);
    make(&mut auth, role_add("more"));
    make(&mut auth, grant("more", PermissionKind::ReadWrite, "r0", "r1"));
    make(&mut auth, grant_role("reader", "more"));
    assert_eq!(reads(&auth, b"r/", b"r1"), Ok(()));
    make(&mut auth, grant("more", PermissionKind::Write, "r0", "r1"));
    assert_eq!(reads(&auth, b"r/", b"r1"), NO);
    make(&mut auth, grant("more", PermissionKind::Other(7), "r0", "r1"));
    assert_eq!(reads(&auth, b"r0", b""), NO, "an unknown kind permits nothing");
    make(&mut auth, grant("more", PermissionKind::Read, "r0", "\0"));
    assert_eq!(reads(&auth, b"r/", b"\0"), Ok(()));
    make(&mut auth, revoke("more", "r0", "\0"));
    assert_eq!(reads(&auth, b"r/", b"\0"), NO);
    make(&mut auth, revoke_role("reader", "reader"));
    assert_eq!(reads(&auth, b"r/a", b""), NO);
}

#[test]
fn while_it_is_off_everybody_may_do_everything() {
    let mut store = store();
    make(Arc::make_mut(&mut store.auth), Change::Disable);
    for caller in [Caller::Anonymous, Caller::user("missing", 0)] {
        assert_eq!(store.permit(&caller, &put("secret", 2, true)), Ok(()));
        assert_eq!(store.permit(&caller, &WriteRequest::Auth(Change::Enable)), Ok(()));
        assert_eq!(store.auth().check_read(&caller, b"secret", b"\0"), Ok(()));
        assert_eq!(store.auth().check_user(&caller), Ok(()));
    }
}
