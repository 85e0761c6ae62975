//! Responses of Range, RangeStream, Put and DeleteRange.

use bytes::BufMut;

use super::field::{
    bool_len, header_len, int64_len, part_len, put_bool, put_header, put_int64, put_kv, put_part_head,
};
use super::{LayOut, Pieces, WireKv, WireMessage};
use crate::pb;
use crate::pb::ResponseHeader;

mod tag {
    pub(super) const RANGE_KVS: u32 = 2;
    pub(super) const RANGE_MORE: u32 = 3;
    pub(super) const RANGE_COUNT: u32 = 4;
    pub(super) const STREAM_RANGE_RESPONSE: u32 = 1;
    pub(super) const PUT_PREV_KV: u32 = 2;
    pub(super) const DELETE_DELETED: u32 = 2;
    pub(super) const DELETE_PREV_KVS: u32 = 3;
}

/// Response of Range.
#[derive(Clone, Debug)]
pub struct RangeResponse<K> {
    pub header: Option<ResponseHeader>,
    pub kvs: Vec<K>,
    pub more: bool,
    pub count: i64,
}

/// One part of the response of RangeStream.
#[derive(Clone, Debug)]
pub struct RangeStreamResponse<K> {
    pub range_response: RangeResponse<K>,
}

/// Response of Put.
#[derive(Clone, Debug)]
pub struct PutResponse<K> {
    pub header: Option<ResponseHeader>,
    pub prev_kv: Option<K>,
}

/// Response of DeleteRange.
#[derive(Clone, Debug)]
pub struct DeleteRangeResponse<K> {
    pub header: Option<ResponseHeader>,
    pub deleted: i64,
    pub prev_kvs: Vec<K>,
}

impl<K: WireKv> WireMessage for RangeResponse<K> {
    type Typed = pb::RangeResponse;

    fn encoded_len(&self) -> usize {
        header_len(self.header.as_ref())
            + kvs_len(tag::RANGE_KVS, &self.kvs)
            + bool_len(tag::RANGE_MORE, self.more)
            + int64_len(tag::RANGE_COUNT, self.count)
    }

    fn encode(&self, buf: &mut impl BufMut) {
        put_header(self.header.as_ref(), buf);
        put_kvs(tag::RANGE_KVS, &self.kvs, buf);
        put_bool(tag::RANGE_MORE, self.more, buf);
        put_int64(tag::RANGE_COUNT, self.count, buf);
    }
}

impl<K: WireKv> LayOut<K> for RangeResponse<K> {
    fn lay_out(self, out: &mut Pieces<K>) {
        put_header(self.header.as_ref(), out.bytes());
        out.kvs(tag::RANGE_KVS, self.kvs);
        put_bool(tag::RANGE_MORE, self.more, out.bytes());
        put_int64(tag::RANGE_COUNT, self.count, out.bytes());
    }
}

impl<K: WireKv> WireMessage for RangeStreamResponse<K> {
    type Typed = pb::RangeStreamResponse;

    fn encoded_len(&self) -> usize {
        part_len(tag::STREAM_RANGE_RESPONSE, self.range_response.encoded_len())
    }

    fn encode(&self, buf: &mut impl BufMut) {
        put_part_head(tag::STREAM_RANGE_RESPONSE, self.range_response.encoded_len(), buf);
        self.range_response.encode(buf);
    }
}

impl<K: WireKv> WireMessage for PutResponse<K> {
    type Typed = pb::PutResponse;

    fn encoded_len(&self) -> usize {
        header_len(self.header.as_ref()) + kvs_len(tag::PUT_PREV_KV, self.prev_kv.as_slice())
    }

    fn encode(&self, buf: &mut impl BufMut) {
        put_header(self.header.as_ref(), buf);
        put_kvs(tag::PUT_PREV_KV, self.prev_kv.as_slice(), buf);
    }
}

impl<K: WireKv> LayOut<K> for PutResponse<K> {
    fn lay_out(self, out: &mut Pieces<K>) {
        put_header(self.header.as_ref(), out.bytes());
        out.kvs(tag::PUT_PREV_KV, self.prev_kv.into_iter().collect());
    }
}

impl<K: WireKv> WireMessage for DeleteRangeResponse<K> {
    type Typed = pb::DeleteRangeResponse;

    fn encoded_len(&self) -> usize {
        header_len(self.header.as_ref())
            + int64_len(tag::DELETE_DELETED, self.deleted)
            + kvs_len(tag::DELETE_PREV_KVS, &self.prev_kvs)
    }

    fn encode(&self, buf: &mut impl BufMut) {
        put_header(self.header.as_ref(), buf);
        put_int64(tag::DELETE_DELETED, self.deleted, buf);
        put_kvs(tag::DELETE_PREV_KVS, &self.prev_kvs, buf);
    }
}

impl<K: WireKv> LayOut<K> for DeleteRangeResponse<K> {
    fn lay_out(self, out: &mut Pieces<K>) {
        put_header(self.header.as_ref(), out.bytes());
        put_int64(tag::DELETE_DELETED, self.deleted, out.bytes());
        out.kvs(tag::DELETE_PREV_KVS, self.prev_kvs);
    }
}

fn put_kvs<K: WireKv>(tag: u32, kvs: &[K], buf: &mut impl BufMut) {
    for kv in kvs {
        put_kv(tag, kv, buf);
    }
}

fn kvs_len<K: WireKv>(tag: u32, kvs: &[K]) -> usize {
    kvs.iter().map(|kv| part_len(tag, kv.wire_len())).sum()
}
