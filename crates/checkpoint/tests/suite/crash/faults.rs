//! Every sync, every read and everything that takes space fails, in every run and in loading. A run
//! then fails and is made good by the next one, or copes; loading is refused, falls back or
//! succeeds. Nothing is ever wrong.

use std::sync::Arc;

use vetch_journal::{Disk, MemDisk};
use vetch_testkit::faulty_disk::{Calls, FaultyDisk};

use super::judge::Judge;
use super::life::Life;
use super::{seeds, tell};
use crate::world::open_through;

/// A life of which one call fails. Afterwards the power goes, the process is restarted, and the
/// life goes on.
fn fail_in_runs(calls: Calls, judge: &mut Judge) -> (u64, u64) {
    let (mut failed, mut coped) = (0, 0);
    // The very first sync is made by loading, before the life begins; if it fails, nothing begins.
    let first = u64::from(matches!(calls, Calls::Syncs));
    for seed in seeds(50) {
        for at in first.. {
            let disk = MemDisk::new();
            let faulty = FaultyDisk::new(&disk, calls, at, false);
            let mut life = Life::on(seed, disk, Arc::new(faulty.clone()));
            let outcome = life.live();
            if !faulty.was_hit() {
                outcome.unwrap();
                break;
            }
            let what = format!("life {seed}, {calls:?} {at} failed");
            // A run that failed may have got its name in place all the same, or not: it was not
            // promised.
            let allowed = if outcome.is_ok() { vec![life.after] } else { vec![life.before, life.after] };
            failed += u64::from(outcome.is_err());
            coped += u64::from(outcome.is_ok());
            judge.power_loss(&life, 4, &allowed, &what);
            let next = life.killed();
            judge.with_damage = false;
            judge.power_loss(&next, 4, &allowed, &format!("{what}, then restarted"));
            judge.with_damage = true;
            life.write_some();
            life.checkpoint().unwrap_or_else(|error| panic!("{what}, the next run: {error}"));
            judge.power_loss(&life, 4, &[life.after], &format!("{what}, after the next run"));
        }
    }
    (failed, coped)
}

#[test]
fn a_failed_sync_or_a_full_disk_anywhere_leaves_the_last_checkpoint_and_the_next_run_makes_up_for_it() {
    for calls in [Calls::Syncs, Calls::Space] {
        let mut judge = Judge { with_damage: true, ..Judge::default() };
        let (failed, coped) = fail_in_runs(calls, &mut judge);
        tell(&format!(
            "checkpoint, {calls:?} failing: {failed} runs failed, {coped} coped, {} cases, {} different disks",
            judge.cases, judge.distinct
        ));
        assert!(failed > 3 * seeds(50).end, "{failed}");
    }
}

/// Reads fail while old files are rewritten: that file is left alone, and the run succeeds.
#[test]
fn a_failed_read_anywhere_in_a_run_loses_nothing() {
    let mut judge = Judge::default();
    let mut cases = 0;
    for seed in seeds(50) {
        for at in 0.. {
            let disk = MemDisk::new();
            let faulty = FaultyDisk::new(&disk, Calls::Reads, at, false);
            let mut life = Life::on(seed, disk, Arc::new(faulty.clone()));
            life.live().unwrap();
            if !faulty.was_hit() {
                break;
            }
            cases += 1;
            judge.power_loss(&life, 4, &[life.after], &format!("life {seed}, read {at} failed"));
        }
    }
    tell(&format!("checkpoint, reads failing in runs: {cases} failures, {} cases", judge.cases));
    assert!(cases > seeds(50).end, "{cases}");
}

#[test]
fn a_failed_read_anywhere_in_loading_is_refused_falls_back_or_is_harmless() {
    let (mut refused, mut fell_back, mut harmless) = (0, 0, 0);
    for seed in seeds(50) {
        let mut life = Life::new(seed);
        life.live().unwrap();
        let world = &life.world;
        for (calls, stays) in [(Calls::Reads, false), (Calls::Reads, true), (Calls::ShortReads, false)] {
            for at in 0.. {
                let disk = world.disk.process_exit();
                let faulty = FaultyDisk::new(&disk, calls, at, stays);
                let view: Arc<dyn Disk> = Arc::new(faulty.clone());
                let loaded = open_through(view, world.config, &world.keys);
                if !faulty.was_hit() {
                    break;
                }
                match loaded {
                    Err(_) => refused += 1,
                    Ok(loaded) => {
                        let is_back = loaded.report.fell_back.is_some();
                        assert!(
                            loaded.tip.seq >= life.trimmed,
                            "life {seed}, {calls:?} {at}: the journal is gone"
                        );
                        assert!(
                            is_back || loaded.tip == life.after,
                            "life {seed}, {calls:?} {at}: without a word"
                        );
                        world.assert_same(&world.replay(&disk, loaded));
                        fell_back += u64::from(is_back);
                        harmless += u64::from(!is_back);
                    }
                }
                // Once the disk can be read again, nothing is missing.
                assert_eq!(open_through(Arc::new(disk), world.config, &world.keys).unwrap().tip, life.after);
            }
        }
    }
    tell(&format!(
        "checkpoint, reads failing in loading: {refused} refused, {fell_back} fell back, {harmless} harmless"
    ));
    assert!(refused > 5 * seeds(50).end && fell_back > 5 * seeds(50).end, "{refused} {fell_back} {harmless}");
}
