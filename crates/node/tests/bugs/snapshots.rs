//! A snapshot is of one moment, whatever happens while it is collected.

use std::task::Poll;

use vetch_node::Snapshot;

use crate::stepped_node::SteppedNode;

fn seen(snapshot: &Snapshot) -> Vec<(String, i64)> {
    let key = |key: &[u8]| String::from_utf8(key.to_vec()).unwrap();
    snapshot.versions.iter().map(|version| (key(version.key()), version.mod_revision())).collect()
}

#[test]
fn a_compaction_in_between_takes_nothing_out_of_a_snapshot() {
    let mut fixture = SteppedNode::with(|config| config.tuning.scan.keys = 1);
    for round in 0..3 {
        for key in ["a", "b", "c"] {
            fixture.put(key, &format!("{round}"));
        }
    }
    let node = fixture.node.clone();
    let mut collecting = Box::pin(async move { node.snapshot().await });
    assert!(fixture.poll(&mut collecting).is_pending());
    fixture.sequence();
    assert!(fixture.poll(&mut collecting).is_pending(), "one key at a time");
    let newest = fixture.put("c", "after the moment");
    let node = fixture.node.clone();
    fixture.wait(async move { node.compact(newest, false).await }).unwrap();
    fixture.settle();
    let snapshot = loop {
        if let Poll::Ready(snapshot) = fixture.poll(&mut collecting) {
            break snapshot.unwrap();
        }
    };
    let expected = (2..=10).zip(["a", "b", "c"].into_iter().cycle());
    assert_eq!(seen(&snapshot), expected.map(|(at, key)| (key.to_owned(), at)).collect::<Vec<_>>());
    assert_eq!((snapshot.mark.revision, snapshot.mark.compact_revision), (10, -1));
    // The compaction that waited is carried out as soon as it may be.
    fixture.settle();
    let node = fixture.node.clone();
    let after = fixture.wait(async move { node.snapshot().await }).unwrap();
    assert_eq!(seen(&after), [("a".to_owned(), 8), ("b".to_owned(), 9), ("c".to_owned(), 11)]);
    assert_eq!(fixture.node.metrics().compaction.versions.get(), 7);
}
