use tonic::Code;
use vetch_api::health::health_check_response::ServingStatus;
use vetch_api::health::health_client::HealthClient;
use vetch_api::health::{HealthCheckRequest, HealthCheckResponse, HealthListRequest};
use vetch_api::pb;
use vetch_api::pb::cluster_client::ClusterClient;
use vetch_api::pb::maintenance_client::MaintenanceClient;

use crate::{MEMBER, World, refused};

fn peers(url: &str) -> Vec<String> {
    vec![url.to_owned()]
}

#[tokio::test]
async fn the_one_member_is_listed_without_a_revision() {
    let world = World::new().await;
    let mut cluster = ClusterClient::new(world.rpc.clone());
    let list = cluster.member_list(pb::MemberListRequest { linearizable: true }).await.unwrap().into_inner();
    assert_eq!(list.header, world.header(0));
    let member = &list.members[0];
    assert_eq!((member.id, member.name.as_str(), member.is_learner), (MEMBER, "m1", false));
    assert_eq!(member.peer_ur_ls, ["http://127.0.0.1:2380"]);
    assert_eq!(member.client_ur_ls, ["http://127.0.0.1:2379"]);

    let same = pb::MemberUpdateRequest { id: MEMBER, peer_ur_ls: peers("http://127.0.0.1:2380") };
    assert_eq!(cluster.member_update(same).await.unwrap().into_inner().members, list.members);
}

/// The last two deviate: etcd would add the member, and would take the other URL.
#[tokio::test]
async fn changes_of_the_membership_are_refused() {
    let world = World::new().await;
    let mut cluster = ClusterClient::new(world.rpc.clone());
    let add = |url: &str, is_learner| pb::MemberAddRequest { peer_ur_ls: peers(url), is_learner };

    let bad = cluster.member_add(add("127.0.0.1:1", false)).await;
    assert_eq!(refused(bad), (Code::InvalidArgument, "etcdserver: given member URLs are invalid".into()));
    let known = cluster.member_add(add("http://127.0.0.1:2380", true)).await;
    assert_eq!(refused(known), (Code::FailedPrecondition, "etcdserver: Peer URLs already exists".into()));
    let missing = || (Code::NotFound, "etcdserver: member not found".to_owned());
    assert_eq!(refused(cluster.member_remove(pb::MemberRemoveRequest { id: 5 }).await), missing());
    assert_eq!(refused(cluster.member_promote(pb::MemberPromoteRequest { id: 5 }).await), missing());
    let update = pb::MemberUpdateRequest { id: 5, peer_ur_ls: peers("http://h:1") };
    assert_eq!(refused(cluster.member_update(update).await), missing());
    let voter = cluster.member_promote(pb::MemberPromoteRequest { id: MEMBER }).await;
    let text = "etcdserver: can only promote a learner member";
    assert_eq!(refused(voter), (Code::FailedPrecondition, text.into()));

    let alone = || {
        let text = "etcdserver: re-configuration failed due to not enough started members";
        (Code::Unknown, text.to_owned())
    };
    assert_eq!(refused(cluster.member_remove(pb::MemberRemoveRequest { id: MEMBER }).await), alone());
    assert_eq!(refused(cluster.member_add(add("http://127.0.0.1:1", false)).await), alone());
    let moved = pb::MemberUpdateRequest { id: MEMBER, peer_ur_ls: peers("http://h:1") };
    assert_eq!(refused(cluster.member_update(moved).await).0, Code::Unimplemented);
}

#[tokio::test]
async fn a_status_lists_alarms_in_words() {
    let world = World::new().await;
    let mut maintenance = MaintenanceClient::new(world.rpc.clone());
    let raise = pb::AlarmRequest { action: 1, member_id: MEMBER, alarm: 1 };
    let raised = maintenance.alarm(raise).await.unwrap().into_inner();
    let nospace = pb::AlarmMember { member_id: MEMBER, alarm: 1 };
    assert_eq!((raised.header, raised.alarms), (world.header(1), vec![nospace]));

    let status = maintenance.status(pb::StatusRequest {}).await.unwrap().into_inner();
    assert_eq!(status.errors, [format!("memberID:{MEMBER} alarm:NOSPACE")]);
    assert_eq!((status.version.as_str(), status.storage_version.as_str()), ("3.7.1", "3.7.0"));
    assert_eq!((status.leader, status.is_learner, status.db_size_quota), (MEMBER, false, 2 << 30));
    assert_eq!(status.downgrade_info, Some(pb::DowngradeInfo::default()));

    // No alarm is of member 0, so this clears nothing.
    let other = pb::AlarmRequest { action: 2, member_id: 0, alarm: 1 };
    assert_eq!(maintenance.alarm(other).await.unwrap().into_inner().alarms, []);
    let lower = pb::AlarmRequest { action: 2, ..raise };
    assert_eq!(maintenance.alarm(lower).await.unwrap().into_inner().alarms, [nospace]);
    let get = pb::AlarmRequest::default();
    assert_eq!(maintenance.alarm(get).await.unwrap().into_inner().alarms, []);
}

#[tokio::test]
async fn a_server_without_data_has_a_size_to_divide_by() {
    let world = World::new().await;
    let mut maintenance = MaintenanceClient::new(world.rpc.clone());
    let status = maintenance.status(pb::StatusRequest {}).await.unwrap().into_inner();
    assert_eq!((status.db_size, status.db_size_in_use), (4096, 4096));
    let value = "x".repeat(10_000);
    let put = pb::PutRequest { key: "k".into(), value: value.into(), ..Default::default() };
    world.kv().put(put).await.unwrap();
    let status = maintenance.status(pb::StatusRequest {}).await.unwrap().into_inner();
    let bytes = i64::try_from(world.node.status().live_bytes).unwrap();
    assert!(bytes > 10_000, "{bytes}");
    assert_eq!((status.db_size, status.db_size_in_use), (bytes, bytes));
}

#[tokio::test]
async fn chores_that_need_no_second_member_are_done() {
    let world = World::new().await;
    let mut maintenance = MaintenanceClient::new(world.rpc.clone());
    let moved = maintenance.move_leader(pb::MoveLeaderRequest { target_id: MEMBER }).await.unwrap();
    assert_eq!(moved.into_inner().header, None);
    let nowhere = maintenance.move_leader(pb::MoveLeaderRequest { target_id: 5 }).await;
    assert_eq!(refused(nowhere), (Code::FailedPrecondition, "etcdserver: bad leader transferee".into()));
    let defragmented = maintenance.defragment(pb::DefragmentRequest {}).await.unwrap();
    assert_eq!(defragmented.into_inner().header, None);
    let cancelled = pb::DowngradeRequest { action: 2, version: String::new() };
    let cancelled = maintenance.downgrade(cancelled).await.unwrap().into_inner();
    assert_eq!((cancelled.header, cancelled.version.as_str()), (world.header(1), "3.7"));
    let unknown = maintenance.downgrade(pb::DowngradeRequest { action: 7, version: "3.6".into() }).await;
    assert_eq!(refused(unknown), (Code::Unknown, "etcdserver: unknown method".into()));
}

#[tokio::test]
async fn health_is_that_of_the_whole_server() {
    let world = World::new().await;
    let mut health = HealthClient::new(world.rpc.clone());
    let whole = HealthCheckRequest { service: String::new() };
    let serving = HealthCheckResponse { status: ServingStatus::Serving.into() };
    assert_eq!(health.check(whole.clone()).await.unwrap().into_inner(), serving);
    let other = HealthCheckRequest { service: "etcdserverpb.KV".into() };
    assert_eq!(refused(health.check(other.clone()).await), (Code::NotFound, "unknown service".into()));

    let listed = health.list(HealthListRequest {}).await.unwrap().into_inner();
    assert_eq!(listed.statuses, [(String::new(), serving)].into());
    let mut unknown = health.watch(other).await.unwrap().into_inner();
    let reading = unknown.message().await.unwrap().unwrap();
    assert_eq!(reading.status(), ServingStatus::ServiceUnknown);
    let mut known = health.watch(whole).await.unwrap().into_inner();
    assert_eq!(known.message().await.unwrap().unwrap(), serving);
    world.node.shutdown().await;
    assert_eq!(known.message().await.unwrap().unwrap().status(), ServingStatus::NotServing);
}

#[tokio::test]
async fn what_is_no_rpc_is_unimplemented_in_the_words_of_grpc() {
    let world = World::new().await;
    for (path, text) in [
        ("/etcdserverpb.KV/Nope", "unknown method Nope for service etcdserverpb.KV"),
        ("/etcdserverpb.Lease/Nope", "unknown method Nope for service etcdserverpb.Lease"),
        ("/etcdserverpb.Nope/Nope", "unknown service etcdserverpb.Nope"),
    ] {
        let request = http::Request::post(path).body(tonic::body::Body::empty()).unwrap();
        let response = world.rpc.answer(request).await;
        let status = tonic::Status::from_header_map(response.headers()).unwrap();
        assert_eq!((status.code(), status.message()), (Code::Unimplemented, text), "{path}");
    }
}
