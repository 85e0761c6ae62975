//! Counters of single services: watch responses, snapshots, defragmentations, and open connections.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use vetch_counters::{Histogram, doubling};
use vetch_node::metrics::DISK_BOUNDS;

use super::text::{Text, Type};

/// 10 ms doubling up to 11 minutes.
const SNAPSHOT_BOUNDS: &[f64] = &doubling::<17>(0.01);
/// 100 ms doubling up to 7 minutes.
const DEFRAGMENTATION_BOUNDS: &[f64] = &doubling::<13>(0.1);

#[derive(Debug)]
pub struct ServiceMetrics {
    /// From a watch response being ready to the connection having taken it.
    watch_events: Histogram,
    /// The same, divided by its events.
    watch_per_event: Histogram,
    watch_answers: Histogram,
    watch_progress: Histogram,
    snapshots: Histogram,
    defragmentations: Histogram,
    connections: AtomicU64,
    connections_opened: AtomicU64,
}

impl Default for ServiceMetrics {
    fn default() -> ServiceMetrics {
        let sending = || Histogram::new(DISK_BOUNDS);
        ServiceMetrics {
            watch_events: sending(),
            watch_per_event: sending(),
            watch_answers: sending(),
            watch_progress: sending(),
            snapshots: Histogram::new(SNAPSHOT_BOUNDS),
            defragmentations: Histogram::new(DEFRAGMENTATION_BOUNDS),
            connections: AtomicU64::new(0),
            connections_opened: AtomicU64::new(0),
        }
    }
}

/// Kinds of watch responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchFrame {
    Events(u32),
    /// The response to a client's request, or the end of a watch.
    Answer,
    Progress,
}

impl ServiceMetrics {
    pub fn watch_sent(&self, frame: WatchFrame, took: Duration) {
        match frame {
            WatchFrame::Events(events) => {
                self.watch_events.observe(took);
                self.watch_per_event.observe(took / events.max(1));
            }
            WatchFrame::Answer => self.watch_answers.observe(took),
            WatchFrame::Progress => self.watch_progress.observe(took),
        }
    }

    pub fn snapshot_sent(&self, took: Duration) {
        self.snapshots.observe(took);
    }

    pub fn defragmented(&self, took: Duration) {
        self.defragmentations.observe(took);
    }

    /// Counts a connection as open until the returned guard is dropped.
    pub fn connected(&self) -> Connected<'_> {
        self.connections.fetch_add(1, Relaxed);
        self.connections_opened.fetch_add(1, Relaxed);
        Connected(self)
    }

    pub fn connections(&self) -> u64 {
        self.connections.load(Relaxed)
    }

    pub(super) fn write(&self, page: &mut Text) {
        let sent = "etcd_debugging_server_watch_send_loop";
        let families: [(&str, &str, &str, &Histogram); 6] = [
            (
                sent,
                "_watch_stream_duration_seconds",
                "Time to send a response with events.",
                &self.watch_events,
            ),
            (
                sent,
                "_watch_stream_duration_per_event_seconds",
                "The same, divided by the events.",
                &self.watch_per_event,
            ),
            (
                sent,
                "_control_stream_duration_seconds",
                "Time to send the answer to a request.",
                &self.watch_answers,
            ),
            (sent, "_progress_duration_seconds", "Time to send a progress response.", &self.watch_progress),
            ("etcd_disk_backend", "_snapshot_duration_seconds", "Time to send a snapshot.", &self.snapshots),
            (
                "etcd_disk_backend",
                "_defrag_duration_seconds",
                "Time of a defragmentation, which has nothing to do here.",
                &self.defragmentations,
            ),
        ];
        for (start, end, help, histogram) in families {
            let name = format!("{start}{end}");
            page.heading(&name, Type::Histogram, help);
            page.histogram(&name, &[], histogram);
        }
        let opened = self.connections_opened.load(Relaxed);
        page.gauge("vetch_connections", "Open connections of clients.", self.connections() as f64);
        page.counter("vetch_connections_total", "Connections accepted.", opened);
    }
}

/// An open connection.
pub struct Connected<'a>(&'a ServiceMetrics);

impl Drop for Connected<'_> {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Relaxed);
    }
}
