//! A log that goes on behind a checkpoint instead of beginning with the first entry.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use vetch_conformance::handle::ModelHandle;
use vetch_conformance::model::ModelLog;
use vetch_fence::{Author, Config, Event, GlanceError, Index, Member, Witness, end, seed, seed_log, witness};
use vetch_journal::{Position, Tip};

use crate::play::Play;

const PATIENCE: Duration = Duration::from_millis(300);

fn tip() -> Tip {
    Tip { epoch: 7, seq: 40, hash: [3; 32], next_rev: 1000 }
}

fn handle() -> ModelHandle {
    ModelHandle::new(Arc::new(Mutex::new(ModelLog::new(true))))
}

#[test]
fn a_seeded_log_goes_on_behind_its_checkpoint() {
    let mut play = Play::new(0, true);
    let seeded = seed(tip());
    play.log.append(Position(0), seeded.bytes().clone());
    let start = Index { position: Position(1), tip: *seeded.after() };
    play.members.push(Member::new(Config::default(), Author { node: 1, life: 1 }, start, play.now));
    play.events.push(Vec::new());
    play.settle();
    play.elect(0);
    let ticket = play.write(0, 1);
    play.settle();
    assert!(play.committed(0, ticket));
    let after = play.tip(0);
    assert!(after.epoch > 7 && after.seq > 41, "{after:?}");
    assert_eq!(after.next_rev, 1001, "no revision is used again");
}

#[test]
fn who_has_nothing_is_told_to_take_a_checkpoint_and_who_has_another_history_halts() {
    let mut play = Play::new(0, true);
    let seeded = seed(tip());
    play.log.append(Position(0), seeded.bytes().clone());
    let other = Tip { hash: [9; 32], ..*seeded.after() };
    let starts = [(Position(0), Tip::genesis(2)), (Position(1), other)];
    for (node, (position, tip)) in starts.into_iter().enumerate() {
        let me = Author { node: node as u64 + 1, life: 1 };
        play.members.push(Member::new(Config::default(), me, Index { position, tip }, play.now));
        play.events.push(Vec::new());
    }
    play.settle();
    assert!(matches!(play.events[0][..], [Event::Behind { first: Position(1) }]), "{:?}", play.events[0]);
    assert!(play.halted(1), "{:?}", play.events[1]);
}

#[test]
fn only_an_empty_log_is_seeded_and_twice_is_the_same_as_once() {
    let mut log = handle();
    let index = seed_log(&mut log, tip(), PATIENCE).unwrap();
    assert_eq!((index.position, index.tip.epoch, index.tip.seq), (Position(1), 8, 41));
    assert_eq!(seed_log(&mut log, tip(), PATIENCE).unwrap(), index);
    assert_eq!(end(&mut log, PATIENCE).unwrap(), (Position(1), Position(1)));
    let other = Tip { seq: 41, ..tip() };
    assert_eq!(seed_log(&mut log, other, PATIENCE), Err(GlanceError::NotEmpty(1)));
}

#[test]
fn a_log_bears_witness_of_what_it_holds() {
    let mut play = Play::new(1, true);
    play.elect(0);
    for value in 0..5 {
        play.write(0, value);
        play.settle();
    }
    let index = play.members[0].view().index();
    let mut log = ModelHandle::new(Arc::new(Mutex::new(play.log)));
    assert_eq!(witness(&mut log, &index, PATIENCE), Ok(Witness::Holds));
    let other = Index { tip: Tip { hash: [9; 32], ..index.tip }, ..index };
    assert_eq!(witness(&mut log, &other, PATIENCE), Ok(Witness::Differs));
    let beyond = Index { position: Position(index.position.0 + 1), ..index };
    assert_eq!(witness(&mut log, &beyond, PATIENCE), Ok(Witness::Differs));
    let early = Index { position: Position(1), ..index };
    vetch_fence::Log::trim(&mut log, Position(3)).unwrap();
    assert_eq!(witness(&mut log, &early, PATIENCE), Ok(Witness::Trimmed));
}
