//! The journal's thread: makes batches durable, then visible, then answers them.
//!
//! Everything that queued while the last append ran becomes one record and one sync. A batch
//! becomes visible to readers and to watchers at one instant, before any reply to it is sent.
//!
//! With nothing in flight a short batch is appended by the sequencer's thread itself: with few
//! clients, a thread switch takes longer than the evaluation did.

use std::collections::VecDeque;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Weak};
use std::time::Duration;

use crossbeam_channel::TryRecvError;
use vetch_checkpoint::Capture;
use vetch_encryption::KeyId;
use vetch_journal::{Appended, ChainedEntry, DirLock, Draft, Journal, LocalJournal, Position};
use vetch_sync::queue::Receiver;
use vetch_sync::{Mutex, Rank};

use crate::commit::Committer;
use crate::runtime::Step;
use crate::sequencer::{Batch, CaptureRequest};
use crate::state::{NodeState, Reply};

/// How soon an append that found no space is tried again.
const SPACE_RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// The part that makes things durable and visible.
pub(crate) struct JournalLoop {
    node: Arc<NodeState>,
    batches: Receiver<Batch<Reply>>,
    /// The sender of a position nudges the queue of batches as well. None once housekeeping has
    /// ended.
    trims: Option<crossbeam_channel::Receiver<Position>>,
    journal: LocalJournal,
    committer: Committer,
    /// What found no space; nothing of it has been written.
    waiting: Option<Chained>,
    /// An append failed for good. Later batches were evaluated on what it lost, so none of them
    /// may become visible, not even one without an entry.
    has_failed: bool,
    /// What was last reported of the keys that segments need: at which generation of keys, with how
    /// many segments, how many trimmed ones, and which key in the last of them.
    reported_keys: Option<(u64, usize, usize, Option<Option<KeyId>>)>,
    /// The directory stays locked until the last part that writes acknowledged data to it has
    /// ended.
    _lock: DirLock,
}

/// Batches that become one record, with their entries chained on the journal's tip.
struct Chained {
    batches: Vec<Batch<Reply>>,
    entries: Vec<ChainedEntry>,
    /// Captures between them, each with the tip before it.
    captures: Vec<(SyncSender<Capture>, Capture)>,
}

/// The journal's thread owns it. The sequencer's access ends with it.
pub struct JournalPart(Arc<Mutex<JournalLoop>>);

/// The sequencer's access to the journal, as long as that has not ended.
#[derive(Clone, Default)]
pub(crate) struct InlineCommit(Weak<Mutex<JournalLoop>>);

impl JournalPart {
    pub(crate) fn new(journal: JournalLoop) -> JournalPart {
        JournalPart(Arc::new(Mutex::ranked(Rank::Journal, journal)))
    }

    pub(crate) fn inline_commit(&self) -> InlineCommit {
        InlineCommit(Arc::downgrade(&self.0))
    }

    pub(crate) fn run(self) {
        let batches = self.0.lock().batches.clone();
        loop {
            let mut journal = self.0.lock();
            let step = journal.step();
            let waits_for_space = journal.waiting.is_some();
            drop(journal);
            match step {
                Step::Worked => {}
                Step::Idle if waits_for_space => std::thread::sleep(SPACE_RETRY_INTERVAL),
                Step::Idle => {
                    batches.wait(None);
                }
                Step::Ended => return,
            }
        }
    }

    /// As a step of the journal; idle while the sequencer is at it.
    pub fn step(&self) -> Step {
        self.0.try_lock().map_or(Step::Idle, |mut journal| journal.step())
    }
}

impl InlineCommit {
    /// Makes the first of these batches durable and replies to it, on the calling thread. None if
    /// others come first.
    pub(crate) fn append(&self, batches: &mut VecDeque<Batch<Reply>>) -> Option<Step> {
        let journal = self.0.upgrade()?;
        let mut journal = journal.try_lock()?;
        journal.append_first(batches)
    }
}

impl JournalLoop {
    pub(crate) fn new(
        node: &Arc<NodeState>,
        batches: Receiver<Batch<Reply>>,
        trims: crossbeam_channel::Receiver<Position>,
        journal: LocalJournal,
        lock: DirLock,
    ) -> JournalLoop {
        JournalLoop {
            node: Arc::clone(node),
            committer: Committer::new(node),
            batches,
            trims: Some(trims),
            journal,
            waiting: None,
            has_failed: false,
            reported_keys: None,
            _lock: lock,
        }
    }

    /// Makes the first of these durable, unless other batches come before it.
    fn append_first(&mut self, batches: &mut VecDeque<Batch<Reply>>) -> Option<Step> {
        if self.waiting.is_some() || !self.batches.is_empty() {
            return None;
        }
        let batch = batches.pop_front()?;
        let generation = self.node.key_usage.generation();
        let step = self.append(vec![batch]);
        self.report_keys(generation);
        if self.waiting.is_some() {
            // There was no space. The journal's own thread tries again.
            self.batches.nudge().ring();
        }
        Some(step)
    }

    /// Trims if that was requested, then makes durable what is queued.
    fn step(&mut self) -> Step {
        let generation = self.node.key_usage.generation();
        let step = self.work();
        self.report_keys(generation);
        step
    }

    /// Reports which keys the segments need, if that may have changed.
    fn report_keys(&mut self, generation: u64) {
        let (segments, retired) = (self.journal.segments(), self.journal.retired());
        let now = Some((generation, segments, retired, self.journal.active_key()));
        if self.reported_keys != now {
            self.reported_keys = now;
            self.node.key_usage.note_journal(self.journal.segments_by_key(), generation);
        }
    }

    fn work(&mut self) -> Step {
        // Space is given back also while no client writes.
        let trimmed = self.trim();
        if let Some(chained) = self.waiting.take() {
            return self.make_durable(chained);
        }
        match self.batches.try_recv() {
            Ok(first) => {
                let batches = self.gather(first);
                self.append(batches)
            }
            Err(TryRecvError::Empty) if trimmed => Step::Worked,
            Err(TryRecvError::Empty) => Step::Idle,
            Err(TryRecvError::Disconnected) => Step::Ended,
        }
    }

    fn append(&mut self, batches: Vec<Batch<Reply>>) -> Step {
        if self.has_failed {
            return Step::Ended;
        }
        let chained = self.chain(batches);
        self.make_durable(chained)
    }

    /// Gives the entries of batches their places behind the journal's last one.
    fn chain(&self, mut batches: Vec<Batch<Reply>>) -> Chained {
        assert!(self.waiting.is_none(), "what waits for space comes first");
        let mut tip = *self.journal.tip();
        let (mut entries, mut captures) = (Vec::with_capacity(batches.len()), Vec::new());
        for batch in &mut batches {
            entries.extend(batch.draft.take().map(|draft| draft.chain(&mut tip)));
            assert!(
                tip.next_rev == batch.mark.revision + 1,
                "the journal numbers revisions as the store does"
            );
            if let Some(CaptureRequest { reply, capture: Some(capture) }) = batch.capture.take() {
                captures.push((reply, Capture { tip, ..capture }));
            }
        }
        Chained { batches, entries, captures }
    }

    fn make_durable(&mut self, chained: Chained) -> Step {
        if chained.entries.is_empty() {
            self.commit(chained);
            return Step::Worked;
        }
        match self.journal.append_batch(&chained.entries) {
            Ok(appended) => {
                let last = chained.entries.last().map(ChainedEntry::after);
                assert!(last == Some(self.journal.tip()), "the journal ends with the batch that it took");
                self.observe(&appended);
                self.commit(chained);
                Step::Worked
            }
            // Nothing was written. Admission keeps this from happening but for a burst right as the
            // disk fills up; those requests wait for space, and everything behind them is refused.
            Err(error) if error.may_retry() && !self.node.is_stopping() => {
                self.node.disk.segment_failed(&error);
                self.node.housekeeping.ring();
                self.waiting = Some(chained);
                Step::Idle
            }
            Err(error) => {
                self.has_failed = true;
                self.node.fail(error.to_string());
                Step::Ended
            }
        }
    }

    /// What was appended becomes visible.
    fn commit(&self, chained: Chained) {
        let Chained { batches, entries, captures } = chained;
        self.committer.commit(batches, entries.last().map(ChainedEntry::after));
        for (reply, capture) in captures {
            // Fails if housekeeping has ended; the next start replays the journal.
            let _ = reply.send(capture);
        }
    }

    fn gather(&self, first: Batch<Reply>) -> Vec<Batch<Reply>> {
        let size = |batch: &Batch<Reply>| batch.draft.as_ref().map_or(0, Draft::size);
        let mut bytes = size(&first);
        let mut batches = vec![first];
        while bytes < self.node.config.tuning.journal.record_bytes
            && let Ok(batch) = self.batches.try_recv()
        {
            bytes += size(&batch);
            batches.push(batch);
        }
        batches
    }

    fn observe(&self, appended: &Appended) {
        let metrics = &self.node.metrics;
        metrics.journal.sync.observe(appended.sync);
        metrics.journal.write.observe(appended.write);
        metrics.journal.append.observe(appended.write + appended.sync);
        metrics.journal.bytes.add(appended.bytes);
        metrics.journal.appends.add(1);
        self.node.disk.set_active_room(self.journal.room());
        let files = self.journal.segments() as u64 * self.node.config.journal_segment_bytes;
        self.node.disk.set_journal_bytes(files);
        if appended.rolled {
            self.node.housekeeping.ring();
        }
    }

    /// Retires segments that checkpoints have made unnecessary. True if a trim was requested.
    fn trim(&mut self) -> bool {
        let mut newest = None;
        loop {
            match self.trims.as_ref().map(crossbeam_channel::Receiver::try_recv) {
                Some(Ok(position)) => newest = newest.max(Some(position)),
                Some(Err(TryRecvError::Disconnected)) => self.trims = None,
                Some(Err(TryRecvError::Empty)) | None => break,
            }
        }
        if newest.is_some() {
            self.follow_keys();
        }
        // Refused only by a journal that has failed, which the next append reports.
        if newest.is_some_and(|position| self.journal.retire(position).is_ok()) {
            self.node.housekeeping.ring();
        }
        newest.is_some()
    }

    /// Rolls to a new segment if the active one is encrypted with a replaced key. Without space for
    /// the next one this is tried again by housekeeping, or by the next append.
    fn follow_keys(&mut self) {
        if self.journal.follow_keys().is_ok_and(|rolled| rolled) {
            self.node.disk.set_active_room(self.journal.room());
            self.node.housekeeping.ring();
        }
    }
}
