//! Following: a node that copies what another server decides, until it leads.
//!
//! While it follows, revisions come from outside with their numbers ([`Follower::take_over`]),
//! leases are granted and forgotten as the other server has them, and none expires here. Clients
//! are refused. [`Follower::lead`] ends that: leases get the time they have left, and from then on
//! it is a node like any other, on the same data directory.

use std::collections::HashMap;

use vetch_store::request::{WriteRequest, WriteResponse};
use vetch_store::{Record, StoreError};

use crate::config::NodeConfig;
use crate::error::{NodeError, OpenError};
use crate::handle::Node;
use crate::types::Progress;

/// A node that follows. It has one owner, so nothing comes between two of its calls.
pub struct Follower {
    node: Node,
}

/// A lease as it was copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FollowedLease {
    pub id: i64,
    pub ttl: i64,
    pub has_keys: bool,
}

impl Follower {
    /// Like [`Node::open`]; blocks until everything is recovered.
    pub fn open(mut config: NodeConfig, progress: impl FnMut(Progress)) -> Result<Follower, OpenError> {
        config.follow = true;
        Ok(Follower { node: Node::open(config, progress)? })
    }

    /// For reads, and for the server of its clients.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// Applies whole revisions, in order. When it returns they are durable, or the first that does
    /// not fit is refused and none behind it was applied. At most half of the request queue at
    /// once.
    pub async fn take_over(&self, revisions: Vec<Vec<Record>>) -> Result<(), NodeError> {
        let mut outcomes = Vec::with_capacity(revisions.len());
        for changes in revisions {
            outcomes.push(self.node.submit(WriteRequest::Foreign { changes })?);
        }
        for outcome in outcomes {
            outcome.await.map_err(|_| NodeError::Stopped)??;
        }
        Ok(())
    }

    /// Waits until everything submitted before has been applied or refused.
    pub async fn settle(&self) -> Result<(), NodeError> {
        self.node.write(WriteRequest::LeaseRemaining { leases: Vec::new() }).await.map(drop)
    }

    /// Leases, lowest id first.
    pub fn leases(&self) -> Vec<FollowedLease> {
        let store = self.node.state().store.read();
        let leases = store.leases().iter().map(|(id, lease)| FollowedLease {
            id,
            ttl: lease.ttl(),
            has_keys: lease.has_keys(),
        });
        leases.collect()
    }

    pub fn knows_lease(&self, id: i64) -> bool {
        self.node.state().store.read().leases().get(id).is_some()
    }

    /// A lease of the other server's; one that is known already stays as it is.
    pub async fn grant(&self, id: i64, ttl: i64) -> Result<(), NodeError> {
        match self.node.write(WriteRequest::LeaseGrant { id, ttl }).await {
            Ok(_) | Err(NodeError::Store(StoreError::LeaseExists)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Forgets a lease that the other server no longer has. False if keys hang on it: their deletes
    /// have not come yet, and to make them here would be a revision of our own.
    pub async fn forget(&self, id: i64) -> Result<bool, NodeError> {
        let has_keys = self.node.state().store.read().leases().get(id).is_some_and(|lease| lease.has_keys());
        if has_keys {
            return Ok(false);
        }
        match self.node.write(WriteRequest::LeaseRevoke { id }).await {
            Ok(WriteResponse::LeaseRevoke { .. }) | Err(NodeError::Store(StoreError::LeaseNotFound)) => {
                Ok(true)
            }
            Ok(other) => unreachable!("a revoke is answered as one: {other:?}"),
            Err(error) => Err(error),
        }
    }

    /// Ends the following. `remaining` are the seconds that leases have left; one that is not named
    /// has its full time.
    pub fn lead(self, remaining: &HashMap<i64, i64>) -> Node {
        let node = self.node.state();
        node.leases.lessor().restart(remaining, node.clock.millis());
        node.leadership.lead();
        self.node
    }
}
