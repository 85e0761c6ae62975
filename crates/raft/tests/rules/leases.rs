//! Leases, and the votes that they rest on.

use vetch_base::Epoch;
use vetch_cluster::{Event, ReadId};
use vetch_raft::{Action, Body, MemberChange, Message, Place, Vote};

use super::group::{Group, beginning, member, ms};

#[test]
fn a_lease_counts_from_when_the_heartbeat_was_sent() {
    let (mut group, leader) = Group::led(&[1, 2, 3]);
    group.pass(ms(100));
    let sent = group.now;
    group.now += ms(50);
    group.settle();
    let now = group.now;
    let lease = group.core(leader).lease().unwrap();
    assert_eq!(lease.until, sent + ms(333));
    assert!(group.core(leader).has_lease(now) && !group.core(leader).has_lease(sent + ms(333)));
}

#[test]
fn a_read_without_a_lease_waits_for_a_majority() {
    let (mut group, leader) = Group::led(&[1, 2, 3]);
    group.now += ms(5000);
    let now = group.now;
    group.core(leader).read_index(now, ReadId(7)).unwrap();
    group.collect();
    let has_index =
        |group: &Group| group.events[&leader].iter().any(|event| matches!(event, Event::ReadIndex { .. }));
    assert!(!has_index(&group));
    group.settle();
    assert!(has_index(&group));
}

#[test]
fn a_leadership_transfer_ends_the_lease_of_the_epoch() {
    let (mut group, leader) = Group::led(&[1, 2, 3]);
    group.pass(ms(100));
    group.settle();
    let now = group.now;
    assert!(group.core(leader).has_lease(now));
    let to = if leader == 1 { 2 } else { 1 };
    group.core(leader).transfer_leadership(now, to).unwrap();
    assert!(!group.core(leader).has_lease(now));
    group.collect();
    // The target never hears of it. The transfer is given up, but no lease begins.
    for _ in 0..15 {
        group.pass(ms(100));
        group.deliver(|message| !matches!(message.body, Body::CampaignNow));
        group.settle();
    }
    let now = group.now;
    assert!(group.core(leader).is_leader() && group.core(leader).may_propose());
    assert!(!group.core(leader).has_lease(now));
}

/// Whether a member gives a pre-vote that is asked for now.
fn gives_a_vote(group: &mut Group, id: u64, forced: bool) -> bool {
    group.messages.clear();
    let head = group.core(id).head();
    let term = Epoch::new(group.core(id).term().get() + 1);
    let last = Place { seq: head.seq, epoch: head.epoch };
    let body = Body::Campaign { pre: !forced, forced, last, commit: Place::default() };
    let (now, from) = (group.now, if id == 1 { 2 } else { 1 });
    group.core(id).receive(now, Message { from, to: id, term, body }).expect("nothing to refuse");
    group.collect();
    group.sync(id);
    group.sends(id, |body| matches!(body, Body::Vote { granted: true, .. }))
}

#[test]
fn a_restarted_member_gives_no_vote_for_an_election_timeout() {
    let mut group = Group::new(&[1, 2, 3]);
    let vote = Vote { term: Epoch::new(4), member: 3 };
    group.cores.insert(1, member(1, beginning(&[1, 2, 3]), vote, Vec::new(), ms(0)));
    group.now = ms(999);
    assert!(!gives_a_vote(&mut group, 1, false));
    group.now = ms(1000);
    assert!(gives_a_vote(&mut group, 1, false));
}

#[test]
fn a_member_that_hears_of_a_higher_term_still_keeps_its_promise() {
    let (mut group, leader) = Group::led(&[1, 2, 3]);
    group.pass(ms(100));
    group.settle();
    let follower = if leader == 1 { 2 } else { 1 };
    let term = Epoch::new(group.core(follower).term().get() + 5);
    let body = Body::Vote { pre: true, granted: false, commit: Place::default() };
    let (now, from) = (group.now, 6 - leader - follower);
    group.core(follower).receive(now, Message { from, to: follower, term, body }).unwrap();
    assert_eq!(group.core(follower).leader(), None, "the crate has forgotten the leader");
    assert!(!gives_a_vote(&mut group, follower, false));
    group.now += ms(1000);
    assert!(gives_a_vote(&mut group, follower, false));
}

#[test]
fn the_target_of_a_transfer_need_not_wait() {
    let (mut group, leader) = Group::led(&[1, 2, 3]);
    group.pass(ms(100));
    group.settle();
    let follower = if leader == 1 { 2 } else { 1 };
    assert!(gives_a_vote(&mut group, follower, true));
}

#[test]
fn a_learner_confirms_no_lease() {
    let (mut group, leader) = Group::led(&[1, 2, 3]);
    let now = group.now;
    let learner = MemberChange { member: 9, action: Action::Learner };
    group.core(leader).propose_members(now, learner, b"").unwrap();
    group.collect();
    group.settle();
    assert!(group.core(leader).members().learners().contains(&9));
    group.now += ms(5000);
    group.pass(ms(100));
    let heartbeat = |to: u64, group: &Group| {
        let is_it = |message: &&Message| message.to == to && matches!(message.body, Body::Heartbeat { .. });
        group.messages.iter().find(is_it).cloned().unwrap()
    };
    for (to, confirms) in [(9, false), (if leader == 1 { 2 } else { 1 }, true)] {
        let sent = heartbeat(to, &group);
        let Body::Heartbeat { commit, beat } = sent.body else { panic!("a heartbeat") };
        let body = Body::HeartbeatAnswer { commit, beat };
        let now = group.now;
        group.core(leader).receive(now, Message { from: to, to: leader, term: sent.term, body }).unwrap();
        assert_eq!(group.core(leader).has_lease(now), confirms);
    }
}

#[test]
fn a_transfer_of_an_earlier_term_is_ignored() {
    let (mut group, leader) = Group::led(&[1, 2, 3]);
    let follower = if leader == 1 { 2 } else { 1 };
    let (now, term) = (group.now, group.core(follower).term());
    for (term, campaigns) in [(Epoch::new(term.get() - 1), false), (term, true)] {
        let message = Message { from: leader, to: follower, term, body: Body::CampaignNow };
        group.core(follower).receive(now, message).unwrap();
        group.collect();
        group.sync(follower);
        assert_eq!(
            group.sends(follower, |body| matches!(body, Body::Campaign { forced: true, .. })),
            campaigns
        );
    }
}
