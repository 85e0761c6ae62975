//! Judge: the promises of the log, and whether they hold.

use std::collections::{BTreeMap, HashSet};

use vetch_base::{Epoch, Seq};
use vetch_journal::{Hash, Tip};

/// A promise that was broken.
#[derive(Debug)]
pub(super) struct Violation(pub(super) String);

pub(super) type Judged = Result<(), Violation>;

pub(super) fn violated(what: impl Into<String>) -> Judged {
    Err(Violation(what.into()))
}

pub(super) struct Judge {
    /// The tip that everybody began with, and those after each committed entry.
    log: Vec<Tip>,
    hashes: HashSet<Hash>,
    leaders: BTreeMap<Epoch, u64>,
    /// Entries that were reported as dropped.
    dropped: HashSet<Hash>,
    /// The last entry that any client knows of, by an acknowledgement or a read.
    known: Seq,
}

impl Judge {
    pub(super) fn new(start: Tip) -> Judge {
        Judge {
            log: vec![start],
            hashes: HashSet::new(),
            leaders: BTreeMap::new(),
            dropped: HashSet::new(),
            known: Seq::ZERO,
        }
    }

    /// The last sequence number that any client has observed.
    pub(super) fn known(&self) -> Seq {
        self.known
    }

    pub(super) fn tip(&self) -> &Tip {
        &self.log[self.log.len() - 1]
    }

    /// A member applied the entry behind `before`.
    pub(super) fn applied(&mut self, who: u64, before: &Tip, tip: &Tip) -> Judged {
        if tip.seq != before.seq.next() || tip.next_rev < before.next_rev || tip.epoch < before.epoch {
            return violated(format!("member {who} applied entry {} behind {}", tip.seq, before.seq));
        }
        let start = self.log[0].seq;
        if tip.seq <= start {
            return Ok(());
        }
        match self.log.get(tip.seq.since(start) as usize) {
            Some(committed) if committed == tip => Ok(()),
            Some(committed) => violated(format!(
                "member {who} applied another entry {} than was committed: epoch {}, not {}",
                tip.seq, tip.epoch, committed.epoch
            )),
            None if self.tip() != before => {
                violated(format!("member {who} skipped entries before {}", tip.seq))
            }
            None if self.dropped.contains(&tip.hash) => {
                violated(format!("entry {} was committed after it had been dropped", tip.seq))
            }
            None => {
                self.log.push(*tip);
                self.hashes.insert(tip.hash);
                Ok(())
            }
        }
    }

    /// A member takes itself for the leader of an epoch.
    pub(super) fn leads(&mut self, who: u64, epoch: Epoch) -> Judged {
        match self.leaders.insert(epoch, who) {
            Some(other) if other != who => {
                violated(format!("members {other} and {who} both lead in epoch {epoch}"))
            }
            _ => Ok(()),
        }
    }

    /// A client was told that this entry is committed.
    pub(super) fn acknowledged(&mut self, tip: &Tip) {
        self.known = self.known.max(tip.seq);
    }

    pub(super) fn dropped(&mut self, tips: &[Tip]) -> Judged {
        if let Some(tip) = tips.iter().find(|tip| self.hashes.contains(&tip.hash)) {
            return violated(format!("entry {} was dropped although it is committed", tip.seq));
        }
        self.dropped.extend(tips.iter().map(|tip| tip.hash));
        Ok(())
    }

    /// A read that began when `known` was the last sequence number known to any client gets an
    /// index, or an answer of a member at it.
    pub(super) fn read(&mut self, known: Seq, index: Seq, is_answered: bool) -> Judged {
        if index < known {
            return violated(format!("a read got {index} although {known} had been acknowledged"));
        }
        if is_answered {
            self.known = self.known.max(index);
        }
        Ok(())
    }

    /// A leader would answer a read by its lease, from this index.
    pub(super) fn lease(&self, who: u64, index: Seq) -> Judged {
        if index < self.known {
            return violated(format!(
                "member {who} reads {index} by its lease although {} is known",
                self.known
            ));
        }
        Ok(())
    }
}
