//! What becomes of appends.

use vetch_fence::{Command, Event, News, Refusal, Void};
use vetch_journal::{Draft, Kind};

use crate::play::{Play, appends};

fn unknown(command: &Command) -> News {
    let Command::Append { ticket, .. } = command else { unreachable!("appends only") };
    News::Unknown { ticket: *ticket, why: "no answer".into() }
}

#[test]
fn outcomes_in_any_order_commit_in_order() {
    let mut play = Play::new(1, true);
    play.elect(0);
    let tickets = [play.write(0, 1), play.write(0, 2), play.write(0, 3)];
    let told: Vec<News> = appends(play.take(0)).iter().map(|append| play.ask(append)).collect();
    play.tell(0, told[2].clone());
    play.tell(0, told[1].clone());
    assert!(!tickets.iter().any(|ticket| play.committed(0, *ticket)));
    play.tell(0, told[0].clone());
    assert!(tickets.iter().all(|ticket| play.committed(0, *ticket)));
}

#[test]
fn an_unknown_append_that_was_stored_is_committed_by_an_own_epoch() {
    let mut play = Play::new(1, true);
    play.elect(0);
    let write = play.write(0, 1);
    let append = appends(play.take(0)).remove(0);
    play.ask(&append);
    play.tell(0, unknown(&append));
    assert!(!play.members[0].is_leading());
    play.settle();
    assert!(play.committed(0, write) && play.members[0].is_leading());
    assert_eq!(play.tip(0).epoch, 2);
}

#[test]
fn an_unknown_append_that_was_not_stored_is_void_even_if_it_arrives_later() {
    for checks_position in [true, false] {
        let mut play = Play::new(1, checks_position);
        play.elect(0);
        let write = play.write(0, 1);
        let append = appends(play.take(0)).remove(0);
        play.tell(0, unknown(&append));
        play.settle();
        assert!(play.void(0, write) && play.members[0].is_leading());
        play.ask(&append);
        let again = play.write(0, 2);
        play.settle();
        for _ in 0..20 {
            play.tick(0, 20);
            play.settle();
        }
        assert!(play.committed(0, again) || play.void(0, again));
        assert_eq!(play.skipped(0, Void::OldEpoch), usize::from(!checks_position));
    }
}

/// Checking the position does not keep late records out: one that was sent ahead finds the position
/// it waits for filled by somebody else's claim.
#[test]
fn a_late_record_lands_behind_the_claim_that_replaced_its_writer() {
    let mut play = Play::new(3, true);
    play.elect(0);
    (1..3).for_each(|who| play.catch_up(who));
    let late = [play.write(0, 1), play.write(0, 2)];
    let appended = appends(play.take(0));
    // The first is lost; a claim takes its place; the second is behind the position it was
    // promised.
    play.elect(1);
    assert!(matches!(play.ask(&appended[1]), News::Appended { .. }), "the log takes it");
    // The new writer's first append finds its position taken, its second does not.
    let writes = [play.write(1, 3), play.write(1, 4)];
    let told: Vec<News> = appends(play.take(1)).iter().map(|append| play.ask(append)).collect();
    assert!(matches!(told[..], [News::Refused { .. }, News::Appended { .. }]));
    told.into_iter().for_each(|news| play.tell(1, news));
    play.settle_one(1);
    assert!(play.members[1].is_leading() && writes.iter().all(|write| play.void(1, *write)));
    assert_eq!((play.skipped(1, Void::OldEpoch), play.skipped(1, Void::Orphan)), (1, 1));
    // Everybody agrees, and nobody takes it for damage.
    (0..3).for_each(|who| play.catch_up(who));
    assert!((0..3).all(|who| play.tip(who) == play.tip(1) && !play.halted(who)));
    assert!(late.iter().all(|write| play.void(0, *write)));
}

#[test]
fn a_copy_that_a_retry_stored_does_not_count() {
    let mut play = Play::new(2, false);
    play.elect(0);
    let write = play.write(0, 1);
    let append = appends(play.take(0)).remove(0);
    play.ask(&append);
    // The answer tells of the second copy.
    play.deliver(0, &append);
    play.settle();
    assert!(play.committed(0, write));
    let next = play.write(0, 2);
    play.settle();
    assert!(play.committed(0, next));
    play.catch_up(1);
    assert_eq!(play.tip(1).next_rev, 4);
    assert_eq!(play.skipped(1, Void::Copy), 1);
}

#[test]
fn a_full_log_loses_nothing_and_goes_on_when_there_is_room() {
    let mut play = Play::new(1, true);
    play.elect(0);
    let before = play.write(0, 1);
    play.settle();
    play.log.capacity = Some(play.log.held());
    let refused = play.write(0, 2);
    play.settle();
    play.pass(3000);
    assert!(play.events[0].contains(&Event::Full) && !play.members[0].is_leading());
    play.log.capacity = None;
    play.pass(2000);
    assert!(play.members[0].is_leading());
    assert!(play.committed(0, before) && play.void(0, refused));
}

#[test]
fn an_append_without_any_answer_is_given_up_in_time() {
    let mut play = Play::new(1, true);
    play.elect(0);
    let write = play.write(0, 1);
    play.take(0);
    play.tick(0, 1900);
    assert!(play.members[0].is_leading());
    play.tick(0, 200);
    assert!(!play.members[0].is_leading());
    play.settle();
    assert!(play.void(0, write));
}

#[test]
fn what_cannot_be_appended_is_refused_before_anything_changes() {
    let mut play = Play::new(2, true);
    play.elect(0);
    let mut tip = play.members[0].head();
    let chained = Draft::new(Kind::Writes).chain(&mut tip);
    let behind = Draft::new(Kind::Writes).chain(&mut tip);
    assert_eq!(play.members[1].propose(play.now, std::slice::from_ref(&chained)), Err(Refusal::NotLeading));
    assert_eq!(play.members[0].propose(play.now, &[behind]), Err(Refusal::OutOfOrder));
    assert_eq!(play.members[0].propose(play.now, &[]), Err(Refusal::OutOfOrder));
    let mut large = Draft::new(Kind::Writes);
    large.begin_part(Default::default());
    large.payload().resize(2 << 20, 0);
    large.end_part(1);
    let large = large.chain(&mut play.members[0].head());
    assert!(matches!(play.members[0].propose(play.now, &[large]), Err(Refusal::TooLarge { .. })));
    for value in 0..8 {
        play.write(0, value);
    }
    let next = Draft::new(Kind::Writes).chain(&mut play.members[0].head());
    assert_eq!(play.members[0].propose(play.now, &[next]), Err(Refusal::Busy));
    play.settle();
    assert_eq!(play.tip(0).seq, 9);
}
