//! The disk is full at everything that takes space. Nothing was written then, the same call
//! succeeds once there is space again, and the life goes on as if nothing had happened; or the
//! writer is finished, as after any failed write.

use std::sync::Arc;

use vetch_journal::{JournalError, MemDisk};
use vetch_testkit::faulty_disk::{Calls, FaultyDisk};

use super::judge::Judge;
use super::life::Life;
use super::workload::Workload;
use super::{for_seeds, workloads};
use crate::support::tell;

fn enumerate(workload: &Workload, seed: u64) -> [u64; 3] {
    let mut judge = Judge::new(0);
    let mut healed = 0;
    for at in 0.. {
        let disk = MemDisk::new();
        let faulty = FaultyDisk::new(&disk, Calls::Space, at, false);
        let mut life = Life::on(disk, Arc::new(faulty.clone()), &workload.config);
        life.retries = true;
        let outcome = life.live(workload);
        let what = format!("workload {seed}, no space at {at}");
        outcome.unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(life.done, workload.steps.len(), "{what}");
        if !faulty.was_hit() {
            break;
        }
        assert_eq!(life.retried, 1, "{what}: the call was told and made again");
        healed += 1;
        judge.power_loss(&life, 5, 2, &what);
    }
    [healed, judge.cases, judge.distinct]
}

/// From some moment on there is no space: appends fail until the end, and everything acknowledged
/// is there.
fn enumerate_for_good(workload: &Workload, seed: u64) -> [u64; 3] {
    let mut judge = Judge::new(0);
    let mut full = 0;
    for at in 0.. {
        let disk = MemDisk::new();
        let faulty = FaultyDisk::new(&disk, Calls::Space, at, true);
        let mut life = Life::on(disk, Arc::new(faulty.clone()), &workload.config);
        life.retries = true;
        let outcome = life.live(workload);
        if !faulty.was_hit() {
            break;
        }
        let what = format!("workload {seed}, no space from {at} on");
        assert!(matches!(outcome, Err(JournalError::NoSpace { .. })), "{what}: {outcome:?}");
        full += 1;
        judge.power_loss(&life, 5, 2, &what);
    }
    [full, judge.cases, judge.distinct]
}

#[test]
fn a_full_disk_anywhere_changes_nothing_and_passes() {
    judge_all(workloads(50), "of one", |seed| Workload::new(seed, 14));
}

#[test]
fn so_does_one_of_a_member_of_several() {
    judge_all(workloads(50), "of a member of several", |seed| Workload::of_member(seed, 14));
}

fn judge_all(count: u64, whose: &str, workload: impl Fn(u64) -> Workload + Sync) {
    let [healed, cases, distinct] = for_seeds(count, |seed| enumerate(&workload(seed), seed));
    let [full, more, others] = for_seeds(count, |seed| enumerate_for_good(&workload(seed), seed));
    tell!(
        "journal, full disk {whose}: {count} workloads, {healed} times for a moment, {full} times for good, {} cases, {} \
         different disks",
        cases + more,
        distinct + others
    );
    assert!(healed > 3 * count && full > 3 * count, "{healed} {full}");
}
