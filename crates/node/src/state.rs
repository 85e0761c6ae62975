//! Node state: what the threads of a node and its handles share.
//!
//! Every field is an owner with private fields of its own. The order of the locks is
//! [`vetch_sync::Rank`].

mod activity;
mod bell;
mod clock;
mod command;
mod compaction;
mod disk;
mod durable_auth;
mod leadership;
mod leases;
mod lifecycle;
mod pins;
mod reads;
mod snapshot_point;
mod visible;
mod watches;

use std::sync::Arc;
use std::time::Duration;

use vetch_checkpoint::identity::Identity;
use vetch_cluster::LogIndex;
use vetch_journal::Tip;
use vetch_members::Report;
use vetch_store::Store;
use vetch_sync::queue::Sender;
use vetch_sync::{Rank, RwLock};
use vetch_watch::{EventLog, Hub};

use crate::cluster::Cluster;
use crate::config::NodeConfig;
use crate::event::NodeEvent;
use crate::key_usage::KeyUsage;
use crate::metrics::NodeMetrics;
use crate::retention::RetentionHold;
use crate::time::Time;

use activity::Activity;
use bell::HousekeepingBell;
use clock::NodeClock;
pub(crate) use command::{Command, CommandQueue, Reply, Write};
use compaction::CompactionState;
use disk::DiskGauges;
use leadership::Leadership;
use leases::LeaseState;
use lifecycle::Lifecycle;
pub(crate) use lifecycle::RunState;
pub(crate) use pins::ReadPin;
pub(crate) use reads::ReadTurn;
pub(crate) use snapshot_point::SnapshotPoint;
use visible::Visible;
use watches::Watches;
pub(crate) use watches::{CLOSED_PER_TURN, Kept};

pub(crate) struct NodeState {
    pub(crate) config: NodeConfig,
    pub(crate) identity: Identity,
    pub(crate) clock: NodeClock,
    pub(crate) store: RwLock<Store>,
    pub(crate) log: RwLock<EventLog<NodeEvent>>,
    pub(crate) hub: RwLock<Hub<NodeEvent>>,
    pub(crate) visible: Visible,
    pub(crate) commands: CommandQueue,
    pub(crate) leases: LeaseState,
    pub(crate) watches: Watches,
    pub(crate) compaction: CompactionState,
    pub(crate) disk: DiskGauges,
    pub(crate) retention: RetentionHold,
    pub(crate) key_usage: KeyUsage,
    pub(crate) housekeeping: HousekeepingBell,
    pub(crate) activity: Activity,
    pub(crate) metrics: NodeMetrics,
    pub(crate) leadership: Leadership,
    /// None on a local journal.
    pub(crate) cluster: Option<Arc<Cluster>>,
    pub(crate) lifecycle: Lifecycle,
}

/// What recovery found, for [`NodeState::new`].
pub(crate) struct RecoveredState {
    pub(crate) store: Store,
    pub(crate) log: EventLog<NodeEvent>,
    pub(crate) tip: Tip,
    pub(crate) retention: RetentionHold,
    pub(crate) key_usage: KeyUsage,
    pub(crate) cluster: Option<Arc<Cluster>>,
}

/// Where the parts of the node are reached.
pub(crate) struct PartHandles {
    pub(crate) commands: Sender<Command>,
    pub(crate) housekeeping: crossbeam_channel::Sender<()>,
    pub(crate) fan_out: Sender<()>,
}

impl NodeState {
    pub(crate) fn new(
        config: NodeConfig,
        identity: Identity,
        time: Arc<dyn Time>,
        recovered: RecoveredState,
        handles: PartHandles,
    ) -> NodeState {
        let RecoveredState { store, log, tip, retention, key_usage, cluster } = recovered;
        NodeState {
            identity,
            clock: NodeClock::new(time),
            visible: Visible::new(&store, &tip),
            commands: CommandQueue::new(handles.commands),
            leases: LeaseState::new(&store),
            watches: Watches::new(handles.fan_out),
            compaction: CompactionState::new(),
            disk: DiskGauges::new(config.checkpoint_bytes),
            retention,
            key_usage,
            housekeeping: HousekeepingBell::new(handles.housekeeping),
            activity: Activity::default(),
            metrics: NodeMetrics::default(),
            leadership: Leadership::new(tip.epoch, config.follow || cluster.is_some()),
            cluster,
            lifecycle: Lifecycle::new(),
            hub: RwLock::ranked(Rank::Hub, Hub::new(config.tuning.watch.ring, store.head().revision)),
            log: RwLock::ranked(Rank::EventLog, log),
            store: RwLock::ranked(Rank::Store, store),
            config,
        }
    }

    /// Pins `revision`, at which the caller may read. `store` is this node's, locked.
    pub(crate) fn pin(&self, store: &Store, revision: i64) -> ReadPin<'_> {
        self.compaction.pins().pin(store, revision, self.clock.now(), &self.housekeeping)
    }

    /// This server's report to the leader.
    pub(crate) fn report_with(&self, cluster: &Cluster, vote: Option<LogIndex>) -> Report {
        let keep = self.retention.pinned_position();
        Report { member: self.identity.member_id, url: cluster.url.clone(), vote, keep }
    }

    /// Whether one request took longer than it should, which is counted.
    pub(crate) fn is_slow(&self, took: Duration) -> bool {
        let slow = took > self.config.slow_apply;
        if slow {
            self.metrics.evaluation.slow.add(1);
        }
        slow
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.lifecycle.is_stopping()
    }

    pub(crate) fn is_following(&self) -> bool {
        self.leadership.is_following()
    }

    pub(crate) fn fail(&self, cause: String) {
        self.lifecycle.fail(cause);
    }
}
