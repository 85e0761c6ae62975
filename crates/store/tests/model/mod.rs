//! Model: what the store must answer, written as plainly as it can be said.
//!
//! A map from keys to every version they ever had, read by scanning. Nothing is ever forgotten, nothing is
//! counted in advance, and a refused request is undone by throwing a copy away. It shares the request types and
//! `Record` with the store and none of its code.

#![allow(dead_code, reason = "each test binary uses its own part of the model")]

pub(crate) mod overlap;
pub(crate) mod range;
pub(crate) mod requests;

use std::collections::{BTreeMap, BTreeSet};

use vetch_store::record::Fields;
use vetch_store::request::*;
use vetch_store::{Evaluated, Mark, Record, StoreError};

#[derive(Debug, Clone)]
pub(crate) struct Model {
    pub(crate) keys: BTreeMap<Vec<u8>, Vec<Record>>,
    pub(crate) leases: BTreeMap<i64, (i64, i64)>,
    pub(crate) alarms: BTreeSet<Alarm>,
    pub(crate) head: Mark,
    /// Changes of the transaction being evaluated.
    events: Vec<Event>,
}

impl Model {
    pub(crate) fn new() -> Model {
        Model {
            keys: BTreeMap::new(),
            leases: BTreeMap::new(),
            alarms: BTreeSet::new(),
            head: Mark { revision: 1, compact_revision: -1 },
            events: Vec::new(),
        }
    }

    pub(crate) fn version_at(&self, key: &[u8], at: i64) -> Option<&Record> {
        self.keys.get(key)?.iter().rev().find(|version| version.mod_revision() <= at)
    }

    pub(crate) fn live_at(&self, key: &[u8], at: i64) -> Option<&Record> {
        self.version_at(key, at).filter(|version| !version.is_tombstone())
    }

    pub(crate) fn live(&self, range: &KeyRange, at: i64) -> Vec<Record> {
        let keys = self.keys.keys().filter(|key| in_range(range, key));
        keys.filter_map(|key| self.live_at(key, at)).cloned().collect()
    }

    pub(crate) fn all_versions(&self) -> impl Iterator<Item = &Record> {
        self.keys.values().flatten()
    }

    /// Whether compaction at `compacted` has to keep a version: it is younger, or of that revision, or the
    /// newest and living one before it.
    pub(crate) fn keeps(&self, version: &Record, compacted: i64) -> bool {
        if version.mod_revision() >= compacted {
            return true;
        }
        !version.is_tombstone() && self.version_at(version.key(), compacted - 1) == Some(version)
    }

    /// A key hangs on a lease exactly as long as its newest version names it.
    pub(crate) fn lease_keys(&self, id: i64) -> Vec<&[u8]> {
        let attached = self.keys.iter().filter(|(_, versions)| {
            versions.last().is_some_and(|last| !last.is_tombstone() && last.lease() == id)
        });
        attached.map(|(key, _)| key.as_slice()).collect()
    }

    /// Every event from `from` on, in order.
    pub(crate) fn events_since(&self, from: i64) -> Vec<Event> {
        let mut events = Vec::new();
        for versions in self.keys.values() {
            for (index, version) in versions.iter().enumerate() {
                let before = versions[..index]
                    .iter()
                    .rev()
                    .find(|other| other.mod_revision() < version.mod_revision());
                let prev = before.filter(|prev| !prev.is_tombstone() && version.version() != 1).cloned();
                if version.mod_revision() >= from {
                    events.push(Event { kv: version.clone(), prev });
                }
            }
        }
        events.sort_by_key(|event| (event.kv.mod_revision(), event.kv.sub()));
        events
    }

    pub(crate) fn evaluate(&mut self, request: &WriteRequest) -> Result<Evaluated, StoreError> {
        let mut trial = self.clone();
        let response = trial.apply(request)?;
        let events = std::mem::take(&mut trial.events);
        if !events.is_empty() {
            trial.head.revision += 1;
        }
        *self = trial;
        Ok(Evaluated { response, events })
    }

    fn apply(&mut self, request: &WriteRequest) -> Result<WriteResponse, StoreError> {
        let revision = self.head.revision;
        Ok(match request {
            WriteRequest::Put(put) => {
                self.check_put(put, &[])?;
                WriteResponse::Put(self.put(put))
            }
            WriteRequest::DeleteRange(delete) => WriteResponse::DeleteRange(self.delete(delete)),
            WriteRequest::Txn(txn) => {
                let before = self.clone();
                before.check_txn(txn, &mut Vec::new())?;
                let mut response = self.run(&before, txn);
                response.revision = self.current();
                WriteResponse::Txn(response)
            }
            WriteRequest::Compact { revision: at } => {
                if *at <= self.head.compact_revision {
                    return Err(StoreError::Compacted);
                }
                if *at > revision {
                    return Err(StoreError::FutureRevision);
                }
                self.head.compact_revision = *at;
                WriteResponse::Compact { revision }
            }
            WriteRequest::LeaseGrant { id, ttl } => {
                if *ttl > 9_000_000_000 {
                    return Err(StoreError::LeaseTtlTooLarge);
                }
                if self.leases.contains_key(id) {
                    return Err(StoreError::LeaseExists);
                }
                self.leases.insert(*id, (*ttl, 0));
                WriteResponse::LeaseGrant { revision, id: *id, ttl: *ttl }
            }
            WriteRequest::LeaseRevoke { id } => {
                let keys: Vec<_> = self.lease_keys(*id).into_iter().map(<[u8]>::to_vec).collect();
                self.leases.remove(id).ok_or(StoreError::LeaseNotFound)?;
                for key in keys {
                    self.delete_key(&key);
                }
                WriteResponse::LeaseRevoke { revision: self.current(), id: *id }
            }
            WriteRequest::LeaseRemaining { leases } => {
                let mut known = leases.clone();
                known.retain(|(id, _)| self.leases.contains_key(id));
                for (id, remaining) in &known {
                    self.leases.entry(*id).and_modify(|lease| lease.1 = *remaining);
                }
                WriteResponse::LeaseRemaining { leases: known }
            }
            WriteRequest::AlarmActivate(alarm) => {
                self.alarms.insert(*alarm);
                WriteResponse::Alarm { revision, changed: vec![*alarm] }
            }
            WriteRequest::AlarmDeactivate(alarm) => {
                let changed = if self.alarms.remove(alarm) { vec![*alarm] } else { vec![] };
                WriteResponse::Alarm { revision, changed }
            }
        })
    }

    fn next(&self) -> i64 {
        self.head.revision + 1
    }

    fn current(&self) -> i64 {
        self.head.revision + i64::from(!self.events.is_empty())
    }

    /// Refusals by the state before the transaction, in the order of the operations.
    pub(crate) fn check_txn<'a>(
        &self,
        txn: &'a TxnRequest,
        deleted: &mut Vec<&'a KeyRange>,
    ) -> Result<(), StoreError> {
        for op in self.branch(txn) {
            match op {
                RequestOp::Range(range) if range.revision != 0 => {
                    if range.revision > self.head.revision {
                        return Err(StoreError::FutureRevision);
                    }
                    if range.revision < self.head.compact_revision {
                        return Err(StoreError::Compacted);
                    }
                }
                RequestOp::Range(_) => {}
                RequestOp::Put(put) => self.check_put(put, deleted)?,
                RequestOp::DeleteRange(delete) => deleted.push(&delete.range),
                RequestOp::Txn(nested) => self.check_txn(nested, deleted)?,
                RequestOp::Empty => return Err(StoreError::KeyNotFound),
            }
        }
        Ok(())
    }

    /// `deleted`: what the transaction deletes before this put. A key has nothing to keep after that.
    fn check_put(&self, put: &PutRequest, deleted: &[&KeyRange]) -> Result<(), StoreError> {
        if put.lease != 0 && !self.leases.contains_key(&put.lease) {
            return Err(StoreError::LeaseNotFound);
        }
        let keeps = put.ignore_value || put.ignore_lease;
        let there = self.live_at(&put.key, self.head.revision).is_some()
            && !deleted.iter().any(|range| in_range(range, &put.key));
        if keeps && !there { Err(StoreError::KeyNotFound) } else { Ok(()) }
    }

    fn branch<'a>(&self, txn: &'a TxnRequest) -> &'a [RequestOp] {
        if txn.compare.iter().all(|compare| self.holds(compare)) { &txn.success } else { &txn.failure }
    }

    fn holds(&self, compare: &Compare) -> bool {
        let kvs = self.live(&compare.range, self.head.revision);
        if kvs.is_empty() {
            return match &compare.target {
                CompareTarget::Value(_) => false,
                CompareTarget::Version(n) | CompareTarget::Create(n) => satisfies(compare.result, 0, *n),
                CompareTarget::Mod(n) | CompareTarget::Lease(n) => satisfies(compare.result, 0, *n),
                CompareTarget::Unknown => satisfies(compare.result, 0, 0),
            };
        }
        kvs.iter().all(|kv| match &compare.target {
            CompareTarget::Value(value) => satisfies(compare.result, kv.value(), value.as_ref()),
            CompareTarget::Version(n) => satisfies(compare.result, kv.version(), *n),
            CompareTarget::Create(n) => satisfies(compare.result, kv.create_revision(), *n),
            CompareTarget::Mod(n) => satisfies(compare.result, kv.mod_revision(), *n),
            CompareTarget::Lease(n) => satisfies(compare.result, kv.lease(), *n),
            CompareTarget::Unknown => satisfies(compare.result, 0, 0),
        })
    }

    /// `before` decides every branch, however deep: it is the state before the transaction.
    fn run(&mut self, before: &Model, txn: &TxnRequest) -> TxnResponse {
        let succeeded = txn.compare.iter().all(|compare| before.holds(compare));
        let mut responses = Vec::new();
        for op in before.branch(txn) {
            responses.push(match op {
                RequestOp::Range(range) => {
                    let at = if range.revision <= 0 { self.current() } else { range.revision };
                    ResponseOp::Range(self.range(range, self.current(), at))
                }
                RequestOp::Put(put) => ResponseOp::Put(self.put(put)),
                RequestOp::DeleteRange(delete) => ResponseOp::DeleteRange(self.delete(delete)),
                RequestOp::Txn(nested) => ResponseOp::Txn(self.run(before, nested)),
                RequestOp::Empty => panic!("refused by the check"),
            });
        }
        TxnResponse { revision: 0, succeeded, responses }
    }

    pub(crate) fn read_txn(&self, txn: &TxnRequest, visible: Mark) -> Result<TxnResponse, StoreError> {
        // What is not visible has not happened yet.
        let mut before = self.clone();
        for versions in before.keys.values_mut() {
            versions.retain(|version| version.mod_revision() <= visible.revision);
        }
        before.head = visible;
        before.check_txn(txn, &mut Vec::new())?;
        let mut response = before.clone().run(&before, txn);
        response.revision = visible.revision;
        Ok(response)
    }

    fn put(&mut self, put: &PutRequest) -> PutResponse {
        let prev = self.live_at(&put.key, self.next()).cloned();
        let kept = || prev.as_ref().expect("checked before");
        let record = Record::new(Fields {
            key: &put.key,
            value: if put.ignore_value { kept().value() } else { &put.value },
            create_revision: prev.as_ref().map_or(self.next(), Record::create_revision),
            mod_revision: self.next(),
            version: prev.as_ref().map_or(1, |prev| prev.version() + 1),
            lease: if put.ignore_lease { kept().lease() } else { put.lease },
            sub: self.events.len() as u32,
        });
        self.change(record);
        PutResponse { revision: self.next(), prev_kv: prev.filter(|_| put.prev_kv) }
    }

    fn delete(&mut self, delete: &DeleteRangeRequest) -> DeleteRangeResponse {
        let gone = self.live(&delete.range, self.next());
        for record in &gone {
            self.delete_key(record.key());
        }
        let deleted = gone.len() as i64;
        let prev_kvs = if delete.prev_kv { gone } else { vec![] };
        DeleteRangeResponse { revision: self.current(), deleted, prev_kvs }
    }

    fn delete_key(&mut self, key: &[u8]) {
        let prev = self.live_at(key, self.next()).expect("only a living key is deleted").clone();
        let sub = self.events.len() as u32;
        let tombstone = Record::tombstone(key, self.next(), sub, prev.create_revision());
        self.change(tombstone);
    }

    /// Watchers are shown what was there before the revision, and nothing for a create.
    fn change(&mut self, record: Record) {
        let before = self.live_at(record.key(), record.mod_revision() - 1).cloned();
        let prev = before.filter(|_| record.version() != 1);
        self.keys.entry(record.key().to_vec()).or_default().push(record.clone());
        self.events.push(Event { kv: record, prev });
    }
}

fn satisfies<T: PartialOrd>(result: CompareResult, left: T, right: T) -> bool {
    match result {
        CompareResult::Equal => left == right,
        CompareResult::NotEqual => left != right,
        CompareResult::Greater => left > right,
        CompareResult::Less => left < right,
        CompareResult::Unknown => true,
    }
}

pub(crate) fn in_range(range: &KeyRange, key: &[u8]) -> bool {
    match range.range_end.as_ref() {
        b"" => key == range.key.as_ref(),
        b"\0" => key >= range.key.as_ref(),
        end => key >= range.key.as_ref() && key < end,
    }
}
