use tonic::{Code, Status};
use vetch_api::EtcdError;
use vetch_node::error::NodeError;
use vetch_node::store::StoreError;

use super::{node, relayed, request_stream, reworded, unknown_service};

fn headers(status: &Status) -> http::HeaderMap {
    let mut headers = http::HeaderMap::new();
    status.add_header(&mut headers).unwrap();
    headers
}

#[test]
fn refusals_of_the_store_keep_their_code_and_text_through_the_node() {
    let status = node(NodeError::Store(StoreError::LeaseTtlTooLarge));
    assert_eq!((status.code(), status.message()), (Code::OutOfRange, "etcdserver: too large lease TTL"));
    let status = node(NodeError::TooManyRequests);
    assert_eq!((status.code(), status.message()), (Code::Unknown, "etcdserver: too many requests"));
}

#[test]
fn paths_that_name_no_rpc_are_refused_in_the_words_of_grpc() {
    assert_eq!(unknown_service("/etcdserverpb.Nope/Range").message(), "unknown service etcdserverpb.Nope");
    assert_eq!(unknown_service("/nope").message(), "malformed method name: \"/nope\"");

    let tonic = headers(&Status::new(Code::Unimplemented, ""));
    let status = reworded(&tonic, "/etcdserverpb.Lease/Nope").unwrap();
    assert_eq!(status.message(), "unknown method Nope for service etcdserverpb.Lease");
}

#[test]
fn a_message_over_the_limit_is_refused_in_the_words_of_grpc() {
    let tonic = Status::out_of_range(
        "Error, decoded message length too large: found 2097162 bytes, the limit is: 2097152 bytes",
    );
    let expected = "grpc: received message larger than max (2097162 vs. 2097152)";

    let in_stream = request_stream(tonic.clone(), EtcdError::WatchCanceled);
    assert_eq!((in_stream.code(), in_stream.message()), (Code::ResourceExhausted, expected));

    let path = "/etcdserverpb.KV/Put";
    assert_eq!(reworded(&headers(&tonic), path).unwrap().message(), expected);
    assert!(reworded(&headers(&EtcdError::Compacted.into()), path).is_none());
    assert!(reworded(&headers(&EtcdError::RangeStreamSort.into()), path).is_none());
}

#[test]
fn a_cancelled_request_stream_ends_with_the_code_of_its_service() {
    let left = request_stream(Status::aborted("left"), EtcdError::WatchCanceled);
    assert_eq!(left.message(), EtcdError::WatchCanceled.text());
    let status = request_stream(Status::cancelled("h2 says so"), EtcdError::WatchCanceled);
    assert_eq!((status.code(), status.message()), (Code::Cancelled, "etcdserver: watch canceled"));
}

#[test]
fn relayed_errors_lose_their_code_unless_the_server_stops() {
    assert_eq!(relayed(EtcdError::EmptyKey).code(), Code::Unknown);
    assert_eq!(relayed(EtcdError::Stopped).code(), Code::Unavailable);
}
