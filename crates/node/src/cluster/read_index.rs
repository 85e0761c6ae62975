//! Read index: the proof that nothing newer exists than what a server is about to answer a read
//! from.
//!
//! The leader gets one from the log, for all reads that wait at once. A follower requests one from
//! the leader: one request is in flight at a time, and all reads that come meanwhile share the
//! next. Such a read is answered from the follower's own state once that has reached the index, and
//! no earlier. The transport of the request is elsewhere: it takes a [`ReadIndexBatch`] and returns
//! with an index.
//!
//! The index must have been requested after the read came. That is so because a batch takes only
//! reads that wait already.
//!
//! Usually no read waits for the journal thread, which publishes its state (`ReadLease`): a leader
//! with a lease and nothing in flight is certain that its state is the newest, and a server whose
//! state is exactly that of an index has reached it.

use std::sync::Arc;

use crossbeam_channel::TrySendError;
use tokio::sync::{Semaphore, mpsc, oneshot};
use vetch_cluster::{Lease, LogIndex, Waker};
use vetch_sync::Mutex;
use vetch_sync::queue::{Receiver, Sender, bounded};

use crate::error::NodeError;
use crate::time::Time;

/// A read has to be repeated: the leader has changed, or the index is too old to be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Retry;

/// One read that waits. It gets the index once the state here has reached it.
pub(crate) type PendingRead = oneshot::Sender<Result<LogIndex, Retry>>;

/// Reads with an index that this server's state has not reached yet.
pub(crate) struct ReadAtIndex {
    pub(crate) index: LogIndex,
    pub(crate) reads: Vec<PendingRead>,
}

/// The state of the journal thread. Everything up to `applied` is visible.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ReadLease {
    /// Of a leader that has nothing in flight.
    pub(crate) lease: Option<Lease>,
    pub(crate) applied: Option<LogIndex>,
}

/// Where reads wait.
pub(crate) struct ReadQueue {
    /// The clock by which leases end.
    time: Arc<dyn Time>,
    lease: Arc<Mutex<ReadLease>>,
    /// To the journal thread, while this server leads.
    local: Sender<PendingRead>,
    /// To the transport, while another server leads.
    remote: mpsc::Sender<PendingRead>,
    /// Limits the latter, wherever they wait.
    permits: Arc<Semaphore>,
    batches: Mutex<Option<ReadIndexBatches>>,
}

/// The receivers from which the journal thread takes reads.
pub(crate) struct PendingReads {
    pub(crate) local: Receiver<PendingRead>,
    pub(crate) indexed: Receiver<ReadAtIndex>,
}

impl PendingReads {
    /// Makes a new read interrupt the wait of the journal thread.
    pub(crate) fn wake_with(&self, waker: &Waker) {
        self.local.wakes(Arc::clone(waker));
        self.indexed.wakes(Arc::clone(waker));
    }
}

impl ReadQueue {
    /// At most `depth` reads wait here, and as many for the leader elsewhere.
    pub(crate) fn new(depth: usize, time: Arc<dyn Time>) -> (ReadQueue, PendingReads) {
        let (local, local_in) = bounded(depth);
        let (remote, waiting) = mpsc::channel(depth);
        let (indexed, indexed_in) = bounded(depth);
        let lease = Arc::<Mutex<ReadLease>>::default();
        let batches = Mutex::new(Some(ReadIndexBatches { waiting, indexed, lease: Arc::clone(&lease) }));
        let permits = Arc::new(Semaphore::new(depth));
        let reads = ReadQueue { time, lease, local, remote, permits, batches };
        (reads, PendingReads { local: local_in, indexed: indexed_in })
    }

    /// Publishes the state of the journal thread, before it goes on from there.
    pub(crate) fn publish(&self, lease: ReadLease) {
        *self.lease.lock() = lease;
    }

    /// The reads that wait for the leader elsewhere. The transport takes this, once.
    pub(crate) fn take_batches(&self) -> Option<ReadIndexBatches> {
        self.batches.lock().take()
    }

    /// An index for a read that begins now, from the lease if there is one, or from the log. Only
    /// the leader gets one.
    pub(crate) async fn at_leader(&self) -> Result<Result<LogIndex, Retry>, NodeError> {
        // Read the lease before the clock.
        let lease = self.lease.lock().lease;
        if let Some(Lease { index, until }) = lease
            && self.time.now() < until
        {
            return Ok(Ok(index));
        }
        let (reply, answer) = oneshot::channel();
        match self.local.try_send(reply) {
            Ok(()) => answer.await.map_err(|_| NodeError::Stopped),
            Err(TrySendError::Full(_)) => Err(NodeError::TooManyRequests),
            Err(TrySendError::Disconnected(_)) => Err(NodeError::Stopped),
        }
    }

    /// An index from the leader, that the state here has reached.
    pub(crate) async fn at_follower(&self) -> Result<Result<LogIndex, Retry>, NodeError> {
        let _permit = self.permits.try_acquire().map_err(|_| NodeError::TooManyRequests)?;
        let (reply, answer) = oneshot::channel();
        match self.remote.try_send(reply) {
            Ok(()) => answer.await.map_err(|_| NodeError::Stopped),
            Err(mpsc::error::TrySendError::Full(_)) => Err(NodeError::TooManyRequests),
            Err(mpsc::error::TrySendError::Closed(_)) => Err(NodeError::Stopped),
        }
    }
}

/// Reads that wait for an index from the leader.
pub struct ReadIndexBatches {
    waiting: mpsc::Receiver<PendingRead>,
    indexed: Sender<ReadAtIndex>,
    lease: Arc<Mutex<ReadLease>>,
}

/// The reads of one request to the leader, all of which came before it is sent.
pub struct ReadIndexBatch {
    reads: Vec<PendingRead>,
    indexed: Sender<ReadAtIndex>,
    lease: Arc<Mutex<ReadLease>>,
}

impl ReadIndexBatches {
    /// All reads that wait, once there is one. `None` when the node has ended.
    pub async fn next(&mut self) -> Option<ReadIndexBatch> {
        let reads = vec![self.waiting.recv().await?];
        let (indexed, lease) = (self.indexed.clone(), Arc::clone(&self.lease));
        let mut batch = ReadIndexBatch { reads, indexed, lease };
        self.join(&mut batch);
        Some(batch)
    }

    /// Adds reads that have come since the batch was taken. It must not have been sent yet.
    pub fn join(&mut self, batch: &mut ReadIndexBatch) {
        while let Ok(read) = self.waiting.try_recv() {
            batch.reads.push(read);
        }
    }
}

impl ReadIndexBatch {
    /// How many reads it has.
    pub fn reads(&self) -> usize {
        self.reads.len()
    }

    /// Whether any read still waits.
    pub fn has_reads(&mut self) -> bool {
        self.reads.retain(|read| !read.is_closed());
        !self.reads.is_empty()
    }

    /// The leader's index, requested after this batch was taken.
    pub fn answer(self, index: LogIndex) {
        let applied = self.lease.lock().applied;
        if applied.is_some_and(|applied| applied.tip == index.tip) {
            return reply_all(self.reads, Ok(index));
        }
        // The queue has room for one index for every read that may wait. If it has none, the node
        // has ended, and dropping the reads reports that.
        let _ = self.indexed.try_send(ReadAtIndex { index, reads: self.reads });
    }

    /// This server has become the leader: the reads get their index here.
    pub fn retry_locally(self) {
        reply_all(self.reads, Err(Retry));
    }
}

fn reply_all(reads: Vec<PendingRead>, outcome: Result<LogIndex, Retry>) {
    for read in reads {
        // The caller may have gone.
        let _ = read.send(outcome);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Monotonic;
    use vetch_base::{Epoch, Seq};
    use vetch_journal::{Position, Tip};

    fn index(seq: u64) -> LogIndex {
        LogIndex {
            position: Position(seq),
            tip: Tip { epoch: Epoch::new(1), seq: Seq::new(seq), hash: [7; 32], next_rev: 2 },
        }
    }

    #[tokio::test]
    async fn reads_that_come_while_a_request_is_in_flight_share_the_next() {
        let (reads, taken) = ReadQueue::new(8, Arc::new(Monotonic::new()));
        let mut batches = reads.take_batches().unwrap();
        let reads = Arc::new(reads);
        let ask = || {
            let reads = Arc::clone(&reads);
            tokio::spawn(async move { reads.at_follower().await })
        };
        let first = ask();
        let under_way = batches.next().await.unwrap();
        let (second, third) = (ask(), ask());
        while reads.permits.available_permits() != 5 {
            tokio::task::yield_now().await;
        }
        under_way.answer(index(5));
        let next = batches.next().await.unwrap();
        assert_eq!(next.reads.len(), 2);
        let first_indexed = taken.indexed.try_recv().unwrap();
        assert_eq!(first_indexed.reads.len(), 1, "a later read gets no index that was requested before");
        for read in first_indexed.reads {
            let _ = read.send(Ok(index(5)));
        }
        assert_eq!(first.await.unwrap(), Ok(Ok(index(5))));
        next.retry_locally();
        assert_eq!(second.await.unwrap(), Ok(Err(Retry)));
        assert_eq!(third.await.unwrap(), Ok(Err(Retry)));
    }

    #[tokio::test]
    async fn one_read_too_many_is_refused_wherever_the_others_wait() {
        let (reads, taken) = ReadQueue::new(2, Arc::new(Monotonic::new()));
        let mut batches = reads.take_batches().unwrap();
        let reads = Arc::new(reads);
        let waiting: Vec<_> = (0..2)
            .map(|_| {
                let reads = Arc::clone(&reads);
                tokio::spawn(async move { reads.at_follower().await })
            })
            .collect();
        while reads.permits.available_permits() != 0 {
            tokio::task::yield_now().await;
        }
        // They wait for their state to reach an index now, not for the request.
        batches.next().await.unwrap().answer(index(9));
        assert_eq!(reads.at_follower().await, Err(NodeError::TooManyRequests));
        drop(taken);
        for read in waiting {
            assert_eq!(read.await.unwrap(), Err(NodeError::Stopped), "the thread that had them has ended");
        }
        assert_eq!(reads.permits.available_permits(), 2);
    }
}
