//! What is put into a store before it is taken elsewhere: a little of everything that history can
//! hold.

use anyhow::{Context, Result};
use vetch_api::pb::auth_client::AuthClient;
use vetch_api::pb::request_op::Request;
use vetch_api::{authpb, pb};

use crate::client::Client;

/// Larger than any page, and close to what a request may hold.
const LARGE: usize = 1_400_000;

/// Fills a fresh server.
pub(crate) async fn fill(client: &Client) -> Result<()> {
    for round in 0..3 {
        for key in 0..40 {
            put(client, &format!("/many/{key:03}"), &format!("{key} in round {round}"), 0).await?;
        }
    }
    put(client, "/empty", "", 0).await?;
    put(client, "/large", &"x".repeat(LARGE), 0).await?;
    put(client, "/binary\u{0}\u{1}", "\u{0}", 0).await?;
    for (id, ttl) in [(7001, 5_000), (7002, 60), (-5, 900)] {
        client.lease.clone().lease_grant(pb::LeaseGrantRequest { id, ttl }).await?;
    }
    put(client, "/leased/one", "v", 7001).await?;
    put(client, "/leased/two", "v", 7001).await?;
    put(client, "/leased/freed", "v", 7001).await?;
    put(client, "/leased/freed", "without it", 0).await?;
    put(client, "/leased/other", "v", -5).await?;
    for life in 0..3 {
        put(client, "/reborn", &format!("life {life}"), 0).await?;
        delete(client, "/reborn", "").await?;
    }
    delete(client, "/many/000", "/many/010").await?;
    transact(client, "before").await?;
    // One that is deleted by the very revision that is compacted at, and one that is not.
    put(client, "/gone/before", "v", 0).await?;
    put(client, "/gone/there", "v", 0).await?;
    delete(client, "/gone/before", "").await?;
    let at = delete(client, "/gone/there", "").await?;
    compact(client, at).await?;
    after(client).await
}

/// What happens above the compaction.
async fn after(client: &Client) -> Result<()> {
    put(client, "/reborn", "once more", 0).await?;
    put(client, "/gone/before", "back", 0).await?;
    for round in 0..4 {
        put(client, "/many/020", &format!("later {round}"), 0).await?;
    }
    transact(client, "after").await?;
    delete(client, "/many/030", "/many/033").await?;
    put(client, "/large", &"y".repeat(LARGE), 0).await?;
    client.lease.clone().lease_revoke(pb::LeaseRevokeRequest { id: 7002 }).await?;
    put(client, "/last", "one", 0).await?;
    Ok(())
}

/// The same requests to two servers must have the same outcome after a restore.
pub(crate) async fn go_on(client: &Client) -> Result<()> {
    let at = write_on(client).await?;
    compact(client, at - 1).await
}

/// The same without the compaction. Returns the revision of the last request.
pub(crate) async fn write_on(client: &Client) -> Result<i64> {
    put(client, "/reborn", "after the restore", 0).await?;
    put(client, "/leased/three", "v", 7001).await?;
    transact(client, "restored").await?;
    client.lease.clone().lease_revoke(pb::LeaseRevokeRequest { id: -5 }).await?;
    delete(client, "/many/020", "").await
}

/// Users and roles, without turning authentication on.
pub(crate) async fn add_users(client: &Client) -> Result<()> {
    let mut auth = AuthClient::new(client.channel.clone());
    for name in ["reader", "writer"] {
        auth.role_add(pb::AuthRoleAddRequest { name: name.into() }).await?;
    }
    for (role, key, range_end, kind) in
        [("reader", "/a", "/b", 0), ("reader", "/x", "", 2), ("writer", "\0", "\0", 1)]
    {
        let perm = authpb::Permission { perm_type: kind, key: key.into(), range_end: range_end.into() };
        auth.role_grant_permission(pb::AuthRoleGrantPermissionRequest {
            name: role.into(),
            perm: Some(perm),
        })
        .await?;
    }
    for (name, password) in [("root", "secret"), ("alice", "wonder")] {
        let request =
            pb::AuthUserAddRequest { name: name.into(), password: password.into(), ..Default::default() };
        auth.user_add(request).await?;
    }
    let options = Some(authpb::UserAddOptions { no_password: true });
    auth.user_add(pb::AuthUserAddRequest { name: "cert".into(), options, ..Default::default() }).await?;
    for (user, role) in [("root", "root"), ("alice", "reader"), ("alice", "writer")] {
        auth.user_grant_role(pb::AuthUserGrantRoleRequest { user: user.into(), role: role.into() }).await?;
    }
    Ok(())
}

/// Several changes in one revision, two of them of the same key.
async fn transact(client: &Client, name: &str) -> Result<()> {
    let put = |key: String| {
        let request = pb::PutRequest { key: key.into(), value: name.to_owned().into(), ..Default::default() };
        pb::RequestOp { request: Some(Request::RequestPut(request)) }
    };
    let key = format!("/txn/{name}/twice");
    let nested = pb::TxnRequest { success: vec![put(format!("/txn/{name}/nested"))], ..Default::default() };
    let delete = pb::DeleteRangeRequest { key: "/txn/shared".into(), ..Default::default() };
    let success = vec![
        pb::RequestOp { request: Some(Request::RequestDeleteRange(delete)) },
        put(key),
        pb::RequestOp { request: Some(Request::RequestTxn(nested)) },
        put(format!("/txn/{name}/last")),
    ];
    client.kv.clone().txn(pb::TxnRequest { success, ..Default::default() }).await?;
    self::put(client, "/txn/shared", name, 0).await
}

async fn put(client: &Client, key: &str, value: &str, lease: i64) -> Result<()> {
    let (key, value) = (key.to_owned().into(), value.to_owned().into());
    client.kv.clone().put(pb::PutRequest { key, value, lease, ..Default::default() }).await?;
    Ok(())
}

/// Returns the revision of the delete.
async fn delete(client: &Client, key: &str, range_end: &str) -> Result<i64> {
    let (key, range_end) = (key.to_owned().into(), range_end.to_owned().into());
    let request = pb::DeleteRangeRequest { key, range_end, ..Default::default() };
    let answer = client.kv.clone().delete_range(request).await?.into_inner();
    Ok(answer.header.context("a delete is answered with a header")?.revision)
}

async fn compact(client: &Client, revision: i64) -> Result<()> {
    client.kv.clone().compact(pb::CompactionRequest { revision, physical: true }).await?;
    Ok(())
}
