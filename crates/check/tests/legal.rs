//! Histories that are right are accepted, whatever the clients did.

mod support;

use vetch_check::{History, Report, check};

fn accept(seed: u64, operations: usize) -> Report {
    let history = support::record(seed, operations);
    match check(&history) {
        Ok(report) => report,
        Err(violations) => {
            let text: Vec<String> = violations.iter().map(ToString::to_string).collect();
            panic!("seed {seed} with {operations} operations:\n{}", text.join("\n"));
        }
    }
}

#[test]
fn random_clients_are_believed() {
    let mut total = Report::default();
    for seed in 0..1000 {
        let report = accept(seed, 60 + seed as usize % 90);
        assert!(report.finished);
        total.unknown_done += report.unknown_done;
        total.expiries += report.expiries;
        total.outcomes.refused += report.outcomes.refused;
        total.compacted_watches += report.compacted_watches;
        total.progress += report.progress;
        total.hashes += report.hashes;
        total.leased += report.leased;
    }
    // Each rare thing happened often enough to have been judged.
    assert!(total.unknown_done > 500 && total.expiries > 250, "{total:?}");
    assert!(total.outcomes.refused > 500 && total.compacted_watches > 100, "{total:?}");
    assert!(total.progress > 1000 && total.hashes > 1000 && total.leased > 3000, "{total:?}");
}

/// Much has to be guessed, and hardly anybody saw it.
#[test]
fn lost_answers_and_few_witnesses_are_no_proof_of_guilt() {
    for seed in 0..60 {
        let history = support::record_with(seed, 200, 6, seed as usize % 2);
        let violations = check(&history).err().unwrap_or_default();
        assert!(violations.is_empty(), "seed {seed}: {violations:#?}");
    }
}

#[test]
fn long_histories_are_believed() {
    for seed in 0..2 {
        accept(seed, 5000);
    }
}

#[test]
fn an_empty_history_is_right_but_says_that_nothing_was_judged() {
    let report = check(&History::default()).expect("nothing is wrong");
    assert_eq!((report.operations, report.revisions, report.finished), (0, 1, false));
}

#[test]
fn a_stored_history_is_the_same() {
    let history = support::record(7, 80);
    let mut bytes = Vec::new();
    history.save(&mut bytes).expect("memory takes everything");
    assert_eq!(History::load(bytes.as_slice()).expect("what was saved can be read"), history);
    let cut = &bytes[..bytes.len() - 3];
    let error = History::load(cut).expect_err("the last line is cut short");
    assert!(error.to_string().starts_with("line "), "{error}");
}
