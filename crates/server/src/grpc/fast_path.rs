//! The fast path: unary calls on keys, from one message to another, without the layers for streams.
//!
//! It ends in the same functions as the slow path, and refuses with the same texts. The caller has
//! checked that there is exactly one message, and that it is not compressed.

use bytes::{BufMut, Bytes, BytesMut};
use tonic::Status;
use vetch_api::pb;
use vetch_api::wire::{LayOut, Pieces};
use vetch_http2::{LongMessage, Reply};
use vetch_translate::Kv;

use super::kv_call::KvCall;
use super::rpc::Rpc;
use crate::auth::Credentials;

/// Before every message: a byte that says that it is not compressed, and four for its length.
const PREFIX: usize = 5;

/// A response of at least this length is encoded as the client reads it: one HTTP/2 frame.
const LONG_REPLY_MIN: usize = 16 << 10;

impl Rpc {
    /// The response, with its prefix.
    pub(crate) async fn serve_kv(&self, call: KvCall, credentials: &Credentials) -> Result<Reply, Status> {
        match call {
            KvCall::Range(range) => self.serve_range(range, credentials).await,
            KvCall::Put(put) => self.serve_put(put, credentials).await,
            KvCall::DeleteRange(delete) => self.serve_delete_range(delete, credentials).await,
            KvCall::Txn(txn) => self.serve_txn(txn, credentials).await,
        }
    }

    pub(crate) async fn serve_range(
        &self,
        range: pb::RangeRequest,
        credentials: &Credentials,
    ) -> Result<Reply, Status> {
        encode(self.kv_service().answer_range(credentials, range).await?)
    }

    pub(crate) async fn serve_put(
        &self,
        put: pb::PutRequest,
        credentials: &Credentials,
    ) -> Result<Reply, Status> {
        encode(self.kv_service().answer_put(credentials, put).await?)
    }

    pub(crate) async fn serve_delete_range(
        &self,
        delete: pb::DeleteRangeRequest,
        credentials: &Credentials,
    ) -> Result<Reply, Status> {
        encode(self.kv_service().answer_delete_range(credentials, delete).await?)
    }

    pub(crate) async fn serve_txn(
        &self,
        txn: pb::TxnRequest,
        credentials: &Credentials,
    ) -> Result<Reply, Status> {
        encode(self.kv_service().answer_txn(credentials, txn).await?)
    }
}

/// A response that is encoded only when there is room for it.
#[derive(Debug)]
struct LongReply(Pieces<Kv>);

impl LongMessage for LongReply {
    fn remaining(&self) -> usize {
        self.0.remaining()
    }

    fn held(&self) -> usize {
        self.0.held()
    }

    fn next(&mut self, max: usize) -> Bytes {
        self.0.next(max)
    }
}

fn encode(message: impl LayOut<Kv>) -> Result<Reply, Status> {
    let len = message.encoded_len();
    let Ok(prefix) = u32::try_from(len) else {
        let text = format!("Cannot return body with more than 4GB of data but got {len} bytes");
        return Err(Status::resource_exhausted(text));
    };
    if len >= LONG_REPLY_MIN {
        let [a, b, c, d] = prefix.to_be_bytes();
        return Ok(Reply::Long(Box::new(LongReply(Pieces::new(&[0, a, b, c, d], message)))));
    }
    let mut out = BytesMut::with_capacity(PREFIX + len);
    out.put_u8(0);
    out.put_u32(prefix);
    message.encode(&mut out);
    Ok(Reply::Message(out.freeze()))
}
