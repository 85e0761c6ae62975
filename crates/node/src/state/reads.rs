//! Turns of reads that take long: few of them run at once, whatever many clients ask for.

use std::sync::Arc;

use tokio::sync::{Semaphore, SemaphorePermit};
use vetch_store::range::RangeRun;
use vetch_store::request::RangeResponse;

use crate::error::NodeError;

/// Keys that a read may examine before it is long.
const SHORT_READ_KEYS: usize = 4096;
/// Long reads that run at once, for each processor.
const LONG_READS_PER_PROCESSOR: usize = 2;

pub(crate) struct Reads {
    /// Each holds pointers to all that it has found, and the threads that serve clients take turns
    /// with all that run.
    long: Semaphore,
    /// Answers being sorted, filtered and cut, away from those threads.
    finishing: Arc<Semaphore>,
}

impl Reads {
    pub(crate) fn new() -> Reads {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Reads {
            long: Semaphore::new(LONG_READS_PER_PROCESSOR * processors),
            finishing: Arc::new(Semaphore::new((processors / 2).max(1))),
        }
    }

    /// A read begins.
    pub(crate) fn begin(&self) -> ReadTurn<'_> {
        ReadTurn { reads: self, examined: 0, permit: None }
    }

    /// Finishes a range; a long one on a thread of its own, when there is one of them for it.
    pub(crate) async fn finish(&self, run: RangeRun, count: i64) -> Result<RangeResponse, NodeError> {
        if !run.is_long_to_finish() {
            return Ok(run.finish(count));
        }
        let permit = Arc::clone(&self.finishing).acquire_owned().await.map_err(|_| NodeError::Stopped)?;
        // It goes on if the client goes, so it keeps its permit.
        let finishing = tokio::task::spawn_blocking(move || {
            let response = run.finish(count);
            drop(permit);
            response
        });
        finishing.await.map_err(|_| NodeError::Stopped)
    }
}

/// The turn of one read, with all of its ranges.
pub(crate) struct ReadTurn<'r> {
    reads: &'r Reads,
    examined: usize,
    permit: Option<SemaphorePermit<'r>>,
}

impl ReadTurn<'_> {
    /// So many more keys were examined.
    pub(crate) fn note(&mut self, keys: usize) {
        self.examined += keys;
    }

    /// Waits for its turn if it is long. It has it to its end.
    pub(crate) async fn wait(&mut self) -> Result<(), NodeError> {
        if self.examined > SHORT_READ_KEYS && self.permit.is_none() {
            self.permit = Some(self.reads.long.acquire().await.map_err(|_| NodeError::Stopped)?);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use vetch_store::Store;
    use vetch_store::request::{KeyRange, PutRequest, RangeRequest, SortOrder, WriteRequest};
    use vetch_testkit::valid::Valid;

    use super::*;

    fn store_of(keys: usize) -> Store {
        let mut store = Store::default();
        for n in 0..keys {
            let put = PutRequest {
                key: format!("k{n:05}").into(),
                value: "v".into(),
                lease: 0,
                prev_kv: false,
                ignore_value: false,
                ignore_lease: false,
            };
            store.evaluate(&WriteRequest::Put(put.valid()), &mut Vec::new()).expect("never refused");
        }
        store.publish(store.head());
        store
    }

    /// A range that has been fetched and is to be sorted.
    fn fetched(store: &Store, end: &'static str) -> RangeRun {
        let request = RangeRequest::new(KeyRange::new("k", end));
        let request = RangeRequest { limit: 1, sort_order: SortOrder::Descend, ..request };
        let mut run = RangeRun::new(request.valid(), store.visible()).expect("it is the newest");
        while !run.step(store, 1000, usize::MAX).expect("nothing is freed") {}
        run
    }

    #[tokio::test]
    async fn long_answers_are_finished_elsewhere() {
        let (reads, store) = (Reads::new(), store_of(5000));
        let threads = u32::try_from(reads.finishing.available_permits()).expect("few processors");
        let all = Arc::clone(&reads.finishing).acquire_many_owned(threads).await;
        let mut context = Context::from_waker(Waker::noop());
        let mut short = pin!(reads.finish(fetched(&store, "k00100"), 100));
        assert!(short.as_mut().poll(&mut context).is_ready(), "a short one does not wait");
        let mut long = pin!(reads.finish(fetched(&store, "l"), 5000));
        assert!(long.as_mut().poll(&mut context).is_pending(), "there is no thread for it");
        drop(all);
        let response = long.await.expect("the runtime goes on");
        assert_eq!((response.kvs[0].key(), response.more), (&b"k04999"[..], true));
        assert_eq!(reads.finishing.available_permits(), threads as usize, "it is given back");
    }

    fn examine(turn: &mut ReadTurn<'_>, keys: usize) -> Poll<Result<(), NodeError>> {
        turn.note(keys);
        pin!(turn.wait()).poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn few_long_reads_run_at_once_and_short_ones_pass_them() {
        let reads = Reads::new();
        let limit = reads.long.available_permits();
        let mut running: Vec<ReadTurn<'_>> = (0..limit).map(|_| reads.begin()).collect();
        for turn in &mut running {
            assert!(examine(turn, SHORT_READ_KEYS).is_ready(), "not long yet");
            assert!(examine(turn, 1).is_ready());
        }
        let mut other = reads.begin();
        assert!(examine(&mut other, SHORT_READ_KEYS).is_ready(), "a short one does not wait");
        assert!(examine(&mut other, 1).is_pending(), "now it is one too many");
        running.remove(0);
        assert!(examine(&mut other, 1).is_ready(), "another one has ended");
        assert!(examine(&mut running[0], 1).is_ready(), "a turn is one to the end");
    }
}
