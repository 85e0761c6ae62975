//! The power goes at every operation of every workload.

use vetch_journal::{Fault, Journal, LocalConfig, Pending};

use super::judge::Judge;
use super::life::{Life, recover};
use super::workload::Workload;
use super::{for_seeds, workloads};
use crate::support::{append, genesis, noise, tell, tiny};

fn enumerate(workload: Workload, seed: u64, depth: u32) -> [u64; 5] {
    let mut whole = Life::new(&workload.config);
    whole.live(&workload).expect("without faults a life succeeds");
    let ops = whole.disk.ops();
    let mut judge = Judge::new(depth);
    for at in 0..ops {
        let mut life = Life::new(&workload.config);
        life.disk.inject(Fault::CrashAt(at));
        life.live(&workload).expect_err("the power goes");
        judge.power_loss(&life, 7, 8, &format!("workload {seed}, power lost at operation {at}"));
    }
    [ops, judge.cases, judge.nested, judge.distinct, judge.torn]
}

#[test]
fn power_loss_at_every_operation_keeps_everything_acknowledged() {
    let count = workloads(50);
    let [ops, cases, nested, distinct, torn] =
        for_seeds(count, |seed| enumerate(Workload::new(seed, 14), seed, 3));
    tell!(
        "journal, power loss: {count} workloads, {ops} crash points, {cases} cases ({nested} of them power losses \
         during recovery), {distinct} different disks, {torn} torn"
    );
    assert!(cases > 1000 * count && torn > 10 * count, "{cases} cases, {torn} torn");
}

/// With cuts, writes of several records and journals that begin anew among the operations.
#[test]
fn power_loss_at_every_operation_of_a_member_of_several_keeps_what_it_must() {
    let count = workloads(50);
    let [ops, cases, nested, distinct, torn] =
        for_seeds(count, |seed| enumerate(Workload::of_member(seed, 14), seed, 1));
    tell!(
        "journal, power loss of a member: {count} workloads, {ops} crash points, {cases} cases ({nested} of them power \
         losses during recovery), {distinct} different disks, {torn} torn"
    );
    assert!(cases > 1000 * count && torn > 10 * count, "{cases} cases, {torn} torn");
}

#[test]
fn without_fsync_acknowledged_entries_are_lost_so_the_enumeration_can_fail() {
    let config = LocalConfig { unsafe_no_fsync: true, ..tiny() };
    let life = Life::new(&config);
    let (_, mut journal, _) = recover(life.view.clone(), &config, genesis()).expect("an empty directory");
    journal.claim().expect("no fault");
    append(&mut journal, &[noise(1, 50)]).expect("no fault");
    let is_sector = |pending: &Pending| matches!(pending, Pending::Sector { .. });
    assert!(life.disk.pending().iter().any(is_sector), "nothing was synced");
    let booted = life.disk.power_loss(&mut |pending| !is_sector(pending));
    let (found, _, _) = recover(std::sync::Arc::new(booted), &tiny(), genesis()).expect("an empty journal");
    assert!(found.is_empty());
}
