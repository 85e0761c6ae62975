//! Refusals: which well-formed requests the state does not allow. Nothing changes when a request is
//! refused.

use crate::request::{Keys, Op, Put, Request, Txn};
use crate::response::Refusal;
use crate::state::{Model, Moment};

/// Above this a server does not grant a lease.
const MAX_LEASE_TTL: i64 = 9_000_000_000;

impl Model {
    /// Why the request is refused at `moment`, if it is. Leases are those that there are now: they
    /// have no revisions.
    pub fn check_at(&self, request: &Request, moment: Moment) -> Result<(), Refusal> {
        match request {
            Request::Range(range) if range.revision <= 0 => Ok(()),
            Request::Range(range) => readable(range.revision, moment),
            Request::Put(put) => self.put_refusal(put, &[], moment.revision),
            Request::Delete(_) | Request::LeaseKeepAlive { .. } => Ok(()),
            Request::Txn(txn) => self.txn_refusal(txn, &mut Vec::new(), moment),
            Request::Compact { revision } if *revision <= moment.compacted => Err(Refusal::Compacted),
            Request::Compact { revision } if *revision > moment.revision => Err(Refusal::FutureRevision),
            Request::Compact { .. } => Ok(()),
            Request::LeaseGrant { ttl, .. } if *ttl > MAX_LEASE_TTL => Err(Refusal::LeaseTtlTooLarge),
            Request::LeaseGrant { id, .. } if self.leases.contains_key(id) => Err(Refusal::LeaseExists),
            Request::LeaseGrant { .. } => Ok(()),
            Request::LeaseRevoke { id } if !self.leases.contains_key(id) => Err(Refusal::LeaseNotFound),
            Request::LeaseRevoke { .. } => Ok(()),
        }
    }

    /// The operations that will run are checked in their order, nested ones where they stand.
    ///
    /// `deleted` collects what the transaction deletes on the way.
    fn txn_refusal<'a>(
        &self,
        txn: &'a Txn,
        deleted: &mut Vec<&'a Keys>,
        moment: Moment,
    ) -> Result<(), Refusal> {
        for op in self.branch(txn, moment.revision) {
            match op {
                // Only 0 means the newest in a transaction; a negative revision counts as any other
                // number.
                Op::Range(range) if range.revision == 0 => {}
                Op::Range(range) => readable(range.revision, moment)?,
                Op::Put(put) => self.put_refusal(put, deleted, moment.revision)?,
                Op::Delete(delete) => deleted.push(&delete.keys),
                Op::Txn(nested) => self.txn_refusal(nested, deleted, moment)?,
                Op::Empty => return Err(Refusal::KeyNotFound),
            }
        }
        Ok(())
    }

    /// A put that keeps the value or the lease needs a key to keep it of, which its own transaction
    /// has not deleted.
    fn put_refusal(&self, put: &Put, deleted: &[&Keys], at: i64) -> Result<(), Refusal> {
        if put.lease != 0 && !self.leases.contains_key(&put.lease) {
            return Err(Refusal::LeaseNotFound);
        }
        let keeps = put.ignore_value || put.ignore_lease;
        let there = self.get(&put.key, at).is_some() && !deleted.iter().any(|keys| keys.contains(&put.key));
        if keeps && !there { Err(Refusal::KeyNotFound) } else { Ok(()) }
    }
}

fn readable(revision: i64, moment: Moment) -> Result<(), Refusal> {
    if revision > moment.revision {
        return Err(Refusal::FutureRevision);
    }
    if revision < moment.compacted {
        return Err(Refusal::Compacted);
    }
    Ok(())
}
