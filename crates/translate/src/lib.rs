//! Between the API's messages and the store's requests and responses.
//!
//! Requests: protobuf numbers become enums here, and numbers that the API does not define are dealt
//! with as etcd does. The rest of a request is checked by [`validate`], which these functions call,
//! so their results may be given to the node.
//!
//! Responses: key-values stay in wire form; a [`Kv`] is a record that the wire types can copy from.

use bytes::Bytes;
use vetch_api::pb;
use vetch_api::pb::compare::TargetUnion;
use vetch_api::wire::WireKv;
use vetch_store::request::{
    Compare, CompareResult, CompareTarget, DeleteRangeRequest, KeyRange, PutRequest, RangeRequest, SortOrder,
    SortTarget,
};
use vetch_store::{Record, StoreError, Validated, validate};

mod response;
#[cfg(test)]
mod tests;
mod txn;

pub use response::{deleted, put_done, ranged, txn_done, wire_kvs};
pub use txn::txn;

/// A stored version, as the wire types carry it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kv(pub Record);

impl WireKv for Kv {
    #[inline]
    fn wire(&self) -> [&[u8]; 2] {
        self.0.wire()
    }
}

pub fn range(request: pb::RangeRequest) -> Result<Validated<RangeRequest>, StoreError> {
    let sort = sort_of(&request);
    let request = validate::range(range_fields(request, sort.unwrap_or_default()))?;
    // After the key, because etcd looks at the key first.
    sort.ok_or(StoreError::InvalidSortOption)?;
    Ok(request)
}

pub fn put(request: pb::PutRequest) -> Result<Validated<PutRequest>, StoreError> {
    validate::put(put_fields(request))
}

pub fn delete_range(request: pb::DeleteRangeRequest) -> Result<Validated<DeleteRangeRequest>, StoreError> {
    validate::delete_range(delete_fields(request))
}

/// None: a number that the API does not define.
fn sort_of(request: &pb::RangeRequest) -> Option<(SortOrder, SortTarget)> {
    use pb::range_request::{SortOrder as Order, SortTarget as Target};
    let order = match Order::try_from(request.sort_order).ok()? {
        Order::None => SortOrder::None,
        Order::Ascend => SortOrder::Ascend,
        Order::Descend => SortOrder::Descend,
    };
    let target = match Target::try_from(request.sort_target).ok()? {
        Target::Key => SortTarget::Key,
        Target::Version => SortTarget::Version,
        Target::Create => SortTarget::Create,
        Target::Mod => SortTarget::Mod,
        Target::Value => SortTarget::Value,
    };
    Some((order, target))
}

fn range_fields(
    request: pb::RangeRequest,
    (sort_order, sort_target): (SortOrder, SortTarget),
) -> RangeRequest {
    RangeRequest {
        range: KeyRange { key: request.key, range_end: request.range_end },
        limit: request.limit,
        revision: request.revision,
        sort_order,
        sort_target,
        serializable: request.serializable,
        keys_only: request.keys_only,
        count_only: request.count_only,
        min_mod_revision: request.min_mod_revision,
        max_mod_revision: request.max_mod_revision,
        min_create_revision: request.min_create_revision,
        max_create_revision: request.max_create_revision,
    }
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
    DeleteRangeRequest {
        range: KeyRange { key: request.key, range_end: request.range_end },
        prev_kv: request.prev_kv,
    }
}

fn compare(compare: pb::Compare) -> Compare {
    use pb::compare::CompareResult as Result;
    let result = match Result::try_from(compare.result) {
        Ok(Result::Equal) => CompareResult::Equal,
        Ok(Result::Greater) => CompareResult::Greater,
        Ok(Result::Less) => CompareResult::Less,
        Ok(Result::NotEqual) => CompareResult::NotEqual,
        Err(_) => CompareResult::Unknown,
    };
    Compare {
        range: KeyRange { key: compare.key, range_end: compare.range_end },
        result,
        target: compare_target(compare.target, compare.target_union),
    }
}

/// An operand of another kind than the target is ignored.
fn compare_target(target: i32, operand: Option<TargetUnion>) -> CompareTarget {
    use pb::compare::CompareTarget as Target;
    match (Target::try_from(target), operand) {
        (Ok(Target::Version), Some(TargetUnion::Version(version))) => CompareTarget::Version(version),
        (Ok(Target::Version), _) => CompareTarget::Version(0),
        (Ok(Target::Create), Some(TargetUnion::CreateRevision(revision))) => CompareTarget::Create(revision),
        (Ok(Target::Create), _) => CompareTarget::Create(0),
        (Ok(Target::Mod), Some(TargetUnion::ModRevision(revision))) => CompareTarget::Mod(revision),
        (Ok(Target::Mod), _) => CompareTarget::Mod(0),
        (Ok(Target::Value), Some(TargetUnion::Value(value))) => CompareTarget::Value(value),
        (Ok(Target::Value), _) => CompareTarget::Value(Bytes::new()),
        (Ok(Target::Lease), Some(TargetUnion::Lease(lease))) => CompareTarget::Lease(lease),
        (Ok(Target::Lease), _) => CompareTarget::Lease(0),
        (Err(_), _) => CompareTarget::Unknown,
    }
}
