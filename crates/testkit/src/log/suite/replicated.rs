//! The contract of `vetch_cluster::ReplicatedLog`, for groups of members on a simulated transport.

mod members;

use std::time::Duration;

use vetch_cluster::{Reached, ReadId, Refusal, ReplicaId};
use vetch_journal::Position;

use self::members::{Members, beginning};
use super::{Cut, ReplicatedGroup};

/// A case: its name, for how many members it is, and what it does.
type Case = (&'static str, usize, fn(&mut Members));

/// Runs every case on a group of as many members as it is made for.
pub fn check(mut make: impl FnMut(usize) -> Box<dyn ReplicatedGroup>) {
    for (name, count, run) in cases() {
        eprintln!("replicated: {name}");
        run(&mut Members::start(make(count), count));
    }
}

fn cases() -> Vec<Case> {
    vec![
        ("one member leads, and all others hear of it", 3, elected),
        ("what is proposed is committed in order, at every member", 3, committed),
        ("several proposals are in flight, each decided in order", 3, in_flight),
        ("a proposal without drafts proves the leadership and writes nothing", 3, proof),
        ("only a leader takes proposals and reads, and none that is too large", 3, refused),
        ("a leader that is cut off commits nothing, and learns what became of it", 3, cut_off),
        ("a leader that hears nothing learns that its writes are committed", 3, deaf),
        ("a read gets an index, and a follower reaches it", 3, read_index),
        ("a leader that is cut off gives no index", 3, no_index),
        ("a read gets no index from before it asked", 3, no_earlier_index),
        ("a leader that slept while it was replaced trusts no lease", 3, slept),
        ("an idle leader has a lease, and no leader beside another one", 3, lease),
        ("leadership is transferred without loss, and soon", 3, transferred),
        ("a transfer to a member that is away ends", 3, transfer_to_nowhere),
        ("a member that restarts has everything again, from any checkpoint", 3, restarted),
        ("a member that begins before what was trimmed is behind", 3, trimmed),
        ("a lone member leads by itself", 1, alone),
    ]
}

fn elected(members: &mut Members) {
    let leader = members.leader();
    let epoch = members.member(leader).leads;
    members.wait("all follow", |members| {
        (0..3).all(|at| {
            let member = members.member(at);
            (at == leader || member.follows == epoch) && member.log.status().is_caught_up
        })
    });
}

fn committed(members: &mut Members) {
    members.write_all(&["a", "b"]);
    let leader = members.leader();
    members.propose(leader, &["c", "d", "e"]).expect("it leads");
    members.write_all(&["f"]);
    assert_eq!(members.converge(), ["a", "b", "c", "d", "e", "f"]);
    let tip = members.member(leader).log.status().index.tip;
    assert_eq!(tip.next_rev, 2 + 6, "revisions are dense");
}

fn in_flight(members: &mut Members) {
    let leader = members.leader();
    let (mut names, mut most) = (Vec::new(), 0);
    for number in 0..200 {
        let name = number.to_string();
        while !members.member(leader).log.may_propose() {
            assert_eq!(members.propose(leader, &[&name]), Err(Refusal::Busy));
            members.tick();
        }
        members.propose(leader, &[&name]).expect("it may propose");
        most = most.max(members.member(leader).undecided.len());
        names.push(name);
    }
    assert!(most > 1, "one proposal at a time");
    members.wait("decisions", |members| members.member(leader).undecided.is_empty());
    assert_eq!(members.converge(), names);
}

fn proof(members: &mut Members) {
    let leader = members.leader();
    members.propose(leader, &["a"]).expect("it leads");
    members.propose(leader, &[]).expect("it leads");
    members.wait("decisions", |members| members.member(leader).undecided.is_empty());
    assert_eq!(members.converge(), ["a"]);
    assert_eq!(members.member(leader).log.status().index.tip.next_rev, 3);
}

fn refused(members: &mut Members) {
    let leader = members.leader();
    members.write_all(&["a"]);
    members.converge();
    for at in (0..3).filter(|at| *at != leader) {
        assert_eq!(members.propose(at, &["no"]), Err(Refusal::NotLeader));
        assert_eq!(members.read_index(at, 1), Err(Refusal::NotLeader));
        let to = ReplicaId { member: 1, incarnation: 1 };
        assert_eq!(members.member(at).log.transfer_leadership(to), Err(Refusal::NotLeader));
    }
    let large = "x".repeat(members.member(leader).log.max_record());
    assert!(matches!(members.propose(leader, &[&large]), Err(Refusal::TooLarge { .. })));
    members.write_all(&["b"]);
    assert_eq!(members.converge(), ["a", "b"]);
}

fn cut_off(members: &mut Members) {
    members.write_all(&["a"]);
    let old = members.leader();
    members.cut(old, Some(Cut::Whole));
    members.propose(old, &["lost"]).expect("it does not know yet");
    let new = replaced(members, old);
    assert!(members.member(old).undecided.len() == 1, "undecided until it hears of the others");
    members.propose(new, &["b"]).expect("it leads");
    members.wait("a decision", |members| members.member(new).undecided.is_empty());
    members.cut(old, None);
    members.wait("a decision", |members| members.member(old).undecided.is_empty());
    members.write_all(&["c"]);
    assert_eq!(members.converge(), ["a", "b", "c"]);
}

/// Waits until another member leads; the old one may think so still.
fn replaced(members: &mut Members, old: usize) -> usize {
    let mut new = None;
    members.wait("another leader", |members| {
        new = (0..3).find(|at| *at != old && members.member(*at).log.may_propose());
        new.is_some()
    });
    new.expect("it was waited for")
}

fn deaf(members: &mut Members) {
    members.write_all(&["a"]);
    let old = members.leader();
    members.cut(old, Some(Cut::Deaf));
    members.propose(old, &["b"]).expect("it leads");
    members.tick();
    members.pass(Duration::from_millis(500));
    members.cut(old, None);
    members.wait("a decision", |members| members.member(old).undecided.is_empty());
    members.write_all(&["c"]);
    let writes = members.converge();
    assert!(writes == ["a", "b", "c"] || writes == ["a", "c"], "{writes:?}");
}

fn read_index(members: &mut Members) {
    let leader = members.leader();
    for (id, name) in [(1, "a"), (2, "b"), (3, "c")] {
        members.write_all(&[name]);
        members.read_index(leader, id).expect("it leads");
        members.wait("an index", |members| members.member(leader).indexes.contains_key(&ReadId(id)));
        let index = members.member(leader).indexes[&ReadId(id)];
        for at in 0..3 {
            members.wait("the index is reached", |members| {
                let member = members.member(at);
                let reached = member.log.reached(&index);
                let has_it = member.log.status().index.tip.seq >= index.tip.seq;
                assert!(reached != Reached::Yes || has_it, "it has not been reported here");
                reached == Reached::Yes
            });
        }
    }
    // One from before many other entries need not be comparable any more; it is never `NotYet`.
    let first = members.member(leader).indexes[&ReadId(1)];
    assert_ne!(members.member(leader).log.reached(&first), Reached::NotYet);
}

fn no_index(members: &mut Members) {
    members.write_all(&["a"]);
    let old = members.leader();
    members.cut(old, Some(Cut::Whole));
    replaced(members, old);
    members.write_all_but(old, "b");
    // The judge sees to it that no index is older than that.
    let _ = members.read_index(old, 1);
    members.pass(Duration::from_secs(3));
    assert!(!members.member(old).indexes.contains_key(&ReadId(1)));
    members.cut(old, None);
    assert_eq!(members.converge(), ["a", "b"]);
}

fn no_earlier_index(members: &mut Members) {
    members.write_all(&["a"]);
    let old = members.leader();
    members.cut(old, Some(Cut::Deaf));
    // It may be committed; its proposer hears of that after another leader's write.
    members.propose(old, &["b"]).expect("it leads");
    members.tick();
    replaced(members, old);
    members.write_all_but(old, "c");
    let _ = members.read_index(old, 1);
    members.cut(old, None);
    members.wait("a decision", |members| members.member(old).undecided.is_empty());
    members.converge();
}

fn slept(members: &mut Members) {
    members.write_all(&["a"]);
    let old = members.leader();
    members.wait("a lease", |members| members.member(old).log.lease().is_some());
    members.paused = Some(old);
    replaced(members, old);
    members.write_all_but(old, "b");
    let log = &members.member(old).log;
    assert!(log.lease().is_none_or(|lease| log.now() >= lease.until), "a lease on an old state");
    members.paused = None;
    members.write_all_but(old, "c");
    assert_eq!(members.converge(), ["a", "b", "c"]);
}

fn lease(members: &mut Members) {
    members.write_all(&["a"]);
    let leader = members.leader();
    let has_one = |members: &mut Members| {
        let log = &members.member(leader).log;
        log.lease().is_some_and(|lease| log.now() < lease.until)
    };
    members.wait("a lease", has_one);
    members.read_index(leader, 1).expect("it leads");
    members.tick();
    assert!(members.member(leader).indexes.contains_key(&ReadId(1)), "a lease answers at once");
    members.propose(leader, &["b"]).expect("it leads");
    assert!(members.member(leader).log.lease().is_none(), "something is in flight");
    members.wait("a lease", has_one);
    members.cut(leader, Some(Cut::Whole));
    // The judge compares every lease with what is committed.
    replaced(members, leader);
    assert!(!has_one(members));
    members.write_all_but(leader, "c");
    members.cut(leader, None);
    assert_eq!(members.converge(), ["a", "b", "c"]);
}

fn transferred(members: &mut Members) {
    members.write_all(&["a"]);
    let old = members.leader();
    let to = (old + 1) % 3;
    members.propose(old, &["b"]).expect("it leads");
    let name = members.group.name(to);
    let ticket = loop {
        match members.member(old).log.transfer_leadership(name) {
            Ok(ticket) => break ticket,
            Err(Refusal::Busy) => members.tick(),
            Err(refusal) => panic!("{refusal}"),
        }
    };
    members.member(old).undecided.insert(ticket, Vec::new());
    assert!(members.member(old).log.lease().is_none());
    assert_eq!(members.propose(old, &["no"]), Err(Refusal::Busy));
    let began = members.member(to).log.now();
    members.wait("the successor", |members| members.member(to).leads.is_some());
    assert!(members.member(old).transferred);
    let took = members.member(to).log.now() - began;
    assert!(took < Duration::from_millis(900), "no election timeout is waited for: {took:?}");
    members.propose(to, &["c"]).expect("it leads");
    members.wait("a decision", |members| members.member(to).undecided.is_empty());
    assert_eq!(members.converge(), ["a", "b", "c"]);
}

fn transfer_to_nowhere(members: &mut Members) {
    members.write_all(&["a"]);
    let old = members.leader();
    let to = (old + 1) % 3;
    let name = members.group.name(to);
    members.stop(to);
    let ticket = members.member(old).log.transfer_leadership(name).expect("nothing is in flight");
    members.member(old).undecided.insert(ticket, Vec::new());
    members.wait("a leader again", |members| {
        let leads = |at: usize| {
            at != to && members.members[at].as_ref().is_some_and(|member| member.log.may_propose())
        };
        (0..3).any(leads)
    });
    members.write_all(&["b"]);
    assert_eq!(members.converge(), ["a", "b"]);
}

fn restarted(members: &mut Members) {
    members.write_all(&["a", "b"]);
    members.converge();
    let leader = members.leader();
    let other = (leader + 1) % 3;
    let (index, had) = (members.member(other).log.status().index, members.member(other).writes.clone());
    members.write_all(&["c"]);
    members.start_one(other, index);
    members.member(other).writes = had;
    members.write_all(&["d"]);
    assert_eq!(members.converge(), ["a", "b", "c", "d"]);
    members.start_one(other, beginning());
    assert_eq!(members.converge(), ["a", "b", "c", "d"]);
    // All at once.
    (0..3).for_each(|at| members.stop(at));
    (0..3).for_each(|at| members.start_one(at, beginning()));
    members.write_all(&["e"]);
    assert_eq!(members.converge(), ["a", "b", "c", "d", "e"]);
}

fn trimmed(members: &mut Members) {
    members.write_all(&["a", "b"]);
    members.converge();
    let leader = members.leader();
    let (index, had) = (members.member(leader).log.status().index, members.member(leader).writes.clone());
    members.write_all(&["c"]);
    members.converge();
    for at in 0..3 {
        members.member(at).log.trim(index.position);
    }
    members.pass(Duration::from_secs(1));
    let other = (leader + 1) % 3;
    members.start_one(other, beginning());
    members.wait("it is behind", |members| members.member(other).behind.is_some());
    let first = members.member(other).behind.expect("it was waited for");
    assert!(first > Position(0) && first <= index.position, "everything from the floor on stays");
    members.start_one(other, index);
    members.member(other).writes = had;
    members.write_all(&["d"]);
    assert_eq!(members.converge(), ["a", "b", "c", "d"]);
}

fn alone(members: &mut Members) {
    members.write_all(&["a", "b"]);
    members.start_one(0, beginning());
    members.write_all(&["c"]);
    assert_eq!(members.converge(), ["a", "b", "c"]);
}
