//! A server that stands in for another one, and then takes its place.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body::Frame;
use http_body_util::StreamBody;
use tokio_stream::StreamExt;
use tonic::Code;
use tonic::body::Body;
use tonic::transport::{Channel, Endpoint};
use vetch_api::pb;
use vetch_api::pb::kv_client::KvClient;
use vetch_api::pb::maintenance_client::MaintenanceClient;
use vetch_api::pb::watch_client::WatchClient;
use vetch_api::pb::watch_request::RequestUnion;
use vetch_metrics::ServerMetrics;
use vetch_node::Node;
use vetch_server::grpc::{RequestRouter, Rpc};
use vetch_server::http::url::Url;
use vetch_server::http::{ListenerConfig, Security, Server, ServerState, Serves, Settings, listen};

use crate::{World, refused};

/// Services on a port of their own, and a way to them.
pub(crate) async fn listening(world: &World, rpc: &Rpc) -> (Server, Channel) {
    listening_with(world.node.clone(), rpc).await
}

pub(crate) async fn listening_with(node: Node, rpc: &Rpc) -> (Server, Channel) {
    let listener = listen::bind(&Url::parse("http://127.0.0.1:0").unwrap(), false).await.unwrap();
    let address = format!("http://{}", listener.address());
    let metrics = Arc::new(ServerMetrics::new(false, Duration::MAX));
    let shared = ServerState::new(node, rpc.clone(), metrics, Settings::default());
    let config = ListenerConfig { serves: Serves::GrpcAndHttp, security: Security::Plain };
    let server = Server::start(Arc::new(shared), vec![(listener, config)]);
    (server, Endpoint::from_shared(address).unwrap().connect().await.unwrap())
}

fn put(key: &'static str) -> pb::PutRequest {
    pb::PutRequest { key: key.into(), value: "v".into(), ..Default::default() }
}

async fn watch(rpc: &Rpc) -> tonic::Streaming<pb::WatchResponse> {
    let create = pb::WatchCreateRequest { key: "/".into(), range_end: "0".into(), ..Default::default() };
    let request = pb::WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) };
    let requests = tokio_stream::once(request).chain(tokio_stream::pending());
    let mut answers = WatchClient::new(rpc.clone()).watch(requests).await.unwrap().into_inner();
    assert!(answers.message().await.unwrap().unwrap().created);
    answers
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_are_passed_on_then_wait_and_then_are_answered_here() {
    let (there, here) = (World::new().await, World::new().await);
    let (server, channel) = listening(&there, &there.rpc).await;
    let router = RequestRouter::new("not yet");
    let rpc = here.rpc.clone().with_router(router.clone());
    let (front, to_front) = listening(&here, &rpc).await;
    let mut kv = KvClient::new(to_front);
    assert_eq!(refused(kv.put(put("/early")).await), (Code::Unavailable, "not yet".into()));

    router.forward_to(channel);
    let mut events = watch(&rpc).await;
    kv.put(put("/passed")).await.unwrap();
    assert_eq!((there.under("/").await.len(), here.under("/").await.len()), (1, 0));
    assert_eq!(events.message().await.unwrap().unwrap().events.len(), 1);
    // What the other server refuses is refused in its words.
    assert_eq!(refused(kv.put(put("")).await).1, "etcdserver: key is not provided");

    assert!(router.hold(Duration::from_secs(5)).await, "nothing is under way any more");
    assert_eq!(events.message().await.unwrap_err().code(), Code::Unavailable, "a stream begins again");
    let waiting = tokio::spawn(async move { kv.put(put("/waited")).await });
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!waiting.is_finished(), "not answered yet");
    router.serve_locally();
    waiting.await.unwrap().unwrap();
    assert_eq!((there.under("/").await.len(), here.under("/").await.len()), (1, 1));
    watch(&rpc).await;
    front.stop().await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_under_way_is_waited_for_and_a_change_of_mind_lets_requests_through_again() {
    let (there, here) = (World::new().await, World::new().await);
    let (server, channel) = listening(&there, &there.rpc).await;
    let router = RequestRouter::new("not yet");
    router.forward_to(channel.clone());
    let rpc = here.rpc.clone().with_router(router.clone());
    let puts: Vec<_> = (0..200)
        .map(|_| {
            let mut kv = KvClient::new(rpc.clone());
            tokio::spawn(async move { kv.put(put("/many")).await })
        })
        .collect();
    assert!(router.hold(Duration::from_secs(10)).await);
    let passed = there.node.revision();
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(there.node.revision(), passed, "nothing comes after all that was under way");
    router.forward_to(channel);
    for put in puts {
        put.await.unwrap().unwrap();
    }
    assert_eq!(there.node.revision(), 201);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_the_fence_refused_is_answered_here_after_the_change_over() {
    let (there, here) = (World::new().await, World::new().await);
    let (server, channel) = listening(&there, &there.rpc).await;
    let alarm = |action: pb::alarm_request::AlarmAction| pb::AlarmRequest {
        action: action.into(),
        member_id: 1,
        alarm: pb::AlarmType::Corrupt.into(),
    };
    let mut maintenance = MaintenanceClient::new(channel.clone());
    maintenance.alarm(alarm(pb::alarm_request::AlarmAction::Activate)).await.unwrap();
    let router = RequestRouter::new("not yet");
    router.forward_to(channel);
    let rpc = here.rpc.clone().with_router(router.clone());
    let mut kv = KvClient::new(rpc.clone());
    // Nothing changes hands now, so the other server's word counts.
    assert_eq!(refused(kv.put(put("/refused")).await).0, Code::DataLoss);

    // Forwarded before, refused after: the message comes when the request is known to be on its
    // way.
    let (taken, is_taken) = tokio::sync::oneshot::channel();
    let (message, comes) = tokio::sync::oneshot::channel::<Bytes>();
    let body = futures_util::stream::once(async move {
        taken.send(()).unwrap();
        Ok::<_, tonic::Status>(Frame::data(comes.await.unwrap()))
    });
    let late = http::Request::post("/etcdserverpb.KV/Put").header("content-type", "application/grpc");
    let late = late.header("te", "trailers").body(Body::new(StreamBody::new(body))).unwrap();
    let waiting = tokio::spawn(async move { rpc.answer(late).await });
    is_taken.await.unwrap();
    assert!(!router.hold(Duration::from_millis(10)).await, "one is under way");
    message.send(Bytes::from_static(b"\0\0\0\0\x07\x0a\x05/late")).unwrap();
    router.serve_locally();
    let answer = waiting.await.unwrap();
    assert_eq!(answer.headers().get("grpc-status").map(|status| status.as_bytes()), None, "{answer:?}");
    assert_eq!((there.under("/").await.len(), here.under("/").await.len()), (0, 1));
    server.stop().await;
}
