//! Each security advisory of 2026 about etcd's authentication, tried here.
//!
//! The two about TLS, GHSA-3wh4-j44w-pg92 and GHSA-6vch-q96h-7gc3, are tried where TLS is.

use tokio_stream::StreamExt;
use vetch_api::pb;
use vetch_api::pb::cluster_client::ClusterClient;
use vetch_api::pb::maintenance_client::MaintenanceClient;
use vetch_api::pb::request_op::Request as Op;
use vetch_api::pb::watch_client::WatchClient;
use vetch_api::pb::watch_request::RequestUnion;

use super::*;

/// CVE-2026-33413: every RPC that needs a user or root asks for one.
#[tokio::test]
async fn nothing_is_served_to_nobody() {
    let Guarded { world, reader, .. } = guarded().await;
    let mut maintenance = MaintenanceClient::new(world.rpc.clone());
    let mut cluster = ClusterClient::new(world.rpc.clone());
    let (mut kv, mut auth) = (world.kv(), world.auth());
    macro_rules! user {
        ($call:expr) => {
            assert_eq!(refused!($call(tonic::Request::new(Default::default()))), NO_USER);
            assert_eq!(refused!($call(by("bad", Default::default()))), BAD_TOKEN);
            assert!($call(by(&reader, Default::default())).await.is_ok());
        };
    }
    macro_rules! root {
        ($call:expr) => {
            root!($call, Default::default())
        };
        ($call:expr, $request:expr) => {
            assert_eq!(refused!($call(tonic::Request::new($request))), NO_USER);
            assert_eq!(refused!($call(by("bad", $request))), BAD_TOKEN);
            assert_eq!(refused!($call(by(&reader, $request))), DENIED);
        };
    }
    user!(|r: tonic::Request<pb::StatusRequest>| maintenance.status(r));
    user!(|r: tonic::Request<pb::AlarmRequest>| maintenance.alarm(r));
    user!(|r: tonic::Request<pb::MemberListRequest>| cluster.member_list(r));
    root!(|r: tonic::Request<pb::DefragmentRequest>| maintenance.defragment(r));
    root!(|r: tonic::Request<pb::HashRequest>| maintenance.hash(r));
    root!(|r: tonic::Request<pb::HashKvRequest>| maintenance.hash_kv(r));
    root!(|r: tonic::Request<pb::SnapshotRequest>| maintenance.snapshot(r));
    root!(|r: tonic::Request<pb::MoveLeaderRequest>| maintenance.move_leader(r));
    root!(|r: tonic::Request<pb::DowngradeRequest>| maintenance.downgrade(r));
    for action in [1, 2] {
        let alarm = || pb::AlarmRequest { action, member_id: 1, alarm: 1 };
        root!(|r: tonic::Request<pb::AlarmRequest>| maintenance.alarm(r), alarm());
    }
    root!(|r: tonic::Request<pb::CompactionRequest>| kv.compact(r));
    let urls = || vec!["http://127.0.0.1:1".to_owned()];
    let add = || pb::MemberAddRequest { peer_ur_ls: urls(), is_learner: false };
    root!(|r: tonic::Request<pb::MemberAddRequest>| cluster.member_add(r), add());
    root!(|r: tonic::Request<pb::MemberRemoveRequest>| cluster.member_remove(r));
    root!(|r: tonic::Request<pb::MemberUpdateRequest>| cluster.member_update(r));
    root!(|r: tonic::Request<pb::MemberPromoteRequest>| cluster.member_promote(r));
    root!(|r: tonic::Request<pb::AuthEnableRequest>| auth.auth_enable(r));
    root!(|r: tonic::Request<pb::AuthDisableRequest>| auth.auth_disable(r));
    root!(|r: tonic::Request<pb::AuthUserAddRequest>| auth.user_add(r));
    root!(|r: tonic::Request<pb::AuthUserListRequest>| auth.user_list(r));
    root!(|r: tonic::Request<pb::AuthUserGetRequest>| auth.user_get(r));
    root!(|r: tonic::Request<pb::AuthUserDeleteRequest>| auth.user_delete(r));
    root!(|r: tonic::Request<pb::AuthUserChangePasswordRequest>| auth.user_change_password(r));
    root!(|r: tonic::Request<pb::AuthUserGrantRoleRequest>| auth.user_grant_role(r));
    root!(|r: tonic::Request<pb::AuthUserRevokeRoleRequest>| auth.user_revoke_role(r));
    root!(|r: tonic::Request<pb::AuthRoleAddRequest>| auth.role_add(r));
    root!(|r: tonic::Request<pb::AuthRoleListRequest>| auth.role_list(r));
    root!(|r: tonic::Request<pb::AuthRoleGetRequest>| auth.role_get(r));
    root!(|r: tonic::Request<pb::AuthRoleDeleteRequest>| auth.role_delete(r));
    root!(|r: tonic::Request<pb::AuthRoleGrantPermissionRequest>| auth.role_grant_permission(r));
    root!(|r: tonic::Request<pb::AuthRoleRevokePermissionRequest>| auth.role_revoke_permission(r));
    // These two are for everybody, though a bad token is still a bad token.
    auth.auth_status(pb::AuthStatusRequest {}).await.unwrap();
    assert_eq!(refused!(auth.auth_status(by("bad", pb::AuthStatusRequest {}))), BAD_TOKEN);
    world.log_in("reader", "pw").await;
}

fn op(request: Op) -> pb::RequestOp {
    pb::RequestOp { request: Some(request) }
}

fn txn(success: Vec<pb::RequestOp>) -> pb::TxnRequest {
    pb::TxnRequest { success, ..Default::default() }
}

/// CVE-2026-33343: a transaction in a transaction is no way around permissions.
#[tokio::test]
async fn nested_transactions_are_judged() {
    let Guarded { world, reader, writer, .. } = guarded().await;
    let read = || op(Op::RequestRange(get("secret", "")));
    let write = || op(Op::RequestPut(put("secret")));
    for (token, bad) in
        [(&reader, read()), (&writer, write()), (&writer, op(Op::RequestDeleteRange(delete("secret", ""))))]
    {
        let nested = op(Op::RequestTxn(txn(vec![bad.clone()])));
        let deeper =
            op(Op::RequestTxn(pb::TxnRequest { failure: vec![nested.clone()], ..Default::default() }));
        for request in [txn(vec![bad]), txn(vec![nested]), txn(vec![deeper])] {
            assert_eq!(refused!(world.kv().txn(by(token, request.clone()))), DENIED);
            let otherwise = pb::TxnRequest { failure: request.success, ..Default::default() };
            assert_eq!(refused!(world.kv().txn(by(token, otherwise))), DENIED);
        }
    }
    let compare = pb::Compare { key: "secret".into(), ..Default::default() };
    let nested = pb::TxnRequest { compare: vec![compare], ..Default::default() };
    assert_eq!(refused!(world.kv().txn(by(&writer, txn(vec![op(Op::RequestTxn(nested))])))), DENIED);
    let fine = op(Op::RequestTxn(txn(vec![op(Op::RequestPut(put("w/1")))])));
    world.kv().txn(by(&writer, txn(vec![fine]))).await.unwrap();
}

/// Fixed in 3.6.11: previous values and leases of puts in transactions.
#[tokio::test]
async fn puts_in_transactions_need_all_that_puts_need() {
    let Guarded { world, root, writer, .. } = guarded().await;
    world.leases().lease_grant(by(&root, pb::LeaseGrantRequest { id: 5, ttl: 100 })).await.unwrap();
    world.kv().put(by(&root, pb::PutRequest { lease: 5, ..put("secret") })).await.unwrap();
    let cases = [pb::PutRequest { prev_kv: true, ..put("w/1") }, pb::PutRequest { lease: 5, ..put("w/1") }];
    for put in cases {
        assert_eq!(refused!(world.kv().put(by(&writer, put.clone()))), DENIED);
        assert_eq!(refused!(world.kv().txn(by(&writer, txn(vec![op(Op::RequestPut(put))])))), DENIED);
    }
    let delete = pb::DeleteRangeRequest { prev_kv: true, ..delete("w/1", "") };
    assert_eq!(refused!(world.kv().delete_range(by(&writer, delete.clone()))), DENIED);
    let request = txn(vec![op(Op::RequestDeleteRange(delete))]);
    assert_eq!(refused!(world.kv().txn(by(&writer, request))), DENIED);
}

/// GHSA-xg4h-6gfc-h4m8: whoever may read one key cannot watch all keys from there on.
#[tokio::test]
async fn an_open_watch_is_more_than_its_first_key() {
    let Guarded { world, reader, .. } = guarded().await;
    for (key, end) in [("r/1", "\0"), ("r/", "\0"), ("", "\0")] {
        let create = pb::WatchCreateRequest { key: key.into(), range_end: end.into(), ..Default::default() };
        let request = pb::WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) };
        let requests = tokio_stream::iter([request]).chain(tokio_stream::pending());
        let mut client = WatchClient::new(world.rpc.clone());
        let mut answers = client.watch(by(&reader, requests)).await.unwrap().into_inner();
        let answer = answers.next().await.unwrap().unwrap();
        assert!(answer.canceled && answer.watch_id == -1, "{key:?}");
    }
}
