//! Many power losses in one history: each life goes on from what the last one left.

use std::sync::Arc;

use vetch_journal::Fault;
use vetch_testkit::random::Rng;

use super::judge::Judge;
use super::life::Life;
use super::workload::Workload;
use super::{for_seeds, workloads};
use crate::support::tell;

fn history(seed: u64) -> [u64; 3] {
    let workload =
        if seed.is_multiple_of(2) { Workload::new(seed, 40) } else { Workload::of_member(seed / 2, 40) };
    let mut rng = Rng::split_mix(seed);
    let mut judge = Judge::new(1);
    let mut life = Life::new(&workload.config);
    let (mut crashes, mut at_step) = (0, 0);
    while at_step < workload.steps.len() {
        life.disk.inject(Fault::CrashAt(rng.draw() % 40));
        let began = life.done;
        let outcome =
            life.start().and_then(|mut journal| life.work(&mut journal, &workload.steps[at_step..]));
        at_step += life.done - began;
        if outcome.is_ok() {
            break;
        }
        crashes += 1;
        judge.power_loss(&life, 3, 1, &format!("history {seed}, power loss {crashes}"));
        let bias = rng.draw() % 5;
        life.disk = life.disk.power_loss(&mut |_| rng.draw() % 4 < bias);
        life.view = Arc::new(life.disk.clone());
    }
    let last = life.disk.process_exit();
    life.view = Arc::new(last);
    life.start().expect("the last recovery");
    [crashes, judge.cases, judge.distinct]
}

#[test]
fn many_power_losses_in_one_history() {
    let count = workloads(100);
    let [crashes, cases, distinct] = for_seeds(count, history);
    tell!(
        "journal, histories of many power losses: {count} histories, {crashes} power losses, {cases} cases, \
         {distinct} different disks"
    );
    assert!(crashes > 2 * count, "{crashes} power losses in {count} histories");
}
