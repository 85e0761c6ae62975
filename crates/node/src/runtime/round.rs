//! A round of the sequencer: one request and what has queued behind it, decided under one lock of
//! the store and packed into a batch. What needs the state between two batches, such as a
//! checkpoint, closes the one that is open.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::SyncSender;
use std::time::Instant;

use tokio::sync::oneshot;
use vetch_cluster::ReplicaId;
use vetch_store::Store;
use vetch_store::request::WriteRequest;
use vetch_store::turns::Exclusive;

use crate::checkpoint::Capture;
use crate::error::NodeError;
use crate::metrics::Operation;
use crate::sequencer::{HandOver, Round, Wanted};
use crate::shared::{Ask, Reply, Write};
use crate::snapshot::View;
use crate::sync::RwLockWriteGuard;
use crate::tuning::Tuning;

use super::sequencer_loop::SequencerLoop;

/// A round under way.
struct Running<'s> {
    store: Locked<'s>,
    /// What becomes the next batch.
    open: Round<Reply>,
    writes: usize,
    /// When others have their turn with the store.
    turns: Turns,
    /// When the request began that is being evaluated.
    at: Instant,
}

/// The store, locked by the thread that evaluates.
struct Locked<'s> {
    guard: RwLockWriteGuard<'s, Store>,
    /// See [`Tuning::turn_work`].
    work: usize,
}

impl Deref for Locked<'_> {
    type Target = Store;

    fn deref(&self) -> &Store {
        &self.guard
    }
}

impl DerefMut for Locked<'_> {
    fn deref_mut(&mut self) -> &mut Store {
        &mut self.guard
    }
}

impl Exclusive for Locked<'_> {
    fn step(&self) -> usize {
        self.work
    }

    fn give_way(&mut self) {
        RwLockWriteGuard::bump(&mut self.guard);
    }

    fn unlocked<R>(&mut self, work: impl FnOnce() -> R) -> R {
        RwLockWriteGuard::unlocked(&mut self.guard, work)
    }
}

/// When whoever waits for the store is let in. Work counts, not only requests: one may take as long
/// as thousands of others.
struct Turns {
    requests: usize,
    work: u64,
    /// Requests since the last turn, and what the store had worked then.
    since: usize,
    worked: u64,
}

impl Turns {
    fn new(tuning: &Tuning, store: &Store) -> Turns {
        Turns { requests: tuning.turn, work: tuning.turn_work, since: 0, worked: store.worked() }
    }

    /// A request was evaluated. True if it is time.
    fn is_due(&mut self, store: &Store) -> bool {
        self.since += 1;
        let is_due = self.since >= self.requests || store.worked() - self.worked >= self.work;
        if is_due {
            (self.since, self.worked) = (0, store.worked());
        }
        is_due
    }
}

impl SequencerLoop {
    /// Handles `first` and what has queued behind it.
    pub(super) fn round(&mut self, first: Ask) {
        let shared = Arc::clone(&self.shared);
        let began = Instant::now();
        self.admission.set_disk(shared.disk_state(), shared.room() / 2);
        let work = usize::try_from(shared.config.tuning.turn_work).unwrap_or(usize::MAX);
        let (open, store) = (self.sequencer.begin(), Locked { guard: shared.store.write(), work });
        let (turns, worked) = (Turns::new(&shared.config.tuning, &store), store.worked());
        let mut running = Running { store, open, writes: 0, turns, at: Instant::now() };
        let mut next = Some(first);
        while let Some(ask) = next.take() {
            self.handle(ask, &mut running);
            let has_room = running.writes < shared.config.batch_requests
                && running.open.payload_len() < shared.config.tuning.batch_bytes
                && running.store.worked() - worked < shared.config.tuning.batch_work;
            if has_room && !self.ready.stop {
                next = self.asks.try_recv().ok();
            }
        }
        self.close(running.open, &running.store);
        drop(running.store);
        shared.metrics.apply.observe(began.elapsed());
    }

    fn handle(&mut self, ask: Ask, running: &mut Running<'_>) {
        match ask {
            Ask::Write(write) => self.write(write, running),
            Ask::Capture { reply } => {
                self.cut(running);
                self.take_capture(&running.store, reply);
            }
            Ask::View { reply } => {
                self.cut(running);
                // Whoever asked may have gone.
                let _ = reply.send(View::of(&self.shared, &running.store, self.sequencer.tip().seq));
            }
            Ask::HandOver { to, reply } => {
                self.cut(running);
                self.hand_over(&running.store, to, reply);
            }
            Ask::Review => self.review(&mut running.open, &mut running.store),
            Ask::Stop => self.ready.stop = true,
        }
    }

    fn write(&mut self, write: Write, running: &mut Running<'_>) {
        let Write { caller, request, bytes, reply } = write;
        self.shared.release_queued(bytes);
        if self.is_following() {
            // It was queued before another server began to decide.
            self.shared.metrics.proposals_pending.add(-1);
            self.shared.metrics.proposals_failed.add(1);
            let _ = reply.send(Err(NodeError::WriterChanged));
            return;
        }
        if matches!(request, WriteRequest::Txn(_)) {
            self.shared.metrics.txns.add(1);
        }
        let Running { store, open, writes, turns, at } = running;
        let success = match store.permit(&caller, &request) {
            Ok(()) => self.sequencer.evaluate(open, store, &mut self.admission, &request, reply),
            Err(refusal) => {
                open.refuse(reply, refusal.into());
                false
            }
        };
        *at = self.time(&request, success, *at);
        *writes += 1;
        if turns.is_due(store) {
            store.give_way();
            *at = Instant::now();
        }
    }

    /// Closes the open batch: what follows stands between two of them.
    fn cut(&mut self, running: &mut Running<'_>) {
        let open = std::mem::replace(&mut running.open, self.sequencer.begin());
        self.close(open, &running.store);
    }

    fn close(&mut self, round: Round<Reply>, store: &Store) {
        if !round.is_empty() {
            self.ready.batches.push_back(self.sequencer.seal(round, store));
        }
        self.look_at_quota(store);
        if self.is_following() {
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
    fn take_capture(&mut self, store: &Store, reply: SyncSender<Capture>) {
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

    /// Nothing is evaluated from here on, unless this server becomes the writer again. The store is
    /// locked.
    fn hand_over(&mut self, store: &Store, to: ReplicaId, reply: oneshot::Sender<()>) {
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
        if self.is_following() {
            return;
        }
        if let Some(alarm) = self.admission.alarm_to_lower(store) {
            tracing::info!("there is space again; the NOSPACE alarm is lowered");
            let (reply, _) = oneshot::channel();
            self.shared.metrics.proposals_pending.add(1);
            let request = WriteRequest::AlarmDeactivate(alarm);
            self.sequencer.evaluate(round, &mut &mut *store, &mut self.admission, &request, reply);
        }
    }

    /// Notes what a request took that was begun at `began`, and returns the time now, at which the
    /// next one begins.
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

    /// Whether another server of a cluster decides.
    fn is_following(&self) -> bool {
        self.shared.cluster.is_some() && self.shared.is_following()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vetch_store::request::{
        KeyRange, PutRequest, RangeRequest, RequestOp, SortOrder, SortTarget, TxnRequest,
    };

    fn put(key: String) -> PutRequest {
        PutRequest {
            key: key.into(),
            value: "v".into(),
            lease: 0,
            prev_kv: false,
            ignore_value: false,
            ignore_lease: false,
        }
    }

    /// The numbers of the requests behind which others have their turn.
    fn turns_of(store: &mut Store, requests: &[WriteRequest]) -> Vec<usize> {
        let mut turns = Turns::new(&Tuning::default(), store);
        let evaluated = requests.iter().enumerate().filter(|(_, request)| {
            store.evaluate(request, &mut Vec::new()).expect("nothing refuses it");
            turns.is_due(store)
        });
        evaluated.map(|(number, _)| number + 1).collect()
    }

    #[test]
    fn the_store_is_given_away_by_work_as_well_as_by_requests() {
        let mut store = Store::default();
        let puts: Vec<_> = (0..10_000).map(|n| WriteRequest::Put(put(format!("k{n}")))).collect();
        let turns = turns_of(&mut store, &puts);
        assert!(turns.into_iter().eq((1..=10_000 / 64).map(|turn| turn * 64)));
        let everything = RangeRequest::new(KeyRange::new("k", "l"));
        let sorted = RangeRequest {
            sort_order: SortOrder::Ascend,
            limit: 1,
            sort_target: SortTarget::Mod,
            ..everything
        };
        let txn = TxnRequest {
            success: vec![RequestOp::Put(put("z".into())), RequestOp::Range(sorted)],
            ..TxnRequest::default()
        };
        let large = WriteRequest::Txn(txn);
        assert_eq!(turns_of(&mut store, &[large.clone(), puts[0].clone(), large]), [1, 3]);
    }
}
