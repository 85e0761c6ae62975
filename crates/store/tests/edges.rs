//! Single cases worth naming: each was wrong once, or looks as if it could be.

mod spec;

use vetch_store::leased::LeasedRun;
use vetch_store::request::*;
use vetch_store::{Mark, Record, Store, StoreError, validate};
use vetch_testkit::valid::Valid;

use spec::Spec;

fn put(key: &'static str) -> PutRequest {
    PutRequest {
        key: key.into(),
        value: "v".into(),
        lease: 0,
        prev_kv: true,
        ignore_value: false,
        ignore_lease: false,
    }
}

fn delete(key: &'static str, end: &'static str) -> DeleteRangeRequest {
    DeleteRangeRequest { range: KeyRange::new(key, end), prev_kv: true }
}

fn txn(success: Vec<RequestOp>) -> WriteRequest {
    WriteRequest::Txn(TxnRequest { success, ..TxnRequest::default() }.valid())
}

/// Both are given every request; the answers of the last one are returned.
fn both(requests: &[WriteRequest]) -> Result<vetch_store::Evaluated, StoreError> {
    let (mut store, mut spec) = (Store::default(), Spec::new());
    let mut journal = Vec::new();
    let mut last = Err(StoreError::KeyNotFound);
    for request in requests {
        if let WriteRequest::Txn(txn) = request {
            assert!(validate::txn((**txn).clone(), 128).is_ok(), "meant to pass validation");
        }
        last = store.evaluate(request, &mut journal);
        spec.judge(request, &last);
    }
    let mut again = Store::default();
    again.replay(&journal).expect("just written");
    assert_eq!(again.head(), store.head());
    last
}

/// The store holds the transaction's own changes while it is evaluated, at a revision that head
/// does not have yet.
#[test]
fn a_read_of_the_newest_revision_does_not_see_what_its_own_transaction_changed() {
    let read = |revision, end: &'static str| {
        RequestOp::Range(RangeRequest { revision, ..RangeRequest::new(KeyRange::new("k", end)) })
    };
    for change in [RequestOp::Put(put("k")), RequestOp::DeleteRange(delete("k", ""))] {
        for end in ["", "l"] {
            let own = txn(vec![change.clone(), read(2, end), read(0, end)]);
            both(&[WriteRequest::Put(put("k").valid()), own]).expect("judged by the specification");
        }
    }
}

/// The duplicate check lets an open-ended delete and a put of one of its keys through. What the put
/// was told to keep is gone by then, and the request must be refused before anything happens (etcd
/// 3.7.1 crashes).
#[test]
fn nothing_can_be_kept_of_a_key_that_the_transaction_deleted() {
    let keep_value = PutRequest { value: "".into(), ignore_value: true, ..put("b") };
    let keep_lease = PutRequest { ignore_lease: true, ..put("b") };
    for keep in [keep_value, keep_lease] {
        let open = vec![RequestOp::DeleteRange(delete("a", "\0")), RequestOp::Put(keep.clone())];
        let answer = both(&[WriteRequest::Put(put("b").valid()), txn(open)]);
        assert_eq!(answer, Err(StoreError::KeyNotFound));

        let inner = |ops| RequestOp::Txn(TxnRequest { success: ops, ..TxnRequest::default() });
        let nested = vec![
            inner(vec![RequestOp::DeleteRange(delete("a", "\0"))]),
            inner(vec![RequestOp::Put(keep.clone())]),
        ];
        let answer = both(&[WriteRequest::Put(put("b").valid()), txn(nested)]);
        assert_eq!(answer, Err(StoreError::KeyNotFound));

        // The other way round there is something to keep.
        let before = vec![RequestOp::Put(keep), RequestOp::DeleteRange(delete("a", "\0"))];
        let answer = both(&[WriteRequest::Put(put("b").valid()), txn(before)]).expect("the key is there");
        assert_eq!(answer.events.len(), 2);
    }
}

#[test]
fn a_key_may_change_several_times_in_one_revision() {
    let ops = vec![
        RequestOp::Put(put("b")),
        RequestOp::DeleteRange(delete("a", "\0")),
        RequestOp::Range(RangeRequest::new(KeyRange::new("a", "z"))),
    ];
    let requests = [WriteRequest::Put(put("a").valid()), WriteRequest::Put(put("b").valid()), txn(ops)];
    let answer = both(&requests).expect("not refused");
    let subs: Vec<_> = answer.events.iter().map(|event| (event.kv.sub(), event.kv.is_tombstone())).collect();
    assert_eq!(subs, [(0, false), (1, true), (2, true)]);
}

/// An empty value must not make a record differ from the same record read back.
#[test]
fn a_leased_key_without_a_value_survives_the_journal_unchanged() {
    let mut store = Store::default();
    let mut journal = Vec::new();
    store.evaluate(&WriteRequest::LeaseGrant { id: 1, ttl: 10 }, &mut journal).expect("new");
    let leased = WriteRequest::Put(PutRequest { value: "".into(), lease: 1, ..put("a") }.valid());
    let written = store.evaluate(&leased, &mut journal).expect("the lease exists");
    let mut again = Store::default();
    assert_eq!(again.replay(&journal).expect("just written")[0].events, written.events);
    let kv = &written.events[0].kv;
    assert_eq!(Record::from_wire(&kv.wire().concat(), 0).as_ref(), Ok(kv));
}

#[test]
fn a_lease_follows_its_key_through_delete_and_create() {
    let mut store = Store::default();
    let mut do_it = |request: WriteRequest| store.evaluate(&request, &mut Vec::new()).expect("not refused");
    do_it(WriteRequest::LeaseGrant { id: 1, ttl: 10 });
    do_it(WriteRequest::LeaseGrant { id: 2, ttl: 10 });
    do_it(WriteRequest::Put(PutRequest { lease: 1, ..put("a") }.valid()));
    do_it(WriteRequest::DeleteRange(delete("a", "").valid()));
    do_it(WriteRequest::Put(put("a").valid()));
    // The new life of the key has nothing to do with the lease of the old one.
    assert!(do_it(WriteRequest::LeaseRevoke { id: 1 }).events.is_empty());
    do_it(WriteRequest::Put(PutRequest { lease: 2, ..put("a") }.valid()));
    do_it(WriteRequest::Put(PutRequest { ignore_lease: true, ..put("a") }.valid()));
    assert_eq!(do_it(WriteRequest::LeaseRevoke { id: 2 }).events.len(), 1);
}

/// A compaction right at a change gives back what the change replaced and keeps the change itself,
/// which a watch may begin with. The next compaction leaves nothing of it.
#[test]
fn a_delete_compacted_at_gives_back_what_it_deleted() {
    for keys in [1_usize, 17] {
        let mut store = Store::default();
        let mut seen = Vec::new();
        let mut write = |store: &mut Store, request: WriteRequest| {
            let events = store.evaluate(&request, &mut Vec::new()).expect("not refused").events;
            seen.extend(events.into_iter().map(|event| event.kv));
        };
        for number in 0..keys {
            let key = format!("k{number:02}").into();
            write(&mut store, WriteRequest::Put(PutRequest { key, ..put("") }.valid()));
        }
        write(&mut store, WriteRequest::DeleteRange(delete("k", "l").valid()));
        let deleted_at = store.head().revision;
        write(&mut store, WriteRequest::Put(put("stays").valid()));
        write(&mut store, WriteRequest::Put(put("k00").valid()));
        write(&mut store, WriteRequest::Compact { revision: deleted_at });
        store.publish(store.head());
        while !store.compact_step(1, &mut Vec::new()) {}
        for version in &seen {
            let kept = version.mod_revision() >= deleted_at;
            assert_eq!(store.retains(version), kept, "{version:?} of {keys}");
        }
        assert!(store.get(b"k00", deleted_at).is_none() && store.get(b"k00", deleted_at + 2).is_some());

        seen.retain(|version| store.retains(version));
        seen.sort_by(|a, b| (a.key(), a.mod_revision()).cmp(&(b.key(), b.mod_revision())));
        let mut loader = vetch_store::load::Loader::new(store.head(), keys);
        seen.iter().for_each(|version| loader.push(version.clone()).expect("in order"));
        let (loaded, history) = loader.finish(&store.unversioned()).expect("consistent");
        let deletes: Vec<_> =
            history.into_events().map(|(_, event)| event).filter(|event| event.kv.is_tombstone()).collect();
        assert!(deletes.len() == keys && deletes.iter().all(|event| event.prev.is_none()));
        for mut store in [store, loaded] {
            assert_eq!(store.stats().keys, 2);
            let compact = WriteRequest::Compact { revision: deleted_at + 1 };
            store.evaluate(&compact, &mut Vec::new()).expect("in range");
            store.publish(store.head());
            while !store.compact_step(1, &mut Vec::new()) {}
            let left: Vec<_> = seen.iter().filter(|version| store.retains(version)).collect();
            assert_eq!(left.len(), 2, "{left:?}");
            assert_eq!(
                left.iter().map(|version| version.footprint() as u64).sum::<u64>(),
                store.stats().bytes
            );
        }
    }
}

#[test]
fn a_delete_of_a_few_very_long_keys_is_journalled_as_its_range() {
    let mut store = Store::default();
    let mut journal = Vec::new();
    for n in 0..3 {
        let key = format!("{}{n}", "k".repeat(100_000));
        let put = PutRequest { key: key.into(), value: "v".into(), ..put("k") };
        store.evaluate(&WriteRequest::Put(put.valid()), &mut journal).expect("a put");
    }
    let mut effects = Vec::new();
    let deleted =
        store.evaluate(&WriteRequest::DeleteRange(delete("k", "l").valid()), &mut effects).expect("a delete");
    assert_eq!(deleted.events.len(), 3);
    assert!(effects.len() < 100, "{} bytes", effects.len());
    journal.extend(effects);
    let mut again = Store::default();
    assert_eq!(again.replay(&journal).expect("written by evaluation").len(), 4);
    assert_eq!(again.stats(), store.stats());
}

/// What etcd 3.7.1 answered: up to twelve equals stay in key order whichever way they are sorted,
/// and a limit cuts there.
#[test]
fn equals_stay_in_key_order_when_they_are_sorted_backwards() {
    let mut store = Store::default();
    for n in 0..14 {
        let request = WriteRequest::Put(PutRequest { key: format!("k{n:02}").into(), ..put("") }.valid());
        store.evaluate(&request, &mut Vec::new()).expect("nothing refuses it");
    }
    store.publish(store.head());
    let read = |end: &'static str, sort_target, limit| {
        let range = RangeRequest {
            sort_order: SortOrder::Descend,
            sort_target,
            limit,
            ..RangeRequest::new(KeyRange::new("k", end))
        };
        let txn = TxnRequest { success: vec![RequestOp::Range(range)], ..TxnRequest::default() };
        let answer = store.read_txn(&txn.clone().valid()).expect("nothing refuses it");
        let Some(ResponseOp::Range(range)) = answer.responses.into_iter().next() else { panic!("one range") };
        range.kvs.iter().map(|kv| String::from_utf8_lossy(&kv.key()[1..]).into_owned()).collect::<Vec<_>>()
    };
    for target in [SortTarget::Version, SortTarget::Value] {
        assert_eq!(read("k04", target, 0), ["00", "01", "02", "03"]);
        assert_eq!(read("k12", target, 2), ["00", "01"]);
    }
    assert_eq!(read("k04", SortTarget::Key, 2), ["03", "02"]);
    assert_eq!(read("k04", SortTarget::Mod, 2), ["03", "02"]);
}

/// The keys of a lease, as reads see them: exactly the visible versions decide, whatever was
/// evaluated since.
#[test]
fn the_keys_of_a_lease_are_those_that_are_visible() {
    let mut store = Store::default();
    let mut shown = Vec::new();
    let put = |key, lease| WriteRequest::Put(PutRequest { lease, ..put(key) }.valid());
    let delete = DeleteRangeRequest { range: KeyRange::single("a"), prev_kv: false };
    for request in [
        WriteRequest::LeaseGrant { id: 1, ttl: 10 },
        WriteRequest::LeaseGrant { id: 2, ttl: 10 },
        put("a", 1),
        put("b", 1),
        put("c", 1),
        put("b", 2),
        WriteRequest::DeleteRange(delete.valid()),
        put("a", 2),
        put("c", 0),
        put("c", 1),
        WriteRequest::LeaseRevoke { id: 2 },
        WriteRequest::LeaseGrant { id: 2, ttl: 10 },
        put("b", 2),
        WriteRequest::LeaseRevoke { id: 1 },
    ] {
        store.evaluate(&request, &mut Vec::new()).unwrap();
        let at_head =
            [1, 2].map(|id| store.lease_keys(id).into_iter().map(<[u8]>::to_vec).collect::<Vec<_>>());
        shown.retain(|(mark, _): &(Mark, _)| *mark != store.head());
        shown.push((store.head(), at_head));
    }
    // Everything was evaluated; it becomes visible step by step.
    for (mark, at_head) in shown {
        store.publish(mark);
        let visible = [1, 2].map(|id| {
            let mut run = LeasedRun::of(&store, id);
            while run.step(&store, 1) != Some(true) {}
            run.finish().iter().map(|version| version.key().to_vec()).collect::<Vec<_>>()
        });
        assert_eq!(visible, at_head, "{mark:?}");
        let living = ["a", "b", "c"].iter().filter(|key| store.get(key.as_bytes(), mark.revision).is_some());
        assert_eq!(store.visible_keys(), living.count() as u64);
    }
}
