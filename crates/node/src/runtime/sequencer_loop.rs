//! The sequencer's thread: packs whatever is queued into one batch and passes it on.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use crossbeam_channel::{Receiver, Sender};
use parking_lot::RwLockWriteGuard;
use vetch_store::Store;
use vetch_store::request::WriteRequest;

use crate::admission::Admission;
use crate::checkpoint::Capture;
use crate::sequencer::{Batch, Round, Sequencer};
use crate::shared::{Ask, Reply, Shared};

/// Payload bytes after which a batch is closed.
const BATCH_BYTES: usize = 4 << 20;
/// Evaluations after which readers waiting for the store get a turn.
const TURN: usize = 64;

pub(crate) struct SequencerLoop {
    pub(crate) shared: Arc<Shared>,
    pub(crate) asks: Receiver<Ask>,
    pub(crate) batches: Sender<Batch<Reply>>,
    pub(crate) sequencer: Sequencer,
    pub(crate) admission: Admission,
}

/// What one round leaves to do once the store is unlocked.
#[derive(Default)]
struct Ready {
    batches: Vec<Batch<Reply>>,
    captures: Vec<(std::sync::mpsc::SyncSender<Capture>, Capture)>,
    stop: bool,
}

impl SequencerLoop {
    pub(crate) fn run(mut self) {
        while let Ok(ask) = self.asks.recv() {
            let ready = self.round(ask);
            // The store is unlocked by now: the journal's thread needs it to make room in this very queue.
            for batch in ready.batches {
                if self.batches.send(batch).is_err() {
                    return;
                }
            }
            for (reply, capture) in ready.captures {
                // Nobody waits any more when housekeeping has ended; the next start replays the journal.
                let _ = reply.send(capture);
            }
            if ready.stop {
                return;
            }
        }
    }

    /// Handles `first` and what has queued behind it.
    fn round(&mut self, first: Ask) -> Ready {
        let shared = Arc::clone(&self.shared);
        let began = Instant::now();
        self.admission.set_disk(shared.disk_full.load(Ordering::Relaxed), shared.room() / 2);
        let mut ready = Ready::default();
        let mut round = self.sequencer.begin();
        let mut writes = 0;
        let mut next = Some(first);
        let mut store = shared.store.write();
        while let Some(ask) = next.take() {
            match ask {
                Ask::Write { request, bytes, reply } => {
                    shared.release_queued(bytes);
                    self.count(&request);
                    self.sequencer.evaluate(&mut round, &mut store, &mut self.admission, &request, reply);
                    writes += 1;
                    if writes % TURN == 0 {
                        RwLockWriteGuard::bump(&mut store);
                    }
                }
                Ask::Capture { reply } => {
                    // A capture stands between two batches, so the open one is closed first.
                    self.close(std::mem::replace(&mut round, self.sequencer.begin()), &store, &mut ready);
                    ready.captures.push((reply, self.capture(&store)));
                }
                Ask::Review => self.review(&mut round, &mut store),
                Ask::Stop => {
                    ready.stop = true;
                    break;
                }
            }
            if writes < shared.config.batch_requests && round.payload_len() < BATCH_BYTES {
                next = self.asks.try_recv().ok();
            }
        }
        self.close(round, &store, &mut ready);
        drop(store);
        shared.metrics.apply.observe(began.elapsed());
        ready
    }

    fn close(&mut self, round: Round<Reply>, store: &Store, ready: &mut Ready) {
        if !round.is_empty() {
            ready.batches.push(self.sequencer.seal(round, store));
        }
        // Still under the store's lock, so whoever reads head there knows which entry to wait for.
        self.shared.submitted.store(self.sequencer.tip().seq, Ordering::Release);
        let fresh = self.sequencer.fresh_bytes();
        self.shared.fresh_bytes.store(fresh, Ordering::Relaxed);
        if fresh >= self.shared.checkpoint_stride.load(Ordering::Relaxed) {
            self.shared.chores.ring();
        }
    }

    fn capture(&mut self, store: &Store) -> Capture {
        let dirty = self.sequencer.take_dirty();
        self.shared.fresh_bytes.store(0, Ordering::Relaxed);
        Capture::at_head(store, self.sequencer.tip(), dirty)
    }

    fn review(&mut self, round: &mut Round<Reply>, store: &mut Store) {
        if let Some(alarm) = self.admission.alarm_to_lower(store) {
            tracing::info!("there is space again; the NOSPACE alarm is lowered");
            let (reply, _) = tokio::sync::oneshot::channel();
            self.shared.metrics.proposals_pending.add(1);
            let request = WriteRequest::AlarmDeactivate(alarm);
            self.sequencer.evaluate(round, store, &mut self.admission, &request, reply);
        }
    }

    fn count(&self, request: &WriteRequest) {
        if matches!(request, WriteRequest::Txn(_)) {
            self.shared.metrics.txns.add(1);
        }
    }
}
