//! Requests about keys, from the API's messages to the store's.
//!
//! etcd checked them before it wrote them down; what would not have passed is refused, because then
//! this is not what it seems to be.

use vetch_api::pb;
use vetch_node::store::StoreError;
use vetch_node::store::request::{DeleteRangeRequest, PutRequest, RequestOp, TxnRequest};

fn text(error: StoreError) -> String {
    error.to_string()
}

pub(super) fn put(request: pb::PutRequest) -> Result<PutRequest, String> {
    vetch_translate::put(request).map_err(text)
}

pub(super) fn delete_range(request: pb::DeleteRangeRequest) -> Result<DeleteRangeRequest, String> {
    vetch_translate::delete_range(request).map_err(text)
}

/// The limit of operations is that of the etcd that wrote the log, which is not known.
pub(super) fn txn(request: pb::TxnRequest) -> Result<TxnRequest, String> {
    let mut txn = vetch_translate::txn(request, usize::MAX).map_err(text)?;
    count_only(&mut txn);
    Ok(txn)
}

/// Results of reads are not used, so they are not collected. The reads stay, because a revision
/// that cannot be read refuses the transaction.
fn count_only(txn: &mut TxnRequest) {
    for op in txn.success.iter_mut().chain(&mut txn.failure) {
        match op {
            RequestOp::Range(range) => range.count_only = true,
            RequestOp::Txn(nested) => count_only(nested),
            RequestOp::Put(_) | RequestOp::DeleteRange(_) | RequestOp::Empty => {}
        }
    }
}
