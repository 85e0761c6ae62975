//! Crash enumeration: the power goes at every counted operation of a small life, and every subset of what was pending
//! survives (all subsets where there are few, a spread of them where there are many).
//!
//! Judged each time: what recovery finds is a prefix of what was given, contains everything acknowledged, and has each
//! batch entirely or not at all; recovering again, even after the power went during recovery, finds the same; and the
//! journal goes on from there.

use vetch_journal::{Entry, Fault, Journal, JournalError, MemDisk, Pending, Position, Tip};

use crate::support::{Rng, append, batch, decoded, fresh, genesis, noise, recover};

/// What the outside world knows when the power goes.
struct World {
    disk: MemDisk,
    /// Entries acknowledged, from the first on.
    acked: Vec<Entry>,
    /// The batch that was given last, if it was not acknowledged.
    in_flight: Vec<Entry>,
    /// The tip of a durable checkpoint; entries up to it may be trimmed.
    checkpoint: Tip,
}

impl World {
    fn new() -> World {
        let disk = MemDisk::new();
        World { disk, acked: Vec::new(), in_flight: Vec::new(), checkpoint: genesis() }
    }

    /// One life, up to the first failure.
    fn live(&mut self) -> Result<(), JournalError> {
        let mut journal = self.start()?;
        self.append(&mut journal, &[noise(1, 30), noise(2, 40)])?;
        journal.maintenance().run()?;
        self.append(&mut journal, &[[noise(3, 300), vec![0; 1100], noise(4, 200)].concat()])?;
        self.append(&mut journal, &[noise(5, 900)])?;
        let checkpoint = *journal.tip();
        // Larger than a segment.
        self.append(&mut journal, &[noise(6, 100), noise(7, 3000)])?;
        self.append(&mut journal, &[noise(8, 10)])?;
        self.checkpoint = checkpoint;
        journal.trim(Position(checkpoint.seq + 1))?;
        drop(journal);
        let mut journal = self.start()?;
        journal.maintenance().run()?;
        self.append(&mut journal, &[vec![0; 1500]])?;
        self.append(&mut journal, &[noise(9, 700)])
    }

    fn start(&mut self) -> Result<vetch_journal::LocalJournal, JournalError> {
        let (_, mut journal, _) = recover(&self.disk, self.checkpoint)?;
        let mut tip = *journal.tip();
        let claim = vetch_journal::Draft::new(vetch_journal::Kind::NewEpoch).seal(&mut tip);
        self.in_flight = decoded(&[claim]);
        journal.claim()?;
        self.acked.append(&mut self.in_flight);
        Ok(journal)
    }

    fn append(
        &mut self,
        journal: &mut vetch_journal::LocalJournal,
        payloads: &[Vec<u8>],
    ) -> Result<(), JournalError> {
        let sealed = batch(journal, payloads);
        self.in_flight = decoded(&sealed);
        journal.append_batch(&sealed)?;
        self.acked.append(&mut self.in_flight);
        Ok(())
    }

    fn judge(&self, disk: &MemDisk, what: &str) {
        let torn = &disk.process_exit();
        let (found, journal, first) =
            recover(disk, self.checkpoint).unwrap_or_else(|e| panic!("{what}: {e}"));
        drop(journal);
        let behind = |entries: &[Entry]| -> Vec<Entry> {
            entries.iter().filter(|entry| entry.seq > self.checkpoint.seq).cloned().collect()
        };
        let acked = behind(&self.acked);
        let all = behind(&[self.acked.clone(), self.in_flight.clone()].concat());
        assert!(found == acked || found == all, "{what}: {} acked, {} found", acked.len(), found.len());
        // Without a torn tail the second life is an ordinary one, which the first life covers.
        if first.cut.is_some() {
            self.judge_again(torn, &found, what);
        }
        let (again, mut journal, report) = recover(disk, self.checkpoint).expect("recovered before");
        assert_eq!(again, found, "{what}: recovering again");
        assert_eq!(report.cut, None, "{what}: a cut is cut once");
        journal.claim().expect("a recovered journal goes on");
        append(&mut journal, &[noise(77, 1200)]).expect("a recovered journal goes on");
        drop(journal);
        let (more, _, _) = recover(disk, self.checkpoint).unwrap_or_else(|e| panic!("{what}, going on: {e}"));
        assert_eq!(more.len(), found.len() + 2, "{what}: going on");
    }

    /// The power goes again, during recovery or the first appends behind it.
    fn judge_again(&self, disk: &MemDisk, found: &[Entry], what: &str) {
        for at in 0..6 {
            let disk = disk.process_exit();
            disk.inject(Fault::CrashAt(at));
            let second_life = recover(&disk, self.checkpoint).and_then(|(_, mut journal, _)| {
                journal.claim()?;
                append(&mut journal, &[noise(78, 1200)])
            });
            assert!(second_life.is_err() || !disk.has_crashed());
            for keep in 0..6u64 {
                let mut n = 0;
                let booted = disk.power_loss(&mut |_| {
                    n += 1;
                    match keep {
                        0 => false,
                        1 => true,
                        _ => (n + keep) % (2 + keep / 4) == 0,
                    }
                });
                let what = format!("{what}; then again at {at}, kept {keep}");
                let (again, _, _) =
                    recover(&booted, self.checkpoint).unwrap_or_else(|e| panic!("{what}: {e}"));
                assert!(again.starts_with(found) && again.len() <= found.len() + 2, "{what}");
            }
        }
    }
}

/// The subsets of `n` pending changes to try, as bit sets.
fn subsets(n: usize, seed: u64) -> Vec<Vec<bool>> {
    if n <= 7 {
        return (0..1u32 << n).map(|bits| (0..n).map(|i| bits & (1 << i) != 0).collect()).collect();
    }
    let mut sets = vec![vec![false; n], vec![true; n]];
    for i in 0..n {
        sets.push((0..n).map(|j| i == j).collect());
        sets.push((0..n).map(|j| i != j).collect());
    }
    let mut rng = Rng(seed);
    for _ in 0..24 {
        sets.push((0..n).map(|_| rng.next().is_multiple_of(2)).collect());
    }
    sets
}

#[test]
fn power_loss_at_every_operation_keeps_everything_acknowledged() {
    let mut whole = World::new();
    whole.live().expect("without faults a life succeeds");
    let ops = whole.disk.ops();
    assert!(ops > 40, "the life is long enough to mean something: {ops}");
    let (mut cases, mut torn) = (0, 0);
    for at in 0..ops {
        let mut world = World::new();
        world.disk.inject(Fault::CrashAt(at));
        world.live().expect_err("the power goes");
        let pending = world.disk.pending();
        for set in subsets(pending.len(), at) {
            let mut fates = set.iter();
            let booted =
                world.disk.power_loss(&mut |_| *fates.next().expect("asked once per pending change"));
            cases += 1;
            torn += u32::from(is_torn(&booted, world.checkpoint));
            world.judge(&booted, &format!("power lost at {at}, kept {set:?} of {pending:?}"));
        }
    }
    assert!(cases > 1000, "many worlds were judged: {cases}");
    assert!(torn > 100, "many of them with torn tails: {torn}");
}

fn is_torn(disk: &MemDisk, start: Tip) -> bool {
    recover(&disk.process_exit(), start).is_ok_and(|(_, _, report)| report.cut.is_some())
}

#[test]
fn a_failed_sync_poisons_for_good_and_loses_nothing_acknowledged() {
    for failing in 0..3 {
        let disk = MemDisk::new();
        let mut journal = fresh(&disk);
        let mut acked = Vec::new();
        for n in 0..failing {
            acked.extend(append(&mut journal, &[noise(n, 50)]).expect("no fault yet"));
        }
        disk.inject(Fault::FailNext(vetch_journal::Op::SyncData, std::io::ErrorKind::Other));
        let sealed = batch(&journal, &[noise(9, 50)]);
        let first = journal.append_batch(&sealed).expect_err("the sync failed");
        assert!(matches!(first, JournalError::Poisoned(_)), "{first}");
        // Trying again would write over the same sectors and believe a sync that covers nothing.
        let again = journal.append_batch(&sealed).expect_err("poisoned");
        assert_eq!(again.to_string(), first.to_string(), "later calls name the first cause");
        assert!(matches!(journal.claim(), Err(JournalError::Poisoned(_))));
        assert!(matches!(journal.trim(Position(1)), Err(JournalError::Poisoned(_))));
        assert!(journal.read(genesis()).is_err());
        let booted = disk.power_loss(&mut |_| true);
        let (found, _, _) = recover(&booted, genesis()).expect("acknowledged data is intact");
        assert_eq!(found[1..], acked[..]);
    }
}

#[test]
fn without_fsync_acknowledged_entries_are_lost_so_the_enumeration_can_fail() {
    let disk = MemDisk::new();
    let config = vetch_journal::LocalConfig { unsafe_no_fsync: true, ..crate::support::tiny() };
    let recovery = vetch_journal::LocalJournal::recover(
        std::sync::Arc::new(disk.clone()),
        &crate::support::dir(),
        config,
        genesis(),
    );
    let (mut journal, _) = recovery.and_then(vetch_journal::Recovery::finish).expect("an empty directory");
    journal.claim().expect("no fault");
    append(&mut journal, &[noise(1, 50)]).expect("no fault");
    let is_sector = |pending: &Pending| matches!(pending, Pending::Sector { .. });
    assert!(disk.pending().iter().any(is_sector), "nothing was synced");
    let booted = disk.power_loss(&mut |pending| !is_sector(pending));
    let (found, _, _) = recover(&booted, genesis()).expect("an empty journal");
    assert!(found.is_empty());
}
