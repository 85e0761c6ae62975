//! A round of the sequencer: one request and what has queued behind it, decided under one lock of
//! the store and packed into a batch. What needs the state between two batches, such as a
//! checkpoint, closes the one that is open.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::Instant;

use tokio::sync::oneshot;
use vetch_checkpoint::Capture;
use vetch_cluster::ReplicaId;
use vetch_journal::Tip;
use vetch_store::Store;
use vetch_store::permit::permit;
use vetch_store::request::WriteRequest;
use vetch_store::turns::Exclusive;
use vetch_sync::RwLockWriteGuard;

use crate::error::NodeError;
use crate::metrics::Operation;
use crate::sequencer::{CaptureRequest, LeadershipTransfer, Round};
use crate::state::{Command, NodeState, Reply, SnapshotPoint, Write};
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

/// The store, locked by the thread that changes head.
pub(super) struct Locked<'s> {
    guard: RwLockWriteGuard<'s, Store>,
    /// What may be examined in one turn, see [`BatchTuning::turn_work`], and what was in this one.
    work: usize,
    worked: usize,
}

impl Locked<'_> {
    fn give_way(&mut self) {
        RwLockWriteGuard::bump(&mut self.guard);
        self.worked = 0;
    }
}

impl<'s> Locked<'s> {
    pub(super) fn of(node: &'s NodeState) -> Locked<'s> {
        let work = usize::try_from(node.config.tuning.batch.turn_work).unwrap_or(usize::MAX);
        Locked { guard: node.store.write(), work, worked: 0 }
    }
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
        self.work.saturating_sub(self.worked).max(1)
    }

    fn did(&mut self, keys: usize) {
        self.worked += keys;
        if self.worked >= self.work {
            self.give_way();
        }
    }

    fn unlocked<R>(&mut self, work: impl FnOnce() -> R) -> R {
        self.worked = 0;
        RwLockWriteGuard::unlocked(&mut self.guard, work)
    }
}

/// When other threads get a turn with the store. Work counts, not only requests: one may take as
/// long as thousands of others.
struct Turns {
    requests: usize,
    work: u64,
    /// Requests since the last turn, and what the store had worked then.
    since: usize,
    worked: u64,
}

impl Turns {
    fn new(tuning: &Tuning, store: &Store) -> Turns {
        Turns {
            requests: tuning.batch.turn_requests,
            work: tuning.batch.turn_work,
            since: 0,
            worked: store.worked(),
        }
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
    pub(super) fn round(&mut self, first: Command) {
        let node = Arc::clone(&self.node);
        let began = Instant::now();
        self.admission.set_disk(node.disk.state(), node.disk.room() / 2);
        let (open, store) = (self.sequencer.begin(), Locked::of(&node));
        let (turns, worked) = (Turns::new(&node.config.tuning, &store), store.worked());
        let mut running = Running { store, open, writes: 0, turns, at: Instant::now() };
        let mut next = Some(first);
        while let Some(command) = next.take() {
            self.handle(command, &mut running);
            let has_room = running.writes < node.config.batch_requests
                && running.open.payload_len() < node.config.tuning.batch.bytes
                && running.store.worked() - worked < node.config.tuning.batch.work;
            if has_room && !self.output.stop {
                next = self.commands.try_recv().ok();
            }
        }
        self.close(running.open, &running.store);
        drop(running.store);
        node.metrics.evaluation.batch.observe(began.elapsed());
    }

    fn handle(&mut self, command: Command, running: &mut Running<'_>) {
        match command {
            Command::Write(write) => self.write(write, running),
            Command::Capture { reply } => {
                self.cut(running);
                self.send_capture(&running.store, reply);
            }
            Command::Snapshot { reply } => {
                self.cut(running);
                // The caller may have gone.
                let _ = reply.send(SnapshotPoint::new(&self.node, &running.store, self.sequencer.number()));
            }
            Command::TransferLeadership { to, reply } => {
                self.cut(running);
                self.transfer_leadership(&running.store, to, reply);
            }
            Command::EndLead => {
                self.cut(running);
                self.end_lead(&running.store);
            }
            Command::ReviewAlarms => self.review(&mut running.open, &mut running.store),
            Command::Stop => self.output.stop = true,
        }
    }

    fn write(&mut self, write: Write, running: &mut Running<'_>) {
        let Write { caller, request, bytes, reply } = write;
        self.node.commands.release(bytes);
        if self.is_following() {
            // It was queued before another server became the leader.
            self.node.metrics.proposals.pending.add(-1);
            self.node.metrics.proposals.failed.add(1);
            let _ = reply.send(Err(NodeError::LeaderChanged));
            return;
        }
        if matches!(request, WriteRequest::Txn(_)) {
            self.node.metrics.writes.txns.add(1);
        }
        let Running { store, open, writes, turns, at } = running;
        let success = match permit(store, &caller, &request) {
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
            self.output.batches.push_back(self.sequencer.close(round, store));
        }
        self.check_quota(store);
        if self.is_following() {
            // The journal's thread counts them now.
            return;
        }
        self.node.disk.set_fresh_bytes(self.sequencer.fresh_bytes());
        if self.node.disk.is_stride_done() {
            self.node.housekeeping.ring();
        }
    }

    /// Warns while there is still time to do something.
    fn check_quota(&mut self, store: &Store) {
        if let Some(near) = self.admission.warning(store) {
            tracing::warn!(
                bytes = near.bytes,
                quota_bytes = near.quota,
                "the quota is nearly reached; compact, delete what is not needed, or raise --quota-backend-bytes"
            );
        }
        self.node.metrics.evaluation.near_quota.set(self.admission.is_near_quota().into());
    }

    /// Only the journal's thread knows where the state of the last batch lies.
    fn send_capture(&mut self, store: &Store, reply: SyncSender<Capture>) {
        let capture = (!self.is_following()).then(|| self.capture(store));
        let mut batch = self.sequencer.close(self.sequencer.begin(), store);
        batch.capture = Some(CaptureRequest { reply, capture });
        self.output.batches.push_back(batch);
    }

    /// Nothing is evaluated from here on, unless this server becomes the leader again. The store is
    /// locked.
    fn transfer_leadership(&mut self, store: &Store, to: ReplicaId, reply: oneshot::Sender<()>) {
        self.node.leadership.follow();
        let leadership_count = self.node.leadership.count();
        let (fresh_bytes, dirty) = (self.sequencer.fresh_bytes(), self.sequencer.take_dirty());
        let mut batch = self.sequencer.close(self.sequencer.begin(), store);
        batch.transfer = Some(LeadershipTransfer { to, leadership_count, reply, dirty, fresh_bytes });
        self.output.batches.push_back(batch);
    }

    /// The journal's thread takes back what it cannot commit, once this batch has reached it.
    fn end_lead(&mut self, store: &Store) {
        self.admission.end_lead();
        let mut batch = self.sequencer.close(self.sequencer.begin(), store);
        batch.end_of_lead = Some(self.sequencer.end_lead());
        self.output.batches.push_back(batch);
    }

    /// The state at head. Its tip is set by the thread that knows it.
    fn capture(&mut self, store: &Store) -> Capture {
        let dirty = self.sequencer.take_dirty();
        self.node.disk.set_fresh_bytes(0);
        Capture::at_head(store, Tip::genesis(store.head().revision + 1), dirty)
    }

    fn review(&mut self, round: &mut Round<Reply>, store: &mut Store) {
        if self.is_following() {
            return;
        }
        if let Some(alarm) = self.admission.alarm_to_lower(store) {
            tracing::info!("there is space again; the NOSPACE alarm is lowered");
            let (reply, _) = oneshot::channel();
            self.node.metrics.proposals.pending.add(1);
            let request = WriteRequest::AlarmDeactivate(alarm);
            self.sequencer.evaluate(round, &mut &mut *store, &mut self.admission, &request, reply);
        }
    }

    /// Records how long a request took that began at `began`, and returns the present time, at
    /// which the next one begins.
    fn time(&self, request: &WriteRequest, success: bool, began: Instant) -> Instant {
        let now = Instant::now();
        let took = now - began;
        let operation = Operation::of(request);
        self.node.metrics.evaluation.requests.observe(operation, success, took);
        if self.node.is_slow(took) {
            tracing::warn!(op = operation.name(), took = ?took, "apply request took too long");
        }
        now
    }

    /// Whether another server of the cluster leads.
    fn is_following(&self) -> bool {
        self.node.cluster.is_some() && self.node.is_following()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vetch_store::request::{
        KeyRange, PutRequest, RangeRequest, RequestOp, SortOrder, SortTarget, TxnRequest,
    };
    use vetch_testkit::valid::Valid;

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
        let puts: Vec<_> = (0..10_000).map(|n| WriteRequest::Put(put(format!("k{n}")).valid())).collect();
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
        let large = WriteRequest::Txn(txn.valid());
        assert_eq!(turns_of(&mut store, &[large.clone(), puts[0].clone(), large]), [1, 3]);
    }
}
