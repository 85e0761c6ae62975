//! Between the words of the history and those of the wire, and what an error says about whether
//! anything happened.

use anyhow::{Context, Result, bail};
use tonic::Status;
use vetch_api::pb::{compare::TargetUnion, request_op, response_op};
use vetch_api::{mvccpb, pb};
use vetch_check::Outcome;
use vetch_model::{
    Compare, CompareResult, CompareTarget, Delete, Deleted, Event, KeyValue, Op, OpAnswer, Put, Range,
    Ranged, Refusal, Txn, TxnAnswer, Watch,
};

use super::values::{expand, shorten};

pub(super) fn range(range: &Range) -> pb::RangeRequest {
    pb::RangeRequest {
        key: range.keys.key.clone().into(),
        range_end: range.keys.range_end.clone().into(),
        limit: range.limit,
        revision: range.revision,
        sort_order: range.sort_order as i32,
        sort_target: range.sort_target as i32,
        serializable: range.serializable,
        keys_only: range.keys_only,
        count_only: range.count_only,
        min_mod_revision: range.min_mod_revision,
        max_mod_revision: range.max_mod_revision,
        min_create_revision: range.min_create_revision,
        max_create_revision: range.max_create_revision,
    }
}

pub(super) fn put(put: &Put) -> pb::PutRequest {
    pb::PutRequest {
        key: put.key.clone().into(),
        value: expand(&put.value).into(),
        lease: put.lease,
        prev_kv: put.prev_kv,
        ignore_value: put.ignore_value,
        ignore_lease: put.ignore_lease,
    }
}

pub(super) fn delete(delete: &Delete) -> pb::DeleteRangeRequest {
    pb::DeleteRangeRequest {
        key: delete.keys.key.clone().into(),
        range_end: delete.keys.range_end.clone().into(),
        prev_kv: delete.prev_kv,
    }
}

pub(crate) fn txn(txn: &Txn) -> pb::TxnRequest {
    pb::TxnRequest {
        compare: txn.compare.iter().map(compare).collect(),
        success: txn.success.iter().map(op).collect(),
        failure: txn.failure.iter().map(op).collect(),
    }
}

fn op(op: &Op) -> pb::RequestOp {
    let request = match op {
        Op::Range(request) => Some(request_op::Request::RequestRange(range(request))),
        Op::Put(request) => Some(request_op::Request::RequestPut(put(request))),
        Op::Delete(request) => Some(request_op::Request::RequestDeleteRange(delete(request))),
        Op::Txn(request) => Some(request_op::Request::RequestTxn(txn(request))),
        Op::Empty => None,
    };
    pb::RequestOp { request }
}

fn compare(compare: &Compare) -> pb::Compare {
    // A number that the API does not define stands for the unknown ones.
    const UNDEFINED: i32 = 99;
    let result = match compare.result {
        CompareResult::Equal => 0,
        CompareResult::Greater => 1,
        CompareResult::Less => 2,
        CompareResult::NotEqual => 3,
        CompareResult::Unknown => UNDEFINED,
    };
    let (target, target_union) = match &compare.target {
        CompareTarget::Version(operand) => (0, Some(TargetUnion::Version(*operand))),
        CompareTarget::Create(operand) => (1, Some(TargetUnion::CreateRevision(*operand))),
        CompareTarget::Mod(operand) => (2, Some(TargetUnion::ModRevision(*operand))),
        CompareTarget::Value(operand) => (3, Some(TargetUnion::Value(expand(operand).into()))),
        CompareTarget::Lease(operand) => (4, Some(TargetUnion::Lease(*operand))),
        CompareTarget::Unknown => (UNDEFINED, None),
    };
    pb::Compare {
        result,
        target,
        key: compare.keys.key.clone().into(),
        range_end: compare.keys.range_end.clone().into(),
        target_union,
    }
}

pub(crate) fn watch(watch: &Watch, watch_id: i64) -> pb::WatchCreateRequest {
    let mut filters = Vec::new();
    if watch.no_put {
        filters.push(pb::watch_create_request::FilterType::Noput as i32);
    }
    if watch.no_delete {
        filters.push(pb::watch_create_request::FilterType::Nodelete as i32);
    }
    pb::WatchCreateRequest {
        key: watch.keys.key.clone().into(),
        range_end: watch.keys.range_end.clone().into(),
        start_revision: watch.start_revision,
        progress_notify: watch.progress_notify,
        filters,
        prev_kv: watch.prev_kv,
        watch_id,
        fragment: watch.fragment,
    }
}

pub(crate) fn key_value(kv: &mvccpb::KeyValue) -> KeyValue {
    KeyValue {
        key: kv.key.to_vec(),
        value: shorten(&kv.value),
        create_revision: kv.create_revision,
        mod_revision: kv.mod_revision,
        version: kv.version,
        lease: kv.lease,
    }
}

pub(crate) fn event(event: &mvccpb::Event) -> Result<Event> {
    Ok(Event {
        deleted: event.r#type == mvccpb::event::EventType::Delete as i32,
        kv: key_value(event.kv.as_ref().context("an event without a key")?),
        prev_kv: event.prev_kv.as_ref().map(key_value),
    })
}

pub(super) fn ranged(response: &pb::RangeResponse) -> Ranged {
    Ranged { kvs: response.kvs.iter().map(key_value).collect(), more: response.more, count: response.count }
}

pub(super) fn deleted(response: &pb::DeleteRangeResponse) -> Deleted {
    Deleted { deleted: response.deleted, prev_kvs: response.prev_kvs.iter().map(key_value).collect() }
}

pub(super) fn txn_answer(response: &pb::TxnResponse) -> Result<TxnAnswer> {
    let mut responses = Vec::new();
    for part in &response.responses {
        responses.push(match &part.response {
            Some(response_op::Response::ResponseRange(part)) => OpAnswer::Range(ranged(part)),
            Some(response_op::Response::ResponsePut(part)) => {
                OpAnswer::Put { prev_kv: part.prev_kv.as_ref().map(key_value) }
            }
            Some(response_op::Response::ResponseDeleteRange(part)) => OpAnswer::Delete(deleted(part)),
            Some(response_op::Response::ResponseTxn(part)) => OpAnswer::Txn(txn_answer(part)?),
            None => bail!("a transaction's answer has an empty part"),
        });
    }
    Ok(TxnAnswer { succeeded: response.succeeded, responses })
}

/// What an error says about the request: refused by a rule, certainly not done, or nothing.
pub(super) fn failure(status: &Status) -> Outcome {
    let message = status.message().strip_prefix("etcdserver: ").unwrap_or_default();
    match message {
        "mvcc: required revision has been compacted" => Outcome::Refused(Refusal::Compacted),
        "mvcc: required revision is a future revision" => Outcome::Refused(Refusal::FutureRevision),
        "requested lease not found" => Outcome::Refused(Refusal::LeaseNotFound),
        "lease already exists" => Outcome::Refused(Refusal::LeaseExists),
        "too large lease TTL" => Outcome::Refused(Refusal::LeaseTtlTooLarge),
        "key not found" => Outcome::Refused(Refusal::KeyNotFound),
        "too many requests" | "mvcc: database space exceeded" | "request is too large" | "no leader" => {
            Outcome::NotDone
        }
        _ => Outcome::Unknown,
    }
}
