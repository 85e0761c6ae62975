//! The sequencer's thread: packs whatever is queued into one batch and passes it on.
//!
//! Few writers share a sync as well. A sync costs the processor more than a request does, and the first who asks after one
//! would have the next all to itself. So it waits for most of those who were there at the last one, and no longer than a few
//! syncs take. Whoever is alone waits for nobody.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crossbeam_channel::{TryRecvError, TrySendError};
use parking_lot::RwLockWriteGuard;
use vetch_fence::Author;
use vetch_store::Store;
use vetch_store::request::WriteRequest;

use crate::admission::Admission;
use crate::checkpoint::Capture;
use crate::error::NodeError;
use crate::metrics::Operation;
use crate::queue::{Receiver, Sender};
use crate::runtime::Step;
use crate::runtime::journal_loop::ShortWay;
use crate::sequencer::{Batch, HandOver, Round, Sequencer, Wanted};
use crate::shared::{Ask, Reply, Shared};
use crate::snapshot::View;

/// Evaluations after which readers waiting for the store get a turn.
const TURN: usize = 64;

/// Short batches in a row after which there are likely to be more of them.
const CALM: usize = 8;

/// A batch with more than this is not short, however few requests it has: what it takes to write it is worth a thread.
const SHORT_BYTES: usize = 256 << 10;

/// One of so many writers is not waited for.
const LATE: usize = 8;
/// How long writers are waited for, in syncs, and at most.
const MOMENT_SYNCS: u32 = 3;
const MOMENT: Duration = Duration::from_micros(500);

/// The part that decides.
pub struct SequencerLoop {
    pub(crate) shared: Arc<Shared>,
    pub(crate) asks: Receiver<Ask>,
    pub(crate) batches: Sender<Batch<Reply>>,
    /// To a journal of one's own.
    pub(crate) short_way: ShortWay,
    /// Rounds in a row that were short.
    pub(crate) calm: usize,
    /// Behind a sync on this thread.
    pub(crate) linger: Option<Linger>,
    pub(crate) sequencer: Sequencer,
    pub(crate) admission: Admission,
    /// What the rounds so far have left to hand on.
    pub(crate) ready: Ready,
}

/// Whether the journal's thread is waited for.
enum Room {
    Awaited,
    Now,
}

/// Whom to wait for.
pub(crate) struct Linger {
    /// Those whom the last sync answered, and those who had come by then.
    writers: usize,
    until: Instant,
}

/// What a round leaves to do once the store is unlocked.
#[derive(Default)]
pub(crate) struct Ready {
    batches: VecDeque<Batch<Reply>>,
    captures: Vec<(std::sync::mpsc::SyncSender<Capture>, Capture)>,
    stop: bool,
}

impl SequencerLoop {
    pub(crate) fn run(mut self) {
        loop {
            // The store is unlocked by now: the journal's thread needs it to make room in this very queue.
            if matches!(self.pass_on(Room::Awaited), Step::Ended) {
                return;
            }
            self.asks.wait(None);
            if let Some(Linger { writers, until }) = self.linger.take() {
                self.asks.linger(writers - writers / LATE, until);
            }
            let Ok(ask) = self.asks.recv() else { return };
            self.round(ask);
        }
    }

    /// One round, if there is something queued and the journal takes what the last one made.
    pub fn step(&mut self) -> Step {
        match self.pass_on(Room::Now) {
            Step::Worked => {}
            other => return other,
        }
        match self.asks.try_recv() {
            Ok(ask) => {
                self.round(ask);
                Step::Worked
            }
            Err(TryRecvError::Empty) => Step::Idle,
            Err(TryRecvError::Disconnected) => Step::Ended,
        }
    }

    /// Hands on what the rounds so far have left. Idle if there is no room for it.
    fn pass_on(&mut self, room: Room) -> Step {
        while !self.ready.batches.is_empty() {
            match self.append_short() {
                Some(Step::Ended) => return Step::Ended,
                Some(_) => continue,
                None => {}
            }
            let Some(batch) = self.ready.batches.pop_front() else { break };
            let sent = match room {
                Room::Awaited => self.batches.send(batch).map_err(TrySendError::from),
                Room::Now => self.batches.try_send(batch),
            };
            match sent {
                Ok(()) => {}
                Err(TrySendError::Full(batch)) => {
                    self.ready.batches.push_front(batch);
                    return Step::Idle;
                }
                Err(TrySendError::Disconnected(_)) => return Step::Ended,
            }
        }
        self.hand_out_captures();
        if self.ready.stop { Step::Ended } else { Step::Worked }
    }

    /// Appends the next batch here if it is short, as those before it were; None if it is for the journal's thread. Where
    /// many write, the next ones are decided while a batch is synced, and another thread has to do that.
    fn append_short(&mut self) -> Option<Step> {
        let (short, batch) = (self.shared.config.tuning.short_batch, self.ready.batches.front()?);
        let answered = batch.replies.len();
        let bytes = batch.entry.as_ref().map_or(0, |entry| entry.bytes().len());
        let is_short = answered <= short && bytes <= SHORT_BYTES;
        self.calm = if is_short { (self.calm + 1).min(CALM) } else { 0 };
        if self.calm < CALM {
            return None;
        }
        let began = Instant::now();
        let step = self.short_way.append(&mut self.ready.batches)?;
        let now = Instant::now();
        let waiting = self.asks.len();
        if waiting < short {
            let moment = MOMENT.min((now - began) * MOMENT_SYNCS);
            self.linger = Some(Linger { writers: answered + waiting, until: now + moment });
        }
        Some(step)
    }

    fn hand_out_captures(&mut self) {
        for (reply, capture) in self.ready.captures.drain(..) {
            // Nobody waits any more when housekeeping has ended; the next start replays the journal.
            let _ = reply.send(capture);
        }
    }

    /// Handles `first` and what has queued behind it.
    fn round(&mut self, first: Ask) {
        let shared = Arc::clone(&self.shared);
        let began = Instant::now();
        self.admission.set_disk(shared.disk_full.load(Ordering::Relaxed), shared.room() / 2);
        let mut round = self.sequencer.begin();
        let mut writes = 0;
        let mut next = Some(first);
        let mut store = shared.store.write();
        let mut at = Instant::now();
        while let Some(ask) = next.take() {
            match ask {
                Ask::Write { caller, request, bytes, reply } => {
                    shared.release_queued(bytes);
                    if shared.cluster.is_some() && shared.is_following() {
                        // It was queued before another server began to decide.
                        shared.metrics.proposals_pending.add(-1);
                        shared.metrics.proposals_failed.add(1);
                        let _ = reply.send(Err(NodeError::WriterChanged));
                        next = self.asks.try_recv().ok();
                        continue;
                    }
                    self.count(&request);
                    let success = match store.permit(&caller, &request) {
                        Ok(()) => {
                            let admission = &mut self.admission;
                            self.sequencer.evaluate(&mut round, &mut store, admission, &request, reply)
                        }
                        Err(refusal) => {
                            round.refuse(reply, refusal.into());
                            false
                        }
                    };
                    at = self.time(&request, success, at);
                    writes += 1;
                    if writes % TURN == 0 {
                        RwLockWriteGuard::bump(&mut store);
                        at = Instant::now();
                    }
                }
                Ask::Capture { reply } => {
                    // A capture stands between two batches, so the open one is closed first.
                    let open = std::mem::replace(&mut round, self.sequencer.begin());
                    self.close(open, &store);
                    self.take_capture(&store, reply);
                }
                Ask::View { reply } => {
                    // As with a capture, but nobody waits for it to be written.
                    let open = std::mem::replace(&mut round, self.sequencer.begin());
                    self.close(open, &store);
                    let view = View::of(&shared, &store, self.sequencer.tip().seq);
                    let _ = reply.send(view);
                }
                Ask::HandOver { to, reply } => {
                    let open = std::mem::replace(&mut round, self.sequencer.begin());
                    self.close(open, &store);
                    self.hand_over(&store, to, reply);
                }
                Ask::Review => self.review(&mut round, &mut store),
                Ask::Stop => {
                    self.ready.stop = true;
                    break;
                }
            }
            if writes < shared.config.batch_requests && round.payload_len() < shared.config.tuning.batch_bytes
            {
                next = self.asks.try_recv().ok();
            }
        }
        self.close(round, &store);
        drop(store);
        shared.metrics.apply.observe(began.elapsed());
    }

    fn close(&mut self, round: Round<Reply>, store: &Store) {
        if !round.is_empty() {
            self.ready.batches.push_back(self.sequencer.seal(round, store));
        }
        self.look_at_quota(store);
        // Still under the store's lock, so whoever reads head there knows which entry to wait for.
        self.shared.submitted.store(self.sequencer.tip().seq, Ordering::Release);
        if self.shared.cluster.is_some() && self.shared.is_following() {
            // The journal's thread counts them now.
            return;
        }
        self.shared.fresh_bytes.store(self.sequencer.fresh_bytes(), Ordering::Relaxed);
        if self.shared.is_stride_done() {
            self.shared.chores.ring();
        }
    }

    /// Warns while there is still time to do something.
    fn look_at_quota(&mut self, store: &Store) {
        if let Some(near) = self.admission.warning(store) {
            tracing::warn!(
                bytes = near.bytes,
                quota_bytes = near.quota,
                "the quota is nearly reached; compact, delete what is not needed, or raise --quota-backend-bytes"
            );
        }
        self.shared.metrics.near_quota.set(self.admission.is_near_quota().into());
    }

    /// On a shared journal only the journal's thread knows where the state of the last batch lies.
    fn take_capture(&mut self, store: &Store, reply: std::sync::mpsc::SyncSender<Capture>) {
        if self.shared.cluster.is_none() {
            let capture = self.capture(store);
            self.ready.captures.push((reply, capture));
            return;
        }
        let capture = (!self.shared.is_following()).then(|| self.capture(store));
        let mut batch = self.sequencer.seal(self.sequencer.begin(), store);
        batch.capture = Some(Wanted { reply, capture });
        self.ready.batches.push_back(batch);
    }

    /// Nothing is evaluated from here on, unless this server becomes the writer again. The store is locked.
    fn hand_over(&mut self, store: &Store, to: Author, reply: tokio::sync::oneshot::Sender<()>) {
        self.shared.following.store(true, Ordering::Release);
        let reign = self.shared.reign.load(Ordering::Acquire);
        let (fresh_bytes, dirty) = (self.sequencer.fresh_bytes(), self.sequencer.take_dirty());
        let mut batch = self.sequencer.seal(self.sequencer.begin(), store);
        batch.hand_over = Some(HandOver { to, reign, reply, dirty, fresh_bytes });
        self.ready.batches.push_back(batch);
    }

    fn capture(&mut self, store: &Store) -> Capture {
        let dirty = self.sequencer.take_dirty();
        self.shared.fresh_bytes.store(0, Ordering::Relaxed);
        Capture::at_head(store, self.sequencer.tip(), dirty)
    }

    fn review(&mut self, round: &mut Round<Reply>, store: &mut Store) {
        if self.shared.cluster.is_some() && self.shared.is_following() {
            return;
        }
        if let Some(alarm) = self.admission.alarm_to_lower(store) {
            tracing::info!("there is space again; the NOSPACE alarm is lowered");
            let (reply, _) = tokio::sync::oneshot::channel();
            self.shared.metrics.proposals_pending.add(1);
            let request = WriteRequest::AlarmDeactivate(alarm);
            self.sequencer.evaluate(round, store, &mut self.admission, &request, reply);
        }
    }

    /// Notes what a request took that was begun at `began`, and returns the time now, at which the next one begins.
    fn time(&self, request: &WriteRequest, success: bool, began: Instant) -> Instant {
        let now = Instant::now();
        let took = now - began;
        let operation = Operation::of(request);
        self.shared.metrics.applied.observe(operation, success, took);
        if self.shared.is_slow(took) {
            tracing::warn!(op = operation.name(), took = ?took, "apply request took too long");
        }
        now
    }

    fn count(&self, request: &WriteRequest) {
        if matches!(request, WriteRequest::Txn(_)) {
            self.shared.metrics.txns.add(1);
        }
    }
}
