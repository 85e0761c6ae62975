//! A log that breaks its contract is noticed, and never followed.

use std::time::Duration;

use vetch_base::{Epoch, Seq};
use vetch_cluster::{LogEvent, LogIndex, Page, Record, Replica, ReplicaEvent, ReplicaId, trim_floor};
use vetch_journal::{Position, Tip};

use crate::harness::Harness;

/// A leader with some entries, which a follower has read.
fn written() -> Harness {
    let mut harness = Harness::new(3, true);
    harness.elect(0);
    (0..5).for_each(|value| {
        harness.write(0, value);
        harness.settle_one(0);
    });
    harness.catch_up(1);
    harness
}

#[test]
fn a_replica_ahead_of_the_log_reports_it_and_does_not_campaign() {
    let mut harness = written();
    // This log takes every append, so if nothing is appended the replica did not try.
    harness.log.checks_position = false;
    harness.log.lose(3);
    let end = harness.log.last();
    for _ in 0..1000 {
        harness.tick(1, 10);
        harness.settle_one(1);
    }
    assert!(harness.replicas[1].is_suspect());
    assert!(harness.events[1].contains(&ReplicaEvent::Suspect { read: Position(6), end }));
    assert_eq!(harness.log.last(), end, "nothing was appended");
}

#[test]
fn a_log_that_seems_short_for_a_moment_is_not_suspect() {
    let mut harness = written();
    for _ in 0..4 {
        let stale = harness.log.read(Position(5), 10, 3);
        harness.handle(1, LogEvent::Records(stale));
    }
    assert!(!harness.replicas[1].is_suspect());
    harness.write(0, 9);
    harness.settle_one(0);
    // New records are pushed, without the end of the log.
    let pushed = harness.log.read(harness.replicas[1].log_state().position(), 10, 0);
    harness.handle(1, LogEvent::Records(Page { end: None, ..pushed }));
    assert_eq!(harness.tip(1), harness.tip(0));
    // The log has grown since, so this late answer is the first sign, not the fifth.
    harness.now += Duration::from_secs(6);
    let stale = harness.log.read(Position(5), 10, 3);
    harness.handle(1, LogEvent::Records(stale));
    assert!(!harness.replicas[1].is_suspect());
}

#[test]
fn a_lost_tail_that_was_overwritten_halts_replicas_that_read_it() {
    let mut harness = written();
    harness.log.lose(6);
    harness.elect(2);
    (0..8).for_each(|value| {
        harness.write(2, value);
        harness.settle_one(2);
    });
    harness.catch_up(1);
    assert!(harness.halted(1) && harness.replicas[1].is_stopped());
    let write = harness.write(0, 9);
    for _ in 0..50 {
        harness.settle_one(0);
        harness.tick(0, 20);
    }
    assert!(harness.halted(0) && !harness.committed(0, write));
    assert!(!harness.halted(2));
}

#[test]
fn a_leader_whose_record_overwrites_another_halts() {
    let mut harness = written();
    harness.log.checks_position = false;
    harness.log.lose(2);
    let write = harness.write(0, 9);
    harness.settle_one(0);
    assert!(harness.halted(0) && !harness.committed(0, write));
}

#[test]
fn after_a_reconnect_the_last_record_is_verified_before_new_ones_are_read() {
    let mut harness = written();
    let position = harness.replicas[1].log_state().position();
    harness.write(0, 9);
    harness.settle_one(0);
    harness.handle(1, LogEvent::Reconnected);
    let pushed = harness.log.read(position, 10, 0);
    harness.handle(1, LogEvent::Records(Page { end: None, ..pushed }));
    assert_eq!(harness.replicas[1].log_state().position(), position, "not yet");
    harness.settle_one(1);
    assert_eq!(harness.tip(1), harness.tip(0));
}

#[test]
fn a_leader_whose_answer_came_in_pieces_after_a_reconnect_reads_again() {
    let mut harness = written();
    harness.handle(0, LogEvent::Reconnected);
    harness.take_commands(0);
    let whole = harness.log.read(Position(0), 100, 0);
    for record in &whole.records {
        let end = whole.end.filter(|end| *end == record.0);
        harness.handle(0, LogEvent::Records(Page { records: vec![record.clone()], first: whole.first, end }));
    }
    assert!(!harness.replicas[0].is_leader(), "no piece verifies the log");
    for _ in 0..500 {
        harness.tick(0, 10);
        harness.settle_one(0);
    }
    assert!(harness.replicas[0].is_leader(), "{:?}", harness.events[0]);
}

#[test]
fn a_restart_compares_the_log_with_its_checkpoint() {
    let mut harness = written();
    let start = harness.replicas[1].log_state().index();
    harness.log.lose(6);
    harness.elect(2);
    (0..8).for_each(|value| {
        harness.write(2, value);
        harness.settle_one(2);
    });
    harness.replicas[1] =
        Replica::new(Default::default(), ReplicaId { member: 2, incarnation: 2 }, start, harness.now);
    harness.settle_one(1);
    assert!(harness.halted(1));
}

#[test]
fn a_new_epoch_built_on_lost_entries_halts_its_readers() {
    let mut harness = written();
    let entry = vetch_cluster::new_epoch(ReplicaId { member: 9, incarnation: 1 }, harness.tip(0));
    harness.log.lose(2);
    harness.log.append(harness.log.last(), vetch_cluster::join(&[entry]));
    harness.catch_up(2);
    assert!(harness.halted(2));
}

#[test]
fn damage_halts_with_the_position() {
    let mut harness = written();
    harness.log.append(harness.log.last(), bytes::Bytes::from_static(b"nonsense"));
    harness.catch_up(2);
    let cause = harness.events[2].iter().find_map(|event| match event {
        ReplicaEvent::Halted(divergence) => Some(divergence.to_string()),
        _ => None,
    });
    assert!(cause.expect("it halts").starts_with("position 7 of the log is damaged"));
    assert!(Record::decode(&bytes::Bytes::new()).is_err());
}

#[test]
fn a_replica_behind_the_trim_needs_a_checkpoint() {
    let mut harness = written();
    harness.log.trim(Position(4));
    harness.catch_up(2);
    assert!(harness.events[2].contains(&ReplicaEvent::Behind { first: Position(4) }));
    let start = harness.replicas[1].log_state().index();
    harness.replicas[2] =
        Replica::new(Default::default(), ReplicaId { member: 3, incarnation: 2 }, start, harness.now);
    harness.settle_one(2);
    assert_eq!(harness.tip(2), harness.tip(0));
}

#[test]
fn a_trim_needs_checkpoints_of_a_majority_that_agree() {
    let at = |position: u64, mark: u8| LogIndex {
        position: Position(position),
        tip: Tip { epoch: Epoch::new(1), seq: Seq::new(position), hash: [mark; 32], next_rev: 2 },
    };
    assert_eq!(trim_floor(3, &[(1, at(50, 1))]), Ok(None));
    assert_eq!(trim_floor(3, &[(1, at(50, 1)), (2, at(30, 2))]), Ok(Some(Position(30))));
    assert_eq!(trim_floor(3, &[(1, at(50, 1)), (2, at(30, 2)), (3, at(40, 3))]), Ok(Some(Position(40))));
    assert_eq!(trim_floor(4, &[(1, at(50, 1)), (2, at(30, 2))]), Ok(None));
    assert_eq!(trim_floor(1, &[(1, at(50, 1))]), Ok(Some(Position(50))));
    let error = trim_floor(3, &[(1, at(50, 1)), (2, at(50, 2))]).expect_err("two states at one place");
    assert_eq!((error.one, error.other, error.seq.get()), (1, 2, 50));
}
