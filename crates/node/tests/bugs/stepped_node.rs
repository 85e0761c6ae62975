//! A node whose parts are stepped by hand, on a disk that can lose power.

use std::future::Future;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use vetch_checkpoint::identity::Identity;
use vetch_journal::MemDisk;
use vetch_node::Node;
use vetch_node::config::NodeConfig;
use vetch_node::error::NodeError;
use vetch_node::event::NodeEvent;
use vetch_node::stepped::{self, Parts, Step, Time};
use vetch_node::store::request::*;
use vetch_node::watch::{Create, Response, WatchSession};
use vetch_testkit::valid::Valid;

/// Time that moves on request.
#[derive(Default)]
struct Hand(AtomicU64);

impl Time for Hand {
    fn now(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::Relaxed))
    }
}

pub(crate) struct SteppedNode {
    pub(crate) node: Node,
    disk: MemDisk,
    time: Arc<Hand>,
    parts: Parts,
    config: NodeConfig,
    runtime: tokio::runtime::Runtime,
}

/// Rounds of steps after which whatever is waited for should long have happened.
const STEPS_MAX: usize = 10_000;

impl SteppedNode {
    pub(crate) fn new() -> SteppedNode {
        SteppedNode::with(|_| {})
    }

    /// `adjust` changes limits that are small already.
    pub(crate) fn with(adjust: impl FnOnce(&mut NodeConfig)) -> SteppedNode {
        let mut config = NodeConfig::new(PathBuf::from("/data"), Identity { cluster_id: 1, member_id: 2 });
        config.journal_segment_bytes = 16 << 10;
        config.checkpoint_bytes = 4 << 10;
        config.tuning.checkpoints.recovery_threads = 0;
        adjust(&mut config);
        SteppedNode::open(MemDisk::new(), config)
    }

    fn open(disk: MemDisk, config: NodeConfig) -> SteppedNode {
        let time = Arc::new(Hand::default());
        let opened = stepped::open(Arc::new(disk.clone()), time.clone(), config.clone(), |_| {});
        let (node, parts) = opened.unwrap_or_else(|error| panic!("the node starts: {error}"));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        SteppedNode { node, disk, time, parts, config, runtime }
    }

    /// Power goes now: what was not synced is lost, and the machine starts again.
    pub(crate) fn power_cut(self) -> SteppedNode {
        SteppedNode::open(self.disk.power_loss(&mut |_| false), self.config)
    }

    /// The process ends now, and a new one starts.
    pub(crate) fn kill(self) -> SteppedNode {
        SteppedNode::open(self.disk.process_exit(), self.config)
    }

    /// Whether a server could start on what a loss of power would leave now.
    pub(crate) fn can_start(&self) -> Result<(), String> {
        let (disk, time) = (self.disk.power_loss(&mut |_| false), Arc::new(Hand::default()));
        let opened = stepped::open(Arc::new(disk), time, self.config.clone(), |_| {});
        opened.map(drop).map_err(|error| error.to_string())
    }

    pub(crate) fn disk(&self) -> &MemDisk {
        &self.disk
    }

    pub(crate) fn advance(&self, time: Duration) {
        self.time.0.fetch_add(time.as_millis() as u64, Ordering::Relaxed);
    }

    pub(crate) fn sequence(&mut self) -> Step {
        self.parts.sequencer.step()
    }

    pub(crate) fn sync(&mut self) -> Step {
        self.parts.journal.step()
    }

    pub(crate) fn fan_out(&mut self) -> Step {
        self.parts.fan_out.step()
    }

    pub(crate) fn housekeep(&mut self) -> Step {
        self.parts.housekeeping.step()
    }

    pub(crate) fn tick(&mut self) -> Step {
        self.parts.lease_thread.step()
    }

    fn step_all(&mut self) {
        let _ = (self.sequence(), self.sync(), self.fan_out(), self.housekeep(), self.tick());
    }

    /// Polls `future` once, as a client that has just sent its request.
    pub(crate) fn poll<F: Future + Unpin>(&self, future: &mut F) -> Poll<F::Output> {
        let _in_runtime = self.runtime.enter();
        pin!(future).poll(&mut Context::from_waker(Waker::noop()))
    }

    /// Steps everything until `future` is done.
    pub(crate) fn wait<T>(&mut self, future: impl Future<Output = T>) -> T {
        let mut future = Box::pin(future);
        for _ in 0..STEPS_MAX {
            if let Poll::Ready(output) = self.poll(&mut future) {
                return output;
            }
            self.step_all();
        }
        panic!("it never happens");
    }

    /// Lets everything that can happen happen.
    pub(crate) fn settle(&mut self) {
        (0..50).for_each(|_| self.step_all());
    }

    pub(crate) fn put(&mut self, key: &str, value: &str) -> i64 {
        let node = self.node.clone();
        self.wait(async move { node.put(put(key, value).valid()).await }).unwrap().revision
    }

    pub(crate) fn delete(&mut self, key: &str) -> i64 {
        let node = self.node.clone();
        let request = DeleteRangeRequest { range: single(key), prev_kv: false };
        self.wait(async move { node.delete_range(request.valid()).await }).unwrap().revision
    }

    pub(crate) fn txn(&mut self, ops: Vec<RequestOp>) -> Result<TxnResponse, NodeError> {
        let node = self.node.clone();
        self.wait(async move { node.txn(TxnRequest { success: ops, ..TxnRequest::default() }.valid()).await })
    }

    /// Returns when the memory has been given back.
    pub(crate) fn compact(&mut self, revision: i64) {
        let node = self.node.clone();
        self.wait(async move { node.compact(revision, true).await }).unwrap();
    }

    pub(crate) fn get(&mut self, key: &str) -> Option<String> {
        let node = self.node.clone();
        let found =
            self.wait(async move { node.range(RangeRequest::new(single(key)).valid()).await }).unwrap();
        found.kvs.first().map(|kv| String::from_utf8(kv.value().to_vec()).unwrap())
    }

    pub(crate) fn hash(&mut self) -> (u32, i64) {
        let node = self.node.clone();
        self.wait(async move { node.hash().await }).unwrap()
    }

    pub(crate) fn watch(&self, create: &Create) -> WatchSession {
        let _in_runtime = self.runtime.enter();
        let mut session = self.node.watch();
        session.create(create);
        session
    }

    /// What the stream has to say now, without anything else moving.
    pub(crate) fn drain(&self, session: &mut WatchSession) -> Vec<Response<NodeEvent>> {
        let mut all = Vec::new();
        let mut idle = 0;
        // A stream that looked at history without a match says nothing at once, but has more to
        // look at.
        while idle < 3 {
            match self.poll(&mut Box::pin(session.next())) {
                Poll::Ready(responses) => all.extend(responses.unwrap()),
                Poll::Pending => idle += 1,
            }
        }
        all
    }

    /// What the stream says until everything has settled.
    pub(crate) fn drain_settled(&mut self, session: &mut WatchSession) -> Vec<Response<NodeEvent>> {
        let mut all = Vec::new();
        for _ in 0..10 {
            self.settle();
            all.extend(self.drain(session));
        }
        all
    }
}

pub(crate) fn put(key: &str, value: &str) -> PutRequest {
    PutRequest {
        key: Bytes::copy_from_slice(key.as_bytes()),
        value: Bytes::copy_from_slice(value.as_bytes()),
        lease: 0,
        prev_kv: false,
        ignore_value: false,
        ignore_lease: false,
    }
}

pub(crate) fn single(key: &str) -> KeyRange {
    KeyRange::single(Bytes::copy_from_slice(key.as_bytes()))
}

pub(crate) fn everything(start_revision: i64) -> Create {
    Create { key: vec![0], range_end: vec![0], start_revision, ..Create::default() }
}

/// Key, revision and kind of each event, in order of delivery.
pub(crate) fn events_of(responses: &[Response<NodeEvent>]) -> Vec<(String, i64, &'static str)> {
    let events = responses.iter().flat_map(Response::events);
    let kind = |event: &NodeEvent| if event.0.kv.is_tombstone() { "delete" } else { "put" };
    let key = |event: &NodeEvent| String::from_utf8(event.0.kv.key().to_vec()).unwrap();
    events.map(|event| (key(event), event.0.kv.mod_revision(), kind(event))).collect()
}
