//! The level of the log, in short; `vetch-sim run --level log --seeds 100000` for longer.

use std::sync::{Arc, Mutex};

use vetch_sim::log;
use vetch_sim::run::Out;

#[test]
fn a_thousand_seeds_break_no_promise() {
    for seed in 1..=1000 {
        let report = log::run(seed, None);
        assert_eq!(report.violations, Vec::<String>::new(), "vetch-sim seed {seed} --level log");
    }
}

#[test]
fn one_seed_is_one_trace() {
    let trace = |seed| {
        let kept = Arc::new(Mutex::new(Vec::new()));
        let out: Out = kept.clone();
        log::run(seed, Some(out));
        std::mem::take(&mut *kept.lock().expect("nothing panics under this lock"))
    };
    for seed in 1..=20 {
        let first = trace(seed);
        assert!(!first.is_empty());
        assert_eq!(first, trace(seed));
    }
}
