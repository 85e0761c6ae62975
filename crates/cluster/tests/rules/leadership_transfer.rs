//! A leader that names its successor.

use vetch_cluster::{ReadId, Refusal, ReplicaEvent, ReplicaId};

use crate::harness::{Harness, appends};

fn id(who: usize) -> ReplicaId {
    ReplicaId { member: who as u64 + 1, incarnation: 1 }
}

fn transferred(harness: &Harness, who: usize) -> bool {
    harness.events[who].contains(&ReplicaEvent::LeadershipTransferred)
}

#[test]
fn the_named_replica_leads_without_an_election_timeout() {
    let mut harness = Harness::new(3, true);
    harness.elect(0);
    let before = harness.write(0, 1);
    let ticket = harness.replicas[0].transfer_leadership(harness.now, id(2)).expect("leads");
    harness.settle_one(0);
    assert!(harness.committed(0, before) && harness.committed(0, ticket));
    assert!(transferred(&harness, 0) && !harness.replicas[0].is_leader());
    harness.catch_up(1);
    harness.catch_up(2);
    harness.settle();
    assert!(harness.replicas[2].is_leader() && !harness.replicas[1].is_leader());
    harness.catch_up(0);
    assert_eq!(harness.tip(0).epoch.get(), 2);
    let after = harness.write(2, 2);
    harness.settle_one(2);
    assert!(harness.committed(2, after));
}

#[test]
fn nothing_is_appended_behind_a_transfer() {
    let mut harness = Harness::new(2, true);
    harness.elect(0);
    harness.replicas[0].transfer_leadership(harness.now, id(1)).expect("leads");
    let last = appends(harness.take_commands(0));
    assert_eq!(harness.replicas[0].transfer_leadership(harness.now, id(1)), Err(Refusal::Busy));
    let sealed =
        vetch_journal::Draft::new(vetch_journal::Kind::Barrier).chain(&mut harness.replicas[0].head());
    assert_eq!(harness.replicas[0].propose(harness.now, &[sealed]), Err(Refusal::Busy));
    harness.replicas[0].read_index(harness.now, ReadId(1)).expect("it may still stay the leader");
    harness.tick(0, 300);
    assert!(appends(harness.take_commands(0)).is_empty(), "neither a barrier nor a heartbeat");
    harness.deliver(0, &last[0]);
    assert!(transferred(&harness, 0));
    assert!(harness.events[0].contains(&ReplicaEvent::ReadIndexLost { reads: vec![ReadId(1)] }));
}

#[test]
fn a_successor_that_is_gone_costs_one_election_timeout() {
    let mut harness = Harness::new(3, true);
    harness.elect(0);
    let gone = ReplicaId { member: 2, incarnation: 7 };
    harness.replicas[0].transfer_leadership(harness.now, gone).expect("leads");
    harness.settle_one(0);
    (1..3).for_each(|who| harness.catch_up(who));
    harness.settle();
    assert!(harness.replicas.iter().all(|replica| !replica.is_leader()), "another incarnation is not meant");
    harness.pass(2200);
    assert_eq!(harness.replicas.iter().filter(|replica| replica.is_leader()).count(), 1);
}

#[test]
fn a_dropped_transfer_leaves_the_leader_in_place() {
    let mut harness = Harness::new(2, true);
    harness.elect(0);
    let ticket = harness.replicas[0].transfer_leadership(harness.now, id(1)).expect("leads");
    let lost = appends(harness.take_commands(0));
    harness.pass(6000);
    assert!(harness.dropped(0, ticket) && !transferred(&harness, 0));
    assert!(harness.replicas[0].is_leader());
    // It arrives after all, and is stale.
    harness.deliver(0, &lost[0]);
    harness.catch_up(1);
    harness.settle();
    assert!(harness.replicas[0].is_leader() && !harness.replicas[1].is_leader());
    let write = harness.write(0, 1);
    harness.settle_one(0);
    assert!(harness.committed(0, write));
}
