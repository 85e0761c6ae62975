use std::time::Duration;

use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Streaming};
use vetch_api::mvccpb::event::EventType;
use vetch_api::pb;
use vetch_api::pb::watch_client::WatchClient;
use vetch_api::pb::watch_request::RequestUnion;

use crate::World;

/// One watch stream, both ends.
struct Watch {
    requests: mpsc::Sender<pb::WatchRequest>,
    responses: Streaming<pb::WatchResponse>,
}

impl Watch {
    async fn open(world: &World) -> Watch {
        let (requests, receiver) = mpsc::channel(16);
        let mut client = WatchClient::new(world.rpc.clone()).max_decoding_message_size(usize::MAX);
        let responses = client.watch(ReceiverStream::new(receiver)).await.unwrap().into_inner();
        Watch { requests, responses }
    }

    async fn send(&self, request: RequestUnion) {
        self.requests.send(pb::WatchRequest { request_union: Some(request) }).await.unwrap();
    }

    async fn create(&mut self, request: pb::WatchCreateRequest) -> pb::WatchResponse {
        self.send(RequestUnion::CreateRequest(request)).await;
        self.next().await
    }

    async fn next(&mut self) -> pb::WatchResponse {
        let next = tokio::time::timeout(Duration::from_secs(10), self.responses.message());
        next.await.expect("a response was due").unwrap().expect("the stream goes on")
    }
}

fn on(key: &'static str) -> pb::WatchCreateRequest {
    pb::WatchCreateRequest { key: key.into(), ..Default::default() }
}

#[tokio::test]
async fn creates_are_answered_and_refused_in_etcds_shapes() {
    let world = World::new().await;
    let mut watch = Watch::open(&world).await;
    let created = watch.create(on("w")).await;
    assert_eq!((created.header, created.watch_id, created.created), (world.header(1), 0, true));
    assert_eq!(watch.create(pb::WatchCreateRequest { watch_id: 9, ..on("w") }).await.watch_id, 9);

    let refusals = [
        (
            pb::WatchCreateRequest { watch_id: 9, ..on("w") },
            "mvcc: duplicate watch ID provided on the WatchStream",
        ),
        (pb::WatchCreateRequest { range_end: "a".into(), ..on("w") }, "mvcc: watcher range is empty"),
        (
            pb::WatchCreateRequest { start_revision: -3, ..on("w") },
            "etcdserver: mvcc: required revision has been compacted",
        ),
    ];
    for (request, reason) in refusals {
        let refused = watch.create(request).await;
        assert_eq!((refused.created, refused.canceled, refused.watch_id), (true, true, -1));
        assert_eq!((refused.header, refused.cancel_reason.as_str()), (world.header(1), reason));
    }
}

#[tokio::test]
async fn events_show_previous_values_to_those_who_asked() {
    let world = World::new().await;
    let mut watch = Watch::open(&world).await;
    watch.create(pb::WatchCreateRequest { prev_kv: true, ..on("w") }).await;
    for (revision, previous) in [(world.put("w", "1").await, None), (world.put("w", "2").await, Some("1"))] {
        let response = watch.next().await;
        assert_eq!((response.header, response.events.len()), (world.header(revision), 1));
        assert_eq!(
            response.events[0].prev_kv.as_ref().map(|kv| kv.value.as_ref()),
            previous.map(str::as_bytes)
        );
    }
    let revision = world.delete("w").await;
    let event = watch.next().await.events.remove(0);
    let kv = event.kv.clone().unwrap();
    assert_eq!((event.r#type(), kv.mod_revision, kv.create_revision), (EventType::Delete, revision, 0));
    assert_eq!(event.prev_kv.unwrap().value, "2");

    // From the past, without previous values.
    let mut plain = Watch::open(&world).await;
    plain.create(pb::WatchCreateRequest { start_revision: 2, ..on("w") }).await;
    let mut seen = 0;
    while seen < 3 {
        let response = plain.next().await;
        assert!(response.events.iter().all(|event| event.prev_kv.is_none()));
        seen += response.events.len();
    }
}

#[tokio::test]
async fn cancels_progress_and_compaction_are_sent() {
    let world = World::new().await;
    for _ in 0..4 {
        world.put("w", "1").await;
    }
    world.kv().compact(pb::CompactionRequest { revision: 4, physical: false }).await.unwrap();
    let mut watch = Watch::open(&world).await;
    let late = watch.create(pb::WatchCreateRequest { start_revision: 2, ..on("w") }).await;
    assert!(late.created && !late.canceled);
    let overtaken = watch.next().await;
    assert_eq!((overtaken.canceled, overtaken.compact_revision), (true, 4));
    assert_eq!((overtaken.header, overtaken.cancel_reason.as_str()), (world.header(0), ""));

    watch.create(pb::WatchCreateRequest { watch_id: 5, ..on("w") }).await;
    watch.send(RequestUnion::ProgressRequest(pb::WatchProgressRequest {})).await;
    let progress = watch.next().await;
    assert_eq!((progress.header, progress.watch_id, progress.events.len()), (world.header(5), -1, 0));

    // A cancel of no watcher is not answered, nor is a request with nothing in it.
    watch.send(RequestUnion::CancelRequest(pb::WatchCancelRequest { watch_id: 1000 })).await;
    watch.requests.send(pb::WatchRequest { request_union: None }).await.unwrap();
    watch.send(RequestUnion::CancelRequest(pb::WatchCancelRequest { watch_id: 5 })).await;
    let cancelled = watch.next().await;
    assert_eq!((cancelled.watch_id, cancelled.canceled, cancelled.header), (5, true, world.header(5)));
}

#[tokio::test]
async fn a_client_that_asks_no_more_is_served_on() {
    let world = World::new().await;
    let mut watch = Watch::open(&world).await;
    watch.create(on("w")).await;
    let (closed, _) = mpsc::channel(1);
    drop(std::mem::replace(&mut watch.requests, closed));
    let revision = world.put("w", "1").await;
    assert_eq!(watch.next().await.header, world.header(revision));
}

#[tokio::test]
async fn a_large_revision_comes_in_fragments_to_those_who_asked() {
    let world = World::new().await;
    let put = |i: usize| pb::RequestOp {
        request: Some(pb::request_op::Request::RequestPut(pb::PutRequest {
            key: format!("f{i:02}").into(),
            value: vec![b'v'; 14_000].into(),
            ..Default::default()
        })),
    };
    let txn = || pb::TxnRequest { success: (0..100).map(put).collect(), ..Default::default() };
    world.kv().txn(txn()).await.unwrap();
    let mut fragmented = Watch::open(&world).await;
    let mut whole = Watch::open(&world).await;
    let request = pb::WatchCreateRequest { range_end: "g".into(), prev_kv: true, ..on("f") };
    fragmented.create(pb::WatchCreateRequest { fragment: true, ..request.clone() }).await;
    whole.create(request).await;
    // With the previous values this is more than two mebibytes.
    world.kv().txn(txn()).await.unwrap();

    let (first, second) = (fragmented.next().await, fragmented.next().await);
    assert_eq!((first.fragment, second.fragment), (true, false));
    let all = whole.next().await;
    assert_eq!((all.fragment, all.events.len()), (false, 100));
    assert_eq!([first.events, second.events].concat(), all.events);
}

#[tokio::test]
async fn a_stream_ends_as_unavailable_when_the_server_stops() {
    let world = World::new().await;
    let mut watch = Watch::open(&world).await;
    watch.create(on("w")).await;
    world.node.shutdown().await;
    let status = watch.responses.message().await.unwrap_err();
    assert_eq!((status.code(), status.message()), (Code::Unavailable, "etcdserver: server stopped"));
}

#[tokio::test]
async fn a_request_that_is_too_long_ends_the_stream() {
    let world = World::new().await;
    let mut watch = Watch::open(&world).await;
    let request = pb::WatchCreateRequest { key: vec![1; 3_000_000].into(), ..Default::default() };
    watch.send(RequestUnion::CreateRequest(request)).await;
    let status = watch.responses.message().await.unwrap_err();
    let text = "grpc: received message larger than max (3000010 vs. 2097152)";
    assert_eq!((status.code(), status.message()), (Code::ResourceExhausted, text));
}
