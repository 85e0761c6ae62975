//! Who is the writer.

use vetch_fence::{Author, Command, Event, Member, News, Void};

use crate::play::{Play, appends};

#[test]
fn nobody_writes_until_the_election_timeout_and_then_somebody_does() {
    let mut play = Play::new(3, true);
    play.pass(1400);
    assert!(play.members.iter().all(|member| !member.is_leading()));
    play.pass(1000);
    assert_eq!(play.members.iter().filter(|member| member.is_leading()).count(), 1);
    play.pass(5000);
    assert_eq!(play.members[0].view().tip().epoch, 1, "heartbeats keep everybody quiet");
}

#[test]
fn a_claim_is_read_through_before_anything_is_written() {
    let mut play = Play::new(2, false);
    play.elect(0);
    play.catch_up(1);
    play.members[1].claim_now(play.now);
    let read = play.take(1);
    play.deliver(1, &read[0]);
    let claim = appends(play.take(1));
    // The old writer is faster, and this log does not mind.
    let write = play.write(0, 1);
    play.settle_one(0);
    assert!(play.committed(0, write));
    play.deliver(1, &claim[0]);
    play.settle_one(1);
    assert!(!play.members[1].is_leading(), "the claim was stored, but it does not count");
    assert_eq!(play.skipped(1, Void::LostClaim), 1);
    assert_eq!(play.tip(1).seq, 2);
}

#[test]
fn of_two_claims_of_one_epoch_the_first_counts() {
    for checks_position in [true, false] {
        let mut play = Play::new(2, checks_position);
        play.members.iter_mut().for_each(|member| member.claim_now(play.now));
        let reads = [play.take(0), play.take(1)];
        (0..2).for_each(|who| play.deliver(who, &reads[who][0]));
        let claims = [appends(play.take(0)), appends(play.take(1))];
        play.deliver(1, &claims[1][0]);
        play.deliver(0, &claims[0][0]);
        play.settle();
        play.tick(0, 200);
        play.settle_one(0);
        assert!(play.members[1].is_leading() && !play.members[0].is_leading());
        assert_eq!(play.tip(0).epoch, 1);
    }
}

#[test]
fn a_claim_of_unknown_outcome_that_lands_late_makes_its_author_the_writer() {
    let mut play = Play::new(2, true);
    play.members[0].claim_now(play.now);
    play.settle_one(1);
    let read = play.take(0);
    play.deliver(0, &read[0]);
    let claim = appends(play.take(0));
    let Command::Append { ticket, .. } = claim[0] else { unreachable!() };
    play.tell(0, News::Unknown { ticket, why: "no answer".into() });
    assert!(!play.members[0].is_leading());
    // It arrives at the log long after it was given up.
    play.ask(&claim[0]);
    play.tick(0, 100);
    play.settle_one(0);
    assert!(play.members[0].is_leading());
    assert_eq!(play.log.last().0, 1, "no second claim was needed");
}

#[test]
fn a_claim_of_a_former_life_is_not_ones_own() {
    let mut play = Play::new(1, true);
    play.elect(0);
    let start = play.members[0].view().index();
    let me = Author { node: 1, life: 2 };
    play.members[0] = Member::new(Default::default(), me, start, play.now);
    play.settle();
    assert!(!play.members[0].is_leading());
    play.pass(2100);
    assert!(play.members[0].is_leading());
    assert_eq!(play.tip(0).epoch, 2);
}

#[test]
fn a_writer_that_was_replaced_while_it_slept_gets_nothing_acknowledged() {
    for checks_position in [true, false] {
        let mut play = Play::new(2, checks_position);
        play.elect(0);
        play.catch_up(1);
        play.elect(1);
        let write = play.write(0, 1);
        let read = vetch_fence::ReadId(7);
        play.members[0].read_index(play.now, read).expect("it thinks that it leads");
        play.settle_one(0);
        for _ in 0..20 {
            play.tick(0, 20);
            play.settle_one(0);
        }
        assert!(!play.committed(0, write) && play.void(0, write));
        assert!(!play.members[0].is_leading());
        let lost = |event: &Event| matches!(event, Event::IndexLost { reads } if reads.contains(&read));
        assert!(play.events[0].iter().any(lost), "its read is sent to the new writer");
    }
}
