//! A life: a process that works through a workload on a disk, and what the outside world knows of
//! it.

use std::sync::Arc;

use vetch_journal::{
    Disk, Draft, Entry, Journal, JournalError, Kind, LocalConfig, LocalJournal, MemDisk, Position,
    RecoveryReport, Tip,
};

use super::workload::{RINGS, Step, Workload};
use crate::encryption::ring;
use crate::support::{batch, decoded, dir, genesis};

pub(super) struct Life {
    pub(super) disk: MemDisk,
    /// What the process sees of the disk.
    pub(super) view: Arc<dyn Disk>,
    pub(super) config: LocalConfig,
    /// Entries acknowledged, from the first on.
    pub(super) acked: Vec<Entry>,
    /// The batch that was given last, if it was not acknowledged.
    pub(super) in_flight: Vec<Entry>,
    /// The tip of a durable checkpoint; entries up to it may be trimmed.
    pub(super) checkpoint: Tip,
    /// Steps that were begun.
    pub(super) done: usize,
    /// Whether calls that said that they may be made again are made again, once.
    pub(super) retries: bool,
    pub(super) retried: u64,
}

impl Life {
    pub(super) fn new(config: &LocalConfig) -> Life {
        let disk = MemDisk::new();
        Life::on(disk.clone(), Arc::new(disk), config)
    }

    pub(super) fn on(disk: MemDisk, view: Arc<dyn Disk>, config: &LocalConfig) -> Life {
        // Lives share the keys, and each begins with the same ones.
        if config.keys.ring().ids().next().is_some() {
            config.keys.replace(ring(RINGS[0]));
        }
        let (acked, in_flight, checkpoint) = (Vec::new(), Vec::new(), genesis());
        let config = config.clone();
        Life { disk, view, config, acked, in_flight, checkpoint, done: 0, retries: false, retried: 0 }
    }

    /// This life on the disk as the next process finds it, unsynced work included.
    pub(super) fn killed(&self) -> Life {
        let disk = self.disk.process_killed();
        let life = Life::on(disk.clone(), Arc::new(disk), &self.config);
        let (acked, in_flight) = (self.acked.clone(), self.in_flight.clone());
        Life { acked, in_flight, checkpoint: self.checkpoint, ..life }
    }

    /// Everything from the first recovery to the end of the workload, or to the first failure.
    pub(super) fn live(&mut self, workload: &Workload) -> Result<(), JournalError> {
        let mut journal = self.start()?;
        self.work(&mut journal, &workload.steps)
    }

    /// Goes on with a workload where a life before stopped.
    pub(super) fn work(&mut self, journal: &mut LocalJournal, steps: &[Step]) -> Result<(), JournalError> {
        for step in steps {
            self.done += 1;
            match step {
                Step::Append(payloads) => self.append(journal, payloads)?,
                Step::Maintain => self.again(|| journal.maintenance().run().map(drop))?,
                Step::Trim => {
                    self.checkpoint = *journal.tip();
                    self.again(|| journal.trim(Position(journal.tip().seq.next().get())))?;
                }
                Step::Retire => {
                    self.checkpoint = *journal.tip();
                    journal.retire(Position(journal.tip().seq.next().get()))?;
                }
                Step::Rekey(to, at_once) => {
                    self.config.keys.replace(ring(RINGS[*to]));
                    if *at_once {
                        self.again(|| journal.follow_keys().map(drop))?;
                    }
                }
                Step::ReadBack => {
                    let mut read = journal.read(self.checkpoint)?;
                    let mut entries = Vec::new();
                    while let Some(item) = read.next_entry()? {
                        entries.push(item.entry);
                    }
                    assert_eq!(entries, self.behind_checkpoint());
                }
                Step::Restart => {
                    // The directory is taken until the last handle is gone.
                    let old = std::mem::replace(journal, placeholder());
                    drop(old);
                    *journal = self.start()?;
                }
            }
        }
        Ok(())
    }

    /// Recovers and claims. What is found becomes what is known to be durable, after it was
    /// compared with it.
    pub(super) fn start(&mut self) -> Result<LocalJournal, JournalError> {
        let (found, mut journal, _) = recover(self.view.clone(), &self.config, self.checkpoint)?;
        self.learn(&found);
        let mut tip = *journal.tip();
        self.in_flight = decoded(&[Draft::new(Kind::NewEpoch).chain(&mut tip)]);
        self.again(|| journal.claim().map(drop))?;
        self.acked.append(&mut self.in_flight);
        Ok(journal)
    }

    fn append(&mut self, journal: &mut LocalJournal, payloads: &[Vec<u8>]) -> Result<(), JournalError> {
        let chained = batch(journal, payloads);
        self.in_flight = decoded(&chained);
        self.again(|| journal.append_batch(&chained).map(drop))?;
        self.acked.append(&mut self.in_flight);
        Ok(())
    }

    fn again(&mut self, mut call: impl FnMut() -> Result<(), JournalError>) -> Result<(), JournalError> {
        match call() {
            Err(error) if self.retries && error.may_retry() => {
                self.retried += 1;
                call()
            }
            outcome => outcome,
        }
    }

    /// Compares what a recovery found with what is known, then takes it as known.
    fn learn(&mut self, found: &[Entry]) {
        self.assert_known(found, "at the start of a life");
        if self.in_flight.last().is_some_and(|last| found.last() == Some(last)) {
            self.acked.append(&mut self.in_flight);
        }
        self.in_flight.clear();
    }

    /// Everything acknowledged was found, and of the last batch all or nothing.
    pub(super) fn assert_known(&self, found: &[Entry], what: &str) {
        let known = self.behind_checkpoint();
        let with_last = [&known[..], &self.in_flight[..]].concat();
        assert!(found == known || found == with_last, "{what}: {} known, {} found", known.len(), found.len());
    }

    /// Acknowledged entries that no checkpoint covers.
    pub(super) fn behind_checkpoint(&self) -> Vec<Entry> {
        self.acked.iter().filter(|entry| entry.seq > self.checkpoint.seq).cloned().collect()
    }
}

/// A journal that is not in anybody's way.
fn placeholder() -> LocalJournal {
    let config = LocalConfig { new_journal_id: Some(1), ..LocalConfig::default() };
    recover(Arc::new(MemDisk::new()), &config, genesis()).expect("an empty directory").1
}

/// Recovers from `start`: the entries behind it, the journal and the report.
pub(super) fn recover(
    disk: Arc<dyn Disk>,
    config: &LocalConfig,
    start: Tip,
) -> Result<(Vec<Entry>, LocalJournal, RecoveryReport), JournalError> {
    let mut recovery = LocalJournal::recover(disk, &dir(), config.clone(), start)?;
    let mut entries = Vec::new();
    while let Some(item) = recovery.next_entry()? {
        assert_eq!(item.position.0, item.entry.seq.get());
        entries.push(item.entry);
    }
    let (journal, report) = recovery.finish()?;
    assert_eq!(report.entries, entries.len() as u64);
    Ok((entries, journal, report))
}
