//! Messages that no sound member sends.

use vetch_base::{Epoch, Seq};
use vetch_cluster::{Divergence, Event};
use vetch_raft::{Beat, Body, Message, MessageError, Place};

use super::group::{Group, entry, ms};

/// A follower of a group that has committed something, and its leader.
fn follower() -> (Group, u64, u64) {
    let (mut group, leader) = Group::led(&[1, 2, 3]);
    group.propose(leader, b"a");
    group.settle();
    group.pass(ms(100));
    group.settle();
    (group, if leader == 1 { 2 } else { 1 }, leader)
}

fn halts(body: impl FnOnce(&Group, u64) -> Body) -> bool {
    let (mut group, follower, leader) = follower();
    let (term, now) = (group.core(follower).term(), group.now);
    let body = body(&group, follower);
    group
        .core(follower)
        .receive(now, Message { from: leader, to: follower, term, body })
        .expect("nothing to refuse");
    group.collect();
    let is_halted = group.core(follower).is_stopped();
    assert_eq!(is_halted, group.events[&follower].iter().any(|event| matches!(event, Event::Halted(_))));
    is_halted
}

#[test]
fn a_commit_of_entries_that_were_lost_halts() {
    assert!(halts(|_, _| Body::Heartbeat { commit: Seq::new(99), beat: Beat::default() }));
    assert!(!halts(|_, _| Body::Heartbeat { commit: Seq::new(2), beat: Beat::default() }));
}

#[test]
fn another_entry_than_the_committed_one_halts() {
    assert!(halts(|group, follower| {
        let head = group.cores[&follower].head();
        let after = Place { seq: head.seq, epoch: Epoch::new(head.epoch.get() - 1) };
        Body::Append { after, commit: Seq::ZERO, entries: Vec::new() }
    }));
}

#[test]
fn an_entry_that_does_not_name_the_last_one_halts() {
    let append = |group: &Group, follower: u64, wrong: bool| {
        let head = group.cores[&follower].head();
        let mut tip = head;
        tip.hash[0] ^= u8::from(wrong);
        let entries = vec![entry(&mut tip, b"b").bytes().clone()];
        Body::Append { after: Place { seq: head.seq, epoch: head.epoch }, commit: Seq::ZERO, entries }
    };
    assert!(halts(|group, follower| append(group, follower, true)));
    assert!(!halts(|group, follower| append(group, follower, false)));
}

#[test]
fn a_checkpoint_that_differs_from_what_is_committed_halts() {
    let checkpoint = |group: &Group, follower: u64, wrong: bool| {
        let core = &group.cores[&follower];
        let mut tip = core.applied();
        tip.hash[0] ^= u8::from(wrong);
        Body::Checkpoint { tip, members: core.members().clone() }
    };
    assert!(halts(|group, follower| checkpoint(group, follower, true)));
    assert!(!halts(|group, follower| checkpoint(group, follower, false)));
}

#[test]
fn impossible_messages_are_refused() {
    let (mut group, _, leader) = follower();
    let (now, head) = (group.now, group.core(leader).head());
    let other = if leader == 1 { 2 } else { 1 };
    let term = group.core(leader).term();
    let good = Message { from: other, to: leader, term, body: Body::CampaignNow };
    let mut refused = |message: Message| group.core(leader).receive(now, message).err();
    assert_eq!(refused(Message { to: 77, ..good.clone() }), Some(MessageError::Misrouted(77)));
    assert_eq!(refused(Message { term: Epoch::ZERO, ..good.clone() }), Some(MessageError::Head));
    assert_eq!(refused(Message { term: Epoch::MAX, ..good.clone() }), Some(MessageError::Head));
    assert_eq!(refused(Message { from: leader, ..good.clone() }), Some(MessageError::Head));
    let beyond = Body::Accepted { index: Seq::new(head.seq.get() + 1), commit: Seq::ZERO };
    assert_eq!(refused(Message { body: beyond, ..good.clone() }), Some(MessageError::BeyondEnd));
    let garbage = Body::Append {
        after: Place { seq: head.seq, epoch: head.epoch },
        commit: Seq::ZERO,
        entries: vec![bytes::Bytes::from_static(&[64; 64])],
    };
    assert!(matches!(refused(Message { body: garbage, ..good }), Some(MessageError::Entry(_))));
    assert!(!group.core(leader).is_stopped());
}

#[test]
fn a_follower_is_told_of_a_checkpoint_once_and_keeps_its_log() {
    let (mut group, follower, leader) = follower();
    let core = group.core(follower);
    let (head, term, mut tip) = (core.head(), core.term(), core.applied());
    tip.seq = Seq::new(500);
    let body = Body::Checkpoint { tip, members: core.members().clone() };
    let now = group.now;
    for _ in 0..2 {
        let message = Message { from: leader, to: follower, term, body: body.clone() };
        group.core(follower).receive(now, message).unwrap();
        group.collect();
    }
    let behind = group.events[&follower].iter().filter(|event| matches!(event, Event::Behind { .. }));
    assert_eq!(behind.count(), 1);
    assert_eq!(group.core(follower).head(), head);
}

#[test]
fn divergences_name_the_entry() {
    let (mut group, follower, leader) = follower();
    let (term, now) = (group.core(follower).term(), group.now);
    let body = Body::Heartbeat { commit: Seq::new(99), beat: Beat::default() };
    group.core(follower).receive(now, Message { from: leader, to: follower, term, body }).unwrap();
    group.collect();
    let halted = group.events[&follower].iter().find_map(|event| match event {
        Event::Halted(Divergence::Missing { at, .. }) => Some(*at),
        _ => None,
    });
    assert_eq!(halted, Some(99));
}
