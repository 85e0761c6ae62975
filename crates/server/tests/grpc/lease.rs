use futures_util::stream;
use tonic::Code;
use vetch_api::pb;

use crate::{World, refused};

#[tokio::test]
async fn grants_are_answered_with_the_granted_time() {
    let world = World::new().await;
    let mut leases = world.leases();
    let short = leases.lease_grant(pb::LeaseGrantRequest { id: -5, ttl: -1 }).await.unwrap().into_inner();
    assert_eq!((short.header, short.id, short.ttl), (world.header(1), -5, 2));
    let chosen = leases.lease_grant(pb::LeaseGrantRequest { id: 0, ttl: 100 }).await.unwrap().into_inner();
    assert!(chosen.id > 0);

    let again = leases.lease_grant(pb::LeaseGrantRequest { id: -5, ttl: 100 }).await;
    assert_eq!(refused(again), (Code::FailedPrecondition, "etcdserver: lease already exists".into()));
    let endless = leases.lease_grant(pb::LeaseGrantRequest { id: 1, ttl: 9_000_000_001 }).await;
    assert_eq!(refused(endless), (Code::OutOfRange, "etcdserver: too large lease TTL".into()));
}

#[tokio::test]
async fn a_renewal_of_no_lease_says_zero_and_the_stream_goes_on() {
    let world = World::new().await;
    world.grant(77).await;
    let requests = stream::iter([77, 79, 0, 77].map(|id| pb::LeaseKeepAliveRequest { id }));
    let mut answers = world.leases().lease_keep_alive(requests).await.unwrap().into_inner();
    let mut seen = Vec::new();
    while let Some(answer) = answers.message().await.unwrap() {
        assert_eq!(answer.header, world.header(1));
        seen.push((answer.id, answer.ttl));
    }
    assert_eq!(seen, [(77, 1000), (79, 0), (0, 0), (77, 1000)]);
}

#[tokio::test]
async fn renewals_end_as_unavailable_when_the_server_stops() {
    let world = World::new().await;
    let requests = stream::pending::<pb::LeaseKeepAliveRequest>();
    let mut answers = world.leases().lease_keep_alive(requests).await.unwrap().into_inner();
    world.node.shutdown().await;
    let status = answers.message().await.unwrap_err();
    assert_eq!((status.code(), status.message()), (Code::Unavailable, "etcdserver: server stopped"));
}

#[tokio::test]
async fn the_time_to_live_of_no_lease_is_minus_one() {
    let world = World::new().await;
    world.grant(77).await;
    world.kv().put(pb::PutRequest { key: "k".into(), lease: 77, ..Default::default() }).await.unwrap();
    let mut leases = world.leases();
    let known = leases.lease_time_to_live(pb::LeaseTimeToLiveRequest { id: 77, keys: true }).await.unwrap();
    let known = known.into_inner();
    assert_eq!((known.header, known.id, known.granted_ttl), (world.header(2), 77, 1000));
    assert!((990..=1000).contains(&known.ttl));
    assert_eq!(known.keys, ["k"]);

    let unknown = leases.lease_time_to_live(pb::LeaseTimeToLiveRequest { id: 78, keys: true }).await.unwrap();
    let unknown = unknown.into_inner();
    assert_eq!((unknown.id, unknown.ttl, unknown.granted_ttl), (78, -1, 0));

    let all = leases.lease_leases(pb::LeaseLeasesRequest {}).await.unwrap().into_inner();
    assert_eq!(all.leases, [pb::LeaseStatus { id: 77 }]);
    let revoked = leases.lease_revoke(pb::LeaseRevokeRequest { id: 77 }).await.unwrap().into_inner();
    assert_eq!(revoked.header, world.header(3));
    let again = leases.lease_revoke(pb::LeaseRevokeRequest { id: 77 }).await;
    assert_eq!(refused(again), (Code::NotFound, "etcdserver: requested lease not found".into()));
}
