//! Reads that must not be stale.

use vetch_fence::{Event, Index, ReadId};

use crate::play::{Play, appends};

fn indexes(play: &Play, who: usize) -> Vec<(Vec<ReadId>, Index)> {
    let given = |event: &Event| match event {
        Event::Index { reads, index } => Some((reads.clone(), *index)),
        _ => None,
    };
    play.events[who].iter().filter_map(given).collect()
}

#[test]
fn one_barrier_serves_all_reads_that_wait_and_takes_no_revision() {
    let mut play = Play::new(1, true);
    play.elect(0);
    let revision = play.tip(0).next_rev;
    play.members[0].read_index(play.now, ReadId(1)).expect("leads");
    let first = appends(play.take(0));
    assert_eq!(first.len(), 1);
    for read in 2..100 {
        play.members[0].read_index(play.now, ReadId(read)).expect("leads");
    }
    assert!(appends(play.take(0)).is_empty(), "one barrier at a time");
    play.deliver(0, &first[0]);
    play.settle();
    let given = indexes(&play, 0);
    assert_eq!(given.len(), 2);
    assert_eq!((given[0].0.len(), given[1].0.len()), (1, 98));
    assert_eq!(play.tip(0).next_rev, revision);
}

#[test]
fn a_read_does_not_ride_on_an_append_that_was_under_way_when_it_asked() {
    let mut play = Play::new(1, true);
    play.elect(0);
    play.write(0, 1);
    let write = appends(play.take(0));
    play.members[0].read_index(play.now, ReadId(1)).expect("leads");
    let barrier = appends(play.take(0));
    play.deliver(0, &write[0]);
    assert!(indexes(&play, 0).is_empty());
    play.deliver(0, &barrier[0]);
    assert_eq!(indexes(&play, 0)[0].1.tip.seq, 3);
}

#[test]
fn a_follower_answers_once_it_has_come_to_the_index() {
    let mut play = Play::new(2, true);
    play.elect(0);
    play.members[0].read_index(play.now, ReadId(1)).expect("leads");
    play.settle_one(0);
    let index = indexes(&play, 0)[0].1;
    assert!(!play.members[1].reached(&index));
    play.catch_up(1);
    assert!(play.members[1].reached(&index));
}

#[test]
fn a_follower_of_another_history_halts_instead_of_answering() {
    let mut one = Play::new(2, true);
    one.elect(0);
    let mut other = Play::new(2, true);
    other.elect(1);
    one.members[0].read_index(one.now, ReadId(1)).expect("leads");
    one.settle_one(0);
    let index = indexes(&one, 0)[0].1;
    other.write(1, 1);
    other.settle_one(1);
    assert!(!other.members[1].reached(&index));
    other.events[1] = other.members[1].take_events();
    assert!(other.halted(1));
}
