//! Evaluate: one write request against head, all or nothing.
//!
//! Everything that can be refused is refused before the first change. What happens is applied to
//! head at once, written down as commands for the journal, and returned as events; the caller shows
//! none of it to anybody until the journal entry that carries the commands is durable.

use std::borrow::Cow;
use std::convert::Infallible;
use std::sync::Arc;

use crate::auth;
use crate::command::{self, RANGE_DELETE_BYTES, RANGE_DELETE_KEYS, RangeDelete};
use crate::compare::{Path, branch, check_put};
use crate::error::StoreError;
use crate::exclusive::{CHANGE_WEIGHT, Exclusive, scan};
use crate::lease::{self, EndedLease};
use crate::range::{RangeRun, resolve_revision};
use crate::record::{Fields, Record};
use crate::request::*;
use crate::state::{Mark, Store};
use crate::undo::Undo;
use crate::work::Work;

/// The outcome of a request that was not refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evaluated {
    pub response: WriteResponse,
    /// The changes of the one revision this request made; empty if it made none.
    pub events: Vec<Event>,
    /// What takes back the changes that have no versions, if it made any.
    pub undo: Option<Undo>,
}

impl Evaluated {
    /// The request changed keys or nothing.
    pub(crate) fn versioned(response: WriteResponse, events: Vec<Event>) -> Evaluated {
        Evaluated { response, events, undo: None }
    }

    /// A lease has ended, and its keys with it.
    pub(crate) fn of_revoke(revision: i64, ended: EndedLease, events: Vec<Event>) -> Evaluated {
        let response = WriteResponse::LeaseRevoke { revision, id: ended.id() };
        Evaluated { response, events, undo: Some(Undo::lease_ended(revision, ended)) }
    }

    /// The request changed what has no versions, or nothing.
    fn unversioned(response: WriteResponse, undo: Option<Undo>) -> Evaluated {
        Evaluated { response, events: Vec::new(), undo }
    }
}

impl Store {
    /// What [`crate::turns::evaluate`] has no steps for.
    pub(crate) fn evaluate_small(
        &mut self,
        request: &WriteRequest,
        journal: &mut Vec<u8>,
    ) -> Result<Evaluated, StoreError> {
        match request {
            WriteRequest::Compact { revision } => self.evaluate_compact(*revision, journal),
            WriteRequest::LeaseGrant { id, ttl } => self.evaluate_lease_grant(*id, *ttl, journal),
            WriteRequest::LeaseExpire { .. } => Err(StoreError::LeaseNotFound),
            WriteRequest::LeaseRemaining { leases } => self.evaluate_lease_remaining(leases, journal),
            WriteRequest::AlarmActivate(alarm) => self.evaluate_alarm_on(*alarm, journal),
            WriteRequest::AlarmDeactivate(alarm) => self.evaluate_alarm_off(*alarm, journal),
            WriteRequest::Auth(change) => self.evaluate_auth(change, journal),
            WriteRequest::Foreign { changes } => self.evaluate_foreign(changes, journal),
            WriteRequest::Put(_)
            | WriteRequest::DeleteRange(_)
            | WriteRequest::Txn(_)
            | WriteRequest::LeaseRevoke { .. } => unreachable!("evaluated in steps"),
        }
    }

    fn evaluate_compact(&mut self, revision: i64, journal: &mut Vec<u8>) -> Result<Evaluated, StoreError> {
        if revision <= self.head.compact_revision {
            return Err(StoreError::Compacted);
        }
        if revision > self.head.revision {
            return Err(StoreError::FutureRevision);
        }
        self.head.compact_revision = revision;
        command::encode_compact(journal, revision);
        Ok(Evaluated::unversioned(WriteResponse::Compact { revision: self.head.revision }, None))
    }

    /// `ttl` has been raised to the minimum by the caller, who also chooses the id if the client
    /// did not.
    fn evaluate_lease_grant(
        &mut self,
        id: i64,
        ttl: i64,
        journal: &mut Vec<u8>,
    ) -> Result<Evaluated, StoreError> {
        if ttl > lease::MAX_TTL {
            return Err(StoreError::LeaseTtlTooLarge);
        }
        if self.leases.get(id).is_some() {
            return Err(StoreError::LeaseExists);
        }
        let grant = self.leases.grant(id, ttl, 0);
        command::encode_lease_grant(journal, id, ttl);
        let undo = Undo::lease_granted(self.head.revision, id);
        let response = WriteResponse::LeaseGrant { revision: self.head.revision, id, ttl, grant };
        Ok(Evaluated::unversioned(response, Some(undo)))
    }

    pub(crate) fn evaluate_revoke(
        &mut self,
        id: i64,
        journal: &mut Vec<u8>,
    ) -> Result<Evaluated, StoreError> {
        let ended = self.leases.ended(id).ok_or(StoreError::LeaseNotFound)?;
        let events = self.revoke_lease(id).ok_or(StoreError::LeaseNotFound)?;
        command::encode_lease_revoke(journal, id);
        Ok(Evaluated::of_revoke(self.head.revision, ended, events))
    }

    /// Takes a lease and deletes its keys, in key order, as one revision.
    pub(crate) fn revoke_lease(&mut self, id: i64) -> Option<Vec<Event>> {
        let lease = self.leases.remove(id)?;
        let mut slots: Vec<_> = lease.slots().collect();
        slots.sort_unstable_by(|&a, &b| self.keys.key(a).cmp(self.keys.key(b)));
        let mut store = self;
        let mut txn = Txn::begin(&mut store);
        for slot in slots {
            txn.delete_slot(slot);
        }
        Some(txn.commit())
    }

    fn evaluate_lease_remaining(
        &mut self,
        leases: &[Remaining],
        journal: &mut Vec<u8>,
    ) -> Result<Evaluated, StoreError> {
        // A lease that went meanwhile is simply no longer of interest.
        let mut leases = leases.to_vec();
        leases.retain(|lease| self.leases.is_of(lease.id, lease.grant));
        let mut before = Vec::with_capacity(leases.len());
        for lease in &leases {
            before.extend(self.leases.set_remaining(lease.id, lease.seconds).map(|was| (lease.id, was)));
            command::encode_lease_remaining(journal, lease.id, lease.seconds);
        }
        let undo = (!before.is_empty()).then(|| Undo::remaining(self.head.revision, before));
        Ok(Evaluated::unversioned(WriteResponse::LeaseRemaining { leases }, undo))
    }

    fn evaluate_alarm_on(&mut self, alarm: Alarm, journal: &mut Vec<u8>) -> Result<Evaluated, StoreError> {
        let mut undo = None;
        if self.alarms.insert(alarm) {
            command::encode_alarm(journal, alarm, true);
            undo = Some(Undo::alarm_raised(self.head.revision, alarm));
        }
        let response = WriteResponse::Alarm { revision: self.head.revision, changed: vec![alarm] };
        Ok(Evaluated::unversioned(response, undo))
    }

    fn evaluate_alarm_off(&mut self, alarm: Alarm, journal: &mut Vec<u8>) -> Result<Evaluated, StoreError> {
        let (mut changed, mut undo) = (Vec::new(), None);
        if self.alarms.remove(&alarm) {
            command::encode_alarm(journal, alarm, false);
            changed.push(alarm);
            undo = Some(Undo::alarm_lowered(self.head.revision, alarm));
        }
        let response = WriteResponse::Alarm { revision: self.head.revision, changed };
        Ok(Evaluated::unversioned(response, undo))
    }

    fn evaluate_auth(
        &mut self,
        change: &auth::Change,
        journal: &mut Vec<u8>,
    ) -> Result<Evaluated, StoreError> {
        let effects = self.auth.decide(change)?;
        let mut undo = None;
        if !effects.effects.is_empty() {
            command::encode_auth(journal, &effects);
            undo = Some(Undo::auth(self.head.revision, Arc::clone(&self.auth)));
            Arc::make_mut(&mut self.auth).apply(&effects);
        }
        Ok(Evaluated::unversioned(WriteResponse::Auth { revision: self.head.revision }, undo))
    }
}

pub(crate) fn put(
    store: &mut impl Exclusive,
    put: &PutRequest,
    journal: &mut Vec<u8>,
) -> Result<Evaluated, StoreError> {
    check_put(store, put, store.head.revision)?;
    let mut txn = Txn::begin(store);
    let response = txn.put(put);
    let events = txn.commit_to(journal);
    Ok(Evaluated::versioned(WriteResponse::Put(response), events))
}

pub(crate) fn delete(
    store: &mut impl Exclusive,
    delete: &DeleteRangeRequest,
    journal: &mut Vec<u8>,
) -> Result<Evaluated, StoreError> {
    let mut txn = Txn::begin(store);
    let response = txn.delete(delete);
    let events = txn.commit_to(journal);
    Ok(Evaluated::versioned(WriteResponse::DeleteRange(response), events))
}

pub(crate) fn txn(
    store: &mut impl Exclusive,
    request: &TxnRequest,
    journal: &mut Vec<u8>,
) -> Result<Evaluated, StoreError> {
    let mark = store.head;
    let mut work = Work::of(store);
    let path = choose_path(store, request, mark, &mut work);
    store.worked += work.spent();
    let path = path?;
    let mut txn = Txn::begin(store);
    let mut response = txn.run(request, &path);
    response.revision = txn.current();
    let events = txn.commit_to(journal);
    Ok(Evaluated::versioned(WriteResponse::Txn(response), events))
}

/// Everything that can be refused is refused here.
fn choose_path<'r>(
    store: &mut impl Exclusive,
    request: &'r TxnRequest,
    mark: Mark,
    work: &mut Work<'r>,
) -> Result<Path, StoreError> {
    let path = Path::choose(store, request, mark.revision, work)?;
    path.check(store, request, mark, work)?;
    Ok(path)
}

/// Changes being made to head as one revision.
pub(crate) struct Txn<'s, S> {
    store: &'s mut S,
    events: Vec<Event>,
    range_deletes: Vec<RangeDelete>,
}

impl<'s, S: Exclusive> Txn<'s, S> {
    pub(crate) fn begin(store: &'s mut S) -> Txn<'s, S> {
        Txn { store, events: Vec::new(), range_deletes: Vec::new() }
    }

    /// The revision this transaction has, or gets with its first change.
    fn next(&self) -> i64 {
        self.store.head.revision + 1
    }

    /// The revision of a read inside the transaction: its own once it has changed something.
    fn current(&self) -> i64 {
        if self.events.is_empty() { self.store.head.revision } else { self.next() }
    }

    pub(crate) fn sub(&self) -> u32 {
        u32::try_from(self.events.len()).expect("a request has far fewer changes")
    }

    /// The slot of a key that is alive at this point of the transaction.
    pub(crate) fn living(&self, key: &[u8]) -> Option<u32> {
        let slot = self.store.keys.find(key)?;
        self.store.keys.chain(slot).last().filter(|last| !last.is_tombstone()).map(|_| slot)
    }

    pub(crate) fn apply_put(&mut self, record: Record) {
        let event = self.store.put_record(record);
        self.events.push(event);
        self.store.did(CHANGE_WEIGHT);
    }

    /// Deletes a living key and returns the version that went.
    pub(crate) fn delete_slot(&mut self, slot: u32) -> Record {
        let (revision, sub) = (self.next(), self.sub());
        let (event, gone) = self.store.delete_slot(slot, revision, sub);
        self.events.push(event);
        self.store.did(CHANGE_WEIGHT);
        gone
    }

    /// Ends the transaction; head moves on if anything changed.
    pub(crate) fn commit(self) -> Vec<Event> {
        if !self.events.is_empty() {
            self.store.head.revision += 1;
            self.store.worked += self.events.len() as u64;
        }
        self.events
    }

    /// Like [`Txn::commit`], with the changes written down.
    pub(crate) fn commit_to(mut self, journal: &mut Vec<u8>) -> Vec<Event> {
        let range_deletes = std::mem::take(&mut self.range_deletes);
        let events = self.commit();
        if !events.is_empty() {
            command::encode_txn(journal, &events, &range_deletes);
        }
        events
    }

    /// Deletes what is alive in a range at this point; returns the versions that went.
    pub(crate) fn delete_range(&mut self, range: &KeyRange) -> Vec<Record> {
        if range.is_single() {
            self.store.worked += 1;
            return self.living(&range.key).map(|slot| self.delete_slot(slot)).into_iter().collect();
        }
        let (mut slots, mut examined) = (Vec::new(), 0);
        let Ok(()) = scan::<Infallible>(self.store, range, |store, slot| {
            examined += 1;
            if store.keys.chain(slot).live().is_some() {
                slots.push(slot);
            }
            Ok(true)
        });
        self.store.worked += examined;
        slots.into_iter().map(|slot| self.delete_slot(slot)).collect()
    }

    fn put(&mut self, put: &PutRequest) -> PutResponse {
        let revision = self.next();
        let prev = self.store.get(&put.key, revision).cloned();
        let kept = || prev.as_ref().expect("checked before the transaction began");
        let value = if put.ignore_value { kept().value() } else { Cow::Borrowed(&put.value[..]) };
        let lease = if put.ignore_lease { kept().lease() } else { put.lease };
        let record = Record::new(Fields {
            key: &put.key,
            value: &value,
            create_revision: prev.as_ref().map_or(revision, Record::create_revision),
            mod_revision: revision,
            version: prev.as_ref().map_or(0, Record::version) + 1,
            lease,
            sub: self.sub(),
        });
        self.apply_put(record);
        PutResponse { revision, prev_kv: prev.filter(|_| put.prev_kv) }
    }

    fn delete(&mut self, delete: &DeleteRangeRequest) -> DeleteRangeResponse {
        let first = self.events.len();
        let gone = self.delete_range(&delete.range);
        let key_bytes: usize = gone.iter().map(|record| record.key().len()).sum();
        if gone.len() >= RANGE_DELETE_KEYS || key_bytes >= RANGE_DELETE_BYTES {
            let events = first..self.events.len();
            self.range_deletes.push(RangeDelete { events, range: delete.range.clone() });
        }
        let deleted = gone.len() as i64;
        let prev_kvs = if delete.prev_kv { gone } else { Vec::new() };
        DeleteRangeResponse { revision: self.current(), deleted, prev_kvs }
    }

    fn range(&mut self, range: &RangeRequest) -> RangeResponse {
        let current = self.current();
        let mark = Mark { revision: current, compact_revision: self.store.head.compact_revision };
        let at = resolve_revision(range.revision, mark).expect("checked before the transaction began");
        let mut run = RangeRun::at(range.clone(), current, at);
        let checked = "head's compaction bound was checked, and visible trails it";
        loop {
            let (seen, step) = (run.examined(), self.store.step());
            let is_done = run.step(self.store, step, usize::MAX).expect(checked);
            self.store.did(run.examined() - seen);
            if is_done {
                break;
            }
        }
        let count = run.count(self.store).expect(checked);
        if run.is_long_to_finish() { self.store.unlocked(|| run.finish(count)) } else { run.finish(count) }
    }

    fn run(&mut self, request: &TxnRequest, path: &Path) -> TxnResponse {
        let mut nested = path.nested.iter();
        let mut responses = Vec::new();
        for op in branch(request, path.succeeded) {
            responses.push(match op {
                RequestOp::Range(range) => ResponseOp::Range(self.range(range)),
                RequestOp::Put(put) => ResponseOp::Put(self.put(put)),
                RequestOp::DeleteRange(delete) => ResponseOp::DeleteRange(self.delete(delete)),
                RequestOp::Txn(inner) => {
                    let path = nested.next().expect("a path has a step for each nested transaction");
                    ResponseOp::Txn(self.run(inner, path))
                }
                RequestOp::Empty => unreachable!("refused before the transaction began"),
            });
        }
        TxnResponse { revision: 0, succeeded: path.succeeded, responses }
    }
}
