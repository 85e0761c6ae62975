//! A leader that loses its place with requests in flight: it takes back what it evaluated ahead and
//! goes on with the state that it has.
#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use vetch_checkpoint::identity::Identity;
use vetch_checkpoint::{CheckpointConfig, load};
use vetch_cluster::{Config, Log, LogError, LogEvent, OrderedLog, Ticket};
use vetch_encryption::EncryptionKeys;
use vetch_journal::{MemDisk, Position};
use vetch_node::Node;
use vetch_node::cluster::ClusterConfig;
use vetch_node::config::NodeConfig;
use vetch_node::error::NodeError;
use vetch_node::stepped::{self, ReplicatedParts, Time};
use vetch_node::store::request::*;
use vetch_testkit::log::handle::ModelHandle;
use vetch_testkit::log::model::ModelLog;
use vetch_testkit::valid::Valid;

/// Steps of 10 ms after which whatever is waited for should long have happened.
const STEPS_MAX: usize = 10_000;

/// Time that moves when it is told to.
#[derive(Default)]
struct Hand(AtomicU64);

impl Time for Hand {
    fn now(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::Relaxed))
    }
}

/// The model log, which a server reaches unless it is cut off.
struct Gate {
    log: ModelHandle,
    is_cut: Arc<AtomicBool>,
}

impl Gate {
    fn is_open(&self) -> bool {
        !self.is_cut.load(Ordering::Relaxed)
    }
}

impl Log for Gate {
    fn append(&mut self, ticket: Ticket, after: Position, record: Bytes) {
        if self.is_open() {
            self.log.append(ticket, after, record);
        }
    }

    fn read(&mut self, after: Position) {
        if self.is_open() {
            self.log.read(after);
        }
    }

    fn next(&mut self, wait: Duration) -> Option<LogEvent> {
        if self.is_open() { self.log.next(wait) } else { None }
    }

    fn trim(&mut self, floor: Position) -> Result<(), LogError> {
        self.log.trim(floor)
    }

    fn max_record(&self) -> usize {
        8 << 20
    }
}

struct Server {
    node: Node,
    parts: ReplicatedParts,
    disk: MemDisk,
    is_cut: Arc<AtomicBool>,
}

impl Server {
    fn is_leader(&self) -> bool {
        self.node.cluster().is_some_and(|cluster| cluster.borrow().is_leader)
    }

    fn cut(&self, is_cut: bool) {
        self.is_cut.store(is_cut, Ordering::Relaxed);
    }
}

/// Servers on one log.
struct Cluster {
    log: Arc<Mutex<ModelLog>>,
    time: Arc<Hand>,
    servers: Vec<Server>,
    runtime: tokio::runtime::Runtime,
}

type Call<T> = Pin<Box<dyn Future<Output = Result<T, NodeError>>>>;

impl Cluster {
    /// The first one leads.
    fn of(count: usize) -> Cluster {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let log = Arc::new(Mutex::new(ModelLog::new(true)));
        let mut cluster = Cluster { log, time: Arc::default(), servers: Vec::new(), runtime };
        for at in 0..count {
            cluster.start(at);
            cluster.until(|cluster| cluster.servers[0].is_leader());
        }
        cluster
    }

    fn start(&mut self, at: usize) {
        let member_id = 10 + at as u64;
        let mut config = NodeConfig::new(PathBuf::from("/data"), Identity { cluster_id: 1, member_id });
        config.tuning.checkpoints.recovery_threads = 0;
        let cluster = ClusterConfig {
            name: format!("s{at}"),
            client_urls: vec![format!("http://s{at}")],
            peer_urls: Vec::new(),
        };
        let (disk, is_cut) = (MemDisk::new(), Arc::new(AtomicBool::new(false)));
        let env = stepped::Env {
            disk: Arc::new(disk.clone()),
            time: self.time.clone(),
            steady: self.time.clone(),
            incarnation: member_id,
        };
        let log = Gate { log: ModelHandle::new(self.log.clone()), is_cut: is_cut.clone() };
        let engine = Box::new(OrderedLog::new(log, Config::default()));
        let (node, parts) = stepped::open_replicated(env, config, cluster, engine, |_| {}).unwrap();
        self.servers.push(Server { node, parts, disk, is_cut });
    }

    fn step(&mut self) {
        self.time.0.fetch_add(10, Ordering::Relaxed);
        for Server { parts, .. } in &mut self.servers {
            let _ = (parts.sequencer.step(), parts.journal.step(Duration::ZERO));
            let _ = (parts.fan_out.step(), parts.housekeeping.step(), parts.lease_thread.step());
        }
    }

    fn until(&mut self, mut done: impl FnMut(&Cluster) -> bool) {
        for _ in 0..STEPS_MAX {
            if done(self) {
                return;
            }
            self.step();
        }
        panic!("it never happens");
    }

    fn poll<T>(&self, call: &mut Call<T>) -> Poll<Result<T, NodeError>> {
        let _in_runtime = self.runtime.enter();
        call.as_mut().poll(&mut Context::from_waker(Waker::noop()))
    }

    fn wait<T: 'static>(&mut self, mut call: Call<T>) -> Result<T, NodeError> {
        let mut outcome = None;
        self.until(|cluster| {
            if let Poll::Ready(output) = cluster.poll(&mut call) {
                outcome = Some(output);
            }
            outcome.is_some()
        });
        outcome.unwrap()
    }

    fn put(&self, at: usize, key: &str, value: &str, lease: i64) -> Call<PutResponse> {
        let node = self.servers[at].node.clone();
        let (prev_kv, ignore_value, ignore_lease) = (false, false, false);
        let (key, value) = (key.to_owned().into(), value.to_owned().into());
        let put = PutRequest { key, value, lease, prev_kv, ignore_value, ignore_lease };
        Box::pin(async move { node.put(put.valid()).await })
    }

    /// All keys with their values, as a server has them.
    fn all(&mut self, at: usize) -> Vec<(String, String)> {
        let node = self.servers[at].node.clone();
        let everything = RangeRequest::new(KeyRange::new("\0", "\0"));
        let range = RangeRequest { serializable: true, ..everything };
        let found = self.wait(Box::pin(async move { node.range(range.valid()).await })).unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        found.kvs.iter().map(|kv| (text(kv.key()), text(&kv.value()))).collect()
    }

    fn is_running(&self, at: usize) -> bool {
        let _in_runtime = self.runtime.enter();
        let stopped = std::pin::pin!(self.servers[at].node.stopped());
        stopped.poll(&mut Context::from_waker(Waker::noop())).is_pending()
    }
}

#[test]
fn a_replaced_leader_goes_on_as_a_follower_with_the_state_it_has() {
    let mut cluster = Cluster::of(2);
    let (first, second) = (cluster.servers[0].node.clone(), cluster.servers[1].node.clone());
    let node = first.clone();
    cluster.wait(Box::pin(async move { node.lease_grant(7, 3600).await })).unwrap();
    for call in [cluster.put(0, "kept", "1", 7), cluster.put(0, "changed", "1", 0)] {
        cluster.wait(call).unwrap();
    }
    // From here on nothing of it reaches the log.
    cluster.servers[0].cut(true);
    let mut puts = vec![cluster.put(0, "changed", "2", 7), cluster.put(0, "new", "2", 0)];
    let (node, other) = (first.clone(), first.clone());
    let mut revoke: Call<i64> = Box::pin(async move { node.lease_revoke(7).await });
    let mut grant: Call<_> = Box::pin(async move { other.lease_grant(8, 3600).await });
    assert!(puts.iter_mut().all(|call| cluster.poll(call).is_pending()));
    assert!(cluster.poll(&mut revoke).is_pending() && cluster.poll(&mut grant).is_pending());
    cluster.until(|cluster| cluster.servers[1].is_leader());
    let theirs = cluster.put(1, "theirs", "3", 7);
    cluster.wait(theirs).unwrap();
    // A snapshot that was asked for meanwhile would be of what never was.
    let node = first.clone();
    let mut snapshot: Call<_> = Box::pin(async move { node.snapshot().await });
    assert!(cluster.poll(&mut snapshot).is_pending());
    cluster.servers[0].cut(false);
    for call in puts {
        assert!(matches!(cluster.wait(call), Err(NodeError::Timeout)));
    }
    assert!(matches!(cluster.wait(revoke), Err(NodeError::Timeout)));
    assert!(matches!(cluster.wait(grant), Err(NodeError::Timeout)));
    assert!(matches!(cluster.wait(snapshot), Err(NodeError::LeaderChanged)));
    cluster.until(|cluster| cluster.servers[0].node.revision() == second.revision());
    assert!(cluster.is_running(0) && first.metrics().proposals.rewound.get() > 0);
    assert_eq!(first.metrics().proposals.pending.get(), 0);
    let expected = [("changed", "1"), ("kept", "1"), ("theirs", "3")];
    let expected: Vec<_> = expected.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    assert_eq!((cluster.all(0), cluster.all(1)), (expected.clone(), expected));
    // It can lead again, with the leases that there are, and is saved as one that never was ahead.
    cluster.servers[1].cut(true);
    cluster.until(|cluster| cluster.servers[0].is_leader());
    let node = first.clone();
    let lease =
        cluster.wait(Box::pin(async move { node.lease_time_to_live(7, true).await })).unwrap().unwrap();
    assert_eq!(lease.keys.len(), 2);
    let again = cluster.put(0, "new", "4", 7);
    assert_eq!(cluster.wait(again).unwrap().revision, second.revision() + 1);
    let node = first.clone();
    let snapshot = cluster.wait(Box::pin(async move { node.snapshot().await })).unwrap();
    assert_eq!((snapshot.mark.revision, snapshot.versions.len()), (5, 4));
    cluster.servers[1].cut(false);
    cluster.until(|_| second.revision() == first.revision());
    let hashes = [&first, &second].map(|node| {
        let node = node.clone();
        cluster.wait(Box::pin(async move { node.hash_kv(5).await })).unwrap().hash
    });
    assert_eq!(hashes[0], hashes[1]);
}

#[test]
fn a_leader_that_halts_saves_what_is_committed() {
    let mut cluster = Cluster::of(1);
    let saved = cluster.put(0, "kept", "1", 0);
    cluster.wait(saved).unwrap();
    cluster.servers[0].cut(true);
    let mut lost = cluster.put(0, "lost", "2", 0);
    assert!(cluster.poll(&mut lost).is_pending());
    cluster.step();
    // The log breaks its contract.
    {
        let mut log = cluster.log.lock().unwrap();
        let last = log.last();
        log.append(last, Bytes::from_static(b"no record at all"));
    }
    cluster.servers[0].cut(false);
    assert!(matches!(cluster.wait(lost), Err(NodeError::Timeout)));
    cluster.until(|cluster| !cluster.is_running(0));
    let disk = Arc::new(cluster.servers[0].disk.clone());
    let (at, config) = (PathBuf::from("/data/member/checkpoint"), CheckpointConfig::default());
    let state = load(disk, &at, config, 0, &EncryptionKeys::none(), &mut |_, _| {}).unwrap();
    assert_eq!((state.store.head().revision, state.store.stats().keys), (2, 1));
}
