//! Read indexes: reads must not be stale.

use vetch_cluster::{LogIndex, ReadId, ReplicaEvent};

use crate::harness::{Harness, appends};

fn indexes(harness: &Harness, who: usize) -> Vec<(Vec<ReadId>, LogIndex)> {
    let given = |event: &ReplicaEvent| match event {
        ReplicaEvent::ReadIndex { reads, index } => Some((reads.clone(), *index)),
        _ => None,
    };
    harness.events[who].iter().filter_map(given).collect()
}

#[test]
fn one_barrier_serves_all_reads_that_wait_and_takes_no_revision() {
    let mut harness = Harness::new(1, true);
    harness.elect(0);
    let revision = harness.tip(0).next_rev;
    harness.replicas[0].read_index(harness.now, ReadId(1)).expect("leads");
    let first = appends(harness.take_commands(0));
    assert_eq!(first.len(), 1);
    for read in 2..100 {
        harness.replicas[0].read_index(harness.now, ReadId(read)).expect("leads");
    }
    assert!(appends(harness.take_commands(0)).is_empty(), "one barrier at a time");
    harness.deliver(0, &first[0]);
    harness.settle();
    let given = indexes(&harness, 0);
    assert_eq!(given.len(), 2);
    assert_eq!((given[0].0.len(), given[1].0.len()), (1, 98));
    assert_eq!(harness.tip(0).next_rev, revision);
}

#[test]
fn a_read_does_not_share_an_append_that_was_started_before_it() {
    let mut harness = Harness::new(1, true);
    harness.elect(0);
    harness.write(0, 1);
    let write = appends(harness.take_commands(0));
    harness.replicas[0].read_index(harness.now, ReadId(1)).expect("leads");
    let barrier = appends(harness.take_commands(0));
    harness.deliver(0, &write[0]);
    assert!(indexes(&harness, 0).is_empty());
    harness.deliver(0, &barrier[0]);
    assert_eq!(indexes(&harness, 0)[0].1.tip.seq.get(), 3);
}

#[test]
fn a_follower_answers_once_it_has_reached_the_index() {
    let mut harness = Harness::new(2, true);
    harness.elect(0);
    harness.replicas[0].read_index(harness.now, ReadId(1)).expect("leads");
    harness.settle_one(0);
    let index = indexes(&harness, 0)[0].1;
    assert!(!harness.replicas[1].reached(&index));
    harness.catch_up(1);
    assert!(harness.replicas[1].reached(&index));
}

#[test]
fn a_follower_of_another_history_halts_instead_of_answering() {
    let mut one = Harness::new(2, true);
    one.elect(0);
    let mut other = Harness::new(2, true);
    other.elect(1);
    one.replicas[0].read_index(one.now, ReadId(1)).expect("leads");
    one.settle_one(0);
    let index = indexes(&one, 0)[0].1;
    other.write(1, 1);
    other.settle_one(1);
    assert!(!other.replicas[1].reached(&index));
    other.events[1] = other.replicas[1].take_events();
    assert!(other.halted(1));
}
