//! The gRPC services over a real node, called in process: a client's channel is the services
//! themselves.
//!
//! What is expected here was observed on etcd 3.7.1 with the same requests, unless a test says
//! otherwise.

#![allow(clippy::unwrap_used, reason = "a step that fails fails the test")]

mod auth;
mod cluster;
mod kept_connections;
mod kv;
mod lease;
mod operator;
mod peer;
mod recipes;
mod router;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use tonic::{Code, Status};
use vetch_api::pb::ResponseHeader;
use vetch_api::pb::kv_client::KvClient;
use vetch_api::pb::lease_client::LeaseClient;
use vetch_api::{mvccpb, pb};
use vetch_checkpoint::identity::Identity;
use vetch_metrics::ServerMetrics;
use vetch_node::Node;
use vetch_node::config::NodeConfig;
use vetch_server::auth as server_auth;
use vetch_server::grpc::{self, Rpc, Settings};

pub(crate) const MEMBER: u64 = 0xc9f7_51f0_b0b4_fa5a;
pub(crate) const CLUSTER: u64 = 7;

/// A node with nothing in it and all its services.
pub(crate) struct World {
    pub(crate) rpc: Rpc,
    pub(crate) node: Node,
    dir: tempfile::TempDir,
}

impl World {
    pub(crate) async fn new() -> World {
        World::open(tempfile::tempdir().unwrap(), false).await
    }

    /// The same, where a certificate stands for its user.
    pub(crate) async fn with_certificates() -> World {
        World::open(tempfile::tempdir().unwrap(), true).await
    }

    /// Another server on the same data.
    pub(crate) async fn restart(self) -> World {
        self.node.shutdown().await;
        World::open(self.dir, false).await
    }

    async fn open(dir: tempfile::TempDir, client_cert_auth: bool) -> World {
        let identity = Identity { cluster_id: CLUSTER, member_id: MEMBER };
        let mut config = NodeConfig::new(dir.path().into(), identity);
        config.unsafe_no_fsync = true;
        let opening = tokio::task::spawn_blocking(move || Node::open(config, |_| {}));
        let node = opening.await.unwrap().unwrap();
        let settings = Settings {
            name: "m1".into(),
            client_urls: vec!["http://127.0.0.1:2379".into()],
            peer_urls: vec!["http://127.0.0.1:2380".into()],
            // Quick, because these passwords need no protection.
            auth: server_auth::Settings {
                bcrypt_cost: 4,
                client_cert_auth,
                ..server_auth::Settings::default()
            },
            ..Settings::default()
        };
        let metrics = Arc::new(ServerMetrics::new(false, Duration::MAX));
        World { rpc: grpc::routes(node.clone(), Arc::new(settings), metrics), node, dir }
    }

    pub(crate) fn kv(&self) -> KvClient<Rpc> {
        KvClient::new(self.rpc.clone()).max_decoding_message_size(usize::MAX)
    }

    pub(crate) fn leases(&self) -> LeaseClient<Rpc> {
        LeaseClient::new(self.rpc.clone())
    }

    /// Writes one key; returns the revision.
    pub(crate) async fn put(&self, key: &'static str, value: &'static str) -> i64 {
        let request = pb::PutRequest { key: key.into(), value: value.into(), ..Default::default() };
        self.kv().put(request).await.unwrap().into_inner().header.unwrap().revision
    }

    pub(crate) async fn delete(&self, key: &'static str) -> i64 {
        let request = pb::DeleteRangeRequest { key: key.into(), ..Default::default() };
        self.kv().delete_range(request).await.unwrap().into_inner().header.unwrap().revision
    }

    /// All keys that start with `prefix`, whose last byte is not 255.
    pub(crate) async fn under(&self, prefix: &str) -> Vec<mvccpb::KeyValue> {
        let mut end = prefix.as_bytes().to_vec();
        *end.last_mut().unwrap() += 1;
        let request =
            pb::RangeRequest { key: prefix.to_owned().into(), range_end: end.into(), ..Default::default() };
        self.kv().range(request).await.unwrap().into_inner().kvs
    }

    pub(crate) async fn grant(&self, id: i64) {
        let request = pb::LeaseGrantRequest { id, ttl: 1000 };
        self.leases().lease_grant(request).await.unwrap();
    }

    /// The header of an answer about the store at `revision`, in the first epoch of a data
    /// directory.
    pub(crate) fn header(&self, revision: i64) -> Option<ResponseHeader> {
        let raft_term = self.node.term();
        Some(ResponseHeader { cluster_id: CLUSTER, member_id: MEMBER, revision, raft_term })
    }
}

/// Code and text of a refusal.
pub(crate) fn refused<T: std::fmt::Debug>(answer: Result<tonic::Response<T>, Status>) -> (Code, String) {
    let status = answer.expect_err("the request should have been refused");
    (status.code(), status.message().to_owned())
}
