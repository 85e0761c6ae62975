//! What a read must not do: be refused halfway, or be old.

use std::future::Future;
use std::task::Poll;
use std::time::Duration;

use vetch_node::error::NodeError;
use vetch_node::store::StoreError;
use vetch_node::store::request::{KeyRange, PutRequest, RangeRequest, RequestOp, ResponseOp, TxnRequest};
use vetch_testkit::valid::Valid;

use crate::stepped_node::{SteppedNode, put, single};

/// A transaction with a read below the compaction was refused on one member and applied on another.
#[test]
fn etcd_18667_a_transaction_that_reads_below_the_compaction_changes_nothing() {
    let mut fixture = SteppedNode::new();
    for n in 0..10 {
        fixture.put("k", &format!("{n}"));
    }
    fixture.compact(8);
    let below = RangeRequest { revision: 7, ..RangeRequest::new(single("k")) };
    for order in [[true, false], [false, true]] {
        let ops = order.iter().map(|&first| match first {
            true => RequestOp::Put(put("k", "applied")),
            false => RequestOp::Range(below.clone()),
        });
        let outcome = fixture.txn(ops.collect());
        assert_eq!(outcome, Err(NodeError::Store(StoreError::Compacted)));
        assert_eq!((fixture.get("k").as_deref(), fixture.node.revision()), (Some("9"), 11));
    }
    let mut fixture = fixture.power_cut();
    assert_eq!((fixture.get("k").as_deref(), fixture.node.revision()), (Some("9"), 11));
}

/// A member that had been stopped for a while answered linearizable reads from before the pause.
#[test]
fn etcd_20418_a_read_after_a_pause_sees_everything_acknowledged() {
    let mut fixture = SteppedNode::new();
    fixture.put("k", "old");
    let node = fixture.node.clone();
    let mut write = Box::pin(async move { node.put(put("k", "new").valid()).await });
    assert!(fixture.poll(&mut write).is_pending());
    // Evaluated, and handed to the journal.
    fixture.sequence();
    fixture.sequence();
    // Nothing is durable yet: every thread stands still for longer than any timeout, and then time
    // has jumped.
    fixture.advance(Duration::from_secs(30));
    assert_eq!(fixture.get_now("k"), "old", "what is not durable is not shown");
    fixture.sync();
    // Durable now, and acknowledged before fan-out or housekeeping have woken up.
    assert!(matches!(fixture.poll(&mut write), Poll::Ready(Ok(_))));
    assert_eq!(fixture.get_now("k"), "new", "what was acknowledged is shown");
}

/// Not etcd's, which reads a range at once: here it is read in chunks, and a compaction may come in
/// between. Who asks for the newest gets the newest, never that it is too old.
#[test]
fn a_range_of_the_newest_is_never_too_old() {
    let mut fixture = SteppedNode::with(|config| config.tuning.scan.keys = 1);
    let keys = ["a", "b", "c", "d", "e", "f"];
    for key in keys {
        fixture.put(key, "old");
    }
    let request = RangeRequest::new(KeyRange::new("a", "z"));
    let node = fixture.node.clone();
    let (ranged, compared) = (request.clone(), RequestOp::Range(request));
    let mut range = Box::pin(async move { node.range(ranged.valid()).await });
    let node = fixture.node.clone();
    let txn = TxnRequest { success: vec![compared], ..TxnRequest::default() };
    let mut txn = Box::pin(async move { node.txn(txn.valid()).await });
    assert!(
        fixture.poll(&mut range).is_pending() && fixture.poll(&mut txn).is_pending(),
        "they are read in chunks"
    );
    let newest = fixture.put("a", "new");
    fixture.compact(newest);
    let range = fixture.wait(range).unwrap();
    let txn = fixture.wait(txn).unwrap();
    let ResponseOp::Range(inner) = &txn.responses[0] else { panic!("{txn:?}") };
    for (revision, kvs) in [(range.revision, &range.kvs), (txn.revision, &inner.kvs)] {
        let values: Vec<_> = kvs.iter().map(|kv| kv.value().into_owned()).collect();
        let expected = [b"new", b"old", b"old", b"old", b"old", b"old"].map(|value| value.to_vec());
        assert_eq!((revision, values), (newest, expected.to_vec()));
    }
}

/// A revision that was asked for and is gone halfway is refused, as it would be from the beginning.
#[test]
fn a_range_of_the_past_is_too_old_once_it_is_compacted() {
    let mut fixture = SteppedNode::with(|config| config.tuning.scan.keys = 1);
    for key in ["a", "b", "c", "d", "e", "f"] {
        fixture.put(key, "old");
    }
    let request =
        RangeRequest { revision: fixture.node.revision(), ..RangeRequest::new(KeyRange::new("a", "z")) };
    let node = fixture.node.clone();
    let mut range = Box::pin(async move { node.range(request.valid()).await });
    assert!(fixture.poll(&mut range).is_pending());
    let newest = fixture.put("a", "new");
    fixture.compact(newest);
    assert_eq!(fixture.wait(range), Err(NodeError::Store(StoreError::Compacted)));
}

/// What a client has to do to overtake a read again and again: writing, and compacting at what it
/// wrote.
fn overtake(fixture: &mut SteppedNode) -> i64 {
    let newest = fixture.put("k00", "new");
    let node = fixture.node.clone();
    fixture.wait(async move { node.compact(newest, false).await }).unwrap();
    fixture.settle();
    newest
}

/// Polls a read between one compaction at the newest revision and the next, until it is done.
fn overtaken<T>(fixture: &mut SteppedNode, read: impl Future<Output = Result<T, NodeError>>) -> T {
    let mut read = Box::pin(read);
    for _ in 0..200 {
        match fixture.poll(&mut read) {
            Poll::Ready(outcome) => return outcome.unwrap_or_else(|error| panic!("a read fails: {error}")),
            Poll::Pending => overtake(fixture),
        };
    }
    panic!("a read never ends")
}

/// A client that writes and compacts in a loop made lists of others fail with "request timed out".
/// etcd never fails a read of the newest because of compactions.
#[test]
fn compactions_in_a_loop_fail_no_read() {
    let mut fixture = SteppedNode::with(|config| config.tuning.scan.keys = 1);
    let node = fixture.node.clone();
    fixture.wait(async move { node.lease_grant(7, 600).await }).unwrap();
    for n in 0..20 {
        let (node, put) = (fixture.node.clone(), PutRequest { lease: 7, ..put(&format!("k{n:02}"), "old") });
        fixture.wait(async move { node.put(put.valid()).await }).unwrap();
    }
    let all = RangeRequest::new(KeyRange::new("k", "l"));
    let (node, request) = (fixture.node.clone(), all.clone());
    let range = overtaken(&mut fixture, async move { node.range(request.valid()).await });
    assert_eq!((range.count, range.kvs.len()), (20, 20));
    assert_eq!(range.kvs.iter().map(|kv| kv.mod_revision()).max(), Some(range.revision), "it is the newest");
    let node = fixture.node.clone();
    let txn = TxnRequest { success: vec![RequestOp::Range(all)], ..TxnRequest::default() };
    let txn = overtaken(&mut fixture, async move { node.txn(txn.valid()).await });
    let ResponseOp::Range(inner) = &txn.responses[0] else { panic!("{txn:?}") };
    assert_eq!((inner.kvs.len(), inner.kvs[0].mod_revision()), (20, txn.revision));
    let node = fixture.node.clone();
    let hash = overtaken(&mut fixture, async move { node.hash_kv(0).await });
    assert!(hash.compact_revision <= hash.hash_revision);
    let node = fixture.node.clone();
    let lease = overtaken(&mut fixture, async move { node.lease_time_to_live(7, true).await }).unwrap();
    assert_eq!(lease.keys.len(), 19, "one key was put without it");
    // Whatever they kept is given back.
    let newest = fixture.node.revision();
    fixture.put("k00", "last");
    fixture.compact(newest + 1);
}

/// A read that is not gone on with, for whatever reason, keeps memory for a while and not for ever.
#[test]
fn a_read_that_stands_still_does_not_stop_compaction_for_ever() {
    let mut fixture = SteppedNode::with(|config| config.tuning.scan.keys = 1);
    for n in 0..20 {
        fixture.put(&format!("k{n:02}"), "old");
    }
    let node = fixture.node.clone();
    let request = RangeRequest::new(KeyRange::new("k", "l"));
    let mut range = Box::pin(async move { node.range(request.valid()).await });
    for _ in 0..5 {
        assert!(fixture.poll(&mut range).is_pending());
        overtake(&mut fixture);
    }
    let (node, newest) = (fixture.node.clone(), fixture.put("k01", "new"));
    let mut compaction = Box::pin(async move { node.compact(newest, true).await });
    assert!(fixture.poll(&mut compaction).is_pending());
    fixture.settle();
    assert!(fixture.poll(&mut compaction).is_pending(), "the range needs what it would free");
    fixture.advance(Duration::from_secs(31));
    fixture.settle();
    assert_eq!(fixture.poll(&mut compaction), Poll::Ready(Ok(newest)));
    let range = fixture.wait(range).unwrap();
    assert_eq!((range.count, range.revision), (20, newest), "it begins anew, with the newest");
}

impl SteppedNode {
    /// A read that nothing else gets a turn beside.
    fn get_now(&self, key: &str) -> String {
        let node = self.node.clone();
        let request = RangeRequest::new(single(key));
        match self.poll(&mut Box::pin(async move { node.range(request.valid()).await })) {
            Poll::Ready(found) => String::from_utf8(found.unwrap().kvs[0].value().to_vec()).unwrap(),
            Poll::Pending => panic!("a small read waits for no other thread"),
        }
    }
}
