use super::*;
use crate::testing::{Ev, events, put};

const WIDE: ScanBudget = ScanBudget { examined: 1000, revisions: 1000, events: 1000, bytes: 1 << 20 };

fn every_key() -> KeyRange {
    KeyRange::new(b"", b"\0").unwrap()
}

fn filled(to: i64) -> EventLog<Ev> {
    let mut log = EventLog::new(0, 1);
    for rev in 2..=to {
        log.append(rev, events(vec![put("k", rev)]));
    }
    log
}

fn revs(scan: &Scan<Ev>) -> Vec<i64> {
    scan.revisions.iter().map(|revision| revision.rev).collect()
}

fn scan(log: &EventLog<Ev>, from: i64, to: i64, budget: ScanBudget) -> Scan<Ev> {
    log.scan(from, to, &every_key(), Filters::default(), budget)
}

#[test]
fn a_retained_revision_costs_three_words() {
    assert!(size_of::<Events<(Box<u8>, Option<Box<u8>>)>>() <= 24);
}

#[test]
fn a_scan_returns_what_is_between_its_bounds() {
    let log = filled(20);
    let found = scan(&log, 7, 11, WIDE);
    assert_eq!(revs(&found), [7, 8, 9, 10, 11]);
    assert_eq!(found.next, 12);
    assert_eq!(scan(&log, 0, 3, WIDE).next, 4);
    assert_eq!(revs(&scan(&log, 19, 99, WIDE)), [19, 20]);
    assert_eq!(scan(&log, 21, 20, WIDE).next, 21);
}

#[test]
fn each_bound_stops_a_scan_at_a_whole_revision() {
    let mut log = filled(5);
    log.append(6, events(vec![put("a", 6), put("b", 6), put("c", 6)]));
    log.append(7, events(vec![put("k", 7)]));
    for budget in [
        ScanBudget { examined: 2, ..WIDE },
        ScanBudget { revisions: 2, ..WIDE },
        ScanBudget { events: 2, ..WIDE },
        ScanBudget { bytes: 22, ..WIDE },
    ] {
        let found = scan(&log, 2, 7, budget);
        assert_eq!((revs(&found), found.next), (vec![2, 3], 4), "{budget:?}");
        // The revision with three events is larger than the budget for events: it comes alone and
        // whole.
        let found = scan(&log, 6, 7, ScanBudget { events: 2, ..budget });
        assert_eq!(found.revisions[0].len(), 3, "{budget:?}");
        assert_eq!((revs(&found), found.next), (vec![6], 7), "{budget:?}");
    }
}

#[test]
fn a_scan_without_matches_still_advances_within_its_budget() {
    let log = filled(20);
    let none = KeyRange::new(b"other", b"").unwrap();
    let found = log.scan(2, 20, &none, Filters::default(), ScanBudget { examined: 5, ..WIDE });
    assert_eq!((revs(&found), found.next), (vec![], 7));
}

#[test]
fn a_revision_is_filtered_by_key_and_kind() {
    let mut log = filled(2);
    let gone = Ev { delete: true, ..put("k", 3) };
    log.append(3, events(vec![put("a", 3), put("k", 3), gone.clone()]));
    let range = KeyRange::new(b"k", b"").unwrap();
    let found = log.scan(3, 3, &range, Filters { no_put: true, no_delete: false }, WIDE);
    assert_eq!(found.revisions[0].events().collect::<Vec<_>>(), [&gone]);
}

#[test]
#[should_panic(expected = "does not follow")]
fn a_gap_is_refused() {
    filled(4).append(6, Events::NONE);
}

#[test]
#[should_panic(expected = "below the floor")]
fn a_scan_below_the_floor_is_refused() {
    let mut log = filled(9);
    log.compact(5);
    scan(&log, 4, 9, WIDE);
}

#[test]
fn compaction_moves_the_floor_and_trimming_frees_in_steps() {
    let mut log = filled(41);
    log.compact(39);
    log.compact(30);
    assert_eq!((log.floor(), log.retained()), (39, 40));
    let mut steps = 0;
    loop {
        let trimmed = log.trim_step(CHUNK, 41);
        assert!(trimmed.revisions() < 2 * CHUNK);
        steps += 1;
        if trimmed.done {
            break;
        }
    }
    assert_eq!(steps, 9);
    assert!(log.retained() < 4 + CHUNK);
    assert_eq!(revs(&scan(&log, 39, 41, WIDE)), [39, 40, 41]);
    log.append(42, Events::NONE);
    assert_eq!(scan(&log, 39, 42, WIDE).next, 43);
}

#[test]
fn what_the_hub_has_not_matched_is_not_trimmed() {
    let mut log = filled(41);
    log.compact(41);
    while !log.trim_step(100, 20).done {}
    assert_eq!(log.slot(21), &events(vec![put("k", 21)]));
}

#[test]
fn loading_fills_gaps_with_nothing_and_skips_what_is_compacted() {
    let found = [3, 5, 9, 12].map(|rev| (rev, events(vec![put("k", rev)])));
    let log = EventLog::load(5, 14, found);
    assert_eq!((log.floor(), log.last()), (5, 14));
    assert_eq!(revs(&scan(&log, 5, 14, WIDE)), [5, 9, 12]);
    let mut log = EventLog::load(5, 14, []);
    assert_eq!(scan(&log, 5, 14, WIDE).next, 15);
    log.append(15, events(vec![put("k", 15)]));
    assert_eq!(revs(&scan(&log, 5, 15, WIDE)), [15]);
}

#[test]
fn the_floor_is_read_without_what_it_replaced_and_at_last_lets_go_of_it() {
    let mut log = filled(20);
    let shown =
        |log: &EventLog<Ev>, rev| scan(log, rev, 20, WIDE).revisions[0].events().all(|event| event.previous);
    let known = |events: &Events<Ev>| events.as_slice()[0].previous;
    assert!(shown(&log, 18), "nothing is compacted yet");
    log.compact(18);
    assert!(!shown(&log, 18) && known(log.slot(18)), "the hub may not have seen it yet");
    assert!(log.heavy_floor(17).is_none());
    let Some(Revision { rev, events }) = log.heavy_floor(18) else { panic!("no one else needs it") };
    assert!(known(&log.lighten(Revision { rev, events: events.without_previous() })));
    assert!(!known(log.slot(18)) && known(log.slot(19)) && log.heavy_floor(20).is_none());
    // A compaction while the last floor was made lighter.
    let late = Revision { rev, events };
    log.compact(19);
    assert!(known(&log.lighten(late)) && log.heavy_floor(20).is_some());
    assert!(shown(&log, 20));
}

#[test]
fn what_lies_below_the_floor_is_let_go_of_within_a_chunk_too() {
    let mut log = filled(20);
    log.compact(17);
    while !log.trim_step(100, 15).done {}
    assert!(log.slot(15).is_empty() && !log.slot(16).is_empty(), "the hub has not seen 16");
    while !log.trim_step(100, 20).done {}
    assert!(log.slot(16).is_empty() && !log.slot(17).is_empty());
}
