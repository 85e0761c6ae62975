//! A node that follows another server, and then leads.
#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use vetch_checkpoint::identity::Identity;
use vetch_node::config::NodeConfig;
use vetch_node::error::NodeError;
use vetch_node::store::auth::Caller;
use vetch_node::store::record::Fields;
use vetch_node::store::request::{KeyRange, PutRequest, RangeRequest};
use vetch_node::store::{Record, StoreError};
use vetch_node::{Follower, Node};
use vetch_testkit::valid::Valid;

fn config(dir: &Path) -> NodeConfig {
    NodeConfig::new(dir.to_path_buf(), Identity { cluster_id: 1, member_id: 2 })
}

fn follow(dir: &Path) -> Follower {
    Follower::open(config(dir), |_| {}).unwrap()
}

fn created(key: &str, revision: i64, lease: i64) -> Vec<Record> {
    vec![Record::new(Fields {
        key: key.as_bytes(),
        value: b"v",
        create_revision: revision,
        mod_revision: revision,
        version: 1,
        lease,
        sub: 0,
    })]
}

fn put(key: &'static str) -> PutRequest {
    let (key, value) = (key.into(), "v".into());
    PutRequest { key, value, lease: 0, prev_kv: false, ignore_value: false, ignore_lease: false }
}

async fn keys(node: &Node) -> usize {
    let all = RangeRequest::new(KeyRange::new(&b"\0"[..], &b"\0"[..]));
    node.range(all.valid()).await.unwrap().kvs.len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_decided_before_it_leads() {
    let dir = tempfile::tempdir().unwrap();
    let follower = follow(dir.path());
    follower.grant(7, 1).await.unwrap();
    follower.grant(7, 1).await.unwrap();
    follower.take_over(vec![created("a", 2, 7), created("b", 3, 0), created("c", 4, 0)]).await.unwrap();
    let client = follower.node().for_caller(Caller::Anonymous);
    assert_eq!(client.put(put("x").valid()).await, Err(NodeError::Stopped), "clients are refused");
    tokio::time::sleep(Duration::from_millis(1800)).await;
    assert_eq!(keys(follower.node()).await, 3, "no lease ends by our clock");
    assert!(!follower.forget(7).await.unwrap(), "a lease with keys is not forgotten");

    let node = follower.lead(&HashMap::from([(7, 1)]));
    assert_eq!(client.put(put("x").valid()).await.unwrap().revision, 5);
    assert_eq!(keys(&node).await, 4, "the lease has its time from now on");
    tokio::time::sleep(Duration::from_millis(2000)).await;
    assert_eq!(keys(&node).await, 3, "and ends when that is over");
    assert_eq!(node.revision(), 6);
    node.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_goes_on_behind_the_last_revision_and_misfits_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let follower = follow(dir.path());
    follower.grant(8, 60).await.unwrap();
    follower.take_over((2..500).map(|n| created(&format!("k{n}"), n, 0)).collect()).await.unwrap();
    let hash = follower.node().hash_kv(0).await.unwrap();
    follower.node().shutdown().await;
    drop(follower);

    let follower = follow(dir.path());
    assert_eq!(follower.node().revision(), 499);
    assert_eq!(follower.node().hash_kv(0).await.unwrap(), hash);
    let again = follower.take_over(vec![created("again", 499, 0)]).await;
    assert!(matches!(again, Err(NodeError::Store(StoreError::Misfit(_)))), "{again:?}");
    let gap = follower.take_over(vec![created("late", 501, 0), created("later", 502, 0)]).await;
    assert!(matches!(gap, Err(NodeError::Store(StoreError::Misfit(_)))), "{gap:?}");
    follower.settle().await.unwrap();
    assert_eq!(follower.node().revision(), 499);
    let lease = follower.leases()[0];
    assert_eq!((lease.id, lease.ttl, lease.has_keys), (8, 60, false));
    assert!(follower.forget(8).await.unwrap() && !follower.knows_lease(8));
    assert_eq!(follower.node().revision(), 499, "forgetting a lease is no revision");
    follower.node().shutdown().await;
}
