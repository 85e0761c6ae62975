//! What a read must not do: be refused halfway, or be old.

use std::task::Poll;
use std::time::Duration;

use vetch_node::error::NodeError;
use vetch_node::store::StoreError;
use vetch_node::store::request::{KeyRange, RangeRequest, RequestOp, ResponseOp, TxnRequest};

use crate::lab::{Lab, put, single};

/// A transaction with a read below the compaction was refused on one member and applied on another.
#[test]
fn etcd_18667_a_transaction_that_reads_below_the_compaction_changes_nothing() {
    let mut lab = Lab::new();
    for n in 0..10 {
        lab.put("k", &format!("{n}"));
    }
    lab.compact(8);
    let below = RangeRequest { revision: 7, ..RangeRequest::new(single("k")) };
    for order in [[true, false], [false, true]] {
        let ops = order.iter().map(|&first| match first {
            true => RequestOp::Put(put("k", "applied")),
            false => RequestOp::Range(below.clone()),
        });
        let outcome = lab.txn(ops.collect());
        assert_eq!(outcome, Err(NodeError::Store(StoreError::Compacted)));
        assert_eq!((lab.get("k").as_deref(), lab.node.revision()), (Some("9"), 11));
    }
    let mut lab = lab.power_cut();
    assert_eq!((lab.get("k").as_deref(), lab.node.revision()), (Some("9"), 11));
}

/// A member that had been stopped for a while answered linearizable reads from before the pause.
#[test]
fn etcd_20418_a_read_after_a_pause_sees_everything_acknowledged() {
    let mut lab = Lab::new();
    lab.put("k", "old");
    let node = lab.node.clone();
    let mut write = Box::pin(async move { node.put(put("k", "new")).await });
    assert!(lab.poll(&mut write).is_pending());
    // Evaluated, and handed to the journal.
    lab.sequence();
    lab.sequence();
    // Nothing is durable yet: every thread stands still for longer than any timeout, and then time has jumped.
    lab.advance(Duration::from_secs(30));
    assert_eq!(lab.get_now("k"), "old", "what is not durable is not shown");
    lab.sync();
    // Durable now, and acknowledged before fan-out or housekeeping have woken up.
    assert!(matches!(lab.poll(&mut write), Poll::Ready(Ok(_))));
    assert_eq!(lab.get_now("k"), "new", "what was acknowledged is shown");
}

/// Not etcd's, which reads a range at once: here it is read in chunks, and a compaction may come in between. Who asks
/// for the newest gets the newest, never that it is too old.
#[test]
fn a_range_of_the_newest_is_never_too_old() {
    let mut lab = Lab::with(|config| config.tuning.scan_keys = 1);
    let keys = ["a", "b", "c", "d", "e", "f"];
    for key in keys {
        lab.put(key, "old");
    }
    let request = RangeRequest::new(KeyRange::new("a", "z"));
    let node = lab.node.clone();
    let (ranged, compared) = (request.clone(), RequestOp::Range(request));
    let mut range = Box::pin(async move { node.range(ranged).await });
    let node = lab.node.clone();
    let txn = TxnRequest { success: vec![compared], ..TxnRequest::default() };
    let mut txn = Box::pin(async move { node.txn(txn).await });
    assert!(lab.poll(&mut range).is_pending() && lab.poll(&mut txn).is_pending(), "they are read in chunks");
    let newest = lab.put("a", "new");
    lab.compact(newest);
    let range = lab.wait(range).unwrap();
    let txn = lab.wait(txn).unwrap();
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
    let mut lab = Lab::with(|config| config.tuning.scan_keys = 1);
    for key in ["a", "b", "c", "d", "e", "f"] {
        lab.put(key, "old");
    }
    let request =
        RangeRequest { revision: lab.node.revision(), ..RangeRequest::new(KeyRange::new("a", "z")) };
    let node = lab.node.clone();
    let mut range = Box::pin(async move { node.range(request).await });
    assert!(lab.poll(&mut range).is_pending());
    let newest = lab.put("a", "new");
    lab.compact(newest);
    assert_eq!(lab.wait(range), Err(NodeError::Store(StoreError::Compacted)));
}

impl Lab {
    /// A read that nothing else gets a turn beside.
    fn get_now(&self, key: &str) -> String {
        let node = self.node.clone();
        let request = RangeRequest::new(single(key));
        match self.poll(&mut Box::pin(async move { node.range(request).await })) {
            Poll::Ready(found) => String::from_utf8(found.unwrap().kvs[0].value().to_vec()).unwrap(),
            Poll::Pending => panic!("a small read needs nobody"),
        }
    }
}
