//! Requests about keys, from the API's messages to the store's.
//!
//! etcd checked them before it wrote them down; what would not have passed is refused, because then
//! this is not what it seems to be.

use vetch_api::pb;
use vetch_api::pb::compare::TargetUnion;
use vetch_api::pb::request_op::Request;
use vetch_node::store::request::{
    Compare, CompareResult, CompareTarget, DeleteRangeRequest, KeyRange, PutRequest, RangeRequest, RequestOp,
    TxnRequest,
};
use vetch_node::store::{StoreError, validate};

fn text(error: StoreError) -> String {
    error.to_string()
}

pub(super) fn put(request: pb::PutRequest) -> Result<PutRequest, String> {
    let request = put_fields(request);
    validate::put(&request).map_err(text)?;
    Ok(request)
}

pub(super) fn delete_range(request: pb::DeleteRangeRequest) -> Result<DeleteRangeRequest, String> {
    let request = delete_fields(request);
    validate::delete_range(&request).map_err(text)?;
    Ok(request)
}

/// How many operations were allowed is not known any more, so it is not asked.
pub(super) fn txn(request: pb::TxnRequest) -> Result<TxnRequest, String> {
    let request = txn_fields(request);
    validate::txn(&request, usize::MAX).map_err(text)?;
    Ok(request)
}

fn put_fields(request: pb::PutRequest) -> PutRequest {
    PutRequest {
        key: request.key,
        value: request.value,
        lease: request.lease,
        prev_kv: request.prev_kv,
        ignore_value: request.ignore_value,
        ignore_lease: request.ignore_lease,
    }
}

fn delete_fields(request: pb::DeleteRangeRequest) -> DeleteRangeRequest {
    DeleteRangeRequest { range: KeyRange::new(request.key, request.range_end), prev_kv: request.prev_kv }
}

/// Nobody waits for what it reads, but a revision that cannot be read is why a transaction was
/// refused.
fn range_fields(request: pb::RangeRequest) -> RangeRequest {
    let range = KeyRange::new(request.key, request.range_end);
    RangeRequest { revision: request.revision, count_only: true, ..RangeRequest::new(range) }
}

fn txn_fields(request: pb::TxnRequest) -> TxnRequest {
    let ops = |ops: Vec<pb::RequestOp>| ops.into_iter().map(op_fields).collect();
    TxnRequest {
        compare: request.compare.into_iter().map(compare).collect(),
        success: ops(request.success),
        failure: ops(request.failure),
    }
}

fn op_fields(op: pb::RequestOp) -> RequestOp {
    match op.request {
        Some(Request::RequestRange(range)) => RequestOp::Range(range_fields(range)),
        Some(Request::RequestPut(put)) => RequestOp::Put(put_fields(put)),
        Some(Request::RequestDeleteRange(delete)) => RequestOp::DeleteRange(delete_fields(delete)),
        Some(Request::RequestTxn(txn)) => RequestOp::Txn(txn_fields(txn)),
        None => RequestOp::Empty,
    }
}

fn compare(compare: pb::Compare) -> Compare {
    let result = match compare.result {
        0 => CompareResult::Equal,
        1 => CompareResult::Greater,
        2 => CompareResult::Less,
        3 => CompareResult::NotEqual,
        _ => CompareResult::Unknown,
    };
    let range = KeyRange::new(compare.key, compare.range_end);
    Compare { range, result, target: target(compare.target, compare.target_union) }
}

/// The operand counts only if it is of the target's kind; any other is as if none had been given.
fn target(target: i32, operand: Option<TargetUnion>) -> CompareTarget {
    match (target, operand) {
        (0, Some(TargetUnion::Version(version))) => CompareTarget::Version(version),
        (0, _) => CompareTarget::Version(0),
        (1, Some(TargetUnion::CreateRevision(revision))) => CompareTarget::Create(revision),
        (1, _) => CompareTarget::Create(0),
        (2, Some(TargetUnion::ModRevision(revision))) => CompareTarget::Mod(revision),
        (2, _) => CompareTarget::Mod(0),
        (3, Some(TargetUnion::Value(value))) => CompareTarget::Value(value),
        (3, _) => CompareTarget::Value(bytes::Bytes::new()),
        (4, Some(TargetUnion::Lease(lease))) => CompareTarget::Lease(lease),
        (4, _) => CompareTarget::Lease(0),
        _ => CompareTarget::Unknown,
    }
}
