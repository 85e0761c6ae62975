//! Encoding of single fields. As in all of proto3, a scalar that has its default value is not
//! written.

use bytes::BufMut;
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint, key_len, message};

use super::WireKv;
use crate::pb::ResponseHeader;

/// Every response has its header at tag 1.
const HEADER: u32 = 1;
/// The longest header: four varints of ten bytes with their keys, and key and length of all.
const HEADER_LEN_MAX: usize = 46;
/// A key of five bytes and a varint of ten.
const FIELD_LEN_MAX: usize = 15;

/// Appends what `write` puts into a buffer of `N` bytes, which has to be enough. Appending to a
/// growing buffer costs a check and a call for each byte of a number; this is one for all.
fn put_at_once<const N: usize>(buf: &mut impl BufMut, write: impl FnOnce(&mut &mut [u8])) {
    let mut bytes = [0; N];
    let mut rest = &mut bytes[..];
    write(&mut rest);
    let len = N - rest.len();
    buf.put_slice(&bytes[..len]);
}

pub(super) fn put_header(header: Option<&ResponseHeader>, buf: &mut impl BufMut) {
    if let Some(header) = header {
        put_at_once::<HEADER_LEN_MAX>(buf, |out| message::encode(HEADER, header, out));
    }
}

pub(super) fn header_len(header: Option<&ResponseHeader>) -> usize {
    header.map_or(0, |header| message::encoded_len(HEADER, header))
}

pub(super) fn put_int64(tag: u32, value: i64, buf: &mut impl BufMut) {
    if value != 0 {
        put_at_once::<FIELD_LEN_MAX>(buf, |out| {
            encode_key(tag, WireType::Varint, out);
            encode_varint(as_varint(value), out);
        });
    }
}

pub(super) fn int64_len(tag: u32, value: i64) -> usize {
    if value == 0 { 0 } else { key_len(tag) + encoded_len_varint(as_varint(value)) }
}

pub(super) fn put_bool(tag: u32, value: bool, buf: &mut impl BufMut) {
    put_int64(tag, i64::from(value), buf);
}

pub(super) fn bool_len(tag: u32, value: bool) -> usize {
    int64_len(tag, i64::from(value))
}

/// A `bytes` or `string` field: left out when empty.
pub(super) fn put_bytes(tag: u32, value: &[u8], buf: &mut impl BufMut) {
    if !value.is_empty() {
        put_part_head(tag, value.len(), buf);
        buf.put_slice(value);
    }
}

pub(super) fn bytes_len(tag: u32, value: &[u8]) -> usize {
    if value.is_empty() { 0 } else { part_len(tag, value.len()) }
}

/// A nested message that is already encoded: written even when empty, because its presence means
/// something.
pub(super) fn put_kv(tag: u32, kv: &impl WireKv, buf: &mut impl BufMut) {
    put_part_head(tag, kv.wire_len(), buf);
    kv.wire().iter().for_each(|part| buf.put_slice(part));
}

/// Tag and length of a nested message; its `len` bytes must follow.
pub(super) fn put_part_head(tag: u32, len: usize, buf: &mut impl BufMut) {
    put_at_once::<FIELD_LEN_MAX>(buf, |out| {
        encode_key(tag, WireType::LengthDelimited, out);
        encode_varint(len as u64, out);
    });
}

/// Length of a nested message of `len` bytes with its tag and length in front.
pub(super) fn part_len(tag: u32, len: usize) -> usize {
    key_len(tag) + encoded_len_varint(len as u64) + len
}

/// Protobuf writes a negative number as the ten-byte varint of its two's complement.
fn as_varint(value: i64) -> u64 {
    value.cast_unsigned()
}
