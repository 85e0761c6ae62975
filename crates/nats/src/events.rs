//! Events: the queue from the tasks of the runtime to the replica.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use vetch_cluster::LogEvent;

use crate::reconnect::Heard;

/// Log events in the queue; when it is full, the stream's consumer waits.
const EVENTS_MAX: usize = 1024;
/// Between two attempts to send into a full queue.
const FULL_WAIT: Duration = Duration::from_millis(1);

/// What ends a wait for events.
pub(crate) enum Received {
    /// The connection that it came over, and the event.
    LogEvent(u64, LogEvent),
    /// A waker: there is other work.
    Wake,
}

/// Sends log events to the replica, marked with the connection that they came over.
#[derive(Clone)]
pub(crate) struct LogEventSender {
    to: Sender<Received>,
    connection: Arc<AtomicU64>,
    since: u64,
    heard: Heard,
}

impl LogEventSender {
    /// A sender for the first connection, and where its events arrive.
    pub(crate) fn new(heard: Heard) -> (LogEventSender, Receiver<Received>) {
        let (to, events) = bounded(EVENTS_MAX);
        (LogEventSender { to, connection: Arc::default(), since: 0, heard }, events)
    }

    /// The same, for requests over the current connection.
    pub(crate) fn for_current_connection(&self) -> LogEventSender {
        LogEventSender { since: self.current_connection(), ..self.clone() }
    }

    pub(crate) fn current_connection(&self) -> u64 {
        self.connection.load(Ordering::SeqCst)
    }

    /// What is requested from here on belongs to the next connection.
    pub(crate) fn begin_connection(&self) {
        self.connection.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn heard(&self) -> &Heard {
        &self.heard
    }

    /// The connection that the events were requested over.
    pub(crate) fn connection(&self) -> u64 {
        self.since
    }

    /// Sends an event, and waits while the queue is full.
    pub(crate) async fn send(&self, event: LogEvent) {
        match &event {
            LogEvent::Records(page) => page.records.last().into_iter().for_each(|(at, _)| self.heard.of(*at)),
            LogEvent::Appended { at, .. } => self.heard.of(*at),
            _ => {}
        }
        let mut item = Received::LogEvent(self.since, event);
        while let Err(TrySendError::Full(back)) = self.to.try_send(item) {
            item = back;
            tokio::time::sleep(FULL_WAIT).await;
        }
    }

    /// Ends a wait for events. False if the queue is full, which ends it as well.
    pub(crate) fn try_wake(&self) -> bool {
        self.to.try_send(Received::Wake).is_ok()
    }
}
