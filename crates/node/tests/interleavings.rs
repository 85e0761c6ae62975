//! Interleavings: the shipped parts of a node on threads of a scheduler that may switch at every
//! lock, chosen by a seed.
//!
//! The simulation switches between parts at disk operations and between steps. Here a reader can
//! meet the sequencer in the middle of a round, between two evaluations, and the journal's thread
//! between two of the locks it takes. A failure prints the schedule; shuttle's `replay` runs it
//! again.
#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use bytes::Bytes;
use shuttle::future::block_on;
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::thread;
use vetch_checkpoint::identity::Identity;
use vetch_journal::MemDisk;
use vetch_node::Node;
use vetch_node::config::NodeConfig;
use vetch_node::error::NodeError;
use vetch_node::stepped::{self, Parts, Step, Time};
use vetch_node::store::Validated;
use vetch_node::store::auth::{Caller, Change, Permission, PermissionKind};
use vetch_node::store::request::*;
use vetch_node::types::{AlarmAction, AlarmSelector, LeaseInfo};
use vetch_node::watch::Create;
use vetch_testkit::valid::Valid;

/// Schedules of each scenario, unless `VETCH_SCHEDULES` says otherwise, and the seed of all of
/// them.
const SCHEDULES: usize = 1000;
const SEED: u64 = 15;
/// Changes of thread that are forced, in schedules that have few of them.
const DEPTH: usize = 3;
/// Generous: the parts run on stacks of this size.
const STACK: usize = 1 << 20;

struct Still;

impl Time for Still {
    fn now(&self) -> Duration {
        Duration::from_secs(1)
    }
}

/// A node whose parts wait to be given threads.
struct World {
    node: Node,
    parts: Parts,
    disk: MemDisk,
    config: NodeConfig,
}

/// Which parts run, and whether they are to go on.
#[derive(Default)]
struct Signals {
    /// The journal may make things durable.
    released: AtomicBool,
    done: AtomicBool,
}

fn explore(scenario: impl Fn() + Send + Sync + 'static) {
    // Requests have timeouts, which need a runtime to be made; nothing drives it, so none ever
    // comes.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let _in_runtime = runtime.enter();
    let schedules = std::env::var("VETCH_SCHEDULES").ok().and_then(|text| text.parse().ok());
    let mut config = shuttle::Config::new();
    config.stack_size = STACK;
    let schedules = schedules.unwrap_or(SCHEDULES);
    let scenario = Arc::new(scenario);
    let again = Arc::clone(&scenario);
    // Any thread next, and few changes at the worst moments: each finds what the other does not.
    let random = RandomScheduler::new_from_seed(SEED, schedules);
    shuttle::Runner::new(random, config.clone()).run(move || again());
    let changes = PctScheduler::new_from_seed(SEED, DEPTH, schedules);
    shuttle::Runner::new(changes, config).run(move || scenario());
}

impl World {
    fn new(adjust: impl FnOnce(&mut NodeConfig)) -> World {
        let mut config = NodeConfig::new(PathBuf::from("/data"), Identity { cluster_id: 1, member_id: 2 });
        config.journal_segment_bytes = 16 << 10;
        config.tuning.checkpoints.recovery_threads = 0;
        config.tuning.journal.new_id = Some(7);
        // Readers get a turn behind every evaluation.
        config.tuning.batch.turn_requests = 1;
        config.tuning.batch.turn_work = 1;
        adjust(&mut config);
        World::open(MemDisk::new(), config)
    }

    fn open(disk: MemDisk, config: NodeConfig) -> World {
        let opened = stepped::open(Arc::new(disk.clone()), Arc::new(Still), config.clone(), |_| {});
        let (node, parts) = opened.unwrap_or_else(|error| panic!("the node starts: {error}"));
        World { node, parts, disk, config }
    }

    /// Does `request` before there are any threads.
    fn first<T>(&mut self, request: impl Future<Output = T>) -> T {
        let mut request = Box::pin(request);
        loop {
            if let Some(answer) = poll(&mut request) {
                return answer;
            }
            self.parts.sequencer.step();
            self.parts.journal.step();
        }
    }

    /// Gives every part a thread and runs `clients`; the journal does nothing before it is
    /// released.
    fn run(self, clients: impl FnOnce(&Node, &Arc<Signals>)) -> (MemDisk, NodeConfig) {
        let World { node, parts, disk, config } = self;
        let signals = Arc::new(Signals::default());
        let Parts { mut sequencer, journal, mut housekeeping, mut fan_out, .. } = parts;
        let part = |mut step: Box<dyn FnMut() -> Step + Send>, held: bool| {
            let signals = Arc::clone(&signals);
            thread::spawn(move || {
                while !signals.done.load(Ordering::Acquire) {
                    if !held || signals.released.load(Ordering::Acquire) {
                        step();
                    }
                    thread::yield_now();
                }
            })
        };
        let threads = vec![
            part(Box::new(move || sequencer.step()), false),
            part(Box::new(move || journal.step()), true),
            part(Box::new(move || housekeeping.step()), false),
            part(Box::new(move || fan_out.step()), false),
        ];
        clients(&node, &signals);
        signals.done.store(true, Ordering::Release);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        (disk, config)
    }
}

type Pending<T> = Pin<Box<dyn Future<Output = T> + Send>>;

fn poll<F: Future + Unpin>(mut future: F) -> Option<F::Output> {
    match Pin::new(&mut future).poll(&mut Context::from_waker(Waker::noop())) {
        std::task::Poll::Ready(answer) => Some(answer),
        std::task::Poll::Pending => None,
    }
}

/// A request that is queued now and awaited later.
fn hand_in<T: Send + 'static>(
    request: impl Future<Output = Result<T, NodeError>> + Send + 'static,
) -> Pending<()> {
    let mut request: Pending<()> = Box::pin(async move {
        request.await.unwrap_or_else(|error| panic!("it is not refused: {error}"));
    });
    assert!(poll(&mut request).is_none(), "nothing is answered before it is durable");
    request
}

fn put(key: &'static str, lease: i64) -> Validated<PutRequest> {
    let (key, value) = (Bytes::from_static(key.as_bytes()), Bytes::from_static(b"v"));
    PutRequest { key, value, lease, prev_kv: false, ignore_value: false, ignore_lease: false }.valid()
}

fn all() -> KeyRange {
    KeyRange::new(&b"\0"[..], &b"\0"[..])
}

fn user(name: &str) -> Change {
    Change::UserAdd { name: name.into(), password: None, no_password: true }
}

/// Everything that a client can be shown of the state.
#[derive(Debug, PartialEq)]
struct Shown {
    revision: i64,
    range: (i64, i64, Vec<(Bytes, i64)>),
    txn: i64,
    hash: u32,
    compacted: i64,
    keys: u64,
    lease_keys: Option<Vec<Bytes>>,
    leases: Vec<i64>,
    alarms: usize,
    users: usize,
    watch: Option<i64>,
}

fn names(lease: &LeaseInfo) -> Vec<Bytes> {
    lease.keys.iter().map(|version| Bytes::copy_from_slice(version.key())).collect()
}

async fn look(node: &Node) -> Shown {
    let range = node.range(RangeRequest::new(all()).valid()).await.unwrap();
    let kvs = range.kvs.iter().map(|kv| (Bytes::copy_from_slice(kv.key()), kv.lease())).collect();
    let ops = vec![RequestOp::Range(RangeRequest::new(all()))];
    let txn = node.txn(TxnRequest { success: ops, ..TxnRequest::default() }.valid()).await.unwrap();
    let hash = node.hash_kv(0).await.unwrap();
    let lease = node.lease_time_to_live(7, true).await.unwrap();
    let status = node.status();
    let mut watch = node.watch();
    watch.create(&Create { key: vec![0], range_end: vec![0], start_revision: 1, ..Create::default() });
    let responses = watch.next().await.unwrap();
    Shown {
        revision: node.confirmed_revision().await.unwrap(),
        range: (range.revision, range.count, kvs),
        txn: txn.revision,
        hash: hash.hash,
        compacted: status.compact_revision,
        keys: status.keys,
        lease_keys: lease.as_ref().map(names),
        leases: node.leases().await.unwrap(),
        alarms: node.alarms().len(),
        users: node.auth().state().users.len(),
        watch: responses.iter().map(|response| response.header_revision).max(),
    }
}

/// The journal does not move, so whatever is queued, evaluated or half evaluated must not be seen
/// in any answer.
#[test]
fn nothing_is_shown_before_it_is_durable() {
    explore(|| {
        let mut world = World::new(|_| {});
        let node = world.node.clone();
        world.first(node.lease_grant(7, 600)).unwrap();
        world.first(node.put(put("first", 7))).unwrap();
        world.first(node.put(put("second", 7))).unwrap();
        world.run(|node, signals| {
            let before = block_on(look(node));
            assert_eq!(before.lease_keys.as_ref().map(Vec::len), Some(2));
            let writer = {
                let node = node.clone();
                thread::spawn(move || {
                    let node = || node.clone();
                    let (a, b, c, d, e, f, g, h) =
                        (node(), node(), node(), node(), node(), node(), node(), node());
                    let nospace = AlarmSelector { member: 2, kind: Some(AlarmKind::Corrupt) };
                    let pending = [
                        hand_in(async move { a.put(put("third", 7)).await }),
                        hand_in(async move { b.put(put("first", 0)).await }),
                        hand_in(async move {
                            let range = KeyRange::single(&b"second"[..]);
                            c.delete_range(DeleteRangeRequest { range, prev_kv: false }.valid()).await
                        }),
                        hand_in(async move { d.change_auth(user("someone")).await }),
                        hand_in(async move { e.compact(3, false).await }),
                        hand_in(async move { f.lease_grant(8, 600).await }),
                        hand_in(async move { g.lease_revoke(7).await }),
                        hand_in(async move { h.alarm(AlarmAction::Activate, nospace).await }),
                    ];
                    pending.into_iter().for_each(block_on);
                })
            };
            for _ in 0..3 {
                assert_eq!(block_on(look(node)), before);
            }
            signals.released.store(true, Ordering::Release);
            writer.join().unwrap();
            let after = block_on(look(node));
            assert_eq!((after.revision, after.compacted, after.alarms, after.users), (7, 3, 1, 1));
            assert_eq!((after.lease_keys, after.leases), (None, vec![8]));
        });
    });
}

/// A lease, its keys, its renewals and the revision an answer names are of one moment.
#[test]
fn a_lease_and_its_keys_agree() {
    explore(|| {
        // Writers get a turn behind every key that is looked at.
        let world = World::new(|config| config.tuning.scan.keys = 1);
        world.run(|node, signals| {
            signals.released.store(true, Ordering::Release);
            let writer = {
                let node = node.clone();
                thread::spawn(move || {
                    let node = || node.clone();
                    let (a, b, c, d) = (node(), node(), node(), node());
                    let granted = hand_in(async move { a.lease_grant(7, 600).await });
                    block_on(hand_in(async move { b.put(put("a", 7)).await }));
                    block_on(granted);
                    block_on(hand_in(async move { c.put(put("b", 7)).await }));
                    block_on(hand_in(async move { d.lease_revoke(7).await }));
                })
            };
            let reader = {
                let node = node.clone();
                thread::spawn(move || {
                    for _ in 0..4 {
                        let seen = node.revision();
                        match block_on(node.lease_time_to_live(7, true)).unwrap() {
                            Some(lease) => {
                                assert!(seen < 4 && lease.revision < 4, "it went with revision 4");
                                let keys = ["a", "b"].map(Bytes::from);
                                let there = (lease.revision - 1) as usize;
                                assert_eq!(names(&lease), keys[..there], "at revision {}", lease.revision);
                            }
                            None => assert!(
                                seen == 1 || node.revision() == 4,
                                "a key hung on it at revision {seen}, and it has not ended"
                            ),
                        }
                        let seen = node.revision();
                        let renewed = block_on(node.lease_keep_alive(7)).unwrap();
                        assert!(seen < 4 || renewed == 0, "it went with revision 4");
                        assert!(seen == 1 || renewed > 0 || node.revision() == 4, "it is there");
                    }
                })
            };
            writer.join().unwrap();
            reader.join().unwrap();
        });
    });
}

/// Reads in chunks, with a writer that compacts at the newest revision all the time and
/// housekeeping that frees what it can: none fails, and each is of one revision.
#[test]
fn reads_are_of_one_revision_whatever_is_compacted() {
    explore(|| {
        let mut world = World::new(|config| config.tuning.scan.keys = 1);
        let node = world.node.clone();
        world.first(node.lease_grant(7, 600)).unwrap();
        for key in ["a", "b", "c"] {
            world.first(node.put(put(key, 7))).unwrap();
        }
        world.run(|node, signals| {
            signals.released.store(true, Ordering::Release);
            let writer = {
                let node = node.clone();
                thread::spawn(move || {
                    // The lease loses a key with every revision.
                    for key in ["c", "a", "b"] {
                        let revision = block_on(node.put(put(key, 0))).unwrap().revision;
                        block_on(node.compact(revision, false)).unwrap();
                    }
                })
            };
            let left = |revision: i64| [3, 2, 1, 0][(revision - 4) as usize];
            for _ in 0..2 {
                let range = block_on(node.range(RangeRequest::new(all()).valid())).unwrap();
                let leased = range.kvs.iter().filter(|kv| kv.lease() == 7).count();
                assert_eq!((range.count, leased), (3, left(range.revision)), "at {}", range.revision);
                let lease = block_on(node.lease_time_to_live(7, true)).unwrap().unwrap();
                assert_eq!(lease.keys.len(), left(lease.revision), "at {}", lease.revision);
                assert!(lease.keys.iter().all(|version| version.mod_revision() <= lease.revision));
                block_on(node.hash_kv(0)).unwrap();
            }
            writer.join().unwrap();
        });
    });
}

/// A request that examines or changes several keys gives the store away behind each of them:
/// readers see all of what it does, or nothing.
#[test]
fn a_request_in_parts_is_seen_whole() {
    explore(|| {
        let mut world = World::new(|config| config.tuning.scan.keys = 1);
        let node = world.node.clone();
        world.first(node.lease_grant(7, 600)).unwrap();
        for key in ["a", "b", "c"] {
            world.first(node.put(put(key, 7))).unwrap();
        }
        world.run(|node, signals| {
            signals.released.store(true, Ordering::Release);
            let exist = || Compare {
                range: all(),
                result: CompareResult::Greater,
                target: CompareTarget::Version(0),
            };
            let writer = {
                let node = node.clone();
                thread::spawn(move || {
                    let range = KeyRange::new(&b"a"[..], &b"c"[..]);
                    let delete = RequestOp::DeleteRange(DeleteRangeRequest { range, prev_kv: false });
                    let read = RequestOp::Range(RangeRequest::new(all()));
                    let success = vec![read.clone(), delete, RequestOp::Put(put("d", 0).into_inner()), read];
                    let txn = TxnRequest { compare: vec![exist()], success, ..TxnRequest::default() };
                    let done = block_on(node.txn(txn.valid())).unwrap();
                    assert!(done.succeeded);
                    let counts = [0, 3].map(|op| match &done.responses[op] {
                        ResponseOp::Range(range) => (range.kvs.len(), range.count),
                        other => unreachable!("a range is answered as one: {other:?}"),
                    });
                    assert_eq!(counts, [(3, 3), (2, 2)]);
                    block_on(node.compact(done.revision, false)).unwrap();
                    block_on(node.delete_range(DeleteRangeRequest { range: all(), prev_kv: false }.valid()))
                        .unwrap();
                })
            };
            for _ in 0..2 {
                let range = block_on(node.range(RangeRequest::new(all()).valid())).unwrap();
                let leased = range.kvs.iter().filter(|kv| kv.lease() == 7).count();
                let expected = [(3, 3), (2, 1), (0, 0)][(range.revision - 4) as usize];
                assert_eq!((range.count, leased), expected, "at {}", range.revision);
                assert_eq!(range.count, range.kvs.len() as i64, "at {}", range.revision);
                let lease = block_on(node.lease_time_to_live(7, true)).unwrap().unwrap();
                assert_eq!(lease.keys.len(), [3, 1, 0][(lease.revision - 4) as usize]);
                let txn = TxnRequest { compare: vec![exist()], ..TxnRequest::default() };
                let txn = block_on(node.txn(txn.valid())).unwrap();
                assert_eq!(txn.succeeded, txn.revision < 6, "at {}", txn.revision);
            }
            writer.join().unwrap();
        });
    });
}

/// Whatever was acknowledged is there after a loss of power, however parts and clients met.
#[test]
fn what_was_acknowledged_survives() {
    explore(|| {
        let world = World::new(|config| {
            config.checkpoint_bytes = 1;
            config.tuning.batch.short_requests = 1;
        });
        let (disk, config) = world.run(|node, signals| {
            signals.released.store(true, Ordering::Release);
            let writers: Vec<_> = [["a", "b", "c"], ["d", "e", "f"]]
                .into_iter()
                .map(|keys| {
                    let node = node.clone();
                    thread::spawn(move || {
                        for key in keys {
                            let put = block_on(node.put(put(key, 0))).unwrap();
                            let read = block_on(
                                node.range(RangeRequest::new(KeyRange::single(key.as_bytes())).valid()),
                            );
                            assert_eq!(
                                read.unwrap().kvs[0].mod_revision(),
                                put.revision,
                                "a write reads itself"
                            );
                        }
                    })
                })
                .collect();
            writers.into_iter().for_each(|writer| writer.join().unwrap());
        });
        let again = World::open(disk.power_loss(&mut |_| false), config);
        assert_eq!(block_on(again.node.range(RangeRequest::new(all()).valid())).unwrap().count, 6);
    });
}

/// A user whose permission is gone reads nothing from the moment that is acknowledged on, also not
/// by way of a lease.
#[test]
fn a_revoked_permission_shows_nothing() {
    explore(|| {
        let mut world = World::new(|config| config.tuning.scan.keys = 1);
        let node = world.node.clone();
        world.first(node.lease_grant(7, 600)).unwrap();
        world.first(node.put(put("a", 7))).unwrap();
        let permission = Permission { kind: PermissionKind::Read, key: "a".into(), range_end: Bytes::new() };
        let root = || vetch_node::store::auth::ROOT.to_string();
        for change in [
            user("root"),
            Change::UserGrantRole { user: root(), role: root() },
            user("reader"),
            Change::RoleAdd { name: "reads".into() },
            Change::RoleGrantPermission { role: "reads".into(), permission: Some(permission) },
            Change::UserGrantRole { user: "reader".into(), role: "reads".into() },
            Change::Enable,
        ] {
            world.first(node.change_auth(change)).unwrap();
        }
        world.run(|node, signals| {
            signals.released.store(true, Ordering::Release);
            let revoked = Arc::new(AtomicBool::new(false));
            let reader = {
                let (node, revoked) = (node.clone(), Arc::clone(&revoked));
                thread::spawn(move || {
                    for _ in 0..4 {
                        let was_revoked = revoked.load(Ordering::Acquire);
                        let reader = node.for_caller(Caller::user("reader", node.auth().revision()));
                        let range = block_on(reader.range(RangeRequest::new(KeyRange::single("a")).valid()));
                        assert!(!(was_revoked && range.is_ok()), "a range is shown");
                        let lease = block_on(reader.lease_time_to_live(7, true));
                        assert!(!(was_revoked && lease.is_ok()), "the keys of a lease are shown");
                        // A key that this user never may read, attached meanwhile, refuses the
                        // answer.
                        if let Ok(Some(lease)) = lease {
                            assert_eq!(names(&lease), ["a"]);
                        }
                    }
                })
            };
            let attach = {
                let node = node.clone();
                hand_in(async move { node.put(put("b", 7)).await })
            };
            block_on(attach);
            let revoke = Change::UserRevokeRole { user: "reader".into(), role: "reads".into() };
            block_on(node.change_auth(revoke)).unwrap();
            revoked.store(true, Ordering::Release);
            reader.join().unwrap();
        });
    });
}
