//! The short way: calls on keys from one message to another, without the layers that know how to stream.
//!
//! It ends in the same functions as the long way, and refuses in the same words. The caller has checked that there is exactly one
//! message, and that it is not compressed.

use bytes::{BufMut, Bytes, BytesMut};
use prost::Message;
use tonic::Status;
use vetch_api::pb;
use vetch_api::wire::{LayOut, Pieces};
use vetch_http2::{LongMessage, Reply};

use super::Rpc;
use super::kv::KvService;
use super::translate::Kv;
use crate::auth::Credentials;

/// A call that can be served the short way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unary {
    Range,
    Put,
    DeleteRange,
    Txn,
}

/// What is asked.
#[derive(Debug)]
pub(crate) enum Asked {
    Range(pb::RangeRequest),
    Put(pb::PutRequest),
    DeleteRange(pb::DeleteRangeRequest),
    Txn(pb::TxnRequest),
}

/// A range limited to no more keys than this is short enough to be answered in place.
const FEW_KEYS: i64 = 100;
/// Before every message: a byte that says that it is not compressed, and four for its length.
const PREFIX: usize = 5;

impl Unary {
    pub(crate) fn at(path: &str) -> Option<Unary> {
        Some(match path {
            "/etcdserverpb.KV/Range" => Unary::Range,
            "/etcdserverpb.KV/Put" => Unary::Put,
            "/etcdserverpb.KV/DeleteRange" => Unary::DeleteRange,
            "/etcdserverpb.KV/Txn" => Unary::Txn,
            _ => return None,
        })
    }

    pub(crate) fn decode(self, message: Bytes) -> Result<Asked, Status> {
        let asked = match self {
            Unary::Range => Message::decode(message).map(Asked::Range),
            Unary::Put => Message::decode(message).map(Asked::Put),
            Unary::DeleteRange => Message::decode(message).map(Asked::DeleteRange),
            Unary::Txn => Message::decode(message).map(Asked::Txn),
        };
        asked.map_err(|error| Status::internal(error.to_string()))
    }
}

impl Asked {
    /// Its answer may have many keys in it.
    pub(crate) fn may_be_long(&self) -> bool {
        match self {
            Asked::Range(range) => is_list(range),
            Asked::Put(_) => false,
            Asked::DeleteRange(delete) => shows_many(delete),
            Asked::Txn(txn) => txn.success.iter().chain(&txn.failure).any(is_long),
        }
    }
}

fn is_list(range: &pb::RangeRequest) -> bool {
    !range.range_end.is_empty() && !range.count_only && !(1..=FEW_KEYS).contains(&range.limit)
}

fn shows_many(delete: &pb::DeleteRangeRequest) -> bool {
    delete.prev_kv && !delete.range_end.is_empty()
}

fn is_long(op: &pb::RequestOp) -> bool {
    use pb::request_op::Request;
    match &op.request {
        Some(Request::RequestRange(range)) => is_list(range),
        Some(Request::RequestDeleteRange(delete)) => shows_many(delete),
        Some(Request::RequestTxn(_)) => true,
        Some(Request::RequestPut(_)) | None => false,
    }
}

/// From this length on, an answer is encoded as the client takes it: one frame of HTTP/2.
const LONG: usize = 16 << 10;

impl Rpc {
    /// The answer, with its prefix.
    pub(crate) async fn unary(&self, asked: Asked, credentials: &Credentials) -> Result<Reply, Status> {
        let kv: &KvService = self.kv_service();
        match asked {
            Asked::Range(range) => encode(kv.answer_range(credentials, range).await?),
            Asked::Put(put) => encode(kv.answer_put(credentials, put).await?),
            Asked::DeleteRange(delete) => encode(kv.answer_delete_range(credentials, delete).await?),
            Asked::Txn(txn) => encode(kv.answer_txn(credentials, txn).await?),
        }
    }
}

/// An answer of which nothing is encoded before there is room for it.
#[derive(Debug)]
struct LongAnswer(Pieces<Kv>);

impl LongMessage for LongAnswer {
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
    if len >= LONG {
        let [a, b, c, d] = prefix.to_be_bytes();
        return Ok(Reply::Long(Box::new(LongAnswer(Pieces::new(&[0, a, b, c, d], message)))));
    }
    let mut out = BytesMut::with_capacity(PREFIX + len);
    out.put_u8(0);
    out.put_u32(prefix);
    message.encode(&mut out);
    Ok(Reply::Message(out.freeze()))
}
