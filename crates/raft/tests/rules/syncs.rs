//! What waits for a disk, and what does not.

use vetch_base::{Epoch, Seq};
use vetch_raft::{Action, Body, MemberChange, Vote, members_draft};

use super::group::{Group, beginning, member, ms};

#[test]
fn a_leader_sends_at_once_and_counts_itself_only_when_synced() {
    let (mut group, leader) = Group::led(&[1, 2, 3]);
    let ticket = group.propose(leader, b"a");
    assert!(group.sends(leader, |body| matches!(body, Body::Append { .. })));
    for _ in 0..3 {
        group.deliver(|_| true);
        [1, 2, 3].into_iter().filter(|id| *id != leader).for_each(|id| group.sync(id));
    }
    assert!(!group.is_committed(leader, ticket), "both followers have it, but the leader has not");
    group.sync(leader);
    assert!(group.is_committed(leader, ticket));
}

#[test]
fn a_leader_alone_is_no_majority() {
    let (mut group, leader) = Group::led(&[1, 2, 3]);
    let ticket = group.propose(leader, b"a");
    group.sync(leader);
    group.deliver(|_| false);
    assert!(!group.is_committed(leader, ticket));
    group.pass(ms(100));
    group.settle();
    group.pass(ms(100));
    group.settle();
    assert!(group.is_committed(leader, ticket));
}

#[test]
fn a_follower_acknowledges_when_synced_and_answers_heartbeats_before() {
    let (mut group, leader) = Group::led(&[1, 2, 3]);
    let follower = if leader == 1 { 2 } else { 1 };
    group.propose(leader, b"a");
    group.deliver(|message| message.to == follower);
    group.pass(ms(100));
    group.deliver(|message| message.to == follower && matches!(message.body, Body::Heartbeat { .. }));
    assert!(
        group.messages.is_empty() || !group.sends(follower, |body| matches!(body, Body::Accepted { .. }))
    );
    group.pass(ms(100));
    let is_beat = |body: &Body| matches!(body, Body::Heartbeat { .. });
    let beat =
        group.messages.iter().find(|message| message.to == follower && is_beat(&message.body)).cloned();
    let now = group.now;
    group.messages.clear();
    group.core(follower).receive(now, beat.unwrap()).unwrap();
    group.collect();
    assert!(group.sends(follower, |body| matches!(body, Body::HeartbeatAnswer { .. })));
    assert!(!group.sends(follower, |body| matches!(body, Body::Accepted { .. })));
    group.sync(follower);
    assert!(group.sends(follower, |body| matches!(body, Body::Accepted { .. })));
}

#[test]
fn a_lone_voter_says_nothing_in_a_term_that_is_not_synced() {
    let (mut group, _) = Group::led(&[1]);
    let now = group.now;
    group.core(1).propose_members(now, MemberChange { member: 9, action: Action::Learner }, b"").unwrap();
    group.collect();
    group.settle();
    let (checkpoint, term) = (beginning(&[1]), group.core(1).term());
    let tail = {
        let mut tip = checkpoint.tip;
        let learner = [MemberChange { member: 9, action: Action::Learner }];
        vec![vetch_raft::LogEntry::from(&members_draft(&learner, b"").chain(&mut tip))]
    };
    // The change is known to be committed, because another one follows it.
    let mut tip = *tail[0].tip();
    let other = [MemberChange { member: 8, action: Action::Learner }];
    let tail = vec![tail[0].clone(), (&members_draft(&other, b"").chain(&mut tip)).into()];
    group.cores.insert(1, member(1, checkpoint, Vote { term, member: 1 }, tail, group.now));
    group.messages.clear();
    group.writes.clear();
    for _ in 0..30 {
        group.pass(ms(100));
    }
    assert!(group.messages.is_empty(), "it leads, but it could forget its term");
    group.sync(1);
    assert!(group.sends(1, |body| matches!(body, Body::Append { .. } | Body::Heartbeat { .. })));
}

#[test]
fn all_changes_of_members_but_the_last_are_known_to_be_committed_at_a_start() {
    let checkpoint = beginning(&[1, 2, 3]);
    let mut tip = checkpoint.tip;
    let mut change = |member: u64| {
        let changes = [MemberChange { member, action: Action::Voter }];
        vetch_raft::LogEntry::from(&members_draft(&changes, b"").chain(&mut tip))
    };
    let tail = vec![change(4), change(5)];
    let core = member(1, checkpoint, Vote { term: Epoch::new(1), member: 0 }, tail, ms(0));
    assert_eq!(core.committed(), Seq::new(3));
    assert!(core.members().contains(4) && !core.members().contains(5));
}
