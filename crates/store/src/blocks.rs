//! Blocks: an ordered list in shared pieces.
//!
//! Checkpoints, and readers beside the sequencer, need a snapshot of leases, users and roles while
//! those go on changing. A copy of this list takes a pointer for every few hundred entries, and a
//! change copies the one block it is in, if that block is shared.

use std::sync::Arc;

/// A block is cut in two beyond this many entries.
const BLOCK_ENTRIES: usize = 256;

/// What a list is ordered by.
pub trait Entry: Clone {
    type Key: Ord + ?Sized;

    fn key(&self) -> &Self::Key;
}

impl Entry for i64 {
    type Key = i64;

    fn key(&self) -> &i64 {
        self
    }
}

/// Entries by their keys, each key once.
#[derive(Debug, Clone)]
pub struct Blocks<T> {
    /// None is empty.
    blocks: Vec<Arc<Vec<T>>>,
    len: usize,
}

impl<T> Default for Blocks<T> {
    fn default() -> Blocks<T> {
        Blocks { blocks: Vec::new(), len: 0 }
    }
}

impl<T> Blocks<T> {
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.blocks.iter().flat_map(|block| block.iter())
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl<T: Entry> Blocks<T> {
    /// The block that holds a key, or would hold it.
    fn block_of(&self, key: &T::Key) -> usize {
        let is_before = |block: &Arc<Vec<T>>| block.last().is_none_or(|last| last.key() < key);
        let at = self.blocks.partition_point(is_before);
        at.min(self.blocks.len().saturating_sub(1))
    }

    pub fn get(&self, key: &T::Key) -> Option<&T> {
        let block = self.blocks.get(self.block_of(key))?;
        let place = block.binary_search_by(|entry| entry.key().cmp(key)).ok()?;
        Some(&block[place])
    }

    /// The entries from `key` on.
    pub fn iter_from(&self, key: &T::Key) -> impl Iterator<Item = &T> {
        let at = self.block_of(key);
        let skipped = self.blocks.get(at).map_or(0, |block| block.partition_point(|entry| entry.key() < key));
        self.blocks.iter().skip(at).flat_map(|block| block.iter()).skip(skipped)
    }

    /// Adds an entry, or takes the place of the one with its key.
    pub fn set(&mut self, entry: T) {
        let at = self.block_of(entry.key());
        let Some(block) = self.blocks.get_mut(at) else {
            self.blocks.push(Arc::new(vec![entry]));
            self.len += 1;
            return;
        };
        let block = Arc::make_mut(block);
        match block.binary_search_by(|other| other.key().cmp(entry.key())) {
            Ok(place) => block[place] = entry,
            Err(place) => {
                block.insert(place, entry);
                self.len += 1;
                if block.len() > BLOCK_ENTRIES {
                    // Keys that come in order leave full blocks behind.
                    let cut = if place + 1 == block.len() { place } else { block.len() / 2 };
                    let rest = block.split_off(cut);
                    self.blocks.insert(at + 1, Arc::new(rest));
                }
            }
        }
    }

    pub fn remove(&mut self, key: &T::Key) {
        let at = self.block_of(key);
        let Some(block) = self.blocks.get_mut(at) else { return };
        let Ok(place) = block.binary_search_by(|entry| entry.key().cmp(key)) else { return };
        self.len -= 1;
        if block.len() == 1 {
            self.blocks.remove(at);
        } else {
            Arc::make_mut(block).remove(place);
        }
    }
}

impl<T: Clone> From<Vec<T>> for Blocks<T> {
    /// In the order in which they are given, whatever that is: a damaged file may hold any.
    fn from(entries: Vec<T>) -> Blocks<T> {
        let blocks = entries.chunks(BLOCK_ENTRIES).map(|block| Arc::new(block.to_vec())).collect();
        Blocks { blocks, len: entries.len() }
    }
}

impl<T: Clone> FromIterator<T> for Blocks<T> {
    fn from_iter<I: IntoIterator<Item = T>>(entries: I) -> Blocks<T> {
        entries.into_iter().collect::<Vec<_>>().into()
    }
}

impl<T: PartialEq> PartialEq for Blocks<T> {
    fn eq(&self, other: &Blocks<T>) -> bool {
        self.len == other.len && self.iter().eq(other.iter())
    }
}

impl<T: Eq> Eq for Blocks<T> {}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    struct Numbered {
        id: i64,
        turn: usize,
    }

    impl Entry for Numbered {
        type Key = i64;

        fn key(&self) -> &i64 {
            &self.id
        }
    }

    /// Ids in an order that fills blocks in the middle as well as at both ends.
    fn scattered(n: i64) -> impl Iterator<Item = i64> {
        (0..n).map(move |i| (i * 7919) % n + 1)
    }

    #[test]
    fn a_list_is_that_of_a_map() {
        let mut list = Blocks::default();
        let mut map = BTreeMap::new();
        let mut before = Vec::new();
        for (turn, id) in scattered(5_003).chain(scattered(5_003)).enumerate() {
            let entry = Numbered { id, turn };
            if turn % 5 == 4 {
                list.remove(&id);
                map.remove(&id);
            } else {
                list.set(entry);
                map.insert(id, entry);
            }
            assert_eq!(list.get(&id), map.get(&id));
            if turn % 1000 == 0 {
                before.push((list.clone(), map.clone()));
            }
        }
        before.push((list.clone(), map.clone()));
        for (list, map) in before {
            assert_eq!(list.len(), map.len());
            assert!(list.iter().eq(map.values()), "a copy stays as it was");
            for from in (0..5_100).step_by(97) {
                assert!(list.iter_from(&from).eq(map.range(from..).map(|(_, entry)| entry)), "{from}");
            }
            assert_eq!(list, map.into_values().collect::<Blocks<_>>());
        }
        assert!(list.blocks.iter().all(|block| !block.is_empty() && block.len() <= BLOCK_ENTRIES));
        map.keys().for_each(|id| list.remove(id));
        assert!(list.is_empty() && list.blocks.is_empty());
        assert_eq!((list.get(&1), list.iter_from(&1).next()), (None, None));
    }

    #[test]
    fn a_copy_shares_everything_that_has_not_changed_since() {
        let mut list: Blocks<Numbered> = (1..=100_000).map(|id| Numbered { id, turn: 0 }).collect();
        let copy = list.clone();
        list.set(Numbered { id: 77, turn: 1 });
        list.remove(&99_000);
        let shared = list.blocks.iter().filter(|block| Arc::strong_count(block) == 2).count();
        assert_eq!(shared, copy.blocks.len() - 2);
    }
}
