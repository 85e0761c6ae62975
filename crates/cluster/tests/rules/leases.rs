//! Reads by a lease: the log is not asked, and no read is stale.

use std::time::Duration;

use vetch_base::Seq;
use vetch_cluster::{Config, ReadId, ReplicaEvent, ReplicaId};

use crate::harness::{Harness, appends};

/// A leader whose lease began now.
fn leased(replicas: usize) -> Harness {
    let mut harness = Harness::new(replicas, true);
    harness.elect(0);
    harness.write(0, 1);
    harness.settle_one(0);
    harness.events[0].clear();
    harness
}

fn read(harness: &mut Harness, id: u64) {
    harness.replicas[0].read_index(harness.now, ReadId(id)).expect("leads");
}

/// Sequence numbers of the indexes that reads got.
fn indexes(harness: &Harness) -> Vec<Seq> {
    let given = |event: &ReplicaEvent| match event {
        ReplicaEvent::ReadIndex { index, .. } => Some(index.tip.seq),
        _ => None,
    };
    harness.events[0].iter().filter_map(given).collect()
}

#[test]
fn with_a_lease_a_read_does_not_ask_the_log() {
    let mut harness = leased(1);
    let lease = harness.replicas[0].lease().expect("nothing is in flight");
    assert_eq!(lease.index.tip, harness.tip(0));
    assert_eq!(lease.until, harness.now + Config::default().lease_duration);
    read(&mut harness, 1);
    assert!(appends(harness.take_commands(0)).is_empty());
    assert_eq!(indexes(&harness), [harness.tip(0).seq]);
}

#[test]
fn a_read_waits_for_appends_in_flight_because_others_may_have_read_them() {
    let mut harness = leased(1);
    harness.write(0, 2);
    let write = appends(harness.take_commands(0));
    assert_eq!(harness.replicas[0].lease(), None);
    read(&mut harness, 1);
    assert!(appends(harness.take_commands(0)).is_empty(), "but it needs no barrier of its own");
    assert!(indexes(&harness).is_empty());
    harness.deliver(0, &write[0]);
    assert_eq!(indexes(&harness), [harness.tip(0).seq]);
}

#[test]
fn a_lease_begins_with_the_start_of_an_append_and_ends() {
    let mut harness = leased(1);
    harness.write(0, 2);
    let (started, write) = (harness.now, appends(harness.take_commands(0)));
    harness.now += Duration::from_millis(300);
    harness.deliver(0, &write[0]);
    assert_eq!(harness.replicas[0].lease().expect("leads").until, started + Config::default().lease_duration);
    harness.now = started + Config::default().lease_duration;
    read(&mut harness, 1);
    assert!(indexes(&harness).is_empty());
    assert_eq!(appends(harness.take_commands(0)).len(), 1, "a barrier");
}

#[test]
fn a_leader_that_names_a_successor_has_no_lease() {
    let mut harness = leased(2);
    harness.replicas[0]
        .transfer_leadership(harness.now, ReplicaId { member: 2, incarnation: 1 })
        .expect("leads");
    let last = appends(harness.take_commands(0));
    assert_eq!(harness.replicas[0].lease(), None);
    read(&mut harness, 1);
    harness.deliver(0, &last[0]);
    assert!(indexes(&harness).is_empty());
    assert!(harness.events[0].contains(&ReplicaEvent::ReadIndexLost { reads: vec![ReadId(1)] }));
}

#[test]
fn a_new_epoch_begins_without_a_lease() {
    let mut harness = leased(1);
    harness.write(0, 2);
    harness.take_commands(0);
    // The write was lost: a new epoch decides.
    harness.pass(2500);
    assert!(harness.replicas[0].is_leader() && harness.tip(0).epoch.get() > 1);
    let lease = harness.replicas[0].lease().expect("nothing is in flight");
    assert!(lease.until <= harness.now + Config::default().lease_duration);
}

#[test]
fn no_other_replica_leads_before_twice_the_lease_duration() {
    let mut harness = leased(2);
    let lease = harness.replicas[0].lease().expect("nothing is in flight");
    harness.catch_up(1);
    while !harness.replicas[1].is_leader() {
        harness.tick(1, 10);
        harness.settle_one(1);
    }
    assert!(harness.now >= lease.until + Config::default().lease_duration);
}
