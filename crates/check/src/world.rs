//! World: the keys as the specification has them, and which lease each hangs on.
//!
//! Leases themselves and compactions take no revision, so they are judged elsewhere, each with its
//! own freedom of order. Here every lease that a request names is there when it is needed, and
//! nothing is ever compacted.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use vetch_model::{Answer, Event, KeyValue, Model, Refusal, Request};

use crate::facts::leases_named;

#[derive(Debug, Clone, Default)]
pub(crate) struct World {
    pub(crate) model: Model,
    /// The keys of each lease that has any.
    attached: BTreeMap<i64, BTreeSet<Vec<u8>>>,
    /// The sum over all keys that are there. Two worlds with the same one have the same keys.
    fingerprint: u128,
}

impl World {
    /// Does what the request asks. Returns the answer with its revision.
    pub(crate) fn apply(&mut self, request: &Request) -> Result<(i64, Answer), Refusal> {
        let mut leases = leases_named(request);
        if let Request::LeaseRevoke { id } = request {
            leases.push(*id);
        }
        for id in leases {
            if !self.model.leases().contains_key(&id) {
                self.model.evaluate(&Request::LeaseGrant { id, ttl: 1 })?;
            }
        }
        let before = self.model.revision();
        let answered = self.model.evaluate(request)?;
        self.follow(before + 1);
        Ok(answered)
    }

    /// What the request would change, without previous values, if that is plain to see: of a
    /// transaction it is not.
    pub(crate) fn preview(&self, request: &Request) -> Option<Vec<Event>> {
        let (now, next) = (self.revision(), self.revision() + 1);
        let gone = |key: Vec<u8>| {
            let kv = KeyValue {
                key,
                value: Vec::new(),
                create_revision: 0,
                mod_revision: next,
                version: 0,
                lease: 0,
            };
            Event { deleted: true, kv, prev_kv: None }
        };
        match request {
            Request::Put(put) => {
                let prev = self.model.get(&put.key, now);
                if (put.ignore_value || put.ignore_lease) && prev.is_none() {
                    return Some(Vec::new());
                }
                let kept = |keep: bool| prev.filter(|_| keep);
                let kv = KeyValue {
                    key: put.key.clone(),
                    value: kept(put.ignore_value).map_or(&put.value, |prev| &prev.value).clone(),
                    create_revision: prev.map_or(next, |prev| prev.create_revision),
                    mod_revision: next,
                    version: prev.map_or(1, |prev| prev.version + 1),
                    lease: kept(put.ignore_lease).map_or(put.lease, |prev| prev.lease),
                };
                Some(vec![Event { deleted: false, kv, prev_kv: None }])
            }
            Request::Delete(delete) => {
                Some(self.model.live(&delete.keys, now).map(|kv| gone(kv.key.clone())).collect())
            }
            Request::LeaseRevoke { id } => {
                Some(self.attached.get(id).into_iter().flatten().cloned().map(gone).collect())
            }
            Request::Txn(_) => None,
            _ => Some(Vec::new()),
        }
    }

    /// Goes back to what was after `revision`.
    pub(crate) fn rewind(&mut self, revision: i64) {
        let now = self.revision();
        self.shift(now, revision);
        self.model.rewind(revision);
    }

    /// Brings the attachments and the fingerprint up to date with the changes from `from` on.
    fn follow(&mut self, from: i64) {
        self.shift(from - 1, self.revision());
    }

    /// Takes the attachments and the fingerprint from one revision to another, forwards or back.
    fn shift(&mut self, from: i64, to: i64) {
        let World { model, attached, fingerprint } = self;
        let changes = model.changes(from.min(to) + 1, from.max(to));
        let keys: BTreeSet<&[u8]> = changes.iter().map(|event| event.kv.key.as_slice()).collect();
        for key in keys {
            if let Some(kv) = model.get(key, from) {
                *fingerprint = fingerprint.wrapping_sub(digest(kv));
                if let Some(keys) = attached.get_mut(&kv.lease) {
                    keys.remove(key);
                    if keys.is_empty() {
                        attached.remove(&kv.lease);
                    }
                }
            }
            if let Some(kv) = model.get(key, to) {
                *fingerprint = fingerprint.wrapping_add(digest(kv));
                if kv.lease != 0 {
                    attached.entry(kv.lease).or_default().insert(key.to_vec());
                }
            }
        }
    }

    /// A number that no other set of keys has.
    pub(crate) fn fingerprint(&self) -> u128 {
        self.fingerprint
    }

    pub(crate) fn attached(&self) -> &BTreeMap<i64, BTreeSet<Vec<u8>>> {
        &self.attached
    }

    pub(crate) fn has_keys(&self, lease: i64) -> bool {
        self.attached.contains_key(&lease)
    }

    pub(crate) fn revision(&self) -> i64 {
        self.model.revision()
    }

    /// The changes of one revision.
    pub(crate) fn events(&self, revision: i64) -> &[Event] {
        self.model.changes(revision, revision)
    }
}

/// Wide enough that no two sets of keys of one history meet by chance.
fn digest(kv: &KeyValue) -> u128 {
    let half = |salt: u8| {
        let mut hasher = DefaultHasher::new();
        (salt, kv).hash(&mut hasher);
        u128::from(hasher.finish())
    };
    half(0) << 64 | half(1)
}
