//! Judge: the promises made to clients, and whether they hold.

use std::collections::{BTreeMap, HashSet};

use vetch_base::Seq;
use vetch_cluster::LogIndex;
use vetch_journal::{Hash, Tip};

use super::oracle::Oracle;
use super::plan::Breach;

/// A promise that was broken.
#[derive(Debug)]
pub(super) struct Violation(pub(super) String);

pub(super) type Judged = Result<(), Violation>;

pub(super) fn violated(what: impl Into<String>) -> Judged {
    Err(Violation(what.into()))
}

#[derive(Default)]
pub(super) struct Judge {
    /// Entries that were acknowledged to clients, by sequence number.
    acknowledged: BTreeMap<Seq, Hash>,
    /// Entries that were reported as dropped.
    dropped: HashSet<Hash>,
    /// The last sequence number that a read was answered from.
    seen: Seq,
}

impl Judge {
    /// The last sequence number that any client has observed.
    pub(super) fn last_known(&self) -> Seq {
        self.acknowledged.last_key_value().map_or(Seq::ZERO, |(seq, _)| *seq).max(self.seen)
    }

    /// A read was answered from a state with this sequence number, whether the leader knows yet
    /// that it is committed or not.
    pub(super) fn seen(&mut self, held: Seq) {
        self.seen = self.seen.max(held);
    }

    /// A server told its clients that these entries are committed.
    pub(super) fn committed(&mut self, entries: &[(Seq, Hash)], oracle: &Oracle, breach: Breach) -> Judged {
        for (seq, hash) in entries {
            if !oracle.holds(*seq, *hash) {
                return violated(format!("entry {seq} was acknowledged but is not committed"));
            }
            if self.dropped.contains(hash) {
                return violated(format!("entry {seq} was acknowledged after it had been dropped"));
            }
            let before = self.acknowledged.insert(*seq, *hash);
            if breach == Breach::None && before.is_some_and(|before| before != *hash) {
                return violated(format!("two acknowledged entries have the sequence number {seq}"));
            }
        }
        Ok(())
    }

    pub(super) fn dropped(&mut self, entries: &[(Seq, Hash)]) -> Judged {
        self.dropped.extend(entries.iter().map(|(_, hash)| *hash));
        Ok(())
    }

    /// A server's tip after a position is the oracle's.
    pub(super) fn holds(&self, held: &Tip, oracle: Option<Tip>, who: &str) -> Judged {
        match oracle {
            Some(tip) if tip == *held => Ok(()),
            Some(tip) => violated(format!("{who} holds entry {} but the log says {}", held.seq, tip.seq)),
            None => violated(format!("{who} went on reading a log that had lost what it holds")),
        }
    }

    /// A read that began when `acknowledged` was the last sequence number known to any client is
    /// answered by a server at `held`.
    pub(super) fn read(&self, acknowledged: Seq, held: Seq) -> Judged {
        if held < acknowledged {
            return violated(format!(
                "a read saw entry {held} although {acknowledged} had been acknowledged"
            ));
        }
        Ok(())
    }

    /// On a log with two histories: the server that answers a read holds the history of its index.
    pub(super) fn read_of(&self, index: &LogIndex, history: &[Hash]) -> Judged {
        if history.get(index.tip.seq.get() as usize - 1) != Some(&index.tip.hash) {
            return violated(format!(
                "a read was answered from a history without its index {}",
                index.tip.seq
            ));
        }
        Ok(())
    }

    /// At the end: every promise holds in the history that remained.
    pub(super) fn verdict(&self, oracle: &Oracle, breach: Breach) -> Judged {
        if breach != Breach::None {
            return Ok(());
        }
        if let Some((seq, _)) = self.acknowledged.iter().find(|(seq, hash)| !oracle.holds(**seq, **hash)) {
            return violated(format!("acknowledged entry {seq} is not in the log"));
        }
        if self.dropped.iter().any(|hash| oracle.is_committed(hash)) {
            return violated("an entry that had been dropped is committed");
        }
        if !oracle.is_dense() {
            return violated("revisions are not dense");
        }
        Ok(())
    }
}
