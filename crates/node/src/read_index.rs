//! Read index: the proof that nothing newer exists than what a server is about to answer a read
//! from.
//!
//! The writer gets one from the log, for all reads that wait at once. Any other server asks the
//! writer for it: one question is under way at a time, and all reads that come meanwhile share the
//! next. Such a read is answered from this server's own state once that has come to the index, and
//! no earlier. Who carries the question to the writer is not known here: it takes a [`Question`]
//! and comes back with an index.
//!
//! The index must have been asked for after the read came. That is so because a question takes only
//! reads that wait already.
//!
//! Mostly nobody has to wait for the journal's thread, which shows where it is (`Standing`): a
//! writer with a lease and nothing under way is certain that its state is the newest, and a server
//! whose state is exactly that of an index has come to it.

use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::TrySendError;
use tokio::sync::{Semaphore, mpsc, oneshot};
use vetch_cluster::{Lease, LogIndex, Waker};
use vetch_seeded_bugs::Bug;

use crate::error::NodeError;
use crate::handle::Node;
use crate::queue::{Receiver, Sender, bounded};
use crate::state::NodeState;
use crate::sync::Mutex;
use crate::time::Time;

/// Between two tries of a read, while it is not decided who writes.
const CHANGE: Duration = Duration::from_millis(5);

/// A read gets no index this way, and nothing is wrong with it: the writer has changed, or the
/// index is too old to be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Again;

/// One read that waits. It is told the index once the state here has come to it.
pub(crate) type Waiting = oneshot::Sender<Result<LogIndex, Again>>;

/// Reads with an index that this server's state has yet to come to.
pub(crate) struct Indexed {
    pub(crate) index: LogIndex,
    pub(crate) reads: Vec<Waiting>,
}

/// Where the journal's thread is. Everything up to there is visible.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Standing {
    /// Of a writer that has nothing under way.
    pub(crate) lease: Option<Lease>,
    pub(crate) held: Option<LogIndex>,
}

/// Where reads wait.
pub(crate) struct Reads {
    /// The clock by which leases end.
    time: Arc<dyn Time>,
    standing: Arc<Mutex<Standing>>,
    /// For the journal's thread, while this server writes.
    here: Sender<Waiting>,
    /// For whoever asks the writer, while another server does.
    elsewhere: mpsc::Sender<Waiting>,
    /// How many of the latter there may be, wherever they wait.
    places: Arc<Semaphore>,
    questions: Mutex<Option<Questions>>,
}

/// The ends at which the journal's thread takes reads.
pub(crate) struct ReadsIn {
    pub(crate) here: Receiver<Waiting>,
    pub(crate) indexed: Receiver<Indexed>,
}

impl ReadsIn {
    /// Has reads that come end a wait of whoever takes them here.
    pub(crate) fn wake(&self, waker: &Waker) {
        self.here.wakes(Arc::clone(waker));
        self.indexed.wakes(Arc::clone(waker));
    }
}

impl Reads {
    /// At most `depth` reads wait here, and as many for the writer elsewhere.
    pub(crate) fn new(depth: usize, time: Arc<dyn Time>) -> (Reads, ReadsIn) {
        let (here, here_in) = bounded(depth);
        let (elsewhere, waiting) = mpsc::channel(depth);
        let (indexed, indexed_in) = bounded(depth);
        let standing = Arc::<Mutex<Standing>>::default();
        let questions = Mutex::new(Some(Questions { waiting, indexed, standing: Arc::clone(&standing) }));
        let places = Arc::new(Semaphore::new(depth));
        let reads = Reads { time, standing, here, elsewhere, places, questions };
        (reads, ReadsIn { here: here_in, indexed: indexed_in })
    }

    /// Says where the journal's thread is, before it goes on from there.
    pub(crate) fn show(&self, standing: Standing) {
        *self.standing.lock() = standing;
    }

    /// An index for a read that asks now, from the lease if there is one, or from the log. Only the
    /// writer gets one.
    async fn at_writer(&self) -> Result<Result<LogIndex, Again>, NodeError> {
        // In this order: what the time is behind was true when it was looked at.
        let lease = self.standing.lock().lease;
        if let Some(Lease { index, until }) = lease
            && self.time.now() < until
        {
            return Ok(Ok(index));
        }
        let (reply, answer) = oneshot::channel();
        match self.here.try_send(reply) {
            Ok(()) => answer.await.map_err(|_| NodeError::Stopped),
            Err(TrySendError::Full(_)) => Err(NodeError::TooManyRequests),
            Err(TrySendError::Disconnected(_)) => Err(NodeError::Stopped),
        }
    }

    /// An index from whoever writes, that the state here has come to.
    async fn at_follower(&self) -> Result<Result<LogIndex, Again>, NodeError> {
        let _place = self.places.try_acquire().map_err(|_| NodeError::TooManyRequests)?;
        let (reply, answer) = oneshot::channel();
        match self.elsewhere.try_send(reply) {
            Ok(()) => answer.await.map_err(|_| NodeError::Stopped),
            Err(mpsc::error::TrySendError::Full(_)) => Err(NodeError::TooManyRequests),
            Err(mpsc::error::TrySendError::Closed(_)) => Err(NodeError::Stopped),
        }
    }
}

impl NodeState {
    /// Returns once it is certain that whatever was acknowledged anywhere before the call is
    /// visible here. At once on a journal of one's own.
    pub(crate) async fn confirm(&self) -> Result<(), NodeError> {
        let Some(cluster) = &self.cluster else { return Ok(()) };
        if vetch_seeded_bugs::on(Bug::ReadUnconfirmed) && !self.is_following() {
            return Ok(());
        }
        let outcome = tokio::time::timeout(self.config.request_timeout, async {
            loop {
                // Who writes may change while a read waits.
                let outcome = match self.is_following() {
                    false => cluster.reads.at_writer().await?,
                    true => cluster.reads.at_follower().await?,
                };
                if outcome.is_ok() {
                    return Ok(());
                }
                tokio::time::sleep(CHANGE).await;
            }
        });
        let outcome = outcome.await.unwrap_or(Err(NodeError::Timeout));
        if outcome.is_err() {
            self.metrics.reads.unconfirmed.add(1);
        }
        outcome
    }
}

impl NodeState {
    /// The same for what only the writer knows, the time that leases have left. Refused if another
    /// server has become it.
    pub(crate) async fn confirm_writing(&self) -> Result<(), NodeError> {
        let Some(cluster) = &self.cluster else { return Ok(()) };
        if self.is_following() {
            return Err(NodeError::LeaderChanged);
        }
        match tokio::time::timeout(self.config.request_timeout, cluster.reads.at_writer()).await {
            Ok(outcome) => outcome?.map(drop).map_err(|Again| NodeError::LeaderChanged),
            Err(_) => Err(NodeError::Timeout),
        }
    }
}

impl Node {
    /// The reads here that wait for an index from another server. Whoever carries questions there
    /// takes this, once.
    pub fn questions(&self) -> Option<Questions> {
        self.state().cluster.as_ref().and_then(|cluster| cluster.reads.questions.lock().take())
    }

    /// An index for reads that wait at another server. Refused by whoever is not, or no longer, the
    /// writer.
    pub async fn read_index(&self) -> Result<LogIndex, NodeError> {
        let node = self.state();
        let Some(cluster) = &node.cluster else { return Err(NodeError::NotLeader) };
        if node.is_following() {
            return Err(NodeError::NotLeader);
        }
        match tokio::time::timeout(node.config.request_timeout, cluster.reads.at_writer()).await {
            Ok(outcome) => outcome?.map_err(|Again| NodeError::NotLeader),
            Err(_) => Err(NodeError::Timeout),
        }
    }
}

/// Reads that wait for an index of the writer's.
pub struct Questions {
    waiting: mpsc::Receiver<Waiting>,
    indexed: Sender<Indexed>,
    standing: Arc<Mutex<Standing>>,
}

/// The reads of one question to the writer, all of which came before it is asked.
pub struct Question {
    reads: Vec<Waiting>,
    indexed: Sender<Indexed>,
    standing: Arc<Mutex<Standing>>,
}

impl Questions {
    /// All reads that wait, once there is one. None when the node is gone.
    pub async fn next(&mut self) -> Option<Question> {
        let reads = vec![self.waiting.recv().await?];
        let (indexed, standing) = (self.indexed.clone(), Arc::clone(&self.standing));
        let mut question = Question { reads, indexed, standing };
        self.join(&mut question);
        Some(question)
    }

    /// Lets those share a question that have come since it was taken. It must not have been asked
    /// yet.
    pub fn join(&mut self, question: &mut Question) {
        while let Ok(read) = self.waiting.try_recv() {
            question.reads.push(read);
        }
    }
}

impl Question {
    /// How many wait for it.
    pub fn reads(&self) -> usize {
        self.reads.len()
    }

    /// Whether anybody still waits.
    pub fn is_wanted(&mut self) -> bool {
        self.reads.retain(|read| !read.is_closed());
        !self.reads.is_empty()
    }

    /// What the writer said to a question that was sent after this one was taken.
    pub fn answer(self, index: LogIndex) {
        let held = self.standing.lock().held;
        if held.is_some_and(|held| held.tip == index.tip) {
            return tell(self.reads, Ok(index));
        }
        // There is room for one index for every read that may wait; if there is not, the node has
        // ended, and tells them so.
        let _ = self.indexed.try_send(Indexed { index, reads: self.reads });
    }

    /// There is nobody elsewhere to be asked: this server has become the writer.
    pub fn ask_here(self) {
        tell(self.reads, Err(Again));
    }
}

fn tell(reads: Vec<Waiting>, outcome: Result<LogIndex, Again>) {
    for read in reads {
        // Whoever asked may have gone.
        let _ = read.send(outcome);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Monotonic;
    use vetch_journal::{Position, Tip};

    fn index(seq: u64) -> LogIndex {
        LogIndex { position: Position(seq), tip: Tip { epoch: 1, seq, hash: [7; 32], next_rev: 2 } }
    }

    #[tokio::test]
    async fn reads_that_come_while_a_question_is_under_way_share_the_next() {
        let (reads, taken) = Reads::new(8, Arc::new(Monotonic::new()));
        let mut questions = reads.questions.lock().take().unwrap();
        let reads = Arc::new(reads);
        let ask = || {
            let reads = Arc::clone(&reads);
            tokio::spawn(async move { reads.at_follower().await })
        };
        let first = ask();
        let under_way = questions.next().await.unwrap();
        let (second, third) = (ask(), ask());
        while reads.places.available_permits() != 5 {
            tokio::task::yield_now().await;
        }
        under_way.answer(index(5));
        let next = questions.next().await.unwrap();
        assert_eq!(next.reads.len(), 2);
        let first_indexed = taken.indexed.try_recv().unwrap();
        assert_eq!(first_indexed.reads.len(), 1, "who came later gets no index that was asked for before");
        for read in first_indexed.reads {
            let _ = read.send(Ok(index(5)));
        }
        assert_eq!(first.await.unwrap(), Ok(Ok(index(5))));
        next.ask_here();
        assert_eq!(second.await.unwrap(), Ok(Err(Again)));
        assert_eq!(third.await.unwrap(), Ok(Err(Again)));
    }

    #[tokio::test]
    async fn one_read_too_many_is_refused_wherever_the_others_wait() {
        let (reads, taken) = Reads::new(2, Arc::new(Monotonic::new()));
        let mut questions = reads.questions.lock().take().unwrap();
        let reads = Arc::new(reads);
        let waiting: Vec<_> = (0..2)
            .map(|_| {
                let reads = Arc::clone(&reads);
                tokio::spawn(async move { reads.at_follower().await })
            })
            .collect();
        while reads.places.available_permits() != 0 {
            tokio::task::yield_now().await;
        }
        // They wait for their state to come to an index by now, not for the question.
        questions.next().await.unwrap().answer(index(9));
        assert_eq!(reads.at_follower().await, Err(NodeError::TooManyRequests));
        drop(taken);
        for read in waiting {
            assert_eq!(read.await.unwrap(), Err(NodeError::Stopped), "the thread that had them has ended");
        }
        assert_eq!(reads.places.available_permits(), 2);
    }
}
