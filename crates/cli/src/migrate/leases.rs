//! Leases: a watch does not report them, so they are requested.
//!
//! A lease that a key names is granted before the key is written. The list of all leases, requested
//! every few seconds, adds those without keys, and shows which are gone; such a lease is removed
//! when the watch has delivered the deletes of its keys. Until the cut-over, the etcd renews and
//! expires leases.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;
use vetch_node::Follower;

use super::error::MigrateError;
use super::revisions::Revision;
use super::source::Source;

/// Time to live of a lease that was gone when it was requested: the deletes of its keys are in
/// flight.
const UNKNOWN_TTL: i64 = 60;

/// Concurrent requests about leases.
const CONCURRENT_QUERIES_MAX: usize = 64;

pub(super) async fn grant_missing(
    source: &Source,
    follower: &Follower,
    revisions: &[Revision],
) -> Result<(), MigrateError> {
    let named: BTreeSet<i64> = revisions.iter().flatten().map(|change| change.lease()).collect();
    for id in named.into_iter().filter(|&id| id != 0 && !follower.knows_lease(id)) {
        let granted = source.time_to_live(id).await?.map_or(UNKNOWN_TTL, |(_, granted)| granted);
        follower.grant(id, granted).await?;
    }
    Ok(())
}

/// Makes our leases those of the etcd as far as the node has followed. Returns a lease that could
/// not be matched, if there is one: the watch has not yet delivered the deletes of its keys, or its
/// time to live has changed.
pub(super) async fn reconcile(source: &Source, follower: &Follower) -> Result<Option<i64>, MigrateError> {
    let listed = source.leases().await?;
    let there: HashSet<i64> = listed.iter().copied().collect();
    let mut unmatched = None;
    let ours = follower.leases();
    for lease in ours.iter().filter(|lease| !there.contains(&lease.id)) {
        if !follower.forget(lease.id).await? {
            unmatched = Some(lease.id);
        }
    }
    let known: HashSet<i64> = ours.iter().map(|lease| lease.id).collect();
    for id in listed.into_iter().filter(|id| !known.contains(id)) {
        if let Some((_, granted)) = source.time_to_live(id).await? {
            follower.grant(id, granted).await?;
        }
    }
    Ok(unmatched)
}

/// The remaining seconds of each lease; one without a response in time is left out. A lease that
/// was revoked and granted again with another time to live is corrected if it has no keys, and
/// refused otherwise.
pub(super) async fn remaining(
    source: &Source,
    follower: &Follower,
    timeout: Duration,
) -> Result<HashMap<i64, i64>, MigrateError> {
    let deadline = Instant::now() + timeout;
    let mut remaining = HashMap::new();
    let mut asked = JoinSet::new();
    let leases = follower.leases();
    let mut next = leases.iter();
    loop {
        while asked.len() < CONCURRENT_QUERIES_MAX
            && Instant::now() < deadline
            && let Some(&lease) = next.next()
        {
            let source = source.clone();
            asked.spawn(async move { (lease, source.time_to_live(lease.id).await) });
        }
        let Ok(Some(answered)) = tokio::time::timeout_at(deadline, asked.join_next()).await else {
            return Ok(remaining);
        };
        let Ok((lease, Ok(Some((left, granted))))) = answered else { continue };
        if granted == lease.ttl {
            remaining.insert(lease.id, left);
        } else if follower.forget(lease.id).await? {
            follower.grant(lease.id, granted).await?;
            remaining.insert(lease.id, left);
        } else {
            return Err(MigrateError::CopyAgain(format!(
                "lease {:x} was granted again with another time to live while it was followed",
                lease.id
            )));
        }
    }
}
