//! The size of a request for the request limit.
//!
//! etcd applies the limit to the request wrapped for replication: a message with a request ID, the
//! user, and the client's request in a field of its own. Clients come close to the limit on purpose
//! (tests) or by accident (large objects), so the wrapper is counted to the byte.

use prost::encoding::encoded_len_varint;
use vetch_node::store::auth::Caller;

#[cfg(test)]
mod tests;

/// Tag (two bytes) and length of the wrapper's header, and the tag of the id in it.
const HEADER: usize = 2 + 1 + 1;
/// Tag of the field that holds the request: one byte for every kind of write.
const REQUEST_TAG: usize = 1;

/// Length of a request of `len` bytes as the member `member_id` would replicate it for `caller`.
pub(super) fn replicated_len(len: usize, member_id: u64, caller: &Caller) -> usize {
    let user = user_len(caller);
    // A header of 128 bytes and more has a longer length.
    let longer = encoded_len_varint((1 + request_id_len(member_id) + user) as u64) - 1;
    let header = HEADER + longer + request_id_len(member_id) + user;
    header + REQUEST_TAG + encoded_len_varint(len as u64) + len
}

/// The name and the auth revision, each with its tag, and each left out if empty.
fn user_len(caller: &Caller) -> usize {
    let Caller::User { name, revision } = caller else { return 0 };
    let name = if name.is_empty() { 0 } else { 1 + encoded_len_varint(name.len() as u64) + name.len() };
    name + if *revision == 0 { 0 } else { 1 + encoded_len_varint(*revision) }
}

/// Request ids start with the low 16 bits of the member's id, then come 40 bits of time and a
/// counter. Their encoded length follows from the first part; a counter that reaches into the time
/// does not change it.
fn request_id_len(member_id: u64) -> usize {
    encoded_len_varint((member_id << 48) | (1 << 47))
}
