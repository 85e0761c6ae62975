//! Transactions, which nest.

use vetch_api::pb;
use vetch_api::pb::request_op::Request;
use vetch_store::request::{RequestOp, TxnRequest};
use vetch_store::{StoreError, Validated, validate};

use super::{compare, delete_fields, put_fields, range_fields, sort_of};

/// The store's form of a transaction that passed every check which needs no state.
///
/// etcd reports the first thing wrong with a transaction in the order of its operations. A range
/// with an undefined sort option cannot be expressed in the store's terms, so its place is held by
/// an empty operation: validation stops there, or earlier if something earlier is wrong, and
/// [`Holes`] remembers what was in the first such place.
pub fn txn(request: pb::TxnRequest, max_ops: usize) -> Result<Validated<TxnRequest>, StoreError> {
    let mut holes = Holes(None);
    let txn = txn_fields(request, &mut holes);
    validate::txn(txn, max_ops).map_err(|error| match (error, holes.0) {
        (StoreError::KeyNotFound, Some(reason)) => reason,
        (error, _) => error,
    })
}

/// Why the first operation that cannot be expressed is refused.
struct Holes(Option<StoreError>);

impl Holes {
    fn leave(&mut self, reason: StoreError) -> RequestOp {
        self.0.get_or_insert(reason);
        RequestOp::Empty
    }
}

fn txn_fields(request: pb::TxnRequest, holes: &mut Holes) -> TxnRequest {
    TxnRequest {
        compare: request.compare.into_iter().map(compare).collect(),
        success: request.success.into_iter().map(|op| op_fields(op, holes)).collect(),
        failure: request.failure.into_iter().map(|op| op_fields(op, holes)).collect(),
    }
}

fn op_fields(op: pb::RequestOp, holes: &mut Holes) -> RequestOp {
    match op.request {
        Some(Request::RequestRange(range)) => match sort_of(&range) {
            Some(sort) => RequestOp::Range(range_fields(range, sort)),
            // The key is looked at before the sort options, so this is refused for the key.
            None if range.key.is_empty() => RequestOp::Range(range_fields(range, Default::default())),
            None => holes.leave(StoreError::InvalidSortOption),
        },
        Some(Request::RequestPut(put)) => RequestOp::Put(put_fields(put)),
        Some(Request::RequestDeleteRange(delete)) => RequestOp::DeleteRange(delete_fields(delete)),
        Some(Request::RequestTxn(txn)) => RequestOp::Txn(txn_fields(txn, holes)),
        None => holes.leave(StoreError::KeyNotFound),
    }
}
