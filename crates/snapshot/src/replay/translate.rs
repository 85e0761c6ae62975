//! Requests about keys, from the API's messages to the store's.
//!
//! etcd validated them before it logged them. An entry that does not pass the same validation is
//! refused: it was not written by an etcd.

use vetch_api::pb;
use vetch_api::pb::request_op::Request;
use vetch_node::store::request::{DeleteRangeRequest, PutRequest, TxnRequest};
use vetch_node::store::{StoreError, Validated};

pub(super) fn put(request: pb::PutRequest) -> Result<Validated<PutRequest>, StoreError> {
    vetch_translate::put(request)
}

pub(super) fn delete_range(
    request: pb::DeleteRangeRequest,
) -> Result<Validated<DeleteRangeRequest>, StoreError> {
    vetch_translate::delete_range(request)
}

/// The limit of operations is that of the etcd that wrote the log, which is not known.
pub(super) fn txn(mut request: pb::TxnRequest) -> Result<Validated<TxnRequest>, StoreError> {
    count_only(&mut request);
    vetch_translate::txn(request, usize::MAX)
}

/// Results of reads are not used, so they are not collected. The reads stay, because a revision
/// that cannot be read refuses the transaction.
fn count_only(txn: &mut pb::TxnRequest) {
    for op in txn.success.iter_mut().chain(&mut txn.failure) {
        match &mut op.request {
            Some(Request::RequestRange(range)) => range.count_only = true,
            Some(Request::RequestTxn(nested)) => count_only(nested),
            Some(Request::RequestPut(_) | Request::RequestDeleteRange(_)) | None => {}
        }
    }
}
