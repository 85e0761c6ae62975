//! Leases: the granted time to live, and the keys that are attached.
//!
//! Time does not exist here. The node keeps the deadlines and revokes a lease when it expires; the
//! state machine knows only the granted time to live and, after a lease checkpoint, the time that
//! was left.
//!
//! Leases and the keys on them take memory like versions do, so they count in the size of the
//! store. What a checkpoint saves of them is kept ready in blocks that it shares: a million leases
//! are captured by copying some thousand pointers, and a block is copied when it changes for the
//! first time after that.
//!
//! Which keys are on a lease is read in steps ([`crate::leased::LeasedRun`]), so they lie in an
//! order that a cursor can come back to, and in a tree, which never grows by copying all of itself.

mod verdict;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::auth::{Auth, Caller};
use crate::blocks::{Blocks, Entry};
use crate::keys::Slot;

pub(crate) use verdict::Permitted;
use verdict::{REMEMBERED_KEYS_MIN, Verdicts};

/// The largest time to live a lease may ask for, in seconds.
pub const MAX_TTL: i64 = 9_000_000_000;

/// What a lease counts for in the size of the store: itself, what is saved of it, and its timer in
/// the node.
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
    slots: BTreeSet<Slot>,
    /// Bytes of the keys in those slots.
    key_bytes: usize,
    /// The revision that attached the last of them.
    attached_at: i64,
    verdicts: Verdicts,
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

    /// How many keys go when it does.
    pub fn keys(&self) -> usize {
        self.slots.len()
    }

    /// Bytes of these keys.
    pub fn key_bytes(&self) -> usize {
        self.key_bytes
    }

    /// The revision that attached a key to it for the last time; 0 if none did.
    pub(crate) fn attached_at(&self) -> i64 {
        self.attached_at
    }

    /// How many of its keys `caller` may write, as far as that is known.
    pub(crate) fn permitted(&self, caller: &Caller, auth: &Arc<Auth>) -> Permitted {
        self.verdicts.find(caller, auth)
    }

    pub(crate) fn slots(&self) -> impl Iterator<Item = Slot> + '_ {
        self.slots.iter().copied()
    }

    pub(crate) fn slots_from(&self, from: Slot) -> impl Iterator<Item = Slot> + '_ {
        self.slots.range(from..).copied()
    }
}

/// A lease that has ended, but for its keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EndedLease {
    id: i64,
    ttl: i64,
    remaining: i64,
    grant: u64,
}

impl EndedLease {
    pub(crate) fn id(&self) -> i64 {
        self.id
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

    pub(crate) fn iter_from(&self, id: i64) -> impl Iterator<Item = (i64, &Lease)> + '_ {
        self.by_id.range(id..).map(|(&id, lease)| (id, lease))
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
        self.saved.remove(&id);
        self.bytes -= LEASE_BYTES + ATTACHED_BYTES * lease.slots.len() as u64;
        Some(lease)
    }

    /// Returns what was on record before, if there is such a lease.
    pub(crate) fn set_remaining(&mut self, id: i64, remaining: i64) -> Option<i64> {
        let lease = self.by_id.get_mut(&id)?;
        self.saved.set(SavedLease { id, ttl: lease.ttl, remaining });
        Some(std::mem::replace(&mut lease.remaining, remaining))
    }

    /// What has to be known of a lease to bring it back once it has ended.
    pub(crate) fn ended(&self, id: i64) -> Option<EndedLease> {
        self.get(id).map(|lease| EndedLease {
            id,
            ttl: lease.ttl,
            remaining: lease.remaining,
            grant: lease.grant,
        })
    }

    /// Takes back the newest grant. Its keys have gone before.
    pub(crate) fn take_back_grant(&mut self, id: i64) {
        let lease = self.remove(id).expect("a granted lease is there until it is revoked");
        assert!(lease.grant == self.grants, "grants are taken back newest first");
        assert!(!lease.has_keys(), "what hung on a lease is taken back before it");
        self.grants -= 1;
    }

    /// Takes back the end of a lease, which head had behind it at `revision`. Its keys come back
    /// after it, one by one, and were attached before: while some are missing, the others are not
    /// taken for all that a reader judged.
    pub(crate) fn take_back_end(&mut self, ended: &EndedLease, revision: i64) {
        let EndedLease { id, ttl, remaining, grant } = *ended;
        let lease = Lease { ttl, remaining, grant, attached_at: revision, ..Lease::default() };
        let before = self.by_id.insert(id, lease);
        assert!(before.is_none(), "a lease of the same id is taken back before");
        self.saved.set(SavedLease { id, ttl, remaining });
        self.bytes += LEASE_BYTES;
    }

    /// Attaches a key by its version `revision`. Lease 0 is no lease, and a put that names one that
    /// does not exist was refused before it came here.
    pub(crate) fn attach(&mut self, id: i64, slot: Slot, key: &[u8], revision: i64, auth: &Arc<Auth>) {
        if let Some(lease) = self.by_id.get_mut(&id)
            && lease.slots.insert(slot)
        {
            lease.key_bytes += key.len();
            lease.attached_at = lease.attached_at.max(revision);
            lease.verdicts.attached(slot, key, auth);
            self.bytes += ATTACHED_BYTES;
        }
    }

    /// Remembers how many keys of a lease `caller` may write.
    pub(crate) fn note_permitted(&mut self, id: i64, caller: &Caller, auth: &Arc<Auth>, upto: Permitted) {
        if let Some(lease) = self.by_id.get_mut(&id)
            && lease.slots.len() >= REMEMBERED_KEYS_MIN
        {
            lease.verdicts.note(caller, auth, upto);
        }
    }

    pub(crate) fn detach(&mut self, id: i64, slot: Slot, key: &[u8]) {
        if let Some(lease) = self.by_id.get_mut(&id)
            && lease.slots.remove(&slot)
        {
            lease.key_bytes -= key.len();
            self.bytes -= ATTACHED_BYTES;
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

impl Entry for SavedLease {
    type Key = i64;

    fn key(&self) -> &i64 {
        &self.id
    }
}

/// A list of leases, by id if they are those of a store.
pub type SavedLeases = Blocks<SavedLease>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leases_and_the_keys_on_them_are_counted_until_they_go() {
        let (mut leases, auth) = (Leases::default(), Arc::default());
        leases.grant(7, 60, 0);
        leases.grant(8, 60, 0);
        leases.attach(7, 1, b"one", 2, &auth);
        leases.attach(7, 1, b"one", 3, &auth);
        leases.attach(7, 2, b"other", 4, &auth);
        leases.attach(9, 3, b"third", 5, &auth);
        let keys = |leases: &Leases| leases.get(7).map(|lease| (lease.keys(), lease.key_bytes()));
        assert_eq!((leases.bytes(), keys(&leases)), (2 * LEASE_BYTES + 2 * ATTACHED_BYTES, Some((2, 8))));
        leases.detach(7, 2, b"other");
        leases.detach(7, 2, b"other");
        assert_eq!((leases.bytes(), keys(&leases)), (2 * LEASE_BYTES + ATTACHED_BYTES, Some((1, 3))));
        leases.remove(7);
        leases.remove(7);
        assert_eq!(leases.bytes(), LEASE_BYTES);
        leases.remove(8);
        assert_eq!(leases.bytes(), 0);
    }
}
