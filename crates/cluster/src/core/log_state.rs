//! Log state: the validity rule. What a server knows after reading a log up to a position is a
//! function of the records there, and of nothing else; so all servers that read the same log agree.
//!
//! A record is accepted if it chains: its first entry is of the current epoch and follows the tip
//! in sequence number, hash and revision, or it is a new-epoch entry of a higher epoch that does.
//! Everything else is ignored and changes nothing:
//!
//! * `StaleEpoch`: written by a leader that has been replaced.
//! * `LostElection`: a new-epoch entry that came second, or was built on a tip that has moved on.
//! * `Duplicate`: a sequence number already taken, by the same entry.
//! * `Gap`: a sequence number too far ahead, of the current epoch. Its predecessor was refused or
//!   lost on the way, while another record happened to fill the position that was expected to be
//!   the predecessor's. Its leader cannot have acknowledged it.
//!
//! A server that has nothing and reads a seed first needs the checkpoint that the seed builds on.
//! That, and what an honest log cannot show, is a `Divergence`; it leaves the log state unchanged.

use std::collections::VecDeque;

use bytes::Bytes;
use vetch_journal::{Entry, Hash, Kind, Position, Tip};
use vetch_seeded_bugs::Bug;

use super::divergence::Divergence;
use super::record::{Record, ReplicaId, is_seed};

/// How many of the last entries and records are remembered by their hashes.
const HASHES_MAX: usize = 1024;

/// The log up to a position.
#[derive(Clone, Debug)]
pub struct LogState {
    position: Position,
    tip: Tip,
    /// The position of the record that made the tip.
    tip_at: Position,
    /// The leader of the current epoch, if its new-epoch entry was read here.
    leader: Option<ReplicaId>,
    entries: RecentHashes,
    records: RecentHashes,
}

/// What a record means to every server that reads it at its position.
#[derive(Debug)]
pub enum ReadOutcome {
    /// Its entries are committed, each with the tip after it.
    Accepted(Vec<(Entry, Tip)>),
    Ignored(Ignored),
}

/// Why a record is not committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ignored {
    /// Of a leader that has been replaced.
    StaleEpoch,
    /// A new-epoch entry behind another entry of the same sequence number.
    LostElection,
    /// Its sequence number is taken, by the same entry.
    Duplicate,
    /// Its predecessor is not in the log.
    Gap,
}

/// A proven place in the order: `tip` was made by the record at `position`. A server that has read
/// that record has reached the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogIndex {
    pub position: Position,
    pub tip: Tip,
}

impl LogState {
    /// Begins where a checkpoint was taken. Without one: `Position(0)` and a genesis tip.
    pub fn new(start: LogIndex) -> LogState {
        LogState {
            position: start.position,
            tip: start.tip,
            tip_at: start.position,
            leader: None,
            entries: RecentHashes::behind(start.tip.seq.get(), start.tip.hash),
            records: RecentHashes::behind(start.position.0, start.tip.hash),
        }
    }

    pub fn position(&self) -> Position {
        self.position
    }

    pub fn tip(&self) -> &Tip {
        &self.tip
    }

    /// What a checkpoint taken here must remember. Ignored records behind the tip will be read
    /// again.
    pub fn index(&self) -> LogIndex {
        LogIndex { position: self.tip_at, tip: self.tip }
    }

    pub fn leader(&self) -> Option<ReplicaId> {
        self.leader
    }

    /// Reads the record behind the last one. Returns its last hash and what it means.
    pub fn read(&mut self, at: Position, bytes: &Bytes) -> Result<(Hash, ReadOutcome), Divergence> {
        assert_eq!(at.0, self.position.0 + 1, "records are read one after another");
        let record = Record::decode(bytes).map_err(|why| Divergence::Damaged { at: at.0, why })?;
        let last_hash = record.last_hash();
        let outcome = match self.judge(at, &record)? {
            None => ReadOutcome::Accepted(self.accept(at, record)?),
            Some(ignored) => ReadOutcome::Ignored(ignored),
        };
        self.position = at;
        self.records.push(last_hash);
        Ok((last_hash, outcome))
    }

    /// Compares a record with the one that was read at its position before. A position whose hash
    /// is forgotten passes.
    pub fn reread(&self, at: Position, bytes: &Bytes) -> Result<(), Divergence> {
        let record = Record::decode(bytes).map_err(|why| Divergence::Damaged { at: at.0, why })?;
        let differs = self.records.get(at.0).is_some_and(|known| known != record.last_hash());
        if differs && !vetch_seeded_bugs::on(Bug::RereadUnchecked) {
            return Err(Divergence::Overwritten { at: at.0 });
        }
        Ok(())
    }

    /// Whether this state has reached `index`. An error if it is past the index and holds another
    /// entry there. False if the index is too old to be compared: the caller needs a new one.
    pub fn reached(&self, index: &LogIndex) -> Result<bool, Divergence> {
        if self.tip.seq >= index.tip.seq {
            return match self.entries.get(index.tip.seq.get()) {
                Some(known) if known != index.tip.hash => {
                    Err(Divergence::forked(index.position, "its leader has another entry there"))
                }
                known => Ok(known.is_some()),
            };
        }
        if self.position >= index.position {
            return Err(Divergence::missing(
                index.position,
                index.tip.epoch,
                index.tip.seq.next(),
                &self.tip,
            ));
        }
        Ok(false)
    }

    /// Why the record is ignored, or `None` if it may chain.
    fn judge(&self, at: Position, record: &Record) -> Result<Option<Ignored>, Divergence> {
        let first = record.first();
        if first.kind == Kind::NewEpoch {
            self.judge_new_epoch(at, first)
        } else {
            self.judge_entries(at, record)
        }
    }

    fn judge_new_epoch(&self, at: Position, entry: &Entry) -> Result<Option<Ignored>, Divergence> {
        if is_seed(entry) && self.position.0 == 0 {
            return Err(Divergence::Seeded { at: at.0 });
        }
        if entry.epoch <= self.tip.epoch {
            return Ok(Some(Ignored::LostElection));
        }
        if entry.seq > self.tip.seq.next() {
            return Err(Divergence::missing(at, entry.epoch, entry.seq, &self.tip));
        }
        let built_on = entry.seq.prev_or_zero();
        if self.entries.get(built_on.get()).is_some_and(|known| known != entry.prev_hash) {
            return Err(Divergence::forked(
                at,
                format!("the first entry of epoch {} builds on another entry {built_on}", entry.epoch),
            ));
        }
        Ok((entry.seq <= self.tip.seq).then_some(Ignored::LostElection))
    }

    fn judge_entries(&self, at: Position, record: &Record) -> Result<Option<Ignored>, Divergence> {
        let first = record.first();
        if first.epoch > self.tip.epoch {
            return Err(Divergence::missing(at, first.epoch, first.seq, &self.tip));
        }
        if first.epoch < self.tip.epoch && !vetch_seeded_bugs::on(Bug::OldEpochRead) {
            return Ok(Some(Ignored::StaleEpoch));
        }
        if first.seq <= self.tip.seq {
            let same = |(entry, hash): &(Entry, Hash)| {
                self.entries.get(entry.seq.get()).is_none_or(|known| known == *hash)
            };
            if first.epoch == self.tip.epoch && !record.entries().iter().all(same) {
                return Err(Divergence::forked(
                    at,
                    format!("there is another entry {} in this epoch", first.seq),
                ));
            }
            return Ok(Some(Ignored::Duplicate));
        }
        if first.seq > self.tip.seq.next() && vetch_seeded_bugs::on(Bug::OrphanHalts) {
            return Err(Divergence::missing(at, first.epoch, first.seq, &self.tip));
        }
        Ok((first.seq > self.tip.seq.next()).then_some(Ignored::Gap))
    }

    fn accept(&mut self, at: Position, record: Record) -> Result<Vec<(Entry, Tip)>, Divergence> {
        let candidate = record.candidate();
        let mut tip = self.tip;
        let mut accepted = Vec::with_capacity(record.entries().len());
        for (entry, hash) in record.into_entries() {
            if let Some(what) = entry.unsupported() {
                return Err(Divergence::NotSupported { at: at.0, what });
            }
            tip = tip.accept(&entry, hash).map_err(|error| Divergence::chain(at, &error))?;
            accepted.push((entry, tip));
        }
        assert!(at > self.tip_at, "records are committed in the order of the log");
        self.assert_continued_by(&tip, accepted.len(), candidate);
        accepted.iter().for_each(|(_, tip)| self.entries.push(tip.hash));
        self.tip = tip;
        self.tip_at = at;
        self.leader = candidate.or(self.leader);
        Ok(accepted)
    }

    /// Committed entries are never taken back, sequence numbers are contiguous, epochs never go
    /// back, and an epoch has one leader. `judge` and `Tip::accept` ensure this; a violation is a
    /// bug that must not reach clients.
    fn assert_continued_by(&self, tip: &Tip, entries: usize, candidate: Option<ReplicaId>) {
        assert_eq!(tip.seq, self.tip.seq.plus(entries as u64), "sequence numbers are contiguous");
        assert!(tip.epoch >= self.tip.epoch, "epochs never go back");
        assert!(tip.next_rev >= self.tip.next_rev, "revisions never go back");
        assert!(candidate.is_none() || tip.epoch > self.tip.epoch, "an epoch has one leader");
    }
}

/// Hashes of the last few members of a contiguous sequence.
#[derive(Clone, Debug)]
struct RecentHashes {
    /// The number of the last hash.
    last: u64,
    hashes: VecDeque<Hash>,
}

impl RecentHashes {
    fn behind(last: u64, hash: Hash) -> RecentHashes {
        RecentHashes { last, hashes: VecDeque::from([hash]) }
    }

    fn push(&mut self, hash: Hash) {
        if self.hashes.len() == HASHES_MAX {
            self.hashes.pop_front();
        }
        self.hashes.push_back(hash);
        self.last += 1;
    }

    fn get(&self, number: u64) -> Option<Hash> {
        let back = self.last.checked_sub(number)?;
        let at = (self.hashes.len() as u64).checked_sub(back + 1)?;
        self.hashes.get(at as usize).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::record::new_epoch;
    use vetch_journal::{ChainedEntry, Draft, PartId, PayloadRef};

    /// This version must not skip what it cannot act on.
    #[test]
    fn reserved_kinds_and_payloads_elsewhere_are_refused() {
        let outside = |tip: &mut Tip| -> ChainedEntry {
            let mut draft = Draft::new(Kind::Writes);
            draft.push_ref(
                PartId::default(),
                1,
                &PayloadRef { stream: 1, position: 2, len: 3, hash: [4; 32] },
            );
            draft.chain(tip)
        };
        for reserved in [outside, |tip: &mut Tip| Draft::new(Kind::Own).chain(tip)] {
            let genesis = Tip::genesis(2);
            let mut state = LogState::new(LogIndex { position: Position(0), tip: genesis });
            let elected = new_epoch(ReplicaId { member: 1, incarnation: 2 }, genesis);
            state.read(Position(1), elected.bytes()).unwrap();
            let entry = reserved(&mut elected.after().clone());
            let before = *state.tip();
            let refused = state.read(Position(2), entry.bytes());
            assert!(matches!(refused, Err(Divergence::NotSupported { at: 2, .. })), "{refused:?}");
            assert_eq!(
                (state.position(), *state.tip()),
                (Position(1), before),
                "it leaves the state unchanged"
            );
        }
    }
}
