//! Watch sessions: the asynchronous shell around one watch stream.

use std::sync::Arc;

use tokio::sync::{Notify, watch};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};
use vetch_watch::Stream;

pub use vetch_watch::{Create, Filters, NO_WATCH, Response};

use crate::event::NodeEvent;
use crate::state::{CLOSED_PER_TURN, Kept, NodeState, RunState};

/// The node has stopped, and with it every watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("server stopped")]
pub struct WatchEnd;

/// All watchers of one client stream.
pub struct WatchSession {
    node: Arc<NodeState>,
    stream: Stream<NodeEvent>,
    wake: Arc<Notify>,
    state: watch::Receiver<RunState>,
    progress: Interval,
    out: Vec<Response<NodeEvent>>,
    kept: Option<Kept>,
}

impl WatchSession {
    pub(crate) fn new(node: &Arc<NodeState>) -> WatchSession {
        let stream = Stream::open(&mut node.hub.write());
        let wake = Arc::new(Notify::new());
        node.watches.register(stream.id(), Arc::clone(&wake));
        let period = node.config.watch_progress_interval;
        // Streams that began together should not all report at the same moment.
        let jitter = period.mul_f64((stream.id() % 11) as f64 / 100.0);
        let mut progress = interval_at(Instant::now() + period + jitter, period + jitter);
        progress.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let state = node.lifecycle.subscribe();
        WatchSession { node: Arc::clone(node), stream, wake, state, progress, out: Vec::new(), kept: None }
    }

    /// Sets the address of the client, for the list of slow streams.
    pub fn set_client_address(&self, client: Arc<str>) {
        self.node.watches.set_client(self.stream.id(), client);
    }

    /// Its response comes from [`WatchSession::next`], as all do.
    pub fn create(&mut self, request: &Create) {
        let mut hub = self.node.hub.write();
        self.stream.create(&mut hub, &self.node.log.read(), request);
    }

    /// Refuses a create for a reason that only the edge knows.
    pub fn refuse_create(&mut self, reason: String) {
        let log = self.node.log.read();
        self.stream.refuse_create(&log, reason);
    }

    pub fn cancel(&mut self, watch_id: i64) {
        let mut hub = self.node.hub.write();
        self.stream.cancel(&mut hub, &self.node.log.read(), watch_id);
    }

    pub fn request_progress(&mut self) {
        let mut hub = self.node.hub.write();
        self.stream.request_progress(&mut hub, &self.node.log.read());
    }

    /// Bytes that the watchers take, about.
    pub fn bytes(&self) -> usize {
        self.stream.bytes()
    }

    /// Keeps something until all watchers are gone, which may be after the session is.
    pub fn keep(&mut self, kept: Box<dyn Send + Sync>) {
        self.kept = Some(kept);
    }

    /// Responses not yet taken. No request is taken from a client that has many.
    pub fn backlog(&self) -> usize {
        self.stream.control_backlog()
    }

    /// The next responses, in order; waits until there are any. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Result<Vec<Response<NodeEvent>>, WatchEnd> {
        loop {
            // What may take long on a stream with very many watchers is done before the locks.
            self.stream.take_notices();
            let drained = {
                let hub = self.node.hub.read();
                let log = self.node.log.read();
                self.stream.drain(&hub, &log, self.node.config.tuning.watch.drain, &mut self.out)
            };
            if drained.release {
                self.stream.release(&mut self.node.hub.write());
            }
            if !self.out.is_empty() {
                return Ok(std::mem::take(&mut self.out));
            }
            if drained.more {
                tokio::task::yield_now().await;
                continue;
            }
            tokio::select! {
                biased;
                _ = self.progress.tick() => self.stream.tick_progress(),
                () = self.wake.notified() => {}
                _ = self.state.wait_for(|state| *state != RunState::Running) => return Err(WatchEnd),
            }
        }
    }
}

impl Drop for WatchSession {
    fn drop(&mut self) {
        self.node.watches.unregister(self.stream.id());
        if self.stream.close_step(&mut self.node.hub.write(), CLOSED_PER_TURN) {
            return;
        }
        // The fan-out thread does the rest, in turns: a client with very many watchers delays no
        // thread here.
        let rest = std::mem::replace(&mut self.stream, Stream::closed());
        self.node.watches.close_later((rest, self.kept.take()));
    }
}
