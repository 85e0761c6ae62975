//! Handing over: the writer of a cluster lets another server write, without anybody having to find
//! out that it is gone.
//!
//! Requests that come meanwhile wait at the edge. What is queued is evaluated and becomes durable;
//! then the journal is told who is to write next, and from that entry on this server follows.
//! Nothing was evaluated that could be void, so it goes on with the state it has.

use std::time::Duration;

use tokio::sync::oneshot;
use vetch_cluster::ReplicaId;

use crate::cluster::Cluster;
use crate::error::NodeError;
use crate::handle::Node;
use crate::runtime::membership::Order;
use crate::state::{Command, NodeState};

/// Requests that have passed the edge get this long to reach the queue.
const HEAD_START: Duration = Duration::from_millis(5);

/// Servers that live are heard of within this time.
const TO_BE_HEARD: Duration = Duration::from_secs(1);

/// Why nobody was handed over to. This server goes on as the writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HandOverError {
    #[error("this server is not the writer")]
    NotLeader,
    #[error("there is no such server")]
    Unknown,
    /// Not heard of lately, or it did not begin to write in time.
    #[error("the other server did not take over in time")]
    TooLong,
}

impl Node {
    /// Makes another server the writer, this one or whoever was heard of last, and waits until it
    /// is.
    pub async fn hand_over(&self, to: Option<u64>, patience: Duration) -> Result<(), HandOverError> {
        let node = self.state();
        let cluster = node.cluster.as_ref().ok_or(HandOverError::NotLeader)?;
        let known = |id: u64| cluster.status.borrow().members.iter().any(|member| member.id == id);
        if !cluster.status.borrow().is_writer {
            return Err(HandOverError::NotLeader);
        }
        if to == Some(node.identity.member_id) {
            return Ok(());
        }
        if to.is_some_and(|id| !known(id)) {
            return Err(HandOverError::Unknown);
        }
        let author = find(cluster, to, patience.min(TO_BE_HEARD)).await?;
        let _handing = Handing::begin(cluster);
        let mut status = cluster.status.subscribe();
        let done = tokio::time::timeout(patience, async {
            tokio::time::sleep(HEAD_START).await;
            name(node, author).await?;
            let other = |id: u64| id != node.identity.member_id;
            let wrote =
                status.wait_for(|status| status.writer.as_ref().is_some_and(|writer| other(writer.member)));
            wrote.await.map(drop).map_err(|_| NodeError::Stopped)
        });
        let outcome = done.await.unwrap_or(Err(NodeError::Timeout));
        outcome.map_err(|_| HandOverError::TooLong)
    }
}

/// Who writes next. A writer that has just begun may not have heard of anybody yet.
async fn find(cluster: &Cluster, to: Option<u64>, patience: Duration) -> Result<ReplicaId, HandOverError> {
    let begun = tokio::time::Instant::now();
    loop {
        let found = cluster.order(patience, |reply| Order::Successor { id: to, reply }).await;
        if let Some(author) = found.map_err(|_| HandOverError::NotLeader)? {
            return Ok(author);
        }
        if begun.elapsed() >= patience {
            return Err(HandOverError::TooLong);
        }
        tokio::time::sleep(TO_BE_HEARD / 20).await;
    }
}

/// Lets requests wait until dropped.
struct Handing<'a>(&'a Cluster);

impl Handing<'_> {
    fn begin(cluster: &Cluster) -> Handing<'_> {
        cluster.status.send_modify(|status| status.handing_over = true);
        Handing(cluster)
    }
}

impl Drop for Handing<'_> {
    fn drop(&mut self) {
        self.0.status.send_modify(|status| status.handing_over = false);
    }
}

/// Returns once this server follows.
async fn name(node: &NodeState, to: ReplicaId) -> Result<(), NodeError> {
    let (reply, named) = oneshot::channel();
    node.commands
        .try_send(Command::TransferLeadership { to, reply })
        .map_err(|_| NodeError::TooManyRequests)?;
    named.await.map_err(|_| NodeError::Timeout)
}
