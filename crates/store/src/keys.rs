//! Keys: every key that has a retained version, found by its bytes, each with its chain of
//! versions.
//!
//! A key lives in a numbered slot. The hash table maps key bytes to slots and the ordered tree
//! orders slots, so an update of an existing key touches neither: it is one lookup and one push
//! onto the chain.
//!
//! Nothing that has a part for each key grows by copying all of itself, because a writer would wait
//! for that with the store locked. Chains lie in segments, and the hash table is many small ones,
//! each of which is rebuilt on its own when it is full.

use std::hash::BuildHasher;

use hashbrown::HashTable;

use crate::chain::Chain;
use crate::record::Record;

/// Index of a key's slot. Slots of removed keys are used again.
pub(crate) type Slot = u32;

/// Chains per segment.
const SEGMENT: usize = 4096;
/// Hash tables. A million keys make each of them some three thousand, which are rebuilt in well
/// under a millisecond. A table doubles when seven eighths of it are used, so whatever the number
/// of tables is, some numbers of keys leave them half empty; with this one, a million, half of it
/// and its doubles do not.
const SHARDS: usize = 320;

pub(crate) struct Keys {
    /// Every segment but the last is full.
    segments: Vec<Vec<Chain>>,
    free: Vec<Slot>,
    // Seeded at random against chosen collisions; never iterated, so the seed cannot be observed.
    hasher: foldhash::fast::RandomState,
    shards: Vec<HashTable<Slot>>,
}

impl Default for Keys {
    fn default() -> Keys {
        Keys {
            segments: Vec::new(),
            free: Vec::new(),
            hasher: foldhash::fast::RandomState::default(),
            shards: (0..SHARDS).map(|_| HashTable::new()).collect(),
        }
    }
}

/// Which table a hash belongs to. The tables themselves use its lowest and its highest bits.
fn shard_of(hash: u64) -> usize {
    (hash >> 40) as usize % SHARDS
}

/// The key of an occupied slot.
fn key_in(segments: &[Vec<Chain>], slot: Slot) -> &[u8] {
    let chain = &segments[slot as usize / SEGMENT][slot as usize % SEGMENT];
    chain.last().expect("an occupied slot has a version").key()
}

impl Keys {
    /// How many keys there are, alive or not.
    pub(crate) fn len(&self) -> usize {
        let full = self.segments.len().saturating_sub(1) * SEGMENT;
        full + self.segments.last().map_or(0, Vec::len) - self.free.len()
    }

    pub(crate) fn find(&self, key: &[u8]) -> Option<Slot> {
        let hash = self.hasher.hash_one(key);
        self.shards[shard_of(hash)].find(hash, |&slot| self.key(slot) == key).copied()
    }

    /// The key of an occupied slot.
    pub(crate) fn key(&self, slot: Slot) -> &[u8] {
        key_in(&self.segments, slot)
    }

    pub(crate) fn chain(&self, slot: Slot) -> &Chain {
        &self.segments[slot as usize / SEGMENT][slot as usize % SEGMENT]
    }

    pub(crate) fn chain_mut(&mut self, slot: Slot) -> &mut Chain {
        &mut self.segments[slot as usize / SEGMENT][slot as usize % SEGMENT]
    }

    pub(crate) fn chain_of(&self, key: &[u8]) -> Option<&Chain> {
        self.find(key).map(|slot| self.chain(slot))
    }

    /// Gives a new key its slot. The caller knows that the key is not present.
    pub(crate) fn insert(&mut self, first: Record) -> Slot {
        let hash = self.hasher.hash_one(first.key());
        let chain = Chain::One(first);
        let slot = match self.free.pop() {
            Some(slot) => {
                *self.chain_mut(slot) = chain;
                slot
            }
            None => self.add_slot(chain),
        };
        let Keys { segments, hasher, shards, .. } = self;
        shards[shard_of(hash)].insert_unique(hash, slot, |&other| hasher.hash_one(key_in(segments, other)));
        slot
    }

    fn add_slot(&mut self, chain: Chain) -> Slot {
        if self.segments.last().is_none_or(|last| last.len() == SEGMENT) {
            self.segments.push(Vec::with_capacity(SEGMENT));
        }
        let full = (self.segments.len() - 1) * SEGMENT;
        let last = self.segments.last_mut().expect("a segment was just added");
        last.push(chain);
        Slot::try_from(full + last.len() - 1).expect("fewer than four billion keys")
    }

    /// Forgets a key whose last version, `gone`, has just been dropped from its chain.
    pub(crate) fn remove(&mut self, slot: Slot, gone: &Record) {
        assert!(self.chain(slot).versions().is_empty(), "only a key without versions is forgotten");
        let hash = self.hasher.hash_one(gone.key());
        let entry = self.shards[shard_of(hash)].find_entry(hash, |&other| other == slot);
        entry.expect("an occupied slot is in the table").remove();
        self.free.push(slot);
    }
}

/// Keys that come all at once, in any order, each of them new.
///
/// A hash sends neighbours to far places. So the tables are filled in the end, one after the other:
/// each of them is small enough to stay in the processor's cache while it is filled.
pub(crate) struct Filling {
    keys: Keys,
    /// For each table, the hashes and slots that belong there.
    coming: Vec<Vec<(u64, Slot)>>,
}

impl Filling {
    /// Makes room for about so many keys.
    pub(crate) fn new(expected: usize) -> Filling {
        let mut keys = Keys::default();
        keys.segments.reserve(expected / SEGMENT + 1);
        // Some tables get more than their share, and a list that is too short is copied to one of
        // twice its length.
        let share = expected / SHARDS;
        Filling { keys, coming: (0..SHARDS).map(|_| Vec::with_capacity(share + share / 8)).collect() }
    }

    /// Slots are given out in the order in which keys come. The chain is not empty.
    pub(crate) fn push(&mut self, chain: Chain) -> Slot {
        let key = chain.last().expect("a key has a version").key();
        let hash = self.keys.hasher.hash_one(key);
        let slot = self.keys.add_slot(chain);
        self.coming[shard_of(hash)].push((hash, slot));
        slot
    }

    pub(crate) fn finish(self) -> Keys {
        let mut keys = self.keys;
        for (shard, coming) in keys.shards.iter_mut().zip(self.coming) {
            let hash_again = |_: &Slot| unreachable!("the table has room for all that come");
            shard.reserve(coming.len(), hash_again);
            for (hash, slot) in coming {
                shard.insert_unique(hash, slot, hash_again);
            }
        }
        keys
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Fields;

    fn put(key: &str, revision: i64) -> Record {
        Record::new(Fields {
            key: key.as_bytes(),
            value: b"v",
            create_revision: revision,
            mod_revision: revision,
            version: 1,
            lease: 0,
            sub: 0,
        })
    }

    #[test]
    fn removed_keys_are_not_found_and_slots_are_used_again() {
        let mut keys = Keys::default();
        let a = keys.insert(put("a", 2));
        let b = keys.insert(put("b", 3));
        assert_eq!((keys.find(b"a"), keys.find(b"b"), keys.find(b"c")), (Some(a), Some(b), None));
        let gone = put("a", 2);
        *keys.chain_mut(a) = Chain::Free;
        keys.remove(a, &gone);
        assert_eq!(keys.find(b"a"), None);
        assert_eq!(keys.insert(put("c", 4)), a);
    }

    #[test]
    fn every_key_is_found_across_segments_and_tables() {
        let mut keys = Keys::default();
        let many = 3 * SEGMENT + 7;
        let name = |number: usize| format!("{number:06}");
        for number in 0..many {
            let slot = keys.insert(put(&name(number), 2 + number as i64));
            assert_eq!(slot as usize, number);
        }
        assert!((0..many).all(|number| keys.find(name(number).as_bytes()) == Some(number as Slot)));
        assert!(keys.shards.iter().all(|shard| shard.len() < 4 * many / SHARDS), "hashes spread");
    }

    #[test]
    fn keys_that_came_all_at_once_are_found_and_others_can_follow() {
        let name = |number: usize| format!("{number:06}");
        let many = SEGMENT + 7;
        // Fewer and more than were expected.
        for expected in [0, 3 * many] {
            let mut filling = Filling::new(expected);
            for number in 0..many {
                let slot = filling.push(Chain::One(put(&name(number), 2 + number as i64)));
                assert_eq!(slot as usize, number);
            }
            let mut keys = filling.finish();
            for number in many..4 * many {
                keys.insert(put(&name(number), 2 + number as i64));
            }
            assert!((0..4 * many).all(|number| keys.find(name(number).as_bytes()) == Some(number as Slot)));
            assert_eq!(keys.find(b"other"), None);
        }
    }
}
