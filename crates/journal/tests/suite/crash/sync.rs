//! Every sync of every workload fails. The writer is then finished for good; whatever comes next,
//! the next process on the same kernel or after a power loss, finds everything that was
//! acknowledged, and nothing of it is lost later.

use std::sync::Arc;

use vetch_journal::{Fault, Journal, JournalError, LocalJournal, MemDisk, Op, Pending, Position};
use vetch_testkit::faulty_disk::{Calls, FaultyDisk};

use super::judge::Judge;
use super::life::Life;
use super::workload::{Step, Workload};
use super::{for_seeds, workloads};
use crate::support::{append, batch, fresh, genesis, noise, recover, tell};

/// Lives until the sync fails. The journal is returned if it failed under one that was open.
fn live(life: &mut Life, workload: &Workload) -> (Option<LocalJournal>, Result<(), JournalError>) {
    let mut journal = match life.start() {
        Ok(journal) => journal,
        Err(error) => return (None, Err(error)),
    };
    let outcome = life.work(&mut journal, &workload.steps);
    let was_starting = matches!(workload.steps[life.done - 1], Step::Restart);
    (Some(journal).filter(|_| !was_starting), outcome)
}

/// A poisoned writer does nothing any more, and keeps naming the first cause.
fn assert_finished(journal: &mut LocalJournal, cause: &str) {
    let chained = batch(journal, &[noise(9, 50)]);
    let refusals = [
        journal.append_batch(&chained).map(drop),
        journal.claim().map(drop),
        journal.trim(Position(1)),
        journal.read(genesis()).map(drop),
    ];
    for refusal in refusals {
        let refusal = refusal.expect_err("poisoned");
        assert!(matches!(refusal, JournalError::Poisoned(_)), "{refusal}");
        assert_eq!(refusal.to_string(), cause);
    }
}

/// What was acknowledged, after the next process read and claimed on the kernel that the failure
/// left, survives every power loss.
fn go_on_without_reboot(life: &Life, judge: &mut Judge, what: &str) {
    let life = &mut life.killed();
    let mut journal = life.start().unwrap_or_else(|error| panic!("{what}: {error}"));
    judge.power_loss(life, 4, 2, &format!("{what}, after the next claim"));
    life.work(&mut journal, &[Step::Append(vec![noise(1, 700)])]).expect("no more faults");
    judge.power_loss(life, 4, 2, &format!("{what}, after the next append"));
}

fn enumerate(workload: &Workload, seed: u64) -> [u64; 4] {
    let mut judge = Judge::new(0);
    let (mut poisoned, mut passed) = (0, 0);
    for at in 0.. {
        let disk = MemDisk::new();
        let faulty = FaultyDisk::new(&disk, Calls::Syncs, at, false);
        let mut life = Life::on(disk, Arc::new(faulty.clone()), &workload.config);
        life.retries = true;
        let (journal, outcome) = live(&mut life, workload);
        if !faulty.was_hit() {
            outcome.expect("nothing failed");
            break;
        }
        let what = format!("workload {seed}, sync {at} failed");
        match (&outcome, journal) {
            (Err(JournalError::Poisoned(_)), Some(mut journal)) => {
                assert_finished(&mut journal, &outcome.as_ref().expect_err("matched").to_string());
                poisoned += 1;
            }
            (Err(JournalError::Poisoned(_) | JournalError::Io { .. }), _) => poisoned += 1,
            (Err(other), _) => panic!("{what}: {other}"),
            // The sync of a spare or of a removal: nothing acknowledged depends on it, and it was
            // done again.
            (Ok(()), _) => {
                assert!(life.retried > 0, "{what}: the failure went unnoticed");
                passed += 1;
            }
        }
        judge.power_loss(&life, 6, 4, &what);
        go_on_without_reboot(&life, &mut judge, &what);
    }
    [poisoned, passed, judge.cases, judge.distinct]
}

#[test]
fn a_failed_sync_anywhere_ends_the_writer_and_loses_nothing_acknowledged() {
    let count = workloads(50);
    let [poisoned, passed, cases, distinct] =
        for_seeds(count, |seed| enumerate(&Workload::new(seed, 14), seed));
    tell!(
        "journal, failed syncs: {count} workloads, {} failures ({poisoned} ended the process, {passed} were made good), \
         {cases} cases, {distinct} different disks",
        poisoned + passed
    );
    assert!(poisoned > 5 * count && passed > count, "{poisoned} {passed}");
}

#[test]
fn a_failed_sync_of_a_member_of_several_loses_nothing_and_brings_nothing_back() {
    let count = workloads(50);
    let [poisoned, passed, cases, distinct] =
        for_seeds(count, |seed| enumerate(&Workload::of_member(seed, 14), seed));
    tell!(
        "journal, failed syncs of a member: {count} workloads, {poisoned} ended the process, {passed} were made good, \
         {cases} cases, {distinct} different disks"
    );
    assert!(poisoned > 5 * count, "{poisoned}");
}

/// What a start could not zero does not come back behind what was appended since.
#[test]
fn a_torn_end_whose_removal_failed_stays_away() {
    let disk = MemDisk::new();
    let mut journal = fresh(&disk);
    disk.inject(Fault::CrashAt(1));
    append(&mut journal, &[noise(1, 1200)]).expect_err("the power goes");
    let disk = disk.power_loss(&mut |pending| !matches!(pending, Pending::Sector { sector: 1, .. }));
    disk.inject(Fault::FailNext(Op::SyncData, std::io::ErrorKind::Other));
    assert!(recover(&disk, genesis()).is_err(), "the end cannot be made zero");
    let disk = disk.process_killed();
    let (_, mut journal, report) = recover(&disk, genesis()).expect("it looks zero");
    assert!(report.cut.is_none());
    journal.claim().expect("one sector");
    let booted = disk.power_loss(&mut |_| false);
    assert_eq!(recover(&booted, genesis()).expect("nothing is damaged").0.len(), 2);
}
