//! Users and roles themselves: answers, refusals, and who may ask.

use tonic::Code;
use vetch_api::pb;

use super::*;

fn name(name: &str) -> String {
    name.into()
}

#[tokio::test]
async fn the_answers_are_etcds() {
    let world = World::new().await;
    let mut auth = world.auth();
    let status = auth.auth_status(pb::AuthStatusRequest {}).await.unwrap().into_inner();
    assert_eq!(status, pb::AuthStatusResponse { header: world.header(1), enabled: false, auth_revision: 1 });
    let refusal = refused!(auth.auth_enable(pb::AuthEnableRequest {}));
    assert_eq!(refusal, (Code::FailedPrecondition, "etcdserver: root user does not exist"));
    world.add_user("root", "pw").await;
    let refusal = refused!(auth.auth_enable(pb::AuthEnableRequest {}));
    assert_eq!(refusal, (Code::FailedPrecondition, "etcdserver: root user does not have root role"));
    world.add_user("alice", "pw").await;
    world.permit("alice", 2, "k", "l").await;
    auth.role_add(pb::AuthRoleAddRequest { name: name("root") }).await.unwrap();
    let users = auth.user_list(pb::AuthUserListRequest {}).await.unwrap().into_inner();
    assert_eq!(users.users, ["alice", "root"]);
    let roles = auth.role_list(pb::AuthRoleListRequest {}).await.unwrap().into_inner();
    assert_eq!(roles.roles, ["alice", "root"]);
    let user = auth.user_get(pb::AuthUserGetRequest { name: name("alice") }).await.unwrap().into_inner();
    assert_eq!(user, pb::AuthUserGetResponse { header: world.header(1), roles: vec![name("alice")] });
    let role = auth.role_get(pb::AuthRoleGetRequest { role: name("alice") }).await.unwrap().into_inner();
    let permission = authpb::Permission { perm_type: 2, key: "k".into(), range_end: "l".into() };
    assert_eq!(role.perm, [permission]);
    let role = auth.role_get(pb::AuthRoleGetRequest { role: name("root") }).await.unwrap().into_inner();
    let everything = authpb::Permission { perm_type: 2, key: "".into(), range_end: "\0".into() };
    assert_eq!(role.perm, [everything]);
    let status = auth.auth_status(pb::AuthStatusRequest {}).await.unwrap().into_inner();
    assert_eq!(status.auth_revision, 7);
}

#[tokio::test]
async fn the_refusals_are_etcds() {
    let world = World::new().await;
    let mut auth = world.auth();
    let precondition = |text: &'static str| (Code::FailedPrecondition, text);
    let argument = |text: &'static str| (Code::InvalidArgument, text);
    let no_user = precondition("etcdserver: user name not found");
    let no_role = precondition("etcdserver: role name not found");
    let user_add = |user: &str| pb::AuthUserAddRequest { name: name(user), ..Default::default() };
    assert_eq!(refused!(auth.user_add(user_add(""))), argument("etcdserver: user name is empty"));
    auth.user_add(user_add("u")).await.unwrap();
    let taken = precondition("etcdserver: user name already exists");
    assert_eq!(refused!(auth.user_add(user_add("u"))), taken);
    assert_eq!(refused!(auth.user_get(pb::AuthUserGetRequest { name: name("x") })), no_user);
    assert_eq!(refused!(auth.user_delete(pb::AuthUserDeleteRequest { name: name("x") })), no_user);
    let change = pb::AuthUserChangePasswordRequest { name: name("x"), ..Default::default() };
    assert_eq!(refused!(auth.user_change_password(change)), no_user);
    let grant = |user: &str, role: &str| pb::AuthUserGrantRoleRequest { user: name(user), role: name(role) };
    assert_eq!(refused!(auth.user_grant_role(grant("x", "x"))), no_user);
    assert_eq!(refused!(auth.user_grant_role(grant("u", "x"))), no_role);
    let revoke =
        |user: &str, role: &str| pb::AuthUserRevokeRoleRequest { name: name(user), role: name(role) };
    assert_eq!(refused!(auth.user_revoke_role(revoke("x", "x"))), no_user);
    let not_granted = precondition("etcdserver: role is not granted to the user");
    assert_eq!(refused!(auth.user_revoke_role(revoke("u", "x"))), not_granted);
    let role_add = |role: &str| pb::AuthRoleAddRequest { name: name(role) };
    assert_eq!(refused!(auth.role_add(role_add(""))), argument("etcdserver: role name is empty"));
    auth.role_add(role_add("r")).await.unwrap();
    assert_eq!(refused!(auth.role_add(role_add("r"))), precondition("etcdserver: role name already exists"));
    assert_eq!(refused!(auth.role_get(pb::AuthRoleGetRequest { role: name("x") })), no_role);
    assert_eq!(refused!(auth.role_delete(pb::AuthRoleDeleteRequest { role: name("x") })), no_role);
    let permit = |role: &str, perm| pb::AuthRoleGrantPermissionRequest { name: name(role), perm };
    let refusal = refused!(auth.role_grant_permission(permit("x", None)));
    assert_eq!(refusal, argument("etcdserver: permission not given"));
    let empty = Some(authpb::Permission::default());
    let refusal = refused!(auth.role_grant_permission(permit("x", empty)));
    assert_eq!(refusal, argument("etcdserver: invalid auth management"));
    let key = Some(authpb::Permission { key: "k".into(), ..Default::default() });
    assert_eq!(refused!(auth.role_grant_permission(permit("x", key))), no_role);
    let deny = |role: &str| pb::AuthRoleRevokePermissionRequest { role: name(role), ..Default::default() };
    assert_eq!(refused!(auth.role_revoke_permission(deny("x"))), no_role);
    let not_granted = precondition("etcdserver: permission is not granted to the role");
    assert_eq!(refused!(auth.role_revoke_permission(deny("r"))), not_granted);
}

#[tokio::test]
async fn root_cannot_lock_everybody_out() {
    let Guarded { world, root, .. } = guarded().await;
    let mut auth = world.auth();
    let invalid = (Code::InvalidArgument, "etcdserver: invalid auth management");
    let delete = pb::AuthUserDeleteRequest { name: name("root") };
    assert_eq!(refused!(auth.user_delete(by(&root, delete))), invalid);
    let delete = pb::AuthRoleDeleteRequest { role: name("root") };
    assert_eq!(refused!(auth.role_delete(by(&root, delete))), invalid);
    let revoke = pb::AuthUserRevokeRoleRequest { name: name("root"), role: name("root") };
    assert_eq!(refused!(auth.user_revoke_role(by(&root, revoke))), invalid);
}

#[tokio::test]
async fn users_may_look_at_themselves_and_at_their_roles() {
    let Guarded { world, reader, .. } = guarded().await;
    let mut auth = world.auth();
    let user = |user: &str| pb::AuthUserGetRequest { name: name(user) };
    let role = |role: &str| pb::AuthRoleGetRequest { role: name(role) };
    assert_eq!(auth.user_get(by(&reader, user("reader"))).await.unwrap().into_inner().roles, ["reader"]);
    assert_eq!(refused!(auth.user_get(by(&reader, user("writer")))), DENIED);
    assert_eq!(refused!(auth.user_get(by(&reader, user("missing")))), DENIED);
    assert_eq!(auth.role_get(by(&reader, role("reader"))).await.unwrap().into_inner().perm.len(), 1);
    assert_eq!(refused!(auth.role_get(by(&reader, role("writer")))), DENIED);
    assert_eq!(refused!(auth.user_get(user("reader"))), NO_USER);
}

/// Users and roles survive a restart of the node, tokens do not.
#[tokio::test]
async fn users_survive_a_restart_and_tokens_do_not() {
    let Guarded { world, root, .. } = guarded().await;
    let world = world.restart().await;
    assert_eq!(refused!(world.kv().range(by(&root, get("secret", "")))), BAD_TOKEN);
    assert_eq!(refused!(world.kv().range(get("secret", ""))), NO_USER);
    let reader = world.log_in("reader", "pw").await;
    world.kv().range(by(&reader, get("r/1", ""))).await.unwrap();
    assert_eq!(refused!(world.kv().range(by(&reader, get("secret", "")))), DENIED);
    let status = world.auth().auth_status(pb::AuthStatusRequest {}).await.unwrap().into_inner();
    assert_eq!((status.enabled, status.auth_revision), (true, 11));
}
