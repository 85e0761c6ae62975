//! Watch sessions: the asynchronous shell around one watch stream.

use std::sync::Arc;

use tokio::sync::{Notify, watch};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};
use vetch_store::request::Event;
use vetch_watch::{LogEvent, Stream};

pub use vetch_watch::{Create, Filters, NO_WATCH, Response};

use crate::state::{NodeState, RunState};

/// A change as the event log keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeEvent(pub Event);

// The log keeps one of these for every revision since the last compaction.
const _: () = assert!(size_of::<vetch_watch::Events<NodeEvent>>() == 2 * size_of::<usize>());

impl LogEvent for NodeEvent {
    fn key(&self) -> &[u8] {
        self.0.kv.key()
    }

    fn is_delete(&self) -> bool {
        self.0.kv.is_tombstone()
    }

    fn size(&self) -> usize {
        self.0.kv.wire_len() + self.0.prev.as_ref().map_or(0, |prev| prev.wire_len())
    }

    fn without_previous(&self) -> NodeEvent {
        NodeEvent(Event { kv: self.0.kv.clone(), prev: None })
    }
}

/// The node has stopped, and with it every watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("server stopped")]
pub struct WatchEnd;

/// Watchers of a stream that leave their groups in one turn.
pub(crate) const CLOSED_AT_ONCE: usize = 1024;

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

/// Something that lives until the last watcher of a session is gone.
pub(crate) type Kept = Box<dyn Send + Sync>;

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

    /// Says where the client calls from, for those who look for slow ones.
    pub fn set_client_address(&self, client: Arc<str>) {
        self.node.watches.set_client(self.stream.id(), client);
    }

    /// Answered, like everything, by [`WatchSession::next`].
    pub fn create(&mut self, request: &Create) {
        // What can be done without the locks is.
        self.stream.take_notices();
        let log = self.node.log.read();
        self.stream.create(&mut self.node.hub.write(), &log, request);
    }

    /// Refuses a create for a reason that only the edge knows.
    pub fn refuse_create(&mut self, reason: String) {
        let log = self.node.log.read();
        self.stream.refuse_create(&log, reason);
    }

    pub fn cancel(&mut self, watch_id: i64) {
        let log = self.node.log.read();
        self.stream.cancel(&mut self.node.hub.write(), &log, watch_id);
    }

    pub fn request_progress(&mut self) {
        let log = self.node.log.read();
        self.stream.request_progress(&mut self.node.hub.write(), &log);
    }

    /// Bytes that the watchers take, about.
    pub fn bytes(&self) -> usize {
        self.stream.bytes()
    }

    /// Keeps something until all watchers are gone, which may be after the session is.
    pub fn keep(&mut self, kept: Box<dyn Send + Sync>) {
        self.kept = Some(kept);
    }

    /// Answers not yet taken. A client that keeps asking without reading is not listened to
    /// meanwhile.
    pub fn backlog(&self) -> usize {
        self.stream.control_backlog()
    }

    /// The next responses, in order; waits until there are any. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Result<Vec<Response<NodeEvent>>, WatchEnd> {
        loop {
            let drained = {
                let log = self.node.log.read();
                let hub = self.node.hub.read();
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
        if self.stream.close_step(&mut self.node.hub.write(), CLOSED_AT_ONCE) {
            return;
        }
        // The fan-out thread does the rest, in turns: nobody waits here for a client that had very
        // many watchers.
        let rest = std::mem::replace(&mut self.stream, Stream::closed());
        self.node.watches.close_later((rest, self.kept.take()));
    }
}
