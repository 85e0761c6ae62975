//! Answers of the specification as they look on the wire once masked.

use vetch_api::{mvccpb, pb};
use vetch_model::{Deleted, Event, KeyValue, Malformed, OpAnswer, Ranged, Refusal, TxnAnswer};

/// A header whose ids are all set, which is all that the mask leaves of them.
pub(super) fn header(revision: i64) -> Option<pb::ResponseHeader> {
    Some(pb::ResponseHeader { cluster_id: 1, member_id: 1, revision, raft_term: 1 })
}

pub(super) fn key_value(kv: &KeyValue) -> mvccpb::KeyValue {
    mvccpb::KeyValue {
        key: kv.key.clone().into(),
        create_revision: kv.create_revision,
        mod_revision: kv.mod_revision,
        version: kv.version,
        value: kv.value.clone().into(),
        lease: kv.lease,
    }
}

pub(super) fn event(event: &Event) -> mvccpb::Event {
    mvccpb::Event {
        r#type: i32::from(event.deleted),
        kv: Some(key_value(&event.kv)),
        prev_kv: event.prev_kv.as_ref().map(key_value),
    }
}

pub(super) fn range(ranged: &Ranged, header: Option<pb::ResponseHeader>) -> pb::RangeResponse {
    let kvs = ranged.kvs.iter().map(key_value).collect();
    pb::RangeResponse { header, kvs, more: ranged.more, count: ranged.count }
}

pub(super) fn put(prev_kv: Option<&KeyValue>, header: Option<pb::ResponseHeader>) -> pb::PutResponse {
    pb::PutResponse { header, prev_kv: prev_kv.map(key_value) }
}

pub(super) fn delete(deleted: &Deleted, header: Option<pb::ResponseHeader>) -> pb::DeleteRangeResponse {
    let prev_kvs = deleted.prev_kvs.iter().map(key_value).collect();
    pb::DeleteRangeResponse { header, deleted: deleted.deleted, prev_kvs }
}

/// `before` is the revision before the transaction. Each answer in it has the revision after its
/// operation in a header of its own, without ids; that of a nested transaction is empty. `changed`
/// says whether anything has changed so far.
pub(super) fn txn(
    answer: &TxnAnswer,
    header: Option<pb::ResponseHeader>,
    before: i64,
    changed: &mut bool,
) -> pb::TxnResponse {
    use pb::response_op::Response;
    let mut responses = Vec::new();
    for op in &answer.responses {
        *changed |= match op {
            OpAnswer::Put { .. } => true,
            OpAnswer::Delete(deleted) => deleted.deleted > 0,
            OpAnswer::Range(_) | OpAnswer::Txn(_) => false,
        };
        let revision = before + i64::from(*changed);
        let own = Some(pb::ResponseHeader { revision, ..Default::default() });
        let response = match op {
            OpAnswer::Range(ranged) => Response::ResponseRange(range(ranged, own)),
            OpAnswer::Put { prev_kv } => Response::ResponsePut(put(prev_kv.as_ref(), own)),
            OpAnswer::Delete(deleted) => Response::ResponseDeleteRange(delete(deleted, own)),
            OpAnswer::Txn(nested) => {
                Response::ResponseTxn(txn(nested, Some(pb::ResponseHeader::default()), before, changed))
            }
        };
        responses.push(pb::ResponseOp { response: Some(response) });
    }
    pb::TxnResponse { header, succeeded: answer.succeeded, responses }
}

pub(super) fn refusal(refusal: Refusal) -> String {
    let (code, message) = match refusal {
        Refusal::Compacted => ("OutOfRange", "mvcc: required revision has been compacted"),
        Refusal::FutureRevision => ("OutOfRange", "mvcc: required revision is a future revision"),
        Refusal::LeaseNotFound => ("NotFound", "requested lease not found"),
        Refusal::LeaseExists => ("FailedPrecondition", "lease already exists"),
        Refusal::LeaseTtlTooLarge => ("OutOfRange", "too large lease TTL"),
        Refusal::KeyNotFound => ("InvalidArgument", "key not found"),
    };
    error(code, message)
}

pub(super) fn malformed(malformed: Malformed) -> String {
    let message = match malformed {
        Malformed::EmptyKey => "key is not provided",
        Malformed::EmptyOperation => "key not found",
        Malformed::ValueProvided => "value is provided",
        Malformed::LeaseProvided => "lease is provided",
        Malformed::TooManyOps => "too many operations in txn request",
        Malformed::DuplicateKey => "duplicate key given in txn request",
    };
    error("InvalidArgument", message)
}

fn error(code: &str, message: &str) -> String {
    format!("error {code}: {:?}", format!("etcdserver: {message}"))
}
