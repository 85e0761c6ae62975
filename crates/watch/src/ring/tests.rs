use super::*;
use crate::testing::{Ev, events, put};

fn push(ring: &mut Ring<Ev>, rev: i64, limit: RingLimit) {
    ring.push(rev, &events(vec![put("k", rev)]), limit);
}

fn revs(ring: &Ring<Ev>, next: i64) -> Vec<i64> {
    ring.matches(next, i64::MAX - 1).map(|entry| entry.rev).collect()
}

#[test]
fn a_full_ring_forgets_the_oldest_and_says_so() {
    for limit in [RingLimit { revisions: 2, bytes: 1000 }, RingLimit { revisions: 9, bytes: 22 }] {
        let mut ring = Ring::new(5);
        push(&mut ring, 7, limit);
        push(&mut ring, 9, limit);
        assert_eq!((ring.start(), revs(&ring, 5)), (5, vec![7, 9]));
        push(&mut ring, 12, limit);
        assert_eq!((ring.start(), revs(&ring, 8)), (8, vec![9, 12]));
        assert_eq!(
            (ring.count(9, 20), ring.count(10, 20), ring.count(13, 20), ring.count(9, 11)),
            (2, 1, 0, 1)
        );
    }
}

#[test]
fn the_newest_match_is_kept_whatever_the_limit() {
    let mut ring = Ring::new(5);
    push(&mut ring, 7, RingLimit { revisions: 0, bytes: 0 });
    assert_eq!(revs(&ring, 5), [7]);
}

#[test]
fn dropping_old_matches_moves_the_start_only_past_what_was_dropped() {
    let limit = RingLimit { revisions: 9, bytes: 1000 };
    let mut ring = Ring::new(5);
    ring.drop_below(100);
    assert_eq!(ring.start(), 5);
    push(&mut ring, 7, limit);
    push(&mut ring, 20, limit);
    ring.drop_below(20);
    assert_eq!((ring.start(), revs(&ring, 8)), (8, vec![20]));
}

#[test]
#[should_panic(expected = "cannot serve")]
fn a_ring_does_not_answer_for_what_it_may_have_forgotten() {
    Ring::<Ev>::new(5).matches(4, 9).count();
}

#[test]
fn many_rings_are_short_and_few_are_as_long_as_is_allowed() {
    let limit = RingLimit { revisions: 512, bytes: 1000 };
    for (rings, revisions) in [(0, 512), (1, 512), (8, 512), (16, 256), (ALL_RINGS / 2, 2), (1 << 30, 1)] {
        assert_eq!(limit.among(rings).revisions, revisions, "{rings}");
        assert_eq!(limit.among(rings).bytes, 1000);
    }
}
