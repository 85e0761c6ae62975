//! State: one log of every change there ever was, and for each key where in the log its changes
//! are.
//!
//! A change belongs to a revision; the changes of one transaction share it. Nothing is ever
//! removed: compaction only moves a mark, so that any past state can be looked up at any later
//! time.

use std::collections::BTreeMap;

use crate::request::Keys;
use crate::response::{Event, KeyValue};

/// How far a store has come: what it can read is everything from `compacted` to `revision`, both
/// included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    pub revision: i64,
    /// -1: nothing was ever compacted.
    pub compacted: i64,
}

#[derive(Debug, Clone)]
pub struct Model {
    /// Ordered by revision, then by the order of changes in it. `prev_kv` is filled in for
    /// everyone.
    log: Vec<Event>,
    /// Each key's changes, in the same order.
    keys: BTreeMap<Vec<u8>, Vec<Place>>,
    /// Time to live in seconds, as granted.
    pub(crate) leases: BTreeMap<i64, i64>,
    pub(crate) now: Moment,
}

/// Where in the log a change is. It repeats of the change what looking for one needs, since
/// histories are long.
#[derive(Debug, Clone, Copy)]
struct Place {
    position: usize,
    revision: i64,
    deleted: bool,
}

impl Default for Model {
    fn default() -> Model {
        Model::new()
    }
}

impl Model {
    /// An empty store is at revision 1.
    pub fn new() -> Model {
        let now = Moment { revision: 1, compacted: -1 };
        Model { log: Vec::new(), keys: BTreeMap::new(), leases: BTreeMap::new(), now }
    }

    pub fn now(&self) -> Moment {
        self.now
    }

    pub fn revision(&self) -> i64 {
        self.now.revision
    }

    /// -1 before the first compaction.
    pub fn compact_revision(&self) -> i64 {
        self.now.compacted
    }

    /// Every change there ever was, in order, whatever has been compacted since.
    pub fn log(&self) -> &[Event] {
        &self.log
    }

    /// The changes of the revisions from `from` to `to`, both included.
    pub fn changes(&self, from: i64, to: i64) -> &[Event] {
        let start = self.log.partition_point(|event| event.kv.mod_revision < from);
        let end = self.log.partition_point(|event| event.kv.mod_revision <= to);
        self.log.get(start..end).unwrap_or_default()
    }

    /// A key's newest change up to revision `at`.
    pub(crate) fn change_at(&self, key: &[u8], at: i64) -> Option<&Event> {
        newest(self.keys.get(key)?, at).map(|place| &self.log[place.position])
    }

    /// A key as it was at revision `at`, if it was there.
    pub fn get(&self, key: &[u8], at: i64) -> Option<&KeyValue> {
        self.change_at(key, at).filter(|event| !event.deleted).map(|event| &event.kv)
    }

    /// All of `keys` that were there at revision `at`, in key order.
    pub fn live<'a>(&'a self, keys: &'a Keys, at: i64) -> impl Iterator<Item = &'a KeyValue> {
        let candidates = self.keys.range(keys.key.clone()..).take_while(|(key, _)| keys.contains(key));
        candidates
            .filter_map(move |(_, places)| newest(places, at))
            .filter(|place| !place.deleted)
            .map(|place| &self.log[place.position].kv)
    }

    /// Everything that was there at revision `at`.
    pub fn dump(&self, at: i64) -> Vec<KeyValue> {
        self.live(&Keys::all(), at).cloned().collect()
    }

    /// The leases there are, with the time to live that each was granted.
    pub fn leases(&self) -> &BTreeMap<i64, i64> {
        &self.leases
    }

    /// A key hangs on a lease exactly as long as its newest version names it.
    pub fn lease_keys(&self, id: i64) -> Vec<&[u8]> {
        let attached = self.keys.iter().filter(|(_, places)| {
            places.last().is_some_and(|last| !last.deleted && self.log[last.position].kv.lease == id)
        });
        attached.map(|(key, _)| key.as_slice()).collect()
    }

    /// Takes back every change after `revision`, as if it had not been. Leases and compactions stay
    /// as they are.
    ///
    /// A server cannot do this; it is for checkers that search for the order of requests.
    pub fn rewind(&mut self, revision: i64) {
        while let Some(last) = self.log.pop_if(|last| last.kv.mod_revision > revision) {
            let Some(places) = self.keys.get_mut(&last.kv.key) else { continue };
            places.pop();
            if places.is_empty() {
                self.keys.remove(&last.kv.key);
            }
        }
        self.now.revision = self.now.revision.min(revision);
    }

    /// Writes a change into the log. Watchers are shown what was there before the revision, and
    /// nothing for a create.
    pub(crate) fn change(&mut self, deleted: bool, kv: KeyValue) {
        let before = self.get(&kv.key, kv.mod_revision - 1);
        let prev_kv = before.filter(|_| kv.version != 1).cloned();
        let place = Place { position: self.log.len(), revision: kv.mod_revision, deleted };
        self.keys.entry(kv.key.clone()).or_default().push(place);
        self.log.push(Event { deleted, kv, prev_kv });
    }
}

/// The last change up to revision `at`.
fn newest(places: &[Place], at: i64) -> Option<Place> {
    let upto = places.partition_point(|place| place.revision <= at);
    places[..upto].last().copied()
}
