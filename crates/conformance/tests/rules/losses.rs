//! A log that breaks its contract is found out, and never followed.

use std::time::Duration;

use vetch_fence::{Author, Event, Index, Member, News, Page, Record, floor};
use vetch_journal::{Position, Tip};

use crate::play::Play;

/// A writer with some entries, which a follower has read.
fn written() -> Play {
    let mut play = Play::new(3, true);
    play.elect(0);
    (0..5).for_each(|value| {
        play.write(0, value);
        play.settle_one(0);
    });
    play.catch_up(1);
    play
}

#[test]
fn who_is_ahead_of_the_log_says_so_and_does_not_claim() {
    let mut play = written();
    // A log that takes everything: that nothing is appended is this server's own doing.
    play.log.checks_position = false;
    play.log.lose(3);
    let end = play.log.last();
    for _ in 0..1000 {
        play.tick(1, 10);
        play.settle_one(1);
    }
    assert!(play.members[1].is_suspect());
    assert!(play.events[1].contains(&Event::Suspect { read: Position(6), end }));
    assert_eq!(play.log.last(), end, "nothing was appended");
}

#[test]
fn a_log_that_seems_short_for_a_moment_is_no_reason_to_worry() {
    let mut play = written();
    for _ in 0..4 {
        let stale = play.log.read(Position(5), 10, 3);
        play.tell(1, News::Records(stale));
    }
    assert!(!play.members[1].is_suspect());
    play.write(0, 9);
    play.settle_one(0);
    // New records are told, without a word about the end.
    let pushed = play.log.read(play.members[1].view().position(), 10, 0);
    play.tell(1, News::Records(Page { end: None, ..pushed }));
    assert_eq!(play.tip(1), play.tip(0));
    // Since the log went on, an answer that was long on its way is the first sign, not the fifth.
    play.now += Duration::from_secs(6);
    let stale = play.log.read(Position(5), 10, 3);
    play.tell(1, News::Records(stale));
    assert!(!play.members[1].is_suspect());
}

#[test]
fn a_lost_tail_that_was_filled_again_halts_everybody_who_knew_it() {
    let mut play = written();
    play.log.lose(6);
    play.elect(2);
    (0..8).for_each(|value| {
        play.write(2, value);
        play.settle_one(2);
    });
    play.catch_up(1);
    assert!(play.halted(1) && play.members[1].is_stopped());
    let write = play.write(0, 9);
    for _ in 0..50 {
        play.settle_one(0);
        play.tick(0, 20);
    }
    assert!(play.halted(0) && !play.committed(0, write));
    assert!(!play.halted(2));
}

#[test]
fn a_writer_whose_record_is_put_where_another_one_was_halts() {
    let mut play = written();
    play.log.checks_position = false;
    play.log.lose(2);
    let write = play.write(0, 9);
    play.settle_one(0);
    assert!(play.halted(0) && !play.committed(0, write));
}

#[test]
fn after_a_reconnect_the_last_record_is_compared_before_new_ones_are_believed() {
    let mut play = written();
    let position = play.members[1].view().position();
    play.write(0, 9);
    play.settle_one(0);
    play.tell(1, News::Reconnected);
    let pushed = play.log.read(position, 10, 0);
    play.tell(1, News::Records(Page { end: None, ..pushed }));
    assert_eq!(play.members[1].view().position(), position, "not yet");
    play.settle_one(1);
    assert_eq!(play.tip(1), play.tip(0));
}

#[test]
fn a_writer_whose_answer_came_in_pieces_after_a_reconnect_asks_again() {
    let mut play = written();
    play.tell(0, News::Reconnected);
    play.take(0);
    let whole = play.log.read(Position(0), 100, 0);
    for record in &whole.records {
        let end = whole.end.filter(|end| *end == record.0);
        play.tell(0, News::Records(Page { records: vec![record.clone()], first: whole.first, end }));
    }
    assert!(!play.members[0].is_leading(), "no piece of it shows that the log is the same");
    for _ in 0..500 {
        play.tick(0, 10);
        play.settle_one(0);
    }
    assert!(play.members[0].is_leading(), "{:?}", play.events[0]);
}

#[test]
fn a_restart_compares_the_log_with_its_checkpoint() {
    let mut play = written();
    let start = play.members[1].view().index();
    play.log.lose(6);
    play.elect(2);
    (0..8).for_each(|value| {
        play.write(2, value);
        play.settle_one(2);
    });
    play.members[1] = Member::new(Default::default(), Author { node: 2, life: 2 }, start, play.now);
    play.settle_one(1);
    assert!(play.halted(1));
}

#[test]
fn a_claim_built_on_entries_that_are_gone_halts_whoever_reads_it() {
    let mut play = written();
    let claim = vetch_fence::claim(Author { node: 9, life: 1 }, play.tip(0));
    play.log.lose(2);
    play.log.append(play.log.last(), vetch_fence::join(&[claim]));
    play.catch_up(2);
    assert!(play.halted(2));
}

#[test]
fn damage_halts_with_the_position() {
    let mut play = written();
    play.log.append(play.log.last(), bytes::Bytes::from_static(b"nonsense"));
    play.catch_up(2);
    let told = play.events[2].iter().find_map(|event| match event {
        Event::Halted(divergence) => Some(divergence.to_string()),
        _ => None,
    });
    assert!(told.expect("it halts").starts_with("position 7 of the log is damaged"));
    assert!(Record::decode(&bytes::Bytes::new()).is_err());
}

#[test]
fn who_is_behind_the_trim_is_told_to_take_a_checkpoint() {
    let mut play = written();
    play.log.trim(Position(4));
    play.catch_up(2);
    assert!(play.events[2].contains(&Event::Behind { first: Position(4) }));
    let start = play.members[1].view().index();
    play.members[2] = Member::new(Default::default(), Author { node: 3, life: 2 }, start, play.now);
    play.settle_one(2);
    assert_eq!(play.tip(2), play.tip(0));
}

#[test]
fn a_trim_needs_checkpoints_of_a_majority_that_agree() {
    let at = |position: u64, mark: u8| Index {
        position: Position(position),
        tip: Tip { epoch: 1, seq: position, hash: [mark; 32], next_rev: 2 },
    };
    assert_eq!(floor(3, &[(1, at(50, 1))]), Ok(None));
    assert_eq!(floor(3, &[(1, at(50, 1)), (2, at(30, 2))]), Ok(Some(Position(30))));
    assert_eq!(floor(3, &[(1, at(50, 1)), (2, at(30, 2)), (3, at(40, 3))]), Ok(Some(Position(40))));
    assert_eq!(floor(4, &[(1, at(50, 1)), (2, at(30, 2))]), Ok(None));
    assert_eq!(floor(1, &[(1, at(50, 1))]), Ok(Some(Position(50))));
    let error = floor(3, &[(1, at(50, 1)), (2, at(50, 2))]).expect_err("two states at one place");
    assert_eq!((error.one, error.other, error.seq), (1, 2, 50));
}
