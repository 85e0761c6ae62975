//! The oracle: what a log means, said as simply as possible and without the fence: a record counts
//! if all of its entries chain onto what counted before it. It sees what is stored, as it is
//! stored.

use std::collections::HashMap;

use bytes::Bytes;
use vetch_fence::Record;
use vetch_journal::{Hash, Position, Tip};

/// The meaning of one history.
#[derive(Clone, Debug)]
pub struct Oracle {
    start: Tip,
    /// The tip after each position.
    tips: Vec<Tip>,
    /// The hash of each entry that counts, by number, beginning with 1.
    chain: Vec<Hash>,
    places: HashMap<Hash, u64>,
    /// How many entries counted before each position.
    counts: Vec<usize>,
    units: u64,
}

impl Oracle {
    pub fn new(start: Tip) -> Oracle {
        Oracle {
            start,
            tips: Vec::new(),
            chain: Vec::new(),
            places: HashMap::new(),
            counts: Vec::new(),
            units: 0,
        }
    }

    /// A record was stored behind the last one.
    pub fn stored(&mut self, bytes: &Bytes) {
        let record = Record::decode(bytes).expect("servers write records");
        self.counts.push(self.chain.len());
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
            self.places.insert(hash, self.chain.len() as u64);
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

    /// Whether this entry counts, and counts as this number.
    pub fn holds(&self, seq: u64, hash: Hash) -> bool {
        seq == 0 || self.chain.get(seq as usize - 1) == Some(&hash)
    }

    /// The hashes of the entries that count, in order.
    pub fn chain(&self) -> &[Hash] {
        &self.chain
    }

    pub fn counts(&self, hash: &Hash) -> bool {
        self.places.contains_key(hash)
    }

    /// Whether every revision that was given out belongs to a write unit that counts.
    pub fn is_dense(&self) -> bool {
        self.start.next_rev.checked_add_unsigned(self.units) == Some(self.tip().next_rev)
    }

    /// The last `count` records are gone. How many units they held is not counted back: `is_dense`
    /// ends here.
    pub fn lose(&mut self, count: usize) {
        let keep = self.tips.len().saturating_sub(count);
        if let Some(entries) = self.counts.get(keep).copied() {
            self.chain.drain(entries..).for_each(|hash| {
                self.places.remove(&hash);
            });
        }
        self.tips.truncate(keep);
        self.counts.truncate(keep);
    }
}
