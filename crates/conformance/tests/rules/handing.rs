//! A writer that names its successor.

use vetch_fence::{Author, Event, ReadId, Refusal};

use crate::play::{Play, appends};

fn author(who: usize) -> Author {
    Author { node: who as u64 + 1, life: 1 }
}

fn handed_over(play: &Play, who: usize) -> bool {
    play.events[who].contains(&Event::HandedOver)
}

#[test]
fn whoever_is_named_writes_without_any_time_passing() {
    let mut play = Play::new(3, true);
    play.elect(0);
    let before = play.write(0, 1);
    let ticket = play.members[0].hand_over(play.now, author(2)).expect("leads");
    play.settle_one(0);
    assert!(play.committed(0, before) && play.committed(0, ticket));
    assert!(handed_over(&play, 0) && !play.members[0].is_leading());
    play.catch_up(1);
    play.catch_up(2);
    play.settle();
    assert!(play.members[2].is_leading() && !play.members[1].is_leading());
    play.catch_up(0);
    assert_eq!(play.tip(0).epoch, 2);
    let after = play.write(2, 2);
    play.settle_one(2);
    assert!(play.committed(2, after));
}

#[test]
fn nothing_is_started_behind_a_hand_over() {
    let mut play = Play::new(2, true);
    play.elect(0);
    play.members[0].hand_over(play.now, author(1)).expect("leads");
    let last = appends(play.take(0));
    assert_eq!(play.members[0].hand_over(play.now, author(1)), Err(Refusal::Busy));
    let chained = vetch_journal::Draft::new(vetch_journal::Kind::Barrier).chain(&mut play.members[0].head());
    assert_eq!(play.members[0].propose(play.now, &[chained]), Err(Refusal::Busy));
    play.members[0].read_index(play.now, ReadId(1)).expect("it may still stay the writer");
    play.tick(0, 300);
    assert!(appends(play.take(0)).is_empty(), "neither a barrier nor a heartbeat");
    play.deliver(0, &last[0]);
    assert!(handed_over(&play, 0));
    assert!(play.events[0].contains(&Event::IndexLost { reads: vec![ReadId(1)] }));
}

#[test]
fn a_successor_that_is_gone_costs_no_more_than_a_silent_writer() {
    let mut play = Play::new(3, true);
    play.elect(0);
    let gone = Author { node: 2, life: 7 };
    play.members[0].hand_over(play.now, gone).expect("leads");
    play.settle_one(0);
    (1..3).for_each(|who| play.catch_up(who));
    play.settle();
    assert!(play.members.iter().all(|member| !member.is_leading()), "another life is not meant");
    play.pass(2200);
    assert_eq!(play.members.iter().filter(|member| member.is_leading()).count(), 1);
}

#[test]
fn a_hand_over_that_is_void_leaves_the_writer_in_its_place() {
    let mut play = Play::new(2, true);
    play.elect(0);
    let ticket = play.members[0].hand_over(play.now, author(1)).expect("leads");
    let lost = appends(play.take(0));
    play.pass(6000);
    assert!(play.void(0, ticket) && !handed_over(&play, 0));
    assert!(play.members[0].is_leading());
    // It arrives after all, and means nothing any more.
    play.deliver(0, &lost[0]);
    play.catch_up(1);
    play.settle();
    assert!(play.members[0].is_leading() && !play.members[1].is_leading());
    let write = play.write(0, 1);
    play.settle_one(0);
    assert!(play.committed(0, write));
}
