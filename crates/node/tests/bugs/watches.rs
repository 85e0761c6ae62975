//! What a watch must not do: lose, double, overtake, or begin too early.

use vetch_node::store::request::{DeleteRangeRequest, KeyRange, RequestOp};
use vetch_node::watch::Create;
use vetch_testkit::valid::Valid;

use crate::stepped_node::{SteppedNode, events_of, everything, put};

/// A progress notification overtook events that were still on their way.
#[test]
fn etcd_15220_progress_never_overtakes_events() {
    let mut fixture = SteppedNode::with(|config| config.tuning.watch.drain.events = 1);
    for n in 0..20 {
        fixture.put("k", &format!("{n}"));
    }
    let mut session = fixture.watch(&everything(2));
    session.request_progress();
    let mut responses = Vec::new();
    for n in 20..40 {
        session.request_progress();
        responses.extend(fixture.drain(&mut session));
        fixture.put("k", &format!("{n}"));
        session.request_progress();
    }
    responses.extend(fixture.drain_settled(&mut session));
    let mut sent_upto = 1;
    let mut progress = 0;
    for response in &responses {
        if response.progress {
            progress += 1;
            assert_eq!(response.header_revision, sent_upto, "everything up to here has been sent");
        }
        sent_upto = response.events().map(|event| event.0.kv.mod_revision()).fold(sent_upto, i64::max);
    }
    assert_eq!(sent_upto, 41);
    assert!(progress > 5, "progress was sent: {progress}");
}

/// An event was sent twice, because what a transaction had read was kept and used again.
#[test]
fn etcd_17247_every_event_of_a_transaction_is_sent_once() {
    let mut fixture = SteppedNode::with(|config| {
        config.tuning.watch.ring.revisions = 1;
        config.tuning.watch.drain.events = 1;
    });
    let mut live = fixture.watch(&everything(0));
    for n in 0..10 {
        let value = format!("{n}");
        let all = DeleteRangeRequest { range: KeyRange::new("k", "l"), prev_kv: true };
        fixture
            .txn(vec![
                RequestOp::Put(put("k1", &value)),
                RequestOp::Put(put("k2", &value)),
                RequestOp::Put(put("m", &value)),
            ])
            .unwrap();
        fixture.txn(vec![RequestOp::DeleteRange(all), RequestOp::Put(put("m", &value))]).unwrap();
    }
    let mut expected = Vec::new();
    for n in 0..10 {
        let revision = 2 + 2 * n;
        expected.extend(["k1", "k2", "m"].map(|key| (key.to_string(), revision, "put")));
        expected.extend(["k1", "k2"].map(|key| (key.to_string(), revision + 1, "delete")));
        expected.push(("m".to_string(), revision + 1, "put"));
    }
    assert_eq!(events_of(&fixture.drain_settled(&mut live)), expected);
    let mut late = fixture.watch(&everything(2));
    assert_eq!(events_of(&fixture.drain_settled(&mut late)), expected);
}

/// Watchers of a stream whose client read slowly lost events once many of them were behind.
#[test]
fn etcd_17529_a_starved_stream_loses_nothing() {
    let mut fixture = SteppedNode::with(|config| {
        config.tuning.watch.ring.revisions = 2;
        config.tuning.watch.drain.responses = 2;
        config.tuning.watch.fan_out_revisions = 1;
    });
    let mut session = fixture.watch(&everything(0));
    for n in 0..30 {
        let key = format!("k{}", n % 3).into_bytes();
        session.create(&Create { key, start_revision: i64::from(n % 2) * 2, ..Create::default() });
    }
    let mut responses = Vec::new();
    for n in 0..200 {
        fixture.put(&format!("k{}", n % 3), &format!("{n}"));
        if n % 50 == 0 {
            responses.extend(fixture.drain(&mut session));
        }
    }
    responses.extend(fixture.drain_settled(&mut session));
    for watcher in 0..31 {
        let own: Vec<_> = responses.iter().filter(|response| response.watch_id == watcher).cloned().collect();
        let events = events_of(&own);
        let of_key = |n: i64| watcher == 0 || n % 3 == (watcher - 1) % 3;
        let revisions: Vec<i64> = events.iter().map(|(_, revision, _)| *revision).collect();
        let expected: Vec<i64> = (0..200).filter(|&n| of_key(n)).map(|n| n + 2).collect();
        assert_eq!(revisions, expected, "watcher {watcher}");
    }
}

/// The deletion was gone when history was compacted right at its revision.
#[test]
fn etcd_18089_a_deletion_at_the_compaction_is_sent() {
    let mut fixture = SteppedNode::new();
    fixture.put("k", "v");
    let deleted = fixture.delete("k");
    fixture.put("other", "v");
    let mut behind = fixture.watch(&Create { key: b"k".to_vec(), start_revision: 2, ..Create::default() });
    fixture.compact(deleted);
    fixture.settle();
    let before: Vec<_> = events_of(&fixture.drain_settled(&mut behind));
    // The watcher was behind the compaction when it was first served: it gets all of it or that
    // it is too late.
    assert!(
        before.is_empty() || before.last().unwrap() == &("k".to_string(), deleted, "delete"),
        "{before:?}"
    );
    let mut at = fixture.watch(&Create { key: b"k".to_vec(), start_revision: deleted, ..Create::default() });
    assert_eq!(events_of(&fixture.drain_settled(&mut at)), [("k".to_string(), deleted, "delete")]);
}

/// A watch opened at the compaction's revision did not get the deletion there; also after a
/// restart.
#[test]
fn etcd_19179_a_watch_from_the_compaction_gets_the_deletion_there() {
    let mut fixture = SteppedNode::new();
    for n in 0..30 {
        fixture.put(&format!("k{n}"), &"x".repeat(300));
    }
    let deleted = fixture.delete("k7");
    fixture.compact(deleted);
    let expected = [("k7".to_string(), deleted, "delete")];
    let mut session = fixture.watch(&everything(deleted));
    assert_eq!(events_of(&fixture.drain_settled(&mut session)), expected);
    drop(session);
    let mut fixture = fixture.power_cut();
    let mut session = fixture.watch(&everything(deleted));
    assert_eq!(events_of(&fixture.drain_settled(&mut session)), expected);
    // Once more, with the state taken from a checkpoint that was written after the compaction.
    drop(session);
    fixture.advance(std::time::Duration::from_secs(3600));
    fixture.put("k8", "y");
    fixture.settle();
    let mut fixture = fixture.kill();
    let mut session = fixture.watch(&everything(deleted));
    assert_eq!(events_of(&fixture.drain_settled(&mut session))[..1], expected);
}

/// A watch from a revision in the future got older events, and progress too early.
#[test]
fn etcd_20221_a_watch_from_the_future_begins_there() {
    let mut fixture = SteppedNode::new();
    for n in 0..5 {
        fixture.put("k", &format!("{n}"));
    }
    let future = Create { progress_notify: true, ..everything(12) };
    let mut session = fixture.watch(&future);
    session.request_progress();
    let first = fixture.drain_settled(&mut session);
    assert_eq!(first.len(), 1, "it is created, and that is all: {first:?}");
    assert!(first[0].created);
    for n in 5..15 {
        fixture.put("k", &format!("{n}"));
        session.request_progress();
        for response in fixture.drain_settled(&mut session) {
            assert!(response.header_revision >= 12, "too early: {response:?}");
            assert!(
                events_of(std::slice::from_ref(&response)).iter().all(|(_, revision, _)| *revision >= 12)
            );
        }
    }
    // Compaction below its start does not concern it either.
    let mut session = fixture.watch(&everything(20));
    fixture.compact(16);
    for n in 15..25 {
        fixture.put("k", &format!("{n}"));
    }
    let revisions: Vec<i64> =
        events_of(&fixture.drain_settled(&mut session)).iter().map(|(_, revision, _)| *revision).collect();
    assert_eq!(revisions, (20..=26).collect::<Vec<i64>>());
}

/// A compaction right at a large deletion gives the deleted values back; a watcher that follows
/// sees them first.
#[test]
fn a_live_watcher_is_shown_previous_values_before_compaction_takes_them() {
    let mut fixture = SteppedNode::new();
    for n in 0..30 {
        fixture.put(&format!("k{n:02}"), "v");
    }
    let mut session = fixture.watch(&Create { prev_kv: true, ..everything(0) });
    fixture.drain_settled(&mut session);
    let (deleting, compacting) = (fixture.node.clone(), fixture.node.clone());
    let all = DeleteRangeRequest { range: KeyRange::new("k", "l"), prev_kv: false };
    let mut delete = Box::pin(async move { deleting.delete_range(all.valid()).await });
    let mut compact = Box::pin(async move { compacting.compact(32, true).await });
    assert!(fixture.poll(&mut delete).is_pending());
    fixture.sequence();
    assert!(fixture.poll(&mut compact).is_pending());
    // Everything but the fan-out gets its turn, and again.
    for _ in 0..10 {
        fixture.sequence();
        fixture.sync();
        fixture.housekeep();
    }
    let responses = fixture.drain_settled(&mut session);
    let previous =
        responses.iter().flat_map(|response| response.events()).filter(|event| event.0.prev.is_some());
    assert_eq!((events_of(&responses).len(), previous.count()), (30, 30));
}

/// A watch that begins at the compaction gets the changes there without what they replaced: at
/// once, when memory has been given back, and after a restart, with the compaction in the journal
/// or in a checkpoint. Later changes have all of it.
#[test]
fn events_at_the_compaction_look_the_same_before_and_after_a_restart() {
    let mut fixture = SteppedNode::with(|config| config.checkpoint_bytes = 1 << 20);
    fixture.put("a", "1");
    fixture.put("b", "1");
    let all = DeleteRangeRequest { range: KeyRange::new("b", ""), prev_kv: false };
    fixture.txn(vec![RequestOp::Put(put("a", "2")), RequestOp::DeleteRange(all)]).unwrap();
    fixture.put("a", "3");
    fixture.delete("a");
    let seen = |fixture: &mut SteppedNode| {
        let mut session = fixture.watch(&Create { prev_kv: true, ..everything(4) });
        let responses = fixture.drain_settled(&mut session);
        let previous = responses.iter().flat_map(|response| response.events());
        (events_of(&responses), previous.map(|event| event.0.prev.is_some()).collect::<Vec<_>>())
    };
    let (events, all_known) = seen(&mut fixture);
    assert_eq!(all_known, [true; 4]);
    let compacting = fixture.node.clone();
    fixture.wait(async move { compacting.compact(4, false).await }).unwrap();
    let expected = (events, vec![false, false, true, true]);
    assert_eq!(seen(&mut fixture), expected);
    fixture.settle();
    assert_eq!(seen(&mut fixture), expected);
    let mut fixture = fixture.kill();
    assert_eq!(seen(&mut fixture), expected);
    // Enough for a checkpoint, and for a restart that finds the compaction there.
    fixture.put("other", &"v".repeat(2 << 20));
    fixture.settle();
    assert!(fixture.node.metrics().checkpoints.bytes.get() > 0, "a checkpoint was written");
    let mut fixture = fixture.kill();
    let (events, known) = seen(&mut fixture);
    assert_eq!((&events[..4], &known[..4]), (&expected.0[..], &expected.1[..]));
}
