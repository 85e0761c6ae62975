//! The fan-out thread: matches new revisions to watchers and wakes their streams, off the write path.

use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::Receiver;

use crate::shared::{RunState, Shared};

/// Revisions matched per turn, so that streams reading the rings are not kept out for long.
const TURN: usize = 256;

const IDLE: Duration = Duration::from_millis(500);

pub(crate) fn run(shared: &Arc<Shared>, bell: &Receiver<()>) {
    while *shared.state.borrow() == RunState::Running {
        if bell.recv_timeout(IDLE).is_err() {
            continue;
        }
        loop {
            let published = {
                let log = shared.log.read();
                shared.hub.write().publish(&log, TURN)
            };
            if !published.wake.is_empty() {
                let streams = shared.streams.lock();
                for id in &published.wake {
                    if let Some(stream) = streams.get(id) {
                        stream.notify_one();
                    }
                }
            }
            if !published.more {
                break;
            }
        }
    }
}
