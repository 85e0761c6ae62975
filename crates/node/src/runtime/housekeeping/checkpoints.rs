//! Takes checkpoints when they are due, and reads them back.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::TryRecvError;
use std::time::{Duration, Instant};

use crossbeam_channel::SendTimeoutError;
use vetch_checkpoint::{Capture, CheckpointError, Checkpointer, RunReport};
use vetch_cluster::LogIndex;
use vetch_seeded_bugs::Bug;
use vetch_store::Record;
use vetch_store::history::HistoryRun;

use super::{IDLE_INTERVAL, Trimmer, scrubber};
use crate::state::{Command, NodeState};

/// How long after a checkpoint that failed, or had nothing new to write, the next one is tried.
const RETRY_DELAY: Duration = Duration::from_secs(5);

/// How long after a checkpoint the next one may follow only because of keys.
const KEY_ROTATION_DELAY: Duration = Duration::from_secs(1);

/// Records of a shared journal that are worth a checkpoint although they changed nothing.
const IDLE_RECORDS_MIN: u64 = 1000;

pub(super) struct Checkpoints {
    node: Arc<NodeState>,
    checkpointer: Checkpointer,
    last: Duration,
    not_before: Option<Duration>,
    has_failed: bool,
    /// The last checkpoint has not been read back entirely.
    is_verifying: bool,
    /// The capture that was requested; it comes once the journal has all of it, which may take a
    /// while on a slow or a full disk.
    capture: Option<std::sync::mpsc::Receiver<Capture>>,
    enqueue_timeout: Duration,
}

impl Checkpoints {
    pub(super) fn new(node: &Arc<NodeState>, checkpointer: Checkpointer) -> Checkpoints {
        Checkpoints {
            node: Arc::clone(node),
            checkpointer,
            last: node.clock.started(),
            not_before: None,
            has_failed: false,
            is_verifying: false,
            capture: None,
            enqueue_timeout: Duration::ZERO,
        }
    }

    pub(super) fn set_enqueue_timeout(&mut self, timeout: Duration) {
        self.enqueue_timeout = timeout;
    }

    pub(super) fn checkpointer(&self) -> &Checkpointer {
        &self.checkpointer
    }

    pub(super) fn checkpointer_mut(&mut self) -> &mut Checkpointer {
        &mut self.checkpointer
    }

    pub(super) fn is_capturing(&self) -> bool {
        self.capture.is_some()
    }

    pub(super) fn is_verifying(&self) -> bool {
        self.is_verifying
    }

    pub(super) fn take_if_due(&mut self, is_journal_damaged: bool, trimmer: &Trimmer) {
        // A capture is written as soon as it can be, because compaction waits for it.
        if !self.is_capturing() && self.is_due(is_journal_damaged) {
            self.request_capture();
        }
        if let Some(capture) = self.durable_capture() {
            self.take(capture, trimmer);
        }
    }

    fn is_due(&self, is_journal_damaged: bool) -> bool {
        let now = self.node.clock.now();
        if self.not_before.is_some_and(|time| now < time) {
            return false;
        }
        let fresh = self.node.disk.fresh_bytes();
        let stride = self.stride();
        self.node.disk.set_checkpoint_stride(stride);
        let late = now - self.last >= self.node.config.checkpoint_interval;
        fresh >= stride
            || (late && fresh > 0)
            || self.is_due_on_shared_journal(late, fresh)
            || self.is_bloated(now)
            || self.wants_space()
            || self.needs_key_rotation(now)
            || self.is_damaged(now, is_journal_damaged)
    }

    /// A large store is checkpointed in larger strides, so that its files stay few.
    fn stride(&self) -> u64 {
        let live = self.node.store.read().stats().bytes;
        (live / 16).min(self.node.config.tuning.checkpoints.stride_max).max(self.node.config.checkpoint_bytes)
    }

    /// On a shared journal barriers pile up also while there are no writes; and state that the
    /// journal may have lost has to be on disk.
    fn is_due_on_shared_journal(&self, late: bool, fresh: u64) -> bool {
        let Some(cluster) = &self.node.cluster else { return false };
        let read = cluster.position.load(Ordering::Relaxed);
        let is_far = read >= self.checkpointer.position() + IDLE_RECORDS_MIN;
        (late && is_far) || (fresh > 0 && cluster.must_checkpoint.load(Ordering::Relaxed))
    }

    /// On a full disk a checkpoint is what gives space back: behind it the journal is trimmed, and
    /// what was deleted and compacted is left out.
    fn wants_space(&self) -> bool {
        self.has_failed || self.node.disk.is_full()
    }

    /// Whether files do not use the current key, so that a run, and the trimming behind it, helps
    /// to get rid of an old one.
    fn needs_key_rotation(&self, now: Duration) -> bool {
        let is_stale = self.checkpointer.has_stale_keys() || self.node.key_usage.is_journal_behind();
        is_stale && now - self.last > KEY_ROTATION_DELAY
    }

    /// Whether a file that a start would need is damaged, and should be replaced from memory.
    fn is_damaged(&self, now: Duration, is_journal_damaged: bool) -> bool {
        (self.checkpointer.is_damaged() || is_journal_damaged) && now - self.last > RETRY_DELAY
    }

    /// Whether the files hold much more than is reachable, so that a run pays although little is
    /// new.
    fn is_bloated(&self, now: Duration) -> bool {
        let allowed = self.checkpointer.live_bytes() * 2 + self.node.config.tuning.checkpoints.bloat_floor;
        self.checkpointer.disk_bytes() > allowed && now - self.last > RETRY_DELAY
    }

    fn take(&mut self, capture: Capture, trimmer: &Trimmer) {
        let began = Instant::now();
        // Decided before the run, which may take long: an immediate retry would not help what is
        // missing now.
        let wanted_space = self.wants_space();
        let is_damaged = self.checkpointer.is_damaged();
        self.last = self.node.clock.now();
        match self.write(capture, is_damaged) {
            Ok(report) => {
                if is_damaged {
                    self.node.metrics.checkpoints.healed.add(1);
                    tracing::warn!("the damaged checkpoint was replaced by a new one, written from memory");
                }
                self.not_before = wanted_space.then(|| self.node.clock.now() + RETRY_DELAY);
                self.taken(&report, began);
                if vetch_seeded_bugs::on(Bug::TrimmedTooFar) {
                    trimmer.request(self.node.visible.seq().next());
                }
            }
            Err(error) => self.failed(&error),
        }
        self.node.disk.set_checkpoint_bytes(self.checkpointer.disk_bytes());
    }

    fn write(&mut self, capture: Capture, is_damaged: bool) -> Result<RunReport, CheckpointError> {
        if is_damaged {
            let versions = self.collect_all_versions();
            return self.checkpointer.run_full(capture, versions);
        }
        let node = Arc::clone(&self.node);
        let retained = move |records: &[Record]| -> Vec<bool> {
            let chunks = records.chunks(node.config.tuning.checkpoints.lookups);
            chunks.flat_map(|chunk| retained_in_one_turn(&node, chunk)).collect()
        };
        self.checkpointer.run(capture, &retained)
    }

    fn taken(&mut self, report: &RunReport, began: Instant) {
        self.has_failed = false;
        self.is_verifying = true;
        self.node.metrics.checkpoints.duration.observe(began.elapsed());
        self.node.metrics.checkpoints.taken_at.set(self.node.clock.gauge_time());
        self.node.metrics.checkpoints.bytes.add(report.written_bytes);
        report.damaged.iter().for_each(|damage| scrubber::report(&self.node, damage));
        if let Some(cluster) = &self.node.cluster {
            cluster.saved.store(self.checkpointer.mark().revision, Ordering::Release);
        }
        tracing::debug!(?report, took = ?began.elapsed(), "checkpoint taken");
    }

    fn failed(&mut self, error: &CheckpointError) {
        self.node.metrics.checkpoints.failures.add(1);
        tracing::warn!(%error, "checkpoint failed; the journal keeps everything, and it will be tried again");
        self.not_before = Some(self.node.clock.now() + RETRY_DELAY);
        self.has_failed = true;
        // The space that is missing may be held by files that are being copied.
        if self.node.cluster.is_some() && self.node.retention.release_pins() {
            tracing::warn!("checkpoint files that were held for another server are released");
        }
    }

    /// All versions of the store, collected in turns. Nothing is freed meanwhile: this thread does
    /// that, too.
    fn collect_all_versions(&self) -> Vec<Record> {
        let mark = self.node.store.read().visible();
        let mut run = HistoryRun::of_swept(mark);
        while !run.step(&self.node.store.read(), self.node.config.tuning.scan.keys) {}
        run.finish()
    }

    /// Reads back the next piece of the last checkpoint. True once all of it is known to be on
    /// disk.
    pub(super) fn verify_step(&mut self) -> bool {
        if !self.is_verifying {
            return false;
        }
        match self.checkpointer.verify(self.node.config.tuning.checkpoints.read_back_bytes) {
            Ok(is_done) => {
                self.is_verifying = !is_done;
                is_done
            }
            Err(damage) => {
                scrubber::report(&self.node, &damage);
                tracing::error!("a checkpoint cannot be read back; the journal keeps what it covers");
                false
            }
        }
    }

    /// Publishes from where on this server needs a shared journal.
    pub(super) fn publish_trim_vote(&self) {
        if let Some(cluster) = &self.node.cluster {
            let vote = self.checkpointer.trim_position();
            cluster.info.lock().vote = vote.map(|(position, tip)| LogIndex { position, tip });
        }
    }

    fn request_capture(&mut self) {
        let (reply, answer) = std::sync::mpsc::sync_channel(1);
        match self.node.commands.send_timeout(Command::Capture { reply }, self.enqueue_timeout) {
            Ok(()) => self.capture = Some(answer),
            // The checkpoint is still due when the queue is shorter.
            Err(SendTimeoutError::Timeout(_) | SendTimeoutError::Disconnected(_)) => {}
        }
    }

    /// What to write, as of a border between batches. The journal has everything up to there.
    fn durable_capture(&mut self) -> Option<Capture> {
        let answer = self.capture.take()?;
        match answer.try_recv() {
            Ok(capture) => Some(capture),
            Err(TryRecvError::Empty) => {
                self.capture = Some(answer);
                None
            }
            // The sequencer has ended, and with it the node; or an election goes on, which may take
            // a while.
            Err(TryRecvError::Disconnected) => {
                self.not_before = Some(self.node.clock.now() + IDLE_INTERVAL);
                None
            }
        }
    }
}

fn retained_in_one_turn(node: &NodeState, records: &[Record]) -> Vec<bool> {
    let store = node.store.read();
    records.iter().map(|record| store.retains(record)).collect()
}
