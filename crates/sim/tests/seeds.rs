//! A few seeds, and the promise that a seed is one run. The long runs are `vetch-sim run`'s.

use std::sync::{Arc, Mutex};

use vetch_sim::run::Out;

#[test]
fn a_few_seeds_pass() {
    for seed in 1..=12 {
        let report = vetch_sim::run(seed, None);
        assert_eq!(report.violations, Vec::<String>::new(), "seed {seed}");
        assert!(report.history.operations.len() > 20, "seed {seed} did something");
    }
}

#[test]
fn a_seed_is_one_run_to_the_byte() {
    let trace = |seed| {
        let kept = Arc::new(Mutex::new(Vec::new()));
        let out: Out = kept.clone();
        vetch_sim::run(seed, Some(out));
        let trace = kept.lock().expect("no thread panicked").clone();
        String::from_utf8(trace).expect("traces are text")
    };
    let first = trace(7);
    assert!(first.lines().count() > 500, "the trace tells what happened");
    assert!(first == trace(7), "two runs of one seed differ");
    assert!(first != trace(8), "another seed is another run");
}
