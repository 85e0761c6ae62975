//! Load: building a store from a checkpoint.
//!
//! Records arrive sorted by key and then by revision, so every structure is built in one pass with neighbours
//! next to each other in memory: no lookups, no splits. Versions that the checkpoint's compaction had already
//! made unreachable are dropped on the way, for data files are rewritten only now and then.

use std::sync::Arc;

use crate::auth::{Auth, AuthState};
use crate::chain::Chain;
use crate::keys::{Filling, Slot};
use crate::lease::Leases;
use crate::record::Record;
use crate::request::{Alarm, Event};
use crate::state::{Mark, Store, shown_before};
use crate::tree::Tree;

/// The part of the state that is not versioned.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unversioned {
    pub leases: Vec<SavedLease>,
    pub alarms: Vec<Alarm>,
    pub auth: AuthState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SavedLease {
    pub id: i64,
    pub ttl: i64,
    /// 0: the full time.
    pub remaining: i64,
}

/// A checkpoint that contradicts itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("checkpoint contradicts itself: {0}")]
pub struct BadCheckpoint(&'static str);

pub struct Loader {
    mark: Mark,
    keys: Filling,
    bytes: u64,
    /// Versions of the key being read.
    chain: Vec<Record>,
    slots: Slot,
}

impl Loader {
    pub fn new(mark: Mark, expected_keys: usize) -> Loader {
        Loader { mark, keys: Filling::new(expected_keys), bytes: 0, chain: Vec::new(), slots: 0 }
    }

    /// Takes the next version. They come in order of key, then revision, then position in the revision.
    pub fn push(&mut self, record: Record) -> Result<(), BadCheckpoint> {
        if record.mod_revision() > self.mark.revision {
            return Err(BadCheckpoint("a record is newer than the checkpoint"));
        }
        if let Some(last) = self.chain.last() {
            let order = last.key().cmp(record.key());
            if order.is_gt() {
                return Err(BadCheckpoint("keys out of order"));
            }
            if order.is_lt() {
                self.close_chain();
            } else if (last.mod_revision(), last.sub()) >= (record.mod_revision(), record.sub()) {
                return Err(BadCheckpoint("versions out of order"));
            }
        }
        self.chain.push(record);
        Ok(())
    }

    fn close_chain(&mut self) {
        let mut versions = self.chain.drain(..);
        let Some(first) = versions.next() else { return };
        let mut chain = Chain::One(first);
        versions.for_each(|record| chain.push(record));
        chain.compact(self.mark.compact_revision, drop);
        if chain.versions().is_empty() {
            return;
        }
        self.bytes += chain.versions().iter().map(|record| record.footprint() as u64).sum::<u64>();
        let slot = self.keys.push(chain);
        assert!(slot == self.slots, "slots are given out in key order");
        self.slots += 1;
    }

    /// The store, and the events from the compaction on for those who watch the past.
    pub fn finish(mut self, state: &Unversioned) -> Result<(Store, Vec<Event>), BadCheckpoint> {
        self.close_chain();
        let keys = self.keys.finish();
        let living = |slot: Slot| keys.chain(slot).last().is_some_and(|last| !last.is_tombstone());
        let tree = Tree::load(&|slot: Slot| keys.key(slot), (0..self.slots).map(|slot| (slot, living(slot))));
        let mut leases = Leases::default();
        for saved in &state.leases {
            if saved.id == 0 || leases.get(saved.id).is_some() {
                return Err(BadCheckpoint("a lease appears twice"));
            }
            leases.grant(saved.id, saved.ttl, saved.remaining);
        }
        for slot in (0..self.slots).filter(|&slot| living(slot)) {
            leases.attach(keys.chain(slot).last().expect("a living key has a version").lease(), slot);
        }
        let mut store = Store {
            keys,
            tree,
            leases,
            alarms: state.alarms.iter().copied().collect(),
            auth: Arc::new(Auth::from(state.auth.clone())),
            head: self.mark,
            visible: self.mark,
            bytes: self.bytes,
            ..Store::default()
        };
        let history = store.load_history(self.slots);
        Ok((store, history))
    }
}

impl Store {
    /// What is derived from the versions' revisions: garbage to come, keys that came and went, events.
    fn load_history(&mut self, slots: Slot) -> Vec<Event> {
        let compacted = self.head.compact_revision;
        // The order of events is found without looking at the versions again, which are far apart in memory.
        let mut places = Vec::new();
        let mut superseded = Vec::new();
        for slot in 0..slots {
            let mut prev: Option<&Record> = None;
            for (index, version) in (0u32..).zip(self.keys.chain(slot).versions()) {
                if prev.is_some_and(|prev| !prev.is_tombstone()) || version.is_tombstone() {
                    superseded.push((version.mod_revision(), slot));
                }
                if version.mod_revision() >= compacted {
                    places.push((version.mod_revision(), version.sub(), slot, index));
                }
                prev = Some(version);
            }
        }
        superseded.sort_unstable();
        self.superseded = superseded.into_iter().collect();
        places.sort_unstable();
        let event = |(_, _, slot, index): (i64, u32, Slot, u32)| {
            let chain = self.keys.chain(slot);
            let version = &chain.versions()[index as usize];
            Event { kv: version.clone(), prev: shown_before(chain, version).cloned() }
        };
        let events: Vec<Event> = places.into_iter().map(event).collect();
        for event in &events {
            let revision = event.kv.mod_revision();
            if event.kv.is_tombstone() {
                self.membership.deleted(revision, event.kv.key());
            } else if event.kv.version() == 1 {
                self.membership.created(revision, event.kv.key());
            }
        }
        events
    }

    /// The part of head that is not versioned, for a checkpoint.
    pub fn unversioned(&self) -> Unversioned {
        let leases = self.leases.iter().map(|(id, lease)| SavedLease {
            id,
            ttl: lease.ttl(),
            remaining: if lease.is_checkpointed() { lease.remaining() } else { 0 },
        });
        Unversioned {
            leases: leases.collect(),
            alarms: self.alarms.iter().copied().collect(),
            auth: self.auth.state(),
        }
    }
}
