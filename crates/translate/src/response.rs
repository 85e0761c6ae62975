//! The store's responses as wire messages.
//!
//! The header of an RPC's response is the context's to fill; the responses inside a transaction
//! carry a header with nothing but the revision.

use vetch_api::pb::ResponseHeader;
use vetch_api::wire;
use vetch_store::Record;
use vetch_store::request::{DeleteRangeResponse, PutResponse, RangeResponse, ResponseOp, TxnResponse};

use super::Kv;

type Header = Option<ResponseHeader>;

/// Both types have the same layout, so this reuses the vector.
pub fn wire_kvs(records: Vec<Record>) -> Vec<Kv> {
    records.into_iter().map(Kv).collect()
}

pub fn ranged(response: RangeResponse, header: Header) -> wire::RangeResponse<Kv> {
    let RangeResponse { revision: _, kvs, more, count } = response;
    wire::RangeResponse { header, kvs: wire_kvs(kvs), more, count }
}

pub fn put_done(response: PutResponse, header: Header) -> wire::PutResponse<Kv> {
    wire::PutResponse { header, prev_kv: response.prev_kv.map(Kv) }
}

pub fn deleted(response: DeleteRangeResponse, header: Header) -> wire::DeleteRangeResponse<Kv> {
    let DeleteRangeResponse { revision: _, deleted, prev_kvs } = response;
    wire::DeleteRangeResponse { header, deleted, prev_kvs: wire_kvs(prev_kvs) }
}

pub fn txn_done(response: TxnResponse, header: Header) -> wire::TxnResponse<Kv> {
    let TxnResponse { revision: _, succeeded, responses } = response;
    wire::TxnResponse { header, succeeded, responses: responses.into_iter().map(op_done).collect() }
}

fn op_done(response: ResponseOp) -> wire::ResponseOp<Kv> {
    let op = match response {
        ResponseOp::Range(range) => wire::OpResponse::Range(within(range.revision, range, ranged)),
        ResponseOp::Put(put) => wire::OpResponse::Put(within(put.revision, put, put_done)),
        ResponseOp::DeleteRange(delete) => {
            wire::OpResponse::DeleteRange(within(delete.revision, delete, deleted))
        }
        ResponseOp::Txn(txn) => wire::OpResponse::Txn(within(txn.revision, txn, txn_done)),
    };
    op.into()
}

fn within<R, W>(revision: i64, response: R, translate: fn(R, Header) -> W) -> W {
    translate(response, Some(ResponseHeader { revision, ..Default::default() }))
}
