//! Translation between the specification's vocabulary and the node's.

use bytes::Bytes;
use vetch_model as model;
use vetch_node::error::NodeError;
use vetch_node::watch::{Create, Filters, NodeEvent};
use vetch_store::StoreError;
use vetch_store::record::Record;
use vetch_store::request as store;

pub(crate) fn keys(keys: &model::Keys) -> store::KeyRange {
    store::KeyRange::new(keys.key.clone(), keys.range_end.clone())
}

pub(crate) fn range(range: &model::Range) -> store::RangeRequest {
    store::RangeRequest {
        range: keys(&range.keys),
        limit: range.limit,
        revision: range.revision,
        sort_order: match range.sort_order {
            model::SortOrder::None => store::SortOrder::None,
            model::SortOrder::Ascend => store::SortOrder::Ascend,
            model::SortOrder::Descend => store::SortOrder::Descend,
        },
        sort_target: match range.sort_target {
            model::SortTarget::Key => store::SortTarget::Key,
            model::SortTarget::Version => store::SortTarget::Version,
            model::SortTarget::Create => store::SortTarget::Create,
            model::SortTarget::Mod => store::SortTarget::Mod,
            model::SortTarget::Value => store::SortTarget::Value,
        },
        serializable: range.serializable,
        keys_only: range.keys_only,
        count_only: range.count_only,
        min_mod_revision: range.min_mod_revision,
        max_mod_revision: range.max_mod_revision,
        min_create_revision: range.min_create_revision,
        max_create_revision: range.max_create_revision,
    }
}

pub(crate) fn put(put: &model::Put) -> store::PutRequest {
    store::PutRequest {
        key: Bytes::copy_from_slice(&put.key),
        value: Bytes::copy_from_slice(&put.value),
        lease: put.lease,
        prev_kv: put.prev_kv,
        ignore_value: put.ignore_value,
        ignore_lease: put.ignore_lease,
    }
}

pub(crate) fn delete(delete: &model::Delete) -> store::DeleteRangeRequest {
    store::DeleteRangeRequest { range: keys(&delete.keys), prev_kv: delete.prev_kv }
}

pub(crate) fn txn(txn: &model::Txn) -> store::TxnRequest {
    store::TxnRequest {
        compare: txn.compare.iter().map(compare).collect(),
        success: txn.success.iter().map(op).collect(),
        failure: txn.failure.iter().map(op).collect(),
    }
}

fn compare(compare: &model::Compare) -> store::Compare {
    store::Compare {
        range: keys(&compare.keys),
        result: match compare.result {
            model::CompareResult::Equal => store::CompareResult::Equal,
            model::CompareResult::Greater => store::CompareResult::Greater,
            model::CompareResult::Less => store::CompareResult::Less,
            model::CompareResult::NotEqual => store::CompareResult::NotEqual,
            model::CompareResult::Unknown => store::CompareResult::Unknown,
        },
        target: match &compare.target {
            model::CompareTarget::Version(n) => store::CompareTarget::Version(*n),
            model::CompareTarget::Create(n) => store::CompareTarget::Create(*n),
            model::CompareTarget::Mod(n) => store::CompareTarget::Mod(*n),
            model::CompareTarget::Value(value) => store::CompareTarget::Value(Bytes::copy_from_slice(value)),
            model::CompareTarget::Lease(id) => store::CompareTarget::Lease(*id),
            model::CompareTarget::Unknown => store::CompareTarget::Unknown,
        },
    }
}

fn op(op: &model::Op) -> store::RequestOp {
    match op {
        model::Op::Range(op) => store::RequestOp::Range(range(op)),
        model::Op::Put(op) => store::RequestOp::Put(put(op)),
        model::Op::Delete(op) => store::RequestOp::DeleteRange(delete(op)),
        model::Op::Txn(op) => store::RequestOp::Txn(txn(op)),
        model::Op::Empty => store::RequestOp::Empty,
    }
}

pub(crate) fn watch(watch: &model::Watch, watch_id: i64) -> Create {
    Create {
        key: watch.keys.key.clone(),
        range_end: watch.keys.range_end.clone(),
        start_revision: watch.start_revision,
        watch_id,
        prev_kv: watch.prev_kv,
        fragment: watch.fragment,
        progress_notify: watch.progress_notify,
        filters: Filters { no_put: watch.no_put, no_delete: watch.no_delete },
    }
}

/// As the wire shows it: a deletion has only key and revision.
pub(crate) fn kv(record: &Record) -> model::KeyValue {
    let deleted = record.is_tombstone();
    model::KeyValue {
        key: record.key().to_vec(),
        value: record.value().to_vec(),
        create_revision: if deleted { 0 } else { record.create_revision() },
        mod_revision: record.mod_revision(),
        version: record.version(),
        lease: record.lease(),
    }
}

pub(crate) fn kvs(records: &[Record]) -> Vec<model::KeyValue> {
    records.iter().map(kv).collect()
}

pub(crate) fn ranged(response: &store::RangeResponse) -> model::Ranged {
    model::Ranged { kvs: kvs(&response.kvs), more: response.more, count: response.count }
}

pub(crate) fn deleted(response: &store::DeleteRangeResponse) -> model::Deleted {
    model::Deleted { deleted: response.deleted, prev_kvs: kvs(&response.prev_kvs) }
}

pub(crate) fn txn_done(response: &store::TxnResponse) -> model::TxnAnswer {
    let answer = |response: &store::ResponseOp| match response {
        store::ResponseOp::Range(response) => model::OpAnswer::Range(ranged(response)),
        store::ResponseOp::Put(response) => {
            model::OpAnswer::Put { prev_kv: response.prev_kv.as_ref().map(kv) }
        }
        store::ResponseOp::DeleteRange(response) => model::OpAnswer::Delete(deleted(response)),
        store::ResponseOp::Txn(response) => model::OpAnswer::Txn(txn_done(response)),
    };
    model::TxnAnswer {
        succeeded: response.succeeded,
        responses: response.responses.iter().map(answer).collect(),
    }
}

pub(crate) fn event(NodeEvent(event): &NodeEvent, prev_kv: bool) -> model::Event {
    model::Event {
        deleted: event.kv.is_tombstone(),
        kv: kv(&event.kv),
        prev_kv: event.prev.as_ref().filter(|_| prev_kv).map(kv),
    }
}

/// What a refusal means to a client. The error is something that well-formed requests must never
/// meet.
pub(crate) fn refusal(error: StoreError) -> Result<model::Refusal, StoreError> {
    match error {
        StoreError::Compacted => Ok(model::Refusal::Compacted),
        StoreError::FutureRevision => Ok(model::Refusal::FutureRevision),
        StoreError::LeaseNotFound => Ok(model::Refusal::LeaseNotFound),
        StoreError::LeaseExists => Ok(model::Refusal::LeaseExists),
        StoreError::LeaseTtlTooLarge => Ok(model::Refusal::LeaseTtlTooLarge),
        StoreError::KeyNotFound => Ok(model::Refusal::KeyNotFound),
        other => Err(other),
    }
}

/// The outcome of a request that was not served.
pub(crate) fn not_served(error: &NodeError) -> Result<vetch_check::Outcome, StoreError> {
    Ok(match error {
        NodeError::Store(error) => vetch_check::Outcome::Refused(refusal(*error)?),
        NodeError::TooManyRequests
        | NodeError::NoSpace
        | NodeError::DiskFails
        | NodeError::Corrupt
        | NodeError::NotLeader
        | NodeError::LeaderChanged => vetch_check::Outcome::NotDone,
        NodeError::Stopped | NodeError::Timeout => vetch_check::Outcome::Unknown,
    })
}
