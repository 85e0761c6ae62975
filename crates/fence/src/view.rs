//! View: the validity rule. What a server knows after reading a log up to a position is a function
//! of what lies there, and of nothing else; so all servers that read the same log agree.
//!
//! A record counts if it chains: its first entry is of the current epoch and follows the tip in
//! number, hash and revision, or it is a claim of a higher epoch that does. Everything else is
//! void, and leaves no trace:
//!
//! * an old epoch: written by a writer that has been replaced, or a claim that came second;
//! * a number already taken: a copy, or a claim built on a tip that has moved on;
//! * a number too far ahead, of the current epoch: its predecessor was refused or lost on the way,
//!   while another record happened to fill the position that was expected to be the predecessor's.
//!   Its writer cannot have acknowledged it.
//!
//! Whoever has nothing and reads a seed first needs the checkpoint that it builds on: that, too, is
//! told as a `Divergence`.
//!
//! What an honest log cannot show is a `Divergence`. A view is never moved by one.

use std::collections::VecDeque;

use bytes::Bytes;
use vetch_bugs::Bug;
use vetch_journal::{Entry, Hash, Kind, Position, Tip};

use crate::divergence::Divergence;
use crate::record::{Author, Record, is_seed};

/// How many of the last entries and records are remembered by their hashes.
const REMEMBERED: usize = 1024;

/// The log up to a position.
#[derive(Clone, Debug)]
pub struct View {
    position: Position,
    tip: Tip,
    /// Where the record lies that made the tip.
    tip_at: Position,
    /// Whose the current epoch is, if its claim was read by this view.
    owner: Option<Author>,
    entries: Recent,
    records: Recent,
}

/// What a record means to all who read it at its position.
#[derive(Debug)]
pub enum Verdict {
    /// Its entries count, each with the tip after it.
    Valid(Vec<(Entry, Tip)>),
    Void(Void),
}

/// Why a record does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Void {
    /// Of a writer that has been replaced.
    OldEpoch,
    /// A claim that another entry came before.
    LostClaim,
    /// Its number is taken, by itself.
    Copy,
    /// Its predecessor is not there.
    Orphan,
}

/// A proven place in the order: `tip` was made by the record at `position`, so whoever read that
/// has come to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Index {
    pub position: Position,
    pub tip: Tip,
}

impl View {
    /// A view that begins where a checkpoint was taken; `Position(0)` and a genesis tip without
    /// one.
    pub fn new(start: Index) -> View {
        View {
            position: start.position,
            tip: start.tip,
            tip_at: start.position,
            owner: None,
            entries: Recent::behind(start.tip.seq, start.tip.hash),
            records: Recent::behind(start.position.0, start.tip.hash),
        }
    }

    pub fn position(&self) -> Position {
        self.position
    }

    pub fn tip(&self) -> &Tip {
        &self.tip
    }

    /// What a checkpoint taken here must remember. Void records behind the tip are left to be read
    /// again.
    pub fn index(&self) -> Index {
        Index { position: self.tip_at, tip: self.tip }
    }

    pub fn owner(&self) -> Option<Author> {
        self.owner
    }

    /// Reads the record behind the last one.
    pub fn read(&mut self, at: Position, bytes: &Bytes) -> Result<(Hash, Verdict), Divergence> {
        assert_eq!(at.0, self.position.0 + 1, "records are read one after another");
        let record = Record::decode(bytes).map_err(|why| Divergence::Damaged { at: at.0, why })?;
        let print = record.print();
        let verdict = match self.judge(at, &record)? {
            None => Verdict::Valid(self.accept(at, record)?),
            Some(void) => Verdict::Void(void),
        };
        self.position = at;
        self.records.push(print);
        Ok((print, verdict))
    }

    /// Compares a record with what was read at its position before. Long ago is out of memory, and
    /// passes.
    pub fn reread(&self, at: Position, bytes: &Bytes) -> Result<(), Divergence> {
        let record = Record::decode(bytes).map_err(|why| Divergence::Damaged { at: at.0, why })?;
        let differs = self.records.get(at.0).is_some_and(|known| known != record.print());
        if differs && !vetch_bugs::on(Bug::RereadUnchecked) {
            return Err(Divergence::Overwritten { at: at.0 });
        }
        Ok(())
    }

    /// Whether this view has come to `index`; an error if it has come past it and saw something
    /// else. Not if the index is so old that it cannot be compared: ask for a new one.
    pub fn reached(&self, index: &Index) -> Result<bool, Divergence> {
        if self.tip.seq >= index.tip.seq {
            return match self.entries.get(index.tip.seq) {
                Some(known) if known != index.tip.hash => {
                    Err(Divergence::forked(index.position, "its writer has another entry there"))
                }
                known => Ok(known.is_some()),
            };
        }
        if self.position >= index.position {
            return Err(Divergence::missing(index.position, index.tip.epoch, index.tip.seq + 1, &self.tip));
        }
        Ok(false)
    }

    /// Why the record does not count, or nothing if it may chain.
    fn judge(&self, at: Position, record: &Record) -> Result<Option<Void>, Divergence> {
        let first = record.first();
        if first.kind == Kind::NewEpoch {
            self.judge_claim(at, first)
        } else {
            self.judge_entries(at, record)
        }
    }

    fn judge_claim(&self, at: Position, claim: &Entry) -> Result<Option<Void>, Divergence> {
        if is_seed(claim) && self.position.0 == 0 {
            return Err(Divergence::Seeded { at: at.0 });
        }
        if claim.epoch <= self.tip.epoch {
            return Ok(Some(Void::LostClaim));
        }
        if claim.seq > self.tip.seq + 1 {
            return Err(Divergence::missing(at, claim.epoch, claim.seq, &self.tip));
        }
        let built_on = claim.seq.saturating_sub(1);
        if self.entries.get(built_on).is_some_and(|known| known != claim.prev_hash) {
            return Err(Divergence::forked(
                at,
                format!("a claim of epoch {} builds on another entry {built_on}", claim.epoch),
            ));
        }
        Ok((claim.seq <= self.tip.seq).then_some(Void::LostClaim))
    }

    fn judge_entries(&self, at: Position, record: &Record) -> Result<Option<Void>, Divergence> {
        let first = record.first();
        if first.epoch > self.tip.epoch {
            return Err(Divergence::missing(at, first.epoch, first.seq, &self.tip));
        }
        if first.epoch < self.tip.epoch && !vetch_bugs::on(Bug::OldEpochRead) {
            return Ok(Some(Void::OldEpoch));
        }
        if first.seq <= self.tip.seq {
            let same = |(entry, hash): &(Entry, Hash)| {
                self.entries.get(entry.seq).is_none_or(|known| known == *hash)
            };
            if first.epoch == self.tip.epoch && !record.entries().iter().all(same) {
                return Err(Divergence::forked(
                    at,
                    format!("there is another entry {} in this epoch", first.seq),
                ));
            }
            return Ok(Some(Void::Copy));
        }
        if first.seq > self.tip.seq + 1 && vetch_bugs::on(Bug::OrphanHalts) {
            return Err(Divergence::missing(at, first.epoch, first.seq, &self.tip));
        }
        Ok((first.seq > self.tip.seq + 1).then_some(Void::Orphan))
    }

    fn accept(&mut self, at: Position, record: Record) -> Result<Vec<(Entry, Tip)>, Divergence> {
        let claim = record.claim();
        let mut tip = self.tip;
        let mut accepted = Vec::with_capacity(record.entries().len());
        for (entry, hash) in record.into_entries() {
            if let Some(what) = entry.unsupported() {
                return Err(Divergence::NotSupported { at: at.0, what });
            }
            tip = tip.accept(&entry, hash).map_err(|error| Divergence::chain(at, &error))?;
            accepted.push((entry, tip));
        }
        accepted.iter().for_each(|(_, tip)| self.entries.push(tip.hash));
        self.tip = tip;
        self.tip_at = at;
        self.owner = claim.or(self.owner);
        Ok(accepted)
    }
}

/// Hashes of the last few numbers of a dense order.
#[derive(Clone, Debug)]
struct Recent {
    /// The number of the last hash, or of what came before the first.
    last: u64,
    hashes: VecDeque<Hash>,
}

impl Recent {
    fn behind(last: u64, hash: Hash) -> Recent {
        Recent { last, hashes: VecDeque::from([hash]) }
    }

    fn push(&mut self, hash: Hash) {
        if self.hashes.len() == REMEMBERED {
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
    use crate::record::claim;
    use vetch_journal::{ChainedEntry, Draft, PartId, PayloadRef};

    /// What this version cannot act on must not be passed over.
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
            let mut view = View::new(Index { position: Position(0), tip: genesis });
            let claimed = claim(Author { node: 1, life: 2 }, genesis);
            view.read(Position(1), claimed.bytes()).unwrap();
            let entry = reserved(&mut claimed.after().clone());
            let before = *view.tip();
            let refused = view.read(Position(2), entry.bytes());
            assert!(matches!(refused, Err(Divergence::NotSupported { at: 2, .. })), "{refused:?}");
            assert_eq!((view.position(), *view.tip()), (Position(1), before), "a view is not moved by it");
        }
    }
}
