//! The power goes at every operation of every run of every life.

use vetch_journal::Fault;

use super::judge::Judge;
use super::life::Life;
use super::{seeds, tell};

#[test]
fn power_loss_at_any_operation_leaves_the_old_or_the_new_checkpoint() {
    let (mut points, mut cases, mut distinct, mut old, mut new) = (0, 0, 0, 0, 0);
    for seed in seeds(50) {
        let mut judge = Judge { with_damage: true, ..Judge::default() };
        for at in 0.. {
            let mut life = Life::new(seed);
            life.world.disk.inject(Fault::CrashAt(at));
            let outcome = life.live();
            if !life.world.disk.has_crashed() {
                outcome.unwrap();
                break;
            }
            points += 1;
            // A crash while old files are removed is no failure of the run: what was published
            // stays.
            let allowed = if outcome.is_ok() { vec![life.after] } else { vec![life.before, life.after] };
            judge.power_loss(&life, 6, &allowed, &format!("life {seed}, power lost at operation {at}"));
        }
        cases += judge.cases;
        distinct += judge.distinct;
        (old, new) = (old + judge.old, new + judge.new);
    }
    tell(&format!(
        "checkpoint, power loss: {points} crash points, {cases} cases, {distinct} different disks, {old} with the \
         checkpoint before, {new} with the new one"
    ));
    assert!(old > 10 * seeds(50).end && new > seeds(50).end, "both outcomes were seen: {old} {new}");
}
