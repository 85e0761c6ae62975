//! The fan-out thread: matches new revisions to watchers and wakes their streams, off the write
//! path. It takes revisions out of the event log and gives its lock back before it matches them, so
//! that no commit waits for watchers, however much they watch.

use std::sync::Arc;
use std::time::Duration;

use vetch_counters::prefixes::Change;
use vetch_sync::RwLockWriteGuard;
use vetch_sync::queue::Receiver;
use vetch_watch::{Fresh, Published};

use crate::event::NodeEvent;
use crate::runtime::Step;
use crate::state::{CLOSED_PER_TURN, NodeState};

/// Streams that are woken with the table of streams locked.
const WOKEN_AT_ONCE: usize = 1024;

const IDLE_INTERVAL: Duration = Duration::from_millis(500);

/// Matches new revisions to watchers and wakes their streams.
pub struct FanOut {
    node: Arc<NodeState>,
    bell: Receiver<()>,
    /// The last turn left something to do.
    more: bool,
    /// The hub is not done with the revisions it was given.
    is_matching: bool,
    /// The revision it is given next.
    next: i64,
}

impl FanOut {
    pub(crate) fn new(node: &Arc<NodeState>, bell: Receiver<()>) -> FanOut {
        let next = node.hub.read().published() + 1;
        FanOut { node: Arc::clone(node), bell, more: false, is_matching: false, next }
    }

    pub(crate) fn run(mut self) {
        loop {
            match self.step() {
                Step::Worked => {}
                // The timeout notices that the node has stopped.
                Step::Idle => self.more = self.bell.recv_timeout(IDLE_INTERVAL).is_ok(),
                Step::Ended => return,
            }
        }
    }

    /// One turn, if there is something new.
    pub fn step(&mut self) -> Step {
        if !self.node.lifecycle.is_running() {
            return Step::Ended;
        }
        // The bell is cleared before the check, so that a revision published meanwhile rings it
        // again.
        let rung = self.bell.try_recv().is_ok();
        if !rung && !self.more {
            return Step::Idle;
        }
        let (published, is_full) = self.publish();
        published.wake.chunks(WOKEN_AT_ONCE).for_each(|streams| self.node.watches.wake(streams));
        if let Some(fresh) = &published.done {
            self.count(fresh);
        }
        self.more = !self.close() || published.more || is_full;
        Step::Worked
    }

    /// Goes on with the revisions that are being matched, or begins with the next ones. True if the
    /// log may have more than the hub could be given.
    fn publish(&mut self) -> (Published<NodeEvent>, bool) {
        let tuning = &self.node.config.tuning.watch;
        let mut fresh = None;
        if !self.is_matching {
            fresh = self.node.log.read().fresh(self.next, tuning.fan_out_revisions);
        }
        let mut is_full = self.is_matching;
        if let Some(fresh) = &fresh {
            fresh.prepare();
            self.next += fresh.revisions().len() as i64;
            is_full = fresh.revisions().len() >= tuning.fan_out_revisions;
        }
        let mut hub = self.node.hub.write();
        if let Some(fresh) = fresh {
            hub.begin(fresh);
        }
        let mut published = hub.step(tuning.fan_out_work);
        assert!(
            hub.published() <= self.node.visible.revision(),
            "watchers are given nothing before it is visible"
        );
        self.is_matching = hub.is_matching();
        // Threads that wait for the hub get it before the next step.
        RwLockWriteGuard::unlock_fair(hub);
        published.wake.sort_unstable();
        published.wake.dedup();
        (published, is_full)
    }

    /// Removes some watchers of closed streams from their groups. True if none are left.
    fn close(&self) -> bool {
        let Some((mut stream, kept)) = self.node.watches.next_to_close() else { return true };
        if !stream.close_step(&mut self.node.hub.write(), CLOSED_PER_TURN) {
            self.node.watches.close_next((stream, kept));
            return false;
        }
        !self.node.watches.is_closing()
    }

    /// Counts writes by prefix. On this thread, because only watchers wait for it, and they have
    /// been woken.
    fn count(&self, fresh: &Fresh<NodeEvent>) {
        let mut prefixes = self.node.activity.prefixes();
        for NodeEvent(event) in fresh.revisions().iter().flat_map(|events| events.as_slice()) {
            let change = match event.kv.is_tombstone() {
                true => Change::Delete,
                false => Change::Put { value_bytes: event.kv.value_len() },
            };
            prefixes.count(event.kv.key(), change);
        }
    }
}
