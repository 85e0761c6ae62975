//! Outcomes of appends.

use vetch_cluster::{Command, Ignored, LogEvent, Refusal, ReplicaEvent};
use vetch_journal::{Draft, Kind};

use crate::harness::{Harness, appends};

fn unknown(command: &Command) -> LogEvent {
    let Command::Append { ticket, .. } = command else { unreachable!("appends only") };
    LogEvent::Unknown { ticket: *ticket, why: "no answer".into() }
}

#[test]
fn outcomes_in_any_order_commit_in_order() {
    let mut harness = Harness::new(1, true);
    harness.elect(0);
    let tickets = [harness.write(0, 1), harness.write(0, 2), harness.write(0, 3)];
    let answers: Vec<LogEvent> =
        appends(harness.take_commands(0)).iter().map(|append| harness.execute(append)).collect();
    harness.handle(0, answers[2].clone());
    harness.handle(0, answers[1].clone());
    assert!(!tickets.iter().any(|ticket| harness.committed(0, *ticket)));
    harness.handle(0, answers[0].clone());
    assert!(tickets.iter().all(|ticket| harness.committed(0, *ticket)));
}

#[test]
fn an_unknown_append_that_was_stored_is_committed_by_a_new_epoch() {
    let mut harness = Harness::new(1, true);
    harness.elect(0);
    let write = harness.write(0, 1);
    let append = appends(harness.take_commands(0)).remove(0);
    harness.execute(&append);
    harness.handle(0, unknown(&append));
    assert!(!harness.replicas[0].is_leader());
    harness.settle();
    assert!(harness.committed(0, write) && harness.replicas[0].is_leader());
    assert_eq!(harness.tip(0).epoch.get(), 2);
}

#[test]
fn an_unknown_append_that_was_not_stored_is_dropped_even_if_it_arrives_later() {
    for checks_position in [true, false] {
        let mut harness = Harness::new(1, checks_position);
        harness.elect(0);
        let write = harness.write(0, 1);
        let append = appends(harness.take_commands(0)).remove(0);
        harness.handle(0, unknown(&append));
        harness.settle();
        assert!(harness.dropped(0, write) && harness.replicas[0].is_leader());
        harness.execute(&append);
        let again = harness.write(0, 2);
        harness.settle();
        for _ in 0..20 {
            harness.tick(0, 20);
            harness.settle();
        }
        assert!(harness.committed(0, again) || harness.dropped(0, again));
        assert_eq!(harness.ignored(0, Ignored::StaleEpoch), usize::from(!checks_position));
    }
}

/// Checking the position does not keep late records out: an append in flight may find the position
/// of its predecessor filled by another replica's new-epoch entry.
#[test]
fn a_late_record_lands_behind_the_new_epoch_that_replaced_its_leader() {
    let mut harness = Harness::new(3, true);
    harness.elect(0);
    (1..3).for_each(|who| harness.catch_up(who));
    let late = [harness.write(0, 1), harness.write(0, 2)];
    let appended = appends(harness.take_commands(0));
    // The first is lost, a new-epoch entry takes its position, and the second finds the
    // predecessor position that it names.
    harness.elect(1);
    assert!(matches!(harness.execute(&appended[1]), LogEvent::Appended { .. }), "the log takes it");
    // The new leader's first append finds its position taken, its second does not.
    let writes = [harness.write(1, 3), harness.write(1, 4)];
    let answers: Vec<LogEvent> =
        appends(harness.take_commands(1)).iter().map(|append| harness.execute(append)).collect();
    assert!(matches!(answers[..], [LogEvent::Refused { .. }, LogEvent::Appended { .. }]));
    answers.into_iter().for_each(|news| harness.handle(1, news));
    harness.settle_one(1);
    assert!(harness.replicas[1].is_leader() && writes.iter().all(|write| harness.dropped(1, *write)));
    assert_eq!((harness.ignored(1, Ignored::StaleEpoch), harness.ignored(1, Ignored::Gap)), (1, 1));
    // All replicas agree, and none halts.
    (0..3).for_each(|who| harness.catch_up(who));
    assert!((0..3).all(|who| harness.tip(who) == harness.tip(1) && !harness.halted(who)));
    assert!(late.iter().all(|write| harness.dropped(0, *write)));
}

#[test]
fn a_duplicate_that_a_retry_stored_is_ignored() {
    let mut harness = Harness::new(2, false);
    harness.elect(0);
    let write = harness.write(0, 1);
    let append = appends(harness.take_commands(0)).remove(0);
    harness.execute(&append);
    // The answer acknowledges the duplicate.
    harness.deliver(0, &append);
    harness.settle();
    assert!(harness.committed(0, write));
    let next = harness.write(0, 2);
    harness.settle();
    assert!(harness.committed(0, next));
    harness.catch_up(1);
    assert_eq!(harness.tip(1).next_rev, 4);
    assert_eq!(harness.ignored(1, Ignored::Duplicate), 1);
}

#[test]
fn a_full_log_loses_nothing_and_goes_on_when_there_is_room() {
    let mut harness = Harness::new(1, true);
    harness.elect(0);
    let before = harness.write(0, 1);
    harness.settle();
    harness.log.capacity = Some(harness.log.held());
    let refused = harness.write(0, 2);
    harness.settle();
    harness.pass(3000);
    assert!(harness.events[0].contains(&ReplicaEvent::Full) && !harness.replicas[0].is_leader());
    harness.log.capacity = None;
    harness.pass(2000);
    assert!(harness.replicas[0].is_leader());
    assert!(harness.committed(0, before) && harness.dropped(0, refused));
}

#[test]
fn an_append_without_an_answer_times_out() {
    let mut harness = Harness::new(1, true);
    harness.elect(0);
    let write = harness.write(0, 1);
    harness.take_commands(0);
    harness.tick(0, 1900);
    assert!(harness.replicas[0].is_leader());
    harness.tick(0, 200);
    assert!(!harness.replicas[0].is_leader());
    harness.settle();
    assert!(harness.dropped(0, write));
}

#[test]
fn an_invalid_proposal_is_refused_before_anything_changes() {
    let mut harness = Harness::new(2, true);
    harness.elect(0);
    let mut tip = harness.replicas[0].head();
    let sealed = Draft::new(Kind::Writes).chain(&mut tip);
    let behind = Draft::new(Kind::Writes).chain(&mut tip);
    assert_eq!(
        harness.replicas[1].propose(harness.now, std::slice::from_ref(&sealed)),
        Err(Refusal::NotLeader)
    );
    assert_eq!(harness.replicas[0].propose(harness.now, &[behind]), Err(Refusal::OutOfOrder));
    assert_eq!(harness.replicas[0].propose(harness.now, &[]), Err(Refusal::OutOfOrder));
    let mut large = Draft::new(Kind::Writes);
    large.begin_part(Default::default());
    large.payload().resize(2 << 20, 0);
    large.end_part(1);
    let large = large.chain(&mut harness.replicas[0].head());
    assert!(matches!(harness.replicas[0].propose(harness.now, &[large]), Err(Refusal::TooLarge { .. })));
    for value in 0..8 {
        harness.write(0, value);
    }
    let next = Draft::new(Kind::Writes).chain(&mut harness.replicas[0].head());
    assert_eq!(harness.replicas[0].propose(harness.now, &[next]), Err(Refusal::Busy));
    harness.settle();
    assert_eq!(harness.tip(0).seq.get(), 9);
}
