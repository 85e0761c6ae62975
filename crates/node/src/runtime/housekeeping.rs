//! The housekeeping thread: everything that keeps a node small, off every path a client waits on.
//!
//! It prepares journal segments, frees what compactions made unreachable, and takes checkpoints. Doing all of it on one
//! thread is what keeps a checkpoint simple: no version disappears from memory while one is being written.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use parking_lot::RwLockWriteGuard;
use vetch_journal::{Maintenance, Position};
use vetch_store::request::Event;
use vetch_store::{Freed, PREVIOUS_KEPT, Record};

use crate::checkpoint::{Capture, Checkpointer};
use crate::shared::{Ask, Shared};
use crate::watch::NodeEvent;

const IDLE: Duration = Duration::from_millis(500);
/// Event-log revisions dropped, and watcher groups swept, per turn.
const TRIM_REVISIONS: usize = 4096;
const SWEEP_GROUPS: usize = 256;
/// Records looked up per turn of a checkpoint.
const LOOKUPS: usize = 512;
/// Most bytes between two checkpoints, whatever the size of the store.
const STRIDE_MAX: u64 = 256 << 20;
/// How long a capture is waited for to become durable before other chores get their turn.
const DURABLE_WAIT: Duration = Duration::from_secs(1);
/// Unreachable bytes in files that are not worth a run of their own.
const BLOAT_FLOOR: u64 = 64 << 20;
/// How long after a checkpoint that failed, or had nothing new to write, the next one is tried.
const RETRY: Duration = Duration::from_secs(5);

pub(crate) struct Housekeeping {
    pub(crate) shared: Arc<Shared>,
    pub(crate) bell: Receiver<()>,
    pub(crate) trims: Sender<Position>,
    pub(crate) maintenance: Maintenance,
    pub(crate) checkpointer: Checkpointer,
    pub(crate) last_checkpoint: Instant,
    pub(crate) not_before: Option<Instant>,
    /// The last checkpoint failed.
    pub(crate) failed: bool,
    /// A capture that the journal does not have yet.
    pub(crate) captured: Option<Capture>,
    /// The compaction whose events have been made lighter.
    pub(crate) lightened: i64,
}

impl Housekeeping {
    pub(crate) fn run(mut self) {
        loop {
            match self.bell.recv_timeout(IDLE) {
                Ok(()) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if self.shared.is_stopping() {
                return;
            }
            self.prepare_segments();
            // What a waiting capture counts on must stay in memory until it is written.
            if self.captured.is_none() {
                self.compact();
            }
            self.checkpoint_if_due();
            self.review_alarms();
        }
    }

    fn prepare_segments(&mut self) {
        let was_full = self.shared.disk_full.load(Ordering::Relaxed);
        let full = match self.maintenance.run() {
            Ok(_) => false,
            Err(error) => {
                if !was_full && error.is_no_space() {
                    tracing::error!(%error, "the disk is full: writes are refused until there is space again");
                } else if !was_full {
                    tracing::error!(%error, "no journal segment can be prepared: writes are refused until one can; \
                         check the disk");
                }
                true
            }
        };
        let spare = self.maintenance.spares() as u64 * self.shared.config.journal_segment_bytes;
        self.shared.spare_room.store(spare, Ordering::Relaxed);
        self.shared.disk_full.store(full, Ordering::Relaxed);
    }

    /// Frees what is unreachable, a little at a time, with everybody else let in between.
    fn compact(&mut self) {
        assert!(self.captured.is_none(), "no version is freed between a capture and its checkpoint");
        let began = Instant::now();
        let mark = self.shared.store.read().visible();
        let mut versions = 0;
        let mut freed: Vec<Record> = Vec::new();
        loop {
            let mut store = self.shared.store.write();
            let done = store.compact_step(self.shared.config.compaction_batch, &mut freed);
            RwLockWriteGuard::unlock_fair(store);
            versions += freed.len() as u64;
            let books: Vec<Freed> = freed.iter().map(Freed::from).collect();
            self.checkpointer.freed(&books);
            freed.clear();
            if done || self.shared.is_stopping() {
                break;
            }
        }
        self.trim_events();
        self.lighten_events(mark.compact_revision);
        if versions > 0 {
            self.shared.metrics.compaction.observe(began.elapsed());
            self.shared.metrics.compacted_versions.add(versions);
        }
        self.shared.freed.send_if_modified(|freed| {
            let moved = *freed != mark.compact_revision;
            *freed = mark.compact_revision;
            moved
        });
    }

    /// Events at the compaction whose previous versions the store gave back must not keep them alive either.
    fn lighten_events(&mut self, compacted: i64) {
        // Watchers that follow live events are shown the previous version first.
        if self.lightened == compacted || self.shared.hub.read().published() < compacted {
            return;
        }
        self.lightened = compacted;
        let Some(events) = self.shared.log.read().revision(compacted).cloned() else { return };
        if events.len() <= PREVIOUS_KEPT {
            return;
        }
        let mut lighter = Vec::with_capacity(events.len());
        for chunk in events.as_slice().chunks(LOOKUPS) {
            let store = self.shared.store.read();
            lighter.extend(chunk.iter().map(|event| {
                let prev = event.0.prev.clone().filter(|prev| store.retains(prev));
                NodeEvent(Event { kv: event.0.kv.clone(), prev })
            }));
        }
        self.shared.log.write().lighten(compacted, |_| lighter.into());
    }

    fn trim_events(&self) {
        loop {
            let matched = self.shared.hub.read().published();
            let trimmed = self.shared.log.write().trim_step(TRIM_REVISIONS, matched);
            if trimmed.done {
                break;
            }
        }
        while !self.shared.hub.write().sweep_step(SWEEP_GROUPS) {}
    }

    fn checkpoint_if_due(&mut self) {
        // A capture that waits for the journal is written as soon as it can be, because compaction waits for it.
        if self.captured.is_some() {
            return self.checkpoint();
        }
        if self.not_before.is_some_and(|time| Instant::now() < time) {
            return;
        }
        let fresh = self.shared.fresh_bytes.load(Ordering::Relaxed);
        let live = self.shared.store.read().stats().bytes;
        // A large store is checkpointed in larger strides, so that its files stay few.
        let stride = (live / 16).min(STRIDE_MAX).max(self.shared.config.checkpoint_bytes);
        self.shared.checkpoint_stride.store(stride, Ordering::Relaxed);
        let late = self.last_checkpoint.elapsed() >= self.shared.config.checkpoint_interval;
        // On a full disk a checkpoint is what gives space back: behind it the journal is trimmed, and what was deleted and
        // compacted is left out.
        let wants_space = self.failed || self.shared.disk_full.load(Ordering::Relaxed);
        if fresh >= stride || (late && fresh > 0) || self.is_bloated() || wants_space {
            self.checkpoint();
            if wants_space {
                self.not_before = Some(Instant::now() + RETRY);
            }
        }
    }

    /// Whether the files hold much more than is reachable, so that a run pays although little is new.
    fn is_bloated(&self) -> bool {
        let allowed = self.checkpointer.live_bytes() * 2 + BLOAT_FLOOR;
        self.checkpointer.disk_bytes() > allowed && self.last_checkpoint.elapsed() > RETRY
    }

    fn checkpoint(&mut self) {
        let began = Instant::now();
        let Some(capture) = self.capture() else { return };
        let shared = Arc::clone(&self.shared);
        let retained = move |records: &[Record]| -> Vec<bool> {
            records
                .chunks(LOOKUPS)
                .flat_map(|chunk| {
                    let store = shared.store.read();
                    chunk.iter().map(|record| store.retains(record)).collect::<Vec<_>>()
                })
                .collect()
        };
        self.last_checkpoint = began;
        match self.checkpointer.run(capture, &retained) {
            Ok(report) => {
                self.not_before = None;
                self.failed = false;
                self.shared.metrics.checkpoint.observe(began.elapsed());
                self.shared.metrics.checkpoint_bytes.add(report.written_bytes);
                for damage in &report.damaged {
                    tracing::error!(%damage, "a checkpoint file is damaged; make a backup now and check the disk");
                }
                if let Some(tip) = self.checkpointer.trim_to() {
                    // A full queue holds older positions; the next checkpoint names a newer one.
                    let _ = self.trims.try_send(Position(tip.seq + 1));
                }
                tracing::debug!(?report, took = ?began.elapsed(), "checkpoint taken");
            }
            Err(error) => {
                self.shared.metrics.checkpoint_failures.add(1);
                tracing::warn!(%error, "checkpoint failed; the journal keeps everything, and it will be tried again");
                self.not_before = Some(Instant::now() + RETRY);
                self.failed = true;
            }
        }
        self.shared.checkpoint_bytes.store(self.checkpointer.disk_bytes(), Ordering::Relaxed);
    }

    /// What to write, as of a batch border, once the journal has everything up to there. None if it does not
    /// have it yet, as on a full disk; the capture is kept for the next time.
    fn capture(&mut self) -> Option<Capture> {
        let capture = match self.captured.take() {
            Some(capture) => capture,
            None => {
                let (reply, answer) = std::sync::mpsc::sync_channel(1);
                self.shared.asks.send(Ask::Capture { reply }).ok()?;
                answer.recv().ok()?
            }
        };
        let began = Instant::now();
        while *self.shared.durable.borrow() < capture.tip.seq {
            if self.shared.is_stopping() || began.elapsed() > DURABLE_WAIT {
                self.captured = Some(capture);
                return None;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Some(capture)
    }

    fn review_alarms(&self) {
        if self.shared.store.read().alarms().next().is_some() {
            // A full queue means that the next round comes soon enough.
            let _ = self.shared.asks.try_send(Ask::Review);
        }
    }
}
