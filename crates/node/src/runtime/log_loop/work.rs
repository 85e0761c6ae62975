//! Work: what the loop has in flight.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use vetch_base::Seq;
use vetch_cluster::{Event, Ticket};
use vetch_journal::Draft;
use vetch_members::PeerTable;
use vetch_store::Record;
use vetch_store::auth::Auth;

use super::maintenance::Maintenance;
use super::reads::ReadsInProgress;
use super::step_down::SteppingDown;
use crate::batch_window::BatchWindow;
use crate::sequencer::Batch;
use crate::state::Reply;

pub(crate) struct Work {
    pub(super) is_leader: bool,
    /// Set while this server takes back what it evaluated as the leader.
    pub(super) stepping_down: Option<SteppingDown>,
    /// Reported and not handled, in order.
    pub(super) events: VecDeque<Event>,
    /// To be proposed, in order.
    pub(super) queue: VecDeque<Batch<Reply>>,
    /// Proposed and not decided, in order.
    in_flight: VecDeque<(Ticket, Vec<Batch<Reply>>)>,
    /// Dropped since the last epoch began, in order.
    dropped: Vec<Batch<Reply>>,
    pub(super) reads: ReadsInProgress,
    /// Requests that wait to share a record.
    pub(super) request_window: BatchWindow,
    pub(super) announced_at: Option<Duration>,
    /// The append of the last announcement.
    pub(super) announcement: Option<Ticket>,
    pub(super) peers: PeerTable,
    pub(super) maintenance: Maintenance,
    /// Counts entries as the sequencer does.
    pub(super) number: Seq,
    /// Records of applied entries that are not in a checkpoint yet, and their bytes.
    pub(super) dirty: Vec<Record>,
    pub(super) fresh_bytes: u64,
    pub(super) auth: Arc<Auth>,
    /// The append of a leadership transfer, and the caller that waits for it.
    pub(super) transfer: Option<(Ticket, oneshot::Sender<()>)>,
    /// Since when the node is stopping.
    pub(super) stopping_since: Option<Duration>,
    /// Why the log halted, and when.
    pub(super) halted: Option<(String, Duration)>,
}

impl Work {
    pub(crate) fn new(number: Seq, auth: Arc<Auth>, peers: PeerTable) -> Work {
        Work {
            is_leader: false,
            stepping_down: None,
            events: VecDeque::new(),
            queue: VecDeque::new(),
            in_flight: VecDeque::new(),
            dropped: Vec::new(),
            reads: ReadsInProgress::default(),
            request_window: BatchWindow::default(),
            announced_at: None,
            announcement: None,
            peers,
            maintenance: Maintenance::default(),
            number,
            dirty: Vec::new(),
            fresh_bytes: 0,
            auth,
            transfer: None,
            stopping_since: None,
            halted: None,
        }
    }

    /// How many requests are to be proposed.
    pub(super) fn queued_requests(&self) -> usize {
        self.queue.iter().map(|batch| batch.replies.len()).sum()
    }

    pub(super) fn records_in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Whether nothing was evaluated that is not committed.
    pub(super) fn is_committed(&self) -> bool {
        self.in_flight.is_empty()
            && self.dropped.is_empty()
            && self.queue.iter().all(|batch| batch.draft.is_none())
    }

    /// Whether nothing is queued or in flight.
    pub(super) fn is_drained(&self) -> bool {
        self.queue.is_empty() && self.in_flight.is_empty()
    }

    /// The next record of about `bytes_max`: how many batches of the queue, and their drafts.
    pub(super) fn next_record(&self, bytes_max: usize) -> (usize, Vec<&Draft>) {
        let (mut taken, mut bytes, mut drafts) = (0, 0, Vec::new());
        let is_plain = |batch: &&Batch<Reply>| batch.capture.is_none() && batch.transfer.is_none();
        for batch in self.queue.iter().take_while(is_plain) {
            if let Some(draft) = &batch.draft {
                bytes += draft.size();
                if taken > 0 && bytes > bytes_max {
                    break;
                }
                drafts.push(draft);
            }
            taken += 1;
        }
        (taken, drafts)
    }

    /// The first `count` batches of the queue were proposed as one record.
    pub(super) fn proposed(&mut self, ticket: Ticket, count: usize) {
        let is_last = self.in_flight.back().is_none_or(|(last, _)| *last < ticket);
        assert!(is_last, "records are proposed in the order of their tickets");
        let batches = self.queue.drain(..count).collect();
        self.in_flight.push_back((ticket, batches));
    }

    /// Takes the batches of the oldest record in flight, if `ticket` is its.
    pub(super) fn take_decided(&mut self, ticket: Ticket) -> Option<Vec<Batch<Reply>>> {
        let is_next = self.in_flight.front().is_some_and(|(next, _)| *next == ticket);
        self.in_flight.pop_front_if(|_| is_next).map(|(_, batches)| batches)
    }

    /// These batches will not be committed in this epoch.
    pub(super) fn set_dropped(&mut self, batches: Vec<Batch<Reply>>) {
        self.dropped.extend(batches);
    }

    /// Puts dropped batches back into the queue, in order. They are still what was evaluated last.
    pub(super) fn requeue_dropped(&mut self) {
        for batch in std::mem::take(&mut self.dropped).into_iter().rev() {
            self.queue.push_front(batch);
        }
        assert!(self.in_flight.is_empty(), "a new epoch decides everything in flight");
    }

    /// Takes every batch that was not committed, in the order in which they were evaluated: what is
    /// dropped was the oldest in flight.
    pub(super) fn take_uncommitted(&mut self) -> Vec<Batch<Reply>> {
        let in_flight = self.in_flight.drain(..).flat_map(|(_, batches)| batches);
        self.dropped.drain(..).chain(in_flight).chain(self.queue.drain(..)).collect()
    }
}
