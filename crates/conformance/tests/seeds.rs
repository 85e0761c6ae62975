//! The simulation, in short; `vetch-fence-sim run --seeds 100000` for longer.

use vetch_conformance::sim;

#[test]
fn a_thousand_seeds_break_no_promise() {
    for seed in 1..=1000 {
        let report = sim::run(seed, false);
        assert_eq!(report.violation, None, "vetch-fence-sim seed {seed}");
    }
}

#[test]
fn one_seed_is_one_story() {
    for seed in 1..=20 {
        assert_eq!(sim::run(seed, true).trace, sim::run(seed, true).trace);
    }
}
