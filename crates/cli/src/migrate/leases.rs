//! Leases: they are no part of what a watch tells, so they are asked for.
//!
//! A lease that a key names is granted before the key is written. The list of all leases, asked for
//! every few seconds, brings those without keys, and tells which are gone; one that is gone is
//! forgotten when the watch has brought the deletes of its keys. Renewals stay with the etcd, and
//! so does the end of a lease, until the cut-over.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;
use vetch_node::Follower;

use super::error::MigrateError;
use super::revisions::Revision;
use super::source::Source;

/// For a lease that was gone when it was asked about: its keys' deletes are on their way.
const UNKNOWN_TTL: i64 = 60;

/// Questions about leases under way at once.
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
/// not be matched, if there is one: either the watch has still to bring the end of its keys, or its
/// time to live is another now.
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

/// The seconds that each lease has left. One that is not answered for in time is not in it. A lease
/// that was revoked and granted again with another time to live is put right if no key hangs on it,
/// and refused otherwise.
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
