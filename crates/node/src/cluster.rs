//! Cluster: what a node on a shared journal keeps beside the state of every node.
//!
//! One server leads, the others apply what it appended and stand by.
//!
//! * `runtime/log_loop` is the journal thread of such a node; it publishes here what it knows.
//! * `read_index` has the reads that wait for proof that they miss nothing; `crate::confirm` waits
//!   there.
//! * `handle/cluster` and `handle/leadership_transfer` are what callers see.
//! * `vetch_members` knows which servers there are.
//!
//! Servers call each other at the addresses for clients. They authenticate with a [`Proof`]: the
//! hash of an announcement in the journal, which only a server that reads the journal knows. Such a
//! server has all data already.

mod read_index;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64};
use std::time::Duration;

use crossbeam_channel::{Sender, TrySendError};
use tokio::sync::{oneshot, watch};
use vetch_base::{Epoch, Seq};
use vetch_cluster::LogIndex;
use vetch_journal::Tip;
use vetch_members::{Leader, Member, MemberCommand, Peer, Proof, Report};
use vetch_sync::Mutex;

use crate::error::NodeError;

pub(crate) use read_index::{PendingRead, PendingReads, ReadAtIndex, ReadLease, ReadQueue, Retry};
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
        self.proofs.push_front(tip.into());
    }

    /// The newest announcement that this server has read.
    pub(crate) fn proof(&self) -> Option<Proof> {
        self.proofs.front().copied()
    }

    /// Whether this server has read that announcement.
    pub(crate) fn is_known(&self, proof: &Proof) -> bool {
        self.proofs.contains(proof)
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
