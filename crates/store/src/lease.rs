//! Leases: what they were granted and which keys hang on them.
//!
//! Time does not exist here. The node keeps the clocks and asks for a revoke when one has run out; all the
//! state machine knows is the granted time to live and, after a checkpoint of the clocks, how much of it
//! was left.

use std::collections::BTreeMap;

use hashbrown::HashSet;

use crate::keys::Slot;

/// The largest time to live a lease may ask for, in seconds.
pub const MAX_TTL: i64 = 9_000_000_000;

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
    grants: u64,
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

    /// Returns the number of the grant.
    pub(crate) fn grant(&mut self, id: i64, ttl: i64, remaining: i64) -> u64 {
        assert!(id != 0, "lease 0 means no lease");
        self.grants += 1;
        let lease = Lease { ttl, remaining, grant: self.grants, ..Lease::default() };
        let before = self.by_id.insert(id, lease);
        assert!(before.is_none(), "a lease is granted once");
        self.grants
    }

    /// Whether the lease of this id is the one of that grant.
    pub(crate) fn is_of(&self, id: i64, grant: u64) -> bool {
        self.get(id).is_some_and(|lease| lease.grant == grant)
    }

    pub(crate) fn remove(&mut self, id: i64) -> Option<Lease> {
        self.by_id.remove(&id)
    }

    pub(crate) fn set_remaining(&mut self, id: i64, remaining: i64) {
        if let Some(lease) = self.by_id.get_mut(&id) {
            lease.remaining = remaining;
        }
    }

    /// Lease 0 is no lease, and a put that names one which does not exist was refused before it came here.
    pub(crate) fn attach(&mut self, id: i64, slot: Slot) {
        if let Some(lease) = self.by_id.get_mut(&id) {
            lease.slots.insert(slot);
        }
    }

    pub(crate) fn detach(&mut self, id: i64, slot: Slot) {
        if let Some(lease) = self.by_id.get_mut(&id) {
            lease.slots.remove(&slot);
        }
    }
}
