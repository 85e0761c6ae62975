//! The fan-out thread: matches new revisions to watchers and wakes their streams, off the write
//! path.

use std::sync::Arc;
use std::time::Duration;

use vetch_sync::queue::Receiver;
use vetch_watch::Events;

use crate::event::NodeEvent;
use crate::prefixes::Change;
use crate::runtime::Step;
use crate::state::{CLOSED_PER_TURN, NodeState};

const IDLE_INTERVAL: Duration = Duration::from_millis(500);

/// Matches new revisions to watchers and wakes their streams.
pub struct FanOut {
    node: Arc<NodeState>,
    bell: Receiver<()>,
    /// The last turn left revisions to match.
    more: bool,
}

impl FanOut {
    pub(crate) fn new(node: &Arc<NodeState>, bell: Receiver<()>) -> FanOut {
        FanOut { node: Arc::clone(node), bell, more: false }
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
        let mut fresh = Vec::new();
        let published = {
            let log = self.node.log.read();
            let mut hub = self.node.hub.write();
            let before = hub.published();
            let published = hub.publish(&log, self.node.config.tuning.watch.fan_out_revisions);
            assert!(
                hub.published() <= self.node.visible.revision(),
                "watchers are given nothing before it is visible"
            );
            fresh.extend((before + 1..=hub.published()).map(|revision| log.events(revision)));
            published
        };
        self.node.watches.wake(&published.wake);
        self.count(&fresh);
        self.more = !self.close() || published.more;
        Step::Worked
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
    fn count(&self, fresh: &[Events<NodeEvent>]) {
        let mut prefixes = self.node.activity.prefixes();
        for NodeEvent(event) in fresh.iter().flat_map(|events| events.as_slice()) {
            let change = match event.kv.is_tombstone() {
                true => Change::Delete,
                false => Change::Put { value_bytes: event.kv.value_len() },
            };
            prefixes.count(event.kv.key(), change);
        }
    }
}
