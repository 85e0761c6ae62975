//! Small histories, written by hand, whose verdict is plain to see.

use vetch_check::{Ending, History, Kind, Operation, WatchMessage, Watched, check};
use vetch_model::{
    Answer, Compare, CompareResult, CompareTarget, Delete, Deleted, Event, KeyValue, Keys, Op, Put, Range,
    Ranged, Refusal, Request, Txn, TxnAnswer, Watch,
};

const SECOND: u64 = 1_000_000_000;

fn kv(key: &str, value: &str, create: i64, modified: i64, version: i64, lease: i64) -> KeyValue {
    let (key, value) = (key.as_bytes().to_vec(), value.as_bytes().to_vec());
    KeyValue { key, value, create_revision: create, mod_revision: modified, version, lease }
}

fn put(key: &str, value: &str) -> Request {
    Request::Put(Put::new(key, value))
}

fn leased(key: &str, lease: i64) -> Request {
    Request::Put(Put { lease, ..Put::new(key, "v") })
}

/// A put that was answered.
fn wrote(time: (u64, u64), request: Request, revision: i64) -> Operation {
    Operation::answered(1, time, request, revision, Answer::Put { prev_kv: None })
}

fn unknown(called: u64, request: Request) -> Operation {
    Operation::unknown(2, (called, called + 1), request)
}

/// A read of everything.
fn read(time: (u64, u64), revision: i64, kvs: &[KeyValue]) -> Operation {
    let ranged = Ranged { kvs: kvs.to_vec(), more: false, count: kvs.len() as i64 };
    Operation::answered(3, time, Request::Range(Range::new(Keys::all())), revision, Answer::Range(ranged))
}

fn granted(time: (u64, u64), id: i64, ttl: i64, revision: i64) -> Operation {
    Operation::answered(4, time, Request::LeaseGrant { id, ttl }, revision, Answer::LeaseGrant { id, ttl })
}

fn renewed(time: (u64, u64), id: i64, ttl: i64, revision: i64) -> Operation {
    Operation::answered(4, time, Request::LeaseKeepAlive { id }, revision, Answer::LeaseKeepAlive { ttl })
}

fn history(operations: &[Operation]) -> History {
    History { operations: operations.to_vec(), ..History::default() }
}

#[track_caller]
fn right(operations: &[Operation]) {
    if let Err(violations) = check(&history(operations)) {
        panic!("{violations:#?}");
    }
}

#[track_caller]
fn wrong(operations: &[Operation], kind: Kind) {
    let violations = check(&history(operations)).expect_err("it is wrong");
    assert!(violations.iter().any(|violation| violation.kind == kind), "{violations:#?}");
}

#[test]
fn a_write_of_unknown_outcome_happened_once_or_never() {
    let maybe = unknown(10, put("a", "x"));
    right(&[maybe.clone(), read((20, 21), 1, &[])]);
    right(&[maybe.clone(), read((20, 21), 2, &[kv("a", "x", 2, 2, 1, 0)])]);
    // Long after its client had given up.
    right(&[maybe.clone(), read((20, 21), 1, &[]), read((900, 901), 2, &[kv("a", "x", 2, 2, 1, 0)])]);
    wrong(&[maybe.clone(), read((20, 21), 3, &[kv("a", "x", 2, 3, 2, 0)])], Kind::UnexplainedRevision);
    // Not before it was called.
    wrong(&[maybe, read((1, 2), 2, &[kv("a", "x", 2, 2, 1, 0)])], Kind::UnexplainedRevision);
}

#[test]
fn which_of_several_writes_happened_is_found_by_what_was_seen_later() {
    let (a, b, c) = (unknown(10, put("a", "x")), unknown(11, put("b", "y")), unknown(12, put("a", "z")));
    let later = wrote((20, 30), put("a", "last"), 4);
    // Of the two revisions before it, version and creation tell that one was of the key and one was
    // not.
    right(&[
        a.clone(),
        b.clone(),
        c.clone(),
        later.clone(),
        read((40, 41), 4, &[kv("a", "last", 3, 4, 2, 0), kv("b", "y", 2, 2, 1, 0)]),
    ]);
    wrong(&[a, c, later, read((40, 41), 4, &[kv("a", "last", 3, 4, 2, 0)])], Kind::UnexplainedRevision);
}

#[test]
fn what_was_not_done_is_not_there() {
    let refused = Operation::not_done(1, (10, 20), put("a", "x"));
    right(&[refused.clone(), read((30, 31), 1, &[])]);
    wrong(&[refused, read((30, 31), 2, &[kv("a", "x", 2, 2, 1, 0)])], Kind::NotDoneVisible);
}

#[test]
fn only_serializable_reads_may_be_old() {
    let write = wrote((10, 20), put("a", "x"), 2);
    right(&[write.clone(), read((15, 40), 1, &[])]);
    wrong(&[write.clone(), read((21, 40), 1, &[])], Kind::StaleRead);
    let mut old = read((21, 40), 1, &[]);
    let Request::Range(range) = &mut old.request else { unreachable!() };
    range.serializable = true;
    right(&[write, old]);
}

#[test]
fn what_a_watcher_saw_was_there_from_then_on() {
    let request = Watch {
        keys: Keys::all(),
        start_revision: 1,
        progress_notify: false,
        no_put: false,
        no_delete: false,
        prev_kv: false,
        fragment: false,
    };
    let event = Event { deleted: false, kv: kv("a", "x", 2, 2, 1, 0), prev_kv: None };
    let mut watch = Watched::new(7, request);
    watch.messages = vec![
        WatchMessage::Created { revision: 1, at: 1 },
        WatchMessage::Events { revision: 2, events: vec![event], at: 50 },
    ];
    // The writer itself has no answer yet, and the reader's answer is old.
    let mut seen = history(&[wrote((10, 90), put("a", "x"), 2), read((60, 70), 1, &[])]);
    seen.watches.push(watch.clone());
    let violations = check(&seen).expect_err("it is stale");
    assert_eq!(violations[0].kind, Kind::StaleRead, "{violations:#?}");
    seen.operations[1].called = 40;
    check(&seen).expect("it was under way");
    // It was asked for after the write had been answered, and says that it begins before it.
    seen.watches[0].called = 95;
    seen.watches[0].messages[0] = WatchMessage::Created { revision: 1, at: 96 };
    seen.watches[0].messages[1] = WatchMessage::Progress { revision: 2, at: 97 };
    assert_eq!(check(&seen).expect_err("it began in the past")[0].kind, Kind::StaleRead);
    // Ended by the server for no reason.
    watch.ending = Ending::Dropped { reason: String::new() };
    seen.watches[0] = watch.clone();
    assert_eq!(check(&seen).expect_err("no client cancelled it")[0].kind, Kind::WatchDropped);
    // Ended as compacted although no client compacted.
    watch.ending = Ending::Compacted { compact_revision: 9 };
    seen.watches[0] = watch;
    assert_eq!(check(&seen).expect_err("no client did")[0].kind, Kind::WatchCompacted);
}

#[test]
fn watchers_from_after_a_compaction_get_no_previous_values_at_it() {
    let request = Watch {
        keys: Keys::all(),
        start_revision: 3,
        progress_notify: false,
        no_put: false,
        no_delete: false,
        prev_kv: true,
        fragment: false,
    };
    let compacted = Operation::answered(1, (50, 60), Request::Compact { revision: 3 }, 3, Answer::Compact);
    let operations = [wrote((10, 20), put("a", "x"), 2), wrote((30, 40), put("a", "y"), 3), compacted];
    let told = |called: u64, prev_kv: Option<KeyValue>| {
        let mut seen = history(&operations);
        let event = Event { deleted: false, kv: kv("a", "y", 2, 3, 2, 0), prev_kv };
        let mut watch = Watched { called, ..Watched::new(7, request.clone()) };
        watch.messages = vec![
            WatchMessage::Created { revision: 3, at: called + 1 },
            WatchMessage::Events { revision: 3, events: vec![event], at: 90 },
        ];
        seen.watches.push(watch);
        check(&seen).map_err(|violations| violations[0].kind).map(|_| ())
    };
    let before = || Some(kv("a", "x", 2, 2, 1, 0));
    assert_eq!([told(55, before()), told(55, None)], [Ok(()), Ok(())], "it came with the compaction");
    assert_eq!([told(65, before()), told(65, None)], [Err(Kind::WatchPrevKv), Ok(())]);
    assert_eq!(told(55, Some(kv("a", "z", 2, 2, 1, 0))), Err(Kind::WatchPrevKv));
}

#[test]
fn a_lease_ends_with_all_its_keys_and_not_before_its_time() {
    let begin = [
        granted((10, 20), 7, 5, 1),
        wrote((30, 40), leased("a", 7), 2),
        wrote((50, 60), leased("b", 7), 3),
        wrote((70, 80), put("c", "x"), 4),
    ];
    let rest = [kv("c", "x", 4, 4, 1, 0)];
    let with = |more: &[Operation]| [&begin[..], more].concat();
    right(&with(&[read((6 * SECOND, 6 * SECOND + 1), 5, &rest)]));
    wrong(&with(&[read((3 * SECOND, 3 * SECOND + 1), 5, &rest)]), Kind::EarlyExpiry);
    // One key stays behind.
    let half = [kv("b", "v", 3, 3, 1, 7), rest[0].clone()];
    wrong(&with(&[read((6 * SECOND, 6 * SECOND + 1), 5, &half)]), Kind::WrongAnswer);
    // A renewal moves its end.
    let renewal = renewed((3 * SECOND, 3 * SECOND + 1), 7, 5, 4);
    wrong(&with(&[renewal.clone(), read((6 * SECOND, 6 * SECOND + 1), 5, &rest)]), Kind::EarlyExpiry);
    right(&with(&[renewal, read((9 * SECOND, 9 * SECOND + 1), 5, &rest)]));
}

/// Leases 1 to `count` with a key each, all of which may end at any time from the third second on.
fn leases(count: i64) -> Vec<Operation> {
    let granted = (1..=count).map(|id| granted((10, 20), id, 2, 1));
    let wrote = (1..=count).map(|id| wrote((30, 40), leased(&format!("k{id:02}"), id), id + 1));
    granted.chain(wrote).collect()
}

/// How many keys there are.
fn counted(time: (u64, u64), revision: i64, count: i64) -> Operation {
    let range = Range { count_only: true, ..Range::new(Keys::all()) };
    let ranged = Ranged { kvs: Vec::new(), more: false, count };
    Operation::answered(3, time, Request::Range(range), revision, Answer::Range(ranged))
}

#[test]
fn what_was_there_later_did_not_end_before() {
    let later = (9 * SECOND, 9 * SECOND + 1);
    let left: Vec<KeyValue> =
        (9..=16).map(|id| kv(&format!("k{id:02}"), "v", id + 1, id + 1, 1, id)).collect();
    // Eight of sixteen ended, and no read shows an order between them: half a billion orders, of
    // which few are right.
    let gone: Vec<KeyValue> =
        (1..=8).map(|id| kv(&format!("k{id:02}"), "v", id + 1, id + 1, 1, id)).collect();
    right(&[leases(16), vec![read(later, 25, &left)]].concat());
    right(&[leases(16), vec![read(later, 25, &gone)]].concat());
}

#[test]
fn in_which_order_leases_ended_is_not_searched_for() {
    let later = (9 * SECOND, 9 * SECOND + 1);
    right(&[leases(12), vec![counted(later, 21, 4)]].concat());
    wrong(&[leases(12), vec![counted(later, 21, 5)]].concat(), Kind::WrongAnswer);
}

#[test]
fn a_lease_once_gone_does_not_come_back() {
    let revoke = |revision| {
        Operation::answered(4, (30, 40), Request::LeaseRevoke { id: 7 }, revision, Answer::LeaseRevoke)
    };
    let begin = [granted((10, 20), 7, 60, 1), revoke(1)];
    let with = |more: Operation| [&begin[..], &[more]].concat();
    right(&with(renewed((50, 60), 7, 0, 1)));
    wrong(&with(renewed((50, 60), 7, 60, 1)), Kind::Lease);
    wrong(&with(wrote((50, 60), leased("a", 7), 2)), Kind::Lease);
    right(&with(Operation::refused(1, (50, 60), leased("a", 7), Refusal::LeaseNotFound)));
    right(&with(granted((50, 60), 7, 60, 1)));
    // While the revoke is under way both are possible.
    right(&with(renewed((35, 60), 7, 60, 1)));
}

#[test]
fn a_revoke_of_a_lease_with_keys_is_a_revision() {
    let begin = [granted((10, 20), 7, 60, 1), wrote((30, 40), leased("a", 7), 2)];
    let revoke = |revision| {
        Operation::answered(4, (50, 60), Request::LeaseRevoke { id: 7 }, revision, Answer::LeaseRevoke)
    };
    right(&[&begin[..], &[revoke(3), read((70, 71), 3, &[])]].concat());
    wrong(&[&begin[..], &[revoke(2)]].concat(), Kind::WrongAnswer);
}

#[test]
fn transactions_are_answered_by_the_state_they_show() {
    let compare =
        Compare { keys: Keys::single("a"), result: CompareResult::Equal, target: CompareTarget::Version(0) };
    let delete = Op::Delete(Delete { keys: Keys::single("b"), prev_kv: false });
    let txn =
        Txn { compare: vec![compare], success: vec![Op::Put(Put::new("a", "x"))], failure: vec![delete] };
    let answer = |succeeded, response| Answer::Txn(TxnAnswer { succeeded, responses: vec![response] });
    let created = answer(true, vetch_model::OpAnswer::Put { prev_kv: None });
    let nothing = Deleted { deleted: 0, prev_kvs: Vec::new() };
    let failed = answer(false, vetch_model::OpAnswer::Delete(nothing));
    let request = Request::Txn(txn);
    let first = Operation::answered(1, (10, 20), request.clone(), 2, created.clone());
    right(&[first.clone(), Operation::answered(1, (30, 40), request.clone(), 2, failed.clone())]);
    // The loser of a race was told that it won as well.
    let second = Operation::answered(2, (12, 20), request.clone(), 3, created);
    wrong(&[first.clone(), second], Kind::WrongAnswer);
    // Failed before there was anything to fail for.
    let early = Operation::answered(2, (1, 9), request, 1, failed);
    wrong(&[first, early], Kind::WrongAnswer);
}

#[test]
fn compactions_forbid_the_past_from_their_return_on() {
    let mut past = Range::new(Keys::all());
    past.revision = 1;
    let empty = Answer::Range(Ranged { kvs: Vec::new(), more: false, count: 0 });
    let write = wrote((10, 20), put("a", "x"), 2);
    let compact = Operation::answered(1, (30, 40), Request::Compact { revision: 2 }, 2, Answer::Compact);
    let looked = |time| Operation::answered(2, time, Request::Range(past.clone()), 2, empty.clone());
    let denied = |time| Operation::refused(2, time, Request::Range(past.clone()), Refusal::Compacted);
    right(&[write.clone(), compact.clone(), looked((35, 60)), denied((35, 60))]);
    wrong(&[write.clone(), compact.clone(), looked((41, 60))], Kind::Compaction);
    wrong(&[write.clone(), compact.clone(), denied((21, 29))], Kind::WrongRefusal);
    right(&[write.clone(), compact.clone(), denied((41, 60))]);
    let again = Operation::answered(1, (50, 60), Request::Compact { revision: 2 }, 2, Answer::Compact);
    wrong(&[write, compact, again], Kind::Compaction);
}
