//! A node from the outside: what it answers, and what a restart leaves of it.
#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use vetch_checkpoint::identity::Identity;
use vetch_node::Node;
use vetch_node::config::NodeConfig;
use vetch_node::error::NodeError;
use vetch_node::event::NodeEvent;
use vetch_node::store::StoreError;
use vetch_node::store::request::*;
use vetch_node::types::{AlarmAction, AlarmSelector};
use vetch_node::watch::{Create, Response, WatchSession};
use vetch_testkit::valid::Valid;

fn config(dir: &Path) -> NodeConfig {
    let mut config = NodeConfig::new(dir.to_path_buf(), Identity { cluster_id: 1, member_id: 2 });
    config.journal_segment_bytes = 256 << 10;
    config.checkpoint_bytes = 64 << 10;
    config.checkpoint_interval = Duration::from_millis(100);
    config
}

fn open(config: NodeConfig) -> Node {
    Node::open(config, |_| {}).unwrap()
}

fn put(key: &str, value: &str) -> PutRequest {
    PutRequest {
        key: Bytes::copy_from_slice(key.as_bytes()),
        value: Bytes::copy_from_slice(value.as_bytes()),
        lease: 0,
        prev_kv: false,
        ignore_value: false,
        ignore_lease: false,
    }
}

fn everything() -> RangeRequest {
    RangeRequest::new(KeyRange::new(&b"\0"[..], &b"\0"[..]))
}

fn get(key: &str) -> RangeRequest {
    RangeRequest::new(KeyRange::single(Bytes::copy_from_slice(key.as_bytes())))
}

async fn value_of(node: &Node, key: &str) -> Option<Vec<u8>> {
    let response = node.range(get(key).valid()).await.unwrap();
    response.kvs.first().map(|kv| kv.value().to_vec())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_survive_a_restart_with_their_revisions() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(config(dir.path()));
    for n in 0..300 {
        let response = node.put(put(&format!("k{:03}", n % 50), &format!("v{n}")).valid()).await.unwrap();
        assert_eq!(response.revision, n + 2);
    }
    let delete = DeleteRangeRequest { range: KeyRange::new("k010", "k020"), prev_kv: true };
    let deleted = node.delete_range(delete.valid()).await.unwrap();
    assert_eq!((deleted.deleted, deleted.revision), (10, 302));
    let before = node.range(everything().valid()).await.unwrap();
    let hash = node.hash_kv(0).await.unwrap();
    node.shutdown().await;
    assert_eq!(node.put(put("late", "x").valid()).await, Err(NodeError::Stopped));
    drop(node);

    let node = open(config(dir.path()));
    assert_eq!(node.range(everything().valid()).await.unwrap(), before);
    assert_eq!(node.hash_kv(0).await.unwrap(), hash);
    assert_eq!(node.put(put("next", "x").valid()).await.unwrap().revision, 303);
    node.shutdown().await;
}

/// The numbers are those of an etcd 3.7.1 that was asked the same, whether or not a compaction was
/// waited for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hashes_of_compacted_revisions_are_those_of_etcd() {
    for physical in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let mut node = open(config(dir.path()));
        for line in include_str!("../testdata/hashkv-compacted.txt").lines() {
            match line.split_whitespace().collect::<Vec<&str>>()[..] {
                ["restart"] => {
                    node.shutdown().await;
                    drop(node);
                    node = open(config(dir.path()));
                }
                ["hash", at, ref expected @ ..] => {
                    let given = match node.hash_kv(at.parse().unwrap()).await {
                        Ok(hash) => vec![hash.hash.to_string(), hash.compact_revision.to_string()],
                        Err(NodeError::Store(StoreError::Compacted)) => vec!["refused".to_owned()],
                        Err(other) => panic!("{line}: {other}"),
                    };
                    assert_eq!(given, expected, "{line}, physical: {physical}");
                }
                ["compact", at] => drop(node.compact(at.parse().unwrap(), physical).await.unwrap()),
                _ => change(&node, line).await,
            }
        }
        node.shutdown().await;
    }
}

/// A line of that script which changes keys.
async fn change(node: &Node, line: &str) {
    let op = |text: &str| match text.split_whitespace().collect::<Vec<&str>>()[..] {
        ["put", key, value] => RequestOp::Put(put(key, value)),
        ["del", key, ref end @ ..] => {
            let end = end.first().copied().unwrap_or("").to_owned();
            let range = KeyRange::new(key.to_owned(), end);
            RequestOp::DeleteRange(DeleteRangeRequest { range, prev_kv: false })
        }
        _ => panic!("{text}"),
    };
    if line.starts_with('#') {
        return;
    }
    let ops = line.strip_prefix("txn ").unwrap_or(line).split(';');
    let request = TxnRequest { success: ops.map(op).collect(), ..TxnRequest::default() };
    node.txn(request.valid()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_data_directory_belongs_to_one_process() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(config(dir.path()));
    let second = Node::open(config(dir.path()), |_| {});
    assert!(second.err().unwrap().to_string().contains("another process holds"));
    node.shutdown().await;
    open(config(dir.path())).shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_compare_and_swap_loses_no_update() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(config(dir.path()));
    node.put(put("counter", "0").valid()).await.unwrap();
    let tasks: Vec<_> = (0..16).map(|_| tokio::spawn(increment(node.clone(), 25))).collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(value_of(&node, "counter").await.unwrap(), b"400");
    node.shutdown().await;
}

async fn increment(node: Node, times: usize) {
    for _ in 0..times {
        loop {
            let kv = node.range(get("counter").valid()).await.unwrap().kvs.remove(0);
            let next: u64 = std::str::from_utf8(&kv.value()).unwrap().parse::<u64>().unwrap() + 1;
            let txn = TxnRequest {
                compare: vec![Compare {
                    range: KeyRange::single("counter"),
                    result: CompareResult::Equal,
                    target: CompareTarget::Mod(kv.mod_revision()),
                }],
                success: vec![RequestOp::Put(put("counter", &next.to_string()))],
                failure: vec![],
            };
            if node.txn(txn.valid()).await.unwrap().succeeded {
                break;
            }
        }
    }
}

async fn collect(session: &mut WatchSession, want: usize) -> Vec<(i64, bool)> {
    let mut seen = Vec::new();
    while seen.len() < want {
        let responses: Vec<Response<NodeEvent>> =
            tokio::time::timeout(Duration::from_secs(5), session.next()).await.unwrap().unwrap();
        for event in responses.iter().flat_map(Response::events) {
            seen.push((event.0.kv.mod_revision(), event.0.prev.is_some()));
        }
    }
    seen
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_sees_past_and_present_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(config(dir.path()));
    for n in 0..10 {
        node.put(put("a", &n.to_string()).valid()).await.unwrap();
    }
    let mut session = node.watch();
    session.create(&Create { key: b"a".to_vec(), start_revision: 2, prev_kv: true, ..Create::default() });
    for n in 0..10 {
        node.put(put("a", &n.to_string()).valid()).await.unwrap();
        node.put(put("b", "other").valid()).await.unwrap();
    }
    let seen = collect(&mut session, 20).await;
    let mut expected: Vec<(i64, bool)> = (2..12).map(|revision| (revision, revision > 2)).collect();
    expected.extend((12..32).step_by(2).map(|revision| (revision, true)));
    assert_eq!(seen, expected);
    drop(session);
    node.shutdown().await;

    let node = open(config(dir.path()));
    let mut session = node.watch();
    session.create(&Create { key: b"a".to_vec(), start_revision: 5, ..Create::default() });
    assert_eq!(collect(&mut session, 17).await, expected[3..]);
    node.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn compaction_frees_memory_and_refuses_the_past() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(config(dir.path()));
    for n in 0..2_000 {
        node.put(put(&format!("k{}", n % 4), &"x".repeat(100)).valid()).await.unwrap();
    }
    let before = node.status().live_bytes;
    node.compact(1_990, true).await.unwrap();
    let after = node.status().live_bytes;
    assert!(after * 50 < before, "before={before} after={after}");
    let old = RangeRequest { revision: 1_989, ..get("k1") };
    assert_eq!(node.range(old.valid()).await, Err(StoreError::Compacted.into()));
    assert_eq!(node.compact(1_990, false).await, Err(StoreError::Compacted.into()));
    assert_eq!(node.compact(9_999, false).await, Err(StoreError::FutureRevision.into()));
    node.shutdown().await;
    let node = open(config(dir.path()));
    assert_eq!(node.status().compact_revision, 1_990);
    assert_eq!(node.range(RangeRequest { revision: 1_990, ..get("k1") }.valid()).await.unwrap().kvs.len(), 1);
    node.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_expired_lease_takes_its_keys_in_one_revision() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = config(dir.path());
    config.min_lease_ttl = 1;
    let node = open(config);
    let lease = node.lease_grant(0, 1).await.unwrap();
    assert_eq!(lease.ttl, 1);
    for n in 0..20 {
        node.put(PutRequest { lease: lease.id, ..put(&format!("leased{n}"), "v") }.valid()).await.unwrap();
    }
    let info = node.lease_time_to_live(lease.id, true).await.unwrap().unwrap();
    assert_eq!((info.granted_ttl, info.keys.len()), (1, 20));
    let revision = node.revision();
    let mut session = node.watch();
    session.create(&Create { key: b"leased".to_vec(), range_end: b"leasee".to_vec(), ..Create::default() });
    let seen = collect(&mut session, 20).await;
    assert!(seen.iter().all(|&(at, _)| at == revision + 1), "{seen:?}");
    assert_eq!(node.lease_keep_alive(lease.id).await, Ok(0));
    assert_eq!(node.lease_time_to_live(lease.id, false).await, Ok(None));
    assert_eq!(node.lease_revoke(lease.id).await, Err(StoreError::LeaseNotFound.into()));
    node.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_gives_a_lease_back_what_it_had_left() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(config(dir.path()));
    node.lease_grant(7, 60).await.unwrap();
    tokio::time::sleep(Duration::from_millis(6_100)).await;
    node.shutdown().await;
    let node = open(config(dir.path()));
    let left = node.lease_time_to_live(7, false).await.unwrap().unwrap().ttl;
    assert!((52..=54).contains(&left), "left={left}");
    assert_eq!(node.lease_keep_alive(7).await, Ok(60));
    node.shutdown().await;
    // The renewal outlives the next restart although renewals are not journalled.
    let node = open(config(dir.path()));
    let left = node.lease_time_to_live(7, false).await.unwrap().unwrap().ttl;
    assert!(left >= 58, "left={left}");
    node.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_quota_refuses_growth_and_clears_itself() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = config(dir.path());
    config.quota_bytes = 256 << 10;
    let node = open(config);
    let mut stored = 0;
    let refused = loop {
        match node.put(put(&format!("k{stored}"), &"x".repeat(4_000)).valid()).await {
            Ok(_) => stored += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(refused, NodeError::NoSpace);
    assert!(stored > 40, "stored={stored}");
    let which = AlarmSelector { member: 0, kind: None };
    assert_eq!(node.alarm(AlarmAction::Get, which).await.unwrap().len(), 1);
    let delete = DeleteRangeRequest { range: KeyRange::new("k", "l"), prev_kv: false };
    let revision = node.delete_range(delete.valid()).await.unwrap().revision;
    node.compact(revision, true).await.unwrap();
    let deadline = std::time::Instant::now() + Duration::from_secs(5);
    while node.put(put("again", "v").valid()).await.is_err() {
        assert!(std::time::Instant::now() < deadline, "the alarm clears itself");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(node.alarm(AlarmAction::Get, which).await.unwrap(), []);
    node.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_streamed_range_equals_the_unary_one() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(config(dir.path()));
    for n in 0..500 {
        node.put(put(&format!("k{n:04}"), &"x".repeat(n % 90)).valid()).await.unwrap();
    }
    for limit in [0, 1, 77, 500, 501] {
        let request = RangeRequest { limit, ..everything() };
        let unary = node.range(request.clone().valid()).await.unwrap();
        let mut stream = node.range_stream(request.valid(), 1 << 10);
        let mut kvs = Vec::new();
        let mut end = None;
        while let Some(chunk) = stream.next().await {
            assert!(end.is_none(), "nothing follows the end");
            let chunk = chunk.unwrap();
            kvs.extend(chunk.kvs);
            end = chunk.end;
        }
        let end = end.unwrap();
        assert_eq!(kvs, unary.kvs, "limit={limit}");
        assert_eq!((end.revision, end.more, end.count), (unary.revision, unary.more, unary.count));
    }
    node.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_alone_do_not_make_the_journal_grow() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(config(dir.path()));
    for _ in 0..40 {
        let grants: Vec<_> = (0..100).map(|_| tokio::spawn(grant_and_revoke(node.clone()))).collect();
        for grant in grants {
            grant.await.unwrap();
        }
    }
    let journal = dir.path().join("member/journal");
    let segments = || {
        let names = std::fs::read_dir(&journal).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter(|name| name.to_string_lossy().ends_with(".journal")).count()
    };
    let deadline = std::time::Instant::now() + Duration::from_secs(10);
    while segments() > 3 {
        assert!(std::time::Instant::now() < deadline, "segments={}", segments());
        // Trimming happens with the next append after a checkpoint.
        grant_and_revoke(node.clone()).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    node.shutdown().await;
}

async fn grant_and_revoke(node: Node) {
    let lease = node.lease_grant(0, 100).await.unwrap();
    node.lease_revoke(lease.id).await.unwrap();
}
