//! The quota from the outside: when it refuses, and that there is always a way back.
#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::path::Path;
use std::time::{Duration, Instant};

use vetch_checkpoint::identity::Identity;
use vetch_node::Node;
use vetch_node::config::NodeConfig;
use vetch_node::error::NodeError;
use vetch_node::store::request::*;
use vetch_node::types::{AlarmAction, AlarmSelector};
use vetch_testkit::valid::Valid;

fn open(dir: &Path, quota_bytes: i64) -> Node {
    let mut config = NodeConfig::new(dir.to_path_buf(), Identity { cluster_id: 1, member_id: 2 });
    config.journal_segment_bytes = 256 << 10;
    config.quota_bytes = quota_bytes;
    config.unsafe_no_fsync = true;
    Node::open(config, |_| {}).unwrap()
}

fn put(key: String, bytes: usize) -> PutRequest {
    PutRequest {
        key: key.into(),
        value: vec![b'x'; bytes].into(),
        lease: 0,
        prev_kv: false,
        ignore_value: false,
        ignore_lease: false,
    }
}

/// Puts new keys until there is no space.
async fn fill(node: &Node, bytes: usize) -> usize {
    let mut stored = 0;
    loop {
        match node.put(put(format!("k{stored:05}"), bytes).valid()).await {
            Ok(_) => stored += 1,
            Err(NodeError::NoSpace) => return stored,
            Err(other) => panic!("{other}"),
        }
    }
}

async fn delete(node: &Node, from: &str, to: &str) -> i64 {
    let range = KeyRange::new(from.to_string(), to.to_string());
    node.delete_range(DeleteRangeRequest { range, prev_kv: false }.valid()).await.unwrap().revision
}

/// Puts again and again until it is allowed. Nothing but time may be needed for that.
async fn comes_back(node: &Node) {
    let deadline = Instant::now() + Duration::from_secs(5);
    while node.put(put("again".to_string(), 1).valid()).await.is_err() {
        let status = node.status();
        assert!(Instant::now() < deadline, "{} of {} bytes", status.live_bytes, status.quota_bytes);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let which = AlarmSelector { member: 0, kind: None };
    assert_eq!(node.alarm(AlarmAction::Get, which).await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_few_large_values_deleted_at_once_are_not_in_the_way() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path(), 64 << 10);
    let stored = fill(&node, 8_000).await;
    assert!((4..=16).contains(&stored), "few enough to be kept for watchers, stored={stored}");
    let revision = delete(&node, "k", "l").await;
    node.compact(revision, true).await.unwrap();
    comes_back(&node).await;
    node.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_tombstones_of_a_mass_delete_are_not_in_the_way() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path(), 64 << 10);
    let stored = fill(&node, 1).await;
    assert!(stored > 100, "stored={stored}");
    let revision = delete(&node, "k", "l").await;
    node.compact(revision, true).await.unwrap();
    comes_back(&node).await;
    node.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nor_are_they_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path(), 64 << 10);
    fill(&node, 1).await;
    let revision = delete(&node, "k", "l").await;
    node.compact(revision, true).await.unwrap();
    node.shutdown().await;
    let node = open(dir.path(), 64 << 10);
    comes_back(&node).await;
    node.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_single_value_updated_until_it_is_full_comes_back_by_compaction_alone() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path(), 64 << 10);
    let mut revision = 0;
    while let Ok(response) = node.put(put("k".to_string(), 8_000).valid()).await {
        revision = response.revision;
    }
    node.compact(revision, true).await.unwrap();
    comes_back(&node).await;
    node.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn people_are_warned_before_it_is_reached_and_not_any_longer_than_that() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path(), 100_000);
    let near = |node: &Node| node.metrics().evaluation.near_quota.get() == 1;
    let mut stored = 0;
    while !near(&node) {
        node.put(put(format!("k{stored:05}"), 1_000).valid()).await.unwrap();
        stored += 1;
    }
    let used = node.status().live_bytes;
    assert!((80_000..85_000).contains(&used), "used={used}");
    let revision = delete(&node, "k", "l").await;
    node.compact(revision, true).await.unwrap();
    node.put(put("again".to_string(), 1).valid()).await.unwrap();
    assert!(!near(&node));
    node.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_raised_alarm_stops_growth_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path(), 64 << 10);
    fill(&node, 2_000).await;
    assert_eq!(node.lease_grant(7, 60).await.unwrap_err(), NodeError::NoSpace);
    let revision = delete(&node, "k00000", "k00001").await;
    let only_deletes = TxnRequest {
        compare: Vec::new(),
        success: vec![RequestOp::DeleteRange(DeleteRangeRequest {
            range: KeyRange::single("k00001"),
            prev_kv: false,
        })],
        failure: Vec::new(),
    };
    assert_eq!(node.txn(only_deletes.valid()).await.unwrap().revision, revision + 1);
    node.compact(revision, true).await.unwrap();
    // Well above the low-water mark, so it stays as it is.
    assert_eq!(node.put(put("again".to_string(), 1).valid()).await.unwrap_err(), NodeError::NoSpace);
    node.shutdown().await;
}
