//! The process is killed at every operation of every run, the next one loads what the kernel shows,
//! trims the journal and takes checkpoints of its own, and then the power goes.

use vetch_journal::Fault;

use super::judge::Judge;
use super::life::Life;
use super::{seeds, tell};

#[test]
fn a_run_killed_anywhere_leaves_nothing_that_a_later_power_loss_could_take() {
    let (mut pairs, mut cases, mut distinct) = (0, 0, 0);
    for seed in seeds(12) {
        let mut judge = Judge::default();
        for at in 0.. {
            let mut first = Life::new(seed);
            first.world.disk.inject(Fault::CrashAt(at));
            let _ = first.live();
            if !first.world.disk.has_crashed() {
                break;
            }
            for then in 0.. {
                let mut life = first.killed();
                if then == 0 {
                    let what =
                        format!("life {seed}, killed at operation {at}, then power lost after loading");
                    judge.power_loss(&life, 4, &[first.before, first.after], &what);
                }
                life.write_some();
                life.world.disk.inject(Fault::CrashAt(then));
                let (before, outcome) = (life.before, life.checkpoint());
                if !life.world.disk.has_crashed() {
                    outcome.unwrap();
                    break;
                }
                pairs += 1;
                let what = format!("life {seed}, killed at operation {at}, then power lost at {then}");
                let allowed = [first.before, first.after, before, life.after];
                judge.power_loss(&life, 3, &allowed, &what);
            }
        }
        cases += judge.cases;
        distinct += judge.distinct;
    }
    tell(&format!(
        "checkpoint, kill then power loss: {pairs} pairs of crash points, {cases} cases, {distinct} different disks"
    ));
    assert!(pairs > 50 * seeds(12).end, "{pairs}");
}
