//! What requests change, and which are refused.

use std::cmp::Ordering;
use std::sync::Arc;

use vetch_model::{Compare, CompareResult, CompareTarget, KeyValue, Keys, Op, Put, Refusal, Request, Txn};

use super::Stored;

const MAX_TTL: i64 = 9_000_000_000;

impl Stored {
    /// The keys of a range that are there.
    pub(super) fn found(&self, keys: &Keys) -> Vec<Arc<KeyValue>> {
        let from = self.keys.range(keys.key.clone()..);
        from.filter(|(key, _)| keys.contains(key)).map(|(_, kv)| kv.clone()).collect()
    }

    /// The store after a request that is not refused.
    pub(super) fn changed_by(&self, request: &Request) -> Stored {
        let mut after = self.clone();
        match request {
            Request::Put(put) => after.put(put, self.revision + 1),
            Request::Delete(delete) => after.delete(&delete.keys),
            Request::Txn(txn) => after.run(self, txn),
            Request::Compact { revision } => after.compacted = *revision,
            Request::LeaseGrant { id, ttl } => {
                after.leases.insert(*id, *ttl);
            }
            Request::LeaseRevoke { id } => return self.without_lease(*id),
            Request::Range(_) | Request::LeaseKeepAlive { .. } => {}
        }
        after.revision += i64::from(after.keys != self.keys);
        after
    }

    /// The store after a lease and all that hangs on it are gone.
    pub(super) fn without_lease(&self, id: i64) -> Stored {
        let mut after = self.clone();
        after.leases.remove(&id);
        after.keys.retain(|_, kv| kv.lease != id);
        after.revision += i64::from(after.keys.len() != self.keys.len());
        after
    }

    /// The operations of the branch that the store before the transaction chooses.
    pub(super) fn branch<'t>(&self, txn: &'t Txn) -> (bool, &'t [Op]) {
        let holds = txn.compare.iter().all(|compare| self.holds(compare));
        (holds, if holds { &txn.success } else { &txn.failure })
    }

    fn run(&mut self, before: &Stored, txn: &Txn) {
        for op in before.branch(txn).1 {
            match op {
                Op::Put(put) => self.put(put, before.revision + 1),
                Op::Delete(delete) => self.delete(&delete.keys),
                Op::Txn(nested) => self.run(before, nested),
                Op::Range(_) | Op::Empty => {}
            }
        }
    }

    pub(super) fn put(&mut self, put: &Put, revision: i64) {
        let old = self.keys.get(&put.key).cloned();
        let old = old.as_deref();
        let kv = KeyValue {
            key: put.key.clone(),
            value: old
                .filter(|_| put.ignore_value)
                .map_or_else(|| put.value.clone(), |old| old.value.clone()),
            create_revision: old.map_or(revision, |old| old.create_revision),
            mod_revision: revision,
            version: old.map_or(0, |old| old.version) + 1,
            lease: old.filter(|_| put.ignore_lease).map_or(put.lease, |old| old.lease),
        };
        self.keys.insert(put.key.clone(), Arc::new(kv));
    }

    pub(super) fn delete(&mut self, keys: &Keys) {
        self.keys.retain(|key, _| !keys.contains(key));
    }

    fn holds(&self, compare: &Compare) -> bool {
        let kvs = self.found(&compare.keys);
        if kvs.is_empty() {
            let number = match compare.target {
                CompareTarget::Version(n)
                | CompareTarget::Create(n)
                | CompareTarget::Mod(n)
                | CompareTarget::Lease(n) => n,
                CompareTarget::Value(_) => return false,
                CompareTarget::Unknown => 0,
            };
            return ordered(compare.result, 0.cmp(&number));
        }
        kvs.iter().all(|kv| {
            let order = match &compare.target {
                CompareTarget::Version(n) => kv.version.cmp(n),
                CompareTarget::Create(n) => kv.create_revision.cmp(n),
                CompareTarget::Mod(n) => kv.mod_revision.cmp(n),
                CompareTarget::Lease(n) => kv.lease.cmp(n),
                CompareTarget::Value(value) => kv.value.cmp(value),
                CompareTarget::Unknown => Ordering::Equal,
            };
            ordered(compare.result, order)
        })
    }

    /// Why the store refuses the request, if it does.
    pub(super) fn refuses(&self, request: &Request) -> Option<Refusal> {
        match request {
            Request::Range(range) if range.revision > 0 => self.unreadable(range.revision),
            Request::Put(put) => self.refuses_put(put, &[]),
            Request::Txn(txn) => self.refuses_txn(txn, &mut Vec::new()),
            Request::Compact { revision } if *revision <= self.compacted => Some(Refusal::Compacted),
            Request::Compact { revision } if *revision > self.revision => Some(Refusal::FutureRevision),
            Request::LeaseGrant { ttl, .. } if *ttl > MAX_TTL => Some(Refusal::LeaseTtlTooLarge),
            Request::LeaseGrant { id, .. } if self.leases.contains_key(id) => Some(Refusal::LeaseExists),
            Request::LeaseRevoke { id } if !self.leases.contains_key(id) => Some(Refusal::LeaseNotFound),
            _ => None,
        }
    }

    fn unreadable(&self, revision: i64) -> Option<Refusal> {
        if revision > self.revision {
            return Some(Refusal::FutureRevision);
        }
        (revision < self.compacted).then_some(Refusal::Compacted)
    }

    fn refuses_put(&self, put: &Put, deleted: &[&Keys]) -> Option<Refusal> {
        if put.lease != 0 && !self.leases.contains_key(&put.lease) {
            return Some(Refusal::LeaseNotFound);
        }
        let there = self.keys.contains_key(&put.key) && !deleted.iter().any(|keys| keys.contains(&put.key));
        ((put.ignore_value || put.ignore_lease) && !there).then_some(Refusal::KeyNotFound)
    }

    fn refuses_txn<'t>(&self, txn: &'t Txn, deleted: &mut Vec<&'t Keys>) -> Option<Refusal> {
        self.branch(txn).1.iter().find_map(|op| match op {
            Op::Range(range) if range.revision < 0 => Some(Refusal::Compacted),
            Op::Range(range) if range.revision > 0 => self.unreadable(range.revision),
            Op::Range(_) => None,
            Op::Put(put) => self.refuses_put(put, deleted),
            Op::Delete(delete) => {
                deleted.push(&delete.keys);
                None
            }
            Op::Txn(nested) => self.refuses_txn(nested, deleted),
            Op::Empty => Some(Refusal::KeyNotFound),
        })
    }
}

fn ordered(result: CompareResult, order: Ordering) -> bool {
    match result {
        CompareResult::Equal => order.is_eq(),
        CompareResult::NotEqual => order.is_ne(),
        CompareResult::Greater => order.is_gt(),
        CompareResult::Less => order.is_lt(),
        CompareResult::Unknown => true,
    }
}
