//! Reads by a lease: nothing is asked of the log, and none of them is stale.

use std::time::Duration;

use vetch_fence::{Author, Config, Event, ReadId};

use crate::play::{Play, appends};

/// A writer with a lease that began now.
fn leased(members: usize) -> Play {
    let mut play = Play::new(members, true);
    play.elect(0);
    play.write(0, 1);
    play.settle_one(0);
    play.events[0].clear();
    play
}

fn read(play: &mut Play, id: u64) {
    play.members[0].read_index(play.now, ReadId(id)).expect("leads");
}

/// Numbers of the entries that reads got as their index.
fn indexes(play: &Play) -> Vec<u64> {
    let given = |event: &Event| match event {
        Event::Index { index, .. } => Some(index.tip.seq),
        _ => None,
    };
    play.events[0].iter().filter_map(given).collect()
}

#[test]
fn with_a_lease_a_read_asks_nothing_of_the_log() {
    let mut play = leased(1);
    let lease = play.members[0].lease().expect("nothing is under way");
    assert_eq!(lease.index.tip, play.tip(0));
    assert_eq!(lease.until, play.now + Config::default().lease);
    read(&mut play, 1);
    assert!(appends(play.take(0)).is_empty());
    assert_eq!(indexes(&play), [play.tip(0).seq]);
}

#[test]
fn a_read_waits_for_what_is_under_way_because_others_may_have_read_it() {
    let mut play = leased(1);
    play.write(0, 2);
    let write = appends(play.take(0));
    assert_eq!(play.members[0].lease(), None);
    read(&mut play, 1);
    assert!(appends(play.take(0)).is_empty(), "but it needs no barrier of its own");
    assert!(indexes(&play).is_empty());
    play.deliver(0, &write[0]);
    assert_eq!(indexes(&play), [play.tip(0).seq]);
}

#[test]
fn a_lease_counts_from_the_start_of_an_append_and_ends() {
    let mut play = leased(1);
    play.write(0, 2);
    let (started, write) = (play.now, appends(play.take(0)));
    play.now += Duration::from_millis(300);
    play.deliver(0, &write[0]);
    assert_eq!(play.members[0].lease().expect("leads").until, started + Config::default().lease);
    play.now = started + Config::default().lease;
    read(&mut play, 1);
    assert!(indexes(&play).is_empty());
    assert_eq!(appends(play.take(0)).len(), 1, "a barrier");
}

#[test]
fn who_names_a_successor_has_no_lease_any_more() {
    let mut play = leased(2);
    play.members[0].hand_over(play.now, Author { node: 2, life: 1 }).expect("leads");
    let last = appends(play.take(0));
    assert_eq!(play.members[0].lease(), None);
    read(&mut play, 1);
    play.deliver(0, &last[0]);
    assert!(indexes(&play).is_empty());
    assert!(play.events[0].contains(&Event::IndexLost { reads: vec![ReadId(1)] }));
}

#[test]
fn an_epoch_of_its_own_begins_without_a_lease() {
    let mut play = leased(1);
    play.write(0, 2);
    play.take(0);
    // The write was lost: an own epoch decides.
    play.pass(2500);
    assert!(play.members[0].is_leading() && play.tip(0).epoch > 1);
    let lease = play.members[0].lease().expect("nothing is under way");
    assert!(lease.until <= play.now + Config::default().lease);
}

#[test]
fn nobody_else_writes_before_twice_the_time_of_a_lease() {
    let mut play = leased(2);
    let lease = play.members[0].lease().expect("nothing is under way");
    play.catch_up(1);
    while !play.members[1].is_leading() {
        play.tick(1, 10);
        play.settle_one(1);
    }
    assert!(play.now >= lease.until + Config::default().lease);
}
