//! Our own service: what one look shows, and to whom.

use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use vetch_api::pb;
use vetch_api::pb::watch_client::WatchClient;
use vetch_api::pb::watch_request::RequestUnion;
use vetch_api::vetch::operator_client::OperatorClient;
use vetch_api::vetch::{LookRequest, LookResponse, Prefix};

use crate::World;
use crate::auth::{DENIED, Guarded, NO_USER, by, guarded, refused};

impl World {
    fn operator(&self) -> OperatorClient<vetch_server::grpc::Rpc> {
        OperatorClient::new(self.rpc.clone())
    }

    async fn look(&self) -> LookResponse {
        self.operator().look(LookRequest::default()).await.unwrap().into_inner()
    }

    /// Looks until it sees what it wants; what is counted behind the writes takes a moment.
    async fn look_for(&self, wanted: impl Fn(&LookResponse) -> bool) -> LookResponse {
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            let look = self.look().await;
            if wanted(&look) {
                return look;
            }
            assert!(Instant::now() < deadline, "{look:#?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_look_shows_what_is_written_where() {
    let world = World::new().await;
    world.put("/registry/pods/default/a", "12345").await;
    world.put("/registry/pods/default/b", "12345").await;
    world.delete("/registry/pods/default/a").await;
    world.put("/registry/services/specs/default/kubernetes", "").await;
    world.grant(7).await;
    let look = world.look_for(|look| look.prefixes.len() == 2).await;
    let pods = Prefix { prefix: "/registry/pods".into(), puts: 2, deletes: 1, bytes: 3 * 24 + 10 };
    let services = Prefix { prefix: "/registry/services/specs".into(), puts: 1, deletes: 0, bytes: 43 };
    assert_eq!(look.prefixes, [pods, services]);
    assert_eq!(look.other_prefixes, Some(Prefix { prefix: "(other)".into(), ..Prefix::default() }));

    let (storage, leases) = (look.storage.unwrap(), look.leases.unwrap());
    assert_eq!((storage.revision, storage.keys, storage.quota_bytes), (5, 2, 2 << 30));
    assert_eq!((leases.leases, leases.granted, leases.overdue), (1, 1, 0));
    let (server, journal) = (look.server.unwrap(), look.journal.unwrap());
    assert_eq!((server.name.as_str(), server.member_id), ("m1", crate::MEMBER));
    assert!(server.resident_bytes > 0 && journal.appends > 0 && journal.bytes > 0, "{journal:?}");
}

/// A client that asks for events and then does not read them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_does_not_read_is_named() {
    let world = World::new().await;
    let (requests, receiver) = mpsc::channel(1);
    let mut client = WatchClient::new(world.rpc.clone());
    let mut responses = client.watch(ReceiverStream::new(receiver)).await.unwrap().into_inner();
    let create = pb::WatchCreateRequest { key: "w".into(), ..Default::default() };
    let request = pb::WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) };
    requests.send(request).await.unwrap();
    assert!(responses.message().await.unwrap().unwrap().created);
    let first = world.put("w", "1").await;
    world.put("w", "2").await;

    let look = world.look_for(|look| look.watching.as_ref().unwrap().slow_streams == 1).await;
    let watching = look.watching.unwrap();
    let slow = &watching.slowest[0];
    assert_eq!((slow.key.as_str(), slow.revision, slow.revisions_behind), ("w", first, 2));
    assert!(slow.lag_seconds >= 1.0 && watching.longest_lag_seconds >= 1.0, "{slow:?}");

    assert_eq!(responses.message().await.unwrap().unwrap().events.len(), 1);
    assert_eq!(responses.message().await.unwrap().unwrap().events.len(), 1);
    // It has read everything, but only asking for more shows that.
    let _ = tokio::time::timeout(Duration::from_millis(10), responses.message()).await;
    let look = world.look().await.watching.unwrap();
    assert_eq!((look.slow_streams, look.most_revisions_behind, look.slowest), (0, 0, Vec::new()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_there_are_users_it_is_for_root() {
    let Guarded { world, root, reader, .. } = guarded().await;
    assert_eq!(refused!(world.operator().look(LookRequest::default())), NO_USER);
    assert_eq!(refused!(world.operator().look(by(&reader, LookRequest::default()))), DENIED);
    let look = world.operator().look(by(&root, LookRequest::default())).await.unwrap().into_inner();
    assert!(look.server.unwrap().auth_enabled);
}
