//! How large a request counts against the request limit.
//!
//! etcd applies the limit to the request wrapped for replication: a message that holds a request id and, in a
//! field of its own, the client's request. Clients come close to the limit on purpose (tests) or by accident
//! (large objects), so the wrapper is counted to the byte.

use prost::Message;
use prost::encoding::encoded_len_varint;

#[cfg(test)]
mod tests;

/// Tag (two bytes) and length of the wrapper's header, and the tag of the id in it.
const HEADER: usize = 2 + 1 + 1;
/// Tag of the field that holds the request: one byte for every kind of write.
const REQUEST_TAG: usize = 1;

/// Length of `request` as it would be replicated by the member `member_id`.
pub(super) fn replicated_len(request: &impl Message, member_id: u64) -> usize {
    let len = request.encoded_len();
    HEADER + request_id_len(member_id) + REQUEST_TAG + encoded_len_varint(len as u64) + len
}

/// Request ids start with the low 16 bits of the member's id, then come 40 bits of time and a counter. Their
/// encoded length follows from the first part; a counter that reaches into the time does not change it.
fn request_id_len(member_id: u64) -> usize {
    encoded_len_varint((member_id << 48) | (1 << 47))
}
