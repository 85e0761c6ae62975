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
use vetch_node::error::NodeError;
use vetch_node::store::auth::{AuthError, Caller};
use vetch_node::store::request::{KeyRange, RangeRequest};
use vetch_testkit::valid::Valid;

use super::*;

/// CVE-2026-33413: every RPC that needs a user or root asks for one.
#[tokio::test]
async fn nothing_is_served_without_a_user() {
    let Guarded { world, reader, .. } = guarded().await;
    let mut maintenance = MaintenanceClient::new(world.rpc.clone());
    let mut cluster = ClusterClient::new(world.rpc.clone());
    let (mut kv, mut auth) = (world.kv(), world.auth());
    macro_rules! user {
        ($client:ident.$method:ident, $request:expr) => {
            assert_eq!(refused!($client.$method($request)), NO_USER);
            assert_eq!(refused!($client.$method(by("bad", $request))), BAD_TOKEN);
            assert!($client.$method(by(&reader, $request)).await.is_ok());
        };
    }
    macro_rules! root {
        ($client:ident.$method:ident, $request:expr) => {
            assert_eq!(refused!($client.$method($request)), NO_USER);
            assert_eq!(refused!($client.$method(by("bad", $request))), BAD_TOKEN);
            assert_eq!(refused!($client.$method(by(&reader, $request))), DENIED);
        };
    }
    user!(maintenance.status, pb::StatusRequest::default());
    user!(maintenance.alarm, pb::AlarmRequest::default());
    user!(cluster.member_list, pb::MemberListRequest::default());
    root!(maintenance.defragment, pb::DefragmentRequest::default());
    root!(maintenance.hash, pb::HashRequest::default());
    root!(maintenance.hash_kv, pb::HashKvRequest::default());
    root!(maintenance.snapshot, pb::SnapshotRequest::default());
    root!(maintenance.move_leader, pb::MoveLeaderRequest::default());
    root!(maintenance.downgrade, pb::DowngradeRequest::default());
    for action in [1, 2] {
        let alarm = || pb::AlarmRequest { action, member_id: 1, alarm: 1 };
        root!(maintenance.alarm, alarm());
    }
    root!(kv.compact, pb::CompactionRequest::default());
    let urls = || vec!["http://127.0.0.1:1".to_owned()];
    let add = || pb::MemberAddRequest { peer_ur_ls: urls(), is_learner: false };
    root!(cluster.member_add, add());
    root!(cluster.member_remove, pb::MemberRemoveRequest::default());
    root!(cluster.member_update, pb::MemberUpdateRequest::default());
    root!(cluster.member_promote, pb::MemberPromoteRequest::default());
    root!(auth.auth_enable, pb::AuthEnableRequest::default());
    root!(auth.auth_disable, pb::AuthDisableRequest::default());
    root!(auth.user_add, pb::AuthUserAddRequest::default());
    root!(auth.user_list, pb::AuthUserListRequest::default());
    root!(auth.user_get, pb::AuthUserGetRequest::default());
    root!(auth.user_delete, pb::AuthUserDeleteRequest::default());
    root!(auth.user_change_password, pb::AuthUserChangePasswordRequest::default());
    root!(auth.user_grant_role, pb::AuthUserGrantRoleRequest::default());
    root!(auth.user_revoke_role, pb::AuthUserRevokeRoleRequest::default());
    root!(auth.role_add, pb::AuthRoleAddRequest::default());
    root!(auth.role_list, pb::AuthRoleListRequest::default());
    root!(auth.role_get, pb::AuthRoleGetRequest::default());
    root!(auth.role_delete, pb::AuthRoleDeleteRequest::default());
    root!(auth.role_grant_permission, pb::AuthRoleGrantPermissionRequest::default());
    root!(auth.role_revoke_permission, pb::AuthRoleRevokePermissionRequest::default());
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

/// GHSA-xg4h-6gfc-h4m8: a user that may read one key cannot watch all keys from there on.
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

/// A read that began while authentication was off, and ends when it is on: what it finds may have
/// been written since.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_by_a_caller_without_a_name_is_not_answered_once_authentication_is_on() {
    let world = World::new().await;
    let put = |n| pb::PutRequest { key: format!("k/{n}").into(), ..Default::default() };
    let puts = (0..50).map(|n| pb::RequestOp { request: Some(Op::RequestPut(put(n))) }).collect();
    world.kv().txn(pb::TxnRequest { success: puts, ..Default::default() }).await.unwrap();
    let node = world.node.for_caller(Caller::Anonymous);
    let mut range = RangeRequest::new(KeyRange { key: "k/".into(), range_end: "k0".into() });
    range.serializable = true;
    let mut chunks = node.range_stream(range.valid(), 1 << 20);
    let first = chunks.next().await.unwrap().unwrap();
    assert!(first.end.is_none(), "there is more to come");
    world.enable().await;
    let mut last = None;
    while let Some(chunk) = chunks.next().await {
        last = Some(chunk.map(drop));
    }
    let refusal = last.unwrap().unwrap_err();
    assert_eq!(refusal, NodeError::from(AuthError::UserEmpty));
}
