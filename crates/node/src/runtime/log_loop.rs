//! The journal thread of a cluster: a replica that follows the log, and appends to it while the
//! current epoch is its own.
//!
//! A follower applies what other servers appended. That is visible at once, because what is read
//! from the log is committed. A leader chains batches, proposes them, and completes them once they
//! are committed. Proposals that were dropped while this server stays the leader are proposed
//! again, in order. A leader that was replaced takes back what it has evaluated and will never be
//! committed, and goes on as a follower.
//!
//! * `work`: what is in flight. `proposals` takes batches and proposes them.
//! * `reads`: read indexes. `events`: what the replica reports. `apply`: entries of other leaders.
//! * `step_down`: how a leader becomes a follower. `exit`: how the loop ends.
//! * `maintenance`: trims, and the room that the log has left.

mod apply;
mod events;
mod exit;
mod maintenance;
mod proposals;
mod reads;
mod step_down;
mod work;

use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::Receiver;
use vetch_cluster::{Driver, Log};
use vetch_journal::DirLock;

use vetch_members::{Leader, MemberCommand, MemberRegistry, Report};
use vetch_sync::queue;

use super::Step;
use crate::cluster::{ClusterInfo, ClusterStatus, PendingReads, ReadLease};
use crate::commit::Committer;
use crate::sequencer::Batch;
use crate::state::{NodeState, Reply};

pub(crate) use work::Work;

/// How long one step waits for log events: the long wait where reads interrupt it and nothing else
/// is urgent, and the short one otherwise.
const WAIT_MAX: Duration = Duration::from_millis(5);
const SHORT_WAIT_MAX: Duration = Duration::from_millis(1);
/// After this long without a new entry there is no leader: even an idle one appends several a
/// second. As long as three election timeouts of etcd.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(3);

/// The part that makes batches durable and visible, together with other servers.
pub struct ReplicatedLogLoop {
    pub(crate) node: Arc<NodeState>,
    pub(crate) committer: Committer,
    pub(crate) batches: queue::Receiver<Batch<Reply>>,
    pub(crate) reads: PendingReads,
    pub(crate) member_commands: Receiver<MemberCommand>,
    pub(crate) reports: Receiver<Report>,
    pub(crate) driver: Driver<Box<dyn Log>>,
    pub(crate) registry: MemberRegistry,
    pub(crate) me: Leader,
    /// Whether a new read interrupts a wait for log events.
    pub(crate) reads_wake: bool,
    pub(crate) work: Work,
    /// Locks the directory until this part has ended.
    pub(crate) _lock: DirLock,
}

impl ReplicatedLogLoop {
    pub(crate) fn run(mut self) {
        while self.step(WAIT_MAX) != Step::Ended {}
    }

    /// How long to wait for log events. Reads interrupt the wait. Batches do not: more requests
    /// join them meanwhile, and a record costs the same however many it holds.
    fn wait_max(&self) -> Duration {
        let is_urgent = self.work.is_leader || self.work.reads.is_waiting();
        if self.reads_wake && !is_urgent { WAIT_MAX } else { SHORT_WAIT_MAX }
    }

    /// Takes commands, steps the replica, and handles its events. Waits no longer than `wait` for
    /// log events.
    pub fn step(&mut self, wait: Duration) -> Step {
        if self.work.stepping_down.is_some() {
            return self.continue_stepping_down(wait);
        }
        if self.work.halted.is_some() {
            std::thread::sleep(wait);
            return self.checkpoint_before_exit();
        }
        if self.take_batches() == Step::Ended {
            return Step::Ended;
        }
        self.take_reads();
        self.maintain_log();
        self.take_indexes();
        self.answer_reached();
        self.announce();
        if let Err(ended) = self.maintain_members().and_then(|()| self.propose()) {
            return ended;
        }
        // The driver sends proposals only after this. A replica starts nothing by itself but
        // barriers and new-epoch entries, which change no state.
        self.publish_read_lease();
        let events = self.driver.step(wait.min(self.wait_max()));
        self.work.events.extend(events);
        if self.handle_events() == Step::Ended {
            return Step::Ended;
        }
        if self.work.stepping_down.is_some() {
            return Step::Worked;
        }
        self.publish_read_lease();
        self.answer_reached();
        self.publish_status();
        Step::Worked
    }

    /// Publishes how far everything is applied, and whether that is certain to be the newest state.
    fn publish_read_lease(&self) {
        let (Some(cluster), replica) = (&self.node.cluster, self.driver.replica()) else { return };
        let applied = (!replica.is_stopped()).then(|| replica.log_state().index());
        cluster.reads.publish(ReadLease { lease: replica.lease(), applied });
    }

    /// Publishes the cluster's status. Watchers wake up only when more than the index has changed.
    fn publish_status(&mut self) {
        let now = self.driver.now();
        let replica = self.driver.replica();
        let (index, epoch) = (replica.log_state().tip().seq, replica.log_state().tip().epoch);
        if self.work.last_read.0 != index {
            self.work.last_read = (index, now);
        }
        let silent = now >= self.work.last_read.1 + SILENCE_TIMEOUT;
        let (caught_up, suspect) = (replica.is_caught_up(), replica.is_suspect());
        let Some(cluster) = &self.node.cluster else { return };
        cluster.status.send_if_modified(|status| {
            let changed = (status.caught_up, status.suspect, status.silent) != (caught_up, suspect, silent)
                || status.epoch != epoch;
            (status.index, status.epoch) = (index, epoch);
            (status.caught_up, status.suspect, status.silent) = (caught_up, suspect, silent);
            changed
        });
    }

    fn update_cluster_info(&self, change: impl FnOnce(&mut ClusterInfo)) {
        if let Some(cluster) = &self.node.cluster {
            change(&mut cluster.info.lock());
        }
    }

    fn update_status(&self, change: impl FnOnce(&mut ClusterStatus)) {
        if let Some(cluster) = &self.node.cluster {
            cluster.status.send_modify(change);
        }
    }
}
