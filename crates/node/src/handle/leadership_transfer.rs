//! Leadership transfer: makes another server the leader without an election timeout.
//!
//! Requests that come meanwhile wait at the edge. What is queued is evaluated and committed; then
//! the leader names its successor in the log, and follows from that entry on. Nothing was evaluated
//! that could be dropped, so it goes on with the state it has.

use std::time::Duration;

use tokio::sync::oneshot;
use vetch_cluster::ReplicaId;

use vetch_members::MemberCommand;

use super::Node;
use crate::cluster::Cluster;
use crate::error::NodeError;
use crate::state::{Command, NodeState};

/// Requests that have passed the edge get this long to reach the queue.
const QUEUE_DELAY: Duration = Duration::from_millis(5);

/// A live server sends a heartbeat within this time.
const HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(1);

/// Why the leadership was not transferred. This server stays the leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TransferError {
    #[error("this server is not the leader")]
    NotLeader,
    #[error("there is no such server")]
    Unknown,
    /// The target sent no heartbeat lately, or did not become leader in time.
    #[error("the other server did not take over in time")]
    Timeout,
}

impl Node {
    /// Makes another server the leader, `to` or the one with the newest heartbeat, and waits until
    /// it leads.
    pub async fn transfer_leadership(&self, to: Option<u64>, timeout: Duration) -> Result<(), TransferError> {
        let node = self.state();
        let cluster = node.cluster.as_ref().ok_or(TransferError::NotLeader)?;
        let known = |id: u64| cluster.status.borrow().members.iter().any(|member| member.id == id);
        if !cluster.status.borrow().is_leader {
            return Err(TransferError::NotLeader);
        }
        if to == Some(node.identity.member_id) {
            return Ok(());
        }
        if to.is_some_and(|id| !known(id)) {
            return Err(TransferError::Unknown);
        }
        let target = find_target(cluster, to, timeout.min(HEARTBEAT_TIMEOUT)).await?;
        let _guard = TransferringGuard::begin(cluster);
        let mut status = cluster.status.subscribe();
        let done = tokio::time::timeout(timeout, async {
            tokio::time::sleep(QUEUE_DELAY).await;
            propose(node, target).await?;
            let other = |id: u64| id != node.identity.member_id;
            let led =
                status.wait_for(|status| status.leader.as_ref().is_some_and(|leader| other(leader.member)));
            led.await.map(drop).map_err(|_| NodeError::Stopped)
        });
        let outcome = done.await.unwrap_or(Err(NodeError::Timeout));
        outcome.map_err(|_| TransferError::Timeout)
    }
}

/// The next leader. A new leader may have received no heartbeat yet.
async fn find_target(
    cluster: &Cluster,
    to: Option<u64>,
    timeout: Duration,
) -> Result<ReplicaId, TransferError> {
    let begun = tokio::time::Instant::now();
    loop {
        let found = cluster
            .member_command(timeout, |reply| MemberCommand::FindTransferTarget { id: to, reply })
            .await;
        if let Some(target) = found.map_err(|_| TransferError::NotLeader)? {
            return Ok(target);
        }
        if begun.elapsed() >= timeout {
            return Err(TransferError::Timeout);
        }
        tokio::time::sleep(HEARTBEAT_TIMEOUT / 20).await;
    }
}

/// Makes requests wait until dropped.
struct TransferringGuard<'a>(&'a Cluster);

impl TransferringGuard<'_> {
    fn begin(cluster: &Cluster) -> TransferringGuard<'_> {
        cluster.status.send_modify(|status| status.transferring = true);
        TransferringGuard(cluster)
    }
}

impl Drop for TransferringGuard<'_> {
    fn drop(&mut self) {
        self.0.status.send_modify(|status| status.transferring = false);
    }
}

/// Returns once this server follows.
async fn propose(node: &NodeState, to: ReplicaId) -> Result<(), NodeError> {
    let (reply, transferred) = oneshot::channel();
    node.commands
        .try_send(Command::TransferLeadership { to, reply })
        .map_err(|_| NodeError::TooManyRequests)?;
    transferred.await.map_err(|_| NodeError::Timeout)
}
