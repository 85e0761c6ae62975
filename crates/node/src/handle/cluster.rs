//! Cluster: requests of other servers of the cluster, and of operators about members.

use std::sync::Arc;
use std::time::Duration;

use vetch_cluster::LogIndex;
use vetch_members::{Member, MemberCommand, Peer, Proof, Refused, Registration, Report};

use super::Node;
use crate::cluster::{ReadIndexBatches, Retry};
use crate::error::NodeError;

/// Reports and proofs.
impl Node {
    /// This server's report to the leader, with its proof. `None` until an announcement was read,
    /// and without a cluster.
    pub fn report(&self) -> Option<(Proof, Report)> {
        let cluster = self.state().cluster.as_ref()?;
        let info = cluster.info.lock();
        let proof = info.proof()?;
        Some((proof, self.state().report_with(cluster, info.vote)))
    }

    /// The newest announcement that this server has read.
    pub fn proof(&self) -> Option<Proof> {
        self.state().cluster.as_ref()?.info.lock().proof()
    }

    /// Takes the report of another server. False if this server does not know the proof.
    pub fn take_report(&self, proof: &Proof, report: Report) -> bool {
        let Some(cluster) = self.state().cluster.as_ref().filter(|_| self.is_known(proof)) else {
            return false;
        };
        // A full queue drops the report; the next one follows soon.
        let _ = cluster.reports.try_send(report);
        true
    }

    /// Whether this server has read the announcement of a proof.
    pub fn is_known(&self, proof: &Proof) -> bool {
        let cluster = self.state().cluster.as_ref();
        cluster.is_some_and(|cluster| cluster.info.lock().is_known(proof))
    }

    /// The servers on the same journal, this one among them, as the leader announced last.
    pub fn peers(&self) -> Vec<Peer> {
        let cluster = self.state().cluster.as_ref();
        cluster.map(|cluster| cluster.info.lock().peers.clone()).unwrap_or_default()
    }
}

/// Read indexes.
impl Node {
    /// The local reads that wait for an index from the leader. The transport takes this, once.
    pub fn read_index_batches(&self) -> Option<ReadIndexBatches> {
        self.state().cluster.as_ref().and_then(|cluster| cluster.reads.take_batches())
    }

    /// An index for reads that wait at another server. Refused unless this server leads.
    pub async fn read_index(&self) -> Result<LogIndex, NodeError> {
        let node = self.state();
        let Some(cluster) = &node.cluster else { return Err(NodeError::NotLeader) };
        if node.is_following() {
            return Err(NodeError::NotLeader);
        }
        match tokio::time::timeout(node.config.request_timeout, cluster.reads.at_leader()).await {
            Ok(outcome) => outcome?.map_err(|Retry| NodeError::NotLeader),
            Err(_) => Err(NodeError::Timeout),
        }
    }
}

/// Members.
impl Node {
    /// This server as a member of its cluster; `None` without a cluster.
    pub fn as_member(&self) -> Option<Member> {
        self.state().cluster.as_ref().map(|cluster| cluster.me.clone())
    }

    /// The members of the cluster, as far as this server has read; with `linearizable`, as of the
    /// call.
    pub async fn members(&self, linearizable: bool) -> Result<Arc<Vec<Member>>, NodeError> {
        let Some(cluster) = &self.state().cluster else { return Ok(Arc::default()) };
        if linearizable {
            self.state().confirm().await?;
        }
        Ok(Arc::clone(&cluster.status.borrow().members))
    }

    /// Registers a server that has been trying for `waited`. Only the leader does.
    pub async fn register(&self, member: Member, waited: Duration) -> Result<Registration, NodeError> {
        let node = self.state();
        let Some(cluster) = &node.cluster else { return Err(NodeError::NotLeader) };
        let timeout = node.config.request_timeout;
        cluster.member_command(timeout, |reply| MemberCommand::Register { member, waited, reply }).await
    }

    /// Removes a member for good; it stops if it is running. False if there is none with this id.
    /// Only the leader does.
    pub async fn remove_member(&self, id: u64) -> Result<bool, NodeError> {
        let node = self.state();
        let Some(cluster) = &node.cluster else { return Err(NodeError::NotLeader) };
        let timeout = node.config.request_timeout;
        cluster.member_command(timeout, |reply| MemberCommand::Remove { id, reply }).await
    }

    /// Ends the node because the leader refused its registration.
    pub fn leave(&self, why: &str) {
        self.state().fail(Refused(why.to_string()).to_string());
    }
}
