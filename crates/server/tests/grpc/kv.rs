use bytes::Bytes;
use prost::Message;
use tonic::Code;
use vetch_api::pb;
use vetch_api::pb::request_op::Request;

use crate::{World, refused};

const LIMIT: usize = 3 << 19;

fn put(key: &'static str, value: impl Into<Bytes>) -> pb::PutRequest {
    pb::PutRequest { key: key.into(), value: value.into(), ..Default::default() }
}

fn op(request: Request) -> pb::RequestOp {
    pb::RequestOp { request: Some(request) }
}

fn txn(success: Vec<pb::RequestOp>) -> pb::TxnRequest {
    pb::TxnRequest { success, ..Default::default() }
}

#[tokio::test]
async fn headers_carry_the_revision_of_the_write_or_the_current_one() {
    let world = World::new().await;
    let mut kv = world.kv();
    let first = kv.put(put("a", "1")).await.unwrap().into_inner();
    assert_eq!((first.header, first.prev_kv), (world.header(2), None));

    let second = kv.put(pb::PutRequest { prev_kv: true, ..put("a", "2") }).await.unwrap().into_inner();
    let previous = second.prev_kv.unwrap();
    assert_eq!(second.header, world.header(3));
    assert_eq!((previous.value, previous.mod_revision, previous.version), ("1".into(), 2, 1));

    let missing = pb::DeleteRangeRequest { key: "nope".into(), ..Default::default() };
    assert_eq!(kv.delete_range(missing).await.unwrap().into_inner().header, world.header(3));
    assert_eq!(kv.txn(txn(vec![])).await.unwrap().into_inner().header, world.header(3));
    let compacted = kv.compact(pb::CompactionRequest { revision: 2, physical: true }).await.unwrap();
    assert_eq!(compacted.into_inner().header, world.header(3));
}

#[tokio::test]
async fn refusals_have_the_code_and_the_text_of_the_table() {
    let world = World::new().await;
    let mut kv = world.kv();
    world.put("a", "1").await;
    let invalid = |text: &str| (Code::InvalidArgument, text.to_owned());
    let beyond = |text: &str| (Code::OutOfRange, text.to_owned());

    assert_eq!(refused(kv.put(put("", "")).await), invalid("etcdserver: key is not provided"));
    let leased = pb::PutRequest { lease: 99, ..put("a", "") };
    let no_lease = (Code::NotFound, "etcdserver: requested lease not found".to_owned());
    assert_eq!(refused(kv.put(leased).await), no_lease);
    let sorted = pb::RangeRequest { key: "a".into(), sort_order: 7, ..Default::default() };
    assert_eq!(refused(kv.range(sorted).await), invalid("etcdserver: invalid sort option"));
    let future = pb::RangeRequest { key: "a".into(), revision: 100, ..Default::default() };
    let text = "etcdserver: mvcc: required revision is a future revision";
    assert_eq!(refused(kv.range(future).await), beyond(text));
    let many = (0..129).map(|_| pb::RequestOp { request: None }).collect();
    assert_eq!(refused(kv.txn(txn(many)).await), invalid("etcdserver: too many operations in txn request"));
    let twice = || op(Request::RequestPut(put("a", "")));
    let text = "etcdserver: duplicate key given in txn request";
    assert_eq!(refused(kv.txn(txn(vec![twice(), twice()])).await), invalid(text));
}

#[tokio::test]
async fn a_write_may_be_as_large_as_etcd_lets_it_be_and_no_byte_larger() {
    let world = World::new().await;
    let mut kv = world.kv();
    let of = |len: usize| put("big", vec![0; len]);
    let too_large = (Code::InvalidArgument, "etcdserver: request is too large".to_owned());

    kv.put(of(LIMIT - 27)).await.unwrap();
    assert_eq!(refused(kv.put(of(LIMIT - 26)).await), too_large);
    kv.txn(txn(vec![op(Request::RequestPut(of(LIMIT - 35)))])).await.unwrap();
    assert_eq!(refused(kv.txn(txn(vec![op(Request::RequestPut(of(LIMIT - 34)))])).await), too_large);
    // What is wrong with a request is said before that it is too large.
    let unnamed = pb::PutRequest { key: Bytes::new(), ..of(LIMIT) };
    assert_eq!(refused(kv.put(unnamed).await).1, "etcdserver: key is not provided");

    // Reads are not journalled, so only the limit on messages holds for them.
    kv.range(pb::RangeRequest { key: vec![1; LIMIT + 1].into(), ..Default::default() }).await.unwrap();
    let compare = pb::Compare { key: vec![1; LIMIT + 1].into(), ..Default::default() };
    kv.txn(pb::TxnRequest { compare: vec![compare], ..Default::default() }).await.unwrap();

    let over = of(3_000_000);
    let text = format!("grpc: received message larger than max ({} vs. 2097152)", over.encoded_len());
    assert_eq!(refused(kv.put(over).await), (Code::ResourceExhausted, text));
}

#[tokio::test]
async fn a_streamed_range_merges_to_the_unary_one() {
    let world = World::new().await;
    let mut kv = world.kv();
    for i in 0..200 {
        let request = pb::PutRequest {
            key: format!("k{i:03}").into(),
            value: vec![b'v'; 20_000].into(),
            ..Default::default()
        };
        kv.put(request).await.unwrap();
    }
    let request =
        pb::RangeRequest { key: "k".into(), range_end: "l".into(), limit: 150, ..Default::default() };
    let unary = kv.range(request.clone()).await.unwrap().into_inner();
    let mut parts = kv.range_stream(request).await.unwrap().into_inner();
    let (mut merged, mut count) = (pb::RangeResponse::default(), 0);
    while let Some(part) = parts.message().await.unwrap() {
        let part = part.range_response.unwrap();
        assert!(merged.header.is_none(), "nothing comes after the part with the header");
        assert!(part.header.is_some() || (part.count == 0 && !part.more));
        merged.merge(part.encode_to_vec().as_slice()).unwrap();
        count += 1;
    }
    assert_eq!(merged, unary);
    assert!(count > 2, "three megabytes came in {count} parts");
}

#[tokio::test]
async fn a_streamed_range_refuses_what_it_cannot_order_or_filter() {
    let world = World::new().await;
    let mut kv = world.kv();
    let request = |sort_order, min_mod_revision| pb::RangeRequest {
        key: "a".into(),
        sort_order,
        min_mod_revision,
        ..Default::default()
    };
    let unimplemented = |text: &str| (Code::Unimplemented, text.to_owned());
    let sorted = refused(kv.range_stream(request(2, 0)).await);
    assert_eq!(sorted, unimplemented("RangeStream does not support custom sort orders"));
    let filtered = refused(kv.range_stream(request(0, 2)).await);
    assert_eq!(filtered, unimplemented("RangeStream does not support revision filters"));
}
