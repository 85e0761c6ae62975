//! Permit: which keys a request reads and writes, and whether its caller may.
//!
//! [`crate::auth`] decides about a range of keys; here is which ranges a request touches, and the
//! keys of the leases that it names, at head. A lease may have very many keys. Each one is judged
//! once for a request, however often that names it, in steps if others want the store, and what was
//! found is remembered with the lease.

use std::sync::Arc;

use crate::auth::{Auth, AuthError, Caller};
use crate::exclusive::Exclusive;
use crate::keys::Slot;
use crate::lease::Permitted;
use crate::request::{DeleteRangeRequest, PutRequest, RequestOp, TxnRequest, WriteRequest};
use crate::state::Store;

impl Auth {
    /// Reading what a transaction compares and reads. For one that writes too, see
    /// [`Store::permit`].
    pub fn check_read_txn(&self, caller: &Caller, txn: &TxnRequest) -> Result<(), AuthError> {
        assert!(txn.is_read_only(), "writes are judged together with the leases they name");
        for compare in &txn.compare {
            self.check_read(caller, &compare.range.key, &compare.range.range_end)?;
        }
        for op in txn.success.iter().chain(&txn.failure) {
            if let RequestOp::Range(range) = op {
                self.check_read(caller, &range.range.key, &range.range.range_end)?;
            }
        }
        Ok(())
    }
}

/// Judging a key takes as long as examining so many.
const JUDGE_WEIGHT: usize = 2;

/// Leases whose keys the caller must be permitted to write, some of them named more than once.
#[derive(Default)]
struct Leases(Vec<i64>);

impl Leases {
    fn name(&mut self, lease: i64) {
        if lease != 0 && self.0.last() != Some(&lease) {
            self.0.push(lease);
        }
    }

    fn each_once(mut self) -> Vec<i64> {
        self.0.sort_unstable();
        self.0.dedup();
        self.0
    }
}

/// Whether `caller` may have `request` evaluated at head now. Others get the store in between if a
/// lease with many keys is judged.
pub fn permit(store: &mut impl Exclusive, caller: &Caller, request: &WriteRequest) -> Result<(), AuthError> {
    let leases = store.permit_but_leases(caller, request)?;
    leases.each_once().into_iter().try_for_each(|lease| judge(store, caller, lease))
}

/// Writing every key that hangs on a lease at head. One that does not exist has none.
fn judge(store: &mut impl Exclusive, caller: &Caller, id: i64) -> Result<(), AuthError> {
    let mut from = match store.known_of(caller, id)? {
        Permitted::AllSince(_) => return Ok(()),
        Permitted::Below(from) => from,
    };
    let verdict = loop {
        let budget = store.step() / JUDGE_WEIGHT + 1;
        let (judged, step) = store.judge_from(caller, id, from, budget);
        store.worked += (judged * JUDGE_WEIGHT) as u64;
        // The lease and its keys stay as they are: nothing else changes head.
        store.did(judged * JUDGE_WEIGHT);
        match step {
            Step::Done(verdict) => break verdict,
            Step::Next(slot) => from = slot,
        }
    };
    let upto = match verdict {
        Ok(()) => Permitted::AllSince(store.head.revision),
        Err((slot, _)) => Permitted::Below(slot),
    };
    let store = &mut **store;
    store.leases.note_permitted(id, caller, &store.auth, upto);
    verdict.map_err(|(_, refusal)| refusal)
}

/// Where judging the keys of a lease has come to.
enum Step {
    /// To the end, or to the slot of a key that may not be written.
    Done(Result<(), (Slot, AuthError)>),
    /// To this slot.
    Next(Slot),
}

impl Store {
    /// Whether `caller` may have `request` evaluated at head now. Remembers nothing.
    pub fn permit(&self, caller: &Caller, request: &WriteRequest) -> Result<(), AuthError> {
        let leases = self.permit_but_leases(caller, request)?;
        leases.each_once().into_iter().try_for_each(|id| match self.known_of(caller, id)? {
            Permitted::AllSince(_) => Ok(()),
            Permitted::Below(from) => match self.judge_from(caller, id, from, usize::MAX).1 {
                Step::Done(verdict) => verdict.map_err(|(_, refusal)| refusal),
                Step::Next(_) => unreachable!("no lease has as many keys"),
            },
        })
    }

    /// The same without the leases, which it returns.
    fn permit_but_leases(&self, caller: &Caller, request: &WriteRequest) -> Result<Leases, AuthError> {
        let mut leases = Leases::default();
        if !self.auth.enabled() || *caller == Caller::Server {
            return Ok(leases);
        }
        match request {
            WriteRequest::Put(put) => self.permit_put(caller, put, &mut leases)?,
            WriteRequest::DeleteRange(delete) => self.permit_delete(caller, delete)?,
            WriteRequest::Txn(txn) => self.permit_txn(caller, txn, &mut leases)?,
            WriteRequest::LeaseRevoke { id } => leases.name(*id),
            WriteRequest::LeaseGrant { .. } => self.auth.check_user(caller)?,
            WriteRequest::Auth(_) | WriteRequest::Compact { .. } => self.auth.check_root(caller)?,
            WriteRequest::AlarmActivate(_) | WriteRequest::AlarmDeactivate(_) => {
                self.auth.check_root(caller)?;
            }
            // These are the server's own, whichever client made them necessary.
            WriteRequest::LeaseExpire { .. }
            | WriteRequest::LeaseRemaining { .. }
            | WriteRequest::Foreign { .. } => {}
        }
        Ok(leases)
    }

    fn permit_put(&self, caller: &Caller, put: &PutRequest, leases: &mut Leases) -> Result<(), AuthError> {
        self.auth.check_write(caller, &put.key)?;
        // A client that attaches a key to a lease can delete all keys of the lease by revoking it,
        // or keep them alive.
        leases.name(put.lease);
        if put.prev_kv { self.auth.check_read(caller, &put.key, b"") } else { Ok(()) }
    }

    fn permit_delete(&self, caller: &Caller, delete: &DeleteRangeRequest) -> Result<(), AuthError> {
        let (key, range_end) = (&delete.range.key, &delete.range.range_end);
        self.auth.check_write_range(caller, key, range_end)?;
        if delete.prev_kv { self.auth.check_read(caller, key, range_end) } else { Ok(()) }
    }

    /// Both branches, however deep: which one runs must not depend on who asks.
    fn permit_txn(&self, caller: &Caller, txn: &TxnRequest, leases: &mut Leases) -> Result<(), AuthError> {
        for compare in &txn.compare {
            self.auth.check_read(caller, &compare.range.key, &compare.range.range_end)?;
        }
        for op in txn.success.iter().chain(&txn.failure) {
            match op {
                RequestOp::Range(range) => {
                    self.auth.check_read(caller, &range.range.key, &range.range.range_end)?;
                }
                RequestOp::Put(put) => self.permit_put(caller, put, leases)?,
                RequestOp::DeleteRange(delete) => self.permit_delete(caller, delete)?,
                RequestOp::Txn(nested) => self.permit_txn(caller, nested, leases)?,
                RequestOp::Empty => {}
            }
        }
        Ok(())
    }

    /// How many keys of a lease `caller` may write, as far as that is known: all, for root.
    fn known_of(&self, caller: &Caller, id: i64) -> Result<Permitted, AuthError> {
        let all = Permitted::AllSince(self.head.revision);
        if self.auth.check_root(caller).is_ok() {
            return Ok(all);
        }
        let Some(lease) = self.leases.get(id) else { return Ok(all) };
        let Some(slot) = lease.slots().next() else { return Ok(all) };
        // A verdict is about a user. Whether the caller still is that user is asked every time.
        self.auth.check_write(caller, self.keys.key(slot))?;
        Ok(lease.permitted(caller, &self.auth))
    }

    /// Judges up to `budget` keys of a lease, and says how many it was.
    fn judge_from(&self, caller: &Caller, id: i64, from: Slot, budget: usize) -> (usize, Step) {
        let Some(lease) = self.leases.get(id) else { return (0, Step::Done(Ok(()))) };
        let mut judged = 0;
        for slot in lease.slots_from(from) {
            if judged == budget {
                return (judged, Step::Next(slot));
            }
            judged += 1;
            if let Err(refusal) = self.auth.check_write(caller, self.keys.key(slot)) {
                return (judged, Step::Done(Err((slot, refusal))));
            }
        }
        (judged, Step::Done(Ok(())))
    }

    /// Whether it is known, without looking at all keys, that `caller` may renew a lease. `auth` is
    /// what decides about readers.
    ///
    /// A verdict about head holds for all keys that are visibly on the lease if head has been
    /// visible since it was found.
    pub fn is_renewable(&self, caller: &Caller, id: i64, auth: &Arc<Auth>) -> bool {
        let Some(lease) = self.leases.get(id).filter(|_| Arc::ptr_eq(auth, &self.auth)) else { return false };
        let is_known = match lease.permitted(caller, auth) {
            Permitted::AllSince(revision) => revision <= self.visible.revision,
            Permitted::Below(_) => false,
        };
        let mut slots = lease.slots();
        is_known && slots.next().is_some_and(|slot| auth.check_write(caller, self.keys.key(slot)).is_ok())
    }

    /// All keys that were visibly on a lease at revision `at` may be written by `caller`, as `auth`
    /// decides. Remembers it if that goes for all keys that it has at head.
    pub fn note_renewable(&mut self, caller: &Caller, id: i64, auth: &Arc<Auth>, at: i64) {
        let has_new_keys = self.leases.get(id).is_none_or(|lease| lease.attached_at() > at);
        if !has_new_keys && Arc::ptr_eq(auth, &self.auth) {
            let all = Permitted::AllSince(self.head.revision);
            self.leases.note_permitted(id, caller, &self.auth, all);
        }
    }
}
