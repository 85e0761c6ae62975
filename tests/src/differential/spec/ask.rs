//! Requests from the wire in the words of the specification.
//!
//! None where a request uses a number that the API does not define; both servers refuse those by
//! themselves.

use vetch_api::pb;
use vetch_api::pb::compare::TargetUnion;
use vetch_model::{
    Compare, CompareResult, CompareTarget, Delete, Keys, Op, Put, Range, SortOrder, SortTarget, Txn, Watch,
};

pub(super) fn range(request: &pb::RangeRequest) -> Option<Range> {
    Some(Range {
        keys: Keys::between(request.key.to_vec(), request.range_end.to_vec()),
        limit: request.limit,
        revision: request.revision,
        sort_order: match request.sort_order {
            0 => SortOrder::None,
            1 => SortOrder::Ascend,
            2 => SortOrder::Descend,
            _ => return None,
        },
        sort_target: match request.sort_target {
            0 => SortTarget::Key,
            1 => SortTarget::Version,
            2 => SortTarget::Create,
            3 => SortTarget::Mod,
            4 => SortTarget::Value,
            _ => return None,
        },
        serializable: request.serializable,
        keys_only: request.keys_only,
        count_only: request.count_only,
        min_mod_revision: request.min_mod_revision,
        max_mod_revision: request.max_mod_revision,
        min_create_revision: request.min_create_revision,
        max_create_revision: request.max_create_revision,
    })
}

pub(super) fn put(request: &pb::PutRequest) -> Put {
    Put {
        key: request.key.to_vec(),
        value: request.value.to_vec(),
        lease: request.lease,
        prev_kv: request.prev_kv,
        ignore_value: request.ignore_value,
        ignore_lease: request.ignore_lease,
    }
}

pub(super) fn delete(request: &pb::DeleteRangeRequest) -> Delete {
    let keys = Keys::between(request.key.to_vec(), request.range_end.to_vec());
    Delete { keys, prev_kv: request.prev_kv }
}

pub(super) fn txn(request: &pb::TxnRequest) -> Option<Txn> {
    Some(Txn {
        compare: request.compare.iter().map(compare).collect(),
        success: request.success.iter().map(op).collect::<Option<_>>()?,
        failure: request.failure.iter().map(op).collect::<Option<_>>()?,
    })
}

fn op(op: &pb::RequestOp) -> Option<Op> {
    use pb::request_op::Request;
    Some(match &op.request {
        Some(Request::RequestRange(request)) => Op::Range(range(request)?),
        Some(Request::RequestPut(request)) => Op::Put(put(request)),
        Some(Request::RequestDeleteRange(request)) => Op::Delete(delete(request)),
        Some(Request::RequestTxn(request)) => Op::Txn(txn(request)?),
        None => Op::Empty,
    })
}

/// An operand that belongs to another target counts as zero, or as an empty value.
fn compare(compare: &pb::Compare) -> Compare {
    let operand = compare.target_union.clone();
    macro_rules! number {
        ($target:ident) => {
            match operand {
                Some(TargetUnion::$target(number)) => number,
                _ => 0,
            }
        };
    }
    Compare {
        keys: Keys::between(compare.key.to_vec(), compare.range_end.to_vec()),
        result: match compare.result {
            0 => CompareResult::Equal,
            1 => CompareResult::Greater,
            2 => CompareResult::Less,
            3 => CompareResult::NotEqual,
            _ => CompareResult::Unknown,
        },
        target: match compare.target {
            0 => CompareTarget::Version(number!(Version)),
            1 => CompareTarget::Create(number!(CreateRevision)),
            2 => CompareTarget::Mod(number!(ModRevision)),
            3 => CompareTarget::Value(match operand {
                Some(TargetUnion::Value(value)) => value.to_vec(),
                _ => Vec::new(),
            }),
            4 => CompareTarget::Lease(number!(Lease)),
            _ => CompareTarget::Unknown,
        },
    }
}

/// Watching from the empty key on is the same as from the first key there can be.
pub(super) fn watch(create: &pb::WatchCreateRequest) -> Watch {
    let key = if create.key.is_empty() { vec![0] } else { create.key.to_vec() };
    Watch {
        keys: Keys::between(key, create.range_end.to_vec()),
        start_revision: create.start_revision,
        progress_notify: create.progress_notify,
        no_put: create.filters.contains(&0),
        no_delete: create.filters.contains(&1),
        prev_kv: create.prev_kv,
        fragment: create.fragment,
    }
}
