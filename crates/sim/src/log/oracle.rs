//! The oracle: which entries a log commits, stated as simply as possible and without
//! `vetch_cluster`: a record is committed if all of its entries chain onto what was committed
//! before it. It sees every record in the order in which the log stores it.

use std::collections::HashMap;

use bytes::Bytes;
use vetch_base::Seq;
use vetch_cluster::Record;
use vetch_journal::{Hash, Position, Tip};

/// The committed entries of one history.
#[derive(Clone, Debug)]
pub struct Oracle {
    start: Tip,
    /// The tip after each position.
    tips: Vec<Tip>,
    /// The hash of each committed entry, by sequence number, beginning with 1.
    chain: Vec<Hash>,
    seqs: HashMap<Hash, u64>,
    /// How many entries were committed before each position.
    committed_before: Vec<usize>,
    units: u64,
}

impl Oracle {
    pub fn new(start: Tip) -> Oracle {
        Oracle {
            start,
            tips: Vec::new(),
            chain: Vec::new(),
            seqs: HashMap::new(),
            committed_before: Vec::new(),
            units: 0,
        }
    }

    /// A record was stored behind the last one.
    pub fn stored(&mut self, bytes: &Bytes) {
        let record = Record::decode(bytes).expect("servers write records");
        self.committed_before.push(self.chain.len());
        let mut tip = self.tip();
        let mut after = Vec::new();
        for (entry, hash) in record.entries() {
            match tip.accept(entry, *hash) {
                Ok(next) => tip = next,
                Err(_) => {
                    self.tips.push(self.tip());
                    return;
                }
            }
            after.push((*hash, entry.units()));
        }
        for (hash, units) in after {
            self.chain.push(hash);
            self.seqs.insert(hash, self.chain.len() as u64);
            self.units += units;
        }
        self.tips.push(tip);
    }

    pub fn tip(&self) -> Tip {
        *self.tips.last().unwrap_or(&self.start)
    }

    /// The tip after this position, if there is one.
    pub fn tip_at(&self, at: Position) -> Option<Tip> {
        if at.0 == 0 { Some(self.start) } else { self.tips.get(at.0 as usize - 1).copied() }
    }

    /// Whether this entry is committed under this sequence number.
    pub fn holds(&self, seq: Seq, hash: Hash) -> bool {
        seq == Seq::ZERO || self.chain.get(seq.get() as usize - 1) == Some(&hash)
    }

    /// The hashes of the committed entries, in order.
    pub fn chain(&self) -> &[Hash] {
        &self.chain
    }

    pub fn is_committed(&self, hash: &Hash) -> bool {
        self.seqs.contains_key(hash)
    }

    /// Whether every revision belongs to a committed write unit.
    pub fn is_dense(&self) -> bool {
        self.start.next_rev.checked_add_unsigned(self.units) == Some(self.tip().next_rev)
    }

    /// The last `count` records are lost. Their write units are not subtracted: do not call
    /// `is_dense` afterwards.
    pub fn lose(&mut self, count: usize) {
        let keep = self.tips.len().saturating_sub(count);
        if let Some(entries) = self.committed_before.get(keep).copied() {
            self.chain.drain(entries..).for_each(|hash| {
                self.seqs.remove(&hash);
            });
        }
        self.tips.truncate(keep);
        self.committed_before.truncate(keep);
    }
}
