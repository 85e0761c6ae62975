//! Node: the handle that everything above uses.

mod cluster;
mod leadership_transfer;

pub use leadership_transfer::TransferError;

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::TrySendError;
use tokio::sync::{oneshot, watch};
use vetch_base::Seq;
use vetch_checkpoint::identity::Identity;
use vetch_encryption::KeyRing;
use vetch_store::Validated;
use vetch_store::auth::Caller;
use vetch_store::request::*;
use vetch_sync::Mutex;

use crate::cluster::ClusterStatus;
use crate::error::{NodeError, StopCause};
use crate::key_usage::{EncryptionStatus, KeyStillNeeded};
use crate::metrics::NodeMetrics;
use crate::read::{self, RangeStream};
use crate::runtime::lease_thread;
use crate::sequencer::Outcome;
use crate::state::{Command, NodeState, RunState};
use crate::types::*;
use crate::watch::WatchSession;

/// How often, and how long in between, a full queue is tried at shutdown for the time that leases
/// have left.
const RECORD_ATTEMPTS: usize = 100;
const RECORD_RETRY_DELAY: Duration = Duration::from_millis(10);

/// A running node. Cloning copies a pointer; dropping the last one does not stop it,
/// [`Node::shutdown`] does.
#[derive(Clone)]
pub struct Node {
    node: Arc<NodeState>,
    threads: Arc<Mutex<Threads>>,
    /// Whose permissions decide.
    caller: Caller,
}

/// What has to end for the node to have ended.
#[derive(Default)]
pub(crate) struct Threads {
    pub(crate) lease_thread_stop: Option<crossbeam_channel::Sender<()>>,
    pub(crate) handles: Vec<JoinHandle<()>>,
}

impl Node {
    pub(crate) fn new(node: Arc<NodeState>, threads: Threads) -> Node {
        Node { node, threads: Arc::new(Mutex::new(threads)), caller: Caller::Server }
    }

    pub(crate) fn with_caller(&self, caller: Caller) -> Node {
        Node { node: Arc::clone(&self.node), threads: Arc::clone(&self.threads), caller }
    }

    /// For whom it acts.
    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    pub(crate) fn state(&self) -> &Arc<NodeState> {
        &self.node
    }

    pub fn identity(&self) -> Identity {
        self.node.identity
    }

    /// The newest visible revision.
    pub fn revision(&self) -> i64 {
        self.node.visible.revision()
    }

    /// A revision that is not behind any that a client has seen before the call. On a shared
    /// journal another server may show a committed write before the leader that appended it knows
    /// that it is committed.
    pub async fn confirmed_revision(&self) -> Result<i64, NodeError> {
        self.node.confirm().await?;
        Ok(self.revision())
    }

    /// What clients see as the Raft term. On a local journal it grows with every start, as that of
    /// a single etcd does; on a shared journal it is the epoch.
    pub fn term(&self) -> u64 {
        match self.cluster() {
            Some(cluster) => cluster.borrow().epoch.get(),
            None => self.node.leadership.local_epoch().next().get(),
        }
    }

    /// Who leads on the shared journal; None on a local journal.
    pub fn cluster(&self) -> Option<watch::Receiver<ClusterStatus>> {
        self.node.cluster.as_ref().map(|cluster| cluster.status.subscribe())
    }

    /// Whether the journal refused what this server had evaluated, or was trimmed beyond its state,
    /// so that the node has to be opened again.
    pub fn is_replaced(&self) -> bool {
        matches!(self.node.lifecycle.run_state(), RunState::Replaced | RunState::Behind(_))
    }

    pub fn metrics(&self) -> &NodeMetrics {
        &self.node.metrics
    }

    /// Which encryption keys there are, and how many files need each.
    pub fn encryption_status(&self) -> EncryptionStatus {
        self.node.key_usage.status()
    }

    /// Encrypts what is written from now on with the first key of `ring`, and re-encrypts old files
    /// in the background. Refused if a key that is still needed is not in it; then nothing changes.
    pub fn replace_keys(&self, ring: KeyRing) -> Result<(), KeyStillNeeded> {
        self.node.key_usage.replace(ring)?;
        self.node.housekeeping.ring();
        Ok(())
    }

    /// Counts of watchers and streams.
    pub fn watch_gauges(&self) -> Arc<vetch_watch::Gauges> {
        self.node.hub.read().gauges()
    }

    pub async fn range(&self, request: Validated<RangeRequest>) -> Result<RangeResponse, NodeError> {
        read::range(&self.node, &self.caller, request).await
    }

    /// Chunks of about `chunk_bytes`.
    pub fn range_stream(&self, request: Validated<RangeRequest>, chunk_bytes: usize) -> RangeStream {
        RangeStream::new(&self.node, self.caller.clone(), request, chunk_bytes)
    }

    pub async fn put(&self, request: Validated<PutRequest>) -> Result<PutResponse, NodeError> {
        match self.write(WriteRequest::Put(request)).await? {
            WriteResponse::Put(response) => Ok(response),
            other => unreachable!("a put is answered as one: {other:?}"),
        }
    }

    pub async fn delete_range(
        &self,
        request: Validated<DeleteRangeRequest>,
    ) -> Result<DeleteRangeResponse, NodeError> {
        match self.write(WriteRequest::DeleteRange(request)).await? {
            WriteResponse::DeleteRange(response) => Ok(response),
            other => unreachable!("a delete is answered as one: {other:?}"),
        }
    }

    /// Transactions that only read never touch the sequencer.
    pub async fn txn(&self, request: Validated<TxnRequest>) -> Result<TxnResponse, NodeError> {
        if request.is_read_only() {
            return read::read_txn(&self.node, &self.caller, &request).await;
        }
        match self.write(WriteRequest::Txn(request)).await? {
            WriteResponse::Txn(response) => Ok(response),
            other => unreachable!("a transaction is answered as one: {other:?}"),
        }
    }

    /// Forgets history below `revision`. `physical` waits until its memory has been given back.
    /// Returns the current revision.
    pub async fn compact(&self, revision: i64, physical: bool) -> Result<i64, NodeError> {
        let current = match self.write(WriteRequest::Compact { revision }).await? {
            WriteResponse::Compact { revision } => revision,
            other => unreachable!("a compaction is answered as one: {other:?}"),
        };
        if physical {
            let mut freed = self.node.compaction.subscribe_freed();
            tokio::select! {
                biased;
                freed = freed.wait_for(|&done| done >= revision) => { freed.map_err(|_| NodeError::Stopped)?; }
                _ = self.stopped() => return Err(NodeError::Stopped),
            }
        }
        Ok(current)
    }

    /// The alarms concerned: all raised ones for `Get`, else those the action changed.
    pub async fn alarm(&self, action: AlarmAction, which: AlarmSelector) -> Result<Vec<Alarm>, NodeError> {
        let selected = |alarm: &Alarm| {
            (which.member == 0 || alarm.member == which.member)
                && which.kind.is_none_or(|kind| alarm.kind == kind)
        };
        match action {
            AlarmAction::Get => Ok(self.alarms().into_iter().filter(selected).collect()),
            AlarmAction::Activate => {
                let Some(kind) = which.kind else { return Ok(Vec::new()) };
                self.change_alarm(WriteRequest::AlarmActivate(Alarm { member: which.member, kind })).await
            }
            AlarmAction::Deactivate => {
                let mut changed = Vec::new();
                for alarm in self.alarms().into_iter().filter(selected) {
                    changed.extend(self.change_alarm(WriteRequest::AlarmDeactivate(alarm)).await?);
                }
                Ok(changed)
            }
        }
    }

    async fn change_alarm(&self, request: WriteRequest) -> Result<Vec<Alarm>, NodeError> {
        match self.write(request).await? {
            WriteResponse::Alarm { changed, .. } => Ok(changed),
            other => unreachable!("an alarm is answered as one: {other:?}"),
        }
    }

    /// Lowers every raised alarm.
    pub async fn clear_alarms(&self) -> Result<(), NodeError> {
        let all = AlarmSelector { member: 0, kind: None };
        self.alarm(AlarmAction::Deactivate, all).await.map(drop)
    }

    /// The raised alarms, as far as they are durable.
    pub fn alarms(&self) -> Vec<Alarm> {
        self.node.visible.alarms()
    }

    pub fn status(&self) -> NodeStatus {
        let node = &self.node;
        let (mark, keys, stats) = {
            let store = node.store.read();
            (store.visible(), store.visible_keys(), store.stats())
        };
        NodeStatus {
            revision: mark.revision,
            compact_revision: mark.compact_revision,
            term: self.term(),
            index: match &node.cluster {
                Some(cluster) => cluster.status.borrow().index.get(),
                None => node.visible.seq().get(),
            },
            disk_bytes: node.disk.bytes(),
            live_bytes: stats.bytes,
            quota_bytes: node.config.quota().unwrap_or(0),
            keys,
            leases: stats.leases,
            users: stats.users,
            roles: stats.roles,
        }
    }

    /// etcd's hash over all history up to `revision` (0: the newest).
    pub async fn hash_kv(&self, revision: i64) -> Result<HashKv, NodeError> {
        read::hash_kv(&self.node, revision, &self.node.metrics.reads.hash_at_revision).await
    }

    /// A hash of the whole state, and the revision it was taken at.
    pub async fn hash(&self) -> Result<(u32, i64), NodeError> {
        let hash = read::hash_kv(&self.node, 0, &self.node.metrics.reads.hash).await?;
        Ok((hash.hash, hash.revision))
    }

    /// Wakes housekeeping. Space is always given back in the background.
    pub async fn defragment(&self) -> Result<(), NodeError> {
        self.node.housekeeping.ring();
        Ok(())
    }

    /// Begins a watch stream.
    pub fn watch(&self) -> WatchSession {
        WatchSession::new(&self.node)
    }

    /// Submits a request to the sequencer and waits until it is durable.
    pub(crate) async fn write(&self, request: WriteRequest) -> Outcome {
        let outcome = self.submit(request)?;
        match tokio::time::timeout(self.node.config.request_timeout, outcome).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err(NodeError::Stopped),
            Err(_) => Err(NodeError::Timeout),
        }
    }

    pub(crate) fn submit(&self, request: WriteRequest) -> Result<oneshot::Receiver<Outcome>, NodeError> {
        // Requests are not routed to a follower; one that comes all the same is refused.
        if self.node.is_following() {
            // In a cluster the server itself writes only while it leads, too.
            match &self.node.cluster {
                Some(_) => return Err(NodeError::LeaderChanged),
                None if self.caller != Caller::Server => return Err(NodeError::Stopped),
                None => {}
            }
        }
        if self.node.is_stopping() {
            return Err(NodeError::Stopped);
        }
        let metrics = &self.node.metrics;
        let (reply, outcome) = oneshot::channel();
        let command = Command::write_for(self.caller.clone(), request, reply);
        metrics.proposals.pending.add(1);
        let refused = match self.node.commands.submit(command) {
            Ok(()) => return Ok(outcome),
            Err(TrySendError::Full(_)) => NodeError::TooManyRequests,
            Err(TrySendError::Disconnected(_)) => NodeError::Stopped,
        };
        metrics.proposals.pending.add(-1);
        metrics.proposals.failed.add(1);
        Err(refused)
    }

    /// Waits until the journal has everything up to `seq`.
    pub(crate) async fn durable(&self, seq: Seq) -> Result<(), NodeError> {
        let mut durable = self.node.visible.subscribe_seq();
        let waited = durable.wait_for(|&done| done >= seq);
        match tokio::time::timeout(self.node.config.request_timeout, waited).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) => Err(NodeError::Stopped),
            Err(_) => Err(NodeError::Timeout),
        }
    }

    /// Ends the node: nothing new is accepted, what is queued becomes durable and is answered.
    pub async fn shutdown(&self) {
        if !self.node.lifecycle.begin_stop() {
            return;
        }
        let this = self.clone();
        // The threads are joined, which blocks.
        let ended = tokio::task::spawn_blocking(move || this.stop_threads()).await;
        if let Err(error) = ended {
            tracing::error!(%error, "shutdown did not end cleanly");
        }
        self.node.lifecycle.end(RunState::Stopped);
    }

    /// Ends a node that never served, and waits for it.
    pub(crate) fn end(&self) {
        self.node.lifecycle.begin_stop();
        self.stop_threads();
    }

    fn stop_threads(&self) {
        let threads = std::mem::take(&mut *self.threads.lock());
        drop(threads.lease_thread_stop);
        // How much time every lease has left, so that a planned restart is no gift to any of them.
        for _ in 0..RECORD_ATTEMPTS {
            if self.node.is_following() || lease_thread::record(&self.node, 0) {
                break;
            }
            std::thread::sleep(RECORD_RETRY_DELAY);
        }
        // Fails only if the sequencer has ended already, which is what is wanted.
        let _ = self.node.commands.send(Command::Stop);
        self.node.housekeeping.ring();
        for handle in threads.handles {
            if handle.join().is_err() {
                tracing::error!("a thread of the node had failed");
            }
        }
    }

    /// Waits until the node has stopped. An error if that was not requested.
    pub async fn stopped(&self) -> Result<(), StopCause> {
        let mut state = self.node.lifecycle.subscribe();
        let ended = state.wait_for(|state| *state != RunState::Running).await;
        match ended.as_deref() {
            Ok(RunState::Failed(cause)) => Err(StopCause::Failed(cause.clone())),
            Ok(RunState::Replaced) => Err(StopCause::Replaced),
            Ok(RunState::Behind(first)) => Err(StopCause::Behind { first: *first }),
            _ => Ok(()),
        }
    }
}
