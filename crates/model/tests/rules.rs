//! The rules of the API that are easy to get wrong, each stated once as an example.

use vetch_model::{
    Answer, Compare, CompareResult, CompareTarget, Delete, Event, Keys, Malformed, Model, Moment, Op,
    OpAnswer, Put, Range, Refusal, Request, Txn, Watch,
};

fn put(key: &str, value: &str) -> Put {
    Put::new(key, value)
}

fn absent(key: &str) -> Compare {
    Compare { keys: Keys::single(key), result: CompareResult::Equal, target: CompareTarget::Create(0) }
}

fn delete(key: &str, end: &str) -> Delete {
    Delete { keys: Keys::between(key, end), prev_kv: true }
}

fn range(key: &str, revision: i64) -> Range {
    Range { revision, ..Range::new(Keys::single(key)) }
}

fn done(model: &mut Model, request: Request) -> (i64, Answer) {
    model.evaluate(&request).expect("not refused")
}

#[test]
fn only_changes_make_revisions() {
    let mut model = Model::new();
    assert_eq!((model.revision(), model.compact_revision()), (1, -1));
    assert_eq!(done(&mut model, Request::Delete(delete("a", "z"))).0, 1);
    assert_eq!(done(&mut model, Request::Put(put("a", "1"))).0, 2);
    let both = Txn { success: vec![Op::Put(put("b", "1")), Op::Put(put("c", "1"))], ..Txn::default() };
    assert_eq!(done(&mut model, Request::Txn(both)).0, 3);
    assert_eq!(done(&mut model, Request::Range(range("a", 2))).0, 3);
    assert_eq!(done(&mut model, Request::Compact { revision: 2 }).0, 3);
    assert_eq!(done(&mut model, Request::Delete(delete("a", "z"))).0, 4);
    assert_eq!(model.dump(4), []);
    assert_eq!(model.dump(3).len(), 3);
}

#[test]
fn branches_are_chosen_by_the_state_before_and_ranges_see_the_writes_before_them() {
    let mut model = Model::new();
    let nested = Txn {
        compare: vec![absent("a")],
        success: vec![Op::Range(range("a", 0))],
        failure: vec![Op::Put(put("never", ""))],
    };
    let txn = Txn { success: vec![Op::Put(put("a", "new")), Op::Txn(nested)], ..Txn::default() };
    let (revision, Answer::Txn(answer)) = done(&mut model, Request::Txn(txn)) else {
        panic!("a transaction")
    };
    assert_eq!(revision, 2);
    let [OpAnswer::Put { prev_kv: None }, OpAnswer::Txn(nested)] = answer.responses.as_slice() else {
        panic!("{answer:?}")
    };
    assert!(nested.succeeded);
    assert!(matches!(&nested.responses[..], [OpAnswer::Range(ranged)] if ranged.kvs[0].value == b"new"));
}

#[test]
fn a_refused_transaction_changes_nothing() {
    let mut model = Model::new();
    let leased = Put { lease: 7, ..put("b", "") };
    let txn = Txn { success: vec![Op::Put(put("a", "")), Op::Put(leased)], ..Txn::default() };
    assert_eq!(model.evaluate(&Request::Txn(txn)), Err(Refusal::LeaseNotFound));
    assert_eq!((model.revision(), model.log().len()), (1, 0));
}

#[test]
fn revisions_are_readable_from_the_compacted_one_to_the_newest() {
    let mut model = Model::new();
    for value in ["1", "2", "3"] {
        done(&mut model, Request::Put(put("a", value)));
    }
    done(&mut model, Request::Compact { revision: 3 });
    assert_eq!(model.evaluate(&Request::Range(range("a", 2))), Err(Refusal::Compacted));
    assert!(model.evaluate(&Request::Range(range("a", 3))).is_ok());
    assert_eq!(model.evaluate(&Request::Range(range("a", 5))), Err(Refusal::FutureRevision));
    assert_eq!(model.evaluate(&Request::Compact { revision: 3 }), Err(Refusal::Compacted));
    assert_eq!(model.evaluate(&Request::Compact { revision: 5 }), Err(Refusal::FutureRevision));
    let early = Moment { revision: 2, compacted: -1 };
    assert_eq!(model.check_at(&Request::Range(range("a", 3)), early), Err(Refusal::FutureRevision));
}

#[test]
fn a_lease_takes_its_keys_along_in_one_revision_and_in_key_order() {
    let mut model = Model::new();
    done(&mut model, Request::LeaseGrant { id: 5, ttl: 60 });
    assert_eq!(model.evaluate(&Request::LeaseGrant { id: 5, ttl: 60 }), Err(Refusal::LeaseExists));
    for key in ["b", "a", "c"] {
        done(&mut model, Request::Put(Put { lease: 5, ..put(key, "") }));
    }
    done(&mut model, Request::Put(put("c", "free again")));
    assert_eq!(model.lease_keys(5), [b"a", b"b"]);
    assert_eq!(done(&mut model, Request::LeaseKeepAlive { id: 5 }), (5, Answer::LeaseKeepAlive { ttl: 60 }));
    assert_eq!(done(&mut model, Request::LeaseRevoke { id: 5 }).0, 6);
    let gone: Vec<_> =
        model.changes(6, 6).iter().map(|event| (event.deleted, event.kv.key.as_slice())).collect();
    assert_eq!(gone, [(true, &b"a"[..]), (true, b"b")]);
    assert_eq!(done(&mut model, Request::LeaseKeepAlive { id: 5 }), (6, Answer::LeaseKeepAlive { ttl: 0 }));
    assert_eq!(model.evaluate(&Request::LeaseRevoke { id: 5 }), Err(Refusal::LeaseNotFound));
}

#[test]
fn watchers_see_what_was_there_before_the_revision() {
    let mut model = Model::new();
    done(&mut model, Request::Put(put("a", "1")));
    done(&mut model, Request::Put(put("a", "2")));
    done(&mut model, Request::Delete(delete("a", "")));
    done(&mut model, Request::Put(put("a", "3")));
    let before = |event: &Event| event.prev_kv.as_ref().map(|kv| kv.value.clone());
    let all = model.events(&Keys::single("a"), 2, 5);
    let shown: Vec<_> = all.iter().map(|event| (event.deleted, before(event))).collect();
    let was = |value: &str| Some(value.as_bytes().to_vec());
    assert_eq!(shown, [(false, None), (false, was("1")), (true, was("2")), (false, None)]);

    let watch = Watch {
        keys: Keys::all(),
        start_revision: 0,
        progress_notify: false,
        no_put: false,
        no_delete: true,
        prev_kv: false,
        fragment: false,
    };
    let shown: Vec<_> = model.watched(&watch, 3, 5).iter().map(|e| (e.kv.mod_revision, before(e))).collect();
    assert_eq!(shown, [(3, None), (5, None)]);
}

#[test]
fn what_the_compacted_revision_replaced_is_not_known_to_new_watchers() {
    let mut model = Model::new();
    done(&mut model, Request::Put(put("a", "1")));
    done(&mut model, Request::Put(put("a", "2")));
    done(&mut model, Request::Delete(delete("a", "")));
    let watch = Watch {
        keys: Keys::all(),
        start_revision: 3,
        progress_notify: false,
        no_put: false,
        no_delete: false,
        prev_kv: true,
        fragment: false,
    };
    let known = |events: Vec<Event>| events.iter().map(|event| event.prev_kv.is_some()).collect::<Vec<_>>();
    assert_eq!(known(model.recalled(&watch, 2, 4)), [false, true, true]);
    done(&mut model, Request::Compact { revision: 3 });
    assert_eq!(known(model.watched(&watch, 3, 4)), [true, true]);
    assert_eq!(known(model.recalled(&watch, 3, 4)), [false, true]);
    done(&mut model, Request::Compact { revision: 4 });
    assert_eq!(known(model.recalled(&watch, 4, 4)), [false]);
}

#[test]
fn the_past_answers_as_it_did_then() {
    let mut model = Model::new();
    let create = Request::Txn(Txn {
        compare: vec![absent("a")],
        success: vec![Op::Put(put("a", "1"))],
        failure: vec![Op::Range(range("a", 0)), Op::Delete(delete("nothing", ""))],
    });
    let first = done(&mut model, create.clone());
    let second = done(&mut model, create.clone());
    let read = done(&mut model, Request::Range(range("a", 0)));
    done(&mut model, Request::Delete(delete("a", "z")));
    done(&mut model, Request::Compact { revision: 3 });

    assert!(model.changes_at(&create, first.0 - 1) && model.answer_at(&create, first.0 - 1).is_none());
    assert!(!model.changes_at(&create, second.0));
    assert_eq!(model.answer_at(&create, second.0), Some(second.1));
    assert_eq!(model.answer_at(&Request::Range(range("a", 0)), read.0), Some(read.1));
    assert_eq!(model.answer_at(&Request::Range(range("a", 3)), 2), None);
    assert!(model.changes_at(&create, 3), "the key is gone, so it would be created");
}

#[test]
fn a_branch_writes_no_key_twice() {
    let shape = |success| Request::Txn(Txn { success, ..Txn::default() }).shape(3);
    let (a, b) = (|| Op::Put(put("a", "")), || Op::Put(put("b", "")));
    assert_eq!(shape(vec![a(), b()]), Ok(()));
    assert_eq!(shape(vec![a(), a()]), Err(Malformed::DuplicateKey));
    assert_eq!(shape(vec![a(), Op::Delete(delete("a", "b"))]), Err(Malformed::DuplicateKey));
    assert_eq!(shape(vec![a(), Op::Delete(delete("a", "\0"))]), Ok(()));
    assert_eq!(shape(vec![Op::Empty]), Err(Malformed::EmptyOperation));
    assert_eq!(shape(vec![Op::Put(put("", ""))]), Err(Malformed::EmptyKey));
    assert_eq!(shape(vec![a(), b(), Op::Range(range("a", 0)), Op::Empty]), Err(Malformed::TooManyOps));
}

#[test]
fn what_is_rewound_was_never_there() {
    let mut model = Model::new();
    done(&mut model, Request::Put(put("a", "1")));
    done(&mut model, Request::Put(put("b", "1")));
    let before = (model.now(), model.log().to_vec(), model.dump(3));
    done(&mut model, Request::Put(put("a", "2")));
    done(&mut model, Request::Put(put("c", "1")));
    done(&mut model, Request::Delete(delete("a", "c")));
    model.rewind(3);
    assert_eq!((model.now(), model.log().to_vec(), model.dump(9)), before);
    assert_eq!(done(&mut model, Request::Put(put("c", "2"))).0, 4);
}
