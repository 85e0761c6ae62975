//! Requests and refusals of the specification in the types of the store.

use bytes::Bytes;
use vetch_model as model;
use vetch_store::StoreError;
use vetch_store::request as store;

pub fn keys(keys: &model::Keys) -> store::KeyRange {
    store::KeyRange::new(keys.key.clone(), keys.range_end.clone())
}

pub fn range(range: &model::Range) -> store::RangeRequest {
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

pub fn put(put: &model::Put) -> store::PutRequest {
    store::PutRequest {
        key: Bytes::copy_from_slice(&put.key),
        value: Bytes::copy_from_slice(&put.value),
        lease: put.lease,
        prev_kv: put.prev_kv,
        ignore_value: put.ignore_value,
        ignore_lease: put.ignore_lease,
    }
}

pub fn delete(delete: &model::Delete) -> store::DeleteRangeRequest {
    store::DeleteRangeRequest { range: keys(&delete.keys), prev_kv: delete.prev_kv }
}

pub fn txn(txn: &model::Txn) -> store::TxnRequest {
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

pub fn refusal(refusal: model::Refusal) -> StoreError {
    match refusal {
        model::Refusal::Compacted => StoreError::Compacted,
        model::Refusal::FutureRevision => StoreError::FutureRevision,
        model::Refusal::LeaseNotFound => StoreError::LeaseNotFound,
        model::Refusal::LeaseExists => StoreError::LeaseExists,
        model::Refusal::LeaseTtlTooLarge => StoreError::LeaseTtlTooLarge,
        model::Refusal::KeyNotFound => StoreError::KeyNotFound,
    }
}

pub fn malformed(malformed: model::Malformed) -> StoreError {
    match malformed {
        model::Malformed::EmptyKey => StoreError::EmptyKey,
        model::Malformed::EmptyOperation => StoreError::KeyNotFound,
        model::Malformed::ValueProvided => StoreError::ValueProvided,
        model::Malformed::LeaseProvided => StoreError::LeaseProvided,
        model::Malformed::TooManyOps => StoreError::TooManyOps,
        model::Malformed::DuplicateKey => StoreError::DuplicateKey,
    }
}
