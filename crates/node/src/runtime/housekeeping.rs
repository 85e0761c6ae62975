//! The housekeeping thread: everything that keeps a node small, off every path a client waits on.
//!
//! It prepares journal segments, frees what compactions made unreachable, takes checkpoints, reads
//! them back before the journal is trimmed behind them, and looks for damage on disk. Doing all of
//! it on one thread is what keeps a checkpoint simple: no version disappears from memory while one
//! is being written.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::TryRecvError;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, SendTimeoutError, Sender};
use vetch_bugs::Bug;
use vetch_checkpoint::{Capture, Checkpointer, Damage};
use vetch_cluster::LogIndex;
use vetch_journal::{Maintenance, Position};
use vetch_store::hash::{HashRun, PastHash};
use vetch_store::history::HistoryRun;
use vetch_store::{Freed, Record};
use vetch_watch::Revision;

use crate::admission::DiskState;
use crate::archive::Trim;
use crate::queue::Nudge;
use crate::runtime::Step;
use crate::scrub::Scrub;
use crate::sequencer::Batch;
use crate::state::{Command, NodeState, Reply};
use crate::sync::RwLockWriteGuard;

const IDLE_INTERVAL: Duration = Duration::from_millis(500);
/// How often a capture that is waited for is looked after.
const CAPTURE_POLL_INTERVAL: Duration = Duration::from_millis(1);
/// How long the disk is left to others between two pieces of a checkpoint that is read back.
const READ_BACK_INTERVAL: Duration = Duration::from_millis(20);
/// How long after a checkpoint that failed, or had nothing new to write, the next one is tried.
const CHECKPOINT_RETRY_DELAY: Duration = Duration::from_secs(5);

/// Records of a shared journal that are worth a checkpoint although they changed nothing.
const IDLE_RECORDS_MIN: u64 = 1000;

/// How long after a checkpoint the next one may follow only because of keys.
const KEY_ROTATION_DELAY: Duration = Duration::from_secs(1);

/// The part that keeps the node small.
pub struct Housekeeping {
    pub(crate) node: Arc<NodeState>,
    pub(crate) bell: Receiver<()>,
    pub(crate) trims: Sender<Position>,
    /// Has the journal look for them.
    pub(crate) nudge: Nudge<Batch<Reply>>,
    /// None on a shared journal, which has no files here.
    pub(crate) maintenance: Option<Maintenance>,
    pub(crate) checkpointer: Checkpointer,
    pub(crate) last_checkpoint: Duration,
    pub(crate) not_before: Option<Duration>,
    /// The last checkpoint failed.
    pub(crate) failed: bool,
    /// The last checkpoint has not been read back entirely.
    pub(crate) is_verifying: bool,
    /// The last entry of a journal segment that is damaged: checkpoints are taken until it is not
    /// needed any more.
    pub(crate) damaged_journal: Option<u64>,
    pub(crate) scrub: Scrub,
    /// Up to where the journal was asked to be trimmed last.
    pub(crate) trimmed: u64,
    pub(crate) capture: Capturing,
    /// How long a place in the sequencer's queue is waited for. A queue that is full now may be
    /// full for ever after.
    pub(crate) enqueue_timeout: Duration,
}

/// How far the next checkpoint has come before it can be written.
pub(crate) enum Capturing {
    /// None is under way.
    No,
    /// The sequencer has been asked for a capture.
    Requested(std::sync::mpsc::Receiver<Capture>),
    /// There is one, and the journal may not have all of it yet, as on a slow or a full disk.
    Taken(Box<Capture>),
}

impl Housekeeping {
    pub(crate) fn run(mut self) {
        let mut last_step = Instant::now();
        loop {
            let interval = match (self.is_capturing(), self.is_verifying) {
                (true, _) => CAPTURE_POLL_INTERVAL,
                (false, true) => READ_BACK_INTERVAL,
                (false, false) => IDLE_INTERVAL,
            };
            match self.bell.recv_timeout(interval) {
                // Only the capture is looked after this often: on a full disk, trying to prepare a
                // segment is dear.
                Err(RecvTimeoutError::Timeout)
                    if self.is_capturing() && last_step.elapsed() < IDLE_INTERVAL =>
                {
                    self.checkpoint_if_due();
                    continue;
                }
                Err(RecvTimeoutError::Timeout)
                    if self.is_verifying && last_step.elapsed() < IDLE_INTERVAL =>
                {
                    self.verify();
                    continue;
                }
                Ok(()) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            last_step = Instant::now();
            if self.step() == Step::Ended {
                return;
            }
        }
    }

    /// One look at everything there may be to do.
    pub fn step(&mut self) -> Step {
        if self.node.is_stopping() {
            return Step::Ended;
        }
        let generation = self.node.key_usage.generation();
        self.prepare_segments();
        if self.node.key_usage.is_journal_behind() {
            // Before everything there is, so nothing is trimmed; but the journal looks at its keys.
            self.request_trim(0);
        }
        // What a capture counts on must stay in memory until it is written.
        if !self.is_capturing() || vetch_bugs::on(Bug::FreedWhileCaptured) {
            self.compact();
        }
        self.checkpoint_if_due();
        self.verify();
        self.scrub();
        if self.node.retention.is_enabled() {
            // Entries may have become safe elsewhere, or may have to be given up.
            self.trim();
        }
        self.review_alarms();
        self.node.key_usage.note_checkpoint(self.checkpointer.files_by_key(), generation);
        self.node.key_usage.report_unused();
        Step::Idle
    }

    fn is_capturing(&self) -> bool {
        !matches!(self.capture, Capturing::No)
    }

    fn prepare_segments(&mut self) {
        let Some(maintenance) = &mut self.maintenance else { return };
        let before = self.node.disk_state();
        match maintenance.run() {
            Ok(_) => {
                self.node.disk_full.store(false, Ordering::Relaxed);
                self.node.disk_fails.store(false, Ordering::Relaxed);
            }
            Err(error) => {
                self.node.not_prepared(&error);
                match self.node.disk_state() {
                    now if now == before => {}
                    DiskState::Full => {
                        tracing::error!(%error, "the disk is full: writes are refused until there is space again");
                    }
                    _ => {
                        tracing::error!(%error, "no journal segment can be prepared: writes are refused until one can; \
                         check the disk")
                    }
                }
            }
        }
        let spare = maintenance.spares() as u64 * self.node.config.journal_segment_bytes;
        self.node.spare_room.store(spare, Ordering::Relaxed);
    }

    /// Frees what is unreachable, a little at a time, with everybody else let in between.
    fn compact(&mut self) {
        let allowed = !self.is_capturing() || vetch_bugs::on(Bug::FreedWhileCaptured);
        assert!(allowed, "no version is freed between a capture and its checkpoint");
        let began = Instant::now();
        let mark = self.node.store.read().visible();
        let mut versions = 0;
        let mut freed: Vec<Record> = Vec::new();
        let freed_to = loop {
            let mut store = self.node.store.write();
            // A snapshot is collecting versions; the last one to finish rings the bell.
            if self.node.collecting_snapshots.load(Ordering::Acquire) > 0 {
                return;
            }
            let unhashed = self.node.past_hashes.lock().next_to_hash();
            if let Some(past) = unhashed {
                drop(store);
                if !self.hash_past(&past) {
                    return;
                }
                continue;
            }
            let held = Instant::now();
            let limit = self.node.pins.limit(store.visible().compact_revision, self.node.time.now());
            let done = store.compact_step_upto(self.node.config.compaction_batch, limit, &mut freed);
            let freed_to = store.freed_to();
            RwLockWriteGuard::unlock_fair(store);
            let held = held.elapsed();
            if !freed.is_empty() {
                self.node.metrics.compaction_paused(held);
            }
            versions += freed.len() as u64;
            let books: Vec<Freed> = freed.iter().map(Freed::from).collect();
            self.checkpointer.note_freed(&books);
            freed.clear();
            if done {
                break freed_to;
            }
            if self.node.is_stopping() {
                return;
            }
        };
        self.trim_events();
        self.drop_previous_values();
        if versions > 0 {
            self.node.metrics.compacted(began.elapsed(), versions);
        }
        let done = freed_to.min(mark.compact_revision);
        let is_new = self.node.freed.send_if_modified(|freed| {
            let moved = *freed != done;
            *freed = done;
            moved
        });
        if is_new && done == mark.compact_revision && done > 0 {
            self.node.metrics.compacted_at.set(self.node.gauge_time());
        }
    }

    /// Hashes history as a compaction found it, which cannot be done any more once something has
    /// been freed for it. False: the node is stopping.
    fn hash_past(&self, past: &PastHash) -> bool {
        let mut run = HashRun::in_compaction(past);
        loop {
            let step = run.step(&self.node.store.read(), self.node.config.tuning.scan_keys);
            if self.node.is_stopping() {
                return false;
            }
            if step != Some(false) {
                break;
            }
        }
        let hash = run.finish();
        self.node.past_hashes.lock().hashed(past.revision, hash);
        true
    }

    /// Events at the compaction must not keep alive what they replaced, once all who follow have
    /// been shown it.
    fn drop_previous_values(&self) {
        let matched = self.node.hub.read().published();
        let heavy = self.node.log.read().heavy_floor(matched);
        let Some(Revision { rev, events }) = heavy else { return };
        let lighter = Revision { rev, events: events.without_previous() };
        let replaced = self.node.log.write().lighten(lighter);
        drop(replaced);
    }

    fn trim_events(&self) {
        loop {
            let matched = self.node.hub.read().published();
            let trimmed = self.node.log.write().trim_step(self.node.config.tuning.trim_revisions, matched);
            if trimmed.done {
                break;
            }
        }
        while !self.node.hub.write().sweep_step(self.node.config.tuning.sweep_groups) {}
    }

    fn checkpoint_if_due(&mut self) {
        // A capture is written as soon as it can be, because compaction waits for it.
        if !self.is_capturing() && self.is_checkpoint_due() {
            self.request_capture();
        }
        if let Some(capture) = self.durable_capture() {
            self.checkpoint(capture);
        }
    }

    fn is_checkpoint_due(&self) -> bool {
        let now = self.node.time.now();
        if self.not_before.is_some_and(|time| now < time) {
            return false;
        }
        let fresh = self.node.fresh_bytes.load(Ordering::Relaxed);
        let live = self.node.store.read().stats().bytes;
        // A large store is checkpointed in larger strides, so that its files stay few.
        let stride =
            (live / 16).min(self.node.config.tuning.stride_max).max(self.node.config.checkpoint_bytes);
        self.node.checkpoint_stride.store(stride, Ordering::Relaxed);
        let late = now - self.last_checkpoint >= self.node.config.checkpoint_interval;
        fresh >= stride
            || (late && fresh > 0)
            || self.is_due_on_shared_journal(late, fresh)
            || self.is_bloated(now)
            || self.wants_space()
            || self.needs_key_rotation(now)
            || self.is_damaged(now)
    }

    /// On a shared journal barriers pile up also while nobody writes; and a state that the journal
    /// may have lost has to be on disk.
    fn is_due_on_shared_journal(&self, late: bool, fresh: u64) -> bool {
        let Some(cluster) = &self.node.cluster else { return false };
        let read = cluster.position.load(Ordering::Relaxed);
        let is_far = read >= self.checkpointer.position() + IDLE_RECORDS_MIN;
        (late && is_far) || (fresh > 0 && cluster.alone.load(Ordering::Relaxed))
    }

    /// On a full disk a checkpoint is what gives space back: behind it the journal is trimmed, and
    /// what was deleted and compacted is left out.
    fn wants_space(&self) -> bool {
        self.failed || self.node.disk_full.load(Ordering::Relaxed)
    }

    /// Whether files do not use the current key, so that a run, and the trimming behind it,
    /// helps to get rid of it.
    fn needs_key_rotation(&self, now: Duration) -> bool {
        let is_stale = self.checkpointer.has_stale_keys() || self.node.key_usage.is_journal_behind();
        is_stale && now - self.last_checkpoint > KEY_ROTATION_DELAY
    }

    /// Whether what a start would need is known to be damaged, so that it should be replaced by
    /// what is in memory.
    fn is_damaged(&self, now: Duration) -> bool {
        let is_needed = |last: u64| self.checkpointer.journal_needed_from().is_none_or(|tip| tip.seq < last);
        let is_damaged = self.checkpointer.is_damaged() || self.damaged_journal.is_some_and(is_needed);
        is_damaged && now - self.last_checkpoint > CHECKPOINT_RETRY_DELAY
    }

    /// Whether the files hold much more than is reachable, so that a run pays although little is
    /// new.
    fn is_bloated(&self, now: Duration) -> bool {
        let allowed = self.checkpointer.live_bytes() * 2 + self.node.config.tuning.bloat_floor;
        self.checkpointer.disk_bytes() > allowed && now - self.last_checkpoint > CHECKPOINT_RETRY_DELAY
    }

    fn checkpoint(&mut self, capture: Capture) {
        let began = Instant::now();
        // Decided before the run, which may take long: what is missing now is not helped by trying
        // again at once.
        let wanted_space = self.wants_space();
        let node = Arc::clone(&self.node);
        let retained = move |records: &[Record]| -> Vec<bool> {
            records
                .chunks(node.config.tuning.lookups)
                .flat_map(|chunk| {
                    let store = node.store.read();
                    chunk.iter().map(|record| store.retains(record)).collect::<Vec<_>>()
                })
                .collect()
        };
        self.last_checkpoint = self.node.time.now();
        let is_damaged = self.checkpointer.is_damaged();
        let outcome = match is_damaged {
            true => self.checkpointer.run_full(capture, self.collect_all_versions()),
            false => self.checkpointer.run(capture, &retained),
        };
        match outcome {
            Ok(report) => {
                if is_damaged {
                    self.node.metrics.checkpoints_healed.add(1);
                    tracing::warn!("the damaged checkpoint was replaced by a new one, written from memory");
                }
                self.not_before = wanted_space.then(|| self.node.time.now() + CHECKPOINT_RETRY_DELAY);
                self.failed = false;
                self.node.metrics.checkpoint.observe(began.elapsed());
                self.node.metrics.checkpoint_at.set(self.node.gauge_time());
                self.node.metrics.checkpoint_bytes.add(report.written_bytes);
                report.damaged.iter().for_each(|damage| self.report_damage(damage));
                if vetch_bugs::on(Bug::TrimmedTooFar) {
                    self.request_trim(*self.node.durable.borrow() + 1);
                }
                if let Some(cluster) = &self.node.cluster {
                    cluster.saved.store(self.checkpointer.mark().revision, Ordering::Release);
                }
                self.is_verifying = true;
                tracing::debug!(?report, took = ?began.elapsed(), "checkpoint taken");
            }
            Err(error) => {
                self.node.metrics.checkpoint_failures.add(1);
                tracing::warn!(%error, "checkpoint failed; the journal keeps everything, and it will be tried again");
                self.not_before = Some(self.node.time.now() + CHECKPOINT_RETRY_DELAY);
                self.failed = true;
                // What is held for a copy may be what is missing.
                if self.node.cluster.is_some() && self.node.retention.release_pins() {
                    tracing::warn!("checkpoint files that were held for another server are let go");
                }
            }
        }
        self.node.checkpoint_bytes.store(self.checkpointer.disk_bytes(), Ordering::Relaxed);
    }

    /// Everything that the store holds, collected in turns. Nothing is freed meanwhile: that is
    /// this thread's work, too.
    fn collect_all_versions(&self) -> Vec<Record> {
        let mark = self.node.store.read().visible();
        let mut run = HistoryRun::of_swept(mark);
        while !run.step(&self.node.store.read(), self.node.config.tuning.scan_keys) {}
        run.finish()
    }

    /// Reads on in a checkpoint that was just written. Only once all of it is on the disk as it
    /// should be does the journal give up what it covers.
    fn verify(&mut self) {
        if !self.is_verifying {
            return;
        }
        match self.checkpointer.verify(self.node.config.tuning.read_back_bytes) {
            Ok(false) => {}
            Ok(true) => {
                self.is_verifying = false;
                self.trim();
                self.publish_trim_vote();
            }
            Err(damage) => {
                self.report_damage(&damage);
                tracing::error!("a checkpoint cannot be read back; the journal keeps what it covers");
            }
        }
    }

    /// Says from where on this server needs a shared journal.
    fn publish_trim_vote(&self) {
        if let Some(cluster) = &self.node.cluster {
            let vote = self.checkpointer.trim_position();
            cluster.board.lock().vote = vote.map(|(position, tip)| LogIndex { position, tip });
        }
    }

    /// Looks for damage on disk, as much as is due.
    fn scrub(&mut self) {
        // One at a time has the disk.
        if self.is_verifying || self.is_capturing() {
            return;
        }
        let found = self.scrub.step(self.node.time.now(), &mut self.checkpointer);
        self.node.metrics.scrub_bytes.add(found.bytes);
        found.checkpoint.iter().for_each(|damage| self.report_damage(damage));
        for (damage, last) in &found.journal {
            self.report_damage(damage);
            self.damaged_journal = self.damaged_journal.max(Some(*last));
        }
        if found.is_complete {
            self.node.metrics.scrubs.add(1);
            self.node.metrics.scrubbed_at.set(self.node.gauge_time());
        }
        self.forget_repaired();
    }

    fn report_damage(&self, damage: &Damage) {
        tracing::error!(%damage, "a file is damaged: make a backup now and check the disk");
        self.node.metrics.damage_found.add(1);
        self.node.damage.lock().insert(damage.file.clone(), damage.to_string());
    }

    /// A damaged file that nobody needs any more is no reason to worry.
    fn forget_repaired(&mut self) {
        if self.node.damage.lock().is_empty() {
            return;
        }
        let damaged = self.checkpointer.damaged();
        let is_left = |path: &PathBuf| damaged.contains(path) || self.scrub.has_segment(path);
        self.node.damage.lock().retain(|path, _| is_left(path));
        if self.damaged_journal.is_some_and(|last| last < self.trimmed) {
            self.damaged_journal = None;
        }
    }

    /// Gives up what neither the two newest checkpoints nor a backup needs. On a shared journal
    /// this is not one server's to decide.
    fn trim(&mut self) {
        if self.node.cluster.is_some() {
            return;
        }
        let Some(tip) = self.checkpointer.trim_to() else { return };
        let disk_full = self.node.disk_full.load(Ordering::Relaxed);
        if disk_full && self.node.retention.release_pins() {
            tracing::warn!("the disk is full: checkpoint files that were held for a backup are let go");
        }
        let journal_bytes = self.node.journal_bytes.load(Ordering::Relaxed);
        let upto = match self.node.retention.trim(tip.seq + 1, journal_bytes, disk_full) {
            Trim::Upto(upto) => upto,
            Trim::Dropped(upto) => {
                self.node.report_retention_dropped();
                upto
            }
        };
        if upto > self.trimmed && self.request_trim(upto) {
            self.trimmed = upto;
        }
    }

    /// False: the queue is full of older positions; the next round names a newer one.
    fn request_trim(&self, upto: u64) -> bool {
        let taken = self.trims.try_send(Position(upto)).is_ok();
        self.nudge.ring();
        taken
    }

    fn request_capture(&mut self) {
        let (reply, answer) = std::sync::mpsc::sync_channel(1);
        match self.node.commands.send_timeout(Command::Capture { reply }, self.enqueue_timeout) {
            Ok(()) => self.capture = Capturing::Requested(answer),
            // Whatever made the checkpoint due still does when the queue is shorter.
            Err(SendTimeoutError::Timeout(_) | SendTimeoutError::Disconnected(_)) => {}
        }
    }

    /// What to write, as of a batch border, once the journal has everything up to there.
    fn durable_capture(&mut self) -> Option<Capture> {
        let capture = match std::mem::replace(&mut self.capture, Capturing::No) {
            Capturing::No => return None,
            Capturing::Taken(capture) => capture,
            Capturing::Requested(answer) => match answer.try_recv() {
                Ok(capture) => Box::new(capture),
                Err(TryRecvError::Empty) => {
                    self.capture = Capturing::Requested(answer);
                    return None;
                }
                // The sequencer has ended, and with it the node; or it is being decided who writes,
                // which may take a while.
                Err(TryRecvError::Disconnected) => {
                    self.not_before = Some(self.node.time.now() + IDLE_INTERVAL);
                    return None;
                }
            },
        };
        // On a shared journal, the journal's thread hands out only what is durable.
        let is_local = self.node.cluster.is_none();
        if is_local && *self.node.durable.borrow() < capture.tip.seq {
            self.capture = Capturing::Taken(capture);
            return None;
        }
        Some(*capture)
    }

    fn review_alarms(&self) {
        let decides = self.node.cluster.is_none() || !self.node.is_following();
        if decides && self.node.store.read().alarms().next().is_some() {
            // A full queue means that the next round comes soon enough.
            let _ = self.node.commands.try_send(Command::ReviewAlarms);
        }
    }
}
