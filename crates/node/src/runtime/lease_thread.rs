//! The lease thread: revokes expired leases, and journals the time left of long ones at an
//! interval.

use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::TrySendError;
use tokio::sync::oneshot;
use vetch_store::request::{Remaining, WriteRequest};

use crate::lessor::Recording;
use crate::runtime::Step;
use crate::state::{Command, NodeState};

const TICK_INTERVAL: Duration = Duration::from_millis(200);
/// Revokes take at most one part in this many of the sequencer's queue, so that a mass expiry never
/// locks clients out.
const REVOKE_QUEUE_SHARE: usize = 2;
/// How often busy prefixes may replace idle ones.
const PREFIX_TURN_INTERVAL: Duration = Duration::from_secs(10);

/// Revokes expired leases.
pub struct LeaseThread {
    node: Arc<NodeState>,
    last_record: Duration,
    /// When prefixes were last rebalanced.
    last_prefix_turn: Duration,
}

impl LeaseThread {
    pub(crate) fn new(node: &Arc<NodeState>) -> LeaseThread {
        let started = node.clock.started();
        LeaseThread { node: Arc::clone(node), last_record: started, last_prefix_turn: started }
    }

    pub(crate) fn run(mut self, stop: &crossbeam_channel::Receiver<()>) {
        while stop.recv_timeout(TICK_INTERVAL).is_err_and(|error| error.is_timeout()) {
            self.step();
        }
    }

    /// One tick. There is always another, until the node stops.
    pub fn step(&mut self) -> Step {
        if self.node.is_stopping() {
            return Step::Ended;
        }
        // The leader, or the source of a migration, revokes leases; here that arrives as deletes.
        if self.node.is_following() {
            return Step::Idle;
        }
        expire(&self.node);
        let now = self.node.clock.now();
        self.node.activity.commit_times().sample(now, self.node.visible.revision());
        if now - self.last_prefix_turn >= PREFIX_TURN_INTERVAL {
            self.last_prefix_turn = now;
            self.node.activity.prefixes().turn();
        }
        let tuning = &self.node.config.tuning;
        if now - self.last_record >= tuning.leases.record_interval {
            self.last_record = now;
            // Shorter leases simply get their full time again after a restart. Records that do not
            // fit into the queue are tried again at the next interval.
            record(&self.node, tuning.leases.recorded_ttl_min);
        }
        Step::Idle
    }
}

fn expire(node: &Arc<NodeState>) {
    let waiting = node.commands.len();
    let allowed = (node.config.queue_depth / REVOKE_QUEUE_SHARE)
        .saturating_sub(waiting)
        .min(node.config.tuning.leases.expired_per_tick);
    let expired = node.leases.lessor().expire(node.clock.millis(), allowed);
    for (id, grant) in expired {
        let (reply, _) = oneshot::channel();
        let command = Command::write(WriteRequest::LeaseExpire { id, grant }, reply);
        node.metrics.proposals.pending.add(1);
        match node.commands.try_send(command) {
            Ok(()) => node.metrics.leases.expired.add(1),
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                node.metrics.proposals.pending.add(-1);
                node.leases.lessor().revoke_failed(id);
            }
        }
    }
}

/// Journals how much time leases of at least `min_ttl` seconds have left. False if the queue was
/// full.
///
/// The lessor stays locked until the records are queued, so that no renewal slips in between. This
/// is why it does not wait for room in the queue.
pub(crate) fn record(node: &Arc<NodeState>, min_ttl: i64) -> bool {
    let mut from = Some(i64::MIN);
    while let Some(id) = from {
        let mut lessor = node.leases.lessor();
        let (recordings, next) = lessor.begin_recording(
            id,
            node.clock.millis(),
            min_ttl,
            node.config.tuning.leases.record_slack,
            node.config.tuning.leases.records_per_request,
        );
        from = next;
        if recordings.is_empty() {
            continue;
        }
        let (reply, _) = oneshot::channel();
        let leases = recordings.iter().map(Remaining::from).collect();
        let command = Command::write(WriteRequest::LeaseRemaining { leases }, reply);
        node.metrics.proposals.pending.add(1);
        if node.commands.try_send(command).is_err() {
            node.metrics.proposals.pending.add(-1);
            lessor.recording_failed(&recordings);
            return false;
        }
    }
    true
}

impl From<&Recording> for Remaining {
    fn from(recording: &Recording) -> Remaining {
        Remaining { id: recording.id, grant: recording.grant, seconds: recording.left }
    }
}
