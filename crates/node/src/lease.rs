//! Leases as clients see them: granting and revoking go through the journal, renewing does not.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use vetch_store::auth::{Auth, AuthError, Caller};
use vetch_store::leased::LeasedRun;
use vetch_store::request::{Remaining, WriteRequest, WriteResponse};
use vetch_store::{Record, Store, StoreError};

use crate::error::NodeError;
use crate::handle::Node;
use crate::lessor::{Renewal, SCANNED_PER_TURN_MAX};
use crate::read::READ_ATTEMPTS;
use crate::state::NodeState;
use crate::types::{LeaseGranted, LeaseInfo};

/// Identifiers tried before giving up, for a client that lets the server choose.
const ID_ATTEMPTS: u64 = 16;
/// A lease with more keys than this is large: they are sorted away from the threads that serve
/// requests.
const LARGE_LEASE_KEYS: usize = 4096;
/// A lease with at most so many keys is judged by all of them at every renewal.
const JUDGED_AT_ONCE_MAX: usize = 256;
/// What a key takes in an answer beside its bytes.
const KEY_FRAME: usize = 4;

impl Node {
    /// `id` 0 lets the node choose; a `ttl` below the minimum is raised to it.
    pub async fn lease_grant(&self, id: i64, ttl: i64) -> Result<LeaseGranted, NodeError> {
        if ttl > vetch_store::lease::MAX_TTL {
            return Err(StoreError::LeaseTtlTooLarge.into());
        }
        let ttl = ttl.max(self.state().config.min_lease_ttl);
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
        let node = self.state();
        let caller = self.caller();
        permit_renewal(node, caller, id).await?;
        loop {
            match renew(node, id) {
                Renewal::Renewed { ttl } => {
                    // A leader that was replaced must not promise what its successor never heard
                    // of.
                    node.confirm_leading().await?;
                    node.metrics.leases.renewed.add(1);
                    return Ok(ttl);
                }
                // A restart must not hand back the shorter time on record once a renewal has been
                // promised.
                Renewal::MustRecord { grant, recording } => {
                    let full = Remaining { id, grant, seconds: 0 };
                    self.write(WriteRequest::LeaseRemaining { leases: vec![full] }).await?;
                    node.leases.lessor().record_withdrawn(id, grant, recording);
                    node.metrics.leases.records_withdrawn.add(1);
                }
                // Its revoke is on the way or due; the client learns that it is gone once that is
                // certain.
                Renewal::Expired { grant } => match self.write(WriteRequest::LeaseExpire { id, grant }).await
                {
                    Ok(_) | Err(NodeError::Store(StoreError::LeaseNotFound)) => return Ok(0),
                    Err(error) => return Err(error),
                },
                Renewal::Unknown => {
                    node.confirm_leading().await?;
                    // A server that began to write meanwhile knows of all leases only since then.
                    if node.leases.lessor().remaining(id, node.clock.millis()).is_none() {
                        return Ok(0);
                    }
                }
            }
        }
    }

    /// None when there is no such lease.
    pub async fn lease_time_to_live(&self, id: i64, keys: bool) -> Result<Option<LeaseInfo>, NodeError> {
        let (node, caller) = (self.state(), self.caller());
        if !keys {
            node.confirm_leading().await?;
            let store = node.store.read();
            return Ok(Moment::new(node, &store, id, None).info(Vec::new()));
        }
        // Before anything is confirmed: an answer is of a time after that.
        let is_large =
            node.store.read().leases().get(id).is_some_and(|lease| lease.keys() > LARGE_LEASE_KEYS);
        let _turn = match is_large {
            true => Some(node.leases.list_turn().await.map_err(|_| NodeError::Stopped)?),
            false => None,
        };
        node.confirm_leading().await?;
        let begin = |store: &Store| {
            let moment = Moment::new(node, store, id, node.judge(caller));
            (LeasedRun::of(store, id), moment)
        };
        let permit = |moment: &Moment, keys: &[Record]| match &moment.judge {
            Some(auth) => auth.check_lease_reads(caller, keys),
            None => Ok(()),
        };
        let (run, moment) = collect(node, begin, permit, Found::Kept).await?;
        let keys = match run.found().len() > LARGE_LEASE_KEYS {
            true => tokio::task::spawn_blocking(|| run.finish()).await.map_err(|_| NodeError::Stopped)?,
            false => run.finish(),
        };
        node.permit_answer(caller)?;
        Ok(moment.info(keys))
    }

    /// About how many bytes the keys of a lease take in an answer that names them. Costs the same
    /// however many they are.
    pub fn lease_keys_estimate(&self, id: i64) -> usize {
        let store = self.state().store.read();
        store.leases().get(id).map_or(0, |lease| lease.key_bytes() + KEY_FRAME * lease.keys())
    }

    /// All leases, soonest to end first.
    pub async fn leases(&self) -> Result<Vec<i64>, NodeError> {
        let (node, caller) = (self.state(), self.caller());
        permit_list(node, caller).await?;
        node.confirm_leading().await?;
        let ids = node.leases.lessor().ids();
        let mut deadlines = Vec::with_capacity(ids.len());
        let mut rest = ids.iter().copied();
        loop {
            let turn: Vec<i64> = rest.by_ref().take(SCANNED_PER_TURN_MAX).collect();
            {
                let lessor = node.leases.lessor();
                deadlines.extend(turn.iter().map(|&id| (lessor.deadline(id), id)));
            }
            if turn.len() < SCANNED_PER_TURN_MAX {
                break;
            }
            tokio::task::yield_now().await;
        }
        deadlines.sort_unstable();
        node.permit_answer(caller)?;
        Ok(deadlines.into_iter().map(|(_, id)| id).collect())
    }
}

/// A lease as it is at one moment, without its keys. Lease timers and permissions change with the
/// store locked, so they are of the same moment as the store.
struct Moment {
    revision: i64,
    /// Seconds left and granted, if there is such a lease.
    time: Option<(i64, i64)>,
    /// Who decides about the caller.
    judge: Option<Arc<Auth>>,
}

impl Moment {
    fn new(node: &NodeState, store: &Store, id: i64, judge: Option<Arc<Auth>>) -> Moment {
        let time = node.leases.lessor().remaining(id, node.clock.millis());
        Moment { revision: store.visible().revision, time: time.filter(|(ttl, _)| *ttl >= 0), judge }
    }

    fn info(self, keys: Vec<Record>) -> Option<LeaseInfo> {
        let (ttl, granted_ttl) = self.time?;
        Some(LeaseInfo { revision: self.revision, ttl, granted_ttl, keys })
    }
}

/// Judges a list of all leases by the keys that visibly hang on any.
async fn permit_list(node: &Arc<NodeState>, caller: &Caller) -> Result<(), NodeError> {
    let Some(auth) = node.judge(caller).filter(|auth| auth.check_root(caller).is_err()) else {
        return Ok(());
    };
    let begin = |store: &Store| (LeasedRun::of_all(store), ());
    collect(node, begin, |(), keys| auth.check_lease_reads(caller, keys), Found::Dropped).await.map(drop)
}

/// Judges a renewal by the keys that visibly hang on its lease. What was found about a large lease
/// is remembered until a key is attached to it that may not be written, or users change.
async fn permit_renewal(node: &Arc<NodeState>, caller: &Caller, id: i64) -> Result<(), NodeError> {
    let Some(auth) = node.judge(caller).filter(|auth| auth.check_root(caller).is_err()) else {
        return Ok(());
    };
    let look = || {
        let store = node.store.read();
        let keys = store.leases().get(id).map_or(0, |lease| lease.keys());
        (store.is_renewable(caller, id, &auth), keys > JUDGED_AT_ONCE_MAX)
    };
    let (mut is_known, is_large) = look();
    let turn = match is_large && !is_known {
        true => Some(node.leases.judge_turn().await.map_err(|_| NodeError::Stopped)?),
        false => None,
    };
    if turn.is_some() {
        // Another renewal may have found it out meanwhile.
        is_known = look().0;
    }
    if is_known {
        return Ok(());
    }
    let begin = |store: &Store| (LeasedRun::of(store, id), ());
    let permit = |(): &(), keys: &[Record]| auth.check_lease_renewal(caller, keys);
    let (run, ()) = collect(node, begin, permit, Found::Dropped).await?;
    if is_large {
        node.store.write().note_renewable(caller, id, &auth, run.revision());
    }
    Ok(())
}

/// What becomes of the keys that were found, once they were judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    Kept,
    Dropped,
}

/// Runs to its end what `begin` begins with the store locked, in steps that let writers in between.
/// What `permit` says of the keys that each of them finds ends it.
async fn collect<M>(
    node: &Arc<NodeState>,
    begin: impl Fn(&Store) -> (LeasedRun, M),
    permit: impl Fn(&M, &[Record]) -> Result<(), AuthError>,
    judged: Found,
) -> Result<(LeasedRun, M), NodeError> {
    let budget = node.config.tuning.scan.keys;
    for attempt in 0..READ_ATTEMPTS {
        let (mut run, moment, mut step, _pin) = {
            let store = node.store.read();
            let (mut run, moment) = begin(&store);
            let pin = (attempt > 0).then(|| node.pin(&store, store.visible().revision));
            let step = run.step(&store, budget);
            (run, moment, step, pin)
        };
        let mut seen = 0;
        loop {
            permit(&moment, &run.found()[seen..])?;
            if judged == Found::Dropped {
                run.drop_found();
            }
            seen = run.found().len();
            match step {
                Some(true) => return Ok((run, moment)),
                Some(false) => tokio::task::yield_now().await,
                None => break,
            }
            step = run.step(&node.store.read(), budget);
        }
    }
    Err(NodeError::Timeout)
}

fn renew(node: &Arc<NodeState>, id: i64) -> Renewal {
    node.leases.lessor().renew(id, node.clock.millis())
}

/// A positive number that cannot be guessed, from the randomness that seeds the standard library's
/// hash maps.
fn random_id(attempt: u64) -> i64 {
    let id = (RandomState::new().hash_one(attempt) >> 1) as i64;
    id.max(1)
}
