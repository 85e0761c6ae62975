//! Response of Txn, which may nest.

use bytes::BufMut;

use super::field::{bool_len, header_len, part_len, put_bool, put_header, put_part_head};
use super::{DeleteRangeResponse, LayOut, Pieces, PutResponse, RangeResponse, WireKv, WireMessage};
use crate::pb;
use crate::pb::ResponseHeader;

mod tag {
    pub(super) const SUCCEEDED: u32 = 2;
    pub(super) const RESPONSES: u32 = 3;
    pub(super) const OP_RANGE: u32 = 1;
    pub(super) const OP_PUT: u32 = 2;
    pub(super) const OP_DELETE_RANGE: u32 = 3;
    pub(super) const OP_TXN: u32 = 4;
}

/// Response of Txn.
#[derive(Clone, Debug)]
pub struct TxnResponse<K> {
    pub header: Option<ResponseHeader>,
    pub succeeded: bool,
    pub responses: Vec<ResponseOp<K>>,
}

/// The response of one operation of a transaction.
#[derive(Clone, Debug)]
pub enum OpResponse<K> {
    Range(RangeResponse<K>),
    Put(PutResponse<K>),
    DeleteRange(DeleteRangeResponse<K>),
    Txn(TxnResponse<K>),
}

/// An [`OpResponse`] together with its length, which is why it can be read but not changed.
#[derive(Clone, Debug)]
pub struct ResponseOp<K> {
    response: OpResponse<K>,
    /// Length of `response` without the tag and length in front of it.
    len: usize,
}

impl<K: WireKv> OpResponse<K> {
    fn tag(&self) -> u32 {
        match self {
            Self::Range(_) => tag::OP_RANGE,
            Self::Put(_) => tag::OP_PUT,
            Self::DeleteRange(_) => tag::OP_DELETE_RANGE,
            Self::Txn(_) => tag::OP_TXN,
        }
    }

    fn body_len(&self) -> usize {
        match self {
            Self::Range(response) => response.encoded_len(),
            Self::Put(response) => response.encoded_len(),
            Self::DeleteRange(response) => response.encoded_len(),
            Self::Txn(response) => response.encoded_len(),
        }
    }
}

impl<K: WireKv> From<OpResponse<K>> for ResponseOp<K> {
    fn from(response: OpResponse<K>) -> Self {
        Self { len: response.body_len(), response }
    }
}

impl<K> ResponseOp<K> {
    /// The response itself.
    pub fn response(&self) -> &OpResponse<K> {
        &self.response
    }

    /// The response itself, to be consumed.
    pub fn into_response(self) -> OpResponse<K> {
        self.response
    }
}

impl<K: WireKv> WireMessage for ResponseOp<K> {
    type Typed = pb::ResponseOp;

    fn encoded_len(&self) -> usize {
        part_len(self.response.tag(), self.len)
    }

    fn encode(&self, buf: &mut impl BufMut) {
        put_part_head(self.response.tag(), self.len, buf);
        match &self.response {
            OpResponse::Range(response) => response.encode(buf),
            OpResponse::Put(response) => response.encode(buf),
            OpResponse::DeleteRange(response) => response.encode(buf),
            OpResponse::Txn(response) => response.encode(buf),
        }
    }
}

impl<K: WireKv> WireMessage for TxnResponse<K> {
    type Typed = pb::TxnResponse;

    fn encoded_len(&self) -> usize {
        let responses = self.responses.iter().map(|op| part_len(tag::RESPONSES, op.encoded_len()));
        header_len(self.header.as_ref()) + bool_len(tag::SUCCEEDED, self.succeeded) + responses.sum::<usize>()
    }

    fn encode(&self, buf: &mut impl BufMut) {
        put_header(self.header.as_ref(), buf);
        put_bool(tag::SUCCEEDED, self.succeeded, buf);
        for op in &self.responses {
            put_part_head(tag::RESPONSES, op.encoded_len(), buf);
            op.encode(buf);
        }
    }
}

impl<K: WireKv> LayOut<K> for ResponseOp<K> {
    fn lay_out(self, out: &mut Pieces<K>) {
        put_part_head(self.response.tag(), self.len, out.bytes());
        match self.response {
            OpResponse::Range(response) => response.lay_out(out),
            OpResponse::Put(response) => response.lay_out(out),
            OpResponse::DeleteRange(response) => response.lay_out(out),
            OpResponse::Txn(response) => response.lay_out(out),
        }
    }
}

impl<K: WireKv> LayOut<K> for TxnResponse<K> {
    fn lay_out(self, out: &mut Pieces<K>) {
        put_header(self.header.as_ref(), out.bytes());
        put_bool(tag::SUCCEEDED, self.succeeded, out.bytes());
        for op in self.responses {
            put_part_head(tag::RESPONSES, op.encoded_len(), out.bytes());
            op.lay_out(out);
        }
    }
}
