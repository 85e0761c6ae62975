//! A log that begins behind a checkpoint instead of with the first entry.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use vetch_base::{Epoch, Seq};
use vetch_cluster::{
    CheckpointMatch, Config, LogIndex, PeekError, Replica, ReplicaEvent, ReplicaId, bounds, match_checkpoint,
    seed, seed_log,
};
use vetch_journal::{Position, Tip};
use vetch_testkit::log::handle::ModelHandle;
use vetch_testkit::log::model::ModelLog;

use crate::harness::Harness;

const TIMEOUT: Duration = Duration::from_millis(300);

fn tip() -> Tip {
    Tip { epoch: Epoch::new(7), seq: Seq::new(40), hash: [3; 32], next_rev: 1000 }
}

fn handle() -> ModelHandle {
    ModelHandle::new(Arc::new(Mutex::new(ModelLog::new(true))))
}

#[test]
fn a_seeded_log_goes_on_behind_its_checkpoint() {
    let mut harness = Harness::new(0, true);
    let seeded = seed(tip());
    harness.log.append(Position(0), seeded.bytes().clone());
    let start = LogIndex { position: Position(1), tip: *seeded.after() };
    harness.replicas.push(Replica::new(
        Config::default(),
        ReplicaId { member: 1, incarnation: 1 },
        start,
        harness.now,
    ));
    harness.events.push(Vec::new());
    harness.settle();
    harness.elect(0);
    let ticket = harness.write(0, 1);
    harness.settle();
    assert!(harness.committed(0, ticket));
    let after = harness.tip(0);
    assert!(after.epoch.get() > 7 && after.seq.get() > 41, "{after:?}");
    assert_eq!(after.next_rev, 1001, "no revision is used again");
}

#[test]
fn an_empty_replica_needs_a_checkpoint_and_one_of_another_history_halts() {
    let mut harness = Harness::new(0, true);
    let seeded = seed(tip());
    harness.log.append(Position(0), seeded.bytes().clone());
    let other = Tip { hash: [9; 32], ..*seeded.after() };
    let starts = [(Position(0), Tip::genesis(2)), (Position(1), other)];
    for (node, (position, tip)) in starts.into_iter().enumerate() {
        let me = ReplicaId { member: node as u64 + 1, incarnation: 1 };
        harness.replicas.push(Replica::new(Config::default(), me, LogIndex { position, tip }, harness.now));
        harness.events.push(Vec::new());
    }
    harness.settle();
    assert!(
        matches!(harness.events[0][..], [ReplicaEvent::Behind { first: Position(1) }]),
        "{:?}",
        harness.events[0]
    );
    assert!(harness.halted(1), "{:?}", harness.events[1]);
}

#[test]
fn only_an_empty_log_is_seeded_and_seeding_is_idempotent() {
    let mut log = handle();
    let index = seed_log(&mut log, tip(), TIMEOUT).unwrap();
    assert_eq!((index.position, index.tip.epoch.get(), index.tip.seq.get()), (Position(1), 8, 41));
    assert_eq!(seed_log(&mut log, tip(), TIMEOUT).unwrap(), index);
    assert_eq!(bounds(&mut log, TIMEOUT).unwrap(), (Position(1), Position(1)));
    let other = Tip { seq: Seq::new(41), ..tip() };
    assert_eq!(seed_log(&mut log, other, TIMEOUT), Err(PeekError::NotEmpty(1)));
}

#[test]
fn a_log_is_compared_with_a_checkpoint() {
    let mut harness = Harness::new(1, true);
    harness.elect(0);
    for value in 0..5 {
        harness.write(0, value);
        harness.settle();
    }
    let index = harness.replicas[0].log_state().index();
    let mut log = ModelHandle::new(Arc::new(Mutex::new(harness.log)));
    assert_eq!(match_checkpoint(&mut log, &index, TIMEOUT), Ok(CheckpointMatch::Matches));
    let other = LogIndex { tip: Tip { hash: [9; 32], ..index.tip }, ..index };
    assert_eq!(match_checkpoint(&mut log, &other, TIMEOUT), Ok(CheckpointMatch::Differs));
    let beyond = LogIndex { position: Position(index.position.0 + 1), ..index };
    assert_eq!(match_checkpoint(&mut log, &beyond, TIMEOUT), Ok(CheckpointMatch::Differs));
    let early = LogIndex { position: Position(1), ..index };
    vetch_cluster::Log::trim(&mut log, Position(3)).unwrap();
    assert_eq!(match_checkpoint(&mut log, &early, TIMEOUT), Ok(CheckpointMatch::Trimmed));
}
