//! The fan-out thread: matches new revisions to watchers and wakes their streams, off the write
//! path.

use std::sync::Arc;
use std::time::Duration;

use vetch_watch::Events;

use crate::prefixes::Change;
use crate::queue::Receiver;
use crate::runtime::Step;
use crate::state::{NodeState, RunState};
use crate::watch::{CLOSED_AT_ONCE, NodeEvent};

const IDLE: Duration = Duration::from_millis(500);

/// The part that wakes watchers.
pub struct FanOut {
    pub(crate) node: Arc<NodeState>,
    pub(crate) bell: Receiver<()>,
    /// The last turn left revisions to match.
    pub(crate) more: bool,
}

impl FanOut {
    pub(crate) fn run(mut self) {
        loop {
            match self.step() {
                Step::Worked => {}
                // Wakes up now and then to see whether the node has stopped.
                Step::Idle => self.more = self.bell.recv_timeout(IDLE).is_ok(),
                Step::Ended => return,
            }
        }
    }

    /// One turn, if there is something new.
    pub fn step(&mut self) -> Step {
        if *self.node.run_state.borrow() != RunState::Running {
            return Step::Ended;
        }
        // The bell is answered before the look, so that what is published meanwhile rings it again.
        let rung = self.bell.try_recv().is_ok();
        if !rung && !self.more {
            return Step::Idle;
        }
        let mut fresh = Vec::new();
        let published = {
            let log = self.node.log.read();
            let mut hub = self.node.hub.write();
            let before = hub.published();
            let published = hub.publish(&log, self.node.config.tuning.fan_out_revisions);
            fresh.extend((before + 1..=hub.published()).map(|revision| log.events(revision)));
            published
        };
        if !published.wake.is_empty() {
            let streams = self.node.streams.lock();
            for id in &published.wake {
                if let Some(stream) = streams.get(id) {
                    stream.wake.notify_one();
                }
            }
        }
        self.count(&fresh);
        self.more = !self.close() || published.more;
        Step::Worked
    }

    /// Takes some watchers of clients that have gone out of their groups. True if none are left.
    fn close(&self) -> bool {
        let Some((mut stream, kept)) = self.node.closing.lock().pop_front() else { return true };
        if !stream.close_step(&mut self.node.hub.write(), CLOSED_AT_ONCE) {
            self.node.closing.lock().push_front((stream, kept));
            return false;
        }
        self.node.closing.lock().is_empty()
    }

    /// Which prefixes were written to. Here, because nobody waits for this thread but watchers, who
    /// have been woken.
    fn count(&self, fresh: &[Events<NodeEvent>]) {
        let mut prefixes = self.node.prefixes.lock();
        for NodeEvent(event) in fresh.iter().flat_map(|events| events.as_slice()) {
            let change = match event.kv.is_tombstone() {
                true => Change::Delete,
                false => Change::Put { value_bytes: event.kv.value_len() },
            };
            prefixes.count(event.kv.key(), change);
        }
    }
}
