//! Cluster: a node that shares its journal with other servers, as the rest of the node and its
//! callers see it.
//!
//! One server leads, the others apply what it appended and stand by.
//!
//! * `log_loop` is the journal thread of such a node.
//! * `read_index` confirms reads and renewals before they are answered.
//! * `member_list` and `member_registry`: which servers there are. `peer_table`: where they are,
//!   and which part of the journal they need. `announcement`: how the leader publishes that.
//! * `leadership_transfer`: makes another server the leader.
//!
//! Servers call each other at the addresses for clients. They authenticate with a [`Proof`]: the
//! hash of an announcement in the journal, which only a server that reads the journal knows. Such a
//! server has all data already.

pub(crate) mod announcement;
pub(crate) mod leadership_transfer;
pub(crate) mod log_loop;
pub(crate) mod member_list;
pub(crate) mod member_registry;
pub(crate) mod peer_table;
pub(crate) mod read_index;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64};
use std::time::Duration;

use crossbeam_channel::{Sender, TrySendError};
use tokio::sync::{oneshot, watch};
use vetch_base::{Epoch, Seq};
use vetch_cluster::LogIndex;
use vetch_journal::{Hash, Tip};

use crate::error::NodeError;
use crate::handle::Node;
use crate::state::NodeState;
use crate::sync::Mutex;
use member_registry::MemberCommand;
use read_index::ReadQueue;

pub use crate::batch_window::READ_BATCH_WINDOW;
pub use announcement::find_in_record;
pub use leadership_transfer::TransferError;
pub use log_loop::ReplicatedLogLoop;
pub use member_list::{Member, NAME_TIMEOUT, Registration};
pub use peer_table::{Peer, Report};
pub use read_index::{ReadIndexBatch, ReadIndexBatches};

/// Announcements that are remembered as proofs: about a minute of them.
const PROOFS_MAX: usize = 64;

/// How a node takes part in a cluster.
#[derive(Debug, Clone)]
pub struct ClusterConfig {
    pub name: String,
    /// Where clients, and servers that forward requests, reach this one.
    pub client_urls: Vec<String>,
    /// Shown in the member list, as etcd does; not used otherwise.
    pub peer_urls: Vec<String>,
    pub replication: vetch_cluster::Config,
}

/// Who leads, and how far this server has come.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClusterStatus {
    pub epoch: Epoch,
    /// Sequence number of the last entry applied.
    pub index: Seq,
    /// Whether this server is the leader.
    pub is_leader: bool,
    /// The leader, once it has announced its address.
    pub leader: Option<Leader>,
    /// Whether the journal has been read to its end since the start.
    pub caught_up: bool,
    /// The journal seems to have lost records that this server has read.
    pub suspect: bool,
    /// No new entry was read for a while, so there may be no leader.
    pub silent: bool,
    /// This server is about to transfer its leadership.
    pub transferring: bool,
    /// Authenticates requests between servers of this cluster; 0 if it is not known yet.
    pub key: u64,
    /// The members of this cluster, as far as the journal has been read.
    pub members: Arc<Vec<Member>>,
}

/// A leader and its address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leader {
    pub member: u64,
    pub url: String,
}

pub(crate) struct Cluster {
    pub(crate) reads: ReadQueue,
    pub(crate) status: watch::Sender<ClusterStatus>,
    /// Reports of other servers to this one, while it leads.
    pub(crate) reports: Sender<Report>,
    pub(crate) info: Mutex<ClusterInfo>,
    /// Where other servers reach this one.
    pub(crate) url: String,
    /// Bytes of effects that one request may have, so that they fit a record together with a batch;
    /// values that are written again without having been sent may be as many more.
    pub(crate) request_max: usize,
    /// Position of the last record that was read.
    pub(crate) position: AtomicU64,
    /// The journal seems to have lost what this server holds: its state has to be on disk.
    pub(crate) must_checkpoint: AtomicBool,
    /// The revision of the newest checkpoint.
    pub(crate) saved: AtomicI64,
    /// Commands to the journal thread.
    pub(crate) member_commands: Sender<MemberCommand>,
    pub(crate) me: Member,
}

/// What the threads of a node share about the cluster.
#[derive(Default)]
pub(crate) struct ClusterInfo {
    /// From where this server needs the journal, now that it has a checkpoint there.
    pub(crate) vote: Option<LogIndex>,
    pub(crate) peers: Vec<Peer>,
    proofs: VecDeque<Proof>,
}

impl ClusterInfo {
    /// Remembers an announcement whose tip is `tip`.
    pub(crate) fn remember_proof(&mut self, tip: &Tip) {
        self.proofs.truncate(PROOFS_MAX - 1);
        self.proofs.push_front(Proof { seq: tip.seq, hash: tip.hash });
    }
}

/// Proves that a server reads the journal: an announcement in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Proof {
    pub seq: Seq,
    pub hash: Hash,
}

impl Node {
    /// This server's report to the leader, with its proof. `None` until an announcement was read,
    /// and without a cluster.
    pub fn report(&self) -> Option<(Proof, Report)> {
        let cluster = self.state().cluster.as_ref()?;
        let info = cluster.info.lock();
        let proof = *info.proofs.front()?;
        Some((proof, self.state().report_with(cluster, info.vote)))
    }

    /// The newest announcement that this server has read.
    pub fn proof(&self) -> Option<Proof> {
        self.state().cluster.as_ref()?.info.lock().proofs.front().copied()
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
        cluster.is_some_and(|cluster| cluster.info.lock().proofs.contains(proof))
    }

    /// The servers on the same journal, this one among them, as the leader announced last.
    pub fn peers(&self) -> Vec<Peer> {
        let cluster = self.state().cluster.as_ref();
        cluster.map(|cluster| cluster.info.lock().peers.clone()).unwrap_or_default()
    }
}

impl NodeState {
    pub(crate) fn report_with(&self, cluster: &Cluster, vote: Option<LogIndex>) -> Report {
        let keep = self.retention.pinned_position();
        Report { member: self.identity.member_id, url: cluster.url.clone(), vote, keep }
    }
}

impl Cluster {
    /// Sends a command to the journal thread and waits for its reply. Only a leader replies.
    pub(crate) async fn member_command<T>(
        &self,
        timeout: Duration,
        command: impl FnOnce(oneshot::Sender<T>) -> MemberCommand,
    ) -> Result<T, NodeError> {
        let (reply, answer) = oneshot::channel();
        match self.member_commands.try_send(command(reply)) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => return Err(NodeError::TooManyRequests),
            Err(TrySendError::Disconnected(_)) => return Err(NodeError::Stopped),
        }
        match tokio::time::timeout(timeout, answer).await {
            Ok(answer) => answer.map_err(|_| NodeError::NotLeader),
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
        self.state().fail(member_registry::Refused(why.to_string()).to_string());
    }
}
