//! The fan-out thread: matches new revisions to watchers and wakes their streams, off the write path.

use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::Receiver;

use crate::runtime::Step;
use crate::shared::{RunState, Shared};

const IDLE: Duration = Duration::from_millis(500);

/// The part that wakes watchers.
pub struct FanOut {
    pub(crate) shared: Arc<Shared>,
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
        if *self.shared.state.borrow() != RunState::Running {
            return Step::Ended;
        }
        // The bell is answered before the look, so that what is published meanwhile rings it again.
        let rung = self.bell.try_recv().is_ok();
        if !rung && !self.more {
            return Step::Idle;
        }
        let published = {
            let log = self.shared.log.read();
            self.shared.hub.write().publish(&log, self.shared.config.tuning.fan_out_revisions)
        };
        if !published.wake.is_empty() {
            let streams = self.shared.streams.lock();
            for id in &published.wake {
                if let Some(stream) = streams.get(id) {
                    stream.notify_one();
                }
            }
        }
        self.more = published.more;
        Step::Worked
    }
}
