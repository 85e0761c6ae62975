//! The wire servers, asked by the generated clients over a real connection.

use std::time::Duration;

use bytes::Bytes;
use prost::Message;
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tokio_stream::{Stream, StreamExt};
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Code, Request, Response, Status, Streaming};
use vetch_api::error::{EtcdError, received_too_large};
use vetch_api::pb::kv_client::KvClient;
use vetch_api::pb::watch_client::WatchClient;
use vetch_api::wire::{self, OpResponse, RangeResponse};
use vetch_api::wire_server::kv_server::{Kv, KvServer};
use vetch_api::wire_server::watch_server::{Watch, WatchServer};
use vetch_api::{mvccpb, pb};

const LIMIT: usize = 64 * 1024;

type Reply<T> = Result<Response<T>, Status>;
type Parts<T> = std::pin::Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// Answers each request with what the request says, so that a mix-up would show.
struct Echo;

fn header(revision: i64) -> Option<pb::ResponseHeader> {
    Some(pb::ResponseHeader { revision, ..Default::default() })
}

fn kv(key: &[u8]) -> mvccpb::KeyValue {
    mvccpb::KeyValue { key: Bytes::copy_from_slice(key), ..Default::default() }
}

fn wire_kv(key: &[u8]) -> Bytes {
    kv(key).encode_to_vec().into()
}

fn echo(request: &pb::RangeRequest) -> RangeResponse<Bytes> {
    RangeResponse { header: header(request.revision), kvs: vec![wire_kv(&request.key)], more: true, count: 1 }
}

impl Kv for Echo {
    type K = Bytes;
    type RangeStreamStream = Parts<wire::RangeStreamResponse<Bytes>>;

    async fn range(&self, request: Request<pb::RangeRequest>) -> Reply<RangeResponse<Bytes>> {
        tokio::task::yield_now().await;
        if request.get_ref().key.is_empty() {
            return Err(EtcdError::EmptyKey.into());
        }
        Ok(Response::new(echo(request.get_ref())))
    }

    async fn range_stream(&self, request: Request<pb::RangeRequest>) -> Reply<Self::RangeStreamStream> {
        let part = wire::RangeStreamResponse { range_response: echo(request.get_ref()) };
        Ok(Response::new(Box::pin(tokio_stream::iter([Ok(part.clone()), Ok(part)]))))
    }

    async fn put(&self, request: Request<pb::PutRequest>) -> Reply<wire::PutResponse<Bytes>> {
        let prev_kv = Some(wire_kv(&request.get_ref().key));
        Ok(Response::new(wire::PutResponse { header: header(1), prev_kv }))
    }

    async fn delete_range(
        &self,
        request: Request<pb::DeleteRangeRequest>,
    ) -> Reply<wire::DeleteRangeResponse<Bytes>> {
        let prev_kvs = vec![wire_kv(&request.get_ref().key)];
        Ok(Response::new(wire::DeleteRangeResponse { header: header(2), deleted: 1, prev_kvs }))
    }

    async fn txn(&self, _: Request<pb::TxnRequest>) -> Reply<wire::TxnResponse<Bytes>> {
        let put = OpResponse::Put(wire::PutResponse { header: header(3), prev_kv: None });
        let inner = wire::TxnResponse { header: header(4), succeeded: true, responses: vec![put.into()] };
        let responses = vec![OpResponse::Txn(inner).into()];
        Ok(Response::new(wire::TxnResponse { header: header(5), succeeded: false, responses }))
    }

    async fn compact(&self, request: Request<pb::CompactionRequest>) -> Reply<pb::CompactionResponse> {
        Ok(Response::new(pb::CompactionResponse { header: header(request.get_ref().revision) }))
    }
}

impl Watch for Echo {
    type K = Bytes;
    type WatchStream = Parts<wire::WatchResponse<Bytes>>;

    async fn watch(&self, request: Request<Streaming<pb::WatchRequest>>) -> Reply<Self::WatchStream> {
        let frames = request.into_inner().map(|request| {
            let Some(pb::watch_request::RequestUnion::CreateRequest(create)) = request?.request_union else {
                return Err(EtcdError::WatchCanceled.into());
            };
            let event = wire::Event { delete: true, kv: wire_kv(&create.key), prev_kv: None };
            Ok(wire::WatchResponse { watch_id: create.watch_id, events: vec![event], ..Default::default() })
        });
        Ok(Response::new(Box::pin(frames)))
    }
}

async fn connect() -> Channel {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has free ports");
    let address = listener.local_addr().expect("a bound socket has one");
    let server = Server::builder()
        .add_service(KvServer::new(Echo).max_decoding_message_size(LIMIT))
        .add_service(WatchServer::new(Echo).max_decoding_message_size(LIMIT));
    tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
    let endpoint = Endpoint::try_from(format!("http://{address}")).expect("a valid address");
    endpoint.timeout(Duration::from_secs(20)).connect().await.expect("the server listens")
}

fn range(key: &'static str, revision: i64) -> pb::RangeRequest {
    pb::RangeRequest { key: key.into(), revision, ..Default::default() }
}

#[tokio::test]
async fn unary_answers_arrive_as_the_generated_types() {
    let mut client = KvClient::new(connect().await);
    let answer = client.range(range("a", 7)).await.expect("answered").into_inner();
    let expected = pb::RangeResponse { header: header(7), kvs: vec![kv(b"a")], more: true, count: 1 };
    assert_eq!(answer, expected);

    let request = pb::PutRequest { key: "b".into(), ..Default::default() };
    let answer = client.put(request).await.expect("answered").into_inner();
    assert_eq!(answer, pb::PutResponse { header: header(1), prev_kv: Some(kv(b"b")) });

    let request = pb::DeleteRangeRequest { key: "c".into(), ..Default::default() };
    let answer = client.delete_range(request).await.expect("answered").into_inner();
    assert_eq!(answer, pb::DeleteRangeResponse { header: header(2), deleted: 1, prev_kvs: vec![kv(b"c")] });

    let answer = client.compact(pb::CompactionRequest { revision: 9, physical: true }).await;
    assert_eq!(answer.expect("answered").into_inner().header, header(9));
}

#[tokio::test]
async fn nested_transactions_arrive() {
    use pb::response_op::Response::{ResponsePut, ResponseTxn};
    let mut client = KvClient::new(connect().await);
    let answer = client.txn(pb::TxnRequest::default()).await.expect("answered").into_inner();
    let op = |response| pb::ResponseOp { response: Some(response) };
    let put = op(ResponsePut(pb::PutResponse { header: header(3), prev_kv: None }));
    let inner = op(ResponseTxn(pb::TxnResponse { header: header(4), succeeded: true, responses: vec![put] }));
    assert_eq!(answer, pb::TxnResponse { header: header(5), succeeded: false, responses: vec![inner] });
}

#[tokio::test]
async fn streams_arrive_part_by_part() {
    let channel = connect().await;
    let parts =
        KvClient::new(channel.clone()).range_stream(range("s", 3)).await.expect("answered").into_inner();
    let parts: Vec<_> =
        parts.map(|part| part.expect("no error").range_response.expect("set")).collect().await;
    assert_eq!(parts.len(), 2);
    assert_eq!((&parts[1].header, &parts[1].kvs), (&header(3), &vec![kv(b"s")]));

    let create = pb::WatchCreateRequest { key: "w".into(), watch_id: 4, ..Default::default() };
    let union = pb::watch_request::RequestUnion::CreateRequest(create);
    let requests = [pb::WatchRequest { request_union: Some(union) }, pb::WatchRequest::default()];
    let mut frames =
        WatchClient::new(channel).watch(tokio_stream::iter(requests)).await.expect("answered").into_inner();
    let frame = frames.message().await.expect("no error").expect("one frame");
    let event =
        mvccpb::Event { r#type: mvccpb::event::EventType::Delete.into(), kv: Some(kv(b"w")), prev_kv: None };
    assert_eq!(frame, pb::WatchResponse { watch_id: 4, events: vec![event], ..Default::default() });
    let status = frames.message().await.expect_err("the second request is refused");
    assert_eq!((status.code(), status.message()), (Code::Cancelled, EtcdError::WatchCanceled.text()));
}

#[tokio::test]
async fn errors_keep_code_and_text() {
    let status =
        KvClient::new(connect().await).range(range("", 0)).await.expect_err("an empty key is refused");
    assert_eq!((status.code(), status.message()), (Code::InvalidArgument, "etcdserver: key is not provided"));
}

#[tokio::test]
async fn a_request_over_the_limit_is_refused_in_words_we_can_translate() {
    let request = pb::PutRequest { value: vec![0; LIMIT].into(), ..Default::default() };
    let length = request.encoded_len();
    let status = KvClient::new(connect().await).put(request).await.expect_err("too long");
    let reworded =
        received_too_large(status.code(), status.message()).expect("tonic still words it this way");
    assert_eq!(reworded.message(), format!("grpc: received message larger than max ({length} vs. {LIMIT})"));
}

#[tokio::test]
async fn an_unknown_method_is_unimplemented() {
    let mut grpc = tonic::client::Grpc::new(connect().await);
    grpc.ready().await.expect("connected");
    let path = http_path("/etcdserverpb.KV/Guess");
    let codec = tonic_prost::ProstCodec::<pb::RangeRequest, pb::RangeResponse>::default();
    let status =
        grpc.unary(Request::new(range("a", 0)), path, codec).await.expect_err("there is no such method");
    assert_eq!(
        (status.code(), status.message()),
        (Code::Unimplemented, "unknown method Guess for service etcdserverpb.KV")
    );
}

fn http_path(path: &'static str) -> tonic::codegen::http::uri::PathAndQuery {
    tonic::codegen::http::uri::PathAndQuery::from_static(path)
}
