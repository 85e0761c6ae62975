use bytes::Bytes;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::{Just, Strategy, any, prop_assert_eq, prop_oneof, proptest};
use prost::Message;

use super::{
    DeleteRangeResponse, Event, KeyValue, LayOut, OpResponse, Pieces, PutResponse, RangeResponse,
    RangeStreamResponse, TxnResponse, WatchResponse, WireMessage,
};
use crate::{mvccpb, pb};

/// Numbers whose varints have every length, the ten bytes of negative ones included.
fn int() -> impl Strategy<Value = i64> {
    prop_oneof![Just(0), Just(1), 0..300_i64, any::<i64>()]
}

fn some_bytes() -> impl Strategy<Value = Bytes> {
    prop_oneof![vec(any::<u8>(), 0..4), vec(any::<u8>(), 120..140)].prop_map(Bytes::from)
}

fn header() -> impl Strategy<Value = Option<pb::ResponseHeader>> {
    let header = (any::<u64>(), any::<u64>(), int(), any::<u64>()).prop_map(
        |(cluster_id, member_id, revision, raft_term)| pb::ResponseHeader {
            cluster_id,
            member_id,
            revision,
            raft_term,
        },
    );
    prop_oneof![Just(None), Just(Some(pb::ResponseHeader::default())), header.prop_map(Some)]
}

fn kv() -> impl Strategy<Value = mvccpb::KeyValue> {
    (some_bytes(), int(), int(), int(), some_bytes(), int()).prop_map(
        |(key, create_revision, mod_revision, version, value, lease)| mvccpb::KeyValue {
            key,
            create_revision,
            mod_revision,
            version,
            value,
            lease,
        },
    )
}

fn range() -> impl Strategy<Value = pb::RangeResponse> {
    (header(), vec(kv(), 0..4), any::<bool>(), int())
        .prop_map(|(header, kvs, more, count)| pb::RangeResponse { header, kvs, more, count })
}

fn put() -> impl Strategy<Value = pb::PutResponse> {
    (header(), option::of(kv())).prop_map(|(header, prev_kv)| pb::PutResponse { header, prev_kv })
}

fn delete() -> impl Strategy<Value = pb::DeleteRangeResponse> {
    (header(), int(), vec(kv(), 0..4)).prop_map(|(header, deleted, prev_kvs)| pb::DeleteRangeResponse {
        header,
        deleted,
        prev_kvs,
    })
}

fn op() -> impl Strategy<Value = pb::ResponseOp> {
    use pb::response_op::Response;
    let leaf = prop_oneof![
        range().prop_map(Response::ResponseRange),
        put().prop_map(Response::ResponsePut),
        delete().prop_map(Response::ResponseDeleteRange),
    ];
    let leaf = leaf.prop_map(|response| pb::ResponseOp { response: Some(response) });
    leaf.prop_recursive(4, 24, 4, |inner| {
        let txn = (header(), any::<bool>(), vec(inner, 0..4))
            .prop_map(|(header, succeeded, responses)| pb::TxnResponse { header, succeeded, responses });
        txn.prop_map(|txn| pb::ResponseOp { response: Some(Response::ResponseTxn(txn)) })
    })
}

fn event() -> impl Strategy<Value = mvccpb::Event> {
    (any::<bool>(), kv(), option::of(kv())).prop_map(|(delete, kv, prev_kv)| mvccpb::Event {
        r#type: delete.into(),
        kv: Some(kv),
        prev_kv,
    })
}

fn watch() -> impl Strategy<Value = pb::WatchResponse> {
    let flags = (any::<bool>(), any::<bool>(), any::<bool>());
    (header(), int(), flags, int(), ".{0,5}", vec(event(), 0..4)).prop_map(
        |(header, watch_id, (created, canceled, fragment), compact_revision, cancel_reason, events)| {
            pb::WatchResponse {
                header,
                watch_id,
                created,
                canceled,
                compact_revision,
                cancel_reason,
                fragment,
                events,
            }
        },
    )
}

fn wire_kv(kv: &mvccpb::KeyValue) -> Bytes {
    kv.encode_to_vec().into()
}

fn wire_kvs(kvs: &[mvccpb::KeyValue]) -> Vec<Bytes> {
    kvs.iter().map(wire_kv).collect()
}

fn wire_range(typed: &pb::RangeResponse) -> RangeResponse<Bytes> {
    RangeResponse { header: typed.header, kvs: wire_kvs(&typed.kvs), more: typed.more, count: typed.count }
}

fn wire_put(typed: &pb::PutResponse) -> PutResponse<Bytes> {
    PutResponse { header: typed.header, prev_kv: typed.prev_kv.as_ref().map(wire_kv) }
}

fn wire_delete(typed: &pb::DeleteRangeResponse) -> DeleteRangeResponse<Bytes> {
    DeleteRangeResponse { header: typed.header, deleted: typed.deleted, prev_kvs: wire_kvs(&typed.prev_kvs) }
}

fn wire_txn(typed: &pb::TxnResponse) -> TxnResponse<Bytes> {
    let responses = typed.responses.iter().map(|op| wire_op(op).into()).collect();
    TxnResponse { header: typed.header, succeeded: typed.succeeded, responses }
}

fn wire_op(typed: &pb::ResponseOp) -> OpResponse<Bytes> {
    use pb::response_op::Response;
    match typed.response.as_ref().expect("the strategy makes no empty ones") {
        Response::ResponseRange(range) => OpResponse::Range(wire_range(range)),
        Response::ResponsePut(put) => OpResponse::Put(wire_put(put)),
        Response::ResponseDeleteRange(delete) => OpResponse::DeleteRange(wire_delete(delete)),
        Response::ResponseTxn(txn) => OpResponse::Txn(wire_txn(txn)),
    }
}

fn wire_watch(typed: &pb::WatchResponse) -> WatchResponse<Bytes> {
    let events = typed.events.iter().map(|event| Event {
        delete: event.r#type == 1,
        kv: wire_kv(event.kv.as_ref().expect("the strategy always sets it")),
        prev_kv: event.prev_kv.as_ref().map(wire_kv),
    });
    WatchResponse {
        header: typed.header,
        watch_id: typed.watch_id,
        created: typed.created,
        canceled: typed.canceled,
        compact_revision: typed.compact_revision,
        cancel_reason: typed.cancel_reason.clone(),
        fragment: typed.fragment,
        events: events.collect(),
    }
}

/// The same bytes as the twin, which is stricter than the same fields, and the length it said.
fn same<W: WireMessage>(wire: &W, typed: &W::Typed) -> Result<(), proptest::test_runner::TestCaseError>
where
    W::Typed: PartialEq + std::fmt::Debug,
{
    prop_assert_eq!(wire.encode_to_vec(), Message::encode_to_vec(typed));
    prop_assert_eq!(&wire.to_typed().expect("what we encode decodes"), typed);
    Ok(())
}

/// In pieces of any size, the same bytes.
fn same_in_pieces<W>(wire: W, size: usize) -> Result<(), proptest::test_runner::TestCaseError>
where
    W: LayOut<Bytes>,
{
    let whole = [&b"prefix"[..], &wire.encode_to_vec()].concat();
    let mut pieces = Pieces::new(b"prefix", wire);
    let mut given = Vec::new();
    while pieces.remaining() > 0 {
        prop_assert_eq!(pieces.remaining(), whole.len() - given.len());
        let piece = pieces.next(size);
        prop_assert_eq!(piece.len(), size.min(whole.len() - given.len()));
        given.extend_from_slice(&piece);
    }
    prop_assert_eq!(given, whole);
    Ok(())
}

proptest! {
    #[test]
    fn answers_encode_the_same_in_pieces(
        range in range(), put in put(), delete in delete(), ops in vec(op(), 0..4), size in 1..60usize,
    ) {
        same_in_pieces(wire_range(&range), size)?;
        same_in_pieces(wire_put(&put), size)?;
        same_in_pieces(wire_delete(&delete), size)?;
        same_in_pieces(wire_txn(&pb::TxnResponse { header: None, succeeded: true, responses: ops }), size)?;
    }

    #[test]
    fn key_values_encode_like_the_generated_type(kv in kv()) {
        let parts = KeyValue {
            key: &kv.key,
            create_revision: kv.create_revision,
            mod_revision: kv.mod_revision,
            version: kv.version,
            value: &kv.value,
            lease: kv.lease,
        };
        prop_assert_eq!(parts.encode_to_vec(), kv.encode_to_vec());
        prop_assert_eq!(parts.encoded_len(), kv.encoded_len());
    }

    #[test]
    fn answers_encode_like_the_generated_types(range in range(), put in put(), delete in delete()) {
        same(&wire_range(&range), &range)?;
        same(&wire_put(&put), &put)?;
        same(&wire_delete(&delete), &delete)?;
        let stream = RangeStreamResponse { range_response: wire_range(&range) };
        same(&stream, &pb::RangeStreamResponse { range_response: Some(range) })?;
    }

    #[test]
    fn transactions_encode_like_the_generated_types(header in header(), succeeded: bool, ops in vec(op(), 0..4)) {
        let txn = pb::TxnResponse { header, succeeded, responses: ops };
        same(&wire_txn(&txn), &txn)?;
    }

    #[test]
    fn watch_frames_encode_like_the_generated_types(watch in watch()) {
        same(&wire_watch(&watch), &watch)?;
    }
}

#[test]
fn a_frame_without_news_is_empty() {
    assert!(WatchResponse::<Bytes>::default().encode_to_vec().is_empty());
}
