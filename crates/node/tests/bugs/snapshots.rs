//! A snapshot is of one moment, whatever happens while it is collected.

use std::task::Poll;

use vetch_node::Snapshot;

use crate::lab::Lab;

fn seen(snapshot: &Snapshot) -> Vec<(String, i64)> {
    let key = |key: &[u8]| String::from_utf8(key.to_vec()).unwrap();
    snapshot.versions.iter().map(|version| (key(version.key()), version.mod_revision())).collect()
}

#[test]
fn a_compaction_in_between_takes_nothing_out_of_a_snapshot() {
    let mut lab = Lab::with(|config| config.tuning.scan.keys = 1);
    for round in 0..3 {
        for key in ["a", "b", "c"] {
            lab.put(key, &format!("{round}"));
        }
    }
    let node = lab.node.clone();
    let mut collecting = Box::pin(async move { node.snapshot().await });
    assert!(lab.poll(&mut collecting).is_pending());
    lab.sequence();
    assert!(lab.poll(&mut collecting).is_pending(), "one key at a time");
    let newest = lab.put("c", "after the moment");
    let node = lab.node.clone();
    lab.wait(async move { node.compact(newest, false).await }).unwrap();
    lab.settle();
    let snapshot = loop {
        if let Poll::Ready(snapshot) = lab.poll(&mut collecting) {
            break snapshot.unwrap();
        }
    };
    let expected = (2..=10).zip(["a", "b", "c"].into_iter().cycle());
    assert_eq!(seen(&snapshot), expected.map(|(at, key)| (key.to_owned(), at)).collect::<Vec<_>>());
    assert_eq!((snapshot.mark.revision, snapshot.mark.compact_revision), (10, -1));
    // The compaction that waited is carried out as soon as it may be.
    lab.settle();
    let node = lab.node.clone();
    let after = lab.wait(async move { node.snapshot().await }).unwrap();
    assert_eq!(seen(&after), [("a".to_owned(), 8), ("b".to_owned(), 9), ("c".to_owned(), 11)]);
    assert_eq!(lab.node.metrics().compaction.versions.get(), 7);
}
