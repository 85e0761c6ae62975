//! Permit: which keys a request reads and writes, and whether its caller may.
//!
//! [`crate::auth`] decides about a range of keys; here is which ranges a request touches, and the
//! keys of the leases that it names, at head.

use crate::auth::{Auth, AuthError, Caller};
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

impl Store {
    /// Whether `caller` may have `request` evaluated at head now.
    pub fn permit(&self, caller: &Caller, request: &WriteRequest) -> Result<(), AuthError> {
        if !self.auth.enabled() || *caller == Caller::Server {
            return Ok(());
        }
        match request {
            WriteRequest::Put(put) => self.permit_put(caller, put),
            WriteRequest::DeleteRange(delete) => self.permit_delete(caller, delete),
            WriteRequest::Txn(txn) => self.permit_txn(caller, txn),
            WriteRequest::LeaseRevoke { id } => self.permit_lease_writes(caller, *id),
            WriteRequest::LeaseGrant { .. } => self.auth.check_user(caller),
            WriteRequest::Auth(_) | WriteRequest::Compact { .. } => self.auth.check_root(caller),
            WriteRequest::AlarmActivate(_) | WriteRequest::AlarmDeactivate(_) => self.auth.check_root(caller),
            // These are the server's own, whichever client made them necessary.
            WriteRequest::LeaseExpire { .. }
            | WriteRequest::LeaseRemaining { .. }
            | WriteRequest::Foreign { .. } => Ok(()),
        }
    }

    fn permit_put(&self, caller: &Caller, put: &PutRequest) -> Result<(), AuthError> {
        self.auth.check_write(caller, &put.key)?;
        // A client that attaches a key to a lease can delete all keys of the lease by revoking it,
        // or keep them alive.
        self.permit_lease_writes(caller, put.lease)?;
        if put.prev_kv { self.auth.check_read(caller, &put.key, b"") } else { Ok(()) }
    }

    fn permit_delete(&self, caller: &Caller, delete: &DeleteRangeRequest) -> Result<(), AuthError> {
        let (key, range_end) = (&delete.range.key, &delete.range.range_end);
        self.auth.check_write_range(caller, key, range_end)?;
        if delete.prev_kv { self.auth.check_read(caller, key, range_end) } else { Ok(()) }
    }

    /// Both branches, however deep: which one runs must not depend on who asks.
    fn permit_txn(&self, caller: &Caller, txn: &TxnRequest) -> Result<(), AuthError> {
        for compare in &txn.compare {
            self.auth.check_read(caller, &compare.range.key, &compare.range.range_end)?;
        }
        for op in txn.success.iter().chain(&txn.failure) {
            match op {
                RequestOp::Range(range) => {
                    self.auth.check_read(caller, &range.range.key, &range.range.range_end)?;
                }
                RequestOp::Put(put) => self.permit_put(caller, put)?,
                RequestOp::DeleteRange(delete) => self.permit_delete(caller, delete)?,
                RequestOp::Txn(nested) => self.permit_txn(caller, nested)?,
                RequestOp::Empty => {}
            }
        }
        Ok(())
    }

    /// Writing every key that hangs on a lease at head. One that does not exist has none.
    pub fn permit_lease_writes(&self, caller: &Caller, lease: i64) -> Result<(), AuthError> {
        if self.auth.check_root(caller).is_ok() {
            return Ok(());
        }
        let Some(lease) = self.leases.get(lease) else { return Ok(()) };
        lease.slots().try_for_each(|slot| self.auth.check_write(caller, self.keys.key(slot)))
    }
}
