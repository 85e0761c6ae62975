//! World: the keys as the specification has them, and which lease each hangs on.
//!
//! Leases themselves and compactions take no revision, so they are judged elsewhere, each with its own freedom of
//! order. Here every lease that a request names is there when it is needed, and nothing is ever compacted.

use std::collections::{BTreeMap, BTreeSet};

use vetch_model::{Answer, Event, Model, Refusal, Request};

use crate::facts::leases_named;

#[derive(Debug, Clone, Default)]
pub(crate) struct World {
    pub(crate) model: Model,
    /// The keys of each lease that has any.
    attached: BTreeMap<i64, BTreeSet<Vec<u8>>>,
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

    /// Brings the attachments up to date with the changes from `from` on.
    fn follow(&mut self, from: i64) {
        let World { model, attached } = self;
        for event in model.changes(from, model.revision()) {
            let key = &event.kv.key;
            if let Some(lease) = model.get(key, from - 1).map(|kv| kv.lease).filter(|&lease| lease != 0)
                && let Some(keys) = attached.get_mut(&lease)
            {
                keys.remove(key);
                if keys.is_empty() {
                    attached.remove(&lease);
                }
            }
            if !event.deleted && event.kv.lease != 0 {
                attached.entry(event.kv.lease).or_default().insert(key.clone());
            }
        }
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
