//! Shared: what the threads of a node and its handles have in common.
//!
//! Locks are taken in the order store, log, hub, then users, alarms, clock or pins, and held for
//! short turns: a few dozen evaluations, a chunk of a scan, a few hundred revisions of fan-out.
//! None is held across a call that waits. What is not cut into turns is a single request, but for
//! the revoke of a lease: one that deletes a million keys holds the store until it is evaluated.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, Semaphore, oneshot, watch};
use vetch_cluster::ReplicaId;
use vetch_journal::JournalError;
use vetch_store::Store;
use vetch_store::auth::Caller;
use vetch_store::hash::PastHashes;
use vetch_store::request::{Alarm, WriteRequest};
use vetch_watch::{EventLog, Hub, Stream, StreamId};

use crate::admission::{self, DiskState};
use crate::archive::RetentionHold;
use crate::auth::DurableAuth;
use crate::cluster::Cluster;
use crate::commit_times::CommitTimes;
use crate::config::NodeConfig;
use crate::key_usage::KeyUsage;
use crate::lessor::Lessor;
use crate::metrics::NodeMetrics;
use crate::pins::ReadPins;
use crate::prefixes::Prefixes;
use crate::queue;
use crate::sequencer::Outcome;
use crate::snapshot::SnapshotPoint;
use crate::sync::{Mutex, RwLock};
use crate::time::Time;
use crate::watch::{Kept, NodeEvent};
use vetch_checkpoint::Capture;
use vetch_checkpoint::identity::Identity;

pub(crate) type Reply = oneshot::Sender<Outcome>;

/// What the sequencer's thread is asked to do.
pub(crate) enum Command {
    Write(Write),
    /// Everything a checkpoint needs, as of this place in the queue.
    Capture {
        reply: std::sync::mpsc::SyncSender<Capture>,
    },
    /// Where a snapshot begins, as of this place in the queue.
    Snapshot {
        reply: oneshot::Sender<SnapshotPoint>,
    },
    /// From this place in the queue on another server of the cluster is to decide.
    TransferLeadership {
        to: ReplicaId,
        reply: oneshot::Sender<()>,
    },
    /// Look whether an alarm can be lowered.
    ReviewAlarms,
    /// Finish what is queued, then end.
    Stop,
}

pub(crate) struct Write {
    pub(crate) caller: Caller,
    pub(crate) request: WriteRequest,
    /// What it adds to the bytes in the queue.
    pub(crate) bytes: u64,
    pub(crate) reply: Reply,
}

impl Command {
    /// A request of the node itself.
    pub(crate) fn write(request: WriteRequest, reply: Reply) -> Command {
        Command::write_for(Caller::Server, request, reply)
    }

    pub(crate) fn write_for(caller: Caller, request: WriteRequest, reply: Reply) -> Command {
        Command::Write(Write { caller, bytes: admission::held(&request), request, reply })
    }

    /// What it adds to the bytes in the queue.
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Command::Write(write) => write.bytes,
            Command::Capture { .. }
            | Command::Snapshot { .. }
            | Command::TransferLeadership { .. }
            | Command::ReviewAlarms
            | Command::Stop => 0,
        }
    }
}

pub(crate) struct NodeState {
    pub(crate) config: NodeConfig,
    pub(crate) identity: Identity,
    pub(crate) epoch: u64,
    pub(crate) time: Arc<dyn Time>,
    pub(crate) started: Duration,
    pub(crate) store: RwLock<Store>,
    pub(crate) log: RwLock<EventLog<NodeEvent>>,
    pub(crate) hub: RwLock<Hub<NodeEvent>>,
    /// Where the tasks of watch streams are reached.
    pub(crate) streams: Mutex<HashMap<StreamId, StreamWaker>>,
    /// Streams whose clients have gone, with watchers that have yet to leave their groups.
    pub(crate) closing: Mutex<VecDeque<(Stream<NodeEvent>, Option<Kept>)>>,
    pub(crate) lessor: Mutex<Lessor>,
    /// What is written where, counted behind the writes by the fan-out thread.
    pub(crate) prefixes: Mutex<Prefixes>,
    /// When revisions became visible.
    pub(crate) commit_times: Mutex<CommitTimes>,
    pub(crate) auth: DurableAuth,
    /// The alarms that are durable.
    pub(crate) alarms: RwLock<Vec<Alarm>>,
    pub(crate) retention: RetentionHold,
    pub(crate) metrics: NodeMetrics,
    pub(crate) key_usage: KeyUsage,
    pub(crate) commands: queue::Sender<Command>,
    /// Bytes of clients' requests in that queue.
    pub(crate) queued_bytes: AtomicU64,
    /// The revision readers see; the same as the store's, readable without its lock.
    pub(crate) revision: AtomicI64,
    /// Sequence number of the newest durable entry.
    pub(crate) durable: watch::Sender<u64>,
    /// Bytes that the next checkpoint would take over from the journal.
    pub(crate) fresh_bytes: AtomicU64,
    /// How many of them make a checkpoint worth its while.
    pub(crate) checkpoint_stride: AtomicU64,
    /// No further segment can be prepared: for lack of space, or for another reason.
    pub(crate) disk_full: AtomicBool,
    pub(crate) disk_fails: AtomicBool,
    /// Files that are needed and known to be damaged, and what is wrong with each.
    pub(crate) damage: Mutex<BTreeMap<PathBuf, String>>,
    /// Bytes left in the journal's active segment, and in the segments prepared behind it.
    pub(crate) active_room: AtomicU64,
    pub(crate) spare_room: AtomicU64,
    pub(crate) checkpoint_bytes: AtomicU64,
    pub(crate) journal_bytes: AtomicU64,
    /// Housekeeping has work: a compaction, a full segment, a large dirty set.
    pub(crate) housekeeping: HousekeepingBell,
    /// The fan-out thread has revisions to match.
    pub(crate) fan_out: queue::Sender<()>,
    /// Snapshots that are collecting versions: while there are any, none is freed. Raised with the
    /// store locked.
    pub(crate) collecting_snapshots: AtomicUsize,
    /// Revisions that reads in progress need. Taken and looked at with the store locked.
    pub(crate) pins: ReadPins,
    /// Large lists of the keys of leases that are being made.
    pub(crate) lease_lists: Semaphore,
    /// Compaction revision up to which memory has been given back.
    pub(crate) freed: watch::Sender<i64>,
    /// What the last compactions found. A compaction is entered with the store locked, and nothing
    /// is freed for it before it has been hashed.
    pub(crate) past_hashes: Mutex<PastHashes>,
    /// Another server decides; see `follow`.
    pub(crate) following: AtomicBool,
    /// How often this server has begun to write, or to write on, on a shared journal. It and
    /// `following` are changed together with the store locked.
    pub(crate) leadership_count: AtomicU64,
    /// The node's part in a cluster on a shared journal; see `cluster`.
    pub(crate) cluster: Option<Cluster>,
    pub(crate) stopping: AtomicBool,
    pub(crate) run_state: watch::Sender<RunState>,
}

/// Where the task of a watch stream is reached.
pub(crate) struct StreamWaker {
    pub(crate) wake: Arc<Notify>,
    /// Where its client calls from.
    pub(crate) client: Option<Arc<str>>,
}

/// Whether the node is alive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RunState {
    Running,
    Stopped,
    /// The journal failed; nothing more is acknowledged.
    Failed(String),
    /// Another server writes to the shared journal now: open the node again.
    Replaced,
    /// The shared journal begins behind what this server has, at this position: it needs another
    /// server's checkpoint.
    Behind(u64),
}

/// A doorbell for the housekeeping thread; ringing twice before it is answered is the same as once.
pub(crate) struct HousekeepingBell {
    pub(crate) bell: crossbeam_channel::Sender<()>,
}

impl HousekeepingBell {
    pub(crate) fn ring(&self) {
        // A full doorbell has been rung already; a closed one belongs to a node that has stopped.
        let _ = self.bell.try_send(());
    }
}

impl NodeState {
    /// Milliseconds since the node started.
    pub(crate) fn now(&self) -> u64 {
        (self.time.now() - self.started).as_millis() as u64
    }

    /// The same as a gauge shows it, where 0 means never.
    pub(crate) fn gauge_time(&self) -> i64 {
        i64::try_from(self.now()).unwrap_or(i64::MAX).max(1)
    }

    /// Whether further journal segments can be prepared.
    pub(crate) fn disk_state(&self) -> DiskState {
        match (self.disk_full.load(Ordering::Relaxed), self.disk_fails.load(Ordering::Relaxed)) {
            (true, _) => DiskState::Full,
            (false, true) => DiskState::Failing,
            (false, false) => DiskState::Fine,
        }
    }

    /// Notes that a segment could not be prepared, and why.
    pub(crate) fn not_prepared(&self, error: &JournalError) {
        self.disk_full.store(error.is_no_space(), Ordering::Relaxed);
        self.disk_fails.store(!error.is_no_space(), Ordering::Relaxed);
    }

    /// Journal bytes that are certain to be there.
    pub(crate) fn room(&self) -> u64 {
        self.active_room.load(Ordering::Relaxed) + self.spare_room.load(Ordering::Relaxed)
    }

    /// Whether a checkpoint is due for all that was written since the last one was captured.
    pub(crate) fn is_stride_done(&self) -> bool {
        self.fresh_bytes.load(Ordering::Relaxed) >= self.checkpoint_stride.load(Ordering::Relaxed)
    }

    /// Bytes of the files of this node.
    pub(crate) fn disk_bytes(&self) -> u64 {
        self.checkpoint_bytes.load(Ordering::Relaxed) + self.journal_bytes.load(Ordering::Relaxed)
    }

    /// A request has left the queue. The node's own were never counted, so the sum may not be
    /// reached.
    pub(crate) fn release_queued(&self, bytes: u64) {
        let left = |queued: u64| Some(queued.saturating_sub(bytes));
        // Always succeeds, because `left` always has an answer.
        let _ = self.queued_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, left);
    }

    /// Whether one request took longer than it should, which is counted.
    pub(crate) fn is_slow(&self, took: Duration) -> bool {
        let slow = took > self.config.slow_apply;
        if slow {
            self.metrics.slow_applies.add(1);
        }
        slow
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    pub(crate) fn is_following(&self) -> bool {
        self.following.load(Ordering::Acquire)
    }

    pub(crate) fn fail(&self, cause: String) {
        tracing::error!(%cause, "the journal failed; stopping, because nothing further can be made durable");
        self.stopping.store(true, Ordering::Relaxed);
        self.run_state.send_if_modified(|state| {
            let running = *state == RunState::Running;
            if running {
                *state = RunState::Failed(cause);
            }
            running
        });
    }
}
