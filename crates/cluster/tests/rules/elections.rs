//! Elections.

use vetch_cluster::{Command, Ignored, LogEvent, Replica, ReplicaEvent, ReplicaId};

use crate::harness::{Harness, appends};

#[test]
fn there_is_no_leader_until_the_election_timeout_and_then_one() {
    let mut harness = Harness::new(3, true);
    harness.pass(1400);
    assert!(harness.replicas.iter().all(|replica| !replica.is_leader()));
    harness.pass(1000);
    assert_eq!(harness.replicas.iter().filter(|replica| replica.is_leader()).count(), 1);
    harness.pass(5000);
    assert_eq!(harness.replicas[0].log_state().tip().epoch.get(), 1, "heartbeats prevent another election");
}

#[test]
fn a_candidate_reads_through_its_new_epoch_before_it_leads() {
    let mut harness = Harness::new(2, false);
    harness.elect(0);
    harness.catch_up(1);
    harness.replicas[1].campaign(harness.now);
    let read = harness.take_commands(1);
    harness.deliver(1, &read[0]);
    let appended = appends(harness.take_commands(1));
    // The old leader is faster, and this log does not check positions.
    let write = harness.write(0, 1);
    harness.settle_one(0);
    assert!(harness.committed(0, write));
    harness.deliver(1, &appended[0]);
    harness.settle_one(1);
    assert!(!harness.replicas[1].is_leader(), "its new-epoch entry was stored, but is ignored");
    assert_eq!(harness.ignored(1, Ignored::LostElection), 1);
    assert_eq!(harness.tip(1).seq.get(), 2);
}

#[test]
fn of_two_candidates_for_one_epoch_the_first_wins() {
    for checks_position in [true, false] {
        let mut harness = Harness::new(2, checks_position);
        harness.replicas.iter_mut().for_each(|replica| replica.campaign(harness.now));
        let reads = [harness.take_commands(0), harness.take_commands(1)];
        (0..2).for_each(|who| harness.deliver(who, &reads[who][0]));
        let appended = [appends(harness.take_commands(0)), appends(harness.take_commands(1))];
        harness.deliver(1, &appended[1][0]);
        harness.deliver(0, &appended[0][0]);
        harness.settle();
        harness.tick(0, 200);
        harness.settle_one(0);
        assert!(harness.replicas[1].is_leader() && !harness.replicas[0].is_leader());
        assert_eq!(harness.tip(0).epoch.get(), 1);
    }
}

#[test]
fn a_new_epoch_of_unknown_outcome_that_lands_late_elects_its_candidate() {
    let mut harness = Harness::new(2, true);
    harness.replicas[0].campaign(harness.now);
    harness.settle_one(1);
    let read = harness.take_commands(0);
    harness.deliver(0, &read[0]);
    let appended = appends(harness.take_commands(0));
    let Command::Append { ticket, .. } = appended[0] else { unreachable!() };
    harness.handle(0, LogEvent::Unknown { ticket, why: "no answer".into() });
    assert!(!harness.replicas[0].is_leader());
    // It arrives at the log long after the campaign failed.
    harness.execute(&appended[0]);
    harness.tick(0, 100);
    harness.settle_one(0);
    assert!(harness.replicas[0].is_leader());
    assert_eq!(harness.log.last().0, 1, "no second campaign was needed");
}

#[test]
fn a_new_epoch_of_an_earlier_incarnation_is_not_its_own() {
    let mut harness = Harness::new(1, true);
    harness.elect(0);
    let start = harness.replicas[0].log_state().index();
    let me = ReplicaId { member: 1, incarnation: 2 };
    harness.replicas[0] = Replica::new(Default::default(), me, start, harness.now);
    harness.settle();
    assert!(!harness.replicas[0].is_leader());
    harness.pass(2100);
    assert!(harness.replicas[0].is_leader());
    assert_eq!(harness.tip(0).epoch.get(), 2);
}

#[test]
fn a_leader_that_was_replaced_while_suspended_commits_nothing() {
    for checks_position in [true, false] {
        let mut harness = Harness::new(2, checks_position);
        harness.elect(0);
        harness.catch_up(1);
        harness.elect(1);
        let write = harness.write(0, 1);
        let read = vetch_cluster::ReadId(7);
        harness.replicas[0].read_index(harness.now, read).expect("it still takes itself for the leader");
        harness.settle_one(0);
        for _ in 0..20 {
            harness.tick(0, 20);
            harness.settle_one(0);
        }
        assert!(!harness.committed(0, write) && harness.dropped(0, write));
        assert!(!harness.replicas[0].is_leader());
        let lost = |event: &ReplicaEvent| matches!(event, ReplicaEvent::ReadIndexLost { reads } if reads.contains(&read));
        assert!(harness.events[0].iter().any(lost), "its read is sent to the new leader");
    }
}
