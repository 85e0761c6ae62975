//! Lifecycle: whether the node runs, stops, or has ended, and why.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::watch;

/// Whether the node is alive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RunState {
    Running,
    Stopped,
    /// The node failed, above all because the journal did; nothing more is acknowledged.
    Failed(String),
    /// This server has evaluated what the log does not take: open the node again.
    Replaced,
    /// The shared journal was trimmed beyond what this server has applied, and begins at this
    /// position: the server needs another one's checkpoint.
    Behind(u64),
}

pub(crate) struct Lifecycle {
    /// Nothing new is accepted.
    stopping: AtomicBool,
    run_state: watch::Sender<RunState>,
}

impl Lifecycle {
    pub(crate) fn new() -> Lifecycle {
        Lifecycle { stopping: AtomicBool::new(false), run_state: watch::Sender::new(RunState::Running) }
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// Accepts nothing new from now on. False if that was so before.
    pub(crate) fn begin_stop(&self) -> bool {
        !self.stopping.swap(true, Ordering::AcqRel)
    }

    pub(crate) fn is_running(&self) -> bool {
        *self.run_state.borrow() == RunState::Running
    }

    pub(crate) fn run_state(&self) -> RunState {
        self.run_state.borrow().clone()
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<RunState> {
        self.run_state.subscribe()
    }

    /// The node has ended, in this state.
    pub(crate) fn end(&self, state: RunState) {
        self.run_state.send_replace(state);
    }

    /// The node fails, unless it has ended before.
    pub(crate) fn fail(&self, cause: String) {
        tracing::error!(%cause, "the node failed and stops; nothing further is acknowledged");
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
