//! Leases: what they were granted and which keys hang on them.
//!
//! Time does not exist here. The node keeps the clocks and asks for a revoke when one has run out; all the
//! state machine knows is the granted time to live and, after a checkpoint of the clocks, how much of it
//! was left.
//!
//! Leases and the keys on them take memory like versions do, so they count in the size of the store. What a
//! checkpoint saves of them is kept ready in blocks that it shares: a million leases are captured by copying some
//! thousand pointers, and a block is copied when it changes for the first time after that.

use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::HashSet;

use crate::keys::Slot;

/// The largest time to live a lease may ask for, in seconds.
pub const MAX_TTL: i64 = 9_000_000_000;

/// What a lease counts for in the size of the store: itself, what is saved of it, and its timer in the node.
pub const LEASE_BYTES: u64 = 256;
/// What a key on a lease counts for, beside its versions.
pub const ATTACHED_BYTES: u64 = 16;

#[derive(Debug, Clone, Default)]
pub struct Lease {
    ttl: i64,
    /// Seconds left when the clocks were last checkpointed; 0: the full time.
    remaining: i64,
    /// Which grant made it; an id may be granted again after a revoke.
    grant: u64,
    slots: HashSet<Slot, foldhash::fast::FixedState>,
}

impl Lease {
    pub fn ttl(&self) -> i64 {
        self.ttl
    }

    /// A number that no other lease has had since the store was made or loaded.
    pub fn grant(&self) -> u64 {
        self.grant
    }

    /// The time a lease starts with after a restart.
    pub fn remaining(&self) -> i64 {
        if self.remaining > 0 { self.remaining } else { self.ttl }
    }

    /// Whether less than the full time would be granted after a restart.
    pub fn is_checkpointed(&self) -> bool {
        self.remaining > 0
    }

    /// Whether any key goes when it does.
    pub fn has_keys(&self) -> bool {
        !self.slots.is_empty()
    }

    pub(crate) fn slots(&self) -> impl Iterator<Item = Slot> + '_ {
        self.slots.iter().copied()
    }
}

#[derive(Debug, Default)]
pub struct Leases {
    by_id: BTreeMap<i64, Lease>,
    /// The same, as a checkpoint saves them.
    saved: SavedLeases,
    grants: u64,
    bytes: u64,
}

impl Leases {
    pub fn get(&self, id: i64) -> Option<&Lease> {
        self.by_id.get(&id)
    }

    pub fn iter(&self) -> impl Iterator<Item = (i64, &Lease)> + '_ {
        self.by_id.iter().map(|(&id, lease)| (id, lease))
    }

    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// What all leases and the keys on them count for in the size of the store.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What a checkpoint saves.
    pub(crate) fn saved(&self) -> &SavedLeases {
        &self.saved
    }

    /// Returns the number of the grant.
    pub(crate) fn grant(&mut self, id: i64, ttl: i64, remaining: i64) -> u64 {
        assert!(id != 0, "lease 0 means no lease");
        self.grants += 1;
        let lease = Lease { ttl, remaining, grant: self.grants, ..Lease::default() };
        let before = self.by_id.insert(id, lease);
        assert!(before.is_none(), "a lease is granted once");
        self.saved.set(SavedLease { id, ttl, remaining });
        self.bytes += LEASE_BYTES;
        self.grants
    }

    /// Whether the lease of this id is the one of that grant.
    pub(crate) fn is_of(&self, id: i64, grant: u64) -> bool {
        self.get(id).is_some_and(|lease| lease.grant == grant)
    }

    pub(crate) fn remove(&mut self, id: i64) -> Option<Lease> {
        let lease = self.by_id.remove(&id)?;
        self.saved.remove(id);
        self.bytes -= LEASE_BYTES + ATTACHED_BYTES * lease.slots.len() as u64;
        Some(lease)
    }

    pub(crate) fn set_remaining(&mut self, id: i64, remaining: i64) {
        if let Some(lease) = self.by_id.get_mut(&id) {
            lease.remaining = remaining;
            self.saved.set(SavedLease { id, ttl: lease.ttl, remaining });
        }
    }

    /// Lease 0 is no lease, and a put that names one which does not exist was refused before it came here.
    pub(crate) fn attach(&mut self, id: i64, slot: Slot) {
        if let Some(lease) = self.by_id.get_mut(&id) {
            self.bytes += ATTACHED_BYTES * u64::from(lease.slots.insert(slot));
        }
    }

    pub(crate) fn detach(&mut self, id: i64, slot: Slot) {
        if let Some(lease) = self.by_id.get_mut(&id) {
            self.bytes -= ATTACHED_BYTES * u64::from(lease.slots.remove(&slot));
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SavedLease {
    pub id: i64,
    pub ttl: i64,
    /// 0: the full time.
    pub remaining: i64,
}

/// A block is cut in two beyond this many leases.
const BLOCK_LEASES: usize = 256;

/// A list of leases. Cloning copies a pointer for every few hundred of them.
#[derive(Debug, Clone, Default)]
pub struct SavedLeases {
    /// None is empty. By id, if they are those of a store.
    blocks: Vec<Arc<Vec<SavedLease>>>,
    len: usize,
}

impl SavedLeases {
    pub fn iter(&self) -> impl Iterator<Item = &SavedLease> {
        self.blocks.iter().flat_map(|block| block.iter())
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The block that holds an id, or would hold it.
    fn block_of(&self, id: i64) -> usize {
        let last = |block: &Arc<Vec<SavedLease>>| block.last().map_or(i64::MIN, |lease| lease.id);
        let at = self.blocks.partition_point(|block| last(block) < id);
        at.min(self.blocks.len().saturating_sub(1))
    }

    /// Adds a lease, or takes the place of the one with its id.
    fn set(&mut self, lease: SavedLease) {
        let at = self.block_of(lease.id);
        let Some(block) = self.blocks.get_mut(at) else {
            self.blocks.push(Arc::new(vec![lease]));
            self.len += 1;
            return;
        };
        let block = Arc::make_mut(block);
        match block.binary_search_by_key(&lease.id, |saved| saved.id) {
            Ok(place) => block[place] = lease,
            Err(place) => {
                block.insert(place, lease);
                self.len += 1;
                if block.len() > BLOCK_LEASES {
                    // Ids that come in order leave full blocks behind.
                    let cut = if place + 1 == block.len() { place } else { block.len() / 2 };
                    let rest = block.split_off(cut);
                    self.blocks.insert(at + 1, Arc::new(rest));
                }
            }
        }
    }

    fn remove(&mut self, id: i64) {
        let at = self.block_of(id);
        let Some(block) = self.blocks.get_mut(at) else { return };
        let Ok(place) = block.binary_search_by_key(&id, |saved| saved.id) else { return };
        self.len -= 1;
        if block.len() == 1 {
            self.blocks.remove(at);
        } else {
            Arc::make_mut(block).remove(place);
        }
    }
}

impl From<Vec<SavedLease>> for SavedLeases {
    /// In the order in which they are given, whatever that is.
    fn from(leases: Vec<SavedLease>) -> SavedLeases {
        let blocks = leases.chunks(BLOCK_LEASES).map(|block| Arc::new(block.to_vec())).collect();
        SavedLeases { blocks, len: leases.len() }
    }
}

impl FromIterator<SavedLease> for SavedLeases {
    fn from_iter<I: IntoIterator<Item = SavedLease>>(leases: I) -> SavedLeases {
        leases.into_iter().collect::<Vec<_>>().into()
    }
}

impl PartialEq for SavedLeases {
    fn eq(&self, other: &SavedLeases) -> bool {
        self.len == other.len && self.iter().eq(other.iter())
    }
}

impl Eq for SavedLeases {}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ids in an order that fills blocks in the middle as well as at both ends.
    fn scattered(n: i64) -> impl Iterator<Item = i64> {
        (0..n).map(move |i| (i * 7919) % n + 1)
    }

    #[test]
    fn a_list_of_leases_is_that_of_a_map() {
        let mut list = SavedLeases::default();
        let mut map = BTreeMap::new();
        let mut before = Vec::new();
        for (turn, id) in scattered(5_003).chain(scattered(5_003)).enumerate() {
            let lease = SavedLease { id, ttl: turn as i64, remaining: 0 };
            if turn % 5 == 4 {
                list.remove(id);
                map.remove(&id);
            } else {
                list.set(lease);
                map.insert(id, lease);
            }
            if turn % 1000 == 0 {
                before.push((list.clone(), map.clone()));
            }
        }
        before.push((list.clone(), map.clone()));
        for (list, map) in before {
            assert_eq!(list.len(), map.len());
            assert!(list.iter().eq(map.values()), "a copy stays as it was");
            assert_eq!(list, map.into_values().collect::<SavedLeases>());
        }
        assert!(list.blocks.iter().all(|block| !block.is_empty() && block.len() <= BLOCK_LEASES));
        map.keys().for_each(|id| list.remove(*id));
        assert!(list.is_empty() && list.blocks.is_empty());
    }

    #[test]
    fn a_copy_shares_everything_that_has_not_changed_since() {
        let mut list: SavedLeases =
            (1..=100_000).map(|id| SavedLease { id, ttl: 60, remaining: 0 }).collect();
        let copy = list.clone();
        list.set(SavedLease { id: 77, ttl: 60, remaining: 5 });
        list.remove(99_000);
        let shared = list.blocks.iter().filter(|block| Arc::strong_count(block) == 2).count();
        assert_eq!(shared, copy.blocks.len() - 2);
    }

    #[test]
    fn leases_and_the_keys_on_them_are_counted_until_they_go() {
        let mut leases = Leases::default();
        leases.grant(7, 60, 0);
        leases.grant(8, 60, 0);
        leases.attach(7, 1);
        leases.attach(7, 1);
        leases.attach(7, 2);
        leases.attach(9, 3);
        assert_eq!(leases.bytes(), 2 * LEASE_BYTES + 2 * ATTACHED_BYTES);
        leases.detach(7, 2);
        leases.detach(7, 2);
        assert_eq!(leases.bytes(), 2 * LEASE_BYTES + ATTACHED_BYTES);
        leases.remove(7);
        leases.remove(7);
        assert_eq!(leases.bytes(), LEASE_BYTES);
        leases.remove(8);
        assert_eq!(leases.bytes(), 0);
    }
}
