//! A life: a process that works through a workload on a disk, and what the outside world knows of
//! it.

use std::sync::Arc;

use vetch_base::Seq;
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
    /// The entries that may be the last one found, where it is not all or nothing of a batch.
    pub(super) ends: Vec<Seq>,
    /// The last entry that is known to be committed.
    pub(super) committed: Seq,
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
        Life {
            disk,
            view,
            config: config.clone(),
            acked: Vec::new(),
            in_flight: Vec::new(),
            ends: Vec::new(),
            committed: Seq::ZERO,
            checkpoint: genesis(),
            done: 0,
            retries: false,
            retried: 0,
        }
    }

    /// This life on the disk as the next process finds it, unsynced work included.
    pub(super) fn killed(&self) -> Life {
        let disk = self.disk.process_killed();
        let life = Life::on(disk.clone(), Arc::new(disk), &self.config);
        let (acked, in_flight) = (self.acked.clone(), self.in_flight.clone());
        let (ends, committed) = (self.ends.clone(), self.committed);
        Life { acked, in_flight, ends, committed, checkpoint: self.checkpoint, ..life }
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
                    self.checkpoint_here(journal);
                    self.again(|| journal.trim(Position(journal.tip().seq.next().get())))?;
                }
                Step::Retire => {
                    self.checkpoint_here(journal);
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
                Step::Replicate(payloads, open) => self.replicate(journal, payloads, *open)?,
                Step::Cut(entries) => self.cut(journal, *entries)?,
                Step::Begin(ahead) => self.begin(journal, *ahead)?,
                Step::Follow => self.follow(journal),
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
        // A member that is alone has committed what it has.
        self.committed = chained.last().expect("a batch has entries").seq();
        self.again(|| journal.append_batch(&chained).map(drop))?;
        self.acked.append(&mut self.in_flight);
        Ok(())
    }

    /// What is not committed when it comes may be found in part.
    fn replicate(
        &mut self,
        journal: &mut LocalJournal,
        payloads: &[Vec<u8>],
        open: u64,
    ) -> Result<(), JournalError> {
        let chained = batch(journal, payloads);
        let (before, last) = (journal.tip().seq, chained.last().expect("a batch has entries").seq());
        let committed = Seq::new(last.get().saturating_sub(open)).max(self.committed);
        self.in_flight = decoded(&chained);
        let is_end = |end: &Seq| *end == before || *end >= committed.min(last);
        self.ends = (before.get()..=last.get()).map(Seq::new).filter(is_end).collect();
        self.committed = committed;
        if let Err(error) = journal.append_replicated(&chained, committed) {
            let written = journal.tip().seq.since(before) as usize;
            self.acked.extend(self.in_flight.drain(..written));
            if !self.retries || !error.may_retry() {
                return Err(error);
            }
            self.retried += 1;
            journal.append_replicated(&chained[written..], committed)?;
        }
        self.acked.append(&mut self.in_flight);
        self.ends.clear();
        Ok(())
    }

    /// Any part of what is to go may be found, from the old end back.
    fn cut(&mut self, journal: &mut LocalJournal, entries: u64) -> Result<(), JournalError> {
        let last = journal.tip().seq;
        let committed = self.committed.min(last);
        let to = Seq::new(last.get().saturating_sub(entries)).max(committed);
        self.ends = (to.get()..=last.get()).map(Seq::new).collect();
        journal.cut(to, committed)?;
        self.acked.retain(|entry| entry.seq <= to);
        self.ends.clear();
        assert_eq!(journal.tip().seq, to);
        Ok(())
    }

    /// From the moment at which the checkpoint is installed nothing of the old journal counts.
    fn begin(&mut self, journal: &mut LocalJournal, ahead: u64) -> Result<(), JournalError> {
        let (old, committed) = (*journal.tip(), self.committed.min(journal.tip().seq));
        let seq = committed.plus(ahead).max(self.checkpoint.seq);
        let tip = Tip { epoch: old.epoch.next(), seq, hash: [0x5a; 32], next_rev: old.next_rev + 3 };
        self.again(|| journal.announce_begin(tip))?;
        self.checkpoint = tip;
        self.acked.clear();
        self.committed = seq;
        self.again(|| journal.begin_at(tip, committed))
    }

    /// Files and memory give the same entries.
    fn follow(&mut self, journal: &LocalJournal) {
        let expected = self.behind_checkpoint();
        for skipped in [0, expected.len() / 2, expected.len()] {
            let mut reading = journal.entries_from(self.checkpoint.seq.plus(skipped as u64 + 1));
            let mut entries = Vec::new();
            while let Some(entry) = reading.next_entry().expect("it is there") {
                entries.push(Entry::decode(&entry.bytes).expect("an entry"));
            }
            assert!(entries == expected[skipped..], "{} of {} entries", entries.len(), expected.len());
        }
    }

    fn checkpoint_here(&mut self, journal: &LocalJournal) {
        self.checkpoint = *journal.tip();
        self.committed = self.committed.max(self.checkpoint.seq);
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
        self.acked.retain(|entry| entry.seq <= self.checkpoint.seq);
        self.acked.extend_from_slice(found);
        self.in_flight.clear();
        self.ends.clear();
    }

    /// What may be found: these entries, as far as to one of the ends.
    pub(super) fn known(&self) -> (Vec<Entry>, Vec<Seq>) {
        let mut known = self.behind_checkpoint();
        let end = |known: &[Entry]| known.last().map_or(self.checkpoint.seq, |last| last.seq);
        let acked = end(&known);
        known.extend_from_slice(&self.in_flight);
        let ends = if self.ends.is_empty() { vec![acked, end(&known)] } else { self.ends.clone() };
        (known, ends)
    }

    /// Everything acknowledged was found, and of the last batch all or nothing, or as much as may
    /// be.
    pub(super) fn assert_known(&self, found: &[Entry], what: &str) {
        let (known, ends) = self.known();
        let end = found.last().map_or(self.checkpoint.seq, |last| last.seq);
        let fits = known.starts_with(found) && ends.contains(&end);
        assert!(fits, "{what}: {} known, {} found, up to {end} of {ends:?}", known.len(), found.len());
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
