//! The store's requests, records and responses in the types of the specification.

use vetch_model as model;
use vetch_store::request::*;
use vetch_store::{Mark, Record, StoreError};

pub fn keys(range: &KeyRange) -> model::Keys {
    model::Keys::between(range.key.to_vec(), range.range_end.to_vec())
}

/// None: the specification knows nothing of remaining times and alarms.
pub fn request(request: &WriteRequest) -> Option<model::Request> {
    Some(match request {
        WriteRequest::Put(request) => model::Request::Put(put(request)),
        WriteRequest::DeleteRange(request) => model::Request::Delete(delete(request)),
        WriteRequest::Txn(request) => model::Request::Txn(txn(request)),
        WriteRequest::Compact { revision } => model::Request::Compact { revision: *revision },
        WriteRequest::LeaseGrant { id, ttl } => model::Request::LeaseGrant { id: *id, ttl: *ttl },
        WriteRequest::LeaseRevoke { id } => model::Request::LeaseRevoke { id: *id },
        // The end of a lease that is no more ends nothing, whatever has its id now.
        WriteRequest::LeaseExpire { grant: u64::MAX, .. } => model::Request::LeaseRevoke { id: 0 },
        WriteRequest::LeaseExpire { id, .. } => model::Request::LeaseRevoke { id: *id },
        WriteRequest::LeaseRemaining { .. }
        | WriteRequest::AlarmActivate(_)
        | WriteRequest::AlarmDeactivate(_)
        | WriteRequest::Auth(_)
        | WriteRequest::Foreign { .. } => return None,
    })
}

pub fn range(request: &RangeRequest) -> model::Range {
    model::Range {
        keys: keys(&request.range),
        limit: request.limit,
        revision: request.revision,
        sort_order: match request.sort_order {
            SortOrder::None => model::SortOrder::None,
            SortOrder::Ascend => model::SortOrder::Ascend,
            SortOrder::Descend => model::SortOrder::Descend,
        },
        sort_target: match request.sort_target {
            SortTarget::Key => model::SortTarget::Key,
            SortTarget::Version => model::SortTarget::Version,
            SortTarget::Create => model::SortTarget::Create,
            SortTarget::Mod => model::SortTarget::Mod,
            SortTarget::Value => model::SortTarget::Value,
        },
        serializable: request.serializable,
        keys_only: request.keys_only,
        count_only: request.count_only,
        min_mod_revision: request.min_mod_revision,
        max_mod_revision: request.max_mod_revision,
        min_create_revision: request.min_create_revision,
        max_create_revision: request.max_create_revision,
    }
}

pub fn put(request: &PutRequest) -> model::Put {
    model::Put {
        key: request.key.to_vec(),
        value: request.value.to_vec(),
        lease: request.lease,
        prev_kv: request.prev_kv,
        ignore_value: request.ignore_value,
        ignore_lease: request.ignore_lease,
    }
}

pub fn delete(request: &DeleteRangeRequest) -> model::Delete {
    model::Delete { keys: keys(&request.range), prev_kv: request.prev_kv }
}

pub fn txn(request: &TxnRequest) -> model::Txn {
    model::Txn {
        compare: request.compare.iter().map(compare).collect(),
        success: request.success.iter().map(op).collect(),
        failure: request.failure.iter().map(op).collect(),
    }
}

fn op(op: &RequestOp) -> model::Op {
    match op {
        RequestOp::Range(request) => model::Op::Range(range(request)),
        RequestOp::Put(request) => model::Op::Put(put(request)),
        RequestOp::DeleteRange(request) => model::Op::Delete(delete(request)),
        RequestOp::Txn(request) => model::Op::Txn(txn(request)),
        RequestOp::Empty => model::Op::Empty,
    }
}

fn compare(compare: &Compare) -> model::Compare {
    model::Compare {
        keys: keys(&compare.range),
        result: match compare.result {
            CompareResult::Equal => model::CompareResult::Equal,
            CompareResult::Greater => model::CompareResult::Greater,
            CompareResult::Less => model::CompareResult::Less,
            CompareResult::NotEqual => model::CompareResult::NotEqual,
            CompareResult::Unknown => model::CompareResult::Unknown,
        },
        target: match &compare.target {
            CompareTarget::Version(operand) => model::CompareTarget::Version(*operand),
            CompareTarget::Create(operand) => model::CompareTarget::Create(*operand),
            CompareTarget::Mod(operand) => model::CompareTarget::Mod(*operand),
            CompareTarget::Value(operand) => model::CompareTarget::Value(operand.to_vec()),
            CompareTarget::Lease(operand) => model::CompareTarget::Lease(*operand),
            CompareTarget::Unknown => model::CompareTarget::Unknown,
        },
    }
}

pub fn moment(mark: Mark) -> model::Moment {
    model::Moment { revision: mark.revision, compacted: mark.compact_revision }
}

/// What clients see of a record: of a tombstone only its key and revision.
pub fn key_value(record: &Record) -> model::KeyValue {
    model::KeyValue {
        key: record.key().to_vec(),
        value: record.value().to_vec(),
        create_revision: if record.is_tombstone() { 0 } else { record.create_revision() },
        mod_revision: record.mod_revision(),
        version: record.version(),
        lease: record.lease(),
    }
}

pub fn key_values(records: &[Record]) -> Vec<model::KeyValue> {
    records.iter().map(key_value).collect()
}

pub fn event(event: &Event) -> model::Event {
    model::Event {
        deleted: event.kv.is_tombstone(),
        kv: key_value(&event.kv),
        prev_kv: event.prev.as_ref().map(key_value),
    }
}

pub fn events<'a>(events: impl IntoIterator<Item = &'a Event>) -> Vec<model::Event> {
    events.into_iter().map(event).collect()
}

/// The header's revision and the answer. None as for [`request`].
pub fn answer(response: &WriteResponse) -> Option<(i64, model::Answer)> {
    Some(match response {
        WriteResponse::Put(response) => {
            (response.revision, model::Answer::Put { prev_kv: response.prev_kv.as_ref().map(key_value) })
        }
        WriteResponse::DeleteRange(response) => (response.revision, model::Answer::Delete(deleted(response))),
        WriteResponse::Txn(response) => (response.revision, model::Answer::Txn(txn_answer(response))),
        WriteResponse::Compact { revision } => (*revision, model::Answer::Compact),
        WriteResponse::LeaseGrant { revision, id, ttl, .. } => {
            (*revision, model::Answer::LeaseGrant { id: *id, ttl: *ttl })
        }
        WriteResponse::LeaseRevoke { revision, .. } => (*revision, model::Answer::LeaseRevoke),
        WriteResponse::LeaseRemaining { .. }
        | WriteResponse::Alarm { .. }
        | WriteResponse::Auth { .. }
        | WriteResponse::Foreign { .. } => {
            return None;
        }
    })
}

pub fn ranged(response: &RangeResponse) -> model::Ranged {
    model::Ranged { kvs: key_values(&response.kvs), more: response.more, count: response.count }
}

pub fn deleted(response: &DeleteRangeResponse) -> model::Deleted {
    model::Deleted { deleted: response.deleted, prev_kvs: key_values(&response.prev_kvs) }
}

pub fn txn_answer(response: &TxnResponse) -> model::TxnAnswer {
    let responses = response.responses.iter().map(|response| match response {
        ResponseOp::Range(response) => model::OpAnswer::Range(ranged(response)),
        ResponseOp::Put(response) => {
            model::OpAnswer::Put { prev_kv: response.prev_kv.as_ref().map(key_value) }
        }
        ResponseOp::DeleteRange(response) => model::OpAnswer::Delete(deleted(response)),
        ResponseOp::Txn(response) => model::OpAnswer::Txn(txn_answer(response)),
    });
    model::TxnAnswer { succeeded: response.succeeded, responses: responses.collect() }
}

/// A refusal as clients see it. An error is one that well-formed requests never meet.
pub fn refusal(error: StoreError) -> Result<model::Refusal, StoreError> {
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
