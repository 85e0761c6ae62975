//! Calls on keys: their requests, and how long they may take.

use bytes::Bytes;
use prost::Message;
use tonic::Status;
use vetch_api::pb;
use vetch_http2::Weight;

/// A call that can take the fast path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KvMethod {
    Range,
    Put,
    DeleteRange,
    Txn,
}

/// The request.
#[derive(Debug)]
pub(crate) enum KvCall {
    Range(pb::RangeRequest),
    Put(pb::PutRequest),
    DeleteRange(pb::DeleteRangeRequest),
    Txn(pb::TxnRequest),
}

/// A range with at most this limit is short enough to be served inline.
const INLINE_KEYS_MAX: i64 = 100;
impl KvMethod {
    pub(crate) fn from_path(path: &str) -> Option<KvMethod> {
        Some(match path {
            "/etcdserverpb.KV/Range" => KvMethod::Range,
            "/etcdserverpb.KV/Put" => KvMethod::Put,
            "/etcdserverpb.KV/DeleteRange" => KvMethod::DeleteRange,
            "/etcdserverpb.KV/Txn" => KvMethod::Txn,
            _ => return None,
        })
    }

    /// The cost of a call that another server may have to serve.
    pub(crate) fn weight(self, message: &Bytes) -> Weight {
        let is_long =
            self != KvMethod::Put && self.decode(message.clone()).is_ok_and(|call| call.may_be_long());
        if is_long { Weight::Heavy } else { Weight::Queued }
    }

    pub(crate) fn decode(self, message: Bytes) -> Result<KvCall, Status> {
        let call = match self {
            KvMethod::Range => Message::decode(message).map(KvCall::Range),
            KvMethod::Put => Message::decode(message).map(KvCall::Put),
            KvMethod::DeleteRange => Message::decode(message).map(KvCall::DeleteRange),
            KvMethod::Txn => Message::decode(message).map(KvCall::Txn),
        };
        call.map_err(|error| Status::internal(error.to_string()))
    }
}

impl KvCall {
    /// It takes long to evaluate, or its response has many keys.
    pub(crate) fn may_be_long(&self) -> bool {
        match self {
            KvCall::Range(range) => keys_max(range) > INLINE_KEYS_MAX,
            KvCall::Put(_) => false,
            KvCall::DeleteRange(delete) => returns_many(delete),
            KvCall::Txn(txn) => is_long(txn),
        }
    }
}

/// Keys that are fetched for a range at most. Sorting and filtering come before the limit, and the
/// count at an old revision, which every response has, is computed from all changes since.
fn keys_max(range: &pb::RangeRequest) -> i64 {
    if range.range_end.is_empty() {
        return 1;
    }
    match range.limit {
        _ if range.revision > 0 => i64::MAX,
        _ if range.count_only => 1,
        limit @ 1.. if limit_bounds_fetch(range) => limit,
        _ => i64::MAX,
    }
}

/// The same as `fetch_limit` of the store's request, before there is one.
fn limit_bounds_fetch(range: &pb::RangeRequest) -> bool {
    use pb::range_request::{SortOrder, SortTarget};
    let is_in_order = range.sort_order == SortOrder::None as i32
        || (range.sort_order == SortOrder::Ascend as i32 && range.sort_target == SortTarget::Key as i32);
    let filters = [
        range.min_mod_revision,
        range.max_mod_revision,
        range.min_create_revision,
        range.max_create_revision,
    ];
    is_in_order && filters == [0; 4]
}

fn returns_many(delete: &pb::DeleteRangeRequest) -> bool {
    delete.prev_kv && !delete.range_end.is_empty()
}

/// Several short ranges may be long together. A compare of a range examines all of its keys.
fn is_long(txn: &pb::TxnRequest) -> bool {
    let keys = txn.success.iter().chain(&txn.failure).map(op_keys_max);
    keys.fold(0, i64::saturating_add) > INLINE_KEYS_MAX
        || txn.compare.iter().any(|compare| !compare.range_end.is_empty())
}

fn op_keys_max(op: &pb::RequestOp) -> i64 {
    use pb::request_op::Request;
    match &op.request {
        Some(Request::RequestRange(range)) => keys_max(range),
        Some(Request::RequestDeleteRange(delete)) if returns_many(delete) => i64::MAX,
        Some(Request::RequestTxn(_)) => i64::MAX,
        Some(Request::RequestDeleteRange(_) | Request::RequestPut(_)) | None => 0,
    }
}

#[cfg(test)]
mod tests {
    use pb::range_request::{SortOrder, SortTarget};
    use pb::request_op::Request;

    use super::*;

    fn few() -> pb::RangeRequest {
        pb::RangeRequest {
            key: "a".into(),
            range_end: "b".into(),
            limit: INLINE_KEYS_MAX,
            ..Default::default()
        }
    }

    fn is_long(range: pb::RangeRequest) -> bool {
        let one = KvCall::Range(range.clone()).may_be_long();
        assert_eq!(one, txn(vec![range]).may_be_long(), "alone as in a transaction");
        one
    }

    fn txn(ranges: Vec<pb::RangeRequest>) -> KvCall {
        let op = |range| pb::RequestOp { request: Some(Request::RequestRange(range)) };
        KvCall::Txn(pb::TxnRequest { success: ranges.into_iter().map(op).collect(), ..Default::default() })
    }

    /// A limit bounds the response. Keys to be sorted or filtered are fetched before the limit
    /// applies.
    #[test]
    fn a_range_is_short_if_little_is_fetched_for_it() {
        assert!(!is_long(few()));
        assert!(is_long(pb::RangeRequest { limit: 0, ..few() }));
        assert!(is_long(pb::RangeRequest { limit: INLINE_KEYS_MAX + 1, ..few() }));
        let sorted = |order: SortOrder, target: SortTarget| pb::RangeRequest {
            sort_order: order.into(),
            sort_target: target.into(),
            ..few()
        };
        assert!(!is_long(sorted(SortOrder::Ascend, SortTarget::Key)));
        assert!(!is_long(sorted(SortOrder::None, SortTarget::Mod)));
        assert!(is_long(sorted(SortOrder::Descend, SortTarget::Key)));
        assert!(is_long(sorted(SortOrder::Ascend, SortTarget::Value)));
        assert!(is_long(pb::RangeRequest { min_mod_revision: 1, ..few() }));
        assert!(is_long(pb::RangeRequest { max_mod_revision: 1, ..few() }));
        assert!(is_long(pb::RangeRequest { min_create_revision: 1, ..few() }));
        assert!(is_long(pb::RangeRequest { max_create_revision: 1, ..few() }));
        // A single key costs one fetch.
        let one = pb::RangeRequest { range_end: Bytes::new(), limit: 0, revision: 7, ..few() };
        assert!(!is_long(pb::RangeRequest { min_mod_revision: 1, ..one }));
    }

    /// The count in the past is computed from all changes since.
    #[test]
    fn a_count_in_the_past_is_long() {
        let count = pb::RangeRequest { count_only: true, limit: 0, ..few() };
        assert!(!is_long(count.clone()));
        assert!(is_long(pb::RangeRequest { revision: 7, ..count }));
        assert!(is_long(pb::RangeRequest { revision: 7, ..few() }), "its answer has a count");
    }

    #[test]
    fn short_ranges_of_a_transaction_are_short_together() {
        assert!(!txn(vec![pb::RangeRequest { limit: 20, ..few() }; 5]).may_be_long());
        assert!(txn(vec![pb::RangeRequest { limit: 20, ..few() }; 6]).may_be_long());
        let compare =
            |range_end: &'static str| pb::Compare { range_end: range_end.into(), ..Default::default() };
        let compared = |range_end| pb::TxnRequest { compare: vec![compare(range_end)], ..Default::default() };
        assert!(!KvCall::Txn(compared("")).may_be_long());
        assert!(KvCall::Txn(compared("b")).may_be_long(), "all keys of a range are compared");
    }
}
