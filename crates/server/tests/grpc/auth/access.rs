//! Keys, leases, watches, and the services built on them, with and without permission.

use std::time::Duration;

use tokio_stream::StreamExt;
use tonic::Code;
use vetch_api::pb;
use vetch_api::pb::lease_client::LeaseClient;
use vetch_api::pb::watch_client::WatchClient;
use vetch_api::pb::watch_request::RequestUnion;
use vetch_api::v3electionpb::election_client::ElectionClient;
use vetch_api::v3electionpb::{CampaignRequest, LeaderRequest};
use vetch_api::v3lockpb::LockRequest;
use vetch_api::v3lockpb::lock_client::LockClient;

use super::*;

#[tokio::test]
async fn keys_are_read_and_written_as_permitted() {
    let Guarded { world, root, reader, writer } = guarded().await;
    let mut kv = world.kv();
    assert_eq!(kv.range(by(&reader, get("r/", "r0"))).await.unwrap().into_inner().count, 1);
    assert_eq!(refused!(kv.range(by(&reader, get("r/", "r1")))), DENIED);
    assert_eq!(refused!(kv.range(by(&writer, get("w/1", "")))), DENIED);
    kv.put(by(&writer, put("w/2"))).await.unwrap();
    assert_eq!(refused!(kv.put(by(&reader, put("r/1")))), DENIED);
    assert_eq!(refused!(kv.put(put("w/1"))), NO_USER);
    kv.delete_range(by(&writer, delete("w/", "w0"))).await.unwrap();
    assert_eq!(refused!(kv.delete_range(by(&writer, delete("w/", "\0")))), DENIED);
    assert_eq!(kv.range(by(&root, get("\0", "\0"))).await.unwrap().into_inner().count, 2);
    let empty = refused!(kv.range(by("bad", pb::RangeRequest::default())));
    assert_eq!(
        empty,
        (Code::InvalidArgument, "etcdserver: key is not provided"),
        "nonsense is refused first"
    );
}

#[tokio::test]
async fn streamed_ranges_are_ranges() {
    let Guarded { world, reader, .. } = guarded().await;
    let mut answers = world.kv().range_stream(by(&reader, get("r/", "r0"))).await.unwrap().into_inner();
    let first = answers.next().await.unwrap().unwrap();
    assert_eq!(first.range_response.unwrap().kvs.len(), 1);
    let mut answers = world.kv().range_stream(by(&reader, get("r/", "\0"))).await.unwrap().into_inner();
    let refusal = answers.next().await.unwrap().unwrap_err();
    assert_eq!((refusal.code(), refusal.message()), DENIED);
}

#[tokio::test]
async fn leases_belong_to_those_who_may_write_their_keys() {
    let Guarded { world, root, reader, writer } = guarded().await;
    let mut leases = LeaseClient::new(world.rpc.clone());
    let grant = |id| pb::LeaseGrantRequest { id, ttl: 100 };
    assert_eq!(refused!(leases.lease_grant(grant(1))), NO_USER);
    leases.lease_grant(by(&reader, grant(1))).await.unwrap();
    leases.lease_grant(by(&writer, grant(2))).await.unwrap();
    let attach = |key: &'static str, lease| pb::PutRequest { lease, ..put(key) };
    world.kv().put(by(&root, attach("secret", 1))).await.unwrap();
    world.kv().put(by(&writer, attach("w/1", 2))).await.unwrap();
    assert_eq!(refused!(world.kv().put(by(&writer, attach("w/1", 1)))), DENIED);
    assert_eq!(refused!(leases.lease_revoke(by(&writer, pb::LeaseRevokeRequest { id: 1 }))), DENIED);
    assert_eq!(refused!(leases.lease_revoke(pb::LeaseRevokeRequest { id: 99 })), NO_USER);
    let ttl = |id, keys| pb::LeaseTimeToLiveRequest { id, keys };
    assert_eq!(refused!(leases.lease_time_to_live(by(&writer, ttl(2, true)))), DENIED, "no reading");
    leases.lease_time_to_live(by(&writer, ttl(2, false))).await.unwrap();
    leases.lease_time_to_live(by(&reader, ttl(1, false))).await.unwrap();
    assert_eq!(refused!(leases.lease_time_to_live(ttl(1, false))), NO_USER);
    assert_eq!(refused!(leases.lease_leases(by(&reader, pb::LeaseLeasesRequest {}))), DENIED);
    let all = leases.lease_leases(by(&root, pb::LeaseLeasesRequest {})).await.unwrap().into_inner();
    assert_eq!(all.leases.len(), 2);
    for (token, id, expected) in [(&writer, 2, None), (&writer, 1, Some(DENIED)), (&root, 1, None)] {
        let renewals = tokio_stream::iter([pb::LeaseKeepAliveRequest { id }]);
        let mut answers = leases.lease_keep_alive(by(token, renewals)).await.unwrap().into_inner();
        let answer = answers.next().await.unwrap();
        let refusal = answer.as_ref().err().map(|status| (status.code(), status.message()));
        assert_eq!(refusal, expected);
    }
    leases.lease_revoke(by(&writer, pb::LeaseRevokeRequest { id: 2 })).await.unwrap();
}

fn create(key: &'static str, end: &'static str) -> pb::WatchRequest {
    let create = pb::WatchCreateRequest { key: key.into(), range_end: end.into(), ..Default::default() };
    pb::WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) }
}

/// The first answer to a create.
async fn watched(world: &World, token: Option<&str>, request: pb::WatchRequest) -> pb::WatchResponse {
    let requests = tokio_stream::iter([request]).chain(tokio_stream::pending());
    let mut client = WatchClient::new(world.rpc.clone());
    let answers = match token {
        Some(token) => client.watch(by(token, requests)).await,
        None => client.watch(requests).await,
    };
    answers.unwrap().into_inner().next().await.unwrap().unwrap()
}

#[tokio::test]
async fn a_watch_is_judged_when_it_is_created() {
    let Guarded { world, reader, .. } = guarded().await;
    assert!(!watched(&world, Some(&reader), create("r/", "r0")).await.canceled);
    for (token, key, end, reason) in [
        (Some(reader.as_str()), "r/", "r1", "PermissionDenied desc = etcdserver: permission denied"),
        (Some(reader.as_str()), "", "", "PermissionDenied desc = etcdserver: permission denied"),
        (Some("bad"), "r/", "r0", "Unauthenticated desc = etcdserver: invalid auth token"),
        (None, "r/", "r0", "InvalidArgument desc = etcdserver: user name is empty"),
    ] {
        let refused = watched(&world, token, create(key, end)).await;
        let seen = (refused.created, refused.canceled, refused.watch_id, refused.cancel_reason.as_str());
        assert_eq!(seen, (true, true, -1, format!("rpc error: code = {reason}").as_str()));
    }
}

/// As in etcd: what is being watched goes on.
#[tokio::test]
async fn a_watch_outlives_its_permission() {
    let Guarded { world, root, reader, .. } = guarded().await;
    let requests = tokio_stream::iter([create("r/", "r0")]).chain(tokio_stream::pending());
    let mut client = WatchClient::new(world.rpc.clone());
    let mut answers = client.watch(by(&reader, requests)).await.unwrap().into_inner();
    assert!(answers.next().await.unwrap().unwrap().created);
    let delete = pb::AuthUserDeleteRequest { name: "reader".into() };
    world.auth().user_delete(by(&root, delete)).await.unwrap();
    world.kv().put(by(&root, put("r/2"))).await.unwrap();
    let answer = tokio::time::timeout(Duration::from_secs(5), answers.next()).await.unwrap();
    assert_eq!(answer.unwrap().unwrap().events.len(), 1);
}

/// Lock and Election act for their caller, and lose the code of a refusal as all others.
#[tokio::test]
async fn locks_and_elections_are_keys() {
    let Guarded { world, writer, root, .. } = guarded().await;
    world.auth().role_grant_permission(by(&root, read_too())).await.unwrap();
    let mut locks = LockClient::new(world.rpc.clone());
    let lock = |name: &'static str| LockRequest { name: name.into(), lease: 0 };
    locks.lock(by(&writer, lock("w/lock"))).await.unwrap();
    let denied = (Code::Unknown, "etcdserver: permission denied");
    assert_eq!(refused!(locks.lock(by(&writer, lock("s/lock")))), denied);
    assert_eq!(refused!(locks.lock(lock("w/lock"))), (Code::Unknown, "etcdserver: user name is empty"));
    assert_eq!(
        refused!(locks.lock(by("bad", lock("w/lock")))),
        (Code::Unknown, "etcdserver: invalid auth token")
    );
    let mut elections = ElectionClient::new(world.rpc.clone());
    let campaign = |name: &'static str| CampaignRequest { name: name.into(), lease: 0, value: "v".into() };
    elections.campaign(by(&writer, campaign("w/e"))).await.unwrap();
    assert_eq!(refused!(elections.campaign(by(&writer, campaign("s/e")))), denied);
    let leader = |name: &'static str| LeaderRequest { name: name.into() };
    elections.leader(by(&writer, leader("w/e"))).await.unwrap();
    assert_eq!(refused!(elections.leader(by(&writer, leader("s/e")))), denied);
}

fn read_too() -> pb::AuthRoleGrantPermissionRequest {
    let perm = authpb::Permission { perm_type: 2, key: "w/".into(), range_end: "w0".into() };
    pb::AuthRoleGrantPermissionRequest { name: "writer".into(), perm: Some(perm) }
}
