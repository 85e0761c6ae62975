//! The classical search: small histories whose verdict is plain to see, and agreement with the
//! checker by revisions.

mod support;

use std::time::Duration;

use support::mutate as operations;
use vetch_check::wgl::register::{Access, Register};
use vetch_check::wgl::store::linearize_history;
use vetch_check::wgl::{Budget, Call, Verdict, linearize};
use vetch_check::{History, check};
use vetch_testkit::random::Rng;

fn call(called: u64, returned: u64, operation: Access) -> Call<Access> {
    Call { called, returned: Some(returned), operation }
}

fn pending(called: u64, operation: Access) -> Call<Access> {
    Call { called, returned: None, operation }
}

fn read(found: i64) -> Access {
    Access::Read { found: Some(found) }
}

fn write(value: i64) -> Access {
    Access::Write { value }
}

fn cas(expected: i64, value: i64, succeeded: bool) -> Access {
    Access::Cas { expected, value, succeeded: Some(succeeded) }
}

fn judge(calls: &[Call<Access>]) -> Verdict {
    linearize(&Register, calls, Budget::default())
}

#[track_caller]
fn legal(calls: &[Call<Access>]) {
    assert_eq!(judge(calls), Verdict::Linearizable);
}

/// Illegal, with the longest order that goes.
#[track_caller]
fn illegal(calls: &[Call<Access>], longest: usize) {
    match judge(calls) {
        Verdict::Illegal(furthest) => assert_eq!(furthest.order.len(), longest, "{furthest:?}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_overlaps_may_come_in_either_order() {
    legal(&[]);
    legal(&[call(0, 10, write(1)), call(5, 15, Access::Read { found: None })]);
    legal(&[call(0, 10, write(1)), call(5, 15, read(1))]);
    legal(&[call(0, 100, write(1)), call(10, 20, Access::Read { found: None }), call(30, 40, read(1))]);
    legal(&[call(0, 30, write(1)), call(0, 30, write(2)), call(40, 50, read(1))]);
    // What touches overlaps.
    legal(&[call(0, 10, write(1)), call(10, 20, Access::Read { found: None })]);
}

#[test]
fn what_returned_before_comes_before() {
    illegal(&[call(0, 10, write(1)), call(11, 20, Access::Read { found: None })], 1);
    illegal(&[call(0, 10, write(1)), call(11, 20, write(2)), call(21, 30, read(1))], 2);
    // Two readers of one write that is under way cannot see it come and go.
    illegal(&[call(0, 100, write(1)), call(10, 20, read(1)), call(30, 40, Access::Read { found: None })], 2);
    // Nor two readers see two writes in different orders.
    illegal(
        &[
            call(0, 10, write(1)),
            call(0, 10, write(2)),
            call(11, 20, read(1)),
            call(21, 30, read(2)),
            call(31, 40, read(1)),
        ],
        3,
    );
}

#[test]
fn compare_and_set_succeeds_exactly_where_it_holds() {
    legal(&[
        call(0, 1, write(1)),
        call(2, 9, cas(1, 2, true)),
        call(2, 9, cas(1, 3, false)),
        call(10, 11, read(2)),
    ]);
    illegal(&[call(0, 1, write(1)), call(2, 9, cas(1, 2, true)), call(2, 9, cas(1, 3, true))], 2);
    illegal(&[call(0, 1, write(1)), call(2, 9, cas(1, 2, false))], 1);
}

#[test]
fn what_is_unknown_happened_at_any_later_time_or_never() {
    legal(&[call(0, 1, write(1)), pending(2, write(2)), call(3, 4, read(1)), call(5, 6, read(2))]);
    legal(&[call(0, 1, write(1)), pending(2, write(2)), call(3, 4, read(1)), call(5, 6, read(1))]);
    // But only once, and not before it was called.
    let back = [call(0, 1, write(1)), pending(2, write(2)), call(3, 4, read(2)), call(5, 6, read(1))];
    illegal(&back, 3);
    illegal(&[call(0, 1, write(1)), call(2, 3, read(2)), pending(4, write(2))], 1);
    let maybe = Access::Cas { expected: 1, value: 2, succeeded: None };
    legal(&[call(0, 1, write(1)), pending(2, maybe), call(3, 4, read(2))]);
    illegal(&[call(0, 1, write(3)), pending(2, maybe), call(3, 4, read(2))], 1);
}

/// Many writes at once, and a read of what none of them wrote: every order must be tried.
fn hopeless(writes: i64) -> Vec<Call<Access>> {
    let mut calls: Vec<Call<Access>> = (0..writes).map(|value| call(0, 100, write(value))).collect();
    calls.push(call(101, 102, read(-1)));
    calls
}

#[test]
fn a_used_up_budget_is_no_verdict() {
    illegal(&hopeless(10), 10);
    let few = Budget { steps: 1000, ..Budget::default() };
    assert!(matches!(linearize(&Register, &hopeless(30), few), Verdict::Unknown(_)));
    let short = Budget { steps: u64::MAX, time: Duration::from_millis(20) };
    assert!(matches!(linearize(&Register, &hopeless(60), short), Verdict::Unknown(_)));
}

#[test]
fn ten_thousand_operations_are_no_matter() {
    let calls: Vec<Call<Access>> = (0..10_000)
        .map(|number| {
            let value = number as i64 / 2;
            let operation = if number % 2 == 0 { write(value) } else { read(value) };
            call(number * 10, number * 10 + 15, operation)
        })
        .collect();
    legal(&calls);
}

fn second_opinion(history: &History) -> Verdict {
    linearize_history(history, Budget { steps: 3_000_000, time: Duration::from_secs(20) })
}

#[test]
fn both_checkers_believe_right_histories() {
    let mut undecided = 0;
    for seed in 0..150 {
        let history = support::record(seed, 30 + seed as usize % 50);
        check(&history).expect("it is right");
        match second_opinion(&history) {
            Verdict::Linearizable => {}
            Verdict::Unknown(_) => undecided += 1,
            Verdict::Illegal(furthest) => {
                let stuck: Vec<_> = furthest.stuck.iter().map(|&index| &history.operations[index]).collect();
                panic!("seed {seed}: after {} operations {stuck:#?}", furthest.order.len());
            }
        }
    }
    assert!(undecided < 8, "{undecided} of 150 undecided");
}

#[test]
fn both_checkers_find_the_same_lies() {
    let lies: [(&str, operations::Mutation); 8] = [
        ("stale read", operations::stale_read),
        ("swapped revisions", operations::swapped_revisions),
        ("same revision", operations::same_revision),
        ("lost write", operations::lost_write),
        ("resurrected key", operations::resurrected_key),
        ("granted twice", operations::granted_twice),
        ("compacted twice", operations::compacted_twice),
        ("present called future", operations::future_refused),
    ];
    for (name, lie) in lies {
        let mut found = 0;
        for seed in 0..20 {
            let mut history = support::record(seed, 50);
            // The search knows nothing of them.
            history.leased.clear();
            if !lie(&mut history, &mut Rng::new(seed)) {
                continue;
            }
            assert!(check(&history).is_err(), "{name}, seed {seed}");
            match second_opinion(&history) {
                Verdict::Illegal(_) => found += 1,
                Verdict::Unknown(_) => {}
                Verdict::Linearizable => panic!("{name}, seed {seed}: the second opinion differs"),
            }
        }
        assert!(found >= 5, "{name}: found in {found} histories only");
    }
}
