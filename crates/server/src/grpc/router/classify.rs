//! Which requests any server of a cluster answers, and which only the leader can.

use bytes::{Buf, Bytes};
use http::Request;
use http_body_util::{BodyExt, Full};
use prost::Message;
use tonic::Status;
use tonic::body::Body;
use vetch_api::pb;
use vetch_api::pb::request_op::Request as Op;

use crate::grpc::kv_call::KvMethod;

/// Bytes of a message before it: whether it is compressed, and its length.
const PREFIX: usize = 5;

pub(super) enum Target {
    Local(Request<Body>),
    Leader(Request<Body>),
    Invalid(Status),
}

pub(super) async fn classify(request: Request<Body>) -> Target {
    match request.uri().path() {
        "/etcdserverpb.KV/Txn" => classify_txn(request).await,
        path if is_served_by_any_member(path) => Target::Local(request),
        _ => Target::Leader(request),
    }
}

/// Calls that need not be looked at to know that any server answers them.
pub(super) fn is_read(call: KvMethod) -> bool {
    match call {
        KvMethod::Range => true,
        KvMethod::Put | KvMethod::DeleteRange | KvMethod::Txn => false,
    }
}

/// Reads, which need only a read index from the leader; watches; and requests about this very
/// server.
fn is_served_by_any_member(path: &str) -> bool {
    match path.strip_prefix('/').and_then(|path| path.split_once('/')) {
        Some(("etcdserverpb.KV", method)) => matches!(method, "Range" | "RangeStream"),
        Some(("etcdserverpb.Watch" | "grpc.health.v1.Health", _)) => true,
        Some(("etcdserverpb.Maintenance", method)) => !matches!(method, "Alarm" | "Downgrade"),
        Some(("etcdserverpb.Cluster", method)) => method == "MemberList",
        _ => false,
    }
}

/// A transaction that only reads is a read.
async fn classify_txn(request: Request<Body>) -> Target {
    let (head, body) = request.into_parts();
    // As long as the front lets messages be, which hands them on whole.
    let bytes = match body.collect().await {
        Ok(collected) => collected.to_bytes(),
        Err(error) => return Target::Invalid(error),
    };
    let only_reads = only_reads(bytes.clone());
    let request = Request::from_parts(head, Body::new(Full::new(bytes)));
    if only_reads { Target::Local(request) } else { Target::Leader(request) }
}

/// Whether the message is a transaction without anything in it that could write. The leader decides
/// about all others.
fn only_reads(mut bytes: Bytes) -> bool {
    if bytes.len() < PREFIX || bytes[0] != 0 {
        return false;
    }
    bytes.advance(PREFIX);
    pb::TxnRequest::decode(bytes).is_ok_and(|txn| is_read_only(&txn))
}

fn is_read_only(txn: &pb::TxnRequest) -> bool {
    txn.success.iter().chain(&txn.failure).all(|op| match &op.request {
        Some(Op::RequestRange(_)) => true,
        Some(Op::RequestTxn(txn)) => is_read_only(txn),
        Some(Op::RequestPut(_) | Op::RequestDeleteRange(_)) | None => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framed(ops: Vec<Op>) -> Bytes {
        let success = ops.into_iter().map(|op| pb::RequestOp { request: Some(op) }).collect();
        let encoded = pb::TxnRequest { success, ..Default::default() }.encode_to_vec();
        let length = u32::try_from(encoded.len()).unwrap().to_be_bytes();
        [&[0][..], &length, &encoded].concat().into()
    }

    #[test]
    fn only_a_transaction_that_reads_stays_here() {
        let (range, put) = (pb::RangeRequest::default(), pb::PutRequest::default());
        assert!(only_reads(framed(vec![])));
        assert!(only_reads(framed(vec![Op::RequestRange(range.clone())])));
        let nested =
            |op| pb::TxnRequest { failure: vec![pb::RequestOp { request: Some(op) }], ..Default::default() };
        assert!(only_reads(framed(vec![Op::RequestTxn(nested(Op::RequestRange(range)))])));
        assert!(!only_reads(framed(vec![Op::RequestTxn(nested(Op::RequestPut(put)))])));
        assert!(!only_reads(framed(vec![Op::RequestDeleteRange(Default::default())])));
        assert!(!only_reads(Bytes::from_static(b"\x01\0\0\0\0")), "compressed");
        assert!(!only_reads(Bytes::new()));
    }

    #[test]
    fn what_changes_something_is_the_writers() {
        for path in [
            "/etcdserverpb.KV/Put",
            "/etcdserverpb.KV/Compact",
            "/etcdserverpb.Lease/LeaseKeepAlive",
            "/etcdserverpb.Auth/UserAdd",
        ] {
            assert!(!is_served_by_any_member(path), "{path}");
        }
        for path in [
            "/etcdserverpb.KV/Range",
            "/etcdserverpb.KV/RangeStream",
            "/etcdserverpb.Watch/Watch",
            "/etcdserverpb.Maintenance/Status",
        ] {
            assert!(is_served_by_any_member(path), "{path}");
        }
    }
}
