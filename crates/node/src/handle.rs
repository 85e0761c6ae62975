//! Node: the handle everything above uses.

use std::sync::Arc;

use vetch_store::request::{
    Alarm, DeleteRangeRequest, DeleteRangeResponse, PutRequest, PutResponse, RangeRequest, RangeResponse,
    TxnRequest, TxnResponse,
};

use crate::config::{Identity, NodeConfig};
use crate::error::{NodeError, OpenError};
use crate::types::*;

/// A running node. Cloning copies a pointer.
#[derive(Clone)]
pub struct Node {
    _inner: Arc<()>,
}

impl Node {
    /// Recovers the data directory and starts the node's threads. Blocks until it can serve.
    pub fn open(_config: NodeConfig, _progress: impl FnMut(Progress)) -> Result<Node, OpenError> {
        Err(OpenError::Refused("not built".into()))
    }
    pub fn identity(&self) -> Identity {
        Identity { cluster_id: 0, member_id: 0 }
    }
    pub fn revision(&self) -> i64 {
        1
    }
    pub fn term(&self) -> u64 {
        2
    }
    pub async fn range(&self, _r: RangeRequest) -> Result<RangeResponse, NodeError> {
        Err(NodeError::Stopped)
    }
    pub fn range_stream(&self, _r: RangeRequest, _chunk_bytes: usize) -> RangeStream {
        RangeStream {}
    }
    pub async fn put(&self, _r: PutRequest) -> Result<PutResponse, NodeError> {
        Err(NodeError::Stopped)
    }
    pub async fn delete_range(&self, _r: DeleteRangeRequest) -> Result<DeleteRangeResponse, NodeError> {
        Err(NodeError::Stopped)
    }
    pub async fn txn(&self, _r: TxnRequest) -> Result<TxnResponse, NodeError> {
        Err(NodeError::Stopped)
    }
    pub async fn compact(&self, _revision: i64, _physical: bool) -> Result<i64, NodeError> {
        Err(NodeError::Stopped)
    }
    pub async fn lease_grant(&self, _id: i64, _ttl: i64) -> Result<LeaseGranted, NodeError> {
        Err(NodeError::Stopped)
    }
    pub async fn lease_revoke(&self, _id: i64) -> Result<i64, NodeError> {
        Err(NodeError::Stopped)
    }
    /// The renewed time to live in seconds; 0 when there is no such lease (any more).
    pub async fn lease_keep_alive(&self, _id: i64) -> Result<i64, NodeError> {
        Err(NodeError::Stopped)
    }
    pub async fn lease_time_to_live(&self, _id: i64, _keys: bool) -> Result<Option<LeaseInfo>, NodeError> {
        Err(NodeError::Stopped)
    }
    pub async fn leases(&self) -> Result<Vec<i64>, NodeError> {
        Err(NodeError::Stopped)
    }
    pub async fn alarm(&self, _action: AlarmAction, _which: AlarmSelector) -> Result<Vec<Alarm>, NodeError> {
        Err(NodeError::Stopped)
    }
    pub fn alarms(&self) -> Vec<Alarm> {
        Vec::new()
    }
    pub fn status(&self) -> NodeStatus {
        NodeStatus::default()
    }
    pub async fn hash_kv(&self, _revision: i64) -> Result<HashKv, NodeError> {
        Err(NodeError::Stopped)
    }
    pub async fn hash(&self) -> Result<(u32, i64), NodeError> {
        Err(NodeError::Stopped)
    }
    /// A hint: nothing here ever needs to stop the world to give space back.
    pub async fn defragment(&self) -> Result<(), NodeError> {
        Err(NodeError::Stopped)
    }
    /// Ends the node: nothing new is accepted, what is in flight becomes durable and is answered.
    pub async fn shutdown(&self) {}
    /// Resolves when the node has stopped.
    pub async fn stopped(&self) {}
}

/// A range being streamed at one revision.
pub struct RangeStream {}

impl RangeStream {
    pub async fn next(&mut self) -> Option<Result<RangeChunk, NodeError>> {
        None
    }
}
