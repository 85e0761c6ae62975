//! The journal's thread: makes batches durable, then visible, then answers them.
//!
//! Everything that queued while the last append ran becomes one record and one sync. What is in a
//! batch becomes visible to readers and to watchers at the same instant, and before anybody is told
//! of it.
//!
//! A short batch that finds nothing under way is appended by the sequencer's thread itself: while
//! few write, handing it to another thread takes longer than deciding it did.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use crossbeam_channel::TryRecvError;
use vetch_encryption::KeyId;
use vetch_journal::{Appended, ChainedEntry, DirLock, Journal, LocalJournal, Position, Tip};
use vetch_store::request::WriteResponse;

use crate::error::NodeError;
use crate::queue::Receiver;
use crate::runtime::Step;
use crate::sequencer::{Batch, LeaseChange, Outcome, Unversioned};
use crate::shared::{Reply, Shared};
use crate::sync::Mutex;

/// How soon an append that found no space is tried again.
const SPACE_RETRY: Duration = Duration::from_millis(100);

/// What is done with batches once they are durable.
pub(crate) struct Finisher {
    pub(crate) shared: Arc<Shared>,
}

/// The part that makes things durable and visible.
pub(crate) struct JournalLoop {
    pub(crate) shared: Arc<Shared>,
    pub(crate) batches: Receiver<Batch<Reply>>,
    /// Whoever sends one nudges the queue of batches as well. None once housekeeping has ended.
    pub(crate) trims: Option<crossbeam_channel::Receiver<Position>>,
    pub(crate) journal: LocalJournal,
    pub(crate) finisher: Finisher,
    /// Batches that found no space; nothing of them has been written.
    pub(crate) waiting: Option<Vec<Batch<Reply>>>,
    /// What was last reported of the keys that segments need: at which generation of keys, with how
    /// many segments and which key in the last of them.
    pub(crate) noted: Option<(u64, usize, Option<Option<KeyId>>)>,
    /// The directory stays taken until the last part that writes acknowledged data to it has ended.
    pub(crate) _lock: DirLock,
}

/// The journal's own hold of it. The sequencer's ends with it.
pub struct JournalPart(Arc<Mutex<JournalLoop>>);

/// How the sequencer gets at the journal, as long as that has not ended.
#[derive(Clone, Default)]
pub(crate) struct ShortWay(Weak<Mutex<JournalLoop>>);

impl JournalPart {
    pub(crate) fn new(journal: JournalLoop) -> JournalPart {
        JournalPart(Arc::new(Mutex::new(journal)))
    }

    pub(crate) fn short_way(&self) -> ShortWay {
        ShortWay(Arc::downgrade(&self.0))
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
                Step::Idle if waits_for_space => std::thread::sleep(SPACE_RETRY),
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

impl ShortWay {
    /// Takes the first of these batches, makes it durable and answers it, on the calling thread.
    /// None if others come first.
    pub(crate) fn append(&self, batches: &mut VecDeque<Batch<Reply>>) -> Option<Step> {
        let journal = self.0.upgrade()?;
        let mut journal = journal.try_lock()?;
        journal.append_first(batches)
    }
}

impl JournalLoop {
    /// Makes the first of these durable, if nothing comes before it.
    fn append_first(&mut self, batches: &mut VecDeque<Batch<Reply>>) -> Option<Step> {
        if self.waiting.is_some() || !self.batches.is_empty() {
            return None;
        }
        let batch = batches.pop_front()?;
        let generation = self.shared.key_usage.generation();
        let step = self.make_durable(vec![batch]);
        self.note_keys(generation);
        if self.waiting.is_some() {
            // There was no space. The journal's own thread is who tries again.
            self.batches.nudge().ring();
        }
        Some(step)
    }

    /// Trims if asked to, then makes durable what is queued.
    fn step(&mut self) -> Step {
        let generation = self.shared.key_usage.generation();
        let step = self.work();
        self.note_keys(generation);
        step
    }

    /// Tells which keys the segments need, if that may have changed.
    fn note_keys(&mut self, generation: u64) {
        let now = Some((generation, self.journal.segments(), self.journal.active_key()));
        if self.noted != now {
            self.noted = now;
            self.shared.key_usage.note_journal(self.journal.segments_by_key(), generation);
        }
    }

    fn work(&mut self) -> Step {
        // Space must come back also while nobody writes.
        let trimmed = self.trim();
        if let Some(batches) = self.waiting.take() {
            return self.make_durable(batches);
        }
        match self.batches.try_recv() {
            Ok(first) => {
                let batches = self.gather(first);
                self.make_durable(batches)
            }
            Err(TryRecvError::Empty) if trimmed => Step::Worked,
            Err(TryRecvError::Empty) => Step::Idle,
            Err(TryRecvError::Disconnected) => Step::Ended,
        }
    }

    fn make_durable(&mut self, batches: Vec<Batch<Reply>>) -> Step {
        let entries: Vec<ChainedEntry> = batches.iter().filter_map(|batch| batch.entry.clone()).collect();
        if entries.is_empty() {
            self.finisher.complete(batches, None);
            return Step::Worked;
        }
        match self.journal.append_batch(&entries) {
            Ok(appended) => {
                self.observe(&appended);
                self.finisher.complete(batches, entries.last().map(ChainedEntry::after));
                Step::Worked
            }
            // Nothing was written. Admission keeps this from happening but for a burst right as the
            // disk fills up; those requests wait for space, and everything behind them is refused.
            Err(error) if error.may_retry() && !self.shared.is_stopping() => {
                self.shared.not_prepared(&error);
                self.shared.chores.ring();
                self.waiting = Some(batches);
                Step::Idle
            }
            Err(error) => {
                self.shared.fail(error.to_string());
                Step::Ended
            }
        }
    }

    fn gather(&self, first: Batch<Reply>) -> Vec<Batch<Reply>> {
        let size = |batch: &Batch<Reply>| batch.entry.as_ref().map_or(0, |entry| entry.bytes().len());
        let mut bytes = size(&first);
        let mut batches = vec![first];
        while bytes < self.shared.config.tuning.record_bytes
            && let Ok(batch) = self.batches.try_recv()
        {
            bytes += size(&batch);
            batches.push(batch);
        }
        batches
    }

    fn observe(&self, appended: &Appended) {
        let metrics = &self.shared.metrics;
        metrics.fsync.observe(appended.sync);
        metrics.write.observe(appended.write);
        metrics.commit.observe(appended.write + appended.sync);
        metrics.append_bytes.add(appended.bytes);
        metrics.appends.add(1);
        self.shared.active_room.store(self.journal.room(), Ordering::Relaxed);
        let files = self.journal.segments() as u64 * self.shared.config.journal_segment_bytes;
        self.shared.journal_bytes.store(files, Ordering::Relaxed);
        if appended.rolled {
            self.shared.chores.ring();
        }
    }

    /// Lets go of segments that checkpoints have made unnecessary. True if there were any to think
    /// about.
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
            self.shared.chores.ring();
        }
        newest.is_some()
    }

    /// Leaves a segment that is encrypted with the keys of yesterday. Without space for the next
    /// one this is tried again by housekeeping, or by the next append.
    fn follow_keys(&mut self) {
        if self.journal.follow_keys().is_ok_and(|rolled| rolled) {
            self.shared.active_room.store(self.journal.room(), Ordering::Relaxed);
            self.shared.chores.ring();
        }
    }
}

impl Finisher {
    /// `last` is the tip after the last entry of them, if there is any.
    pub(crate) fn complete(&self, batches: Vec<Batch<Reply>>, last: Option<&Tip>) {
        let mark = batches.last().expect("at least one batch was gathered").mark;
        let mut replies = Vec::new();
        batches.iter().for_each(|batch| self.count(batch));
        let compacted;
        {
            let mut store = self.shared.store.write();
            let mut log = self.shared.log.write();
            let mut floor = store.visible().compact_revision;
            compacted = floor != mark.compact_revision;
            store.publish(mark);
            for batch in batches {
                let before = std::mem::replace(&mut floor, batch.mark.compact_revision);
                if before != floor {
                    self.shared.past_hashes.lock().compacted(before, floor);
                }
                self.show_unversioned(batch.unversioned);
                for (revision, events) in batch.revisions {
                    log.append(revision, events);
                }
                replies.push(batch.replies);
            }
            if compacted {
                log.compact(mark.compact_revision);
                self.shared.hub.write().compact(mark.compact_revision);
            }
            self.shared.revision.store(mark.revision, Ordering::Release);
        }
        if let Some(tip) = last {
            self.shared.keep.became_durable(tip);
            self.shared.durable.send_replace(tip.seq);
        }
        // A full bell has been rung already.
        let _ = self.shared.fan_out.try_send(());
        if compacted {
            self.shared.chores.ring();
        }
        for (reply, outcome) in replies.into_iter().flatten() {
            self.answer(reply, outcome);
        }
    }

    /// With the store locked, so that a reader sees a lease, its time and its keys as of one
    /// moment.
    fn show_unversioned(&self, changed: Unversioned) {
        if let Some(auth) = changed.auth {
            self.shared.auth.publish(auth);
        }
        if let Some(alarms) = changed.alarms {
            *self.shared.alarms.write() = alarms;
        }
        if changed.leases.is_empty() {
            return;
        }
        let (mut clock, now) = (self.shared.clock.lock(), self.shared.now());
        for change in changed.leases {
            match change {
                // A lease's time runs from the moment its grant is durable.
                LeaseChange::Granted { id, grant, ttl } => clock.start(id, grant, ttl, ttl, now),
                LeaseChange::Ended { id } => clock.stop(id),
            }
        }
    }

    /// Counts what happened, inside transactions as well.
    fn count(&self, batch: &Batch<Reply>) {
        let metrics = &self.shared.metrics;
        for event in batch.revisions.iter().flat_map(|(_, events)| events.as_slice()) {
            metrics.events.add(1);
            if event.0.kv.is_tombstone() {
                metrics.deletes.add(1);
            } else {
                metrics.puts.add(1);
                metrics.put_bytes.add((event.0.kv.key().len() + event.0.kv.value_len()) as u64);
            }
        }
    }

    fn answer(&self, reply: Reply, outcome: Outcome) {
        let metrics = &self.shared.metrics;
        match &outcome {
            Ok(response) => {
                metrics.proposals_committed.add(1);
                self.count_lease(response);
            }
            Err(NodeError::Store(_)) => metrics.proposals_committed.add(1),
            Err(_) => metrics.proposals_failed.add(1),
        }
        metrics.proposals_pending.add(-1);
        // The client may have gone; the write stands all the same.
        let _ = reply.send(outcome);
    }

    fn count_lease(&self, response: &WriteResponse) {
        match response {
            WriteResponse::LeaseGrant { ttl, .. } => {
                self.shared.metrics.leases_granted.add(1);
                self.shared.metrics.lease_ttl.observe_number(u64::try_from(*ttl).unwrap_or(0));
            }
            WriteResponse::LeaseRevoke { .. } => self.shared.metrics.leases_revoked.add(1),
            _ => {}
        }
    }
}
