//! Load: building a store from a checkpoint.
//!
//! Records arrive sorted by key and then by revision, so every structure is built in one pass with
//! neighbours next to each other in memory: no lookups, no splits. Versions that the checkpoint's
//! compaction had already made unreachable are dropped on the way, for data files are rewritten
//! only now and then.

mod history;

use std::sync::Arc;

use crate::auth::SavedAuth;
use crate::chain::Chain;
use crate::keys::{Filling, Slot};
use crate::lease::Leases;
pub use crate::lease::{SavedLease, SavedLeases};
use crate::record::Record;
use crate::request::{Alarm, Event};
use crate::state::{Mark, Store, shown_before};
use crate::tree::Tree;

pub use history::History;
use history::Touched;

/// The part of the state that is not versioned.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unversioned {
    pub leases: SavedLeases,
    pub alarms: Vec<Alarm>,
    pub auth: SavedAuth,
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
    /// Of every slot, whether its key is alive.
    living: Vec<bool>,
    superseded: Vec<(i64, Slot)>,
    history: History,
}

impl Loader {
    pub fn new(mark: Mark, expected_keys: usize) -> Loader {
        Loader {
            mark,
            keys: Filling::new(expected_keys),
            bytes: 0,
            chain: Vec::new(),
            living: Vec::with_capacity(expected_keys),
            superseded: Vec::new(),
            history: History::new(mark, expected_keys),
        }
    }

    /// Takes the next version. They come in order of key, then revision, then position in the
    /// revision.
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
        self.note(&chain);
        self.keys.push(chain);
    }

    /// What is derived from the versions of a key: garbage to come, whether it came or went,
    /// events.
    fn note(&mut self, chain: &Chain) {
        let slot = Slot::try_from(self.living.len()).expect("fewer than four billion keys");
        let mut replaces = false;
        for kv in chain.versions() {
            self.bytes += kv.footprint() as u64;
            let (revision, is_gone) = (kv.mod_revision(), kv.is_tombstone());
            if replaces || is_gone {
                self.superseded.push((revision, slot));
            }
            if revision >= self.mark.compact_revision {
                let came = (is_gone || kv.version() == 1).then_some(!is_gone);
                let event = Event { kv: kv.clone(), prev: shown_before(chain, kv).cloned() };
                self.history.note(revision, event, Touched { slot, came });
            }
            replaces = !is_gone;
        }
        self.living.push(replaces);
    }

    /// The store, and the events from the compaction on, for watches of the past.
    pub fn finish(mut self, state: &Unversioned) -> Result<(Store, History), BadCheckpoint> {
        self.close_chain();
        let keys = self.keys.finish();
        let living = || (0..).zip(&self.living).map(|(slot, &living)| (slot, living));
        let tree = Tree::load(&|slot: Slot| keys.key(slot), living());
        let mut leases = Leases::default();
        for saved in state.leases.iter() {
            if saved.id == 0 || leases.get(saved.id).is_some() {
                return Err(BadCheckpoint("a lease appears twice"));
            }
            leases.grant(saved.id, saved.ttl, saved.remaining);
        }
        let may_have_leases = !leases.is_empty();
        for (slot, _) in living().filter(|&(_, living)| living && may_have_leases) {
            let version = keys.chain(slot).last().expect("a living key has a version");
            leases.attach(version.lease(), slot, version.key(), version.mod_revision(), state.auth.auth());
        }
        self.superseded.sort_unstable();
        let membership = self.history.finish();
        let store = Store {
            keys,
            tree,
            membership,
            leases,
            alarms: state.alarms.iter().copied().collect(),
            auth: Arc::clone(state.auth.auth()),
            head: self.mark,
            visible: self.mark,
            youngest: self.mark.revision,
            freed_to: self.mark.compact_revision,
            superseded: self.superseded.into_iter().collect(),
            bytes: self.bytes,
            ..Store::default()
        };
        Ok((store, self.history))
    }
}

impl Store {
    /// The part of head that is not versioned, for a checkpoint. Takes no time for each lease or
    /// user.
    pub fn unversioned(&self) -> Unversioned {
        Unversioned {
            leases: self.leases.saved().clone(),
            alarms: self.alarms.iter().copied().collect(),
            auth: Arc::clone(&self.auth).into(),
        }
    }
}
