//! The journal thread of a cluster: it follows a replicated log, and proposes entries while this
//! server leads.
//!
//! How entries are replicated is not known here (`vetch_cluster::ReplicatedLog`). A follower
//! applies what other servers proposed; that is visible at once, because it is committed. A leader
//! proposes batches, and completes them once they are committed. Proposals that were dropped while
//! this server stays the leader are proposed again, in order. A leader that was replaced takes back
//! what it has evaluated and will never be committed, and goes on as a follower.
//!
//! * `work`: what is in flight. `proposals` takes batches and proposes them.
//! * `reads`: read indexes. `events`: what the log reports. `apply`: entries of other leaders.
//! * `step_down`: how a leader becomes a follower. `exit`: how the loop ends.
//! * `maintenance`: trims, and what follows from the room that is left.

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
use vetch_cluster::{LogStatus, Pace, ReplicatedLog};
use vetch_journal::DirLock;

use vetch_members::{Leader, MemberCommand, MemberRegistry, Report};
use vetch_sync::queue;

use super::Step;
use crate::cluster::{Cluster, ClusterInfo, ClusterStatus, PendingReads, ReadLease};
use crate::commit::Committer;
use crate::sequencer::Batch;
use crate::state::{NodeState, Reply};

pub(crate) use work::Work;

/// How often a halted server looks whether its state is on disk.
const EXIT_INTERVAL: Duration = Duration::from_millis(5);

/// The part that makes batches durable and visible, together with other servers.
pub struct ReplicatedLogLoop {
    pub(crate) node: Arc<NodeState>,
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) committer: Committer,
    pub(crate) batches: queue::Receiver<Batch<Reply>>,
    pub(crate) reads: PendingReads,
    pub(crate) member_commands: Receiver<MemberCommand>,
    pub(crate) reports: Receiver<Report>,
    pub(crate) log: Box<dyn ReplicatedLog>,
    pub(crate) registry: MemberRegistry,
    pub(crate) me: Leader,
    /// Whether what is queued interrupts a step of the log.
    pub(crate) can_wake: bool,
    pub(crate) work: Work,
    /// Locks the directory until this part has ended.
    pub(crate) _lock: DirLock,
}

impl ReplicatedLogLoop {
    pub(crate) fn run(mut self) {
        while self.step(Duration::MAX) != Step::Ended {}
    }

    /// How long a step of the log may wait.
    fn wait_max(&self) -> Duration {
        let Work { is_leader, queue, reads, .. } = &self.work;
        let waiting = Waiting {
            can_wake: self.can_wake,
            is_leader: *is_leader,
            batches: !queue.is_empty(),
            reads: reads.is_waiting(),
        };
        waiting.max(&self.log.pace())
    }

    /// Takes commands, steps the log, and handles its events. Waits no longer than `wait` for them.
    pub fn step(&mut self, wait: Duration) -> Step {
        if self.work.stepping_down.is_some() {
            return self.continue_stepping_down(wait);
        }
        if self.work.halted.is_some() {
            std::thread::sleep(wait.min(EXIT_INTERVAL));
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
        // Proposals are sent only after this. The log appends nothing by itself that changes the
        // state.
        self.publish_read_lease();
        let events = self.log.step(wait.min(self.wait_max()));
        self.work.events.extend(events);
        if self.handle_events() == Step::Ended {
            return Step::Ended;
        }
        if self.work.stepping_down.is_some() {
            return Step::Worked;
        }
        self.publish_read_lease();
        self.answer_reached();
        self.check_room();
        self.publish_status();
        Step::Worked
    }

    /// Publishes how far everything is applied, and whether that is certain to be the newest state.
    fn publish_read_lease(&self) {
        let status = self.log.status();
        let applied = (!status.is_stopped).then_some(status.index);
        self.cluster.reads.publish(ReadLease { lease: self.log.lease(), applied });
    }

    /// Publishes the cluster's status. Watchers wake up only when more than the index has changed.
    fn publish_status(&self) {
        let LogStatus { index, is_caught_up, is_suspect, is_silent, .. } = self.log.status();
        let (seq, epoch) = (index.tip.seq, index.tip.epoch);
        self.cluster.status.send_if_modified(|status| {
            let now = (is_caught_up, is_suspect, is_silent);
            let changed = (status.caught_up, status.suspect, status.silent) != now || status.epoch != epoch;
            (status.index, status.epoch) = (seq, epoch);
            (status.caught_up, status.suspect, status.silent) = now;
            changed
        });
    }

    fn update_cluster_info(&self, change: impl FnOnce(&mut ClusterInfo)) {
        change(&mut self.cluster.info.lock());
    }

    fn update_status(&self, change: impl FnOnce(&mut ClusterStatus)) {
        self.cluster.status.send_modify(change);
    }
}

/// What may need the thread while the log waits.
struct Waiting {
    can_wake: bool,
    is_leader: bool,
    batches: bool,
    reads: bool,
}

impl Waiting {
    fn max(&self, pace: &Pace) -> Duration {
        // Batches and reads that were taken already wait for their windows to end.
        let is_urgent = self.reads || self.batches || (self.is_leader && !pace.writes_wake);
        if self.can_wake && !is_urgent { pace.long_wait } else { pace.short_wait }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_short_while_something_may_come_that_does_not_interrupt_it() {
        let idle = Waiting { can_wake: true, is_leader: false, batches: false, reads: false };
        let slow = Pace::MILLISECONDS;
        let fast = Pace { writes_wake: true, ..slow };
        assert_eq!(idle.max(&slow), slow.long_wait);
        assert_eq!(Waiting { can_wake: false, ..idle }.max(&slow), slow.short_wait);
        assert_eq!(Waiting { reads: true, ..idle }.max(&slow), slow.short_wait);
        let leader = Waiting { is_leader: true, ..idle };
        assert_eq!(leader.max(&slow), slow.short_wait, "batches join it, and end no wait");
        assert_eq!(leader.max(&fast), fast.long_wait, "batches end the wait");
        assert_eq!(Waiting { batches: true, ..leader }.max(&fast), fast.short_wait);
    }
}
