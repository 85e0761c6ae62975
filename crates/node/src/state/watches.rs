//! Watches: how the tasks of watch streams are woken, and which streams are still to be closed.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use tokio::sync::Notify;
use vetch_sync::Mutex;
use vetch_sync::queue;
use vetch_watch::{Stream, StreamId};

use crate::event::NodeEvent;

/// Watchers of a stream that leave their groups in one turn.
pub(crate) const CLOSED_PER_TURN: usize = 1024;

/// Something that lives until the last watcher of a session is gone.
pub(crate) type Kept = Box<dyn Send + Sync>;

/// A stream whose client has gone, with watchers that have yet to leave their groups.
pub(crate) type ClosingStream = (Stream<NodeEvent>, Option<Kept>);

pub(crate) struct Watches {
    streams: Mutex<HashMap<StreamId, StreamWaker>>,
    closing: Mutex<VecDeque<ClosingStream>>,
    /// Wakes the fan-out thread: there are revisions to match or streams to close.
    fan_out: queue::Sender<()>,
}

struct StreamWaker {
    wake: Arc<Notify>,
    /// The address of its client.
    client: Option<Arc<str>>,
}

impl Watches {
    pub(crate) fn new(fan_out: queue::Sender<()>) -> Watches {
        Watches { streams: Mutex::default(), closing: Mutex::default(), fan_out }
    }

    pub(crate) fn register(&self, stream: StreamId, wake: Arc<Notify>) {
        self.streams.lock().insert(stream, StreamWaker { wake, client: None });
    }

    pub(crate) fn unregister(&self, stream: StreamId) {
        self.streams.lock().remove(&stream);
    }

    pub(crate) fn set_client(&self, stream: StreamId, client: Arc<str>) {
        if let Some(waker) = self.streams.lock().get_mut(&stream) {
            waker.client = Some(client);
        }
    }

    /// The client addresses of streams.
    pub(crate) fn clients<'s>(&self, streams: impl Iterator<Item = &'s StreamId>) -> Vec<Option<Arc<str>>> {
        let wakers = self.streams.lock();
        streams.map(|stream| wakers.get(stream).and_then(|waker| waker.client.clone())).collect()
    }

    /// Wakes the tasks of these streams.
    pub(crate) fn wake(&self, streams: &[StreamId]) {
        if streams.is_empty() {
            return;
        }
        let wakers = self.streams.lock();
        for waker in streams.iter().filter_map(|stream| wakers.get(stream)) {
            waker.wake.notify_one();
        }
    }

    /// Leaves the rest of a close to the fan-out thread.
    pub(crate) fn close_later(&self, stream: ClosingStream) {
        self.closing.lock().push_back(stream);
        self.wake_fan_out();
    }

    pub(crate) fn next_to_close(&self) -> Option<ClosingStream> {
        self.closing.lock().pop_front()
    }

    /// Puts back a stream that has watchers left.
    pub(crate) fn close_next(&self, stream: ClosingStream) {
        self.closing.lock().push_front(stream);
    }

    pub(crate) fn is_closing(&self) -> bool {
        !self.closing.lock().is_empty()
    }

    pub(crate) fn wake_fan_out(&self) {
        // Full: it has been woken already. Closed: the node has stopped.
        let _ = self.fan_out.try_send(());
    }
}
