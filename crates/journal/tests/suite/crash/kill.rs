//! The process is killed at every operation, the machine goes on, the next process works for a
//! while, and then the power goes at every operation of that. What the first process left undone in
//! the kernel must not be built upon.

use vetch_journal::{Fault, JournalError};

use super::judge::Judge;
use super::life::Life;
use super::workload::{Step, Workload};
use super::{for_seeds, workloads};
use crate::support::{noise, tell};

/// A life whose process is killed at operation `at`; none if it ended before.
fn killed(workload: &Workload, at: u64) -> Option<Life> {
    let mut life = Life::new(&workload.config);
    life.disk.inject(Fault::CrashAt(at));
    life.live(workload).is_err().then_some(life)
}

/// What the next process does: enough to need room twice.
fn second_life(life: &mut Life) -> Result<(), JournalError> {
    let mut journal = life.start()?;
    let steps = [
        Step::Append(vec![noise(1, 20)]),
        Step::Maintain,
        Step::Append(vec![noise(2, 700), vec![0; 900]]),
        Step::Append(vec![noise(3, 1)]),
    ];
    life.work(&mut journal, &steps)
}

fn enumerate(workload: &Workload, seed: u64) -> [u64; 3] {
    let mut judge = Judge::new(0);
    let mut points = 0;
    for at in 0.. {
        let Some(first) = killed(workload, at) else { break };
        for then in 0.. {
            let mut life = first.killed();
            life.disk.inject(Fault::CrashAt(then));
            let ended = second_life(&mut life);
            if !life.disk.has_crashed() {
                ended.expect("nothing fails but the power");
                break;
            }
            points += 1;
            let what = format!("workload {seed}, killed at operation {at}, then power lost at {then}");
            judge.power_loss(&life, 4, 2, &what);
        }
    }
    [points, judge.cases, judge.distinct]
}

#[test]
fn a_process_killed_anywhere_leaves_nothing_that_a_later_power_loss_could_take() {
    let count = workloads(20);
    let [points, cases, distinct] = for_seeds(count, |seed| enumerate(&Workload::new(seed, 9), seed));
    tell!(
        "journal, kill then power loss: {count} workloads, {points} pairs of crash points, {cases} cases, \
         {distinct} different disks"
    );
    assert!(cases > 500 * count, "{cases} cases");
}

#[test]
fn so_does_one_of_a_member_of_several() {
    let count = workloads(20);
    let [points, cases, distinct] = for_seeds(count, |seed| enumerate(&Workload::of_member(seed, 11), seed));
    tell!(
        "journal, kill of a member then power loss: {count} workloads, {points} pairs of crash points, {cases} cases, \
         {distinct} different disks"
    );
    assert!(cases > 500 * count, "{cases} cases");
}
