use bytes::Bytes;
use prost::Message;
use vetch_api::pb;
use vetch_node::store::auth::Caller;

const LIMIT: usize = 3 << 19;

fn put(value: usize) -> pb::PutRequest {
    pb::PutRequest { key: "big".into(), value: Bytes::from(vec![0; value]), ..Default::default() }
}

fn replicated_len(request: &impl Message, member: u64) -> usize {
    super::replicated_len(request.encoded_len(), member, &Caller::Anonymous)
}

/// Observed: a member whose id ends in 0xfa5a takes a value of `LIMIT - 27` under a key of three
/// bytes, and refuses one byte more.
#[test]
fn the_wrapper_of_a_put_is_counted_to_the_byte() {
    assert_eq!(replicated_len(&put(LIMIT - 27), 0xc9f7_51f0_b0b4_fa5a), LIMIT);
    assert_eq!(replicated_len(&put(LIMIT - 26), 0xc9f7_51f0_b0b4_fa5a), LIMIT + 1);
}

/// Observed with the same member: `LIMIT - 35` when the put is the only operation of a transaction.
#[test]
fn the_wrapper_of_a_transaction_is_counted_to_the_byte() {
    let op = pb::request_op::Request::RequestPut(put(LIMIT - 35));
    let txn = pb::TxnRequest { success: vec![pb::RequestOp { request: Some(op) }], ..Default::default() };
    assert_eq!(replicated_len(&txn, 0xc9f7_51f0_b0b4_fa5a), LIMIT);
}

#[test]
fn a_member_id_with_a_clear_top_bit_saves_a_byte() {
    assert_eq!(replicated_len(&put(0), 0x7fff) + 1, replicated_len(&put(0), 0xffff));
}

/// The name and the auth revision travel in the wrapper's header: eight bytes for `root` at
/// revision 6.
#[test]
fn the_user_counts_as_well() {
    let caller = Caller::user("root", 6);
    let with = |value: usize| super::replicated_len(put(value).encoded_len(), 0xc9f7_51f0_b0b4_fa5a, &caller);
    assert_eq!(with(LIMIT - 35), LIMIT);
    let long = Caller::user(&"u".repeat(200), 6);
    let without = replicated_len(&put(0), 0xfa5a);
    assert_eq!(super::replicated_len(put(0).encoded_len(), 0xfa5a, &long), without + 3 + 200 + 2 + 1);
}
