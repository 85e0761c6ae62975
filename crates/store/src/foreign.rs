//! Foreign revisions: changes that another server decided, under the revisions they have there.
//!
//! A node that follows an etcd evaluates nothing; it journals the effects it gets, as it would its
//! own. So that no revision is ever lost, doubled or reordered on the way, each one has to fit the
//! state before it: it is the next one, every put continues the life of its key, every delete finds
//! its key alive. Otherwise the whole revision is refused.

use std::collections::BTreeMap;

use crate::error::StoreError;
use crate::evaluate::{Evaluated, Txn};
use crate::record::Record;
use crate::request::WriteResponse;
use crate::state::Store;

/// Where the life of a key began, and how many versions it has.
type Life = (i64, i64);

impl Store {
    pub(crate) fn evaluate_foreign(
        &mut self,
        changes: &[Record],
        journal: &mut Vec<u8>,
    ) -> Result<Evaluated, StoreError> {
        self.check_foreign(changes)?;
        let mut store = &mut *self;
        let mut txn = Txn::begin(&mut store);
        for change in changes {
            if change.is_tombstone() {
                let slot = txn.living(change.key()).expect("checked before the transaction began");
                txn.delete_slot(slot);
            } else {
                txn.apply_put(change.clone());
            }
        }
        let events = txn.commit_to(journal);
        Ok(Evaluated::versioned(WriteResponse::Foreign { revision: self.head.revision }, events))
    }

    fn check_foreign(&self, changes: &[Record]) -> Result<(), StoreError> {
        if changes.is_empty() {
            return Err(StoreError::Misfit("a revision without changes"));
        }
        let revision = self.head.revision + 1;
        // Keys that this very revision has changed already.
        let mut changed: BTreeMap<&[u8], Option<Life>> = BTreeMap::new();
        for (sub, change) in changes.iter().enumerate() {
            if change.mod_revision() != revision || change.sub() as usize != sub {
                return Err(StoreError::Misfit("a change that is not of the next revision, or out of order"));
            }
            let before = changed.get(change.key()).copied().unwrap_or_else(|| self.life(change.key()));
            changed.insert(change.key(), self.life_after(change, before)?);
        }
        Ok(())
    }

    fn life(&self, key: &[u8]) -> Option<Life> {
        self.get(key, self.head.revision).map(|kv| (kv.create_revision(), kv.version()))
    }

    fn life_after(&self, change: &Record, before: Option<Life>) -> Result<Option<Life>, StoreError> {
        if change.is_tombstone() {
            return before.map(|_| None).ok_or(StoreError::Misfit("a delete of a key that is not there"));
        }
        let (created, versions) = before.unwrap_or((change.mod_revision(), 0));
        let life = (created, versions + 1);
        if (change.create_revision(), change.version()) != life {
            return Err(StoreError::Misfit("a put that does not go on where its key was"));
        }
        if change.lease() != 0 && self.leases.get(change.lease()).is_none() {
            return Err(StoreError::Misfit("a key of a lease that is not known"));
        }
        Ok(Some(life))
    }
}
