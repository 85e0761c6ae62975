//! Leases as clients see them: granting and revoking go through the journal, renewing does not.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use bytes::Bytes;
use vetch_bugs::Bug;
use vetch_store::request::{Remaining, WriteRequest, WriteResponse};
use vetch_store::{Store, StoreError};

use crate::clock::Renewal;
use crate::error::NodeError;
use crate::handle::Node;
use crate::shared::Shared;
use crate::types::{LeaseGranted, LeaseInfo};

/// Identifiers tried before giving up, for a client that lets the server choose.
const ID_ATTEMPTS: u64 = 16;

impl Node {
    /// `id` 0 lets the node choose; a `ttl` below the minimum is raised to it.
    pub async fn lease_grant(&self, id: i64, ttl: i64) -> Result<LeaseGranted, NodeError> {
        if ttl > vetch_store::lease::MAX_TTL {
            return Err(StoreError::LeaseTtlTooLarge.into());
        }
        let ttl = ttl.max(self.shared().config.min_lease_ttl);
        if id != 0 {
            return self.grant(id, ttl).await;
        }
        for attempt in 0..ID_ATTEMPTS {
            match self.grant(random_id(attempt), ttl).await {
                Err(NodeError::Store(StoreError::LeaseExists)) => {}
                outcome => return outcome,
            }
        }
        Err(StoreError::LeaseExists.into())
    }

    async fn grant(&self, id: i64, ttl: i64) -> Result<LeaseGranted, NodeError> {
        match self.write(WriteRequest::LeaseGrant { id, ttl }).await? {
            WriteResponse::LeaseGrant { revision, id, ttl, .. } => Ok(LeaseGranted { revision, id, ttl }),
            other => unreachable!("a grant is answered as one: {other:?}"),
        }
    }

    /// The revision after the lease and its keys are gone.
    pub async fn lease_revoke(&self, id: i64) -> Result<i64, NodeError> {
        match self.write(WriteRequest::LeaseRevoke { id }).await? {
            WriteResponse::LeaseRevoke { revision, .. } => Ok(revision),
            other => unreachable!("a revoke is answered as one: {other:?}"),
        }
    }

    /// The renewed time to live in seconds; 0 when there is no such lease (any more).
    pub async fn lease_keep_alive(&self, id: i64) -> Result<i64, NodeError> {
        let shared = self.shared();
        let caller = self.caller();
        shared.permit_lease(caller, |store, auth| store.permit_lease_renewal(auth, caller, id))?;
        loop {
            match renew(shared, id) {
                Renewal::Renewed { ttl } => {
                    // A writer that was replaced must not promise what its successor never heard of.
                    shared.confirm_writing().await?;
                    shared.metrics.leases_renewed.add(1);
                    return Ok(ttl);
                }
                // A restart must not hand back the shorter time on record once a renewal has been promised.
                Renewal::MustRecord { grant, recording } => {
                    let full = Remaining { id, grant, seconds: 0 };
                    self.write(WriteRequest::LeaseRemaining { leases: vec![full] }).await?;
                    shared.clock.lock().taken_back(id, grant, recording);
                    shared.metrics.lease_records_taken_back.add(1);
                }
                // Its revoke is on the way or due; the client learns that it is gone once that is certain.
                Renewal::Ended { grant } => match self.write(WriteRequest::LeaseExpire { id, grant }).await {
                    Ok(_) | Err(NodeError::Store(StoreError::LeaseNotFound)) => return Ok(0),
                    Err(error) => return Err(error),
                },
                Renewal::Unknown => {
                    shared.confirm_writing().await?;
                    // A server that began to write meanwhile knows of all leases only since then.
                    if shared.clock.lock().remaining(id, shared.now()).is_none() {
                        return Ok(0);
                    }
                }
            }
        }
    }

    /// None when there is no such lease.
    pub async fn lease_time_to_live(&self, id: i64, keys: bool) -> Result<Option<LeaseInfo>, NodeError> {
        let (shared, caller) = (self.shared(), self.caller());
        shared.confirm_writing().await?;
        let info = {
            // The clock changes with the store locked, so time and keys are of one moment, and what decides about them too.
            let store = shared.store.read();
            if keys {
                shared.permit(caller, |auth| store.permit_lease_reads(auth, caller, id))?;
            }
            let time = shared.clock.lock().remaining(id, shared.now());
            time.filter(|(ttl, _)| *ttl >= 0).map(|(ttl, granted_ttl)| LeaseInfo {
                revision: store.visible().revision,
                ttl,
                granted_ttl,
                keys: if keys { shown_keys(&store, id) } else { Vec::new() },
            })
        };
        if keys {
            shared.permit_answer(caller)?;
        }
        Ok(info)
    }

    /// All leases, soonest to end first.
    pub async fn leases(&self) -> Result<Vec<i64>, NodeError> {
        let (shared, caller) = (self.shared(), self.caller());
        shared.permit_lease(caller, |store, auth| store.permit_all_lease_reads(auth, caller))?;
        shared.confirm_writing().await?;
        let mut deadlines = shared.clock.lock().deadlines();
        deadlines.sort_unstable();
        shared.permit_answer(caller)?;
        Ok(deadlines.into_iter().map(|(_, id)| id).collect())
    }
}

/// The keys of a lease that a client may be shown.
fn shown_keys(store: &Store, id: i64) -> Vec<Bytes> {
    let keys = match vetch_bugs::on(Bug::LeaseKeysAhead) {
        true => store.lease_keys(id),
        false => store.visible_lease_keys(id),
    };
    keys.into_iter().map(Bytes::copy_from_slice).collect()
}

fn renew(shared: &Arc<Shared>, id: i64) -> Renewal {
    shared.clock.lock().renew(id, shared.now())
}

/// A positive number that nobody can guess, from the randomness that seeds the standard library's hash maps.
fn random_id(attempt: u64) -> i64 {
    let id = (RandomState::new().hash_one(attempt) >> 1) as i64;
    id.max(1)
}
