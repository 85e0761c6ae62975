//! A model of a member's disk: what is synced, and what is left of writes that a loss of power
//! interrupts.

use std::sync::{Arc, Mutex, MutexGuard};

use vetch_base::Seq;
use vetch_journal::Hash;
use vetch_raft::{Checkpoint, EntrySource, LogEntry, Persist, Vote};
use vetch_seeded_bugs::Bug;
use vetch_testkit::random::Rng;

/// What is synced.
pub(super) struct Content {
    pub(super) vote: Vote,
    pub(super) checkpoint: Checkpoint,
    /// The last entry that was trimmed.
    floor: Seq,
    /// Those behind it.
    entries: Vec<LogEntry>,
    /// What a disk with a mistake goes back to when it loses power.
    old_vote: Vote,
    old_entries: Option<Vec<LogEntry>>,
}

/// Clones are the same disk.
#[derive(Clone)]
pub(super) struct ModelDisk(Arc<Mutex<Content>>);

impl ModelDisk {
    pub(super) fn new(checkpoint: Checkpoint, vote: Vote) -> ModelDisk {
        let floor = checkpoint.tip.seq;
        ModelDisk(Arc::new(Mutex::new(Content {
            vote,
            checkpoint,
            floor,
            entries: Vec::new(),
            old_vote: vote,
            old_entries: None,
        })))
    }

    pub(super) fn content(&self) -> MutexGuard<'_, Content> {
        self.0.lock().expect("nothing panics under this lock")
    }
}

impl Content {
    pub(super) fn last(&self) -> Seq {
        self.floor.plus(self.entries.len() as u64)
    }

    fn at(&self, seq: Seq) -> Option<&LogEntry> {
        self.entries.get(seq.get().checked_sub(self.floor.get() + 1)? as usize)
    }

    /// Whether an entry is synced, or was before it was trimmed.
    pub(super) fn holds(&self, seq: Seq, hash: &Hash) -> bool {
        seq <= self.checkpoint.tip.seq || self.at(seq).is_some_and(|entry| entry.tip().hash == *hash)
    }

    /// Entries behind the checkpoint.
    pub(super) fn tail(&self) -> Vec<LogEntry> {
        let behind = |entry: &&LogEntry| entry.seq() > self.checkpoint.tip.seq;
        self.entries.iter().filter(behind).cloned().collect()
    }

    pub(super) fn complete(&mut self, write: &Persist) {
        if let Some(vote) = write.vote {
            self.old_vote = self.vote;
            self.vote = vote;
        }
        self.old_entries = write.cut.map(|_| self.entries.clone());
        if let Some(cut) = write.cut {
            self.cut(cut);
        }
        write.entries.iter().for_each(|entry| self.push(entry.clone()));
    }

    fn cut(&mut self, to: Seq) {
        assert!(to >= self.checkpoint.tip.seq, "nothing that a checkpoint covers is cut");
        self.entries.truncate(to.since(self.floor) as usize);
    }

    fn push(&mut self, entry: LogEntry) {
        assert!(entry.seq() == self.last().next(), "a disk has no holes");
        self.entries.push(entry);
    }

    /// The power goes while these writes are under way: a first part of them is left, and of the
    /// last of these an arbitrary part.
    pub(super) fn lose_power<'a>(&mut self, writes: impl Iterator<Item = &'a Persist>, rng: &mut Rng) {
        if vetch_seeded_bugs::on(Bug::VoteUnsynced) {
            self.vote = self.old_vote;
        }
        if vetch_seeded_bugs::on(Bug::CutUnsynced)
            && let Some(entries) = self.old_entries.take()
        {
            self.entries = entries;
        }
        for write in writes {
            if rng.percent(40) {
                self.complete(write);
                continue;
            }
            self.tear(write, rng);
            return;
        }
    }

    fn tear(&mut self, write: &Persist, rng: &mut Rng) {
        if rng.percent(60)
            && let Some(vote) = write.vote
        {
            self.vote = vote;
        } else if write.vote.is_some() {
            // The entries are written behind it.
            return;
        }
        if let Some(cut) = write.cut {
            let left = rng.between(cut.get(), self.last().get().max(cut.get()));
            self.cut(Seq::new(left));
            if left > cut.get() {
                return;
            }
        }
        let kept = rng.between(0, write.entries.len());
        write.entries[..kept].iter().for_each(|entry| self.push(entry.clone()));
    }

    /// A checkpoint of this member's own.
    pub(super) fn save(&mut self, checkpoint: Checkpoint) {
        self.checkpoint = checkpoint;
    }

    /// Drops the oldest entries, which the checkpoint covers.
    pub(super) fn trim(&mut self, floor: Seq) {
        let gone = floor.since(self.floor) as usize;
        self.entries.drain(..gone);
        self.floor = floor;
        self.old_entries = None;
    }

    /// A checkpoint of another member takes the place of everything.
    pub(super) fn begin_at(&mut self, checkpoint: Checkpoint) {
        self.floor = checkpoint.tip.seq;
        self.checkpoint = checkpoint;
        self.entries.clear();
        self.old_entries = None;
    }

    pub(super) fn floor(&self) -> Seq {
        self.floor
    }
}

impl EntrySource for ModelDisk {
    fn read(&self, first: Seq, last: Seq, _: u64) -> Option<Vec<LogEntry>> {
        let content = self.content();
        let mut read = Vec::new();
        let mut next = first;
        // Two at a time, so that several reads make up a message.
        while next <= last && read.len() < 2 {
            read.push(content.at(next)?.clone());
            next = next.next();
        }
        Some(read)
    }
}
